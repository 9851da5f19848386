#!/usr/bin/env bash
# The main job in one command: fast translation models from raw text to a table of their quality and speed.
#
#   bash examples/quickstart.sh                                   the built-in English-German corpus
#   DATA=folder SRC=en TGT=de bash examples/quickstart.sh         raw files train/valid/test.{en,de}, plain or gzip
#
# Makes the environment on first use, then: subwords -> autoregressive teacher -> distillation -> fine-tuned from the
# teacher: HRT, chunk sizes 2 and 3 in one model; bidirectional models of 2 and 4 words a step; on raw targets with several
# translations of the same phrase: fairseq's own non-autoregressive Transformer, a directed acyclic one (DAG) and the same with
# fuzzy alignment (FA-DAT) -> every way of decoding compared, parallel decoding of the teacher (Jacobi) included. Results in $OUT (runs/quickstart): table.md, results.json, quality_speed.png. Interrupted and
# started again, it goes on where it stopped.
#
# FAMILIES: what is trained and compared besides the teacher ("hrt bidirectional dag jacobi");
# TRAIN, VALID, TEST: sentences of the built-in corpus; MODES, DAG_MODES: valid translations that a training target is drawn
# from; MERGES: subword merges; AT_UPDATES, HRT_UPDATES, IB_UPDATES, NAT_UPDATES, DAG_UPDATES, FUZZY_UPDATES; BEAM: of the distillation; RAW_PROBABILITY: share of raw targets
# in the students' training; SPEED_SENTENCES, REPEATS: of the comparison; THREADS; SEED; TUNE=1: length penalties and the graphs' beta
# are chosen on the validation set before the comparison; DRY_RUN=1 only shows the commands.
set -euo pipefail
if [ -z "${DRY_RUN:-}" ]; then bash "$(dirname "$0")/setup_env.sh"; fi
OUT=${OUT:-$(dirname "$0")/../runs/quickstart}
source "$(dirname "$0")/common/recipe.sh"
source "$COMMON/systems.sh"
KNOWN="hrt bidirectional dag jacobi"
FAMILIES=${FAMILIES-$KNOWN}
SRC=${SRC:-en} TGT=${TGT:-de} SEED=${SEED:-1}
TRAIN=${TRAIN:-20000} VALID=${VALID:-500} TEST=${TEST:-500} MODES=${MODES:-1} MERGES=${MERGES:-4000}
AT_UPDATES=${AT_UPDATES:-1100} HRT_UPDATES=${HRT_UPDATES:-1200} IB_UPDATES=${IB_UPDATES:-700}
NAT_UPDATES=${NAT_UPDATES:-500} DAG_UPDATES=${DAG_UPDATES:-600} FUZZY_UPDATES=${FUZZY_UPDATES:-200}
DAG_MODES=${DAG_MODES:-4} DAG_SCALE=${DAG_SCALE:-2}
BEAM=${BEAM:-1} RAW_PROBABILITY=${RAW_PROBABILITY:-0.5}
SPEED_SENTENCES=${SPEED_SENTENCES:-40} REPEATS=${REPEATS:-5} THREADS=${THREADS:-1}
export OUT SRC TGT MERGES BEAM DRY_RUN STAGE_CHAIN
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}

# What teacher and students share; the dimensions are those of the presets "tiny". No dropout: in the few minutes that this
# takes, nothing is learnt by heart.
TRAINING=(
    --source-lang "$SRC" --target-lang "$TGT" --share-all-embeddings --dropout 0.0
    --encoder-layers 2 --encoder-embed-dim 128 --encoder-ffn-embed-dim 512 --encoder-attention-heads 4
    --decoder-layers 2 --decoder-embed-dim 128 --decoder-ffn-embed-dim 512 --decoder-attention-heads 4
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr-scheduler polynomial_decay
    --max-tokens 1200 --required-batch-size-multiple 1 --num-workers 0 --seed "$SEED"
    --no-epoch-checkpoints --log-format simple --log-interval 50
)

chosen() { [[ " $FAMILIES " == *" $1 "* ]]; }

for family in $FAMILIES; do
    if [[ " $KNOWN " != *" $family "* ]]; then fail "FAMILIES=$FAMILIES: no family $family; there are: $KNOWN"; fi
done

make_corpus() {
    run python examples/corpus/generate.py --out "$OUT/corpus" \
        --train "$TRAIN" --valid "$VALID" --test "$TEST" --modes "$MODES" --seed "$SEED"
}

train_at() {
    run fairseq-train "$OUT/data-bin" --task translation --arch transformer "${TRAINING[@]}" \
        --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --lr 0.002 --warmup-updates "$((AT_UPDATES / 5))" \
        --total-num-update "$AT_UPDATES" --max-update "$AT_UPDATES" --save-dir "$OUT/at"
}

