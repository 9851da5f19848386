"""A bundle: a folder with everything that translates raw text, to be copied, kept and handed on.

bundle.json     names, text preparation, decoding options, measured quality
model.pt        the checkpoint, without its optimiser; model_2.pt, … for an ensemble; no file where
                a model was imported without PyTorch
dict.<lang>.txt dictionaries
codes           subword codes or model; target_codes where the target language has its own
moses.json      Moses' rules for these languages
runtime.safetensors, shortlist.safetensors   for the native runtime, where they were asked for
README.md       the card: what it is, how it was trained, how good it is
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
from ..plugin import plugin
from ..text.dictionary import Words
from ..text.moses_rules import MosesRules
from ..text.pipeline import TextPipeline, TextRecipe
from .description import read_description

FORMAT = 1


@dataclass
class Bundle:
    """The contents of ``bundle.json``.

    Attributes:
        folder: where it lies.
        task: the task it is decoded with.
        source_lang, target_lang: of the dictionaries.
        tokenizer, subwords: see :class:`TextRecipe`.
        models: file names; none where the native engine's model is the only one.
        codes: file name, or None.
        options: of decoding, by the names of ``fairseq-generate``, e.g. ``{"beam": "1"}``.
        card: what else is known, e.g. ``{"BLEU": 38.0, "signature": "…"}``.
        rules: file name of Moses' rules, or None.
        runtime: file name of the model for the native runtime, or None.
        runtime_options: decoding options that the training has left in the checkpoint, which the
            runtime does not read.
        shortlist: file name of the runtime's shortlist, or None.
        examples: raw source sentences to try it with.
        target_codes: file name of the target language's codes, or None where both sides have the
            same.
        source_prefix, target_prefix: see :class:`TextRecipe`.
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
        """The text preparation."""
        codes, target_codes = (
            None if name is None else self.folder / name for name in (self.codes, self.target_codes)
        )
        return TextRecipe(
            self.source_lang, self.target_lang, self.tokenizer, self.subwords, codes, target_codes,
            self.source_prefix, self.target_prefix,
        )  # fmt: skip

    def dictionaries(self) -> Tuple[Words, Words]:
        """Of the source and of the target."""
        source, target = (
            Words(self.folder / f"dict.{language}.txt")
            for language in (self.source_lang, self.target_lang)
        )
        return source, target

    def pipeline(self) -> TextPipeline:
        """Prepares its sources and restores its translations."""
        rules = None if self.rules is None else MosesRules.load(self.folder / self.rules)
        if self.source_prefix is None:
            return TextPipeline(self.recipe, rules)
        return TextPipeline(self.recipe, rules, frozenset(self.dictionaries()[0].words))

    def target_pipeline(self) -> TextPipeline:
        """Prepares given translations, by the rules of their own language; those of Moses are the
        installed ones."""
        return TextPipeline(self.recipe.reversed())

    @property
    def paths(self) -> List[Path]:
        """The checkpoints.

        Raises:
            ValueError: there are none.
        """
        if not self.models:
            raise ValueError(
                f"{self.folder} holds only the native engine's model, and this needs the"
                " checkpoint, which an import without PyTorch does not make: import the model again"
                " with the whole plugin, fairseq_hrt"
            )
        return [self.folder / name for name in self.models]

    def content_hash(self) -> str:
        """SHA-256 of what it translates with: description, checkpoints, codes, dictionaries, and
        what the runtime reads."""
        others = (self.codes, self.target_codes, self.rules, self.runtime, self.shortlist)
        names = ["bundle.json", *self.models, *(name for name in others if name is not None)]
        names += [f"dict.{language}.txt" for language in (self.source_lang, self.target_lang)]
        return content_hash(self.folder / name for name in names)


