# The pairs of the paper on IBDecoder; sourced by the recipes beside it, never run. From SRC and TGT, either way round:
#
#   CORPUS           name of the prepared data and of the results: the corpus, then the languages as the paper has them
#   DEFAULT_MERGES   joint BPE merges (Appendix A); 0: the corpus comes in subwords
#
# pair    corpus                  merges
# en-de   WMT14                   32,000
# en-fr   WMT14                   32,000
# ro-en   WMT16                   32,000
# en-ru   WMT18                   48,000
# en-ja   WAT17, Small-NMT task   as given

SRC=${SRC:-en} TGT=${TGT:-de}
case $SRC-$TGT in
en-de | de-en) CORPUS=wmt14_en_de DEFAULT_MERGES=32000 ;;
en-fr | fr-en) CORPUS=wmt14_en_fr DEFAULT_MERGES=32000 ;;
ro-en | en-ro) CORPUS=wmt16_ro_en DEFAULT_MERGES=32000 ;;
en-ru | ru-en) CORPUS=wmt18_en_ru DEFAULT_MERGES=48000 ;;
en-ja | ja-en) CORPUS=wat17_en_ja DEFAULT_MERGES=0 ;;
*) fail "SRC=$SRC TGT=$TGT: give en-de, en-fr, ro-en, en-ru or en-ja, either way round" ;;
esac
