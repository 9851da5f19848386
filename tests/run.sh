#!/usr/bin/env bash
# Run the tests; makes .venv on first use.
#
#   bash tests/run.sh               all of them
#   bash tests/run.sh quick         those that take a moment
#   bash tests/run.sh tests/unit -k mask    what follows goes to pytest
#
# WORKERS (3): processes that share the tests, a file at a time, one more than two cores keep busy,
# since some tests wait; 0: none besides this one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash examples/setup_env.sh test
selection=()
if [[ ${1:-} == quick ]]; then
    shift
    selection=(-m "not slow")
fi
# the models are tiny: more threads than this only wait for each other
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# where it is set each process compiles what it imports, two seconds a time
unset PYTHONDONTWRITEBYTECODE
# all of it has ten minutes: what takes long is named
exec .venv/bin/python -m pytest -n "${WORKERS:-3}" --dist loadfile --no-loadscope-reorder \
    --durations 30 --durations-min 3 "${selection[@]}" "$@"