def load_bundle(folder: Path, *, for_runtime: bool = False) -> Bundle:
    """Reads a bundle's description.

    It may come from anywhere, so it chooses among what is known to be harmless and names only files
    that lie in the folder; see :mod:`.description`.

    Args:
        folder: of the bundle.
        for_runtime: fairseq will not see the description: task and options are left to the
            runtime's own checks, and fairseq is not loaded.

    Raises:
        ValueError: the folder is not a bundle, or one of another format, or its description asks
            for more than a bundle may; the message names what is wrong.
    """
    document = read_description(folder, FORMAT, for_runtime=for_runtime)
    # As an absolute path it cannot be taken for an option, wherever it is given on.
    return Bundle(folder=folder.absolute(), **document)


def require_new(folder: Path) -> None:
    """Refuses a folder that exists, before anything is read, which may take a while.

    Raises:
        ValueError: it exists.
    """
    if folder.exists() or folder.is_symlink():
        raise ValueError(f"{folder} exists already: give another folder or remove it")


def require_file(path: Path) -> None:
    """Refuses a path that does not lead to a file.

    Raises:
        ValueError: it does not.
    """
    if not path.is_file():
        raise ValueError(f"{path} is not a file")


def create_bundle(
    bundle: Bundle,
    data: Path,
    codes: Optional[Path],
    *,
    states: Sequence[Dict[str, Any]] = (),
    check: Optional[Callable[[Path], object]] = None,
    complete: Optional[Callable[[Bundle], None]] = None,
) -> Bundle:
    """Writes a bundle into its folder, which appears only when it is complete; nothing stays of one
    that fails.

    Args:
        bundle: what it shall say, apart from its models, codes and rules.
        data: folder with its dictionaries.
        codes: file that is copied, or None.
        states: of its checkpoints; without any PyTorch is not loaded.
        check: called with the complete folder before it gets its name; an error of its means that
            the bundle is not made.
        complete: adds files and lists them in the bundle, whose folder is then the one in which it
            is being made.

    Raises:
        ValueError: the folder exists, a file is missing, or the preparation of text is unknown.
        OSError: a file cannot be read or written.
    """
    folder = bundle.folder
    names = ["model.pt", *(f"model_{number}.pt" for number in range(2, len(states) + 1))]
    bundle.models = names[: len(states)]
    if codes is not None:
        require_file(codes)
        bundle.codes = "codes"
    # Raises for a preparation of text that is unknown, before anything is written.
    _ = bundle.recipe
    bundle.rules = "moses.json" if bundle.tokenizer == "moses" else None
    remove_leftovers(folder.absolute().parent, folder.name + ".")
    with new_folder(folder) as partial:
        with _errors_naming(folder, partial):
            _fill(partial, bundle, states, data, codes)
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
                f"{folder} cannot be made: {error.strerror}; does it exist already?"
            ) from error
    return bundle


@contextmanager
def _errors_naming(folder: Path, partial: Path) -> Iterator[None]:
    """Lets errors name a bundle's folder instead of the one it is made in, which is gone when the
    message is read."""
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
    place: Path, bundle: Bundle, states: Sequence[Dict[str, Any]], data: Path, codes: Optional[Path]
) -> None:
    """Writes the files of a bundle into the empty folder ``place``, all but its description."""
    for name, state in zip(bundle.models, states):
        plugin().save_checkpoint(state, place / name)
    for language in (bundle.source_lang, bundle.target_lang):
        try:
            shutil.copyfile(data / f"dict.{language}.txt", place / f"dict.{language}.txt")
        except FileNotFoundError as error:
            raise ValueError(f"{data} does not hold dict.{language}.txt: {error}") from error
    if codes is not None:
        shutil.copyfile(codes, place / "codes")
    if bundle.rules is not None:
        MosesRules.from_sacremoses(bundle.source_lang, bundle.target_lang).save(
            place / bundle.rules
        )


def _describe(place: Path, bundle: Bundle) -> None:
    """Writes what is known of a bundle."""
    document = {
        "format": FORMAT,
        **{key: value for key, value in asdict(bundle).items() if key != "folder"},
    }
    text = json.dumps(document, indent=1, ensure_ascii=False, default=str)
    (place / "bundle.json").write_text(text + "\n", encoding="utf-8")
    (place / "README.md").write_text(_card_text(bundle), encoding="utf-8")


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
