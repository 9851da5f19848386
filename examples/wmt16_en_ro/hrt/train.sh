#!/usr/bin/env bash
# HRT on WMT16 English-Romanian at full size: the autoregressive teacher, its translations, HRT fine-tuned from it on both targets.
#
#   DATA=data-bin/wmt16_en_ro bash examples/wmt16_en_ro/hrt/train.sh
#   DATA=... SRC=ro TGT=en GPUS=8 bash examples/wmt16_en_ro/hrt/train.sh
#
# DATA: 610,000 pairs, binarised with a joint vocabulary (../prepare.sh).
# Paper (section 5): base model, HRT fine-tuned from the teacher for as many updates, beam 5, a window of 16 relative positions, a linear
# curriculum; everything else as Vaswani et al. (2017): label smoothing 0.1, Adam (0.9, 0.98), 4,000 warm-up updates, about 25,000 target
# tokens an update. No code was released.
# Ours, because the paper does not say: dropout 0.3, as others have for this corpus (Ghazvininejad et al., 2019), UPDATES (100000), RAW
# (0.5), the probability of a raw target, chosen there on the validation set.
# GPUS (1): 1, 2, 4 or 8; MAX_TOKENS of a GPU's batch (6250); the tokens of an update stay the same. PRECISION (float16), or bfloat16, float32.
# CHUNK_SIZES (2), ENCODER_LAYERS (6, or 20), SEED (1). OUT (runs/wmt16_en_ro/hrt): at/averaged.pt,
# distilled/data-bin, hrt/averaged.pt. Continues where it was stopped.
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
DATA=${DATA:-data-bin/wmt16_en_ro} SRC=${SRC:-en} TGT=${TGT:-ro} EMBEDDINGS=--share-all-embeddings DROPOUT=0.3 UPDATES=${UPDATES:-100000}
OUT=${OUT:-runs/wmt16_${SRC}_${TGT}/hrt}
source "$COMMON/hrt_at_full_size.sh"
