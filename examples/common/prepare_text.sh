#!/usr/bin/env bash
# Raw text to binarised data: tokenisation (Moses's, for Chinese jieba's), joint BPE, one dictionary
# for both languages.
#
#   OUT=runs/example SRC=en TGT=de MERGES=6000 bash examples/common/prepare_text.sh RAW
#
# RAW holds train/valid/test.{en,de}, each plain or gzip (.gz). Results: $OUT/text (tokenised),
# $OUT/bpe (codes and text), $OUT/data-bin (binarised). TEXT_LANGUAGE: of both sides, where SRC and
# TGT are not language codes. LIKE: OUT of an earlier run whose subwords and dictionary are used
# instead of new ones. SPLITS: "train valid" is enough to train on.
# LONGEST_SOURCE: sources are cut after so many subwords.
# TOKENIZER: another tokeniser, e.g. moses+escape+aggressive (docs/guides/data.md).
# TOKENISED=1: the text is in words already, with MERGES=0 in subwords. SEPARATE=1: subwords and a
# dictionary for each language, MERGES for each.
# SENTENCEPIECE: a model whose pieces of the raw text, in $OUT/pieces, take the place of words and
# BPE; "learn": one of MERGES pieces is made.
# Started again it does only what is missing.
set -euo pipefail
RAW=$(realpath -m "${1:?"usage: OUT=... bash prepare_text.sh FOLDER_WITH_RAW_TEXT"}")
source "$(dirname "$0")/recipe.sh"
RAW=$(realpath -m --relative-base="$REPOSITORY" "$RAW")
OUT=${OUT:?"OUT names the folder of the results"}
SRC=${SRC:-en} TGT=${TGT:-de} MERGES=${MERGES:-6000} LIKE=${LIKE:-} WORKERS=${WORKERS:-1} TOKENISED=${TOKENISED:-}
TOKENIZER=${TOKENIZER:-}
SPLITS=$(xargs <<<"${SPLITS:-train valid test}") SEPARATE=${SEPARATE:-}
SENTENCEPIECE=${SENTENCEPIECE:-} LONGEST_SOURCE=${LONGEST_SOURCE:-}
switches TOKENISED SEPARATE
if ! [[ $MERGES =~ ^[1-9][0-9]*$ || $MERGES$TOKENISED$SENTENCEPIECE = 01 ]]; then
    fail "MERGES=$MERGES: give a number of 1 or more; with TOKENISED=1 also 0, for text that is in subwords"
fi
if [ -n "$SENTENCEPIECE" ] && [ -n "$TOKENISED$SEPARATE$LONGEST_SOURCE" ]; then
    fail "SENTENCEPIECE takes raw text, and its pieces are of both languages: leave TOKENISED," \
        "SEPARATE and LONGEST_SOURCE out"
fi
if [ -n "$TOKENISED$SENTENCEPIECE" ]; then
    unused "with TOKENISED=1 or SENTENCEPIECE" TOKENIZER TEXT_LANGUAGE
fi
if [ -n "$LIKE" ] && [ "$MERGES" != 0 ]; then unused "with LIKE" MERGES; fi
if [ "${SENTENCEPIECE:-learn}" != learn ]; then unused "with the model SENTENCEPIECE" MERGES; fi
if ! [[ $LONGEST_SOURCE =~ ^([1-9][0-9]*)?$ ]]; then
    fail "LONGEST_SOURCE=$LONGEST_SOURCE: give a number of 1 or more"
fi
if [ -n "$LIKE" ] && [ "$(realpath -m "$LIKE")" = "$(realpath -m "$OUT")" ]; then fail "LIKE=$LIKE is OUT itself: give another OUT"; fi
if [ -n "$LIKE" ] && [ -n "$SENTENCEPIECE" ]; then
    if [ "$SENTENCEPIECE" != learn ]; then fail "LIKE=$LIKE has a model of its own: leave SENTENCEPIECE=$SENTENCEPIECE out, or say SENTENCEPIECE=learn"; fi
    SENTENCEPIECE=$LIKE/pieces/sentencepiece.model
