#!/usr/bin/env bash
# Translates the test set with a model of train.sh as the code released with the paper does.
#
#   SRC=en TGT=fr DATA=runs/wmt14_en_fr/data-bin KD=1 bash examples/ibdecoder/translate.sh [more options of fairseq-generate]
#
# SRC, TGT, DIRECTIONS, TOKENS, LAYERS, KD, DISTILLED and OUT as train.sh had them.
# Paper (Appendix A): beam 4 (BEAM=1 for greedy), length penalty 0.6. Released code: the search behind --bidirectional-scoring
# paper, GNMT's form of the length penalty ((5 + t) / 6) ** 0.6, at most 50 words more than the source has. The search as printed:
# --bidirectional-scoring algorithm1 --bidirectional-length-penalty power --lenpen 1. Printed, as in the paper: sacreBLEU of detokenised text
# against the raw test set that prepare.sh took (REFERENCES: another file), of Japanese that of its words (KyTea's). Results:
# $OUT/$MODEL/test.log and test.bleu. fairseq's BLEU at the end of the log is of the words as they were prepared.
# Reported with KD (Tables 1, 4 and 6, beam 4 and greedy): En-De 27.1 and 26.8, two layers 26.6, with SA 26.3 and 26.0; En-Fr 32.7 and 32.2;
# Ro-En 33.5 and 33.2; En-Ru 27.5 and 28.2; En-Ja 43.76 and 43.79.
set -euo pipefail
source "$(dirname "$0")/../common/recipe.sh"
source examples/ibdecoder/pairs.sh
source examples/ibdecoder/models.sh
DATA=${DATA:-data-bin/$CORPUS} BEAM=${BEAM:-4}
if [ "$TGT" = ja ]; then unused "on BLEU of the words of DATA" REFERENCES; fi

run_to "$OUT/$MODEL/test.log" fairseq-generate "$DATA" --user-dir fairseq_hrt --task translation_bidirectional \
    --source-lang "$SRC" --target-lang "$TGT" --path "$OUT/$MODEL/averaged.pt" --beam "$BEAM" --batch-size 32 \
    --bidirectional-scoring paper --bidirectional-length-penalty gnmt --lenpen 0.6 \
    --max-len-a 1 --max-len-b 50 --remove-bpe "$@"
if [ "$TGT" = ja ]; then print_bleu "$OUT/$MODEL/test.log"; else print_bleu "$OUT/$MODEL/test.log" "moses:$TGT"; fi
