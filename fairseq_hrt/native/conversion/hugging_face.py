"""Reads the files of Hugging Face's model folders: weights, decoding options, language tokens.

Weights are safetensors, or a ``.bin``, which :mod:`.pytorch_tensors` reads without PyTorch.
"""

from pathlib import Path
from typing import Any, Collection, Container, Dict, Iterator, List, Optional, Tuple

import numpy as np

from ..io.escaping import shown
from ..io.json_objects import json_object
from ..text.pipeline import LANGUAGE_TOKEN
from .plain_files import Settings, beside, read_json
from .pytorch_tensors import Stored, read_pytorch
from .tensors import Tensors

CONFIG = "config.json"
# A whole file, or an index of the files that hold its parts.
_WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
_TOKENIZER = "tokenizer_config.json"
# {floating-point type in safetensors files: NumPy's name of it}; bfloat16 is read as uint16.
_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
# Most names of one matrix: encoder, decoder and shared embedding, and output layer.
MOST_SHARED = 4

# Options of generation_config.json, else of config.json, that change translations, with the values
# at which they do not; other values are refused.
_NEUTRAL: Dict[str, Tuple[Any, ...]] = {
    "begin_suppress_tokens": ([],),
    "constraints": ([],),
    "diversity_penalty": (0.0,),
    "do_sample": (False,),
    "dola_layers": (),
    "early_stopping": (False, True),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1.0,),
    "exponential_decay_length_penalty": (),
    "force_words_ids": ([],),
    "forced_decoder_ids": ([],),
    "guidance_scale": (1.0,),
    "max_time": (),
    "min_new_tokens": (0,),
    "num_beam_groups": (1,),
    "num_return_sequences": (1,),
    "penalty_alpha": (0.0,),
    "remove_invalid_values": (False,),
    "repetition_penalty": (1.0,),
    "sequence_bias": ([], {}),
    "stop_strings": ([],),
    "suppress_tokens": ([],),
    "token_healing": (False,),
    "watermarking_config": (),
}
# Options that are read, and options that do not change translations: how they are computed, what is
# returned, sampling (do_sample is refused), assistants, whose guesses are checked.
_READ = frozenset(
    """
    bad_words_ids decoder_start_token_id eos_token_id forced_bos_token_id forced_eos_token_id
    length_penalty max_length max_new_tokens min_length no_repeat_ngram_size num_beams
    """.split()
)
_HARMLESS = frozenset(
    """
    _from_model_config assistant_confidence_threshold assistant_early_exit assistant_lookbehind
    bos_token_id cache_config cache_implementation compile_config disable_compile epsilon_cutoff
    eta_cutoff is_assistant low_memory max_matching_ngram_size min_p num_assistant_tokens
    num_assistant_tokens_schedule output_attentions output_hidden_states output_logits output_scores
    pad_token_id prefill_chunk_size prompt_lookup_num_tokens renormalize_logits
    return_dict_in_generate target_lookbehind temperature top_h top_k top_p transformers_version
    typical_p use_cache
    """.split()
)


def read_weights(folder: Path) -> Tensors:
    """Reads the weights of the Hugging Face model in ``folder``, as float32.

    Raises:
        ValueError: there are no weights, or a file is damaged.
    """
    path = next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
    if path is None:
        raise ValueError(
            f"{folder} has no weights: put one of these files there: {', '.join(_WEIGHTS)}"
        )
    files = [path]
    if path.suffix == ".json":
        table = read_json(path).get("weight_map")
        names = (
            set(table.values())
            if isinstance(table, dict) and all(isinstance(v, str) for v in table.values())
            else set()
        )
        if not names or len(names) > 1000:
            raise ValueError(
                f"{path} has weight_map: {shown(table)}; it must be an object {{tensor: name of its"
                " file} with at most 1000 different files"
            )
        files = [beside(folder, name, path) for name in sorted(names)]
    held: Dict[str, np.ndarray] = {}
    left = MOST_SHARED * sum(file.stat().st_size for file in files)
    for file in files:
        for name, value, size in (
            _safetensors(file) if file.suffix == ".safetensors" else read_pytorch(file)
        ):
            if name in held:
                raise ValueError(
                    f"{file} has {shown(name)}, which another file has, too: keep this tensor in"
                    " only one of the two files"
                )
            if not np.isfinite(value).all():
                raise ValueError(
                    f"{file}: {shown(name)} holds numbers that are not finite (NaN or infinity):"
                    " the file is damaged, or the training diverged; give other weights"
                )
            held[name] = value
            left -= size
            if left < 0:
                raise ValueError(
                    f"{path}: its tensors have more than {MOST_SHARED} times the numbers that are"
                    " stored, since too many tensors share memory: save the model again as"
                    " model.safetensors (save_pretrained)"
                )
    return Tensors(held, path)


