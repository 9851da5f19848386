#!/usr/bin/env bash
# WMT22 efficiency task, English-German: raw sources with the translations of the task's teacher to binarised data, in the pieces of the
# task's SentencePiece model, one dictionary.
#
#   DATA=folder SENTENCEPIECE=vocab.spm bash examples/wmt22_en_de/prepare.sh   folder: train, valid and test .en and .de, plain or gzip
#   DATA=folder SENTENCEPIECE=learn SAMPLE=2000 MERGES=500 bash examples/wmt22_en_de/prepare.sh
#                                    the first 2,000 pairs of each part and 500 pieces of their own, to try the recipes out
#
# The package is installed by: pip install sentencepiece. Results: $OUT/data-bin (OUT=runs/wmt22_en_de), which the recipes
# beside this one take as DATA. Started again it does only what is missing.
set -euo pipefail
source "$(dirname "$0")/../common/recipe.sh"
pairs en-de de-en
export OUT=${OUT:-runs/wmt22_en_de} SRC=en TGT=de MERGES=${MERGES:-32000} SENTENCEPIECE=${SENTENCEPIECE:-} DRY_RUN
if [ -n "$DRY_RUN" ]; then SENTENCEPIECE=${SENTENCEPIECE:-vocab.spm}; fi
if [ -z "${DATA:-}" ] && [ -z "$DRY_RUN" ]; then fail "DATA names a folder with train.en, train.de, valid.en, …"; fi
if [ -z "$SENTENCEPIECE" ]; then fail 'SENTENCEPIECE names the model of the task (or is "learn", to make another one)'; fi
bash "$COMMON/collect_text.sh" "${DATA:-raw}"