fi
case $SENTENCEPIECE in
"$OUT/pieces/"* | "$(realpath -m "$OUT")/pieces/"*) fail "SENTENCEPIECE=$SENTENCEPIECE lies where the pieces are written: give another OUT" ;;
esac
if [ -z "$DRY_RUN" ] && [ -n "$SENTENCEPIECE" ] && [ "$SENTENCEPIECE" != learn ] && [ ! -f "$SENTENCEPIECE" ]; then
    fail "SENTENCEPIECE=$SENTENCEPIECE: there is no such model; give its file, or \"learn\""
fi
SUBWORDS=$OUT/$([ -n "$SENTENCEPIECE" ] && echo pieces || echo bpe)
PARTS=", $(contents_of_text "$RAW")"
if [ "$SPLITS" != "train valid test" ]; then PARTS+=", $SPLITS"; fi

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
    local pid pids failed=""
    "${first[@]}" &
    pids=$!
    "$@" &
    pids+=" $!"
    # Both, so that none of them writes on while the next start begins.
    for pid in $pids; do wait "$pid" || failed=1; done
    [ -z "$failed" ]
}

# aligned FOLDER SPLIT: fails if its two languages have different numbers of lines, or there is
# nothing to learn from
aligned() {
    if [ -z "$DRY_RUN" ] && [ "$(wc -l <"$1/$2.$SRC")" != "$(wc -l <"$1/$2.$TGT")" ]; then
        fail "$2.$SRC and $2.$TGT of $RAW have different numbers of lines"
    fi
    if [ -z "$DRY_RUN" ] && [ "$2" = train ] && [ ! -s "$1/$2.$SRC" ]; then fail "$2.$SRC of $RAW is empty"; fi
}

# Options of tokenize_text.py for a language.
words_of() {
    if [ "$TOKENISED" = 1 ]; then echo --tokenised; else echo "--language ${TEXT_LANGUAGE:-$1}${TOKENIZER:+ --tokenizer $TOKENIZER}"; fi
}

tokenise() {
    local split source target
    for split in $SPLITS; do
        source=$(text_file "$RAW" "$split.$SRC")
        target=$(text_file "$RAW" "$split.$TGT")
        # shellcheck disable=SC2046  # options, word by word
        both run_to "$OUT/text/$split.$SRC" python "$COMMON/tokenize_text.py" $(words_of "$SRC") "$source" -- \
            run_to "$OUT/text/$split.$TGT" python "$COMMON/tokenize_text.py" $(words_of "$TGT") "$target"
        aligned "$OUT/text" "$split"
    done
}

segment() {
    local split name
    if [ -n "$LIKE" ]; then
        for name in $(codes); do run cp "$LIKE/bpe/$name" "$OUT/bpe/$name"; done
    else
        learn_subwords
    fi
    for split in $SPLITS; do
        both apply_subwords "$split" "$SRC" -- apply_subwords "$split" "$TGT"
        # subword-nmt ends lines at U+2028 and the like, too, which words given as they are may hold.
        aligned "$OUT/bpe" "$split"
    done
}

# Names of the files of merges; of the one of a language.
codes() { if [ "$MERGES" = 0 ]; then :; elif [ "$SEPARATE" = 1 ]; then echo "codes.$SRC codes.$TGT"; else echo codes; fi; }
codes_of() { if [ "$SEPARATE" = 1 ]; then echo "codes.$1"; else echo codes; fi; }

apply_subwords() {
    local whole=$OUT/bpe/$1.$2
    if [ -n "$LONGEST_SOURCE" ] && [ "$2" = "$SRC" ]; then whole=$OUT/bpe/whole.$1.$2; fi
    if [ "$MERGES" = 0 ]; then
        run cp "$OUT/text/$1.$2" "$whole"
    else
        run subword-nmt apply-bpe --codes "$OUT/bpe/$(codes_of "$2")" \
            --input "$OUT/text/$1.$2" --output "$whole"
    fi
    if [ "$whole" != "$OUT/bpe/$1.$2" ]; then
        run_to "$OUT/bpe/$1.$2" cut -d ' ' -f "1-$LONGEST_SOURCE" "$whole"
    fi
}

