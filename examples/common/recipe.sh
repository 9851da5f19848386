# What the recipes share; sourced, never run:  source "$(dirname "$0")/../common/recipe.sh"
#
#   run COMMAND...                       shows the command, then runs it; DRY_RUN=1 only shows it
#   run_to FILE COMMAND...               the same with standard output into FILE, which appears only when complete
#   stage NAME FOLDER SETTINGS COMMAND…  runs COMMAND once: a stamp in $OUT/.stages says that it is finished. Other
#                                        SETTINGS (or those of an earlier stage) empty FOLDER and run it again
#   say TEXT...                          one progress line with the time since the start
#
# The recipe sets OUT (the folder of its results) before the first stage.

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
# The commands run at the root of the repository; folders that the user names are relative to where the user is.
if [ -n "${DATA:-}" ]; then DATA=$(realpath -m "$DATA"); fi
if [ -n "${OUT:-}" ]; then OUT=$(realpath -m --relative-base="$REPOSITORY" "$OUT"); fi
cd "$REPOSITORY"
# Exported by a recipe that calls another one: the second also depends on the stages of the first.
STAGE_CHAIN=${STAGE_CHAIN:-}

say() { printf '[%3d s] %s\n' "$SECONDS" "$*"; }

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

stage() {
    local name=$1 folder=$2 settings=$3 stamps=$OUT/.stages
    shift 3
    STAGE_CHAIN+="$name: $settings"$'\n'
    if [ -n "$DRY_RUN" ]; then
        "$@"
        return
    fi
    if [ -f "$stamps/$name.done" ] && [ "$(cat "$stamps/$name.done")"$'\n' = "$STAGE_CHAIN" ]; then
        say "$name: finished before"
        return
    fi
    mkdir -p "$stamps"
    # An interrupted stage goes on only with the settings it was started with.
    if [ -f "$stamps/$name.started" ] && [ "$(cat "$stamps/$name.started")"$'\n' != "$STAGE_CHAIN" ]; then
        say "$name: settings changed, starting it again"
        rm -rf "$folder"
    fi
    rm -f "$stamps/$name.done"
    printf '%s' "$STAGE_CHAIN" >"$stamps/$name.started"
    mkdir -p "$folder"
    say "$name"
    "$@"
    cp "$stamps/$name.started" "$stamps/$name.partial"
    mv "$stamps/$name.partial" "$stamps/$name.done"
}
