#!/usr/bin/env bash
# How fluent translations are: their perplexity for a language model of fairseq, as in Table 4 of the paper on FA-DAT.
#
#   OUT=runs/wmt14_en_de SRC=en TGT=de bash examples/measure/perplexity.sh reference=test.de AT=at.de FA-DAT=fa_dat.de
#   LM=wmt19.de OUT=... bash examples/measure/perplexity.sh AT=at.de            a published model: model.pt, dict.txt and bpecodes in a folder
#
# Each file holds raw text, one translation a line. OUT is what prepare_text.sh made with joint BPE: without LM a language model is trained on its
# target side, words and subwords as there. Result: $OUT/lm/perplexity.md, by subword, </s> counted; a word counts once with POST_PROCESS=subword_nmt.
# Paper: a pretrained model (Ng et al., 2019: that is fairseq's wmt19.de), a context of 128 (CONTEXT). Ours: the trained one, a transformer_lm with
# the hyper-parameters of fairseq's example (512 tokens a sample, 32,768 an update, 50,000 updates; UPDATES), and the subword as the unit.
# FP16 (1): empty trains and scores in single precision, as a CPU needs. SEED (1). Started again it does only what is missing.
set -euo pipefail
if [ $# -eq 0 ]; then set -- ""; fi
for argument; do
    case $argument in
    ?*=?*) ;;
    *) echo "error: '$argument' is not NAME=FILE: name the files of translations" >&2 && exit 1 ;;
    esac
done
NAMES=() FILES=()
for argument; do
    NAMES+=("${argument%%=*}")
    FILES+=("$(realpath -m "${argument#*=}")")
done
if [ -n "${LM:-}" ]; then LM=$(realpath -m "$LM"); fi
source "$(dirname "$0")/../common/recipe.sh"
OUT=${OUT:?"OUT names the folder of the results"}
SRC=${SRC:-en} TGT=${TGT:-de} LM=${LM:-} CONTEXT=${CONTEXT:-128} UPDATES=${UPDATES:-50000} SEED=${SEED:-1} FP16=${FP16-1}
POST_PROCESS=${POST_PROCESS:-} KEEP=1
switches FP16
if ! [[ $CONTEXT =~ ^[0-9]{1,3}$ ]] || [ "$CONTEXT" -ge 512 ]; then
    fail "CONTEXT=$CONTEXT: give a number below the 512 tokens of a sample"
fi
if [ -n "$LM" ]; then
    unused "with LM" UPDATES SEED
    MODEL=$LM/model.pt DICTIONARY=$LM/dict.txt CODES=$LM/bpecodes
else
    MODEL=$OUT/lm/model/checkpoint_best.pt DICTIONARY=$OUT/data-bin/dict.$TGT.txt CODES=$OUT/bpe/codes
fi

binarise() {
    run fairseq-preprocess --only-source --srcdict "$DICTIONARY" --trainpref "$OUT/bpe/train.$TGT" --validpref "$OUT/bpe/valid.$TGT" \
        --destdir "$OUT/lm/data-bin"
}

train() {
    run fairseq-train "$OUT/lm/data-bin" --task language_modeling --arch transformer_lm --share-decoder-input-output-embed --dropout 0.1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.01 --clip-norm 0.0 --lr 0.0005 --lr-scheduler inverse_sqrt \
        --warmup-updates 4000 --warmup-init-lr 1e-07 --tokens-per-sample 512 --sample-break-mode none --max-tokens 2048 --update-freq 16 \
        --max-update "$UPDATES" ${FP16:+--fp16} --keep-last-epochs 1 --seed "$SEED" --log-format simple --log-interval 100 \
        --save-dir "$OUT/lm/model"
}

# Codes of fastBPE, as published models have them, count their pairs in a third column.
codes() { run_to "$OUT/lm/codes" awk 'NR == 1 && !/^#/ { print "#version: 0.2" } { print (/^#/ ? $0 : $1 " " $2) }' "$CODES"; }

# score NAME FILE
score() {
    local folder=$OUT/lm/scored/$1 log=$OUT/lm/scored/$1/log
    run_to "$folder/words" python "$COMMON/tokenize_text.py" --language "$TGT" "$2"
    run subword-nmt apply-bpe --codes "$OUT/lm/codes" --input "$folder/words" --output "$folder/subwords"
    run fairseq-preprocess --only-source --srcdict "$DICTIONARY" --testpref "$folder/subwords" --destdir "$folder/data-bin"
    if [ -n "$DRY_RUN" ]; then log=/dev/null; fi
    run fairseq-eval-lm "$folder/data-bin" --path "$MODEL" --gen-subset test --tokens-per-sample 512 --context-window "$CONTEXT" \
        --sample-break-mode none --max-tokens 2048 ${FP16:+--fp16} ${POST_PROCESS:+--post-process "$POST_PROCESS"} --log-format simple \
        2>&1 | tee "$log"
}

table() {
    local name perplexity
    echo "| translations | perplexity |"
    echo "|---|---:|"
    for name in "${NAMES[@]}"; do
        perplexity=$(sed -n 's/.*Perplexity: \([0-9.]*\).*/\1/p' "$OUT/lm/scored/$name/log")
        echo "| $name | ${perplexity:?"$OUT/lm/scored/$name/log states no perplexity"} |"
    done
}

if [ -z "$LM" ]; then
    if [ -z "$DRY_RUN" ] && [ ! -f "$CODES" ]; then fail "$CODES does not exist: give the OUT of prepare_text.sh, with joint BPE, or LM"; fi
    stage lm_data "$OUT/lm/data-bin" "$TGT $(contents "$OUT/bpe/train.$TGT" "$OUT/bpe/valid.$TGT" "$DICTIONARY")" binarise
    stage lm "$OUT/lm/model" "$UPDATES updates, seed $SEED" train
fi
if [ -z "$DRY_RUN" ]; then mkdir -p "$OUT/lm"; fi
codes
# None of the files depends on the others.
KEEP="" BEFORE=$STAGE_CHAIN
for place in "${!NAMES[@]}"; do
    STAGE_CHAIN=$BEFORE
    stage "lm_${NAMES[place]}" "$OUT/lm/scored/${NAMES[place]}" \
        "$LM $(contents "${FILES[place]}"), context $CONTEXT${POST_PROCESS:+, $POST_PROCESS}" score "${NAMES[place]}" "${FILES[place]}"
done
if [ -z "$DRY_RUN" ]; then table | tee "$OUT/lm/perplexity.md"; fi
