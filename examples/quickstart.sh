#!/usr/bin/env bash
# The main job in one command: fast translation models from raw text to a table of their quality and
# speed. On two cores it takes less than six minutes, setting up included
# (examples/study/measured/quickstart.json).
#
#   bash examples/quickstart.sh                                 the built-in English-German corpus
#   FAMILIES=all bash examples/quickstart.sh                    all four, which takes longer
#   DATA=folder SRC=en TGT=de bash examples/quickstart.sh       raw files train/valid/test.{en,de},
#                                                               plain or gzip
#
# Makes the environment on first use. Then it learns subwords and trains an autoregressive teacher;
# the teacher translates the training set, and from these translations the students learn, two at a
# time, one thread each:
#   hrt            every second word in order (k = 2); with ROWS=all k = 3 as well
#   bidirectional  two words a step (IBDecoder); with FAMILIES=all or ROWS=all then four (IB+SA(2))
#   dag            a directed acyclic Transformer, then with fuzzy alignment (FA-DAT), from human
#                  translations, of which the same phrase has several
#   jacobi         the teacher itself, decoded in parallel
# At last all are compared, a row a model. Results in $OUT (runs/quickstart): table.md,
# results.json, quality_speed.png, examples.txt. The programs' output is in $OUT/logs. Stopped
# (Ctrl-C) and started again, it continues where it was.
#
# FAMILIES: what is trained and compared besides the teacher ("hrt bidirectional"; all).
# ROWS=all: compares every way of decoding, and with dag also trains fairseq's own
#   non-autoregressive Transformer.
# TUNE=1 (with ROWS=all): length penalties and the graphs' beta are chosen on the validation set.
# PRECISION: bfloat16 (where the CPU is faster in it) or float32.
# TRAIN, VALID, TEST: sentences of the built-in corpus; MODES, DAG_MODES: valid translations that a
#   training target is drawn from; MERGES: subword merges.
# AT_UPDATES, HRT_UPDATES, IB_UPDATES, IB2_UPDATES (of IB+SA(2)), DAG_UPDATES, FUZZY_UPDATES,
#   NAT_UPDATES: lengths of the trainings; BEAM: of the distillation; RAW_PROBABILITY: share of raw
#   targets in the students' training.
# SPEED_SENTENCES, REPEATS, THREADS: of the comparison; TEACHER_THREADS; SEED.
# DRY_RUN=1: only shows the commands.
# A setting that has no effect with the others, such as TRAIN with DATA, is refused.
set -euo pipefail
if [ -z "${DRY_RUN:-}" ]; then bash "$(dirname "$0")/setup_env.sh"; fi
OUT=${OUT:-$(dirname "$0")/../runs/quickstart}
LOGS=$OUT/logs
source "$(dirname "$0")/common/recipe.sh"
source "$COMMON/systems.sh"
KNOWN="hrt bidirectional dag jacobi"
FAMILIES=${FAMILIES-hrt bidirectional}
SRC=${SRC:-en} TGT=${TGT:-de} SEED=${SEED:-1} ROWS=${ROWS:-}
EVERY=$ROWS
if [ "$FAMILIES" = all ]; then FAMILIES=$KNOWN EVERY=1; fi
TRAIN=${TRAIN:-10000} VALID=${VALID:-500} TEST=${TEST:-500} MODES=${MODES:-1} MERGES=${MERGES:-4000}

choose_precision
# PACE: expected milliseconds of an update in hundredths of those in bfloat16.
PACE=100
if [ "$PRECISION" = float32 ]; then PACE=190; fi
AT_UPDATES=${AT_UPDATES:-900} HRT_UPDATES=${HRT_UPDATES:-550}
IB_UPDATES=${IB_UPDATES:-800} IB2_UPDATES=${IB2_UPDATES:-600}
DAG_UPDATES=${DAG_UPDATES:-1700} FUZZY_UPDATES=${FUZZY_UPDATES:-600}
NAT_UPDATES=${NAT_UPDATES:-1000}
DAG_MODES=${DAG_MODES:-4} DAG_SCALE=${DAG_SCALE:-4}
BEAM=${BEAM:-1} RAW_PROBABILITY=${RAW_PROBABILITY:-0.5}
SPEED_SENTENCES=${SPEED_SENTENCES:-20} REPEATS=${REPEATS:-3}
THREADS=${THREADS:-1} TEACHER_THREADS=${TEACHER_THREADS:-2}
export OUT SRC TGT MERGES BEAM DRY_RUN STAGE_CHAIN LOGS
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

