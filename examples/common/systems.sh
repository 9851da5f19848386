# The systems that the recipes compare; sourced, never run. Each function adds options of
# fairseq-hrt benchmark to SYSTEMS.
#
# All are PyTorch's but those that say another engine, so that their speeds compare.
#
#   autoregressive_systems TEACHER
#   autoregressive_greedy TEACHER                 its greedy search alone
#   ctranslate2_systems TEACHER                   the same teacher in CTranslate2; none where that is not installed
#   native_systems LABEL CHECKPOINT TASK[,OPTIONS]  any of these models, greedily, in the native runtime with int8 weights; none where it is not built
#   hrt_systems CHECKPOINT
#   bidirectional_systems LABEL CHECKPOINT        LABEL: IBDecoder, IB+SA(2), …
#   nat_systems CHECKPOINT                        fairseq's own nonautoregressive_transformer
#   dag_systems LABEL CHECKPOINT                  LABEL: DAG, FA-DAT
#   ctc_systems LABEL CHECKPOINT
#   jacobi_systems TEACHER [FAMILY CHECKPOINT]    FAMILY: hrt, bidirectional, dag: whose drafts the teacher verifies
#
# With TUNE=1 the length penalties, and what the length of a graph's translation depends on, are
# chosen on the validation set of $OUT/data-bin first (fairseq-hrt tune; the tables are in
# $OUT/tuned); otherwise every system has the options of its paper.

SYSTEMS=()
# Of the beam searches of autoregressive and bidirectional systems.
AT_BEAM=5 AT_OPTIONS="" BIDIRECTIONAL_OPTIONS=""
TUNE=${TUNE:-}
switches TUNE
if [ -z "$TUNE" ]; then unused "without TUNE=1" LENGTH_PENALTIES DAG_BETAS DAG_LENGTH_BETAS; fi
LENGTH_PENALTIES=${LENGTH_PENALTIES:-0.6,0.8,1.0,1.2,1.4}
DAG_BETAS=${DAG_BETAS:-0.5,0.75,1.0,1.5,2.0} DAG_LENGTH_BETAS=${DAG_LENGTH_BETAS:-0.8,1.0,1.2,1.4,1.7,2.0}

