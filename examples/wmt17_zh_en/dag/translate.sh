#!/usr/bin/env bash
# Translates the test set with the averaged checkpoint of train.sh.
#
#   DATA=data-bin/wmt17_zh_en bash examples/wmt17_zh_en/dag/translate.sh [more options of fairseq-generate]
#
# STRATEGY, LENGTH_BETA, and what is the paper's and what ours: ../../common/translate_dag.sh.
# Results: $OUT/test.log and test.bleu (OUT=runs/wmt17_zh_en/dag).
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
DATA=${DATA:-data-bin/wmt17_zh_en} SRC=${SRC:-zh} TGT=${TGT:-en}
OUT=${OUT:-runs/wmt17_${SRC}_${TGT}/dag}
source "$COMMON/translate_dag.sh"
