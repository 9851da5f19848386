#!/usr/bin/env bash
# Multi30k, task 1 (captions of images; 29,000 training pairs), from raw text to binarised data.
#
#   bash examples/multi30k/prepare.sh                         downloads the public files (about 2 MB)
#   DATA=folder SRC=en TGT=fr bash examples/multi30k/prepare.sh   uses the files of a folder
#   TGT="de fr" bash examples/multi30k/prepare.sh             several languages as one task
#
# Of several languages a word before each source sentence, __de__ or __fr__, names the one that is asked for; the mixture is language xx.
#
# DATA holds train.*.gz, val.*.gz and test_2016_flickr.*.gz as github.com/multi30k/dataset publishes them (folder
# data/task1/raw, non-commercial research and education). Results: $OUT (runs/multi30k/en-de, en-de-fr): raw, text, bpe,
# data-bin, of several languages also mixed.
set -euo pipefail
source "$(dirname "$0")/../common/recipe.sh"
SRC=${SRC:-en} TGT=$(echo ${TGT:-de}) MERGES=${MERGES:-6000}
OUT=${OUT:-runs/multi30k/$SRC-${TGT// /-}}
URL=https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw
export OUT SRC TGT MERGES DRY_RUN
if [[ $TGT == *" "* ]]; then unused "with several languages in TGT" TOKENISED TOKENIZER TEXT_LANGUAGE SENTENCEPIECE; fi

# fetch NAME FILE: the published file NAME becomes $OUT/raw/FILE
fetch() {
    local target=$OUT/raw/$2
    if [ -n "${DATA:-}" ]; then
        run cp "$DATA/$1" "$target"
        return
    fi
    run curl --fail --silent --show-error --location --retry 2 --output "$target.partial" "$URL/$1" ||
        fail "cannot download $URL/$1; without internet access put the files in a folder and name it: DATA=folder"
    run mv "$target.partial" "$target"
}

collect() {
    local language
    for language in $SRC $TGT; do
        fetch "train.$language.gz" "train.$language.gz"
        fetch "val.$language.gz" "valid.$language.gz"
        fetch "test_2016_flickr.$language.gz" "test.$language.gz"
    done
}

# The contents of the files of DATA; published data never change.
contents_of_folder() {
    local part language files=()
    if [ -n "$DRY_RUN" ] || recalled "$DATA"; then return; fi
    for part in train val test_2016_flickr; do
        for language in $SRC $TGT; do
            if [ ! -f "$DATA/$part.$language.gz" ]; then fail "DATA=$DATA has no $part.$language.gz"; fi
            files+=("$DATA/$part.$language.gz")
        done
    done
    noted "$(note_of "$DATA")" "${files[@]}"
}

# The words of all languages, and each pair of them in one file.
mix() {
    local split language pairs
    for split in train valid test; do
        pairs=()
        for language in $SRC $TGT; do
            run_to "$OUT/mixed/words.$split.$language" python "$COMMON/tokenize_text.py" --language "$language" "$OUT/raw/$split.$language.gz"
        done
        for language in $TGT; do pairs+=(--pair "$language" "$OUT/mixed/words.$split.$SRC" "$OUT/mixed/words.$split.$language"); done
        run python "$COMMON/tag_languages.py" "${pairs[@]}" --out "$OUT/mixed/$split.$SRC" "$OUT/mixed/$split.xx"
    done
}

TEXT=""
if [ -n "${DATA:-}" ]; then TEXT=", $(contents_of_folder)"; fi
stage collect "$OUT/raw" "${DATA:-$URL} $SRC $TGT$TEXT" collect
# What is prepared depends on what was collected.
export STAGE_CHAIN
if [[ $TGT == *" "* ]]; then
    stage mix "$OUT/mixed" "$SRC $TGT" mix
    TGT=xx TOKENISED=1 bash "$COMMON/prepare_text.sh" "$OUT/mixed"
else
    bash "$COMMON/prepare_text.sh" "$OUT/raw"
fi
