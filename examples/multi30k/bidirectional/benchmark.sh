#!/usr/bin/env bash
# Quality and speed of the teacher and of the bidirectional models on Multi30k's test set (after train.sh).
#
#   OMP_NUM_THREADS=1 bash examples/multi30k/bidirectional/benchmark.sh [more options of fairseq-hrt benchmark]
#
# MODELS ("2x1 2x2 2x1_raw 2x2_raw"): directions x tokens of those that were trained. Result: $OUT/comparison_bidirectional
# (OUT=runs/multi30k/en-de): table.md, results.json, quality_speed.png and .svg. THREADS (1), REPEATS (5), SPEED_SENTENCES (200).
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
SRC=${SRC:-en} TGT=${TGT:-de} THREADS=${THREADS:-1} REPEATS=${REPEATS:-5} SPEED_SENTENCES=${SPEED_SENTENCES:-200}
MODELS=${MODELS:-2x1 2x2 2x1_raw 2x2_raw}
OUT=${OUT:-runs/multi30k/$SRC-$TGT}
source "$COMMON/systems.sh"
autoregressive_systems "$OUT/at/checkpoint_best.pt"
for model in $MODELS; do
    bidirectional_systems "h=${model/x/ c=}" "$OUT/bidirectional_$model/checkpoint_last.pt"
done

run fairseq-hrt benchmark "$OUT/data-bin" --source-lang "$SRC" --target-lang "$TGT" \
    --references "$OUT/raw/test.$TGT.gz" --detokenize "moses:$TGT" "${SYSTEMS[@]}" \
    --ratio-to "AT greedy (fairseq)" --ratio-to "AT greedy" --threads "$THREADS" \
    --speed-sentences "$SPEED_SENTENCES" --repeats "$REPEATS" --examples 5 --out "$OUT/comparison_bidirectional" "$@"
