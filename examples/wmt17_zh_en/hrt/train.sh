#!/usr/bin/env bash
# HRT on WMT17 Chinese-English at full size: the autoregressive teacher, its translations, HRT fine-tuned from it on both targets.
#
#   DATA=data-bin/wmt17_zh_en bash examples/wmt17_zh_en/hrt/train.sh
#   DATA=... GPUS=8 ENCODER_LAYERS=20 bash examples/wmt17_zh_en/hrt/train.sh
#
# DATA: binarised with a vocabulary for each side (../prepare.sh).
# Paper (section 5): a translation of Chinese into English, base model, HRT fine-tuned from the teacher for as many updates, beam 5, a window of
# 16 relative positions, a linear curriculum; everything else as Vaswani et al. (2017): label smoothing 0.1, Adam (0.9, 0.98), 4,000 warm-up
# updates, about 25,000 target tokens an update. RoyalFlush: 300,000 updates for each. No code was released.
# Ours: WMT17, where the paper's corpus is one that the text at hand does not name; RAW (0.5), the probability of a raw target.
# GPUS (1): 1, 2, 4 or 8; MAX_TOKENS of a GPU's batch (6250); the tokens of an update stay the same. PRECISION (float16), or bfloat16, float32.
# UPDATES (300000), CHUNK_SIZES (2), ENCODER_LAYERS (6, or 20), SEED (1).
# OUT (runs/wmt17_zh_en/hrt): at/averaged.pt, distilled/data-bin, hrt/averaged.pt. Continues where it was stopped.
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
DATA=${DATA:-data-bin/wmt17_zh_en} SRC=${SRC:-zh} TGT=${TGT:-en} EMBEDDINGS=--share-decoder-input-output-embed DROPOUT=0.1
UPDATES=${UPDATES:-300000} OUT=${OUT:-runs/wmt17_${SRC}_${TGT}/hrt}
source "$COMMON/hrt_at_full_size.sh"