# Shared by teacher and students: so small that many updates take little time, which teaches them
# more than few of larger models. No dropout: in these minutes nothing is learnt by heart.
WIDTH=64
SIZES=()
for side in encoder decoder; do
    SIZES+=("--$side-layers" 2 "--$side-embed-dim" "$WIDTH")
    SIZES+=("--$side-ffn-embed-dim" "$((4 * WIDTH))" "--$side-attention-heads" 4)
done
TRAINING=(
    --source-lang "$SRC" --target-lang "$TGT" --user-dir fairseq_hrt --share-all-embeddings --dropout 0.0
    "${SIZES[@]}"
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr-scheduler polynomial_decay
    --max-tokens 400 --required-batch-size-multiple 1 --num-workers 0 --seed "$SEED"
    --no-epoch-checkpoints --log-format simple --log-interval 25
)
# The students are judged in the comparison; validating them on the way would only cost time.
STUDENT=(--disable-validation)

chosen() { [[ " $FAMILIES " == *" $1 "* ]]; }
distilled() { chosen hrt || chosen bidirectional; }

# No word of it is a pattern of files.
set -f
for family in $FAMILIES; do
    if [[ " $KNOWN " != *" $family "* ]]; then
        fail "FAMILIES=$FAMILIES: no family $family; there are: $KNOWN, and all"
    fi
done
set +f
for name in TRAIN VALID TEST MODES DAG_MODES DAG_SCALE MERGES AT_UPDATES HRT_UPDATES IB_UPDATES \
    IB2_UPDATES DAG_UPDATES FUZZY_UPDATES NAT_UPDATES BEAM SPEED_SENTENCES REPEATS THREADS \
    TEACHER_THREADS SEED; do
    if ! [[ ${!name} =~ ^[1-9][0-9]*$ ]]; then fail "$name=${!name}: give a number of 1 or more"; fi
done
if [ -n "$ROWS" ] && [ "$ROWS" != all ]; then fail "ROWS=$ROWS: give all, or leave it out"; fi
if [ -n "${DATA:-}" ]; then unused "with DATA" TRAIN VALID TEST MODES DAG_MODES; fi
if [ -z "$ROWS" ]; then unused "without ROWS=all" TUNE NAT_UPDATES; fi
if [ -z "$EVERY" ]; then unused "without FAMILIES=all or ROWS=all" IB2_UPDATES; fi
if ! chosen hrt; then unused "without hrt in FAMILIES" HRT_UPDATES; fi
if ! chosen bidirectional; then unused "without bidirectional in FAMILIES" IB_UPDATES IB2_UPDATES; fi
if ! chosen dag; then
    unused "without dag in FAMILIES" DAG_UPDATES FUZZY_UPDATES NAT_UPDATES DAG_MODES DAG_SCALE
fi
if ! distilled; then unused "without hrt or bidirectional in FAMILIES" BEAM RAW_PROBABILITY; fi

# schedule UPDATES LEARNING_RATE N: so many updates, of which one in N warms up.
schedule() {
    SCHEDULE=(--lr "$2" --warmup-updates "$(($1 / $3))" --total-num-update "$1" --max-update "$1")
}

make_corpus() {
    run python examples/corpus/generate.py --out "$OUT/corpus" \
        --train "$TRAIN" --valid "$VALID" --test "$TEST" --modes "$MODES" --seed "$SEED"
}

# Nothing else runs meanwhile: with two threads it takes 0.8 times as long. Threads that wait sleep:
# spinning, they would collapse when something else runs.
train_at() {
    schedule "$AT_UPDATES" 0.006 6
    OMP_NUM_THREADS=$TEACHER_THREADS OMP_WAIT_POLICY=passive run "${TRAINER[@]}" "$OUT/data-bin" --task translation --arch transformer "${TRAINING[@]}" \
        --criterion autoregressive_loss --label-smoothing 0.1 "${SCHEDULE[@]}" \
        --save-dir "$OUT/at" --max-tokens-valid 4000 --skip-invalid-size-inputs-valid-test
}

