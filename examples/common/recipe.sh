# Shared by all recipes; sourced, never run:  source "$(dirname "$0")/../common/recipe.sh"
#
#   run COMMAND...                       shows the command, then runs it; DRY_RUN=1 only shows it
#   run_to FILE COMMAND...               the same with standard output into FILE, which appears only when complete
#   stage NAME FOLDER SETTINGS COMMAND…  runs COMMAND once: a stamp in $OUT/.stages marks it as finished. Other
#                                        SETTINGS (or those of an earlier stage) empty FOLDER and run it again; where the recipe
#                                        sets KEEP=1, for what takes days, they are refused
#   unused WHERE NAME…                   refuses settings that the user gives and that have no effect there
#   switches NAME…                       of the settings of 1 or nothing: 0 is nothing, anything else is refused
#   pairs PAIR…                          sets SRC and TGT, unless the user has, to the first pair; what is none of them is refused
#   print_bleu LOG [HOW]                 BLEU of a log of fairseq-generate, with its signature, in LOG's folder as .bleu and on the screen:
#                                        of the words as they were prepared, or with HOW (moses:de, none) of detokenised text against the raw
#                                        test set beside DATA (REFERENCES: another file); of Chinese always the latter, as the papers score it
#   choose_precision                     sets PRECISION, unless the user has, and TRAINER, the command that trains in it
#   choose_update TOKENS MOST            for GPUs: sets UPDATE_FREQ so that an update has TOKENS on any number of GPUS, and ON_GPUS, options of
#                                        fairseq-train. MAX_TOKENS, of a GPU's batch (MOST, or its whole share), and PRECISION (float16,
#                                        bfloat16 or float32) are the user's; IN_PRECISION is the latter in a --system, OTHER_PRECISION
#                                        what a stage's settings have of it
#   training FOLDER SETTINGS COMMAND OPTIONS…   a stage in which COMMAND, given the user's OPTIONS, trains a model in $SAVE: FOLDER, or that of
#                                        their --save-dir, which is never removed (KEEP=1). The OPTIONS belong to the SETTINGS
#   say TEXT...                          one progress line with the time since the start
#   side_by_side STEPS FUNCTION…         runs functions at the same time, each with its stages, and shows how far they are; all stop
#                                        when one fails or at Ctrl-C; the next run continues. STEPS: options of progress.py
#
# The recipe sets OUT (the folder of its results) before the first stage; a second start in it waits for the first. Where it sets LOGS,
# another folder, a stage's output goes to $LOGS/NAME.log, and only its end is shown if it fails. TITLE=... before "stage" is the text shown
# instead of its name. SETTINGS name the input with what it holds (contents.sh). With ADOPT=1 from the user, what is there of a stage counts as
# begun or finished with these settings, whatever it was: for those who know that a name alone is different, or the recipe is a newer one.

REPOSITORY=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
COMMON=examples/common
# Tools of the environment made by examples/setup_env.sh come first; any other activated environment works too.
if [ -d "$REPOSITORY/.venv/bin" ]; then PATH=$REPOSITORY/.venv/bin:$PATH; fi
# Progress bars of subword-nmt fill a log file.
export PYTHONUNBUFFERED=1 TQDM_DISABLE=1
# glibc returns large tensors to the system at once and gets them back page by page, each emptied by the kernel: without that a small
# model trains on a CPU in three quarters of the time. Elsewhere the names mean nothing.
export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000 MALLOC_TOP_PAD_=134217728
DRY_RUN=${DRY_RUN:-}
# The commands run at the root of the repository; what the user names are relative to where the user is.
for name in DATA DISTILLED TEACHERS REFERENCES; do
    if [ -n "${!name:-}" ]; then
        IFS=: read -ra paths <<<"${!name}"
        printf -v "$name" %s "$(realpath -m "${paths[@]}" | paste -sd :)"
    fi
