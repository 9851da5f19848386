#!/usr/bin/env bash
# Sequence-level distillation: the training sources with the targets that a teacher translates (Kim
# and Rush, 2016).
#
#   OUT=runs/example SRC=en TGT=de bash examples/common/distill.sh runs/example/at/checkpoint_best.pt
#
# Needs what prepare_text.sh made in OUT. Result: $OUT/distilled/data-bin, binarised with the same
# dictionary, for --distilled-data. BEAM (5), MAX_TOKENS (8000) of a batch. IN_PRECISION: set by
# recipe.sh. Continues where it was stopped.
set -euo pipefail
source "$(dirname "$0")/recipe.sh"
TEACHER=${1:?"usage: OUT=... bash distill.sh CHECKPOINT"}
OUT=${OUT:?"OUT names the folder of the results"}
SRC=${SRC:-en} TGT=${TGT:-de} BEAM=${BEAM:-5} MAX_TOKENS=${MAX_TOKENS:-8000}

distil() {
    local system="name=teacher,path=$TEACHER,task=translation_autoregressive,beam=$BEAM${IN_PRECISION:-}"
    run fairseq-hrt distill "$OUT/data-bin" --source-lang "$SRC" --target-lang "$TGT" \
        --out "$OUT/distilled" --max-tokens "$MAX_TOKENS" \
        --system "$system,max_len_a=1.5,max_len_b=10"
}

MODEL=$(contents_of_models "$TEACHER")
stage distil "$OUT/distilled" "$TEACHER $MODEL beam $BEAM, batches of $MAX_TOKENS" distil
