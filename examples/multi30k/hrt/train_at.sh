#!/usr/bin/env bash
# The autoregressive teacher on Multi30k: fairseq's own Transformer, 3+3 layers, d=256 (after ../prepare.sh).
#
#   OMP_NUM_THREADS=1 bash examples/multi30k/hrt/train_at.sh [more options of fairseq-train]
#
# Result: $OUT/at/checkpoint_best.pt (OUT=runs/multi30k/en-de). Started again it continues where it was
# stopped; with other text or settings it starts anew.
# UPDATES (4500, about 14 epochs), SEED (1). PRECISION (bfloat16 where the CPU is faster in it, else float32).
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
SRC=${SRC:-en} TGT=${TGT:-de} UPDATES=${UPDATES:-4500} SEED=${SEED:-1}
choose_precision
OUT=${OUT:-runs/multi30k/$SRC-$TGT}

# A linear decay to zero instead of the usual inverse square root: the number of updates is small and known.
# The loss is fairseq's label_smoothed_cross_entropy.
teacher() {
    run "${TRAINER[@]}" "$OUT/data-bin" --user-dir fairseq_hrt --task translation --source-lang "$SRC" --target-lang "$TGT" \
        --arch transformer --share-all-embeddings --dropout 0.2 \
        --encoder-layers 3 --encoder-embed-dim 256 --encoder-ffn-embed-dim 1024 --encoder-attention-heads 4 \
        --decoder-layers 3 --decoder-embed-dim 256 --decoder-ffn-embed-dim 1024 --decoder-attention-heads 4 \
        --criterion autoregressive_loss --label-smoothing 0.1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 \
        --lr-scheduler polynomial_decay --lr 0.0015 --warmup-updates 400 --total-num-update "$UPDATES" \
        --max-tokens 1600 --max-update "$UPDATES" --seed "$SEED" --num-workers 0 --required-batch-size-multiple 1 \
        --save-dir "$SAVE" --keep-last-epochs 5 --log-format simple --log-interval 50 "$@"
}

TEXT=$(contents_of_data "$OUT/data-bin" train valid)
training "$OUT/at" "$TEXT, $SRC-$TGT, $UPDATES updates, seed $SEED, $PRECISION" teacher "$@"
