#!/usr/bin/env bash
# Translates the test set with the averaged checkpoint of train.sh.
#
#   DATA=data-bin/wmt14_en_de bash examples/wmt14_en_de/ctc/translate.sh [more options of fairseq-generate]
#
# BEAM (1): the best word of each position, as in the released code; more: the most probable texts. LM: an n-gram model of subwords for the
# beam, with the weight LM_WEIGHT (0.1), to be tuned on the validation set. Printed: tokenised BLEU.
# Results: $OUT/test.log and test.bleu (OUT=runs/wmt14_en_de/ctc).
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
DATA=${DATA:-data-bin/wmt14_en_de} SRC=${SRC:-en} TGT=${TGT:-de} BEAM=${BEAM:-1} LM=${LM:-} LM_WEIGHT=${LM_WEIGHT:-0.1}
OUT=${OUT:-runs/wmt14_${SRC}_${TGT}/ctc}
SEARCH=(--beam "$BEAM")
unused "on BLEU of the words of DATA" REFERENCES
if [ -n "$LM" ]; then SEARCH+=(--ctc-lm-path "$LM" --ctc-lm-weight "$LM_WEIGHT"); else unused "without LM" LM_WEIGHT; fi

run_to "$OUT/test.log" fairseq-generate "$DATA" --user-dir fairseq_hrt --task translation_ctc \
    --source-lang "$SRC" --target-lang "$TGT" --path "$OUT/ngram/averaged.pt" "${SEARCH[@]}" \
    --batch-size 32 --remove-bpe "$@"
print_bleu "$OUT/test.log"