distill() {
    run fairseq-hrt distill "$OUT/data-bin" --source-lang "$SRC" --target-lang "$TGT" \
        --threads "$TEACHER_THREADS" --out "$OUT/distilled" \
        --system "name=teacher,path=$TEACHER,task=translation_autoregressive,beam=$BEAM,max_len_a=1.5,max_len_b=10$ENGINE"
}

# Half of the targets are raw: the built-in corpus has one translation for each sentence, which a
# teacher of one minute does not always find. The curriculum ends half of the way: what follows is
# trained as it will be decoded, in chunks. Word by word (C_d = 1) is forgotten meanwhile; who wants
# both lets the curriculum last as long as the training.
train_hrt() {
    schedule "$HRT_UPDATES" 0.004 10
    run "${TRAINER[@]}" "$OUT/data-bin" --task translation_hrt --arch hrt_transformer_tiny \
        "${TRAINING[@]}" "${STUDENT[@]}" --criterion hrt_loss --label-smoothing 0.1 \
        --hrt-chunk-sizes "2${ROWS:+,3}" --hrt-curriculum-steps "$((HRT_UPDATES / 2))" \
        --distilled-data "$OUT/distilled/data-bin" --raw-probability "$RAW_PROBABILITY" \
        --finetune-from-model "$TEACHER" "${SCHEDULE[@]}" --save-dir "$OUT/hrt"
}

# train_bidirectional WORDS UPDATES FROM: two directions, so many words in each of them a step.
train_bidirectional() {
    schedule "$2" 0.003 15
    run "${TRAINER[@]}" "$OUT/data-bin" --task translation_bidirectional \
        --arch bidirectional_transformer_tiny "${TRAINING[@]}" "${STUDENT[@]}" --criterion bidirectional_loss --label-smoothing 0.1 \
        --bidirectional-directions 2 --bidirectional-tokens-per-step "$1" \
        --distilled-data "$OUT/distilled/data-bin" --raw-probability "$RAW_PROBABILITY" \
        --finetune-from-model "$3" "${SCHEDULE[@]}" --save-dir "$OUT/bidirectional_2x$1"
}

# The same sources with other targets: one of several translations that mean the same, drawn for each sentence.
make_multimodal_corpus() {
    run python examples/corpus/generate.py --out "$OUT/multimodal/corpus" \
        --train "$TRAIN" --valid "$VALID" --test "$TEST" --modes "$DAG_MODES" --seed "$SEED"
}

train_nat() {
    schedule "$NAT_UPDATES" 0.003 10
    run python examples/common/nat_from_at.py "$TEACHER" "$OUT/nat/start.pt"
    run "${TRAINER[@]}" "$MULTIMODAL" --task translation_lev --arch nonautoregressive_transformer "${TRAINING[@]}" "${STUDENT[@]}" \
        --criterion nat_loss --label-smoothing 0.1 --noise full_mask --length-loss-factor 0.1 --pred-length-offset \
        --finetune-from-model "$OUT/nat/start.pt" "${SCHEDULE[@]}" --save-dir "$OUT/nat"
}

train_dag() {
    schedule "$DAG_UPDATES" 0.003 10
    run "${TRAINER[@]}" "$MULTIMODAL" --task translation_dag --arch dag_transformer_tiny \
        "${TRAINING[@]}" "${STUDENT[@]}" --criterion dag_nll_loss \
        --dag-upsample-scale "$DAG_SCALE" --dag-glance-schedule "0.5:0.1@$DAG_UPDATES" \
        --finetune-from-model "$TEACHER" "${SCHEDULE[@]}" --save-dir "$OUT/dag"
}

# Without glancing, whose first pass is a third of the time. After 300 updates: 82.5 BLEU with it,
# 82.8 without, both at a rate of 0.0005; 84.2 without at 0.001.
train_fuzzy() {
    schedule "$FUZZY_UPDATES" 0.001 10
    run "${TRAINER[@]}" "$MULTIMODAL" --task translation_dag --arch dag_transformer_tiny \
        "${TRAINING[@]}" "${STUDENT[@]}" --criterion dag_fuzzy_loss --dag-glance-schedule 0 --dag-upsample-scale "$DAG_SCALE" \
        --finetune-from-model "$OUT/dag/checkpoint_last.pt" "${SCHEDULE[@]}" --save-dir "$OUT/dag_fuzzy"
}