done
if [ -n "${DISTILLED:-}" ]; then DISTILLED=$(realpath -m "$DISTILLED"); fi
if [ -n "${LIKE:-}" ]; then LIKE=$(realpath -m --relative-base="$REPOSITORY" "$LIKE"); fi
if [ -n "${SENTENCEPIECE:-}" ] && [ "$SENTENCEPIECE" != learn ]; then SENTENCEPIECE=$(realpath -m "$SENTENCEPIECE"); fi
if [ -n "${OUT:-}" ]; then OUT=$(realpath -m --relative-base="$REPOSITORY" "$OUT"); fi
if [ -n "${LOGS:-}" ]; then LOGS=$(realpath -m --relative-base="$REPOSITORY" "$LOGS"); fi
cd "$REPOSITORY"
source "$COMMON/contents.sh"
# Exported by a recipe that calls another one: the second also depends on the stages of the first.
STAGE_CHAIN=${STAGE_CHAIN:-}
KEEP=""
LOGS=${LOGS:-} CURRENT_LOG="" LANES=() PROGRESS=""
# A recipe that another one calls counts from the start of that one.
RECIPE_STARTED=${RECIPE_STARTED:-$(($(date +%s) - SECONDS))}
SECONDS=$(($(date +%s) - RECIPE_STARTED))
export RECIPE_STARTED
# The names of the user's settings, also for a recipe that another one calls.
export RECIPE_GIVEN=${RECIPE_GIVEN-$(awk 'BEGIN { for (name in ENVIRON) if (ENVIRON[name] != "") printf "%s ", name }')}

say() {
    # Over the line that shows progress.
    if [ -n "$LOGS" ] && [ -t 1 ]; then printf '\r\033[K'; fi
    printf '[%3d s] %s\n' "$SECONDS" "$*"
}

