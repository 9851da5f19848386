#!/usr/bin/env bash
# The RoyalFlush system of the WMT22 efficiency task: HRT with 12 encoder layers and one decoder
# layer, on a teacher's translations.
#
#   DATA=data-bin/wmt22_en_de bash examples/wmt22_en_de/hrt/train.sh
#   DATA=... GPUS=8 ENCODER_LAYERS=20 CHUNK_SIZES=3 bash examples/wmt22_en_de/hrt/train.sh
#   DATA=... TEACHERS=a.pt:b.pt:c.pt:d.pt bash examples/wmt22_en_de/hrt/train.sh       an ensemble translates DATA first
#
# DATA: the sources and the translations of the task's teacher (four big Transformers; 320 million
# pairs are published with the task), segmented with its sentencepiece model and binarised with one
# dictionary.
# TEACHERS: instead of the published translations those of an ensemble, as that teacher's were made;
# its models have the dictionary of DATA, whose own targets then serve for validation alone. BEAM
# (5) of the ensemble, which the paper does not state.
# Paper (RoyalFlush, sections 3 and 4): width 512, inner width 2,048, 8 heads; first the
# autoregressive model of the same size, 300,000 updates from scratch, then HRT from it, 300,000
# updates on the same targets (no raw ones); at most 200 tokens, longer texts cut; everything else
# as Wang et al. (2019). Their released code (deep pre-norm encoders): Adam (0.9, 0.997), learning
# rate 0.002, 16,000 warm-up updates, label smoothing 0.1, no clipping, 65,536 tokens an update.
# Ours: relative positions (window 16, HRT, section 5), dropout 0.1; the autoregressive model leaves
# pairs with longer targets out; the last five checkpoints are averaged.
# ENCODER_LAYERS (12): 6, 12 or 20; CHUNK_SIZES (2): 2, 3 or 4. GPUS (1): 1, 2, 4 or 8;
# MAX_TOKENS of a GPU's batch (4096); the tokens of an update stay the same. PRECISION (float16),
# or bfloat16, float32. UPDATES (300000), SEED (1).
# OUT (runs/wmt22_en_de/hrt): at/averaged.pt and hrt/averaged.pt. Continues where it was stopped.
set -euo pipefail
source "$(dirname "$0")/../../common/recipe.sh"
pairs en-de
DATA=${DATA:-data-bin/wmt22_en_de} GPUS=${GPUS:-1} SEED=${SEED:-1} UPDATES=${UPDATES:-300000} KEEP=1
ENCODER_LAYERS=${ENCODER_LAYERS:-12} CHUNK_SIZES=${CHUNK_SIZES:-2} TEACHERS=${TEACHERS:-} BEAM=${BEAM:-5}
OUT=${OUT:-runs/wmt22_en_de/hrt}
choose_update 65536 4096
case $ENCODER_LAYERS in
6 | 12 | 20) ;;
*) fail "ENCODER_LAYERS=$ENCODER_LAYERS: give 6, 12 or 20" ;;
esac
if ! [[ $UPDATES =~ ^[0-9]+$ ]] || [ "$UPDATES" -lt 25000 ]; then
    fail "UPDATES=$UPDATES: give 25000 or more; five checkpoints are averaged, one of each 5,000 updates"
fi
if [ -z "$TEACHERS" ]; then unused "without TEACHERS" BEAM; fi
TEXT=$(contents_of_data "$DATA" train valid) TRAINED=$DATA
if [ -n "$TEACHERS" ]; then
    case $DATA in *:*) fail "DATA=$DATA: an ensemble translates one folder, not several" ;; esac
    TRAINED=$OUT/distilled/data-bin TEXT+=", translated by $TEACHERS $(contents_of_models "$TEACHERS")"
fi
SHARED=(
    "$TRAINED" --user-dir fairseq_hrt --source-lang "$SRC" --target-lang "$TGT" --share-all-embeddings --dropout 0.1 --label-smoothing 0.1
    --optimizer adam --adam-betas '(0.9, 0.997)' --clip-norm 0.0
    --lr-scheduler inverse_sqrt --lr 0.002 --warmup-updates 16000 --warmup-init-lr 1e-07 --max-update "$UPDATES"
    "${ON_GPUS[@]}" --update-freq "$UPDATE_FREQ" --truncate-source
    --max-source-positions 200 --max-target-positions 200
    --save-interval-updates 5000 --keep-interval-updates 5 --no-epoch-checkpoints --seed "$SEED" --log-format simple --log-interval 100
)

# Started by torchrun or SLURM this command shares the work out to several GPUs.
distil() {
    run fairseq-hrt distill "$DATA" --source-lang "$SRC" --target-lang "$TGT" --out "$OUT/distilled" \
        --system "name=ensemble,path=$TEACHERS,task=translation_autoregressive,beam=$BEAM$IN_PRECISION"
}

# Fairseq's Transformer in the shape of the student.
teacher() {
    run fairseq-train "${SHARED[@]}" --task translation --arch transformer_wmt_en_de --criterion autoregressive_loss \
        --encoder-layers "$ENCODER_LAYERS" --decoder-layers 1 --encoder-normalize-before --decoder-normalize-before \
        --skip-invalid-size-inputs-valid-test --save-dir "$OUT/at"
    run fairseq-hrt average --folder "$OUT/at" --last 5 --output "$OUT/at/averaged.pt"
}

student() {
    run fairseq-train "${SHARED[@]}" --task translation_hrt --arch "hrt_transformer_e${ENCODER_LAYERS}d1" --criterion hrt_loss \
        --hrt-truncate-target --hrt-chunk-sizes "$CHUNK_SIZES" --hrt-relative-window 16 \
        --finetune-from-model "$OUT/at/averaged.pt" --save-dir "$OUT/hrt"
    run fairseq-hrt average --folder "$OUT/hrt" --last 5 --output "$OUT/hrt/averaged.pt"
}

if [ -n "$TEACHERS" ]; then stage distil "$OUT/distilled" "$DATA $TEXT, beam $BEAM$OTHER_PRECISION" distil; fi
stage teacher "$OUT/at" "$DATA $TEXT, $ENCODER_LAYERS encoder layers, $UPDATES updates, seed $SEED$OTHER_PRECISION" teacher
stage student "$OUT/hrt" "chunks $CHUNK_SIZES" student
