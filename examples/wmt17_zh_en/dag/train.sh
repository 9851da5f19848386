#!/usr/bin/env bash
# Directed acyclic Transformer on WMT17 Chinese-English with the papers' hyper-parameters: likelihood, then fuzzy n-gram alignment.
#
#   DATA=data-bin/wmt17_zh_en bash examples/wmt17_zh_en/dag/train.sh                    both stages, on raw targets
#   DATA=... SRC=en TGT=zh GPUS=8 bash examples/wmt17_zh_en/dag/train.sh
#
# DATA: binarised with a vocabulary for each side (../prepare.sh). The options of both stages are in ../../common/dag_at_full_size.sh.
# GPUS (1): 1, 2, 4 or 8; MAX_TOKENS of a GPU's batch (4096); the tokens of an update stay the same. PRECISION (float16), or bfloat16, float32.
# SCALE (8): vertices for each source token. SEED (1).
# OUT (runs/wmt17_zh_en/dag): nll/averaged.pt and fuzzy/averaged.pt. Continues where it was stopped.
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
DATA=${DATA:-data-bin/wmt17_zh_en} SRC=${SRC:-zh} TGT=${TGT:-en} EMBEDDINGS=--share-decoder-input-output-embed
OUT=${OUT:-runs/wmt17_${SRC}_${TGT}/dag}
source "$COMMON/dag_at_full_size.sh"