# One row for each model, in the native runtime where that is built: family LABEL CHECKPOINT TASK[,OPTIONS].
family() {
    if [ -n "$ENGINE" ]; then native_systems "$@"; else SYSTEMS+=(--system "name=$1,path=$2,beam=1,task=$3"); fi
}

short_bidirectional() {
    local model
    for model in "IBDecoder 2x1" ${EVERY:+"IB+SA(2) 2x2"}; do
        family "${model% *}" "$OUT/bidirectional_${model##* }/checkpoint_last.pt" translation_bidirectional,max_len_a=1.5,max_len_b=10
    done
}

short_rows() {
    autoregressive_greedy "$TEACHER"
    if [ -n "$CTRANSLATE2" ]; then
        SYSTEMS+=(--system "name=CTranslate2 int8,path=$TEACHER,engine=ctranslate2,beam=1,compute_type=int8")
    fi
    if [ -n "$ENGINE" ]; then native_systems "AT" "$TEACHER" translation_autoregressive; fi
    if chosen hrt; then family "HRT" "$OUT/hrt/checkpoint_last.pt" translation_hrt,hrt_decode_chunk=2; fi
    if chosen bidirectional; then short_bidirectional; fi
    if chosen dag; then
        family DAG "$OUT/dag/checkpoint_last.pt" translation_dag,dag_decode_strategy=lookahead
        family FA-DAT "$OUT/dag_fuzzy/checkpoint_last.pt" translation_dag,dag_decode_strategy=greedy
    fi
    if chosen jacobi; then
        if chosen hrt; then jacobi_systems "$TEACHER" hrt "$OUT/hrt/checkpoint_last.pt"; else jacobi_systems "$TEACHER"; fi
    fi
}

all_rows() {
    autoregressive_systems "$TEACHER"
    ctranslate2_systems "$TEACHER"
    native_systems "AT greedy" "$TEACHER" translation_autoregressive
    if chosen hrt; then
        hrt_systems "$OUT/hrt/checkpoint_last.pt"
        native_systems "HRT k=2 (1,1)" "$OUT/hrt/checkpoint_last.pt" translation_hrt,hrt_decode_chunk=2
        native_systems "HRT k=3 (1,1)" "$OUT/hrt/checkpoint_last.pt" translation_hrt,hrt_decode_chunk=3
    fi
    if chosen bidirectional; then
        for model in "IBDecoder 2x1" "IB+SA(2) 2x2"; do
            bidirectional_systems "${model% *}" "$OUT/bidirectional_${model##* }/checkpoint_last.pt"
            native_systems "${model% *} greedy" "$OUT/bidirectional_${model##* }/checkpoint_last.pt" translation_bidirectional,max_len_a=1.5,max_len_b=10
        done
    fi
    if chosen dag; then
        nat_systems "$OUT/nat/checkpoint_last.pt"
        dag_systems DAG "$OUT/dag/checkpoint_last.pt"
        dag_systems FA-DAT "$OUT/dag_fuzzy/checkpoint_last.pt"
        native_systems "FA-DAT greedy" "$OUT/dag_fuzzy/checkpoint_last.pt" translation_dag,dag_decode_strategy=greedy
    fi
    if chosen jacobi; then
        jacobi_systems "$TEACHER"
        if chosen hrt; then jacobi_systems "$TEACHER" hrt "$OUT/hrt/checkpoint_last.pt"; fi
    fi
}

# compare FOLDER OPTIONS...: of the systems in SYSTEMS.
compare() {
    local folder=$1 identical=()
    shift
    if chosen jacobi; then identical=(--identical-to "AT greedy"); fi
    run fairseq-hrt benchmark "$OUT/data-bin" --source-lang "$SRC" --target-lang "$TGT" \
        --references "$REFERENCES" "${VALID_TRANSLATIONS[@]}" --detokenize "moses:$TGT" \
        "${SYSTEMS[@]}" "${identical[@]}" \
        --ratio-to "AT greedy (fairseq)" --ratio-to "AT greedy" --threads "$THREADS" \
        --speed-sentences "$SPEED_SENTENCES" --repeats "$REPEATS" "$@" --out "$folder"
}

