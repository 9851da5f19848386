#!/usr/bin/env bash
# Quality and speed of the teacher and of every way to decode HRT on Multi30k's test set (after train_hrt.sh).
#
#   OMP_NUM_THREADS=1 bash examples/multi30k/hrt/benchmark.sh [more options of fairseq-hrt benchmark]
#
# Result: $OUT/comparison (OUT=runs/multi30k/en-de): table.md, results.json, quality_speed.png and .svg, translations.
# THREADS (1), REPEATS (5), SPEED_SENTENCES (200).
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
SRC=${SRC:-en} TGT=${TGT:-de} THREADS=${THREADS:-1} REPEATS=${REPEATS:-5} SPEED_SENTENCES=${SPEED_SENTENCES:-200}
OUT=${OUT:-runs/multi30k/$SRC-$TGT}
source "$COMMON/systems.sh"
autoregressive_systems "$OUT/at/checkpoint_best.pt"
hrt_systems "$OUT/hrt/checkpoint_last.pt"

run fairseq-hrt benchmark "$OUT/data-bin" --source-lang "$SRC" --target-lang "$TGT" \
    --references "$OUT/raw/test.$TGT.gz" --detokenize "moses:$TGT" "${SYSTEMS[@]}" \
    --ratio-to "AT greedy (fairseq)" --ratio-to "AT greedy" --threads "$THREADS" \
    --speed-sentences "$SPEED_SENTENCES" --repeats "$REPEATS" --examples 5 --out "$OUT/comparison" "$@"
