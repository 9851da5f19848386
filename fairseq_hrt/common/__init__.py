"""What two families or more need; imports no family.

Shape letters of the whole package: B sentences, N beams, R = B * N rows, q new tokens of a step, T cached tokens,
S source tokens, L vertices or stage-II positions, V vocabulary, D model width, H heads, d = D / H, K chunk size.
"""
