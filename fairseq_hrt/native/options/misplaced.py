"""Which of fairseq's options belong to decoding, and names that do not, though another command or
call has them. Standard library only."""

from typing import Any, Dict, Mapping, Tuple

from .schema import CALLER, SCHEMA

# {name: what to give instead (on the command line, in Python), as it follows "give" in a message};
# empty texts: leave the option out.
MISPLACED: Dict[str, Tuple[str, str]] = {
    **dict.fromkeys(
        ("batch_size", "max_sentences", "max_tokens"),
        ("--batch-size, to serve --max-batch", "batch_size to the call"),
    ),
    **dict.fromkeys(
        ("data", "path"), ("the folder as an argument", "the folder to from_pretrained")
    ),
    "details": ("--json", "it to translate"),
    "device": ("--device", "it to from_pretrained"),
    "engine": ("--engine", "it to from_pretrained"),
    "graphs": ("it to fairseq-hrt graph", "the lines to graphs"),
    "scores": ("--json", "details=True to translate"),
    "static_weights": ("", ""),
    "glossary": ("--glossary", "it to from_pretrained or translate"),
    "threads": ("--threads", "it to from_pretrained"),
    "use_shortlist": ("--shortlist", "it to from_pretrained"),
    # The bundle decides it, or it changes nothing.
    **dict.fromkeys(
        "bpe gen_subset log_format log_interval num_workers post_process print_step quiet"
        " remove_bpe required_batch_size_multiple results_path retain_iter_history"
        " skip_invalid_size_inputs_valid_test source_lang target_lang tokenizer weights".split(),
        ("", ""),
    ),
}
# Options that change what a loaded model translates. The other hundreds of fairseq's commands are
# for trainings, for reading data, or for what the commands print.
DECODING = frozenset(
    (
        *(name for name, option in SCHEMA.items() if option.origin != CALLER),
        *"""
        bf16 cpu diverse_beam_groups diverse_beam_strength diversity_rate fp16
        iter_decode_eos_penalty iter_decode_force_max_iter iter_decode_max_iter
        iter_decode_with_beam iter_decode_with_external_reranker left_pad_source match_source_len
        max_source_positions memory_efficient_bf16 memory_efficient_fp16 model_overrides
        replace_unk retain_dropout retain_dropout_modules
        sampling sampling_topk sampling_topp score_reference seed task user_dir
        """.split(),
    )
) - frozenset(MISPLACED)


def require_decoding(options: Mapping[str, Any]) -> None:
    """Refuses arguments of a call in Python, {name: value}, that are in MISPLACED and so are not
    options of decoding.

    Raises:
        ValueError: there is such an argument; the message names it and what to give instead.
    """
    for name, value in options.items():
        if name.replace("-", "_") in MISPLACED:
            instead = MISPLACED[name.replace("-", "_")][1]
            raise ValueError(
                f"{name}={value} is not an option of decoding: "
                + (f"give {instead}" if instead else "leave it out")
            )
