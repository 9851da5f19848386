#!/usr/bin/env bash
# Takes a parallel corpus out of a folder and prepares it: collected, tokenised, joint subwords, binarised.
#
#   OUT=runs/wmt14_en_de SRC=en TGT=de MERGES=32000 bash examples/common/collect_text.sh FOLDER
#   SAMPLE=2000 OUT=... bash examples/common/collect_text.sh FOLDER        the first 2,000 pairs of each part, to try a recipe out
#
# FOLDER holds train/valid/test.{$SRC,$TGT}, each plain or gzip (.gz). Results: $OUT/raw, and what prepare_text.sh makes of it.
set -euo pipefail
FOLDER=$(realpath -m "${1:?"usage: OUT=... bash collect_text.sh FOLDER"}")
source "$(dirname "$0")/recipe.sh"
OUT=${OUT:?"OUT names the folder of the results"}
if [ "$FOLDER" = "$(realpath -m "$OUT/raw")" ]; then fail "the text is in $OUT/raw, where the collected one is written: give another OUT"; fi
FOLDER=$(realpath -m --relative-base="$REPOSITORY" "$FOLDER")
SRC=${SRC:-en} TGT=${TGT:-de} MERGES=${MERGES:-32000} SAMPLE=${SAMPLE:-}
export OUT SRC TGT MERGES DRY_RUN

# take FILE: the corpus's FILE becomes $OUT/raw/FILE.gz, cut off after SAMPLE lines
take() {
    local source target=$OUT/raw/$1.gz
    if [ -f "$FOLDER/$1" ] && [ -f "$FOLDER/$1.gz" ]; then fail "$FOLDER has both $1 and $1.gz: remove the one that is not meant"; fi
    for source in "$FOLDER/$1.gz" "$FOLDER/$1"; do
        if [ -f "$source" ]; then break; fi
    done
    if [ -z "$DRY_RUN" ] && [ ! -f "$source" ]; then fail "$FOLDER has neither $1 nor $1.gz"; fi
    run_to "$target" python examples/common/first_lines.py "$source" ${SAMPLE:+--lines "$SAMPLE"}
}

collect() {
    local split language
    for split in train valid test; do
        for language in $SRC $TGT; do take "$split.$language"; done
    done
}

stage collect "$OUT/raw" "$FOLDER $SRC $TGT ${SAMPLE:-all}" collect
# What is prepared depends on what was collected.
export STAGE_CHAIN
bash "$COMMON/prepare_text.sh" "$OUT/raw"
