#!/usr/bin/env bash
# Translates the test set with the averaged HRT model of train.sh.
#
#   DATA=data-bin/wmt17_zh_en bash examples/wmt17_zh_en/hrt/translate.sh [more options of fairseq-generate]
#
# Paper: CHUNK (2), BEAM (5) and NAT_BEAM (5) of the two stages. RoyalFlush: length penalty 0.6, at most 200 tokens. Ours: the penalty
# counts in both stages; --hrt-scoring eq2 ranks the second by the paper's Eq. 2, which has none. Results: $OUT/test.log and test.bleu
# (OUT=runs/wmt17_zh_en/hrt).
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
DATA=${DATA:-data-bin/wmt17_zh_en} SRC=${SRC:-zh} TGT=${TGT:-en}
OUT=${OUT:-runs/wmt17_${SRC}_${TGT}/hrt}
source "$COMMON/translate_hrt.sh"
