#!/usr/bin/env bash
# Translates the test set with the averaged model of train.sh, as the RoyalFlush system was
# submitted: greedily, one sentence at a time, in half precision.
#
#   DATA=data-bin/wmt22_en_de bash examples/wmt22_en_de/hrt/translate.sh [more options of fairseq-generate]
#
# Paper: CHUNK (2), BEAM (1) and NAT_BEAM (1) of the two stages, length penalty 0.6, at most 200
# tokens, longer sources cut. Ours: references are not cut. FP16 (1): empty decodes in single
# precision, for a CPU. Printed, as in the paper: sacreBLEU of raw text against the raw test set that
# prepare.sh took (REFERENCES: another file). Results: $OUT/test.log and test.bleu
# (OUT=runs/wmt22_en_de/hrt). Reported (average of newstest2019 and 2020, which are two test sets
# here): E12D1 39.8 (k = 2), 39.3 (3), 38.5 (4) BLEU, the autoregressive model 39.8. Not printed:
# COMET, which the paper reports as well; fairseq-hrt benchmark --comet has it.
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
pairs en-de
DATA=${DATA:-data-bin/wmt22_en_de} CHUNK=${CHUNK:-2} BEAM=${BEAM:-1} NAT_BEAM=${NAT_BEAM:-1} FP16=${FP16-1}
switches FP16
OUT=${OUT:-runs/wmt22_en_de/hrt}

# word by word there is no second stage
SECOND=()
if [ "$CHUNK" = 1 ]; then unused "with CHUNK=1" NAT_BEAM; else SECOND=(--hrt-nat-beam "$NAT_BEAM"); fi
run_to "$OUT/test.log" fairseq-generate "$DATA" --user-dir fairseq_hrt --task translation_hrt \
    --source-lang en --target-lang de --path "$OUT/hrt/averaged.pt" \
    --hrt-decode-chunk "$CHUNK" --beam "$BEAM" "${SECOND[@]}" --lenpen 0.6 \
    --max-len-a 0 --max-len-b 200 --truncate-source --max-source-positions 200 \
    --model-overrides "{'max_target_positions': 1024}" \
    --batch-size 1 ${FP16:+--fp16} --remove-bpe sentencepiece --scoring sacrebleu "$@"
print_bleu "$OUT/test.log" none
