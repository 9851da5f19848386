#!/usr/bin/env bash
# A bidirectional model on Multi30k, fine-tuned from the autoregressive teacher.
#
#   OMP_NUM_THREADS=1 bash examples/multi30k/bidirectional/train.sh [more options of fairseq-train]
#   OMP_NUM_THREADS=1 TOKENS=2 bash examples/multi30k/bidirectional/train.sh
#   OMP_NUM_THREADS=1 DISTILLED= bash examples/multi30k/bidirectional/train.sh      on the raw targets
#
# After ../prepare.sh and ../hrt/train_at.sh; translates the training data first (../../common/distill.sh). Result:
# $OUT/bidirectional_<h>x<c>[_raw]/checkpoint_last.pt (OUT=runs/multi30k/en-de). DIRECTIONS (2), TOKENS (1) a direction
# and step, DISTILLED (yes; empty: raw targets), UPDATES (1300), SEED (1). Continues where it was stopped; with another teacher,
# other text or settings it starts anew.
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
SRC=${SRC:-en} TGT=${TGT:-de} UPDATES=${UPDATES:-1300} SEED=${SEED:-1}
DIRECTIONS=${DIRECTIONS:-2} TOKENS=${TOKENS:-1} DISTILLED=${DISTILLED-yes}
choose_precision
OUT=${OUT:-runs/multi30k/$SRC-$TGT}
export OUT SRC TGT DRY_RUN

MODEL=$OUT/bidirectional_${DIRECTIONS}x$TOKENS TARGETS=() TAUGHT=""
case $DISTILLED in
yes | "") ;;
*) fail "DISTILLED=$DISTILLED: give yes, or nothing for raw targets" ;;
esac
if [ -n "$DISTILLED" ]; then
    bash "$COMMON/distill.sh" "$OUT/at/checkpoint_best.pt"
    TARGETS=(--distilled-data "$OUT/distilled/data-bin")
    TAUGHT=$(contents_of_data "$OUT/distilled/data-bin" train)
else
    unused "on raw targets" BEAM MAX_TOKENS
    MODEL+=_raw
fi

student() {
    run "${TRAINER[@]}" "$OUT/data-bin" --user-dir fairseq_hrt --task translation_bidirectional \
        --source-lang "$SRC" --target-lang "$TGT" "${TARGETS[@]}" \
        --arch bidirectional_transformer --share-all-embeddings --dropout 0.1 \
        --bidirectional-directions "$DIRECTIONS" --bidirectional-tokens-per-step "$TOKENS" \
        --encoder-layers 3 --encoder-embed-dim 256 --encoder-ffn-embed-dim 1024 --encoder-attention-heads 4 \
        --decoder-layers 3 --decoder-embed-dim 256 --decoder-ffn-embed-dim 1024 --decoder-attention-heads 4 \
        --finetune-from-model "$OUT/at/checkpoint_best.pt" \
        --criterion bidirectional_loss --label-smoothing 0.1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 \
        --lr-scheduler polynomial_decay --lr 0.001 --warmup-updates 200 --total-num-update "$UPDATES" \
        --max-tokens 1600 --max-update "$UPDATES" --seed "$SEED" --num-workers 0 --required-batch-size-multiple 1 \
        --save-dir "$SAVE" --no-epoch-checkpoints --log-format simple --log-interval 50 "$@"
}

TEXT=$(contents_of_data "$OUT/data-bin" train valid)
TEACHER=$(contents_of_models "$OUT/at/checkpoint_best.pt")
training "$MODEL" "$TEXT, $SRC-$TGT, from $TEACHER${TAUGHT:+ on $TAUGHT}, $UPDATES updates, seed $SEED, $PRECISION" student "$@"
