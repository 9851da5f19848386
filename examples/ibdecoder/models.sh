# Which model the recipes beside it are about; sourced, never run. MODEL is its folder in OUT, from DIRECTIONS, TOKENS, LAYERS, and KD or DISTILLED.

DIRECTIONS=${DIRECTIONS:-2} TOKENS=${TOKENS:-1} LAYERS=${LAYERS:-6} KD=${KD:-} DISTILLED=${DISTILLED:-}
switches KD
if [ -n "$KD" ] && [ -n "$DISTILLED" ]; then fail "KD=1 makes targets, DISTILLED=$DISTILLED has some: leave one of them out"; fi
OUT=${OUT:-runs/$CORPUS/bidirectional_${SRC}_$TGT}
MODEL=${DIRECTIONS}x${TOKENS}
if [ "$LAYERS" != 6 ]; then MODEL+=_${LAYERS}layers; fi
if [ -n "$KD$DISTILLED" ]; then MODEL+=_kd; fi
