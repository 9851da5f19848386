#!/usr/bin/env bash
# Raw text to binarised data: Moses tokenisation, joint BPE, one dictionary for both languages.
#
#   OUT=runs/example SRC=en TGT=de MERGES=6000 bash examples/common/prepare_text.sh RAW
#
# RAW holds train/valid/test.{en,de}, each plain or gzip (.gz). Results: $OUT/text (tokenised), $OUT/bpe (codes and
# text), $OUT/data-bin (binarised). LANGUAGE: of both sides, where SRC and TGT are no language codes. LIKE:
# OUT of an earlier run whose subwords and dictionary are used instead of new ones. SPLITS: "train valid" is enough to train on.
# TOKENISED=1: the text is in words already, and not packed.
# Started again it does only what is missing.
set -euo pipefail
source "$(dirname "$0")/recipe.sh"
RAW=${1:?"usage: OUT=... bash prepare_text.sh FOLDER_WITH_RAW_TEXT"}
OUT=${OUT:?"OUT names the folder of the results"}
SRC=${SRC:-en} TGT=${TGT:-de} MERGES=${MERGES:-6000} LIKE=${LIKE:-} WORKERS=${WORKERS:-1} TOKENISED=${TOKENISED:-}
SPLITS=${SPLITS:-train valid test}
PARTS=""
if [ "$SPLITS" != "train valid test" ]; then PARTS=", $SPLITS"; fi

raw_file() {
    local file
    for file in "$RAW/$1" "$RAW/$1.gz"; do
        if [ -f "$file" ]; then
            echo "$file"
            return
        fi
    done
    # A dry run shows the commands also for data that are not there yet.
    if [ -n "$DRY_RUN" ]; then echo "$RAW/$1"; else fail "$RAW has neither $1 nor $1.gz"; fi
}

# both COMMAND... -- COMMAND...: the two languages at the same time; fails if one of them does.
both() {
    local first=()
    while [ "$1" != -- ]; do
        first+=("$1")
        shift
    done
    shift
    if [ -n "$DRY_RUN" ]; then
        "${first[@]}"
        "$@"
        return
    fi
    "${first[@]}" &
    local pid=$!
    "$@"
    wait "$pid"
}

tokenise() {
    local split source target
    for split in $SPLITS; do
        source=$(raw_file "$split.$SRC") target=$(raw_file "$split.$TGT")
        if [ "$TOKENISED" = 1 ]; then
            if [[ $source$target == *.gz* ]]; then fail "TOKENISED=1 takes plain text, no .gz: unpack $source and $target"; fi
            run cp "$source" "$OUT/text/$split.$SRC"
            run cp "$target" "$OUT/text/$split.$TGT"
        else
            both run_to "$OUT/text/$split.$SRC" python "$COMMON/tokenize_text.py" --language "${LANGUAGE:-$SRC}" "$source" -- \
                run_to "$OUT/text/$split.$TGT" python "$COMMON/tokenize_text.py" --language "${LANGUAGE:-$TGT}" "$target"
        fi
        if [ -z "$DRY_RUN" ] && [ "$(wc -l <"$OUT/text/$split.$SRC")" != "$(wc -l <"$OUT/text/$split.$TGT")" ]; then
            fail "$split.$SRC and $split.$TGT of $RAW have different numbers of lines"
        fi
    done
}

segment() {
    local split
    if [ -n "$LIKE" ]; then
        run cp "$LIKE/bpe/codes" "$OUT/bpe/codes"
    else
        learn_subwords
    fi
    for split in $SPLITS; do
        both apply_subwords "$split.$SRC" -- apply_subwords "$split.$TGT"
    done
}

apply_subwords() {
    run subword-nmt apply-bpe --codes "$OUT/bpe/codes" --input "$OUT/text/$1" --output "$OUT/bpe/$1"
}

learn_subwords() {
    run subword-nmt learn-joint-bpe-and-vocab --input "$OUT/text/train.$SRC" "$OUT/text/train.$TGT" \
        --symbols "$MERGES" --output "$OUT/bpe/codes" \
        --write-vocabulary "$OUT/bpe/vocabulary.$SRC" "$OUT/bpe/vocabulary.$TGT"
}

binarise() {
    local split texts=() dictionary=(--joined-dictionary)
    if [ -n "$LIKE" ]; then dictionary=(--srcdict "$LIKE/data-bin/dict.$SRC.txt" --tgtdict "$LIKE/data-bin/dict.$TGT.txt"); fi
    for split in $SPLITS; do texts+=("--${split}pref" "$OUT/bpe/$split"); done
    run fairseq-preprocess --source-lang "$SRC" --target-lang "$TGT" "${dictionary[@]}" --workers "$WORKERS" \
        "${texts[@]}" --destdir "$OUT/data-bin"
}

if [ "$TOKENISED" = 1 ]; then PARTS+=", tokenised"; fi
stage tokenise "$OUT/text" "$RAW $SRC $TGT$PARTS" tokenise
stage bpe "$OUT/bpe" "${LIKE:+like $LIKE }merges $MERGES" segment
stage binarise "$OUT/data-bin" "joined dictionary" binarise
