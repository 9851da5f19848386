# The systems that the recipes compare; sourced, never run. Each function adds options of fairseq_hrt.cli.benchmark to SYSTEMS.
#
#   autoregressive_systems TEACHER
#   ctranslate2_systems TEACHER                   the same teacher in CTranslate2; none where that is not installed
#   hrt_systems CHECKPOINT
#   bidirectional_systems LABEL CHECKPOINT        LABEL: IBDecoder, IB+SA(2), …
#   nat_systems CHECKPOINT                        fairseq's own nonautoregressive_transformer
#   dag_systems LABEL CHECKPOINT                  LABEL: DAG, FA-DAT
#   jacobi_systems TEACHER [FAMILY CHECKPOINT]    FAMILY: hrt, bidirectional, dag: whose drafts the teacher verifies

SYSTEMS=()

autoregressive_systems() {
    SYSTEMS+=(
        --system "name=AT beam 5 (fairseq),path=$1,task=translation,beam=5"
        --system "name=AT greedy (fairseq),path=$1,task=translation,beam=1"
        --system "name=AT beam 5,path=$1,task=translation_autoregressive,beam=5"
        --system "name=AT greedy,path=$1,task=translation_autoregressive,beam=1"
    )
}

ctranslate2_systems() {
    if ! python -c "import ctranslate2" 2>/dev/null; then return; fi
    local teacher="path=$1,engine=ctranslate2"
    SYSTEMS+=(
        --system "name=CTranslate2 beam 5,$teacher,beam=5"
        --system "name=CTranslate2 greedy,$teacher,beam=1"
        --system "name=CTranslate2 int8 beam 5,$teacher,beam=5,compute_type=int8"
        --system "name=CTranslate2 int8 greedy,$teacher,beam=1,compute_type=int8"
    )
}

hrt_systems() {
    local hrt="path=$1,task=translation_hrt"
    SYSTEMS+=(
        --system "name=HRT C_d=1,$hrt,beam=1,hrt_decode_chunk=1"
        --system "name=HRT k=2 (5,5),$hrt,beam=5,hrt_decode_chunk=2,hrt_nat_beam=5"
        --system "name=HRT k=2 (5,1),$hrt,beam=5,hrt_decode_chunk=2,hrt_nat_beam=1"
        --system "name=HRT k=2 (1,1),$hrt,beam=1,hrt_decode_chunk=2,hrt_nat_beam=1"
        --system "name=HRT k=3 (1,1),$hrt,beam=1,hrt_decode_chunk=3,hrt_nat_beam=1"
    )
}

# A model that writes several words a step does not always say </s>: one such sentence would hold up its batch until the 200 words
# of --max-len-b are full. BIDIRECTIONAL_LIMIT: another limit than that of the distilled targets (distill.sh).
bidirectional_systems() {
    local model="path=$2,task=translation_bidirectional,${BIDIRECTIONAL_LIMIT:-max_len_a=1.5,max_len_b=10}"
    SYSTEMS+=(
        --system "name=$1 beam 4,$model,beam=4"
        --system "name=$1 greedy,$model,beam=1"
    )
}

nat_systems() {
    SYSTEMS+=(
        --system "name=NAT (fairseq),path=$1,task=translation_lev,beam=1,iter_decode_max_iter=0,iter_decode_eos_penalty=0"
    )
}

dag_systems() {
    local model="path=$2,task=translation_dag"
    SYSTEMS+=(
        --system "name=$1 greedy,$model,dag_decode_strategy=greedy"
        --system "name=$1 lookahead,$model,dag_decode_strategy=lookahead"
        --system "name=$1 joint-viterbi,$model,dag_decode_strategy=joint-viterbi"
    )
}

jacobi_systems() {
    local teacher="path=$1,task=translation_jacobi,beam=1"
    if [ $# -eq 1 ]; then
        SYSTEMS+=(--system "name=AT + Jacobi,$teacher")
    else
        SYSTEMS+=(--system "name=AT + $2 drafts,$teacher,jacobi_draft=$2,jacobi_draft_path=$3,jacobi_window=${4:-8}")
    fi
}
