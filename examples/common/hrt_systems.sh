# The systems that the recipes compare; sourced, never run.
#
#   hrt_systems TEACHER HRT      sets SYSTEMS to the options of fairseq_hrt.cli.benchmark for two checkpoints

hrt_systems() {
    local at=$1 hrt="path=$2,task=translation_hrt"
    SYSTEMS=(
        --system "name=AT beam 5 (fairseq),path=$at,task=translation,beam=5"
        --system "name=AT greedy (fairseq),path=$at,task=translation,beam=1"
        --system "name=AT beam 5,path=$at,task=translation_autoregressive,beam=5"
        --system "name=AT greedy,path=$at,task=translation_autoregressive,beam=1"
        --system "name=HRT C_d=1,$hrt,beam=1,hrt_decode_chunk=1"
        --system "name=HRT k=2 (5,5),$hrt,beam=5,hrt_decode_chunk=2,hrt_nat_beam=5"
        --system "name=HRT k=2 (5,1),$hrt,beam=5,hrt_decode_chunk=2,hrt_nat_beam=1"
        --system "name=HRT k=2 (1,1),$hrt,beam=1,hrt_decode_chunk=2,hrt_nat_beam=1"
        --system "name=HRT k=3 (1,1),$hrt,beam=1,hrt_decode_chunk=3,hrt_nat_beam=1"
    )
}
