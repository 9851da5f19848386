#!/usr/bin/env bash
# Quality and speed of the teacher and of the ctc models on Multi30k's test set (after train.sh).
#
#   OMP_NUM_THREADS=1 bash examples/multi30k/ctc/benchmark.sh [more options of fairseq-hrt benchmark]
#
# Result: $OUT/comparison_ctc (OUT=runs/multi30k/en-de): table.md, results.json, quality_speed.png and .svg. THREADS (1), REPEATS (5),
# SPEED_SENTENCES (200). TUNE=1 chooses the length penalty of each beam on the validation set first (tables in $OUT/tuned).
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
SRC=${SRC:-en} TGT=${TGT:-de} THREADS=${THREADS:-1} REPEATS=${REPEATS:-5} SPEED_SENTENCES=${SPEED_SENTENCES:-200}
OUT=${OUT:-runs/multi30k/$SRC-$TGT}
source "$COMMON/systems.sh"
autoregressive_systems "$OUT/at/checkpoint_best.pt"
ctc_systems CTC "$OUT/ctc_nll/checkpoint_last.pt"
ctc_systems "CTC (n-grams)" "$OUT/ctc_ngram/checkpoint_last.pt"

run fairseq-hrt benchmark "$OUT/data-bin" --source-lang "$SRC" --target-lang "$TGT" \
    --references "$OUT/raw/test.$TGT.gz" --detokenize "moses:$TGT" "${SYSTEMS[@]}" \
    --ratio-to "AT beam 5 (fairseq)" --ratio-to "AT greedy" --threads "$THREADS" --length-bins 8,12,16 \
    --speed-sentences "$SPEED_SENTENCES" --repeats "$REPEATS" --examples 5 --out "$OUT/comparison_ctc" "$@"
