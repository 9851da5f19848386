#!/usr/bin/env bash
# The size of the graph and of the batch: quality and speed of one model over decoding scales, and what its graphs are like.
#
#   OMP_NUM_THREADS=1 bash examples/multi30k/dag/sweep.sh [more options of fairseq-hrt benchmark]
#
# After train.sh. SCALES ("2 3 4 6 8"), BATCHES ("1,8,32,64"), THREADS (1), REPEATS (3), SPEED_SENTENCES (128). Results in $OUT/sweep_dag
# (OUT=runs/multi30k/en-de): table.md, results.json, quality_speed.png (FA-DAT, Figures 2 and 3) and graph_statistics.md, .png (its
# Table 3 and Figure 1).
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
SRC=${SRC:-en} TGT=${TGT:-de} THREADS=${THREADS:-1} REPEATS=${REPEATS:-3} SPEED_SENTENCES=${SPEED_SENTENCES:-128}
SCALES=${SCALES:-2 3 4 6 8} BATCHES=${BATCHES:-1,8,32,64}
OUT=${OUT:-runs/multi30k/$SRC-$TGT}
SYSTEMS=(--system "name=AT beam 5 (fairseq),path=$OUT/at/checkpoint_best.pt,task=translation,beam=5")
for scale in $SCALES; do
    for model in nll fuzzy; do
        SYSTEMS+=(--system "name=$model λ=$scale,path=$OUT/dag_$model/checkpoint_last.pt,task=translation_dag,engine=torch,dag_decode_upsample_scale=$scale")
    done
done

run fairseq-hrt benchmark "$OUT/data-bin" --source-lang "$SRC" --target-lang "$TGT" \
    --references "$OUT/raw/test.$TGT.gz" --detokenize "moses:$TGT" "${SYSTEMS[@]}" \
    --ratio-to "AT beam 5 (fairseq)" --threads "$THREADS" --batch-sizes "$BATCHES" \
    --speed-sentences "$SPEED_SENTENCES" --repeats "$REPEATS" --out "$OUT/sweep_dag" "$@"
run python examples/study/graph_statistics.py "$OUT/data-bin" --source-lang "$SRC" --target-lang "$TGT" --gen-subset valid \
    --system "name=DAG,path=$OUT/dag_nll/checkpoint_last.pt,task=translation_dag" \
    --system "name=FA-DAT,path=$OUT/dag_fuzzy/checkpoint_last.pt,task=translation_dag" --out "$OUT/sweep_dag"
