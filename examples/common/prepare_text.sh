#!/usr/bin/env bash
# Raw text to binarised data: tokenisation (Moses's, for Chinese jieba's), joint BPE, one dictionary for both languages.
#
#   OUT=runs/example SRC=en TGT=de MERGES=6000 bash examples/common/prepare_text.sh RAW
#
# RAW holds train/valid/test.{en,de}, each plain or gzip (.gz). Results: $OUT/text (tokenised), $OUT/bpe (codes and
# text), $OUT/data-bin (binarised). LANGUAGE: of both sides, where SRC and TGT are no language codes. LIKE:
# OUT of an earlier run whose subwords and dictionary are used instead of new ones. SPLITS: "train valid" is enough to train on.
# TOKENISED=1: the text is in words already, and not packed. SEPARATE=1: subwords and a dictionary for each language, MERGES for each.
# SENTENCEPIECE: a model whose pieces of the raw text take the place of tokenisation and BPE; "learn": one of MERGES pieces is made.
# Started again it does only what is missing.
set -euo pipefail
source "$(dirname "$0")/recipe.sh"
RAW=${1:?"usage: OUT=... bash prepare_text.sh FOLDER_WITH_RAW_TEXT"}
OUT=${OUT:?"OUT names the folder of the results"}
SRC=${SRC:-en} TGT=${TGT:-de} MERGES=${MERGES:-6000} LIKE=${LIKE:-} WORKERS=${WORKERS:-1} TOKENISED=${TOKENISED:-}
SPLITS=${SPLITS:-train valid test} SEPARATE=${SEPARATE:-} SENTENCEPIECE=${SENTENCEPIECE:-}
if [ -n "$SENTENCEPIECE" ] && [ "$TOKENISED$SEPARATE" ]; then
    fail "SENTENCEPIECE takes raw text, and its pieces are of both languages: leave TOKENISED and SEPARATE out"
fi
if [ -n "$LIKE" ] && [ -n "$SENTENCEPIECE" ]; then SENTENCEPIECE=$LIKE/bpe/sentencepiece.model; fi
if [ -z "$DRY_RUN" ] && [ -n "$SENTENCEPIECE" ] && [ "$SENTENCEPIECE" != learn ] && [ ! -f "$SENTENCEPIECE" ]; then
    fail "SENTENCEPIECE=$SENTENCEPIECE: there is no such model; give its file, or \"learn\""
fi
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

# aligned FOLDER SPLIT: fails if its two languages have different numbers of lines
aligned() {
    if [ -z "$DRY_RUN" ] && [ "$(wc -l <"$1/$2.$SRC")" != "$(wc -l <"$1/$2.$TGT")" ]; then
        fail "$2.$SRC and $2.$TGT of $RAW have different numbers of lines"
    fi
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
        aligned "$OUT/text" "$split"
    done
}

segment() {
    local split name
    for name in $(codes); do
        if [ -n "$LIKE" ]; then run cp "$LIKE/bpe/$name" "$OUT/bpe/$name"; fi
    done
    if [ -z "$LIKE" ]; then learn_subwords; fi
    for split in $SPLITS; do
        both apply_subwords "$split" "$SRC" -- apply_subwords "$split" "$TGT"
    done
}

# Names of the files of merges; of the one of a language.
codes() { if [ "$SEPARATE" = 1 ]; then echo "codes.$SRC codes.$TGT"; else echo codes; fi; }
codes_of() { if [ "$SEPARATE" = 1 ]; then echo "codes.$1"; else echo codes; fi; }

apply_subwords() {
    run subword-nmt apply-bpe --codes "$OUT/bpe/$(codes_of "$2")" --input "$OUT/text/$1.$2" --output "$OUT/bpe/$1.$2"
}

learn_subwords() {
    local language
    if [ "$SEPARATE" = 1 ]; then
        for language in "$SRC" "$TGT"; do
            run subword-nmt learn-bpe --input "$OUT/text/train.$language" --symbols "$MERGES" --output "$OUT/bpe/codes.$language"
        done
    else
        run subword-nmt learn-joint-bpe-and-vocab --input "$OUT/text/train.$SRC" "$OUT/text/train.$TGT" \
            --symbols "$MERGES" --output "$OUT/bpe/codes" \
            --write-vocabulary "$OUT/bpe/vocabulary.$SRC" "$OUT/bpe/vocabulary.$TGT"
    fi
}

segment_raw() {
    local split source target model=$OUT/bpe/sentencepiece.model
    if [ "$SENTENCEPIECE" = learn ]; then
        source=$(raw_file "train.$SRC") target=$(raw_file "train.$TGT")
        run_to "$model" python "$COMMON/sentencepiece_text.py" learn --pieces "$MERGES" "$source" "$target"
    else
        run cp "$SENTENCEPIECE" "$model"
    fi
    for split in $SPLITS; do
        source=$(raw_file "$split.$SRC") target=$(raw_file "$split.$TGT")
        both run_to "$OUT/bpe/$split.$SRC" python "$COMMON/sentencepiece_text.py" encode --model "$model" "$source" -- \
            run_to "$OUT/bpe/$split.$TGT" python "$COMMON/sentencepiece_text.py" encode --model "$model" "$target"
        aligned "$OUT/bpe" "$split"
    done
}

binarise() {
    local split texts=() dictionary=(--joined-dictionary)
    if [ "$SEPARATE" = 1 ]; then dictionary=(); fi
    if [ -n "$LIKE" ]; then dictionary=(--srcdict "$LIKE/data-bin/dict.$SRC.txt" --tgtdict "$LIKE/data-bin/dict.$TGT.txt"); fi
    for split in $SPLITS; do texts+=("--${split}pref" "$OUT/bpe/$split"); done
    run fairseq-preprocess --source-lang "$SRC" --target-lang "$TGT" "${dictionary[@]}" --workers "$WORKERS" \
        "${texts[@]}" --destdir "$OUT/data-bin"
}

if [ "$TOKENISED" = 1 ]; then PARTS+=", tokenised"; fi
if [ -n "$SENTENCEPIECE" ]; then
    stage pieces "$OUT/bpe" "$RAW $SRC $TGT$PARTS, ${LIKE:+like $LIKE, }$([ "$SENTENCEPIECE" = learn ] && echo "$MERGES pieces" || echo "$SENTENCEPIECE")" segment_raw
else
    stage tokenise "$OUT/text" "$RAW $SRC $TGT$PARTS" tokenise
    stage bpe "$OUT/bpe" "${LIKE:+like $LIKE }merges $MERGES${SEPARATE:+ for each language}" segment
fi
stage binarise "$OUT/data-bin" "$([ "$SEPARATE" = 1 ] && echo "a dictionary for each language" || echo "joined dictionary")" binarise
