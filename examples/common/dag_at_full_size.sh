# Shared by the recipes for directed acyclic Transformers at base size; sourced, never run. They set DATA, SRC, TGT, EMBEDDINGS and OUT.
#
#   $OUT/nll     trained by the likelihood
#   $OUT/fuzzy   then by fuzzy n-gram alignment
#
# Paper (FA-DAT, section 4.1): 300,000 updates of about 64,000 tokens, learning rate 5e-4, 10,000 warm-up updates, glancing 0.5 -> 0.1, lambda
# 8; then 5,000 updates of about 256,000 tokens, learning rate 2e-4, 500 warm-up updates, glancing 0.1, bigrams. Dropout 0.1, weight decay
# 0.01, no label smoothing. The five best checkpoints by validation BLEU are averaged (averaged.pt).
# Released code (README of ictnlp/FA-DAT): glancing falls over the first 200,000 updates, where its first stage ends; Adam (0.9, 0.999),
# clipping 0.1, learned positions, GELU, initialisation as in BERT, an encoder that reads <s> before
# the source, where it counts for lambda (--dag-read-bos), graphs of at most 1,024 vertices.
# NGRAM (2): their order; 1 and 3 are in Table 1. Ours: pairs whose target does not fit into its graph are left out (--dag-filter-ratio), and
# a batch has at most 5/4 of the vertices of MAX_TOKENS source tokens (--dag-batch-vertices): with <s> counted, one of four words or more fits.

GPUS=${GPUS:-1} SCALE=${SCALE:-8} NGRAM=${NGRAM:-2} SEED=${SEED:-1} KEEP=1
choose_update 65536 4096
BATCH_VERTICES=$(awk -v scale="$SCALE" -v tokens="$MAX_TOKENS" 'BEGIN { printf "%d", scale * tokens * 5 / 4 }')
SHARED=(
    "$DATA" --user-dir fairseq_hrt --task translation_dag --source-lang "$SRC" --target-lang "$TGT"
    --arch dag_transformer_wmt_en_de "$EMBEDDINGS" --encoder-learned-pos --decoder-learned-pos --activation-fn gelu --dag-bert-init
    --dag-upsample-scale "$SCALE" --dag-read-bos --dag-filter-ratio "$SCALE" --dag-batch-vertices "$BATCH_VERTICES"
    --dropout 0.1 --weight-decay 0.01 --clip-norm 0.1 --optimizer adam --adam-betas '(0.9, 0.999)'
    --lr-scheduler inverse_sqrt --warmup-init-lr 1e-07 "${ON_GPUS[@]}" --seed "$SEED"
    --eval-bleu --eval-bleu-remove-bpe --best-checkpoint-metric bleu --maximize-best-checkpoint-metric
    --keep-best-checkpoints 5 --keep-interval-updates 5 --no-epoch-checkpoints
    --max-source-positions 128 --max-target-positions 1024 --skip-invalid-size-inputs-valid-test
    --max-tokens-valid "$((MAX_TOKENS < 4096 ? MAX_TOKENS : 4096))" --log-format simple --log-interval 100
)
# As the paper scores Chinese; without spaces a sentence would be one word.
if [ "$TGT" = zh ]; then SHARED+=(--eval-bleu-tokenizer zh); fi

nll() {
    run fairseq-train "${SHARED[@]}" --criterion dag_nll_loss --dag-glance-schedule 0.5:0.1@200k --dag-length-loss-factor 0 \
        --lr 0.0005 --warmup-updates 10000 --update-freq "$UPDATE_FREQ" \
        --max-update 300000 --save-interval-updates 5000 --validate-interval-updates 5000 --save-dir "$OUT/nll"
    run fairseq-hrt average --folder "$OUT/nll" --best 5 --output "$OUT/nll/averaged.pt"
}

fuzzy() {
    run fairseq-train "${SHARED[@]}" --criterion dag_fuzzy_loss --dag-glance-schedule 0.1 --dag-ngram-order "$NGRAM" \
        --finetune-from-model "$OUT/nll/averaged.pt" \
        --lr 0.0002 --warmup-updates 500 --update-freq "$((4 * UPDATE_FREQ))" \
        --max-update 5000 --save-interval-updates 500 --validate-interval-updates 500 --save-dir "$OUT/fuzzy"
    run fairseq-hrt average --folder "$OUT/fuzzy" --best 5 --output "$OUT/fuzzy/averaged.pt"
}

TEXT=$(contents_of_data "$DATA" train valid)
stage nll "$OUT/nll" "$DATA $TEXT, $SRC-$TGT, scale $SCALE, reads <s>, seed $SEED$OTHER_PRECISION" nll
stage fuzzy "$OUT/fuzzy" "$([ "$NGRAM" = 2 ] && echo bigrams || echo "$NGRAM-grams")" fuzzy
