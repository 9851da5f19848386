#!/usr/bin/env bash
# A ctc model on WMT14 English-German on a teacher's translations: likelihood, then expected bigrams.
#
#   bash examples/wmt14_en_de/hrt/train.sh                                              the teacher and its translations
#   DATA=data-bin/wmt14_en_de bash examples/wmt14_en_de/ctc/train.sh
#   DATA=... SRC=de TGT=en GPUS=8 bash examples/wmt14_en_de/ctc/train.sh
#
# DATA: binarised with a joint vocabulary (../prepare.sh). DISTILLED (runs/wmt14_en_de/hrt/distilled/data-bin): the translations.
# Released code (README of ictnlp/NMLA-NAT): 300,000 updates of about 64,000 tokens, learning rate 5e-4, 10,000 warm-up updates, dropout 0.2;
# then 6,000 updates of about 256,000 tokens, learning rate 3e-4, 500 warm-up updates, dropout 0.1, bigrams. Adam (0.9, 0.98), weight decay
# 0.01, learned positions; no glancing (GLANCE=0.5:0.3@100k: with it). Ours: SCALE (3), the positions for each source token; INPUTS (copy);
# the last five checkpoints are averaged. NGRAM (2): 1 to 3.
# GPUS (1): 1, 2, 4 or 8; MAX_TOKENS of a GPU's batch (4096); the tokens of an update stay the same. PRECISION (float16), or bfloat16, float32.
# SEED (1).
# OUT (runs/wmt14_en_de/ctc): nll/averaged.pt and ngram/averaged.pt. Continues where it was stopped.
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
DATA=${DATA:-data-bin/wmt14_en_de} SRC=${SRC:-en} TGT=${TGT:-de} GPUS=${GPUS:-1} SEED=${SEED:-1} KEEP=1
SCALE=${SCALE:-3} INPUTS=${INPUTS:-copy} GLANCE=${GLANCE:-0} NGRAM=${NGRAM:-2}
OUT=${OUT:-runs/wmt14_${SRC}_${TGT}/ctc} DISTILLED=${DISTILLED:-runs/wmt14_${SRC}_${TGT}/hrt/distilled/data-bin}
choose_update 65536 4096
if [ -z "$DRY_RUN" ] && [ ! -d "$DISTILLED" ]; then
    fail "DISTILLED=$DISTILLED is not there: run ../hrt/train.sh first, or name the translations of another teacher"
fi
SHARED=(
    "$DATA" --user-dir fairseq_hrt --task translation_ctc --source-lang "$SRC" --target-lang "$TGT" --distilled-data "$DISTILLED"
    --arch ctc_transformer_wmt_en_de --share-all-embeddings --encoder-learned-pos --decoder-learned-pos
    --ctc-upsample-scale "$SCALE" --ctc-inputs "$INPUTS" --weight-decay 0.01 --optimizer adam --adam-betas '(0.9, 0.98)'
    --lr-scheduler inverse_sqrt --warmup-init-lr 1e-07 "${ON_GPUS[@]}" --seed "$SEED"
    --keep-interval-updates 5 --no-epoch-checkpoints --skip-invalid-size-inputs-valid-test
    --max-tokens-valid "$((MAX_TOKENS < 4096 ? MAX_TOKENS : 4096))" --log-format simple --log-interval 100
)

nll() {
    run fairseq-train "${SHARED[@]}" --criterion ctc_nll_loss --ctc-glance-schedule "$GLANCE" --dropout 0.2 \
        --lr 0.0005 --warmup-updates 10000 --update-freq "$UPDATE_FREQ" \
        --max-update 300000 --save-interval-updates 5000 --save-dir "$OUT/nll"
    run fairseq-hrt average --folder "$OUT/nll" --last 5 --output "$OUT/nll/averaged.pt"
}

ngram() {
    run fairseq-train "${SHARED[@]}" --criterion ctc_ngram_loss --ctc-glance-schedule 0 --ctc-ngram-order "$NGRAM" --dropout 0.1 \
        --finetune-from-model "$OUT/nll/averaged.pt" --lr 0.0003 --warmup-updates 500 --update-freq "$((4 * UPDATE_FREQ))" \
        --max-update 6000 --save-interval-updates 500 --save-dir "$OUT/ngram"
    run fairseq-hrt average --folder "$OUT/ngram" --last 5 --output "$OUT/ngram/averaged.pt"
}

TEXT=$(contents_of_data "$DATA" train valid)
stage nll "$OUT/nll" "$DATA $TEXT, targets of $DISTILLED, $SRC-$TGT, scale $SCALE, $INPUTS, glancing $GLANCE, seed $SEED$OTHER_PRECISION" nll
stage ngram "$OUT/ngram" "$([ "$NGRAM" = 2 ] && echo bigrams || echo "$NGRAM-grams")" ngram
