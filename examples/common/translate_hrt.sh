# Translates a test set with the averaged model of hrt_at_full_size.sh; sourced, never run. The recipes set DATA, SRC, TGT and OUT.

CHUNK=${CHUNK:-2} BEAM=${BEAM:-5} NAT_BEAM=${NAT_BEAM:-5}
run_to "$OUT/test.log" fairseq-generate "$DATA" --user-dir fairseq_hrt --task translation_hrt --source-lang "$SRC" --target-lang "$TGT" \
    --path "$OUT/hrt/averaged.pt" --hrt-decode-chunk "$CHUNK" --beam "$BEAM" --hrt-nat-beam "$NAT_BEAM" --lenpen 0.6 \
    --max-len-a 0 --max-len-b 200 --batch-size 32 --remove-bpe --quiet "$@"
