#!/usr/bin/env bash
# WMT16 English-Romanian from a folder of raw text to binarised data: Moses tokenisation, joint BPE
# of 40000 merges, one dictionary.
#
#   DATA=folder bash examples/wmt16_en_ro/prepare.sh                folder: train, valid and test .en and .ro, plain or gzip
#   DATA=folder SAMPLE=2000 MERGES=1000 bash examples/wmt16_en_ro/prepare.sh   the first 2,000 pairs of each part, to try the recipes out
#
# Paper (HRT, section 5): the data of Ghazvininejad et al. (2019), in subwords. Ours: this
# tokenisation, the number of merges.
# Results: $OUT/data-bin (OUT=runs/wmt16_en_ro), which the recipes beside this one take as DATA.
# Started again it does only what is missing.
set -euo pipefail
source "$(dirname "$0")/../common/recipe.sh"
pairs en-ro ro-en
export OUT=${OUT:-runs/wmt16_en_ro} SRC=en TGT=ro MERGES=${MERGES:-40000} DRY_RUN
if [ -z "${DATA:-}" ] && [ -z "$DRY_RUN" ]; then fail "DATA names a folder with train.en, train.ro, valid.en, …"; fi
bash "$COMMON/collect_text.sh" "${DATA:-raw}"
