#!/usr/bin/env bash
# A directed acyclic Transformer on Multi30k's raw targets: first by likelihood, then by fuzzy n-gram alignment.
#
#   OMP_NUM_THREADS=2 bash examples/multi30k/dag/train.sh
#
# After ../prepare.sh and ../hrt/train_at.sh, from whose teacher it is fine-tuned (no distilled data; INIT= trains from scratch).
# Results: $OUT/dag_nll/checkpoint_last.pt and $OUT/dag_fuzzy/checkpoint_last.pt (OUT=runs/multi30k/en-de). SCALE (3), UPDATES (1200),
# FUZZY_UPDATES (250), SEED (1). Continues where it was stopped; with another teacher, other text or settings it starts anew.
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
SRC=${SRC:-en} TGT=${TGT:-de} SCALE=${SCALE:-3} UPDATES=${UPDATES:-1200} FUZZY_UPDATES=${FUZZY_UPDATES:-250} SEED=${SEED:-1}
choose_precision
OUT=${OUT:-runs/multi30k/$SRC-$TGT}
INIT=${INIT-$OUT/at/checkpoint_best.pt}
START=() MODEL=scratch
if [ -n "$INIT" ]; then
    START=(--finetune-from-model "$INIT")
    MODEL=$(contents_of_models "$INIT")
fi

SHARED=(
    "$OUT/data-bin" --user-dir fairseq_hrt --task translation_dag --source-lang "$SRC" --target-lang "$TGT"
    --arch dag_transformer --share-all-embeddings --dropout 0.1 --dag-upsample-scale "$SCALE"
    --encoder-layers 3 --encoder-embed-dim 256 --encoder-ffn-embed-dim 1024 --encoder-attention-heads 4
    --decoder-layers 3 --decoder-embed-dim 256 --decoder-ffn-embed-dim 1024 --decoder-attention-heads 4
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr-scheduler polynomial_decay
    --max-tokens 1200 --seed "$SEED" --num-workers 0 --required-batch-size-multiple 1
    --no-epoch-checkpoints --log-format simple --log-interval 50
)

nll() {
    run "${TRAINER[@]}" "${SHARED[@]}" --criterion dag_nll_loss --dag-glance-schedule "0.5:0.1@$UPDATES" \
        --lr 0.001 --warmup-updates 200 --total-num-update "$UPDATES" --max-update "$UPDATES" \
        "${START[@]}" --save-dir "$OUT/dag_nll"
}

fuzzy() {
    run "${TRAINER[@]}" "${SHARED[@]}" --criterion dag_fuzzy_loss --lr 0.0003 --warmup-updates 30 \
        --total-num-update "$FUZZY_UPDATES" --max-update "$FUZZY_UPDATES" \
        --finetune-from-model "$OUT/dag_nll/checkpoint_last.pt" --save-dir "$OUT/dag_fuzzy"
}

TEXT=$(contents_of_data "$OUT/data-bin" train valid)
stage dag_nll "$OUT/dag_nll" "$TEXT, $SRC-$TGT, from $MODEL, $UPDATES updates, scale $SCALE, seed $SEED, $PRECISION" nll
stage dag_fuzzy "$OUT/dag_fuzzy" "$FUZZY_UPDATES updates" fuzzy
