#!/usr/bin/env bash
# A corpus of the paper on IBDecoder from a folder of text to binarised data: Moses tokenisation, joint BPE, one dictionary.
#
#   SRC=en TGT=fr DATA=folder bash examples/ibdecoder/prepare.sh       folder: train, valid and test .en and .fr, plain or gzip
#   SRC=en TGT=ja DATA=folder bash examples/ibdecoder/prepare.sh       the subwords of the task: they are only binarised
#   SRC=en TGT=ru DATA=folder SAMPLE=2000 MERGES=1000 bash …/prepare.sh   the first 2,000 pairs of each part, to try the recipe out
#
# Pairs and merges: pairs.sh. Paper (Appendix A): joint BPE of 32,000, for English-Russian 48,000; English-Japanese as it is given.
# The authors publish their prepared data with their code (bzhangGo/zero, docs/interleaved_bidirectional_transformer); TOKENISED=1 MERGES=0 takes them.
# Ours: one dictionary for both languages, also of the given subwords; of "a joint vocab size" we take the merges.
# Results: $OUT/data-bin (OUT=runs/wmt14_en_fr and so on), which train.sh takes as DATA. Started again it does only what is missing.
set -euo pipefail
source "$(dirname "$0")/../common/recipe.sh"
source examples/ibdecoder/pairs.sh
export OUT=${OUT:-runs/$CORPUS} SRC TGT MERGES=${MERGES:-$DEFAULT_MERGES} TOKENISED=${TOKENISED:-} DRY_RUN
if [ "$DEFAULT_MERGES" = 0 ]; then TOKENISED=1; fi
if [ -z "${DATA:-}" ] && [ -z "$DRY_RUN" ]; then fail "DATA names a folder with train.$SRC, train.$TGT, valid.$SRC, …"; fi
bash "$COMMON/collect_text.sh" "${DATA:-raw}"