# What is still to do when a recipe or one of several functions side by side ends.
ended() {
    local status=$? lane left rounds=0
    trap - EXIT
    if [ -n "$PROGRESS" ]; then kill "$PROGRESS" 2>/dev/null || true; fi
    # Until nothing is left in their groups: a shell that is about to start a command can miss a signal.
    while [ ${#LANES[@]} -gt 0 ]; do
        left=()
        for lane in "${LANES[@]}"; do
            if kill -0 -- "-$lane" 2>/dev/null; then left+=("$lane"); fi
        done
        LANES=("${left[@]}")
        if [ $((rounds++ % 5)) -eq 0 ]; then
            for lane in "${LANES[@]}"; do kill -TERM -- "-$lane" 2>/dev/null || true; done
        fi
        if [ ${#LANES[@]} -gt 0 ]; then sleep 0.1; fi
    done
    if [ "$status" -ne 0 ] && [ "$status" -lt 128 ] && [ -f "$CURRENT_LOG" ]; then
        printf 'error: the end of %s:\n' "$CURRENT_LOG" >&2
        tail -n 15 "$CURRENT_LOG" >&2
    fi
    exit "$status"
}
if [ -n "$LOGS" ] && [ -z "$DRY_RUN" ]; then
    trap ended EXIT
    trap 'exit 129' HUP
    trap 'echo; say "stopped; the same command continues from here"; exit 130' INT
    trap 'exit 143' TERM
fi

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

unused() {
    local where=$1 name
    shift
    for name; do
        if [ -n "${!name:-}" ] && [[ " $RECIPE_GIVEN" == *" $name "* ]]; then
            fail "$name=${!name} has no effect $where: leave it out"
        fi
    done
}

switches() {
    local name
    for name; do
        case ${!name} in
        "" | 1) ;;
        0) printf -v "$name" "" ;;
        *) fail "$name=${!name}: give 1 or 0" ;;
        esac
    done
}

pairs() {
    SRC=${SRC:-${1%-*}} TGT=${TGT:-${1#*-}}
    if [[ " $* " != *" $SRC-$TGT "* ]]; then fail "SRC=$SRC TGT=$TGT: give $(sed 's/ / or /g' <<<"$*")"; fi
}

show() { printf '+%s\n' "$(printf ' %q' "$@")"; }

run() {
    show "$@"
    if [ -z "$DRY_RUN" ]; then "$@"; fi
}

run_to() {
    local file=$1
    shift
    show "$@"
    if [ -n "$DRY_RUN" ]; then return; fi
    "$@" >"$file.partial"
    mv "$file.partial" "$file"
}

print_bleu() {
    local REFERENCES=${REFERENCES:-} log=$1 result=${1%.log}.bleu how=() folder file
    if [ $# -eq 1 ] && [ "$TGT" = zh ]; then set -- "$1" moses:zh; fi
    if [ $# -gt 1 ]; then
        how=(--detokenize "$2")
        folder=$(dirname "${DATA%%:*}")
        # What was prepared from text in words is not raw.
        if [ -z "$REFERENCES" ] && ! grep -qs ', tokenised' "$folder/.stages/tokenise.done"; then
            for file in "$folder/raw/test.$TGT" "$folder/raw/test.$TGT.gz"; do
                if [ -f "$file" ]; then REFERENCES=$file; fi
            done
        fi
        if [ -n "$REFERENCES" ]; then how+=(--references "$REFERENCES"); fi
    fi
    run_to "$result" python "$COMMON/bleu_of_log.py" "$log" "${how[@]}"
    if [ -z "$DRY_RUN" ]; then cat "$result"; fi
}

choose_precision() {
    PRECISION=$(python3 "$COMMON/precision.py")
    TRAINER=(fairseq-train)
    if [ "$PRECISION" = bfloat16 ]; then TRAINER+=(--bf16); fi
}

choose_update() {
    local share most
    case $GPUS in
    1 | 2 | 4 | 8) share=$(($1 / GPUS)) ;;
    *) fail "GPUS=$GPUS: give 1, 2, 4 or 8" ;;
    esac
    most=$(($2 < share ? $2 : share))
    MAX_TOKENS=${MAX_TOKENS:-$most}
    if ! [[ $MAX_TOKENS =~ ^[1-9][0-9]{0,6}$ ]] || [ $((share % MAX_TOKENS)) -ne 0 ]; then
        fail "MAX_TOKENS=$MAX_TOKENS does not divide $share, what an update of $1 tokens gives each GPU (GPUS=$GPUS): give a divisor, such as $most"
    fi
    UPDATE_FREQ=$((share / MAX_TOKENS))
    ON_GPUS=(--distributed-world-size "$GPUS" --max-tokens "$MAX_TOKENS")
    # GPUs wait for each other at every update; on one the option has no effect.
    if [ "$GPUS" != 1 ]; then ON_GPUS+=(--grouped-shuffling); fi
    IN_PRECISION="" OTHER_PRECISION=""
    case ${PRECISION:=float16} in
    float16) ON_GPUS+=(--fp16) IN_PRECISION=,fp16=true ;;
    bfloat16) ON_GPUS+=(--bf16) IN_PRECISION=,bf16=true OTHER_PRECISION=", $PRECISION" ;;
    float32) OTHER_PRECISION=", $PRECISION" ;;
    *) fail "PRECISION=$PRECISION: give float16, bfloat16 or float32" ;;
    esac
}

# Until this start and the commands of it that outlive it have ended, no other one works in $OUT. A recipe that another one calls has what
# that one holds.
hold() {
    local folder lock=$OUT/.stages/lock status=0
    folder=$(realpath -m "$OUT")
    case "
${RECIPE_HOLDS:-}
" in
    *"
$folder
"*) return ;;
    esac
    # Where one command is started once for each of several GPUs (torchrun, SLURM), they work in the folder together.
    if [ "${RANK:-${SLURM_PROCID:-0}}" != 0 ]; then return; fi
    mkdir -p "$OUT/.stages"
    # Not every system has flock, nor every file system locks: 1 means that another one holds it.
    if command -v flock >/dev/null; then
        exec {HOLD}<>"$lock"
        flock -n "$HOLD" || status=$?
        if [ "$status" -eq 1 ]; then
            say "another start (process $(cat "$lock")) works in $OUT: waiting until it and what it has started have ended"
            # In the background, because bash hears signals while it waits and not while a program runs in front.
            flock "$HOLD" &
            wait $!
        fi
        echo $$ >"$lock"
    fi
    export RECIPE_HOLDS="${RECIPE_HOLDS:-}
$folder"
}

# Whether a stage was finished with the same settings.
is_done() { [ -f "$OUT/.stages/$1.done" ] && [ "$(cat "$OUT/.stages/$1.done")"$'\n' = "$STAGE_CHAIN" ]; }

