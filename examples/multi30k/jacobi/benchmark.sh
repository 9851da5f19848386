#!/usr/bin/env bash
# Parallel decoding of the teacher on Multi30k's test set, in the layout of the paper's Table 1 (Santilli et al., 2023).
#
#   OMP_NUM_THREADS=1 bash examples/multi30k/jacobi/benchmark.sh [more options of fairseq-hrt benchmark]
#
# After ../prepare.sh and ../hrt/train_at.sh. Nothing is trained. DRAFTS: "family=checkpoint …", models whose translations the
# teacher verifies, e.g. DRAFTS="hrt=runs/multi30k/en-de/hrt/checkpoint_last.pt". Result for THREADS="1 2" (each in a run of its
# own): $OUT/comparison_jacobi_<threads> (OUT=runs/multi30k/en-de). REPEATS (5), SPEED_SENTENCES (200), BATCHES ("1,8,32").
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
SRC=${SRC:-en} TGT=${TGT:-de} THREADS=${THREADS:-1 2} REPEATS=${REPEATS:-5} SPEED_SENTENCES=${SPEED_SENTENCES:-200}
BATCHES=${BATCHES:-1,8,32} DRAFTS=${DRAFTS:-}
OUT=${OUT:-runs/multi30k/$SRC-$TGT}
source "$COMMON/systems.sh"
TEACHER=$OUT/at/checkpoint_best.pt
autoregressive_systems "$TEACHER"
JACOBI="path=$TEACHER,task=translation_jacobi,engine=torch,beam=1"
SYSTEMS+=(
    --system "name=PJ,$JACOBI,jacobi_mode=pj,max_len_a=1.2,max_len_b=10"
    --system "name=PGJ b=5,$JACOBI,jacobi_mode=pgj,jacobi_block_size=5"
    --system "name=PGJ b=3,$JACOBI,jacobi_mode=pgj,jacobi_block_size=3"
    --system "name=HGJ b=3,$JACOBI,jacobi_mode=hgj,jacobi_block_size=3"
    --system "name=frontier w=3,$JACOBI,jacobi_window=3"
    --system "name=frontier w=3 n-grams,$JACOBI,jacobi_window=3,jacobi_draft=ngram"
)
jacobi_systems "$TEACHER"
for draft in $DRAFTS; do jacobi_systems "$TEACHER" "${draft%%=*}" "${draft#*=}"; done

for threads in $THREADS; do
    run fairseq-hrt benchmark "$OUT/data-bin" --source-lang "$SRC" --target-lang "$TGT" \
        --references "$OUT/raw/test.$TGT.gz" --detokenize "moses:$TGT" "${SYSTEMS[@]}" \
        --ratio-to "AT greedy (fairseq)" --ratio-to "AT greedy" --identical-to "AT greedy" --threads "$threads" \
        --batch-sizes "$BATCHES" --speed-sentences "$SPEED_SENTENCES" --repeats "$REPEATS" \
        --out "$OUT/comparison_jacobi_$threads" "$@"
done
