"""Reads folders of Hugging Face's Marian, MBart-50 and M2M-100 models: vocabularies, languages,
text preparation."""

from pathlib import Path
from typing import Container, List, Mapping, Optional, Tuple

from ..io.escaping import shown
from ..text.dictionary import EOS, PAD, SPECIAL
from ..text.pipeline import target_tokens
from .converted import Converted
from .hugging_face import (
    CONFIG,
    added_tokens,
    chosen_token,
    decoding_options,
    language_tokens,
    read_generation,
    read_weights,
    tokenizer_settings,
)
from .hugging_face_model import HuggingFaceModel, require_rows
from .plain_files import Settings, read_json
from .vocabularies import (
    Vocabulary,
    by_number,
    load_sentencepiece,
    make_vocabulary,
    pieces,
    specials_in,
)

KINDS = ("marian", "mbart", "m2m_100")
_SENTENCEPIECE = "sentencepiece.bpe.model"
Languages = Tuple[Optional[str], Optional[str]]


# The file of a LoRA adapter. The base model's weights beside it do not show that it is needed.
_ADAPTER = "adapter_config.json"
# {model type: tokenizers that put the language token before sources and translations}.
_TOKENIZERS = {"mbart": ("MBart50Tokenizer",), "m2m_100": ("M2M100Tokenizer", "NllbTokenizer")}


def read_hugging_face(folder: Path, languages: Languages) -> Converted:
    """Reads and converts the model in a folder of Hugging Face, which has a ``config.json``.

    Args:
        folder: the model's folder.
        languages: names of source and target language, required for multilingual models; None: as
            ``tokenizer_config.json`` names it.

    Raises:
        ValueError: a file is missing or damaged, or the model has a part that cannot be imported;
            the message names the file.
    """
    if (folder / _ADAPTER).exists():
        raise ValueError(
            f"{folder / _ADAPTER}: the folder holds an adapter (LoRA) beside its base model: save"
            " the merged model (peft's merge_and_unload) in a new folder and import that"
        )
    config = Settings(read_json(folder / CONFIG), folder / CONFIG)
    kind = config.require("model_type", KINDS, None)
    found = (_marian if kind == "marian" else _multilingual)(folder, config, languages)
    found.card["imported from"] = f"Hugging Face: {kind}, {folder.resolve().name}"
    return found


def _marian(folder: Path, config: Settings, languages: Languages) -> Converted:
    shared = config.switch("share_encoder_decoder_embeddings", True)
    tokenizer = tokenizer_settings(folder)
    separate = tokenizer.switch("separate_vocabs") or not shared
    size = config.number("vocab_size", most=1 << 24)
    sizes = size, size if shared else config.number("decoder_vocab_size", size, most=1 << 24)
    weights = read_weights(folder)
    require_rows(weights, config, sizes)
    source = _numbered(folder / "vocab.json", sizes[0], added_tokens(folder))
    target = (
        _numbered(folder / "target_vocab.json", sizes[1], {})
        if separate and (folder / "target_vocab.json").is_file()
        else None
    )
    if target is None:
        target = source if sizes[0] == sizes[1] else _numbered(folder / "vocab.json", sizes[1], {})
    names = [
        given or tokenizer.text(option) or None
        for given, option in zip(languages, ("source_lang", "target_lang"))
    ]
    prefix = None
    tokens = target_tokens(source.words)
    if tokens:
        prefix, names[1] = chosen_token(
            tokens, languages[1], "--target-language", folder / "vocab.json"
        )
    if None in names:
        raise ValueError(
            f"{tokenizer.subject} does not name the languages: give --source-language and"
            " --target-language"
        )
    for side in ("source.spm", "target.spm"):
        load_sentencepiece(folder / side)
    model = HuggingFaceModel(weights, config, source, target)
    generation = read_generation(folder, config.values)
    start = Settings({**config.values, **generation.values}, generation.subject).number(
        "decoder_start_token_id", least=0
    )
    return Converted(
        models=[model.marian(start)],
        languages=(str(names[0]), str(names[1])),
        source=source,
        target=target,
        # Punctuation is normalised as in training; transformers has this step and does not run it.
        tokenizer="moses-punctuation",
        subwords="sentencepiece",
        codes=folder / "source.spm",
        target_codes=folder / "target.spm",
        source_prefix=prefix,
        decoding=decoding_options(
            generation, model.positions, end=target.rows[EOS], never=(start, target.rows[PAD])
        ),
    )


def _numbered(path: Path, size: int, added: Mapping[str, int]) -> Vocabulary:
    found = by_number(read_json(path), size, path)
    _add_tokens(found, added, target_tokens(added), path.parent)
    return make_vocabulary(found, specials_in(found), path)