# What is there of a stage counts as begun, or finished, with the settings of now.
adopt() {
    local stamp
    hold
    for stamp in "$OUT/.stages/$1.started" "$OUT/.stages/$1.done"; do
        if [ -f "$stamp" ]; then
            printf '%s' "$STAGE_CHAIN" >"$stamp.partial"
            mv "$stamp.partial" "$stamp"
        fi
    done
}

stage() {
    local name=$1 folder=$2 settings=$3 stamps=$OUT/.stages
    shift 3
    STAGE_CHAIN+="$name: $settings"$'\n'
    if [ -n "$DRY_RUN" ]; then
        "$@"
        return
    fi
    local title=${TITLE:-$name} log=$LOGS/$name.log
    if [ "${ADOPT:-}" = 1 ]; then adopt "$name"; fi
    if ! is_done "$name"; then hold; fi
    if is_done "$name"; then
        say "$title: finished before"
        return
    fi
    mkdir -p "$stamps"
    # An interrupted stage continues only with the settings it was started with.
    if [ -f "$stamps/$name.started" ] && [ "$(cat "$stamps/$name.started")"$'\n' != "$STAGE_CHAIN" ]; then
        if [ "${KEEP:-}" = 1 ]; then
            fail "$folder was begun with other settings ($(paste -sd ';' "$stamps/$name.started")): give another OUT, or remove it with $stamps, or say ADOPT=1 if it is all the same (now: $(paste -sd ';' <<<"${STAGE_CHAIN%?}"))"
        fi
        say "$title: settings changed, starting it again"
        rm -rf "$folder"
        if [ -n "$LOGS" ]; then rm -f "$log"; fi
    fi
    rm -f "$stamps/$name.done"
    printf '%s' "$STAGE_CHAIN" >"$stamps/$name.started"
    mkdir -p "$folder"
    say "$title"
    if [ -n "$LOGS" ]; then
        mkdir -p "$LOGS"
        CURRENT_LOG=$log
        "$@" >>"$log" 2>&1
        CURRENT_LOG=""
    else
        "$@"
    fi
    cp "$stamps/$name.started" "$stamps/$name.partial"
    mv "$stamps/$name.partial" "$stamps/$name.done"
}

training() {
    local KEEP=${KEEP:-} SAVE=$1 default=$1 settings=$2 command=$3 word before="" name
    shift 3
    for word; do
        if [ "$before" = --save-dir ]; then SAVE=$word; fi
        if [[ $word == --save-dir=* ]]; then SAVE=${word#*=}; fi
        before=$word
    done
    if [ "$SAVE" != "$default" ]; then KEEP=1; fi
    name=${SAVE#"$OUT/"}
    stage "${name//\//_}" "$SAVE" "$settings${*:+, $*}" "$command" "$@"
}

side_by_side() {
    local steps=$1 lane pid ready chain=$STAGE_CHAIN
    shift
    if [ -n "$DRY_RUN" ]; then
        for lane; do "$lane"; done
        return
    fi
    hold
    for lane; do
        # In a process group of its own, so that it can be stopped with everything it started.
        set -m
        (
            set +m
            LANES=() PROGRESS=""
            trap ended EXIT
            trap - HUP INT TERM
            "$lane"
            printf '%s' "${STAGE_CHAIN#"$chain"}" >"$OUT/.stages/$lane.chain"
        ) &
        set +m
        LANES+=($!)
    done
    while [ ${#LANES[@]} -gt 0 ]; do
        # In the background, because bash hears signals while it waits and not while a program runs in front.
        eval "python -I -S $COMMON/progress.py --started $RECIPE_STARTED $steps -- ${LANES[*]} &"
        PROGRESS=$!
        wait "$PROGRESS" || true
        PROGRESS=""
        ready=()
        for pid in "${LANES[@]}"; do
            if kill -0 "$pid" 2>/dev/null; then ready+=("$pid"); else wait "$pid"; fi
        done
        LANES=("${ready[@]}")
    done
    # Later stages depend on those of all lanes.
    for lane; do STAGE_CHAIN+=$(cat "$OUT/.stages/$lane.chain")$'\n'; done
}
