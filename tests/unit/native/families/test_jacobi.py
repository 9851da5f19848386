"""Options of guesses that do not go together."""

import pytest

from fairseq_hrt.native.families import check_dictionaries
from fairseq_hrt.native.families.jacobi import require_greedy
from fairseq_hrt.native.options.values import DecodingOptions


def test_parallel_decoding_is_greedy():
    require_greedy(DecodingOptions(beam=1, jacobi_mode="frontier", jacobi_draft="ngram"))
    with pytest.raises(
        ValueError, match="--beam 5: parallel decoding is exact for greedy search only"
    ):
        require_greedy(DecodingOptions())


def test_words_of_the_source_are_copied_where_they_are_the_same():
    options = DecodingOptions(beam=1, jacobi_mode="frontier", jacobi_draft="source")
    check_dictionaries(options, ["a", "b"], ["a", "b"])
    check_dictionaries(DecodingOptions(), ["a", "b"], ["b", "a"])
    with pytest.raises(ValueError, match="--jacobi-draft source copies .*--joined-dictionary"):
        check_dictionaries(options, ["a", "b"], ["b", "a"])
