# Summarisation as translation from articles to summaries; sourced by the recipes of the corpora,
# never run.
#
#   summarise RAW      trains a Transformer, IBDecoder and IB+SA(2) from it on its summaries, compares quality (ROUGE) and speed
#
# RAW holds {train,valid,test}.{article,summary}, one text a line, plain or gzip. Before the call
# the recipe sets OUT, MERGES, SIZES and TRAINING (options of fairseq-train: the model's dimensions;
# optimisation and batches), AT_UPDATES, IB_UPDATES, AVERAGE (checkpoints that are averaged, 1:
# none), BEAM, SEED, SPEED_SENTENCES, REPEATS and THREADS. LONGEST_SOURCE: articles are cut after so
# many subwords.
# START: teacher, or scratch, as in the paper; TARGETS: distilled, or raw (Table 6 has both).
# ROUGE does not tune: TUNE is refused.

# 1: what was trained for days is not removed because settings changed.
LONG="" SETTINGS=""
SRC=article TGT=summary TARGETS=${TARGETS:-distilled}
unused "on summaries, which are compared by ROUGE" TUNE
if [ "$TARGETS" = raw ]; then unused "with TARGETS=raw" BEAM; fi
export SRC TGT OUT MERGES TEXT_LANGUAGE=en DRY_RUN BEAM LONGEST_SOURCE=${LONGEST_SOURCE:-}

# The base model, its optimisation and its search (IBDecoder, Appendix A) for 24 GiB of GPU memory.
#   settings_of_the_paper SUBWORDS BATCHES LONGEST   SUBWORDS of the longest summary; BATCHES of
#                                                    8,000 subwords make an update; articles are
#                                                    cut after LONGEST
settings_of_the_paper() {
    local side
    unused "where UPDATES is of both trainings" AT_UPDATES IB_UPDATES
    unused "in the paper's recipes" LONGEST_SOURCE
    LONGEST_SOURCE=$3
    LONG=1 START=${START:-scratch}
    SEED=${SEED:-1} GPUS=${GPUS:-1} AT_UPDATES=${UPDATES:-100000} IB_UPDATES=${UPDATES:-100000} AVERAGE=5
    MERGES=${MERGES:-32000} BEAM=${BEAM:-4} REPEATS=${REPEATS:-3} THREADS=${THREADS:-1}
    choose_update "$(($2 * 8000))" 8000
    # Teachers translate in batches of another size.
    export -n MAX_TOKENS
    export IN_PRECISION
    SETTINGS=", $2 batches of 8000$OTHER_PRECISION"
    SIZES=()
    for side in encoder decoder; do
        SIZES+=("--$side-layers" 6 "--$side-embed-dim" 512 "--$side-ffn-embed-dim" 2048 "--$side-attention-heads" 8)
    done
    TRAINING=(
        --dropout 0.1 --attention-dropout 0.1 --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-8
        --lr 0.0007 --lr-scheduler inverse_sqrt --warmup-updates 4000 --warmup-init-lr 1e-07
        "${ON_GPUS[@]}" --update-freq "$UPDATE_FREQ"
        --save-interval-updates 2000 --keep-interval-updates 5 --no-epoch-checkpoints
        --max-source-positions "$((LONGEST_SOURCE + 1))" --max-target-positions "$1"
        --skip-invalid-size-inputs-valid-test
    )
    AT_BEAM=4 AT_OPTIONS=,lenpen=0.6
    BIDIRECTIONAL_OPTIONS=,bidirectional_scoring=paper,bidirectional_length_penalty=gnmt,lenpen=0.6
}

summarise() {
    local raw=$1 tokens name
    bash "$COMMON/prepare_text.sh" "$raw"
    STAGE_CHAIN+="text: $raw $MERGES, $(contents_of_text "$raw")"
    STAGE_CHAIN+="${LONGEST_SOURCE:+, cut after $LONGEST_SOURCE}"$'\n'
    export STAGE_CHAIN
    DATA_OPTIONS=("$OUT/data-bin" --source-lang article --target-lang summary)
    SHARED=(--share-all-embeddings "${SIZES[@]}" "${TRAINING[@]}" --label-smoothing 0.1 --seed "$SEED" --log-format simple --log-interval 50)
    choose_students
    KEEP=$LONG stage teacher "$OUT/at" "$AT_UPDATES updates, seed $SEED$SETTINGS" train_teacher
    if [ "$TARGETS" = distilled ]; then bash "$COMMON/distill.sh" "$OUT/at/averaged.pt"; fi
    for tokens in 1 2; do
        name=bidirectional_2x$tokens$KIND
        KEEP=$LONG stage "$name" "$OUT/$name" "$IB_UPDATES updates, seed $SEED$SETTINGS" \
            train_student "$tokens"
    done
    stage "compare$KIND" "$OUT/comparison$KIND" \
        "$SPEED_SENTENCES sentences, $REPEATS repeats, $THREADS threads$BIDIRECTIONAL_OPTIONS" \
        compare_summaries
    say "results: $OUT/comparison$KIND/table.md"
}

# KIND: a suffix for what is not the default; STUDENT: its options.
choose_students() {
    KIND="" STUDENT=()
    case ${START:=teacher} in
    teacher) STUDENT+=(--finetune-from-model "$OUT/at/averaged.pt") ;;
    scratch) KIND+=_scratch ;;
    *) fail "START=$START: give teacher or scratch" ;;
    esac
    case $TARGETS in
    distilled) STUDENT+=(--distilled-data "$OUT/distilled/data-bin") ;;
    raw) KIND+=_raw ;;
    *) fail "TARGETS=$TARGETS: give distilled or raw" ;;
    esac
}

train_teacher() {
    run fairseq-train "${DATA_OPTIONS[@]}" --task translation --arch transformer "${SHARED[@]}" \
        --criterion label_smoothed_cross_entropy --max-update "$AT_UPDATES" --save-dir "$OUT/at"
    run fairseq-hrt average --folder "$OUT/at" --last "$AVERAGE" --output "$OUT/at/averaged.pt"
}

train_student() {
    run fairseq-train "${DATA_OPTIONS[@]}" --user-dir fairseq_hrt --task translation_bidirectional \
        --arch bidirectional_transformer "${SHARED[@]}" --criterion bidirectional_loss \
        --bidirectional-directions 2 --bidirectional-tokens-per-step "$1" "${STUDENT[@]}" \
        --max-update "$IB_UPDATES" --save-dir "$OUT/bidirectional_2x$1$KIND"
    run fairseq-hrt average --folder "$OUT/bidirectional_2x$1$KIND" --last "$AVERAGE" \
        --output "$OUT/bidirectional_2x$1$KIND/averaged.pt"
}

compare_summaries() {
    # Articles say nothing about the length of their summaries.
    local BIDIRECTIONAL_LIMIT=max_len_b=200
    autoregressive_systems "$OUT/at/averaged.pt"
    bidirectional_systems IBDecoder "$OUT/bidirectional_2x1$KIND/averaged.pt"
    bidirectional_systems "IB+SA(2)" "$OUT/bidirectional_2x2$KIND/averaged.pt"
    run fairseq-hrt benchmark "${DATA_OPTIONS[@]}" --detokenize moses:en --rouge "${SYSTEMS[@]}" \
        --ratio-to "AT greedy (fairseq)" --ratio-to "AT greedy" --threads "$THREADS" \
        --speed-sentences "$SPEED_SENTENCES" --repeats "$REPEATS" --examples 3 --out "$OUT/comparison$KIND"
}
