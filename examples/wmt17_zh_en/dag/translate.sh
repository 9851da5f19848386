#!/usr/bin/env bash
# Translates the test set with the averaged checkpoint of train.sh.
#
#   DATA=data-bin/wmt17_zh_en bash examples/wmt17_zh_en/dag/translate.sh [more options of fairseq-generate]
#
# Paper: STRATEGY (lookahead), greedy or joint-viterbi. Released code (README of ictnlp/FA-DAT), not the paper: LENGTH_BETA (3.5, English-Chinese 3.0) of
# joint-viterbi, tuned on the validation set. Both search the graph and drop repeats afterwards: --dag-repeats collapsed, set here. Ours:
# sources are cut after 127 subwords, the positions of the model, so that every sentence is translated. Result:
# $OUT/test.log (OUT=runs/wmt17_zh_en/dag).
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
DATA=${DATA:-data-bin/wmt17_zh_en} SRC=${SRC:-zh} TGT=${TGT:-en} STRATEGY=${STRATEGY:-lookahead}
OUT=${OUT:-runs/wmt17_${SRC}_${TGT}/dag}
case $SRC-$TGT in
zh-en) LENGTH_BETA=${LENGTH_BETA:-3.5} ;;
*) LENGTH_BETA=${LENGTH_BETA:-3.0} ;;
esac
case $STRATEGY in
viterbi | joint-viterbi) SEARCH=(--dag-repeats collapsed --dag-decode-length-beta "$LENGTH_BETA") ;;
lookahead) SEARCH=(--dag-repeats collapsed) ;;
*) SEARCH=() ;;
esac
# As the paper scores Chinese.
if [ "$TGT" = zh ]; then SEARCH+=(--scoring sacrebleu --sacrebleu-tokenizer zh); fi

run_to "$OUT/test.log" fairseq-generate "$DATA" --user-dir fairseq_hrt --task translation_dag \
    --source-lang "$SRC" --target-lang "$TGT" --path "$OUT/fuzzy/averaged.pt" --dag-decode-strategy "$STRATEGY" \
    "${SEARCH[@]}" --truncate-source --max-source-positions 128 --batch-size 32 --remove-bpe --quiet "$@"
