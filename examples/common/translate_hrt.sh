# Translates a test set with the averaged model of hrt_at_full_size.sh; sourced, never run. The recipes set DATA, SRC, TGT and OUT.
#
# STUDENT=mask_predict: with that one. Paper (Figure 4): ITERATIONS, 4 or 10; 5 lengths of each translation (BEAM). All iterations are made:
# fairseq ends where two passes mask the same words, although short translations keep their masks then.

CHUNK=${CHUNK:-2} BEAM=${BEAM:-5} NAT_BEAM=${NAT_BEAM:-5} STUDENT=${STUDENT:-hrt} ITERATIONS=${ITERATIONS:-10}
case $STUDENT in
hrt)
    HOW=(
        --path "$OUT/hrt/averaged.pt" --hrt-decode-chunk "$CHUNK" --beam "$BEAM" --hrt-nat-beam "$NAT_BEAM" --lenpen 0.6
        --max-len-a 0 --max-len-b 200
    )
    RESULT=$OUT/test.log
    ;;
mask_predict)
    HOW=(
        --path "$OUT/mask_predict/averaged.pt" --beam 1 --iter-decode-max-iter $((ITERATIONS - 1)) --iter-decode-with-beam "$BEAM"
        --iter-decode-force-max-iter --iter-decode-eos-penalty 0
    )
    RESULT=$OUT/mask_predict/test.log
    ;;
*) fail "STUDENT=$STUDENT: give hrt or mask_predict" ;;
esac
run_to "$RESULT" fairseq-generate "$DATA" --user-dir fairseq_hrt --task "translation_$STUDENT" --source-lang "$SRC" --target-lang "$TGT" \
    "${HOW[@]}" --batch-size 32 --remove-bpe --quiet "$@"
