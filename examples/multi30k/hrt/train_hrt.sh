#!/usr/bin/env bash
# HRT on Multi30k, fine-tuned from the teacher on its translations: chunk sizes 2 and 3 in one model.
#
#   OMP_NUM_THREADS=1 bash examples/multi30k/hrt/train_hrt.sh [more options of fairseq-train]
#
# After ../prepare.sh and train_at.sh; translates the training data first (../../common/distill.sh). Result:
# $OUT/hrt/checkpoint_last.pt. UPDATES (3000), SEED (1), CHUNK_SIZES (2,3). Continues where it was stopped; with
# another teacher, other text or settings it starts anew.
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
SRC=${SRC:-en} TGT=${TGT:-de} UPDATES=${UPDATES:-3000} SEED=${SEED:-1} CHUNK_SIZES=${CHUNK_SIZES:-2,3}
choose_precision
OUT=${OUT:-runs/multi30k/$SRC-$TGT}
export OUT SRC TGT DRY_RUN

bash "$COMMON/distill.sh" "$OUT/at/checkpoint_best.pt"

# The curriculum ends two thirds of the way: what follows is trained as it will be decoded.
student() {
    run "${TRAINER[@]}" "$OUT/data-bin" --user-dir fairseq_hrt --task translation_hrt \
        --source-lang "$SRC" --target-lang "$TGT" --distilled-data "$OUT/distilled/data-bin" \
        --arch hrt_transformer --share-all-embeddings --dropout 0.1 \
        --encoder-layers 3 --encoder-embed-dim 256 --encoder-ffn-embed-dim 1024 --encoder-attention-heads 4 \
        --decoder-layers 3 --decoder-embed-dim 256 --decoder-ffn-embed-dim 1024 --decoder-attention-heads 4 \
        --finetune-from-model "$OUT/at/checkpoint_best.pt" \
        --hrt-chunk-sizes "$CHUNK_SIZES" --hrt-curriculum-steps "$((UPDATES * 2 / 3))" \
        --criterion hrt_loss --label-smoothing 0.1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 \
        --lr-scheduler polynomial_decay --lr 0.001 --warmup-updates 200 --total-num-update "$UPDATES" \
        --max-tokens 1600 --max-update "$UPDATES" --seed "$SEED" --num-workers 0 --required-batch-size-multiple 1 \
        --save-dir "$SAVE" --keep-last-epochs 5 --log-format simple --log-interval 50 "$@"
}

TEXT=$(contents_of_data "$OUT/data-bin" train valid)
TAUGHT=$(contents_of_data "$OUT/distilled/data-bin" train)
MODEL=$(contents_of_models "$OUT/at/checkpoint_best.pt")
training "$OUT/hrt" "$TEXT, $SRC-$TGT, from $MODEL on $TAUGHT, $UPDATES updates, chunks $CHUNK_SIZES, seed $SEED, $PRECISION" student "$@"
