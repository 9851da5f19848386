#!/usr/bin/env bash
# WMT17 Chinese-English from a folder of raw text to binarised data: words (Chinese: jieba's, English: Moses's), BPE of 32000 merges and
# a dictionary for each language.
#
#   DATA=folder bash examples/wmt17_zh_en/prepare.sh                folder: train, valid and test .zh and .en, plain or gzip
#   DATA=folder SAMPLE=2000 MERGES=1000 bash examples/wmt17_zh_en/prepare.sh   the first 2,000 pairs of each part, to try the recipes out
#   DATA=folder TOKENISED=1 bash examples/wmt17_zh_en/prepare.sh    text that is in words already
#
# jieba is installed by: pip install jieba==0.42.1. The paper reports what is learnt separately, not how Chinese is cut into words,
# nor how many merges there are. Results: $OUT/data-bin (OUT=runs/wmt17_zh_en), which the recipes beside this one take as DATA.
# Started again it does only what is missing.
set -euo pipefail
source "$(dirname "$0")/../common/recipe.sh"
pairs zh-en en-zh
export OUT=${OUT:-runs/wmt17_zh_en} SRC=zh TGT=en MERGES=${MERGES:-32000} SEPARATE=${SEPARATE-1} DRY_RUN
if [ -z "${DATA:-}" ] && [ -z "$DRY_RUN" ]; then fail "DATA names a folder with train.zh, train.en, valid.zh, …"; fi
bash "$COMMON/collect_text.sh" "${DATA:-raw}"
