#!/usr/bin/env bash
# Summaries of CNN/DailyMail (non-anonymised) with the bidirectional decoder and the paper's hyper-parameters (Appendix A).
#
#   DATA=folder bash examples/cnn_dailymail/bidirectional/run.sh
#
# DATA holds {train,valid,test}.{article,summary}, one text a line, plain or gzip; it is not downloaded here.
# Articles are cut after 400 subwords. The corpus: the stories of CNN and Daily Mail by Hermann et al. (2015) with the highlights as
# summaries, as See et al. (2017) prepared them; most data libraries have it as cnn_dailymail, version 3.0.0.
# Base model, 32,000 joint BPE merges, about 25,000 target subwords an update, the last five checkpoints averaged, beam 4.
# The paper (Table 6, ROUGE-L, with distillation): IBDecoder 36.46 (beam 4) and 37.03 (greedy), with SA 36.27 and 36.39, Transformer 36.88 and 34.51.
# One GPU with 24 GiB; GPUS (1) more divide the update. OUT (runs/cnn_dailymail), UPDATES (100000), THREADS, REPEATS, SEED.
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
source "$COMMON/systems.sh"
DATA=${DATA:-data/cnn_dailymail} OUT=${OUT:-$REPOSITORY/runs/cnn_dailymail} SEED=${SEED:-1} GPUS=${GPUS:-1}
AT_UPDATES=${UPDATES:-100000} IB_UPDATES=${UPDATES:-100000} AVERAGE=5 MERGES=${MERGES:-32000} BEAM=${BEAM:-4}
SPEED_SENTENCES=${SPEED_SENTENCES:-1000} REPEATS=${REPEATS:-3} THREADS=${THREADS:-1}
case $GPUS in
1) UPDATE_FREQ=8 ;;
2) UPDATE_FREQ=4 ;;
4) UPDATE_FREQ=2 ;;
8) UPDATE_FREQ=1 ;;
*) fail "GPUS=$GPUS: give 1, 2, 4 or 8" ;;
esac
SIZES=()
for side in encoder decoder; do
    SIZES+=("--$side-layers" 6 "--$side-embed-dim" 512 "--$side-ffn-embed-dim" 2048 "--$side-attention-heads" 8)
done
TRAINING=(
    --dropout 0.1 --attention-dropout 0.1 --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9
    --lr 0.0007 --lr-scheduler inverse_sqrt --warmup-updates 4000 --warmup-init-lr 1e-07
    --max-tokens 8000 --update-freq "$UPDATE_FREQ" --distributed-world-size "$GPUS" --fp16
    --save-interval-updates 2000 --keep-interval-updates 5 --no-epoch-checkpoints --truncate-source --max-source-positions 400 --max-target-positions 200
)
source "$COMMON/summarise.sh"
summarise "$DATA"
