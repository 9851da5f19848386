# The systems that the recipes compare; sourced, never run. Each function adds options of fairseq_hrt.cli.benchmark to SYSTEMS.
#
#   autoregressive_systems TEACHER
#   hrt_systems CHECKPOINT
#   bidirectional_systems LABEL CHECKPOINT        LABEL: IBDecoder, IB+SA(2), …

SYSTEMS=()

autoregressive_systems() {
    SYSTEMS+=(
        --system "name=AT beam 5 (fairseq),path=$1,task=translation,beam=5"
        --system "name=AT greedy (fairseq),path=$1,task=translation,beam=1"
        --system "name=AT beam 5,path=$1,task=translation_autoregressive,beam=5"
        --system "name=AT greedy,path=$1,task=translation_autoregressive,beam=1"
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

bidirectional_systems() {
    local model="path=$2,task=translation_bidirectional"
    SYSTEMS+=(
        --system "name=$1 beam 4,$model,beam=4"
        --system "name=$1 greedy,$model,beam=1"
    )
}