# tuned NAME SYSTEM GRID: with TUNE=1 sets TUNED to the best setting as it is appended to SYSTEM
# (",OPTION=VALUE"), else to nothing.
TUNED=""
tuned() {
    TUNED=""
    if [ -z "$TUNE" ]; then return; fi
    local folder=$OUT/tuned/${1//[^A-Za-z0-9]/_}
    if [ -z "$DRY_RUN" ]; then mkdir -p "$folder"; fi
    run_to "$folder/best" fairseq-hrt tune "$OUT/data-bin" --source-lang "$SRC" --target-lang "$TGT" --detokenize "moses:$TGT" \
        --system "name=$1,$2" --grid "$3" --threads "${THREADS:-1}" --out "$folder" --print-best
    if [ -z "$DRY_RUN" ]; then TUNED=",$(cat "$folder/best")"; fi
}

ctranslate2_is_installed() { python -c "import ctranslate2" 2>/dev/null; }

native_is_built() {
    if [ -z "${NATIVE:-}" ]; then
        NATIVE=no
        if python -c "from fairseq_hrt.native.runtime.library import load_library; load_library()" 2>/dev/null; then NATIVE=yes; fi
    fi
    [ "$NATIVE" = yes ]
}

autoregressive_greedy() {
    SYSTEMS+=(
        --system "name=AT greedy (fairseq),path=$1,task=translation,beam=1"
        --system "name=AT greedy,path=$1,task=translation_autoregressive,engine=torch,beam=1"
    )
}

autoregressive_systems() {
    local beam=$AT_BEAM ours="path=$1,task=translation_autoregressive,engine=torch"
    tuned "AT beam $beam" "$ours,beam=$beam$AT_OPTIONS" "lenpen=$LENGTH_PENALTIES"
    SYSTEMS+=(
        --system "name=AT beam $beam (fairseq),path=$1,task=translation,beam=$beam$AT_OPTIONS$TUNED"
        --system "name=AT greedy (fairseq),path=$1,task=translation,beam=1"
        --system "name=AT beam $beam,$ours,beam=$beam$AT_OPTIONS$TUNED"
        --system "name=AT greedy,$ours,beam=1"
    )
}

ctranslate2_systems() {
    if ! ctranslate2_is_installed; then return; fi
    local teacher="path=$1,engine=ctranslate2"
    SYSTEMS+=(
        --system "name=CTranslate2 beam 5,$teacher,beam=5"
        --system "name=CTranslate2 greedy,$teacher,beam=1"
        --system "name=CTranslate2 int8 beam 5,$teacher,beam=5,compute_type=int8"
        --system "name=CTranslate2 int8 greedy,$teacher,beam=1,compute_type=int8"
    )
}

native_systems() {
    if ! native_is_built; then return; fi
    SYSTEMS+=(--system "name=native $1,path=$2,engine=native,weights=int8,beam=1,task=$3")
}

hrt_systems() {
    local hrt="path=$1,task=translation_hrt,engine=torch" wide
    tuned "HRT (5,5)" "$hrt,beam=5,hrt_decode_chunk=2,hrt_nat_beam=5" "lenpen=$LENGTH_PENALTIES"
    wide=$TUNED
    tuned "HRT (5,1)" "$hrt,beam=5,hrt_decode_chunk=2,hrt_nat_beam=1" "lenpen=$LENGTH_PENALTIES"
    SYSTEMS+=(
        --system "name=HRT C_d=1,$hrt,beam=1,hrt_decode_chunk=1"
        --system "name=HRT k=2 (5,5),$hrt,beam=5,hrt_decode_chunk=2,hrt_nat_beam=5$wide"
        --system "name=HRT k=2 (5,1),$hrt,beam=5,hrt_decode_chunk=2,hrt_nat_beam=1$TUNED"
        --system "name=HRT k=2 (1,1),$hrt,beam=1,hrt_decode_chunk=2,hrt_nat_beam=1"
        --system "name=HRT k=3 (1,1),$hrt,beam=1,hrt_decode_chunk=3,hrt_nat_beam=1"
    )
}

# A model that writes several words a step does not always say </s>: one such sentence would hold up
# its batch until the 200 words of --max-len-b are full. BIDIRECTIONAL_LIMIT: another limit than
# that of the distilled targets (distill.sh).
bidirectional_systems() {
    local model="path=$2,task=translation_bidirectional,engine=torch,${BIDIRECTIONAL_LIMIT:-max_len_a=1.5,max_len_b=10}"
    tuned "$1 beam 4" "$model,beam=4$BIDIRECTIONAL_OPTIONS" "lenpen=$LENGTH_PENALTIES"
    SYSTEMS+=(
        --system "name=$1 beam 4,$model,beam=4$BIDIRECTIONAL_OPTIONS$TUNED"
        --system "name=$1 greedy,$model,beam=1"
    )
}

nat_systems() {
    SYSTEMS+=(
        --system "name=NAT (fairseq),path=$1,task=translation_lev,beam=1,iter_decode_max_iter=0,iter_decode_eos_penalty=0"
    )
}

dag_systems() {
    local model="path=$2,task=translation_dag,engine=torch" lookahead
    tuned "$1 lookahead" "$model,dag_decode_strategy=lookahead" "dag_decode_beta=$DAG_BETAS"
    lookahead=$TUNED
    tuned "$1 joint-viterbi" "$model,dag_decode_strategy=joint-viterbi" "dag_decode_length_beta=$DAG_LENGTH_BETAS"
    SYSTEMS+=(
        --system "name=$1 greedy,$model,dag_decode_strategy=greedy"
        --system "name=$1 lookahead,$model,dag_decode_strategy=lookahead$lookahead"
        --system "name=$1 joint-viterbi,$model,dag_decode_strategy=joint-viterbi$TUNED"
    )
}

ctc_systems() {
    local model="path=$2,task=translation_ctc,engine=torch"
    tuned "$1 beam 5" "$model,beam=5" "lenpen=$LENGTH_PENALTIES"
    SYSTEMS+=(
        --system "name=$1 greedy,$model,beam=1"
        --system "name=$1 beam 5,$model,beam=5$TUNED"
    )
}

jacobi_systems() {
    local teacher="path=$1,task=translation_jacobi,engine=torch,beam=1"
    if [ $# -eq 1 ]; then
        SYSTEMS+=(--system "name=AT + Jacobi,$teacher")
    else
        SYSTEMS+=(--system "name=AT + $2 drafts,$teacher,jacobi_draft=$2,jacobi_draft_path=$3,jacobi_window=${4:-8}")
    fi
}