learn_subwords() {
    local language
    if [ "$MERGES" = 0 ]; then return; fi
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
    local split source target model=$OUT/pieces/sentencepiece.model
    if [ "$SENTENCEPIECE" = learn ]; then
        source=$(text_file "$RAW" "train.$SRC")
        target=$(text_file "$RAW" "train.$TGT")
        run_to "$model" python "$COMMON/sentencepiece_text.py" learn --pieces "$MERGES" "$source" "$target"
    else
        run cp "$SENTENCEPIECE" "$model"
    fi
    for split in $SPLITS; do
        source=$(text_file "$RAW" "$split.$SRC")
        target=$(text_file "$RAW" "$split.$TGT")
        both run_to "$OUT/pieces/$split.$SRC" python "$COMMON/sentencepiece_text.py" encode --model "$model" "$source" -- \
            run_to "$OUT/pieces/$split.$TGT" python "$COMMON/sentencepiece_text.py" encode --model "$model" "$target"
        aligned "$OUT/pieces" "$split"
    done
}

binarise() {
    local split texts=() dictionary=(--joined-dictionary)
    if [ "$SEPARATE" = 1 ]; then dictionary=(); fi
    if [ -n "$LIKE" ]; then dictionary=(--srcdict "$LIKE/data-bin/dict.$SRC.txt" --tgtdict "$LIKE/data-bin/dict.$TGT.txt"); fi
    for split in $SPLITS; do texts+=("--${split}pref" "$SUBWORDS/$split"); done
    run fairseq-preprocess --source-lang "$SRC" --target-lang "$TGT" "${dictionary[@]}" --workers "$WORKERS" \
        "${texts[@]}" --destdir "$OUT/data-bin"
}

if [ "$TOKENISED" = 1 ]; then PARTS+=", tokenised"; fi
if [ -n "${TEXT_LANGUAGE:-}" ]; then PARTS+=", $TEXT_LANGUAGE"; fi
if [ -n "$TOKENIZER" ]; then PARTS+=", $TOKENIZER"; fi
TAKEN=()
if [ -n "$LIKE" ] && [ -z "$DRY_RUN" ]; then
    for name in $([ -n "$SENTENCEPIECE" ] || codes); do
        if [ ! -f "$LIKE/bpe/$name" ]; then fail "LIKE=$LIKE has no bpe/$name: it was prepared in another way (SEPARATE, SENTENCEPIECE)"; fi
        TAKEN+=("$LIKE/bpe/$name")
    done
    for name in "dict.$SRC.txt" "dict.$TGT.txt"; do
        if [ ! -f "$LIKE/data-bin/$name" ]; then fail "LIKE=$LIKE has no data-bin/$name: it is of other languages, or was not finished"; fi
        TAKEN+=("$LIKE/data-bin/$name")
    done
fi
if [ "${SENTENCEPIECE:-learn}" != learn ]; then TAKEN+=("$SENTENCEPIECE"); fi
OTHERS=""
if [ ${#TAKEN[@]} -gt 0 ]; then OTHERS=", $(contents "${TAKEN[@]}")"; fi
if [ -n "$SENTENCEPIECE" ]; then
    stage pieces "$OUT/pieces" "$RAW $SRC $TGT$PARTS, ${LIKE:+like $LIKE, }$([ "$SENTENCEPIECE" = learn ] && echo "$MERGES pieces" || echo "$SENTENCEPIECE")$OTHERS" segment_raw
else
    stage tokenise "$OUT/text" "$RAW $SRC $TGT$PARTS" tokenise
    MADE="${LIKE:+like $LIKE }merges $MERGES${SEPARATE:+ for each language}"
    MADE+="${LONGEST_SOURCE:+, sources cut after $LONGEST_SOURCE}"
    stage bpe "$OUT/bpe" "$MADE$OTHERS" segment
fi
stage binarise "$OUT/data-bin" "$([ "$SEPARATE" = 1 ] && echo "a dictionary for each language" || echo "joined dictionary")" binarise
