#!/usr/bin/env bash
# A ctc model on Multi30k: first by likelihood with glancing, then by expected bigrams.
#
#   OMP_NUM_THREADS=2 bash examples/multi30k/ctc/train.sh
#   OMP_NUM_THREADS=2 DISTILLED= bash examples/multi30k/ctc/train.sh      on the raw targets
#
# After ../prepare.sh and ../hrt/train_at.sh, from whose teacher it is fine-tuned; translates the training data first
# (../../common/distill.sh). Results: $OUT/ctc_nll/checkpoint_last.pt and $OUT/ctc_ngram/checkpoint_last.pt (OUT=runs/multi30k/en-de).
# SCALE (3), INPUTS (soft-copy; copy, unk), DISTILLED (yes; empty: raw targets, in $OUT/ctc_nll_raw and $OUT/ctc_ngram_raw), UPDATES (1200),
# NGRAM_UPDATES (250), SEED (1). Continues where it was stopped; with another teacher, other text or
# settings it starts anew.
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
SRC=${SRC:-en} TGT=${TGT:-de} SCALE=${SCALE:-3} INPUTS=${INPUTS:-soft-copy} UPDATES=${UPDATES:-1200} NGRAM_UPDATES=${NGRAM_UPDATES:-250}
SEED=${SEED:-1} DISTILLED=${DISTILLED-yes}
choose_precision
OUT=${OUT:-runs/multi30k/$SRC-$TGT}
export OUT SRC TGT DRY_RUN

TARGETS=() RAW=_raw TAUGHT=""
case $DISTILLED in
yes | "") ;;
*) fail "DISTILLED=$DISTILLED: give yes, or nothing for raw targets" ;;
esac
if [ -n "$DISTILLED" ]; then
    bash "$COMMON/distill.sh" "$OUT/at/checkpoint_best.pt"
    TARGETS=(--distilled-data "$OUT/distilled/data-bin") RAW=
    TAUGHT=$(contents_of_data "$OUT/distilled/data-bin" train)
else
    unused "on raw targets" BEAM MAX_TOKENS
fi
SHARED=(
    "$OUT/data-bin" --user-dir fairseq_hrt --task translation_ctc --source-lang "$SRC" --target-lang "$TGT" "${TARGETS[@]}"
    --arch ctc_transformer --share-all-embeddings --dropout 0.1 --ctc-upsample-scale "$SCALE" --ctc-inputs "$INPUTS"
    --encoder-layers 3 --encoder-embed-dim 256 --encoder-ffn-embed-dim 1024 --encoder-attention-heads 4
    --decoder-layers 3 --decoder-embed-dim 256 --decoder-ffn-embed-dim 1024 --decoder-attention-heads 4
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr-scheduler polynomial_decay
    --max-tokens 1200 --seed "$SEED" --num-workers 0 --required-batch-size-multiple 1
    --no-epoch-checkpoints --log-format simple --log-interval 50
)

nll() {
    run "${TRAINER[@]}" "${SHARED[@]}" --criterion ctc_nll_loss --ctc-glance-schedule "0.5:0.3@$UPDATES" \
        --lr 0.001 --warmup-updates 200 --total-num-update "$UPDATES" --max-update "$UPDATES" \
        --finetune-from-model "$OUT/at/checkpoint_best.pt" --save-dir "$OUT/ctc_nll$RAW"
}

ngram() {
    run "${TRAINER[@]}" "${SHARED[@]}" --criterion ctc_ngram_loss --lr 0.0003 --warmup-updates 30 \
        --total-num-update "$NGRAM_UPDATES" --max-update "$NGRAM_UPDATES" \
        --finetune-from-model "$OUT/ctc_nll$RAW/checkpoint_last.pt" --save-dir "$OUT/ctc_ngram$RAW"
}

TEXT=$(contents_of_data "$OUT/data-bin" train valid)
TEACHER=$(contents_of_models "$OUT/at/checkpoint_best.pt")
SETTINGS="$UPDATES updates, scale $SCALE, inputs $INPUTS, seed $SEED, $PRECISION"
stage "ctc_nll$RAW" "$OUT/ctc_nll$RAW" "$TEXT, $SRC-$TGT, from $TEACHER${TAUGHT:+, targets of $TAUGHT}, $SETTINGS" nll
stage "ctc_ngram$RAW" "$OUT/ctc_ngram$RAW" "$NGRAM_UPDATES updates" ngram
