"""A bundle: a self-contained folder that translates raw text.

bundle.json     names, text preparation, decoding options, measured quality
model.pt        the checkpoint, without its optimiser; model_2.pt, … for an ensemble; none
                if the model was imported without PyTorch
dict.<lang>.txt dictionaries
codes           subword codes or model; target_codes if the target language has its own
moses.json      Moses' rules for these languages
runtime.safetensors, shortlist.safetensors   for the native runtime, if requested
README.md       the card: a description of the model, its training and its quality
"""

import json
import shlex
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from ..io.escaping import code_in_markdown, in_markdown, printable
from ..io.files import content_hash, new_folder, remove_leftovers
from ..io.progress import Doing
from ..plugin import plugin
from ..text.dictionary import Words
from ..text.moses_rules import MosesRules
from ..text.pipeline import TextPipeline
from ..text.recipe import TextRecipe
from .description import FORMAT, read_description


@dataclass
class Bundle:
    """The contents of ``bundle.json``.

    Attributes:
        folder: the bundle's folder.
        task: the name of the fairseq task that decodes the model, e.g. ``translation_hrt``.
        source_lang, target_lang: the languages, as in the dictionaries' file names.
        tokenizer, subwords: how text is tokenised, e.g. ``moses+escape``, and split into subwords,
            e.g. ``sentencepiece``; see :class:`TextRecipe`.
        models: file names of the checkpoints; empty if there is only the native engine's model.
        codes: file name of the subword codes or the SentencePiece model, or None.
        options: decoding options by the names of ``fairseq-generate``, e.g. ``{"beam": "1"}``.
        card: rows of the table in README.md, e.g. ``{"BLEU": 38.0, "signature": "…"}``.
        rules: file name of Moses' rules for tokenising sources and detokenising translations, or
            None.
        runtime: file name of the model for the native runtime, or None.
        runtime_options: decoding options stored in the checkpoint by its training, repeated here
            because the runtime does not read the checkpoint.
        shortlist: file name of the runtime's shortlist, or None.
        examples: raw source sentences to try the bundle with.
        target_codes: file name of the target language's codes; None if both languages share
            ``codes``.
        source_prefix, target_prefix: the language tokens, e.g. ``de_DE``, with which sources and
            translations begin, or None; see :class:`TextRecipe`.
    """

    folder: Path
    task: str
    source_lang: str
    target_lang: str
    tokenizer: str
    subwords: str
    models: List[str] = field(default_factory=lambda: ["model.pt"])
    codes: Optional[str] = None
    options: Dict[str, str] = field(default_factory=dict)
    card: Dict[str, Any] = field(default_factory=dict)
    rules: Optional[str] = None
    runtime: Optional[str] = None
    runtime_options: Dict[str, str] = field(default_factory=dict)
    shortlist: Optional[str] = None
    examples: List[str] = field(default_factory=list)
    target_codes: Optional[str] = None
    source_prefix: Optional[str] = None
    target_prefix: Optional[str] = None

    @property
    def recipe(self) -> TextRecipe:
        """How raw text is prepared (tokenizer, subwords, prefixes), with the full paths of the
        bundle's files of codes."""
        codes, target_codes = (
            None if name is None else self.folder / name for name in (self.codes, self.target_codes)
        )
        return TextRecipe(
            self.source_lang, self.target_lang, self.tokenizer, self.subwords, codes, target_codes,
            self.source_prefix, self.target_prefix,
        )  # fmt: skip

    def dictionaries(self) -> Tuple[Words, Words]:
        """The source and the target dictionary."""
        source, target = (
            Words(self.folder / f"dict.{language}.txt")
            for language in (self.source_lang, self.target_lang)
        )
        return source, target

    def pipeline(self) -> TextPipeline:
        """The pipeline that converts source lines to subwords, and translations to raw text."""
        rules = None if self.rules is None else MosesRules.load(self.folder / self.rules)
        if self.source_prefix is None:
            return TextPipeline(self.recipe, rules)
        return TextPipeline(self.recipe, rules, frozenset(self.dictionaries()[0].words))

    def target_pipeline(self) -> TextPipeline:
        """The pipeline that converts raw translations, given to be scored, to subwords, by the
        rules of the target language. Moses' rules come from the installed sacremoses, since the
        bundle stores them for the other direction only."""
        return TextPipeline(self.recipe.reversed())

    @property
    def paths(self) -> List[Path]:
        """The paths of the checkpoints.

        Raises:
            ValueError: the bundle has no checkpoint.
        """
        if not self.models:
            raise ValueError(
                f"{self.folder} holds only the native engine's model, imported without PyTorch, but"
                " PyTorch needs a checkpoint: use --engine native, or import the model again with"
                " the whole plugin, fairseq_hrt"
            )
        return [self.folder / name for name in self.models]

    def content_hash(self) -> str:
        """SHA-256 of all files that determine the translations: description, checkpoints, codes,
        dictionaries, and the files that the runtime reads."""
        others = (self.codes, self.target_codes, self.rules, self.runtime, self.shortlist)
        names = ["bundle.json", *self.models, *(name for name in others if name is not None)]
        names += [f"dict.{language}.txt" for language in (self.source_lang, self.target_lang)]
        return content_hash(self.folder / name for name in names)


