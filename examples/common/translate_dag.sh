# How the recipes for directed acyclic Transformers at base size translate; sourced, never run. They
# set DATA, SRC, TGT and OUT.
#
# Paper: STRATEGY (lookahead), greedy or joint-viterbi. Released code (README of ictnlp/FA-DAT), not
# the paper: LENGTH_BETA of joint-viterbi, tuned on the validation set (0.1 English-German, 3.0
# English-Chinese, else 3.5). Both search the graph and drop repeats afterwards: --dag-repeats
# collapsed, set here. Printed, as in the paper: tokenised BLEU, of Chinese sacreBLEU. Ours: sources
# are cut after 126 subwords, which with <s> and </s> are the positions of the model, so that every
# sentence is translated.

STRATEGY=${STRATEGY:-lookahead}
if [ "$TGT" != zh ]; then unused "on BLEU of the words of DATA" REFERENCES; fi
case $SRC-$TGT in
en-de) LENGTH_BETA=${LENGTH_BETA:-0.1} ;;
en-zh) LENGTH_BETA=${LENGTH_BETA:-3.0} ;;
*) LENGTH_BETA=${LENGTH_BETA:-3.5} ;;
esac
case $STRATEGY in
viterbi | joint-viterbi) SEARCH=(--dag-repeats collapsed --dag-decode-length-beta "$LENGTH_BETA") ;;
lookahead) SEARCH=(--dag-repeats collapsed) ;;
*) SEARCH=() ;;
esac
if [[ $STRATEGY != *viterbi ]]; then unused "with STRATEGY=$STRATEGY" LENGTH_BETA; fi
if [ "$TGT" = zh ]; then SEARCH+=(--scoring sacrebleu --sacrebleu-tokenizer zh); fi

run_to "$OUT/test.log" fairseq-generate "$DATA" --user-dir fairseq_hrt --task translation_dag \
    --source-lang "$SRC" --target-lang "$TGT" --path "$OUT/fuzzy/averaged.pt" \
    --dag-decode-strategy "$STRATEGY" "${SEARCH[@]}" \
    --truncate-source --max-source-positions 127 --batch-size 32 --remove-bpe "$@"
print_bleu "$OUT/test.log"
