"""Options that a strategy would not honour are refused by name."""

import pytest

from fairseq_hrt.dag.checks import check_options
from fairseq_hrt.dag.config import DagTaskConfig
from fairseq_hrt.decoding.options import DecodingOptions

STRATEGIES = ("greedy", "lookahead", "viterbi", "joint-viterbi", "beam", "sample")
REPEATS, SEVERAL = {"lookahead", "sample"}, {"beam", "sample"}


@pytest.mark.parametrize("name, value, allowed", [
    ("nbest", 2, SEVERAL), ("temperature", 0.5, {"sample"}), ("temperature", 2.0, {"sample"}), ("no_repeat_ngram_size", 1, REPEATS),
    ("dag_no_repeat_consecutive", 1, REPEATS), ("dag_lm_path", "lm.arpa", {"beam"}), ("min_len", 2, {"beam"}), ("min_len", 1, set(STRATEGIES)),
    ("dag_decode_beta", 0.0, set(STRATEGIES) - {"beam"}), ("dag_decode_beta", 0.5, set(STRATEGIES)), ("dag_decode_beta", -0.5, set()),
    ("dag_decode_beta", float("inf"), set()), ("dag_decode_beta", float("nan"), set()), ("unkpen", float("nan"), set()), ("unkpen", -1.0, set()),
    ("unkpen", float("-inf"), set()), ("unkpen", float("inf"), set(STRATEGIES)), ("dag_candidates", 0, set()), ("dag_sample_topp", 0.0, set()),
    ("dag_sample_topp", 1.1, set()), ("dag_sample_topp", 0.5, set(STRATEGIES)), ("dag_no_repeat_consecutive", -1, set()),
])  # fmt: skip
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_options_by_strategy(name, value, allowed, strategy):
    own = name.startswith("dag_")

    def check():
        options = DecodingOptions(beam=4, **({} if own else {name: value}))
        check_options(strategy, options, DagTaskConfig(**({name: value} if own else {})))

    if strategy in allowed:
        check()
    else:
        with pytest.raises(ValueError, match=f"--{name.replace('_', '-')}"):
            check()


def test_the_unknown_word_may_be_favoured_where_it_is_allowed():
    check_options("beam", DecodingOptions(unkpen=-1.0), DagTaskConfig(dag_allow_unk=True))