def is_bundle(folder: Path) -> bool:
    """Whether a folder holds a bundle; False for what is not a folder, too."""
    return (folder / "bundle.json").is_file()


def load_bundle(folder: Path, *, for_runtime: bool = False) -> Bundle:
    """Reads and checks ``bundle.json``.

    A bundle may come from anywhere, so its description may only choose harmless options and name
    files in its own folder; see :mod:`.description`.

    Args:
        folder: the bundle's folder.
        for_runtime: whether the bundle is for the native engine, which checks the task and the
            options itself; fairseq is then not loaded.

    Raises:
        ValueError: the folder is not a bundle, has another format, or its description holds
            something that is not permitted; the message names it.
    """
    document = read_description(folder, for_runtime=for_runtime)
    # An absolute path cannot be mistaken for an option when it is passed on.
    return Bundle(folder=folder.absolute(), **document)


def require_new(folder: Path) -> None:
    """Raises ValueError if the folder exists. To be called before inputs are read, since reading
    them may take a while."""
    if folder.exists() or folder.is_symlink():
        raise ValueError(f"{folder} exists already: give another folder or remove it")


def require_file(path: Path) -> None:
    """Raises ValueError if the path does not lead to a file."""
    if not path.is_file():
        raise ValueError(f"{path} is not a file: give the path of an existing file")


def require_dictionary(data: Path, language: str) -> None:
    """Raises ValueError if the folder ``data`` does not hold the dictionary of a language."""
    if not (data / f"dict.{language}.txt").is_file():
        raise ValueError(
            f"{data} does not hold dict.{language}.txt: give the folder with both dictionaries"
        )


def create_bundle(
    bundle: Bundle,
    data: Path,
    codes: Optional[Path],
    target_codes: Optional[Path] = None,
    *,
    states: Sequence[Dict[str, Any]] = (),
    check: Optional[Callable[[Path], object]] = None,
    complete: Optional[Callable[[Bundle], None]] = None,
) -> Bundle:
    """Writes a bundle into its folder, which appears only when complete; a failure leaves nothing.

    Args:
        bundle: the bundle's description; its models, codes and rules are set here.
        data: folder with the dictionaries.
        codes, target_codes: files of subword codes to copy, or None; see
            :class:`..text.recipe.TextRecipe`.
        states: the contents of the checkpoints, as fairseq saves them; if there are none, PyTorch
            is not loaded.
        check: called with the path of the complete folder before this gets its final name; an
            exception that it raises discards the bundle.
        complete: called with ``bundle`` before ``bundle.json`` is written, to add further files and
            name them in the bundle; meanwhile ``bundle.folder`` is the temporary folder.

    Raises:
        ValueError: the folder exists, a file is missing, or the text preparation is unknown.
        OSError: a file cannot be read or written.
    """
    folder = bundle.folder
    names = ["model.pt", *(f"model_{number}.pt" for number in range(2, len(states) + 1))]
    bundle.models = names[: len(states)]
    copied = {name: file for name, file in (("codes", codes), ("target_codes", target_codes))
              if file is not None}  # fmt: skip
    for name, file in copied.items():
        require_file(file)
        setattr(bundle, name, name)
    # Raises for an unknown text preparation, before anything is written.
    moses = bundle.recipe.tokenization.name == "moses"
    bundle.rules = "moses.json" if moses else None
    remove_leftovers(folder.absolute().parent, folder.name + ".")
    with new_folder(folder) as partial:
        with _errors_naming(folder, partial):
            with Doing("writing the bundle"):
                _fill(partial, bundle, states, data, copied)
            if complete is not None:
                bundle.folder = partial
                try:
                    complete(bundle)
                finally:
                    bundle.folder = folder
            _describe(partial, bundle)
            if check is not None:
                check(partial)
        try:
            partial.rename(folder)
        except OSError as error:
            raise ValueError(
                f"{folder} cannot be made: {error.strerror}; does it exist already? Remove it, or"
                " give another folder"
            ) from error
    return bundle


