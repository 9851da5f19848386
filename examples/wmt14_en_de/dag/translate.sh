#!/usr/bin/env bash
# Translates the test set with the averaged checkpoint of train.sh.
#
#   DATA=data-bin/wmt14_en_de bash examples/wmt14_en_de/dag/translate.sh [more options of fairseq-generate]
#
# STRATEGY (lookahead): greedy, joint-viterbi, beam, …; LENGTH_BETA (0.1): of joint-viterbi, the value that FA-DAT tuned on its
# validation set. Result: $OUT/test.log (OUT=runs/wmt14_en_de/dag).
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
DATA=${DATA:-data-bin/wmt14_en_de} SRC=${SRC:-en} TGT=${TGT:-de} STRATEGY=${STRATEGY:-lookahead} LENGTH_BETA=${LENGTH_BETA:-0.1}
OUT=${OUT:-runs/wmt14_${SRC}_${TGT}/dag}

run_to "$OUT/test.log" fairseq-generate "$DATA" --user-dir fairseq_hrt --task translation_dag \
    --source-lang "$SRC" --target-lang "$TGT" --path "$OUT/fuzzy/averaged.pt" --dag-decode-strategy "$STRATEGY" \
    --dag-decode-length-beta "$LENGTH_BETA" --batch-size 32 --remove-bpe --quiet "$@"
