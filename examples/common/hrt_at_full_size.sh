# Shared by the recipes for HRT at base size; sourced, never run. They set DATA, SRC, TGT, EMBEDDINGS, DROPOUT, UPDATES and OUT.
#
#   $OUT/at         autoregressive teacher, its last five checkpoints averaged
#   $OUT/distilled  its translations of the training data
#   $OUT/hrt        HRT fine-tuned from it, its last five checkpoints averaged
#
# Table 5's ablations: FINETUNE=0 trains from scratch, RELATIVE=0 without relative positions, RAW=0 without raw
# targets, CURRICULUM=0 with chunks from the first update on. MODEL=name trains such a student in $OUT/name, beside others of the same teacher.
# STUDENT=mask_predict: instead of HRT Mask-Predict with what HRT is trained with, on the same teacher and targets, in $OUT/mask_predict (HRT,
# Appendix E, on En-De: with all three after 100,000 updates as good as the released model after 300,000, and with more updates 0.61 BLEU better).
# FINETUNE, RELATIVE and RAW as above, STUDENT_UPDATES (100000). Paper: no more than that; the rest is as for HRT here, model and loss are fairseq's.
#
# ENCODER_LAYERS (6): 20 trains both with 20 + 6 layers and, as in the paper, the hyper-parameters of Wang et al. (2019): pre-norm; in their
# released code Adam (0.9, 0.997), learning rate 0.002, 16,000 warm-up updates, no clipping, 65,536 tokens an update.

GPUS=${GPUS:-1} SEED=${SEED:-1} KEEP=1 RAW=${RAW:-0.5} CHUNK_SIZES=${CHUNK_SIZES:-2} ENCODER_LAYERS=${ENCODER_LAYERS:-6}
STUDENT=${STUDENT:-hrt} MODEL=${MODEL:-${STUDENT:-hrt}} FINETUNE=${FINETUNE:-1} RELATIVE=${RELATIVE:-16} CURRICULUM=${CURRICULUM:-1} STUDENT_UPDATES=${STUDENT_UPDATES:-100000}
case $ENCODER_LAYERS in
6) OPTIMISATION=(--adam-betas '(0.9, 0.98)' --adam-eps 1e-9 --lr 0.0007 --warmup-updates 4000) DEEP="" UPDATE=(25000 6250) ;;
20)
    OPTIMISATION=(--adam-betas '(0.9, 0.997)' --lr 0.002 --warmup-updates 16000 --clip-norm 0.0)
    OPTIMISATION+=(--encoder-layers 20 --encoder-normalize-before --decoder-normalize-before)
    DEEP=", 20 encoder layers" UPDATE=(65536 4096)
    ;;
*) fail "ENCODER_LAYERS=$ENCODER_LAYERS: give 6 or 20" ;;
esac
choose_update "${UPDATE[@]}"
case $STUDENT-$FINETUNE-$CURRICULUM in
hrt-[01]-[01]) unused "with STUDENT=hrt" STUDENT_UPDATES ;;
mask_predict-[01]-1) unused "with STUDENT=mask_predict" CHUNK_SIZES ;;
*) fail "STUDENT=$STUDENT FINETUNE=$FINETUNE CURRICULUM=$CURRICULUM: give hrt or mask_predict, and 1 or 0; a curriculum is of hrt" ;;
esac
case $MODEL in
at | distilled | teacher | distil | */*) fail "MODEL=$MODEL: give another name; it is the student's folder in $OUT" ;;
esac
for name in UPDATES STUDENT_UPDATES; do
    if ! [[ ${!name} =~ ^[0-9]+$ ]] || [ "${!name}" -lt 25000 ]; then
        fail "$name=${!name}: give 25000 or more; five checkpoints are averaged, one of each 5,000 updates"
    fi
done
SHARED=(
    "$DATA" --user-dir fairseq_hrt --source-lang "$SRC" --target-lang "$TGT" "$EMBEDDINGS" --dropout "$DROPOUT" --label-smoothing 0.1
    --optimizer adam "${OPTIMISATION[@]}" --lr-scheduler inverse_sqrt --warmup-init-lr 1e-07 --max-update "$UPDATES"
    "${ON_GPUS[@]}" --update-freq "$UPDATE_FREQ"
    --save-interval-updates 5000 --keep-interval-updates 5 --no-epoch-checkpoints --seed "$SEED" --log-format simple --log-interval 100
)

teacher() {
    run fairseq-train "${SHARED[@]}" --task translation --arch transformer_wmt_en_de --criterion autoregressive_loss --save-dir "$OUT/at"
    run fairseq-hrt average --folder "$OUT/at" --last 5 --output "$OUT/at/averaged.pt"
}

# Started by torchrun or SLURM this command shares the work out to several GPUs.
distil() {
    run fairseq-hrt distill "$DATA" --source-lang "$SRC" --target-lang "$TGT" --out "$OUT/distilled" \
        --system "name=teacher,path=$OUT/at/averaged.pt,task=translation_autoregressive,beam=5$IN_PRECISION"
}

START=() CHANGED=""
if [ "$FINETUNE" = 1 ]; then START=(--finetune-from-model "$OUT/at/averaged.pt"); else CHANGED+=", from scratch"; fi
if [ "$RELATIVE" != 16 ]; then CHANGED+=", window $RELATIVE"; fi
if [ "$CURRICULUM" = 0 ]; then CHANGED+=", no curriculum"; fi

student() {
    local curriculum=()
    if [ "$CURRICULUM" = 0 ]; then curriculum=(--hrt-curriculum-power 0); fi
    run fairseq-train "${SHARED[@]}" --task translation_hrt --arch hrt_transformer_wmt_en_de --criterion hrt_loss \
        --distilled-data "$OUT/distilled/data-bin" --raw-probability "$RAW" --hrt-chunk-sizes "$CHUNK_SIZES" --hrt-relative-window "$RELATIVE" \
        "${curriculum[@]}" "${START[@]}" --save-dir "$OUT/$MODEL"
    run fairseq-hrt average --folder "$OUT/$MODEL" --last 5 --output "$OUT/$MODEL/averaged.pt"
}

mask_predict() {
    run fairseq-train "${SHARED[@]}" --task translation_mask_predict --arch mask_predict_transformer --criterion nat_loss \
        --distilled-data "$OUT/distilled/data-bin" --raw-probability "$RAW" --hrt-relative-window "$RELATIVE" "${START[@]}" \
        --max-update "$STUDENT_UPDATES" --save-dir "$OUT/$MODEL"
    run fairseq-hrt average --folder "$OUT/$MODEL" --last 5 --output "$OUT/$MODEL/averaged.pt"
}

TEXT=$(contents_of_data "$DATA" train valid)
stage teacher "$OUT/at" "$DATA $TEXT, $SRC-$TGT, dropout $DROPOUT, $UPDATES updates, seed $SEED$DEEP$OTHER_PRECISION" teacher
stage distil "$OUT/distilled" "beam 5" distil
STAGE=$MODEL
if [ "$STAGE" = hrt ]; then STAGE=student; fi
if [ "$STUDENT" = hrt ]; then
    stage "$STAGE" "$OUT/$MODEL" "chunks $CHUNK_SIZES, raw $RAW$CHANGED" student
else
    stage "$STAGE" "$OUT/$MODEL" "raw $RAW, $STUDENT_UPDATES updates$CHANGED" mask_predict
fi