# The curriculum ends half of the way: what follows is trained as it will be decoded. Half of the targets are raw: the
# built-in corpus has one translation for each sentence, which a teacher of two minutes does not always find.
train_hrt() {
    run fairseq-train "$OUT/data-bin" --user-dir fairseq_hrt --task translation_hrt --arch hrt_transformer_tiny \
        "${TRAINING[@]}" --criterion hrt_loss --label-smoothing 0.1 --hrt-chunk-sizes 2,3 \
        --hrt-curriculum-steps "$((HRT_UPDATES / 2))" \
        --distilled-data "$OUT/distilled/data-bin" --raw-probability "$RAW_PROBABILITY" \
        --finetune-from-model "$OUT/at/checkpoint_best.pt" \
        --lr 0.003 --warmup-updates "$((HRT_UPDATES / 10))" \
        --total-num-update "$HRT_UPDATES" --max-update "$HRT_UPDATES" --save-dir "$OUT/hrt"
}

# Two directions, the given number of words in each of them a step.
train_bidirectional() {
    run fairseq-train "$OUT/data-bin" --user-dir fairseq_hrt --task translation_bidirectional \
        --arch bidirectional_transformer_tiny "${TRAINING[@]}" --criterion bidirectional_loss --label-smoothing 0.1 \
        --bidirectional-directions 2 --bidirectional-tokens-per-step "$1" \
        --distilled-data "$OUT/distilled/data-bin" --raw-probability "$RAW_PROBABILITY" \
        --finetune-from-model "$OUT/at/checkpoint_best.pt" \
        --lr 0.003 --warmup-updates "$((IB_UPDATES / 10))" \
        --total-num-update "$IB_UPDATES" --max-update "$IB_UPDATES" --save-dir "$OUT/bidirectional_2x$1"
}

# The same sources with other targets: one of several translations that mean the same, drawn for each sentence.
make_multimodal_corpus() {
    run python examples/corpus/generate.py --out "$OUT/multimodal/corpus" \
        --train "$TRAIN" --valid "$VALID" --test "$TEST" --modes "$DAG_MODES" --seed "$SEED"
}

train_nat() {
    run python examples/common/nat_from_at.py "$OUT/at/checkpoint_best.pt" "$OUT/nat/start.pt"
    run fairseq-train "$MULTIMODAL" --task translation_lev --arch nonautoregressive_transformer "${TRAINING[@]}" \
        --criterion nat_loss --label-smoothing 0.1 --noise full_mask --length-loss-factor 0.1 --pred-length-offset \
        --finetune-from-model "$OUT/nat/start.pt" --disable-validation \
        --lr 0.003 --warmup-updates "$((NAT_UPDATES / 10))" \
        --total-num-update "$NAT_UPDATES" --max-update "$NAT_UPDATES" --save-dir "$OUT/nat"
}

train_dag() {
    run fairseq-train "$MULTIMODAL" --user-dir fairseq_hrt --task translation_dag --arch dag_transformer_tiny \
        "${TRAINING[@]}" --criterion dag_nll_loss --dag-upsample-scale "$DAG_SCALE" \
        --dag-glance-schedule "0.5:0.1@$DAG_UPDATES" --finetune-from-model "$OUT/at/checkpoint_best.pt" --disable-validation \
        --lr 0.003 --warmup-updates "$((DAG_UPDATES / 10))" \
        --total-num-update "$DAG_UPDATES" --max-update "$DAG_UPDATES" --save-dir "$OUT/dag"
}

train_fuzzy() {
    run fairseq-train "$MULTIMODAL" --user-dir fairseq_hrt --task translation_dag --arch dag_transformer_tiny \
        "${TRAINING[@]}" --criterion dag_fuzzy_loss --dag-upsample-scale "$DAG_SCALE" \
        --finetune-from-model "$OUT/dag/checkpoint_last.pt" --disable-validation \
        --lr 0.0005 --warmup-updates "$((FUZZY_UPDATES / 10))" \
        --total-num-update "$FUZZY_UPDATES" --max-update "$FUZZY_UPDATES" --save-dir "$OUT/dag_fuzzy"
}

