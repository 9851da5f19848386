"""Imports a model: recognises its toolkit, reads it and writes a bundle."""

from dataclasses import replace
from pathlib import Path
from typing import List, Optional

from ..bundles.bundle import Bundle, require_new
from ..bundles.data_options import language_of_data
from ..io.escaping import shown
from ..io.progress import Doing
from ..options.values import SCHEMA, DecodingOptions
from ..text.pipeline import LANGUAGE_TOKEN, subword_units
from ..text.recipe import TextRecipe, kind_of_subwords
from .converted import Converted, Wishes, write_bundle
from .fairseq_checkpoints import is_fairseq, read_fairseq
from .hugging_face import CONFIG
from .hugging_face_folders import read_hugging_face
from .marian import MODELS, is_marian, read_marian
from .plain_files import WHOLE, refuse_links_outside
from .vocabularies import require_pieces


def import_model(
    source: Path,
    folder: Path,
    wishes: Wishes = Wishes(),  # noqa: B008 - immutable
) -> Bundle:
    """Makes a bundle from a model of another toolkit, or from a published model of fairseq.

    Args:
        source: a folder, or the model file in one.
        folder: the bundle's folder, which must not exist.
        wishes: the user's options.

    Raises:
        ValueError: the model is missing or damaged, or has a part that cannot be imported; the
            message names the file.
        OSError: a file cannot be read or written.
    """
    if not source.exists():
        raise ValueError(f"{source} does not exist: give the folder or file of a model")
    require_new(folder)
    languages = (
        _language(wishes.source_language, "--source-language"),
        _language(wishes.target_language, "--target-language"),
    )
    place = source if source.is_dir() else source.parent
    fairseq = source.suffix == ".pt" or (source.is_dir() and is_fairseq(source))
    hugging_face = source.is_dir() and (source / CONFIG).is_file()
    if not (
        fairseq
        or hugging_face
        or (source.suffix in MODELS if source.is_file() else is_marian(source))
    ):
        files = source.iterdir() if source.is_dir() else [source]
        names = sorted(file.name for file in files)[:8]
        raise ValueError(
            f"{source} holds no model that can be imported (it has"
            f" {', '.join(map(shown, names)) or 'nothing'}): give a folder of Hugging Face"
            " (config.json), of Marian (a .npz or .bin model and its vocabulary), or of fairseq"
            " (checkpoints, dict.*.txt and codes)"
        )
    refuse_links_outside(place, source)
    if fairseq:
        if not wishes.checkpoint:
            raise ValueError(
                f"{source} is a model of fairseq, which is read by PyTorch: import it with {WHOLE}"
                ", where PyTorch is installed"
            )
        return read_fairseq(source, folder, wishes, languages)
    if not wishes.checkpoint and wishes.lines is not None:
        raise ValueError(
            "--runtime-lines are for comparing with PyTorch's engine, which is not installed: leave"
            " the option out"
        )
    with Doing("reading the model"):
        converted = (
            read_hugging_face(place, languages) if hugging_face else read_marian(source, languages)
        )
    wishes = replace(
        wishes,
        runtime=wishes.runtime or (None if wishes.checkpoint else "int8"),
        lines=wishes.lines or _sample(converted),
    )
    if wishes.runtime is not None:
        _require_native_options(converted, wishes.checkpoint)
    converted = _prepared(converted, wishes, place)
    if converted.subwords == "sentencepiece" and (codes := converted.codes) is not None:
        sides = (codes, converted.source), (converted.target_codes or codes, converted.target)
        for path, words in dict.fromkeys(sides):
            require_pieces(path, words)
    return write_bundle(converted, folder, wishes)


def _language(name: Optional[str], option: str) -> Optional[str]:
    """Returns the language that the user gives by ``option``: ``name``, or what is inside a token
    such as ``__en__`` or ``>>fra<<``; None if ``name`` is None."""
    if name is None:
        return None
    bare = name.strip("_<>") if LANGUAGE_TOKEN.fullmatch(name) else name
    return language_of_data(bare, option)


def _require_native_options(converted: Converted, checkpoint: bool) -> None:
    """Raises ValueError if the model's files set a decoding option that the native engine does not
    support. ``checkpoint``: whether the bundle will also have a checkpoint, for PyTorch."""
    options = DecodingOptions.parse(converted.decoding)
    for name in converted.decoding:
        value = getattr(options, name)
        if SCHEMA[name].native is False and value != SCHEMA[name].default:
            instead = "" if checkpoint else f" and import the model with {WHOLE}"
            raise ValueError(
                f"the model's files set {name} to {shown(value)}, which the native engine does not"
                f" support: leave --runtime out{instead}, or set {name} to"
                f" {SCHEMA[name].default} in those files"
            )


def _prepared(converted: Converted, wishes: Wishes, folder: Path) -> Converted:
    """Adds the user's text preparation to a converted model, which was read from ``folder``.

    Raises:
        ValueError: the user gives subwords or codes for a model whose folder has codes, or none for
            a vocabulary of subwords, or files that are not such codes.
    """
    tokenizer = wishes.tokenizer or converted.tokenizer
    converted = replace(converted, tokenizer=tokenizer)
    if converted.codes is not None:
        if (wishes.subwords, wishes.codes, wishes.target_codes) != (None, None, None):
            raise ValueError(
                "--subwords, --codes and --target-codes: the model brings its own codes"
                f" ({converted.codes.name}); leave these options out"
            )
        return converted
    subwords, kind = wishes.subwords, kind_of_subwords(converted.source.words)
    if subwords is None and wishes.codes is None and kind != "none":
        raise ValueError(
            f"{folder} holds no codes for its vocabulary of subwords ({kind}): give their file by"
            " --codes, or --subwords none if the model has whole words"
        )
    if subwords is None and wishes.codes is not None and kind == "none":
        kind = "subword-nmt"
    recipe = TextRecipe(
        *converted.languages, tokenizer, subwords or kind, wishes.codes, wishes.target_codes
    )
    # Errors name the user's files, not their copies in the bundle.
    for one in (recipe, recipe.reversed()):
        subword_units(one)
    return replace(
        converted, subwords=recipe.subwords, codes=recipe.codes, target_codes=recipe.target_codes
    )


def _sample(converted: Converted) -> List[str]:
    """Makes at most 80 lines of at most 5 source words, which the native engine and PyTorch both
    translate, for comparison, if the user gives no lines."""
    words = [word.replace("\u2581", "") for word in converted.source.words]
    plain = [word for word in words if len(word) > 2 and word.isalpha()]
    step = max(len(plain) // 400, 1)
    chosen = plain[::step][:400] or ["a"]
    return [" ".join(chosen[start::80]) for start in range(min(80, len(chosen)))]
