#!/usr/bin/env bash
# Translates the test set with the averaged HRT model of train.sh.
#
#   DATA=data-bin/wmt14_en_de bash examples/wmt14_en_de/hrt/translate.sh [more options of fairseq-generate]
#
# Paper: CHUNK (2), BEAM (5) and NAT_BEAM (5) of the two stages. RoyalFlush: length penalty 0.6, at most 200 tokens. Ours: the penalty
# counts in both stages; --hrt-scoring eq2 ranks the second by the paper's Eq. 2, which has none. Results: $OUT/test.log and test.bleu
# (OUT=runs/wmt14_en_de/hrt). Reported: 27.85 BLEU with beams (1,1) on En-De, the teacher 27.45 with beam 5.
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
DATA=${DATA:-data-bin/wmt14_en_de} SRC=${SRC:-en} TGT=${TGT:-de}
OUT=${OUT:-runs/wmt14_${SRC}_${TGT}/hrt}
source "$COMMON/translate_hrt.sh"
