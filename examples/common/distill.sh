#!/usr/bin/env bash
# Sequence-level distillation: the training sources with the targets that a teacher translates (Kim and Rush, 2016).
#
#   OUT=runs/example SRC=en TGT=de bash examples/common/distill.sh runs/example/at/checkpoint_best.pt
#
# Needs what prepare_text.sh made in OUT. Result: $OUT/distilled/data-bin, binarised with the same dictionary, for
# --distilled-data. BEAM (5), MAX_TOKENS (8000) of a batch. Started again it does only what is missing.
set -euo pipefail
source "$(dirname "$0")/recipe.sh"
TEACHER=${1:?"usage: OUT=... bash distill.sh CHECKPOINT"}
OUT=${OUT:?"OUT names the folder of the results"}
SRC=${SRC:-en} TGT=${TGT:-de} BEAM=${BEAM:-5} MAX_TOKENS=${MAX_TOKENS:-8000}

translate() {
    run_to "$OUT/distilled/generate.log" fairseq-generate "$OUT/data-bin" --user-dir fairseq_hrt \
        --task translation_autoregressive --source-lang "$SRC" --target-lang "$TGT" --gen-subset train \
        --path "$TEACHER" --beam "$BEAM" --max-tokens "$MAX_TOKENS" --max-len-a 1.5 --max-len-b 10 \
        --log-format simple --log-interval 50
}

binarise() {
    local sentences="all"
    if [ -z "$DRY_RUN" ]; then sentences=$(wc -l <"$OUT/bpe/train.$SRC"); fi
    run_to "$OUT/distilled/train.$TGT" python "$COMMON/extract_hypotheses.py" \
        "$OUT/distilled/generate.log" --sentences "$sentences"
    run cp "$OUT/bpe/train.$SRC" "$OUT/distilled/train.$SRC"
    run fairseq-preprocess --source-lang "$SRC" --target-lang "$TGT" --trainpref "$OUT/distilled/train" \
        --srcdict "$OUT/data-bin/dict.$SRC.txt" --tgtdict "$OUT/data-bin/dict.$TGT.txt" \
        --destdir "$OUT/distilled/data-bin"
}

MODEL=$(contents_of_models "$TEACHER")
stage translate "$OUT/distilled" "$TEACHER $MODEL beam $BEAM" translate
stage binarise_distilled "$OUT/distilled/data-bin" "same dictionary" binarise
