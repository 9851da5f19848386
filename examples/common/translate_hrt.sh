# Translates a test set with the averaged model of hrt_at_full_size.sh; sourced, never run. The recipes set DATA, SRC, TGT and OUT.
#
# MODEL, STUDENT=mask_predict: as it was trained. Of Mask-Predict, paper (Figure 4): ITERATIONS, 4 or 10; 5 lengths of each translation (BEAM).
# Printed: tokenised BLEU, as Ghazvininejad et al. (2019), whose data the paper takes, report it.
# All iterations are made: fairseq ends where two passes mask the same words, although short translations keep their masks then.

CHUNK=${CHUNK:-2} BEAM=${BEAM:-5} NAT_BEAM=${NAT_BEAM:-5} STUDENT=${STUDENT:-hrt} MODEL=${MODEL:-${STUDENT:-hrt}} ITERATIONS=${ITERATIONS:-10}
if [ "$TGT" != zh ]; then unused "on BLEU of the words of DATA" REFERENCES; fi
case $STUDENT in
hrt)
    unused "with STUDENT=hrt" ITERATIONS
    HOW=(
        --hrt-decode-chunk "$CHUNK" --beam "$BEAM" --lenpen 0.6
        --max-len-a 0 --max-len-b 200
    )
    # word by word there is no second stage
    if [ "$CHUNK" = 1 ]; then unused "with CHUNK=1" NAT_BEAM; else HOW+=(--hrt-nat-beam "$NAT_BEAM"); fi
    ;;
mask_predict)
    unused "with STUDENT=mask_predict" CHUNK NAT_BEAM
    HOW=(
        --beam 1 --iter-decode-max-iter $((ITERATIONS - 1)) --iter-decode-with-beam "$BEAM"
        --iter-decode-force-max-iter --iter-decode-eos-penalty 0
    )
    ;;
*) fail "STUDENT=$STUDENT: give hrt or mask_predict" ;;
esac
RESULT=$OUT/$MODEL/test.log
if [ "$MODEL" = hrt ]; then RESULT=$OUT/test.log; fi
run_to "$RESULT" fairseq-generate "$DATA" --user-dir fairseq_hrt --task "translation_$STUDENT" --source-lang "$SRC" --target-lang "$TGT" \
    --path "$OUT/$MODEL/averaged.pt" "${HOW[@]}" --batch-size 32 --remove-bpe "$@"
print_bleu "$RESULT"
