#!/usr/bin/env bash
# Translates the test set with the averaged checkpoint of train.sh.
#
#   DATA=data-bin/wmt14_en_de bash examples/wmt14_en_de/dag/translate.sh [more options of fairseq-generate]
#
# STRATEGY, LENGTH_BETA, and what is the paper's and what ours: ../../common/translate_dag.sh.
# Results: $OUT/test.log and test.bleu (OUT=runs/wmt14_en_de/dag).
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
DATA=${DATA:-data-bin/wmt14_en_de} SRC=${SRC:-en} TGT=${TGT:-de}
OUT=${OUT:-runs/wmt14_${SRC}_${TGT}/dag}
source "$COMMON/translate_dag.sh"
