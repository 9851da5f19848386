#!/usr/bin/env bash
# Takes a parallel corpus out of a folder and prepares it: collected, tokenised, joint subwords, binarised.
#
#   OUT=runs/wmt14_en_de SRC=en TGT=de MERGES=32000 bash examples/common/collect_text.sh FOLDER
#   SAMPLE=2000 OUT=... bash examples/common/collect_text.sh FOLDER        the first 2,000 pairs of each part, to try a recipe out
#
# FOLDER holds train/valid/test.{$SRC,$TGT}, each plain or gzip (.gz). SPLITS: "train valid" is enough to train on. Results: $OUT/raw,
# and what prepare_text.sh makes of it.
set -euo pipefail
FOLDER=$(realpath -m "${1:?"usage: OUT=... bash collect_text.sh FOLDER"}")
source "$(dirname "$0")/recipe.sh"
OUT=${OUT:?"OUT names the folder of the results"}
if [ "$FOLDER" = "$(realpath -m "$OUT/raw")" ]; then fail "the text is in $OUT/raw, where the collected one is written: give another OUT"; fi
FOLDER=$(realpath -m --relative-base="$REPOSITORY" "$FOLDER")
SRC=${SRC:-en} TGT=${TGT:-de} MERGES=${MERGES:-32000} SAMPLE=${SAMPLE:-} SPLITS=$(xargs <<<"${SPLITS:-train valid test}")
export OUT SRC TGT MERGES SPLITS DRY_RUN

# Each part of the corpus becomes $OUT/raw/PART.gz, cut off after SAMPLE lines.
collect() {
    local split language file
    for split in $SPLITS; do
        for language in $SRC $TGT; do
            file=$(text_file "$FOLDER" "$split.$language")
            run_to "$OUT/raw/$split.$language.gz" python "$COMMON/first_lines.py" "$file" ${SAMPLE:+--lines "$SAMPLE"}
        done
    done
}

TEXT=$(contents_of_text "$FOLDER")
stage collect "$OUT/raw" "$FOLDER $SRC $TGT $SPLITS ${SAMPLE:-all}, $TEXT" collect
# What is prepared depends on what was collected.
export STAGE_CHAIN
bash "$COMMON/prepare_text.sh" "$OUT/raw"
