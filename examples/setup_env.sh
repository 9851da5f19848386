#!/usr/bin/env bash
# Make or complete the environment .venv at the root of the repository:
#
#   bash examples/setup_env.sh           what the recipes and all of fairseq-hrt's verbs need
#   bash examples/setup_env.sh test      and what the tests need
#
# It needs Python >= 3.10 with venv and a C compiler (fairseq has parts in C++). It can be
# interrupted and run again, and is done at once when nothing has changed. Other choices:
#
#   PYTHON=python3.12 bash examples/setup_env.sh        another interpreter for a new .venv
#   TORCH_SPEC=torch==2.8.0 bash examples/setup_env.sh  another PyTorch (any that pip understands)
#
# Everything else is installed in the releases that constraints.txt names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

TORCH_SPEC=${TORCH_SPEC:-torch==2.13.0}
# Bytecode is written once: a Python told to write none would compile PyTorch at each start.
unset PYTHONDONTWRITEBYTECODE
STAMP=.venv/setup.stamp
LOG=.venv/setup.log

fail() {
    echo "setup_env.sh: $*" >&2
    exit 1
}

# Run a step quietly; show the end of its output if it fails.
step() {
    local what=$1
    shift
    echo "setup_env.sh: [$SECONDS s] $what"
    "$@" >>"$LOG" 2>&1 || {
        tail -n 20 "$LOG" >&2
        fail "failed: $what (its output is in $LOG)"
    }
}

case "$*" in
"") extras=examples,completion,ctranslate2,sentencepiece,serve ;;
test) extras=examples,test ;;
*) fail "$*: give nothing, or test" ;;
esac
key=$({ echo "$TORCH_SPEC"; cat setup.py pyproject.toml constraints.txt examples/setup_env.sh fairseq_hrt/compat/startup.py fairseq_hrt/native/runtime/kernel/*.[ch]; } | cksum)
# The environment of the tests has all of it.
is_ready() {
    [[ -x .venv/bin/python ]] && grep -qsxF -e "$key $extras" -e "$key examples,test" "$STAMP"
}
if is_ready; then exit 0; fi
# Two at once would undo each other's work. Not every system has flock.
if command -v flock >/dev/null; then
    # Some network file systems lock only what may be written.
    exec 9<>examples/setup_env.sh
    status=0
    flock -n 9 || status=$?
    # 1 means that another one holds it; not every file system locks.
    if [ "$status" -eq 1 ]; then
        echo "setup_env.sh: waiting for another set-up of this folder"
        flock 9 || true
        if is_ready; then exit 0; fi
    fi
fi

python=${PYTHON:-python3}
command -v "$python" >/dev/null || fail "no $python here; install Python 3.10 or newer, or set PYTHON"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "$("$python" --version) is too old; set PYTHON to a Python 3.10 or newer"
compiler=${CC:-cc}
command -v "${compiler%% *}" >/dev/null || command -v gcc >/dev/null ||
    fail "no C compiler here, which building fairseq needs; on Debian and Ubuntu: apt install build-essential"

# venv and pip keep one core busy. Beside them the kernel is compiled (pip takes it, or reports why
# there is none), fairseq is built, and bytecode is written.
aside() {
    local log=$1
    shift
    # In a group of its own, so that nothing which it has started outlives an interrupted set-up.
    set -m
    "$@" >"$log" 2>&1 </dev/null &
    set +m
}
stop() {
    local group
    for group in $(jobs -pr); do kill -- "-$group" 2>/dev/null || true; done
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# Measured: examples/study/measured/quickstart.json.
echo "setup_env.sh: this takes about 100 s on two cores with PyTorch for CPUs, longer with that for CUDA"
aside /dev/null "$python" -I fairseq_hrt/native/runtime/build.py
kernel=$!
if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    echo "setup_env.sh: making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv ||
        fail "$python has no venv; on Debian and Ubuntu: apt install python3-venv"
fi
pip=(.venv/bin/python -m pip --disable-pip-version-check)
# Python compiles what is imported when it first is; pip would spend half a minute on all the rest.
# pip's options that begin with "no" are chosen by a false value.
export PIP_NO_COMPILE=0
: >"$LOG"
# Interrupted from here on, the environment is no longer that of the stamp.
rm -f "$STAMP"
# Without its dependencies: pip rejects the releases of omegaconf and hydra that fairseq pins.
# In an isolated build: with torch in sight fairseq also builds a file that its release lacks.
wheels=.venv/wheels building=""
fairseq_is_installed() {
    .venv/bin/python -c "import importlib.metadata as m, sys; sys.exit(m.version('fairseq') != '0.12.2')" 2>/dev/null
}
fairseq_is_built() { wait "$building" || { cat .venv/fairseq.log; false; }; }
if ! fairseq_is_installed && ! compgen -G "$wheels/fairseq-0.12.2-*.whl" >/dev/null; then
    aside .venv/fairseq.log "${pip[@]}" wheel --no-deps --wheel-dir "$wheels" fairseq==0.12.2
    building=$!
fi
step "installing $TORCH_SPEC${building:+, building fairseq 0.12.2}" "${pip[@]}" install --upgrade "setuptools>=77" "$TORCH_SPEC"
wait "$kernel" || true
aside /dev/null .venv/bin/python -c "import torch._dynamo"
# Built with the setuptools that is there now: an environment for each build takes five seconds.
step "installing fairseq_hrt and what it needs" \
    "${pip[@]}" install --no-build-isolation -e ".[$extras]" --constraint constraints.txt
# Importing writes bytecode.
aside /dev/null .venv/bin/python -c "
import compileall, ctranslate2, matplotlib.pyplot, sacrebleu, starlette.applications
compileall.compile_dir('fairseq_hrt', quiet=1)
"
imported=$!
if [ -n "$building" ]; then step "waiting for fairseq to be built" fairseq_is_built; fi
if ! fairseq_is_installed; then
    step "installing fairseq" "${pip[@]}" install --no-deps fairseq==0.12.2 --only-binary fairseq --find-links "$wheels"
fi
wait "$imported" || true
step "looking it over" .venv/bin/python -c "
import fairseq_cli.generate, fairseq_cli.preprocess, fairseq_cli.train, torch._dynamo
import ctranslate2, matplotlib.pyplot, sacrebleu, starlette.applications, fairseq_hrt
"
echo "$key $extras" >"$STAMP"
echo "setup_env.sh: .venv is ready"
