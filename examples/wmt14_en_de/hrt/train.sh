#!/usr/bin/env bash
# HRT on WMT14 English-German at full size: the autoregressive teacher, its translations, HRT fine-tuned from it on both targets.
#
#   DATA=data-bin/wmt14_en_de bash examples/wmt14_en_de/hrt/train.sh
#   DATA=... GPUS=8 CHUNK_SIZES=2,3,4 bash examples/wmt14_en_de/hrt/train.sh
#   DATA=... STUDENT=mask_predict bash examples/wmt14_en_de/hrt/train.sh      Mask-Predict from the same teacher (../../common/hrt_at_full_size.sh)
#
# DATA: binarised with a joint vocabulary of about 32,000 BPE merges (../prepare.sh).
# Paper (section 5): base model, HRT fine-tuned from the teacher for as many updates, beam 5, a window of 16 relative positions, a linear
# curriculum over the whole training; everything else as Vaswani et al. (2017): label smoothing 0.1, Adam (0.9, 0.98), 4,000 warm-up
# updates, about 25,000 target tokens an update. RoyalFlush: 300,000 updates for each. No code was released.
# Ours: RAW (0.5), the probability of a raw target, which the paper chose on the validation set and does not state for this pair.
# GPUS (1): 1, 2, 4 or 8; MAX_TOKENS of a GPU's batch (6250); the tokens of an update stay the same. PRECISION (float16), or bfloat16, float32.
# UPDATES (300000), CHUNK_SIZES (2), ENCODER_LAYERS (6, or 20), SEED (1). OUT (runs/wmt14_en_de/hrt):
# at/averaged.pt, distilled/data-bin, hrt/averaged.pt. Continues where it was stopped.
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
DATA=${DATA:-data-bin/wmt14_en_de} SRC=${SRC:-en} TGT=${TGT:-de} EMBEDDINGS=--share-all-embeddings DROPOUT=0.1 UPDATES=${UPDATES:-300000}
OUT=${OUT:-runs/wmt14_${SRC}_${TGT}/hrt}
source "$COMMON/hrt_at_full_size.sh"