def _add_tokens(
    rows: List[Optional[str]], added: Mapping[str, int], whole: Container[str], folder: Path
) -> None:
    """Gives tokens that a tokeniser has beside its vocabulary their rows.

    Args:
        rows: the word of each row, None for rows without a word; changed in place.
        added: the tokens, {token: row}. Symbols such as ``<mask>``, which no text has, are ignored.
        whole: the tokens that text preparation keeps whole, see
            :class:`..text.pipeline.TextPipeline`.
        folder: the model's folder, for messages.

    Raises:
        ValueError: text preparation would split a token, or its row is beyond the matrix or has
            another word.
    """
    for token, row in added.items():
        if token in (*SPECIAL, "<mask>") or (row < len(rows) and rows[row] == token):
            continue
        if token not in whole:
            raise ValueError(
                f"{folder} has the added token {shown(token)} (tokenizer_config.json,"
                " added_tokens.json), which this package would split: remove it from these files"
                " if no text has it; otherwise the model cannot be imported"
            )
        if row >= len(rows) or rows[row] is not None:
            fault = (
                "another word has"
                if row < len(rows)
                else f"is not below the vocab_size {len(rows)}"
            )
            raise ValueError(
                f"{folder}: the language token {shown(token)} has the id {row}, which {fault}: put"
                " only files of one model into this folder"
            )
        rows[row] = token


def _multilingual(folder: Path, config: Settings, languages: Languages) -> Converted:
    learned = config.values["model_type"] == "mbart"
    tokenizer = tokenizer_settings(folder)
    if tokenizer.values.get("tokenizer_class") in ("MBartTokenizer", "MBartTokenizerFast"):
        raise ValueError(
            f"{tokenizer.subject} has tokenizer_class:"
            f" {shown(tokenizer.values['tokenizer_class'])}, whose sources end with their language"
            " token: such models cannot be imported, models of MBart-50 (MBart50Tokenizer) can"
        )
    classes = _TOKENIZERS[config.values["model_type"]]
    named = str(tokenizer.values.get("tokenizer_class") or classes[0])
    if named.removesuffix("Fast") not in classes:
        raise ValueError(
            f"{tokenizer.subject} has tokenizer_class: {shown(named)}, which may put language"
            f" tokens elsewhere than {' or '.join(classes)} does: if one of these prepares text as"
            f" {shown(named)} does, write its name as tokenizer_class in that file"
        )
    if tokenizer.switch("legacy_behaviour"):
        raise ValueError(
            f"{tokenizer.subject} has legacy_behaviour: True, with which sources end with their"
            " language token: such models cannot be imported; remove the option from that file if"
            " the model was not trained that way"
        )
    size = config.number("vocab_size", most=1 << 24)
    weights = read_weights(folder)
    require_rows(weights, config, (size, size))
    path = folder / _SENTENCEPIECE
    model = load_sentencepiece(path)
    if (folder / "vocab.json").is_file():
        table = read_json(folder / "vocab.json")
        rows, following = by_number(table, size, folder / "vocab.json"), len(table)
    else:
        rows, following = _by_pieces(pieces(model), size, path)
    tokens = language_tokens(folder, following)
    _add_tokens(rows, {**added_tokens(folder), **tokens}, tokens, folder)
    if not tokens:
        raise ValueError(
            f"{folder} names no language tokens: special_tokens_map.json or"
            f" {tokenizer.subject.name}"  # type: ignore[attr-defined]  # a path
            " must list them (additional_special_tokens)"
        )
    words = make_vocabulary(rows, specials_in(rows), path)
    source, source_name = chosen_token(tokens, languages[0], "--source-language", folder)
    target, target_name = chosen_token(tokens, languages[1], "--target-language", folder)
    converted = HuggingFaceModel(weights, config, words, words)
    generation = read_generation(folder, config.values)
    Settings({**config.values, **generation.values}, generation.subject).require(
        "decoder_start_token_id", (2,), None
    )
    return Converted(
        models=[converted.multilingual(learned)],
        languages=(source_name, target_name),
        source=words,
        target=words,
        subwords="sentencepiece",
        codes=path,
        source_prefix=source,
        target_prefix=target,
        decoding={
            **decoding_options(
                generation, converted.positions, end=words.rows[EOS], first=tokens[target]
            ),
            "forced_start": target,
        },
    )  # fmt: skip


def _by_pieces(found: List[str], size: int, path: Path) -> Tuple[List[Optional[str]], int]:
    """Assigns SentencePiece's pieces to rows of the embedding as fairseq does for MBart-50 and
    NLLB.

    Args:
        found: the pieces, in the order of their ids.
        size: number of rows of the embedding.
        path: the SentencePiece model, for messages.

    Returns:
        (the word of each row, None for rows without a word; the first row after the pieces).

    Raises:
        ValueError: the pieces do not begin as expected, or are more than ``size``.
    """
    if found[:3] != ["<unk>", "<s>", "</s>"]:
        raise ValueError(
            f"{path} begins with the pieces {shown(found[:3])} instead of <unk>, <s>, </s>: it does"
            " not belong to a model of MBart-50 or NLLB"
        )
    rows: List[Optional[str]] = ["<s>", "<pad>", "</s>", "<unk>", *found[3:]]
    if len(rows) > size:
        raise ValueError(
            f"{path} has {len(found)} pieces, but the model has {size} words: the file belongs to"
            " another model; put this model's SentencePiece model there"
        )
    return [*rows, *([None] * (size - len(rows)))], len(rows)
