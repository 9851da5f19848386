"""Which decoding options go together."""

from ..decoding import DecodingOptions
from ..decoding_rules import check_unknown_penalty
from .config import DagTaskConfig

# Strategies that find several translations of a sentence.
SEVERAL = ("beam", "sample")


def check_options(strategy: str, options: DecodingOptions, config: DagTaskConfig) -> None:
    """Raises ValueError for options that the strategy cannot honour, naming them."""
    repeats = ("lookahead", "sample")
    problems = (
        (options.nbest > 1 and strategy not in SEVERAL, f"--nbest {options.nbest}", SEVERAL),
        (options.temperature != 1.0 and strategy != "sample", f"--temperature {options.temperature}", ("sample",)),
        (options.no_repeat_ngram_size > 0 and strategy not in repeats, "--no-repeat-ngram-size", repeats),
        (config.dag_no_repeat_consecutive > 0 and strategy not in repeats, "--dag-no-repeat-consecutive", repeats),
        (config.dag_lm_path is not None and strategy != "beam", "--dag-lm-path", ("beam",)),
        (options.min_len > 1 and strategy != "beam", f"--min-len {options.min_len}", ("beam",)),
    )
    for wrong, option, strategies in problems:
        if wrong:
            raise ValueError(f"{option} needs --dag-decode-strategy {' or '.join(strategies)}, not {strategy}")
    beta = config.dag_decode_beta
    if not (0 < beta < float("inf") or (beta == 0 and strategy != "beam")):
        raise ValueError(f"--dag-decode-beta {beta} must be a number greater than 0 (0 too, except with beam)")
    check_unknown_penalty(options.unkpen, allowed=config.dag_allow_unk)
    if config.dag_candidates < 1:
        raise ValueError(f"--dag-candidates {config.dag_candidates} must be at least 1")
    if not 0 < config.dag_sample_topp <= 1:
        raise ValueError(f"--dag-sample-topp {config.dag_sample_topp} must be greater than 0 and at most 1")
    if config.dag_no_repeat_consecutive < 0:
        raise ValueError(f"--dag-no-repeat-consecutive {config.dag_no_repeat_consecutive} must not be negative")
