#!/usr/bin/env bash
# Averages the last five checkpoints of train.sh and translates the test set as the code released with the paper does.
#
#   DATA=data-bin/wmt14_en_de bash examples/wmt14_en_de/bidirectional/translate.sh [more options of fairseq-generate]
#
# Paper (Appendix A): beam 4 (BEAM=1 for greedy), length penalty 0.6. Released code: the search behind --bidirectional-scoring
# paper, GNMT's form of the length penalty ((5 + t) / 6) ** 0.6, at most 50 words more than the source has. The search as printed:
# --bidirectional-scoring algorithm1 --bidirectional-length-penalty power --lenpen 1. Result: $OUT/test.log
# (OUT=runs/wmt14_en_de/bidirectional). Reported (Table 1, with a teacher's targets): IBDecoder 27.1 (beam 4) and 26.8 (greedy)
# BLEU, with SA (c = 2) 26.3 and 26.0.
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
DATA=${DATA:-data-bin/wmt14_en_de} SRC=${SRC:-en} TGT=${TGT:-de} BEAM=${BEAM:-4}
OUT=${OUT:-runs/wmt14_${SRC}_${TGT}/bidirectional}

run python -m fairseq_hrt.cli.average --folder "$OUT/model" --last 5 --output "$OUT/averaged.pt"
run_to "$OUT/test.log" fairseq-generate "$DATA" --user-dir fairseq_hrt --task translation_bidirectional \
    --source-lang "$SRC" --target-lang "$TGT" --path "$OUT/averaged.pt" --beam "$BEAM" --batch-size 32 \
    --bidirectional-scoring paper --bidirectional-length-penalty gnmt --lenpen 0.6 \
    --max-len-a 1 --max-len-b 50 --remove-bpe --quiet "$@"
