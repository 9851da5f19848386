#!/usr/bin/env bash
# Summaries with the bidirectional decoder on a small generated corpus (examples/corpus/summaries.py): about 10 minutes.
#
#   bash examples/summaries/bidirectional/run.sh
#
# After examples/setup_env.sh. Result: $OUT/comparison (OUT=runs/summaries): table.md with ROUGE, results.json, a picture.
# TRAIN (8000), VALID (300), TEST (300) texts; AT_UPDATES, IB_UPDATES; SPEED_SENTENCES, REPEATS, THREADS, SEED.
set -euo pipefail
OUT=${OUT:-$(dirname "$0")/../../../runs/summaries}
source "$(dirname "$0")/../../common/recipe.sh"
source "$COMMON/systems.sh"
TRAIN=${TRAIN:-8000} VALID=${VALID:-300} TEST=${TEST:-300} SEED=${SEED:-1}
AT_UPDATES=${AT_UPDATES:-700} IB_UPDATES=${IB_UPDATES:-400} AVERAGE=1 MERGES=${MERGES:-800} BEAM=${BEAM:-1}
SPEED_SENTENCES=${SPEED_SENTENCES:-50} REPEATS=${REPEATS:-5} THREADS=${THREADS:-1}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
SIZES=()
for side in encoder decoder; do
    SIZES+=("--$side-layers" 2 "--$side-embed-dim" 128 "--$side-ffn-embed-dim" 512 "--$side-attention-heads" 4)
done
TRAINING=(
    --dropout 0.0 --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr 0.002
    --lr-scheduler inverse_sqrt --warmup-updates 200 --max-tokens 4000 --num-workers 0 --keep-last-epochs 1
)
source "$COMMON/summarise.sh"
unused "where AT_UPDATES and IB_UPDATES are of each training" UPDATES

make_corpus() {
    run python examples/corpus/summaries.py --out "$OUT/corpus" --train "$TRAIN" --valid "$VALID" --test "$TEST" --seed "$SEED"
}

stage corpus "$OUT/corpus" "$TRAIN $VALID $TEST seed $SEED" make_corpus
summarise "$OUT/corpus"