@contextmanager
def _errors_naming(folder: Path, partial: Path) -> Iterator[None]:
    """A context manager: errors raised in it name the bundle's ``folder`` instead of the temporary
    folder ``partial``, which no longer exists when the message is read."""
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace(str(partial), str(folder))) from error
    except OSError as error:
        if error.errno is None:
            raise OSError(str(error).replace(str(partial), str(folder))) from error
        name = str(error.filename or folder).replace(str(partial), str(folder))
        raise OSError(error.errno, error.strerror, name) from error


def _fill(
    place: Path,
    bundle: Bundle,
    states: Sequence[Dict[str, Any]],
    data: Path,
    copied: Dict[str, Path],
) -> None:
    """Writes checkpoints, dictionaries, codes and Moses' rules of a bundle into the empty folder
    ``place``.

    Args:
        place, bundle, states, data: see :func:`create_bundle`.
        copied: {name in the bundle: file to copy}.
    """
    for name, state in zip(bundle.models, states):
        plugin().save_checkpoint(state, place / name)
    for language in (bundle.source_lang, bundle.target_lang):
        require_dictionary(data, language)
        shutil.copyfile(data / f"dict.{language}.txt", place / f"dict.{language}.txt")
    for name, file in copied.items():
        shutil.copyfile(file, place / name)
    if bundle.rules is not None:
        languages = bundle.recipe.tokenization.languages
        MosesRules.from_sacremoses(*languages).save(place / bundle.rules)


def _describe(place: Path, bundle: Bundle) -> None:
    """Writes ``bundle.json`` and the card, ``README.md``, of a bundle into the folder ``place``."""
    document = {
        "format": FORMAT,
        **{key: value for key, value in asdict(bundle).items() if key != "folder"},
    }
    text = json.dumps(document, indent=1, ensure_ascii=False, default=str)
    (place / "bundle.json").write_text(text + "\n", encoding="utf-8", newline="\n")
    (place / "README.md").write_text(_card_text(bundle), encoding="utf-8", newline="\n")


def _card_text(bundle: Bundle) -> str:
    rows = "\n".join(
        f"| {in_markdown(name)} | {in_markdown(value)} |" for name, value in bundle.card.items()
    )
    options = " ".join(f"--set {name}={value}" for name, value in bundle.options.items()) or "none"
    name = shlex.quote(printable(" ".join(bundle.folder.name.split())))
    tried = "".join(
        f"fairseq-hrt translate {name} --text {shlex.quote(printable(one))}\n"
        for one in bundle.examples
    )
    return (
        f"# {in_markdown(bundle.source_lang)} → {in_markdown(bundle.target_lang)},"
        f" {in_markdown(bundle.card.get('architecture', bundle.task))}\n\nTranslates raw text, one"
        f" sentence a line:\n\n```bash\nfairseq-hrt translate {name} <"
        f" input.txt\n{tried}```\n\nTask {code_in_markdown(bundle.task)}; text: {bundle.tokenizer},"
        f" {bundle.subwords}; decoding options: {in_markdown(options)}.\n\n| |"
        f" |\n|---|---|\n{rows}\n"
    )
