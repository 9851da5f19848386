#!/usr/bin/env bash
# Every model that the recipes beside this one have trained, and the teacher in CTranslate2, in one run: quality, throughput over batch
# sizes, latency of raw lines (tokenisation included), loading and memory.
#
#   OMP_NUM_THREADS=1 bash examples/multi30k/compare_all.sh [more options of fairseq-hrt benchmark]
#
# After hrt/train_at.sh and whichever of hrt/train_hrt.sh, bidirectional/train.sh, dag/train.sh and ctc/train.sh you have run; what is not there is
# left out. Result: $OUT/comparison_all (OUT=runs/multi30k/en-de). THREADS (1), REPEATS (5), SPEED_SENTENCES (100),
# BATCHES ("1,2,4,8,16,32,64"). TUNE=1 chooses length penalties and the graphs' beta on the validation set first. More options may be --pin, or --comet model.ckpt.
set -euo pipefail
source "$(dirname "$0")/../common/recipe.sh"
SRC=${SRC:-en} TGT=${TGT:-de} THREADS=${THREADS:-1} REPEATS=${REPEATS:-5} SPEED_SENTENCES=${SPEED_SENTENCES:-100}
BATCHES=${BATCHES:-1,2,4,8,16,32,64}
OUT=${OUT:-runs/multi30k/$SRC-$TGT}
source "$COMMON/systems.sh"

trained() { [ -n "$DRY_RUN" ] || [ -f "$1" ]; }

autoregressive_systems "$OUT/at/checkpoint_best.pt"
ctranslate2_systems "$OUT/at/checkpoint_best.pt"
native_systems "AT greedy" "$OUT/at/checkpoint_best.pt" translation_autoregressive
if trained "$OUT/hrt/checkpoint_last.pt"; then
    hrt_systems "$OUT/hrt/checkpoint_last.pt"
    native_systems "HRT k=2 (1,1)" "$OUT/hrt/checkpoint_last.pt" translation_hrt,hrt_decode_chunk=2
    native_systems "HRT k=3 (1,1)" "$OUT/hrt/checkpoint_last.pt" translation_hrt,hrt_decode_chunk=3
fi
# Of the students the last checkpoint, as in their own recipes: the learning rate has come down to 0
# there.
for model in "IBDecoder 2x1" "IB+SA(2) 2x2"; do
    checkpoint=$OUT/bidirectional_${model##* }/checkpoint_last.pt
    if trained "$checkpoint"; then
        bidirectional_systems "${model% *}" "$checkpoint"
        native_systems "${model% *} greedy" "$checkpoint" translation_bidirectional,max_len_a=1.5,max_len_b=10
    fi
done
for model in "DAG dag_nll" "FA-DAT dag_fuzzy"; do
    checkpoint=$OUT/${model##* }/checkpoint_last.pt
    if trained "$checkpoint"; then
        dag_systems "${model% *}" "$checkpoint"
        native_systems "${model% *} greedy" "$checkpoint" translation_dag,dag_decode_strategy=greedy
    fi
done
for model in "CTC ctc_nll" "CTC (n-grams) ctc_ngram"; do
    checkpoint=$OUT/${model##* }/checkpoint_last.pt
    if trained "$checkpoint"; then
        ctc_systems "${model% *}" "$checkpoint"
        native_systems "${model% *} greedy" "$checkpoint" translation_ctc
    fi
done
jacobi_systems "$OUT/at/checkpoint_best.pt"

run fairseq-hrt benchmark "$OUT/data-bin" --source-lang "$SRC" --target-lang "$TGT" \
    --references "$OUT/raw/test.$TGT.gz" --detokenize "moses:$TGT" --sources "$OUT/raw/test.$SRC.gz" --codes "$OUT/bpe/codes" \
    "${SYSTEMS[@]}" --ratio-to "AT greedy (fairseq)" --ratio-to "AT greedy" --identical-to "AT greedy" --memory \
    --threads "$THREADS" --batch-sizes "$BATCHES" --speed-sentences "$SPEED_SENTENCES" --repeats "$REPEATS" \
    --out "$OUT/comparison_all" "$@"
