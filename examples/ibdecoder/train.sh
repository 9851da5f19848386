#!/usr/bin/env bash
# The models of the paper on IBDecoder, on any of its five pairs (pairs.sh).
#
#   SRC=en TGT=ru DATA=runs/wmt18_en_ru/data-bin bash examples/ibdecoder/train.sh      IBDecoder on raw targets
#   KD=1 bash examples/ibdecoder/train.sh                on a teacher's, which is trained and translates first ("+KD")
#   TOKENS=2 bash …/train.sh                             IBDecoder + SA; DIRECTIONS=4 IMDecoder; DIRECTIONS=1 the Transformer (Table 1)
#   LAYERS=2 bash …/train.sh                             a student of two decoder layers (Table 4); with KD=1 on the targets of six
#   bash …/train.sh --bidirectional-vanilla-mask         the ablations of Table 2, any further option of fairseq-train; with an OUT of its own
#
# DATA: prepare.sh. DISTILLED: instead of KD=1, the same sources with the targets of another teacher.
# Paper (Appendix A): base model, dropout 0.1 on residual connections and attention weights, Adam (0.9, 0.98), 4,000 warm-up
# updates, about 25,000 target subwords an update, the last five checkpoints averaged; every model trained from scratch.
# Released code (README of bzhangGo/zero, branch interleaved_bidirectional_transformer): 300,000 updates, label smoothing
# 0.1, a checkpoint every 5,000 updates, the learning rate of Vaswani et al. (2017), at most 0.0007; Adam's epsilon 1e-8; the output layer
# shares the target embeddings, not the source's (--share-all-embeddings as a further option shares them). It also drops activations of the
# feed-forward layers (0.1), which the paper does not name: --activation-dropout 0.1. Ours: the teacher's beam, 4 as in its tests,
# and as many updates for every pair; the README gives them for English-German. The loss is a mean over subwords, theirs over sentences.
# GPUS (1): 1, 2, 4 or 8; MAX_TOKENS of a GPU's batch (6250), the tokens of an update stay the same. PRECISION (float16), or bfloat16, float32.
# UPDATES (300000), SEED (1). OUT (runs/wmt14_en_de/bidirectional_en_de): a folder for each
# model, 2x1, 2x1_kd, 2x2_2layers, …, with averaged.pt; teacher/averaged.pt and distilled/data-bin. Continues where it was stopped.
set -euo pipefail
source "$(dirname "$0")/../common/recipe.sh"
source examples/ibdecoder/pairs.sh
source examples/ibdecoder/models.sh
DATA=${DATA:-data-bin/$CORPUS} GPUS=${GPUS:-1} UPDATES=${UPDATES:-300000} SEED=${SEED:-1} KEEP=1
choose_update 25000 6250
if ! [[ $UPDATES =~ ^[0-9]+$ ]] || [ "$UPDATES" -lt 25000 ]; then
    fail "UPDATES=$UPDATES: give 25000 or more; five checkpoints are averaged, one of each 5,000 updates"
fi

# model FOLDER DIRECTIONS TOKENS LAYERS OPTIONS…: trained and averaged
model() {
    run fairseq-train "$DATA" --user-dir fairseq_hrt --task translation_bidirectional --source-lang "$SRC" --target-lang "$TGT" \
        --arch bidirectional_transformer_wmt_en_de --share-decoder-input-output-embed --decoder-layers "$4" \
        --bidirectional-directions "$2" --bidirectional-tokens-per-step "$3" \
        --dropout 0.1 --attention-dropout 0.1 --criterion bidirectional_loss --label-smoothing 0.1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-8 \
        --lr-scheduler inverse_sqrt --lr 0.0007 --warmup-updates 4000 --warmup-init-lr 1e-07 \
        "${ON_GPUS[@]}" --update-freq "$UPDATE_FREQ" \
        --max-update "$UPDATES" --save-interval-updates 5000 --keep-interval-updates 5 --no-epoch-checkpoints \
        --seed "$SEED" --save-dir "$1" --log-format simple --log-interval 100 "${@:5}"
    run fairseq-hrt average --folder "$1" --last 5 --output "$1/averaged.pt"
}

# Started by torchrun or SLURM this command shares the work out to several GPUs.
distil() {
    run fairseq-hrt distill "$DATA" --source-lang "$SRC" --target-lang "$TGT" --out "$OUT/distilled" \
        --system "name=teacher,path=$OUT/teacher/averaged.pt,task=translation_bidirectional,beam=4$IN_PRECISION"
}

TEXT=$(contents_of_data "$DATA" train valid) TARGETS=()
SETTINGS="$DATA $TEXT, $SRC-$TGT, $UPDATES updates, seed $SEED, embeddings as released$OTHER_PRECISION"
if [ -n "$KD" ]; then
    stage teacher "$OUT/teacher" "$SETTINGS" model "$OUT/teacher" 1 1 6
    stage distil "$OUT/distilled" "beam 4" distil
    TARGETS=(--distilled-data "$OUT/distilled/data-bin")
elif [ -n "$DISTILLED" ]; then
    TARGETS=(--distilled-data "$DISTILLED")
    SETTINGS+=", $DISTILLED $(contents_of_data "$DISTILLED" train)"
fi
stage "$MODEL" "$OUT/$MODEL" "$SETTINGS, $DIRECTIONS x $TOKENS, $LAYERS layers${*:+, $*}" \
    model "$OUT/$MODEL" "$DIRECTIONS" "$TOKENS" "$LAYERS" "${TARGETS[@]}" "$@"
