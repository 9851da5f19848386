#!/usr/bin/env bash
# Translates the test set with the averaged checkpoint of train.sh.
#
#   DATA=data-bin/wmt14_en_de bash examples/wmt14_en_de/dag/translate.sh [more options of fairseq-generate]
#
# Paper: STRATEGY (lookahead), greedy or joint-viterbi. Released code (README of ictnlp/FA-DAT), not the paper: LENGTH_BETA (0.1, German-English 3.5) of
# joint-viterbi, tuned on the validation set. Both search the graph and drop repeats afterwards: --dag-repeats collapsed, set here. Ours:
# sources are cut after 127 subwords, the positions of the model, so that every sentence is translated. Result:
# $OUT/test.log (OUT=runs/wmt14_en_de/dag).
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
DATA=${DATA:-data-bin/wmt14_en_de} SRC=${SRC:-en} TGT=${TGT:-de} STRATEGY=${STRATEGY:-lookahead}
OUT=${OUT:-runs/wmt14_${SRC}_${TGT}/dag}
case $SRC-$TGT in
en-de) LENGTH_BETA=${LENGTH_BETA:-0.1} ;;
*) LENGTH_BETA=${LENGTH_BETA:-3.5} ;;
esac
case $STRATEGY in
viterbi | joint-viterbi) SEARCH=(--dag-repeats collapsed --dag-decode-length-beta "$LENGTH_BETA") ;;
lookahead) SEARCH=(--dag-repeats collapsed) ;;
*) SEARCH=() ;;
esac

run_to "$OUT/test.log" fairseq-generate "$DATA" --user-dir fairseq_hrt --task translation_dag \
    --source-lang "$SRC" --target-lang "$TGT" --path "$OUT/fuzzy/averaged.pt" --dag-decode-strategy "$STRATEGY" \
    "${SEARCH[@]}" --truncate-source --max-source-positions 128 --batch-size 32 --remove-bpe --quiet "$@"