def _safetensors(path: Path) -> Iterator[Stored]:
    """Yields (name, float32 array, number of bytes in the file) for each tensor of a safetensors
    file; bfloat16, which NumPy lacks, is read as the upper half of float32."""
    from safetensors import SafetensorError, safe_open

    try:
        # safe_open checks the header: types and shapes fit their bytes, without gaps or overlaps.
        with safe_open(str(path), framework="np"), open(path, "rb") as file:
            head = file.read(int.from_bytes(file.read(8), "little"))
        content = np.memmap(path, np.uint8, "c", offset=8 + len(head))
        described = {
            name: entry
            for name, entry in json_object(head.decode("utf-8")).items()
            if name != "__metadata__"
        }
    except (SafetensorError, OSError, ValueError, OverflowError, MemoryError) as error:
        raise ValueError(
            f"{path} is not a safetensors file, or damaged: {' '.join(str(error).split())[:200]};"
            " download or copy it again"
        ) from None
    for name, entry in described.items():
        if entry["dtype"] not in _FLOATS:
            raise ValueError(
                f"{path}: {shown(name)} has the type {entry['dtype']}, which is not floating-point:"
                " save the model with floating-point weights only"
            )
        start, end = entry["data_offsets"]
        stored = content[start:end].view(_FLOATS[entry["dtype"]]).reshape(entry["shape"])
        if entry["dtype"] == "BF16":
            stored = (stored.astype(np.uint32) << 16).view(np.float32)
        yield name, stored.astype(np.float32, copy=False), end - start


def read_generation(folder: Path, config: Dict[str, Any]) -> Settings:
    """Reads the decoding options that a model's files set: those in ``generation_config.json``, or
    without that file those in ``config.json``. Options that are null are left out.

    Args:
        folder: the model's folder.
        config: the contents of ``config.json``.

    Raises:
        ValueError: an option is unknown, or has a value that no engine supports.
    """
    path = folder / "generation_config.json"
    if path.is_file():
        held = {name: value for name, value in read_json(path).items() if value is not None}
        unknown = sorted(held.keys() - _READ - _HARMLESS - _NEUTRAL.keys())
        if unknown:
            raise ValueError(
                f"{path} has {shown(unknown[0])}: {shown(held[unknown[0]])}, an unknown option:"
                " remove it from that file if it does not change translations"
            )
    else:
        path, known = folder / CONFIG, _READ | _NEUTRAL.keys()
        held = {
            name: value for name, value in config.items() if name in known and value is not None
        }
    for name, neutral in _NEUTRAL.items():
        if name in held and held[name] not in neutral:
            raise ValueError(
                f"{path} has {name}: {shown(held[name])}, which this package does not support:"
                " remove it from that file"
            )
    return Settings(held, path)


def decoding_options(
    generation: Settings,
    positions: int,
    *,
    end: int,
    first: Optional[int] = None,
    never: Container[int] = (),
) -> Dict[str, str]:
    """Converts decoding options of Hugging Face to those of fairseq, {name: text}.

    Args:
        generation: the result of :func:`read_generation`.
        positions: the most tokens for which the model has position vectors.
        end: row of ``</s>`` in the model's embedding.
        first: row of the language token that begins translations; None: they begin with no such
            token.
        never: rows of words that this package never writes; ``bad_words_ids`` may forbid only
            these.

    Raises:
        ValueError: a value is invalid, or has no equivalent in fairseq.
    """
    for name, wanted in (
        ("eos_token_id", (end, [end])),
        ("forced_eos_token_id", (end, [end])),
        ("forced_bos_token_id", (first, [first])),
    ):
        value = generation.values.get(name)
        if value is not None and value not in wanted:
            raise ValueError(
                f"{generation.subject} has {name}: {shown(value)}, but"
                f" {'none' if wanted[0] is None else wanted[0]} is expected: remove it from that"
                " file, or, if this is the id of a language token, give that language by"
                " --target-language"
            )
    forbidden = generation.values.get("bad_words_ids", [])
    if not isinstance(forbidden, list) or not all(
        isinstance(words, list) and len(words) == 1 and words[0] in never for words in forbidden
    ):
        raise ValueError(
            f"{generation.subject} has bad_words_ids: {shown(forbidden)}, but this package cannot"
            " forbid words: remove it from that file"
        )
    # Counted with the start token, which translations do not contain.
    longest = generation.number("max_length", positions, most=1 << 30)
    if "max_new_tokens" in generation.values:
        longest = generation.number("max_new_tokens", most=1 << 30) + 1
    # fairseq appends </s> to max_len_b words. In Hugging Face's length the last token is free,
    # unless forced_eos_token_id makes it </s>.
    words = min(longest, positions) - (
        1 if generation.values.get("forced_eos_token_id") is None else 2
    )
    found = {
        "beam": str(generation.number("num_beams", 1, most=1000)),
        "lenpen": f"{generation.fraction('length_penalty', 1.0):g}",
        "max_len_a": "0",
        "max_len_b": str(max(words, 1)),
        "min_len": str(min(max(generation.number("min_length", 0, least=0) - 1, 0), max(words, 1))),
    }
    repeated = generation.number("no_repeat_ngram_size", 0, least=0)
    if repeated:
        found["no_repeat_ngram_size"] = str(repeated)
    return found


