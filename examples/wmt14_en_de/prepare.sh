#!/usr/bin/env bash
# WMT14 English-German from a folder of raw text to binarised data: Moses tokenisation, joint BPE of
# 32000 merges, one dictionary.
#
#   DATA=folder bash examples/wmt14_en_de/prepare.sh                folder: train, valid and test .en and .de, plain or gzip
#   DATA=folder SAMPLE=2000 MERGES=1000 bash examples/wmt14_en_de/prepare.sh   the first 2,000 pairs of each part, to try the recipes out
#
# Paper (HRT, section 5): the data of Ghazvininejad et al. (2019), in subwords. Ours: this
# tokenisation, the number of merges.
# Results: $OUT/data-bin (OUT=runs/wmt14_en_de), which the recipes beside this one take as DATA.
# Started again it does only what is missing.
set -euo pipefail
source "$(dirname "$0")/../common/recipe.sh"
pairs en-de de-en
export OUT=${OUT:-runs/wmt14_en_de} SRC=en TGT=de MERGES=${MERGES:-32000} DRY_RUN
if [ -z "${DATA:-}" ] && [ -z "$DRY_RUN" ]; then fail "DATA names a folder with train.en, train.de, valid.en, …"; fi
bash "$COMMON/collect_text.sh" "${DATA:-raw}"