compare() {
    autoregressive_systems "$OUT/at/checkpoint_best.pt"
    ctranslate2_systems "$OUT/at/checkpoint_best.pt"
    native_systems "AT greedy" "$OUT/at/checkpoint_best.pt" translation_autoregressive
    if chosen hrt; then
        hrt_systems "$OUT/hrt/checkpoint_last.pt"
        native_systems "HRT k=2 (1,1)" "$OUT/hrt/checkpoint_last.pt" translation_hrt,hrt_decode_chunk=2
        native_systems "HRT k=3 (1,1)" "$OUT/hrt/checkpoint_last.pt" translation_hrt,hrt_decode_chunk=3
    fi
    if chosen bidirectional; then
        for model in "IBDecoder 2x1" "IB+SA(2) 2x2"; do
            bidirectional_systems "${model% *}" "$OUT/bidirectional_${model##* }/checkpoint_last.pt"
            native_systems "${model% *} greedy" "$OUT/bidirectional_${model##* }/checkpoint_last.pt" translation_bidirectional,max_len_a=1.5,max_len_b=10
        done
    fi
    if chosen dag; then
        nat_systems "$OUT/nat/checkpoint_last.pt"
        dag_systems DAG "$OUT/dag/checkpoint_last.pt"
        dag_systems FA-DAT "$OUT/dag_fuzzy/checkpoint_last.pt"
        native_systems "FA-DAT greedy" "$OUT/dag_fuzzy/checkpoint_last.pt" translation_dag,dag_decode_strategy=greedy
    fi
    local identical=()
    if chosen jacobi; then
        jacobi_systems "$OUT/at/checkpoint_best.pt"
        if chosen hrt; then jacobi_systems "$OUT/at/checkpoint_best.pt" hrt "$OUT/hrt/checkpoint_last.pt"; fi
        identical=(--identical-to "AT greedy")
    fi
    run python -m fairseq_hrt.cli.benchmark "$OUT/data-bin" --source-lang "$SRC" --target-lang "$TGT" \
        --references "$REFERENCES" "${VALID_TRANSLATIONS[@]}" --detokenize "moses:$TGT" \
        "${SYSTEMS[@]}" "${identical[@]}" \
        --ratio-to "AT greedy (fairseq)" --ratio-to "AT greedy" --threads "$THREADS" \
        --speed-sentences "$SPEED_SENTENCES" --repeats "$REPEATS" --examples 5 --out "$OUT"
}

if [ -n "${DATA:-}" ]; then
    RAW=$DATA
else
    RAW=$OUT/corpus
    stage corpus "$RAW" "$TRAIN $VALID $TEST modes $MODES seed $SEED" make_corpus
fi
VALID_TRANSLATIONS=()
if [ -z "${DATA:-}" ] || [ -f "$RAW/test.valid.jsonl" ]; then
    VALID_TRANSLATIONS=(--valid-translations "$RAW/test.valid.jsonl")
fi
REFERENCES=$RAW/test.$TGT
if [ -f "$REFERENCES.gz" ]; then REFERENCES=$REFERENCES.gz; fi

bash "$COMMON/prepare_text.sh" "$RAW"
STAGE_CHAIN+="text: $RAW $SRC $TGT $MERGES"$'\n'
stage teacher "$OUT/at" "$AT_UPDATES updates, seed $SEED" train_at
bash "$COMMON/distill.sh" "$OUT/at/checkpoint_best.pt"
if chosen hrt; then
    stage hrt "$OUT/hrt" "$HRT_UPDATES updates, raw $RAW_PROBABILITY, seed $SEED" train_hrt
fi
if chosen bidirectional; then
    for tokens in 1 2; do
        stage "bidirectional_2x$tokens" "$OUT/bidirectional_2x$tokens" \
            "$IB_UPDATES updates, raw $RAW_PROBABILITY, seed $SEED" train_bidirectional "$tokens"
    done
fi
MULTIMODAL=$OUT/data-bin
if chosen dag; then
    if [ -z "${DATA:-}" ]; then
        # The subwords and the dictionary of the teacher; other data have several translations of their own.
        stage multimodal "$OUT/multimodal" "modes $DAG_MODES" make_multimodal_corpus
        LIKE=$OUT OUT=$OUT/multimodal bash "$COMMON/prepare_text.sh" "$OUT/multimodal/corpus"
        MULTIMODAL=$OUT/multimodal/data-bin
    fi
    stage nat "$OUT/nat" "$NAT_UPDATES updates, seed $SEED" train_nat
    stage dag "$OUT/dag" "$DAG_UPDATES updates, scale $DAG_SCALE, seed $SEED" train_dag
    stage dag_fuzzy "$OUT/dag_fuzzy" "$FUZZY_UPDATES updates, seed $SEED" train_fuzzy
fi
stage compare "$OUT/comparison" "$FAMILIES: $SPEED_SENTENCES sentences, $REPEATS repeats, $THREADS threads${TUNE:+, tuned}" compare
say "results: $OUT/table.md, $OUT/results.json, $OUT/quality_speed.png"
