#!/usr/bin/env bash
# An HRT student of an imported model: starts from its weights and learns its translations of a text.
#
#   SOURCE=folder TEXT=lines.gz OUT=runs/import/en-pt bash examples/import/student.sh
#
# SOURCE is what fairseq-hrt import takes, TEXT a sentence a line in its source language, plain or gzip. For models with
# Marian's conventions, SentencePiece and no language tokens: Firefox', translateLocally's, OPUS-MT's of two languages.
# SRC (en) and TGT (pt) are the languages that the import gives. HOURS (1) of training, SEED (1), TEST (1000) and VALID
# (500) lines held out, MAX_TOKENS (1000) of a batch, CURRICULUM (400) updates until all sentences are trained in chunks,
# SAVE_EVERY (100) updates; PRECISION as ../common/precision.py finds. $OUT/student is the bundle, $OUT/comparison.md the
# table. Started again it does only what is missing; an interrupted training continues.
set -euo pipefail
SOURCE=$(realpath -m "${SOURCE:?"SOURCE names the model to import"}")
TEXT=$(realpath -m "${TEXT:?"TEXT names lines in its source language"}")
source "$(dirname "$0")/../common/recipe.sh"
SRC=${SRC:-en} TGT=${TGT:-pt} HOURS=${HOURS:-1} SEED=${SEED:-1} TEST=${TEST:-1000} VALID=${VALID:-500}
MAX_TOKENS=${MAX_TOKENS:-1000} CURRICULUM=${CURRICULUM:-400} SAVE_EVERY=${SAVE_EVERY:-100}
OUT=${OUT:-runs/import/$SRC-$TGT}
choose_precision
HERE=examples/import

import_model() {
    # It appears when it is complete.
    if [ -d "$OUT/imported/bundle" ]; then return; fi
    run fairseq-hrt import "$SOURCE" --output "$OUT/imported/bundle" --runtime int8
}

hold_out() {
    run python "$HERE/hold_out.py" "$TEXT" --language "$SRC" --test "$TEST" --valid "$VALID" --seed "$SEED" --out "$OUT/raw"
}

translate() {
    local split
    for split in test valid train; do
        run fairseq-hrt translate "$OUT/imported/bundle" "$OUT/raw/$split.$SRC" --output "$OUT/translated/$split.$TGT" \
            --engine native --threads 1 --quiet --resume
    done
}

binarise() {
    local split text
    for split in train valid test; do
        for text in "raw/$split.$SRC" "translated/$split.$TGT"; do
            run_to "$OUT/data/${text#*/}" python "$HERE/bundle_text.py" "$OUT/imported/bundle" "$OUT/$text" \
                --language "${text##*.}"
        done
    done
    run fairseq-preprocess --source-lang "$SRC" --target-lang "$TGT" --trainpref "$OUT/data/train" \
        --validpref "$OUT/data/valid" --testpref "$OUT/data/test" --destdir "$OUT/data/data-bin" \
        --srcdict "$OUT/imported/bundle/dict.$SRC.txt" --tgtdict "$OUT/imported/bundle/dict.$TGT.txt"
}

train() {
    local options like=(--source-lang "$SRC" --target-lang "$TGT")
    # Languages, sizes and conventions are the imported model's; a dry run has none to look at.
    if [ -z "$DRY_RUN" ]; then
        options=$(python "$HERE/student_options.py" "$OUT/imported/bundle")
        mapfile -t like <<<"$options"
    fi
    run "${TRAINER[@]}" "$OUT/data/data-bin" --user-dir fairseq_hrt --task translation_hrt \
        --arch hrt_transformer "${like[@]}" --dropout 0.1 \
        --finetune-from-model "$OUT/imported/bundle/model.pt" \
        --hrt-chunk-sizes 2 --hrt-curriculum-steps "$CURRICULUM" --criterion hrt_loss --label-smoothing 0.1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 \
        --lr-scheduler inverse_sqrt --lr 0.001 --warmup-updates 100 \
        --max-tokens "$MAX_TOKENS" --stop-time-hours "$HOURS" --seed "$SEED" --num-workers 0 \
        --skip-invalid-size-inputs-valid-test --required-batch-size-multiple 1 \
        --save-interval-updates "$SAVE_EVERY" --keep-interval-updates 5 \
        --no-epoch-checkpoints --save-dir "$OUT/hrt" --log-format simple --log-interval 10
}

pack() {
    if [ -d "$OUT/student/bundle" ]; then return; fi
    local options text=(--tokenizer space --subwords sentencepiece --codes "$OUT/imported/bundle/codes")
    if [ -z "$DRY_RUN" ]; then
        options=$(python "$HERE/student_options.py" --pack "$OUT/imported/bundle")
        mapfile -t text <<<"$options"
    fi
    run fairseq-hrt bundle "$OUT/hrt/checkpoint_last.pt" --data "$OUT/data/data-bin" "${text[@]}" --set beam=1 \
        --runtime int8 --output "$OUT/student/bundle"
}

compare() {
    run_to "$OUT/comparison/comparison.md" python "$HERE/compare.py" --teacher "$OUT/imported/bundle" \
        --student "$OUT/student/bundle" --text "$OUT/raw/test.$SRC"
    if [ -z "$DRY_RUN" ]; then cat "$OUT/comparison/comparison.md"; fi
}

# contents_of PATH: of a file, or of all files of a folder
contents_of() {
    local files
    if [ -n "$DRY_RUN" ] || recalled "$1"; then return; fi
    if [ ! -e "$1" ]; then fail "there is no $1: name the model by SOURCE and the text by TEXT"; fi
    mapfile -t files < <(find "$1" -type f | LC_ALL=C sort)
    noted "$(note_of "$1")" "${files[@]}"
}

WORDS=$(contents_of "$TEXT")
MODEL=$(contents_of "$SOURCE")
stage hold_out "$OUT/raw" "$TEXT $WORDS, $TEST and $VALID lines, seed $SEED" hold_out
stage import "$OUT/imported" "$SOURCE $MODEL" import_model
stage translate "$OUT/translated" "native engine" translate
stage binarise "$OUT/data" "pieces of the imported model" binarise
stage train "$OUT/hrt" "$HOURS hours, seed $SEED, $MAX_TOKENS tokens, curriculum $CURRICULUM" train
stage pack "$OUT/student" "int8" pack
stage compare "$OUT/comparison" "native engine" compare
