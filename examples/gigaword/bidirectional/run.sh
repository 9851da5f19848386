#!/usr/bin/env bash
# Summaries of Annotated English Gigaword with the bidirectional decoder, with the paper's
# hyper-parameters where it states them.
#
#   DATA=folder bash examples/gigaword/bidirectional/run.sh
#
# DATA holds {train,valid,test}.{article,summary}, one text a line, plain or gzip; it is not
# downloaded here.
# The corpus: first sentences and headlines of Gigaword as Rush et al. (2015) prepared them; most
# data libraries have it as gigaword.
# Paper (Appendix A): base model, 32,000 joint BPE merges, about 25,000 target subwords an update,
# the last five checkpoints averaged, beam 4, length penalty 0.6.
# As there IBDecoder is trained from scratch, on the summaries of the Transformer; TARGETS=raw
# trains it on raw ones ("no" under KD), START=teacher from the Transformer, which is ours. As in
# its code for translation: learning rate, Adam's epsilon 1e-8, label smoothing 0.1, the search
# (--bidirectional-scoring paper, GNMT's form of the penalty; the Transformer has fairseq's form).
# Ours: one table of embeddings for articles, summaries and output, UPDATES, a checkpoint every
# 2,000 updates, texts cut after 255 subwords, pairs with longer summaries than 128 left out of
# training, and the size of an update, which is counted in subwords of the longer side: 64,000
# are about 20,000 of headlines, an estimate.
# Reported (Table 6, ROUGE-L, with distillation): IBDecoder 35.12 (beam 4) and 35.18 (greedy), with
# SA 34.74 and 34.63, Transformer 35.03 and 34.88.
# One GPU with 24 GiB; GPUS (1) more divide the update, into batches of MAX_TOKENS (8000).
# PRECISION (float16), or bfloat16, float32. OUT (runs/gigaword), UPDATES (100000), THREADS,
# REPEATS, SEED.
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
source "$COMMON/systems.sh"
DATA=${DATA:-data/gigaword} OUT=${OUT:-$REPOSITORY/runs/gigaword}
SPEED_SENTENCES=${SPEED_SENTENCES:-1951}
source "$COMMON/summarise.sh"
settings_of_the_paper 128 8 255
summarise "$DATA"