compare_everything() {
    SYSTEMS=()
    if [ -n "$ROWS" ]; then
        all_rows
        compare "$OUT" --examples 5
    else
        short_rows
        compare "$OUT" --batch-sizes 1 --examples 3
    fi
}

show_results() {
    if [ -z "$DRY_RUN" ]; then
        python -I -S "$COMMON/short_table.py" "$1/results.json" "AT greedy (fairseq)"
        echo
        cat "$1/examples.txt"
    fi
}

if [ -n "${DATA:-}" ]; then
    RAW=$DATA
else
    RAW=$OUT/corpus
    TITLE="making the corpus" stage corpus "$RAW" "$TRAIN $VALID $TEST modes $MODES seed $SEED" make_corpus
fi
VALID_TRANSLATIONS=()
if [ -z "${DATA:-}" ] || [ -f "$RAW/test.valid.jsonl" ]; then
    VALID_TRANSLATIONS=(--valid-translations "$RAW/test.valid.jsonl")
fi
REFERENCES=$RAW/test.$TGT
if [ -f "$REFERENCES.gz" ]; then REFERENCES=$REFERENCES.gz; fi
TEACHER=$OUT/at/checkpoint_best.pt
ENGINE="" CTRANSLATE2=""
if native_is_built; then ENGINE=,engine=native,weights=int8; fi
if ctranslate2_is_installed; then CTRANSLATE2=yes; fi

bash "$COMMON/prepare_text.sh" "$RAW"
STAGE_CHAIN+="text: $RAW $SRC $TGT $MERGES, $(contents_of_text "$RAW")"$'\n'

teacher() {
    TITLE="training the teacher" stage teacher "$OUT/at" \
        "$AT_UPDATES updates, width $WIDTH, $PRECISION, seed $SEED" train_at
}

distillation() {
    TITLE="distilling: the teacher translates the training set" \
        stage distill "$OUT/distilled" "beam $BEAM$ENGINE" distill
}

STUDENTS="raw $RAW_PROBABILITY, $PRECISION, seed $SEED"

hrt() {
    TITLE="training HRT" stage hrt "$OUT/hrt" \
        "$HRT_UPDATES updates, k = 2${ROWS:+ and 3}, $STUDENTS" train_hrt
}

bidirectional() {
    TITLE="training IBDecoder" stage bidirectional_2x1 "$OUT/bidirectional_2x1" \
        "$IB_UPDATES updates, $STUDENTS" train_bidirectional 1 "$IB_UPDATES" "$TEACHER"
    if [ -n "$EVERY" ]; then
        TITLE="training IB+SA(2)" stage bidirectional_2x2 "$OUT/bidirectional_2x2" \
            "$IB2_UPDATES updates, $STUDENTS" \
            train_bidirectional 2 "$IB2_UPDATES" "$OUT/bidirectional_2x1/checkpoint_last.pt"
    fi
}

dag() {
    if [ -z "${DATA:-}" ]; then
        # The subwords and the dictionary of the teacher; other data have several translations of
        # their own.
        TITLE="making a corpus of several translations" \
            stage multimodal "$OUT/multimodal" "modes $DAG_MODES" make_multimodal_corpus
        RECIPE_GIVEN="" LIKE=$OUT OUT=$OUT/multimodal LOGS=$LOGS/multimodal SPLITS="train valid" \
            bash "$COMMON/prepare_text.sh" "$OUT/multimodal/corpus"
    fi
    TITLE="training DAG" stage dag "$OUT/dag" \
        "$DAG_UPDATES updates, scale $DAG_SCALE, $PRECISION, seed $SEED" train_dag
    TITLE="training FA-DAT" stage dag_fuzzy "$OUT/dag_fuzzy" \
        "$FUZZY_UPDATES updates at 0.001 without glancing, $PRECISION, seed $SEED" train_fuzzy
    if [ -n "$ROWS" ]; then
        TITLE="training NAT" stage nat "$OUT/nat" \
            "$NAT_UPDATES updates, $PRECISION, seed $SEED" train_nat
    fi
}

# The line that shows progress is told of each: title, log, updates, and milliseconds that are
# expected of each update on two cores of a server of 2024.
step() { printf ' %q' "$1|$LOGS/$2.log|$3|$(($4 * PACE / 100))"; }

