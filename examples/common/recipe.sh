# What the recipes share; sourced, never run:  source "$(dirname "$0")/../common/recipe.sh"
#
#   run COMMAND...                       shows the command, then runs it; DRY_RUN=1 only shows it
#   run_to FILE COMMAND...               the same with standard output into FILE, which appears only when complete
#   stage NAME FOLDER SETTINGS COMMAND…  runs COMMAND once: a stamp in $OUT/.stages says that it is finished. Other
#                                        SETTINGS (or those of an earlier stage) empty FOLDER and run it again; where the recipe
#                                        sets KEEP=1, for what takes days, they are refused
#   contents FILE…                       what files hold, as a word for the SETTINGS of a stage: other text under an old name is noticed
#   contents_of_text FOLDER              the same of raw text
#   contents_of_data FOLDER SPLIT…       the same of what fairseq-preprocess has made of it
#   text_file FOLDER NAME                the file of that name, plain or gzip
#   say TEXT...                          one progress line with the time since the start
#   side_by_side STEPS FUNCTION…         runs functions at the same time, each with its stages, and shows how far they are; all stop
#                                        when one fails or at Ctrl-C, and go on the next time. STEPS: options of progress.py
#
# The recipe sets OUT (the folder of its results) before the first stage; a second start in it waits for the first. Where it sets LOGS, another folder, what a stage says goes
# to $LOGS/NAME.log, and only its end is shown if it fails. TITLE=... before "stage" is what is said instead of its name.

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
if [ -n "${DATA:-}" ]; then DATA=$(realpath -m "$DATA"); fi
if [ -n "${DISTILLED:-}" ]; then DISTILLED=$(realpath -m "$DISTILLED"); fi
if [ -n "${LIKE:-}" ]; then LIKE=$(realpath -m --relative-base="$REPOSITORY" "$LIKE"); fi
if [ -n "${SENTENCEPIECE:-}" ] && [ "$SENTENCEPIECE" != learn ]; then SENTENCEPIECE=$(realpath -m "$SENTENCEPIECE"); fi
if [ -n "${OUT:-}" ]; then OUT=$(realpath -m --relative-base="$REPOSITORY" "$OUT"); fi
if [ -n "${LOGS:-}" ]; then LOGS=$(realpath -m --relative-base="$REPOSITORY" "$LOGS"); fi
cd "$REPOSITORY"
# Exported by a recipe that calls another one: the second also depends on the stages of the first.
STAGE_CHAIN=${STAGE_CHAIN:-}
KEEP=""
LOGS=${LOGS:-} CURRENT_LOG="" LANES=() PROGRESS=""
# A recipe that another one calls counts from the start of that one.
RECIPE_STARTED=${RECIPE_STARTED:-$(($(date +%s) - SECONDS))}
SECONDS=$(($(date +%s) - RECIPE_STARTED))
export RECIPE_STARTED

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
        if [ $((rounds++ % 50)) -eq 0 ]; then
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
    trap 'echo; say "stopped; the same command goes on from here"; exit 130' INT
    trap 'exit 143' TERM
fi

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
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

contents() {
    if [ -z "$DRY_RUN" ]; then cat -- "$@" | cksum | tr ' ' -; fi
}

text_file() {
    if [ -f "$1/$2" ] && [ -f "$1/$2.gz" ]; then fail "$1 has both $2 and $2.gz: remove the one that is not meant"; fi
    if [ -f "$1/$2.gz" ]; then
        echo "$1/$2.gz"
    elif [ -f "$1/$2" ] || [ -n "$DRY_RUN" ]; then
        # A dry run shows the commands also for data that are not there yet.
        echo "$1/$2"
    else
        fail "$1 has neither $2 nor $2.gz"
    fi
}

contents_of_text() {
    local split language file files=()
    for split in ${SPLITS:-train valid test}; do
        for language in $SRC $TGT; do
            # Called as $(contents_of_text …), where bash does not leave by itself.
            file=$(text_file "$1" "$split.$language") || exit 1
            files+=("$file")
        done
    done
    contents "${files[@]}"
}

contents_of_data() {
    local folder=$1 split language file files=()
    shift
    for split; do
        for language in "$SRC" "$TGT"; do
            file=$split.$SRC-$TGT.$language
            if [ -z "$DRY_RUN" ] && { [ ! -f "$folder/$file.bin" ] || [ ! -f "$folder/$file.idx" ]; }; then
                fail "$folder has no $file.bin and .idx, which fairseq-preprocess writes: prepare the data, or name their folder"
            fi
            files+=("$folder/$file.bin" "$folder/$file.idx")
        done
    done
    contents "$folder/dict.$SRC.txt" "$folder/dict.$TGT.txt" "${files[@]}"
}

# Until this start and the commands of it that outlive it have ended, no other one works in $OUT. A recipe that another one calls has its hold.
hold() {
    if [ "${RECIPE_HOLDS:-}" = "$OUT" ]; then return; fi
    mkdir -p "$OUT/.stages"
    # Not every system has flock, nor every file system locks: 1 says that another one holds it.
    if command -v flock >/dev/null; then
        local status=0
        exec {HOLD}>"$OUT/.stages/lock"
        flock -n "$HOLD" || status=$?
        if [ "$status" -eq 1 ]; then
            say "another start works in $OUT: waiting until it ends"
            flock "$HOLD"
        fi
    fi
    export RECIPE_HOLDS=$OUT
}

stage() {
    local name=$1 folder=$2 settings=$3 stamps=$OUT/.stages
    shift 3
    STAGE_CHAIN+="$name: $settings"$'\n'
    if [ -n "$DRY_RUN" ]; then
        "$@"
        return
    fi
    hold
    local title=${TITLE:-$name} log=$LOGS/$name.log
    if [ -f "$stamps/$name.done" ] && [ "$(cat "$stamps/$name.done")"$'\n' = "$STAGE_CHAIN" ]; then
        say "$title: finished before"
        return
    fi
    mkdir -p "$stamps"
    # An interrupted stage goes on only with the settings it was started with.
    if [ -f "$stamps/$name.started" ] && [ "$(cat "$stamps/$name.started")"$'\n' != "$STAGE_CHAIN" ]; then
        if [ "${KEEP:-}" = 1 ]; then
            fail "$folder was begun with other settings ($(paste -sd ';' "$stamps/$name.started")): give another OUT, or remove it with $stamps"
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
    # What follows depends on the stages of all of them.
    for lane; do STAGE_CHAIN+=$(cat "$OUT/.stages/$lane.chain")$'\n'; done
}
