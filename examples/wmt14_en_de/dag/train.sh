#!/usr/bin/env bash
# Directed acyclic Transformer on WMT14 English-German with the papers' hyper-parameters: likelihood, then fuzzy n-gram alignment.
#
#   DATA=data-bin/wmt14_en_de bash examples/wmt14_en_de/dag/train.sh                    both stages, on raw targets
#   DATA=... SRC=de TGT=en GPUS=8 bash examples/wmt14_en_de/dag/train.sh
#
# DATA: binarised with a joint vocabulary (../prepare.sh). The options of both stages are in ../../common/dag_at_full_size.sh.
# GPUS (1): 1, 2, 4 or 8; MAX_TOKENS of a GPU's batch (4096); the tokens of an update stay the same. PRECISION (float16), or bfloat16, float32.
# SCALE (8): vertices for each source token. SEED (1).
# OUT (runs/wmt14_en_de/dag): nll/averaged.pt and fuzzy/averaged.pt. Continues where it was stopped.
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
DATA=${DATA:-data-bin/wmt14_en_de} SRC=${SRC:-en} TGT=${TGT:-de} EMBEDDINGS=--share-all-embeddings
OUT=${OUT:-runs/wmt14_${SRC}_${TGT}/dag}
source "$COMMON/dag_at_full_size.sh"