def tokenizer_settings(folder: Path) -> Settings:
    """The contents of ``tokenizer_config.json`` in a folder; empty if there is no such file."""
    path = folder / _TOKENIZER
    return Settings(read_json(path) if path.is_file() else {}, path)


def added_tokens(folder: Path) -> Dict[str, int]:
    """The tokens that the tokeniser in a folder has beside its vocabulary, or that it keeps whole,
    as its files number them: {token: row of the embedding}.

    Raises:
        ValueError: the row of a token is not an integer from 0.
    """
    settings = tokenizer_settings(folder)
    numbered: Dict[Any, Any] = {}
    table = settings.values.get("added_tokens_decoder")
    if isinstance(table, dict):
        entries = (
            (entry.get("content"), row) for row, entry in table.items() if isinstance(entry, dict)
        )
        numbered.update((content, row) for content, row in entries if isinstance(content, str))
    if (folder / "added_tokens.json").is_file():
        numbered.update(read_json(folder / "added_tokens.json"))
    return {
        token: Settings({"number": row}, f"{settings.subject}: {shown(token)}").number(
            "number", least=0, most=1 << 31
        )
        for token, row in numbered.items()
    }


def language_tokens(folder: Path, following: int) -> Dict[str, int]:
    """The language tokens of a multilingual model, {token: row of the embedding}.

    Args:
        folder: the model's folder.
        following: the first row after those of the SentencePiece pieces. Language tokens whose rows
            no file gives get the rows from ``following`` on, in the order in which the tokeniser's
            files list all tokens.

    Raises:
        ValueError: the row of a token is not an integer from 0.
    """
    settings = tokenizer_settings(folder)
    ordered: List[Any] = []
    special = folder / "special_tokens_map.json"
    for held in (settings.values, read_json(special) if special.is_file() else {}):
        for name in ("additional_special_tokens", "extra_special_tokens"):
            value = held.get(name)
            tokens = (
                [one.get("content") if isinstance(one, dict) else one for one in value]
                if isinstance(value, list)
                else []
            )
            ordered = ordered or [one for one in tokens if _is_language(one)]
    listed = {token: following + number for number, token in enumerate(dict.fromkeys(ordered))}
    found = {token: row for token, row in added_tokens(folder).items() if _is_language(token)}
    return {**listed, **found}


def _is_language(token: Any) -> bool:
    return isinstance(token, str) and LANGUAGE_TOKEN.fullmatch(token) is not None


def chosen_token(
    tokens: Collection[str], language: Optional[str], option: str, subject: object
) -> Tuple[str, str]:
    """Finds the token of the language that the user names: by the token itself, e.g. ``de_DE``, or
    by its language, ``de``.

    Args:
        tokens: the model's language tokens.
        language: the name that the user gives, or None.
        option: the option by which the user gives the language, for the message.
        subject: the model's file or folder, for the message.

    Returns:
        (the token, ``language`` as given).

    Raises:
        ValueError: ``language`` is None, or the model has no token for it.
    """
    if language is not None:
        for token in (language, f"__{language}__", f">>{language}<<"):
            if token in tokens:
                return token, language
        starting = [token for token in tokens if token.split("_")[0] == language]
        if len(starting) == 1:
            return starting[0], language
    some = ", ".join(token.strip("_<>") for token in list(tokens)[:12])
    said = (
        "is needed for a multilingual model"
        if language is None
        else f"{shown(language)} is not a language of this model"
    )
    raise ValueError(
        f"{subject}: {option} {said}; its languages are {some}{', …' if len(tokens) > 12 else ''}"
    )