STEPS_hrt=$(step HRT hrt "$HRT_UPDATES" 56)
STEPS_bidirectional=$(step IBDecoder bidirectional_2x1 "$IB_UPDATES" 39)
if [ -n "$EVERY" ]; then
    STEPS_bidirectional+=$(step "IB+SA(2)" bidirectional_2x2 "$IB2_UPDATES" 37)
fi
STEPS_dag=""
if [ -z "${DATA:-}" ]; then STEPS_dag=$(step "data for DAG" multimodal 0 14000); fi
STEPS_dag+=$(step DAG dag "$DAG_UPDATES" 120)$(step FA-DAT dag_fuzzy "$FUZZY_UPDATES" 90)
COMPARISON=27
if [ -n "$ROWS" ]; then
    STEPS_dag+=$(step NAT nat "$NAT_UPDATES" 35)
    COMPARISON=240
fi
MULTIMODAL=$OUT/data-bin
if [ -z "${DATA:-}" ]; then MULTIMODAL=$OUT/multimodal/data-bin; fi

before_students() {
    teacher
    if distilled; then distillation; fi
}
# Graphs take as long as all others together.
left() {
    local family before=$STAGE_CHAIN chain=""
    for family in "${LEFT[@]}"; do
        # None of them depends on another one.
        STAGE_CHAIN=$before
        "$family"
        chain+=${STAGE_CHAIN#"$before"}
    done
    STAGE_CHAIN=$before$chain
}
right() { "$RIGHT"; }

LEFT=() RIGHT=""
for family in hrt bidirectional; do
    if chosen $family; then LEFT+=("$family"); fi
done
if chosen dag; then
    RIGHT=dag
elif [ ${#LEFT[@]} -eq 2 ]; then
    LEFT=(hrt) RIGHT=bidirectional
fi
STEPS=$(step teacher teacher "$AT_UPDATES" 42)
if distilled; then STEPS+=$(step distilling distill 0 9500); fi
FUNCTIONS=() STUDENT_LANES=""
if [ ${#LEFT[@]} -gt 0 ]; then
    FUNCTIONS+=(left) STUDENT_LANES+=" --lane"
    for family in "${LEFT[@]}"; do
        name=STEPS_$family
        STUDENT_LANES+=${!name}
    done
fi
if [ -n "$RIGHT" ]; then
    name=STEPS_$RIGHT
    FUNCTIONS+=(right) STUDENT_LANES+=" --lane${!name}"
fi
AFTER=$COMPARISON
if chosen dag; then
    AFTER=$((COMPARISON + 260 * PACE / 100))
elif distilled; then
    AFTER=$((COMPARISON + 33 * PACE / 100))
fi
side_by_side "--after $AFTER --lane$STEPS" before_students
if [ ${#FUNCTIONS[@]} -gt 0 ]; then
    side_by_side "--after $COMPARISON$STUDENT_LANES" "${FUNCTIONS[@]}"
fi
COMPARED="$FAMILIES${EVERY:+, two words}${ROWS:+, all rows}: $SPEED_SENTENCES sentences"
COMPARED+=", $REPEATS repeats, $THREADS threads${TUNE:+, tuned}"
TITLE="comparing${ROWS:+ everything}" stage compare "$OUT/comparison" "$COMPARED" compare_everything
show_results "$OUT"
say "done: $OUT/table.md, results.json, quality_speed.png, examples.txt"
if [ -n "$DRY_RUN" ]; then exit; fi
cat <<END

What to try next (after: source .venv/bin/activate):
    fairseq-hrt bundle $OUT/hrt/checkpoint_last.pt --data $OUT/data-bin --codes $OUT/bpe/codes --set beam=1${ENGINE:+ --runtime int8} --output $OUT/bundle
    echo "The old farmer writes a letter ." | fairseq-hrt translate $OUT/bundle -
    fairseq-hrt trace $OUT/data-bin --sentence 7 --out $OUT/trace --system name=HRT,path=$OUT/hrt/checkpoint_last.pt,beam=1
    FAMILIES=all bash examples/quickstart.sh            graphs and parallel decoding as well
    ROWS=all bash examples/quickstart.sh                every way of decoding
    bash examples/multi30k/prepare.sh                   the same with real text (examples/multi30k/README.md)
END
