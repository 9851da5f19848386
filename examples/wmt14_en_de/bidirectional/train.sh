#!/usr/bin/env bash
# IBDecoder on WMT14 English-German with the hyper-parameters of the paper and of the code released with it.
#
#   DATA=data-bin/wmt14_en_de bash examples/wmt14_en_de/bidirectional/train.sh              IBDecoder, from scratch
#   DATA=... DISTILLED=data-bin/wmt14_en_de_distilled bash .../train.sh                      with a teacher's targets
#   DATA=... DIRECTIONS=2 TOKENS=2 bash .../train.sh                                         IBDecoder + SA
#   DATA=... SRC=de TGT=en bash .../train.sh                                                 German-English
#
# DATA: binarised with a joint vocabulary of about 32,000 BPE merges (../prepare.sh). DISTILLED:
# the same sources with the targets of a teacher (../../common/distill.sh).
# Paper (Appendix A): base model, dropout 0.1 on residual connections and attention weights, Adam (0.9, 0.98), 4,000 warm-up
# updates, about 25,000 target subwords an update, the last five checkpoints averaged.
# Released code (README of bzhangGo/zero, branch interleaved_bidirectional_transformer): 300,000 updates, label smoothing
# 0.1, a checkpoint every 5,000 updates.
# GPUS (1): MAX_TOKENS * UPDATE_FREQ * GPUS is kept at 25,000. OUT (runs/wmt14_en_de/bidirectional): model/checkpoint_*.pt. Continues where it was stopped.
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
DATA=${DATA:-data-bin/wmt14_en_de} SRC=${SRC:-en} TGT=${TGT:-de} DISTILLED=${DISTILLED:-} DIRECTIONS=${DIRECTIONS:-2} TOKENS=${TOKENS:-1}
GPUS=${GPUS:-1} SEED=${SEED:-1} KEEP=1
OUT=${OUT:-runs/wmt14_${SRC}_${TGT}/bidirectional}
case $GPUS in
1) MAX_TOKENS=6250 UPDATE_FREQ=4 ;;
2) MAX_TOKENS=6250 UPDATE_FREQ=2 ;;
4) MAX_TOKENS=6250 UPDATE_FREQ=1 ;;
8) MAX_TOKENS=3125 UPDATE_FREQ=1 ;;
*) fail "GPUS=$GPUS: give 1, 2, 4 or 8" ;;
esac
TARGETS=() TEXT=$(contents_of_data "$DATA" train valid)
if [ -n "$DISTILLED" ]; then
    TARGETS=(--distilled-data "$DISTILLED")
    TEXT+=" $(contents_of_data "$DISTILLED" train)"
fi

train() {
    run fairseq-train "$DATA" --user-dir fairseq_hrt --task translation_bidirectional --source-lang "$SRC" --target-lang "$TGT" \
        "${TARGETS[@]}" --arch bidirectional_transformer_wmt_en_de --share-all-embeddings \
        --bidirectional-directions "$DIRECTIONS" --bidirectional-tokens-per-step "$TOKENS" \
        --dropout 0.1 --attention-dropout 0.1 --criterion bidirectional_loss --label-smoothing 0.1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9 \
        --lr-scheduler inverse_sqrt --lr 0.0007 --warmup-updates 4000 --warmup-init-lr 1e-07 \
        --max-tokens "$MAX_TOKENS" --update-freq "$UPDATE_FREQ" --distributed-world-size "$GPUS" --fp16 \
        --max-update 300000 --save-interval-updates 5000 --keep-interval-updates 5 --no-epoch-checkpoints \
        --seed "$SEED" --save-dir "$OUT/model" --log-format simple --log-interval 100 "$@"
}

stage train "$OUT/model" "$DATA $TEXT, $SRC-$TGT, distilled ${DISTILLED:-no}, $DIRECTIONS x $TOKENS, seed $SEED${*:+, $*}" train "$@"
