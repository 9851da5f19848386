"""Reads folders with models of Marian, as published by Firefox, translateLocally and OPUS-MT: the
models, the vocabularies and the shortlist.

A decoder's configuration (``config.yml`` or the like) may name these files; otherwise they are
found by their names.
"""

import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from ..io.escaping import shown
from ..text.pipeline import target_tokens
from .converted import Converted
from .hugging_face import chosen_token
from .marian_model import convert_model, rows_of
from .marian_shortlist import is_binary, read_binary, read_table
from .marian_tensors import read_tensors
from .plain_files import Settings, beside, parse_yaml, read_json, read_text
from .tensors import Tensors
from .vocabularies import Vocabulary, load_sentencepiece, marian_vocabulary

MODELS = (".npz", ".bin")
# Names of decoder configurations; other YAML files come from training.
_CONFIGURATION = re.compile(r"(config|decoder|.*\.decoder)(\.[\w.-]+)?\.ya?ml")
_VOCABULARY = re.compile(r".*vocab.*\.(spm|ya?ml|txt|json)")
# Two languages, and a dash before the type of the model.
_SHORT_NAME = re.compile(r"([a-z]{2,3}(?:_[A-Za-z]{2,4})?)-([a-z]{2,3}(?:_[A-Za-z]{2,4})?)-")

# Options of a decoder's configuration (marian-decoder and bergamot-translator) that are read.
_READ = frozenset(
    """
    allow-unk beam-size max-length-factor models normalize shortlist skip-cost vocabs word-penalty
    """.split()
)
# Options that change translations, or what stands in a line of input or output: permitted only
# where they are off.
_OFF = frozenset(
    """
    allow-special force-decode ignore-model-config max-length-crop no-spm-decode no-spm-encode
    output-approx-knn output-sampling tsv
    """.split()
)
# How YAML writes that an option is off.
_NO = ("", "~", "null", "n", "no", "off", "false")
# Options that do not change translations: files and messages, batches, how numbers are computed,
# where a text is split. Without max-length-crop, max-length has no effect.
_HARMLESS = frozenset(
    """
    alignment authors bergamot-mode build-info cache-size cache-translations check-bytearray
    check-nan cite cpu-threads devices dump-quantmult fp16 gemm-precision gemm-type input
    interpolate-env-vars int16 int8 int8Alpha int8shift int8shiftAll int8shiftAlpha
    int8shiftAlphaAll log log-level log-time-zone max-length max-length-break maxi-batch
    maxi-batch-sort mini-batch mini-batch-words model-mmap n-best num-devices optimize output port
    precision quality quantize-range quiet quiet-translation relative-paths seed
    source-language ssplit-mode ssplit-prefix-file stat-freq target-language tsv-fields
    use-legacy-batching version word-scores workspace
    """.split()
)
# Options that describe the model, which Marian takes from the model's own description instead.
_DESCRIBING = re.compile(
    "(bert|char|dec|dim|enc|factors|lemma|tied|transformer|ulr)-.*|best-deep|input-types"
    "|layer-normalization|output-omit-bias|right-left|skip|type|ulr"
)


def is_marian(folder: Path) -> bool:
    """Whether a folder holds a file with the name of a Marian model, ``.npz`` or ``.bin``."""
    return bool(_models_in(folder))


def read_marian(source: Path, languages: Tuple[Optional[str], Optional[str]]) -> Converted:
    """Reads and converts a model of Marian.

    Args:
        source: the model's folder, or the model file in it.
        languages: names of source and target language; None: taken from ``model_info.json``.

    Raises:
        ValueError: a file is missing or damaged, or the model has a part that cannot be imported;
            the message names the file.
    """
    folder = source if source.is_dir() else source.parent
    named = _Named(folder, source)
    vocabularies, read = None, []
    for path in named.models:
        stored = read_tensors(path)
        config = Settings(_description(path, stored.config), path)
        tensors = Tensors(stored.arrays, path, stored.steps)
        rows = rows_of(tensors, config)
        own = tuple(
            marian_vocabulary(vocabulary, size)
            for vocabulary, size in zip(named.vocabularies, rows)
        )
        if vocabularies is not None and own != vocabularies:
            raise ValueError(
                f"{path} does not have as many words as {named.models[0]}: models of an ensemble"
                " need the same vocabularies; give the path of one model"
            )
        vocabularies = own
        read.append(convert_model(tensors, config, *own))
    assert vocabularies is not None
    spm = [path if path.suffix == ".spm" else None for path in named.vocabularies]
    packed = spm == [None, None] and (folder / "source.spm").is_file()
    if packed:
        # OPUS-MT's own packages: the vocabulary is YAML. Punctuation was normalised and the text
        # segmented before training (preprocess.sh).
        spm = [
            path if path.is_file() else None
            for path in (folder / "source.spm", folder / "target.spm")
        ]
    if (spm[0] is None) != (spm[1] is None):
        raise ValueError(
            f"{folder} has a SentencePiece model (.spm) for one language only: put the other one"
            " beside it"
        )
    prefix = None
    tokens = target_tokens(vocabularies[0].words)
    if tokens:
        prefix, name = chosen_token(tokens, languages[1], "--target-language", folder)
        languages = languages[0], name
        if spm[0] == named.vocabularies[0]:
            prefix = _subwords(prefix, spm[0])
    return Converted(
        models=read,
        languages=_languages(folder, languages),
        source=vocabularies[0],
        target=vocabularies[1],
        tokenizer="moses-punctuation" if packed else "space",
        subwords="none" if spm[0] is None else "sentencepiece",
        codes=spm[0],
        target_codes=None if spm[1] == spm[0] else spm[1],
        source_prefix=prefix,
        decoding=named.decoding(),
        card={"imported from": f"Marian: {', '.join(path.name for path in named.models)}"},
        shortlist=named.candidates(*vocabularies),
    )


def _subwords(token: str, spm: Path) -> str:
    """The subwords with which sources begin that have a language token, separated by spaces: Marian
    segments token and text together, so that ``▁`` precedes a token that is one of the pieces."""
    words = load_sentencepiece(spm).encode(token, out_type=str)
    return " ".join(words[: words.index(token) + 1]) if token in words else token


def _models_in(folder: Path) -> List[Path]:
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix in MODELS
        and path.is_file()
        # Not shortlists, nor other files of Hugging Face's and training folders.
        and not re.match(
            r"lex\b|.*s2t|.*optimizer|.*\.ema\b|pytorch_model|.*training|rust_model|spiece|tf_model",
            path.name,
        )
    )


class _Named:
    """Finds the files in ``folder`` that belong to one model or ensemble. ``source`` is the path
    that the user gave: the folder, or a model in it.

    Attributes:
        settings: the options of the decoder's configuration file; empty if there is none.
        models: the path of the model, or the paths of the models of an ensemble.
        vocabularies: the paths of the source and the target vocabulary, perhaps the same.
        shortlist: the path of a binary shortlist or lexical table, or None.
    """

    def __init__(self, folder: Path, source: Path) -> None:
        self.settings = Settings({}, folder)
        found = sorted(
            path
            for path in folder.iterdir()
            if _CONFIGURATION.fullmatch(path.name) and path.is_file()
        )
        if len(found) > 1:
            raise ValueError(
                f"{folder} has {len(found)} configurations"
                f" ({', '.join(path.name for path in found)[:200]}): leave only one of these there"
            )
        if found:
            values = parse_yaml(read_text(found[0]), found[0])
            if not isinstance(values, dict):
                raise ValueError(
                    f"{found[0]} is not a configuration of Marian, a table of options and values:"
                    f" it holds {shown(values)}"
                )
            self.settings = Settings(values, found[0])
            _require_known(self.settings)
        self.folder = folder
        self.models = [source] if source.is_file() else self._files("models") or self._only_model()
        if len(set(self.models)) < len(self.models):
            raise ValueError(
                f"{self.settings.subject} names a model twice: list each model of the ensemble once"
                " under models"
            )
        self.vocabularies = self._files("vocabs") or self._vocabularies()
        if len(self.vocabularies) == 1:
            self.vocabularies *= 2
        if len(self.vocabularies) != 2:
            raise ValueError(
                f"{self.settings.subject} names {len(self.vocabularies)} vocabularies: list one for"
                " both languages, or two, under vocabs"
            )
        self.shortlist = self._shortlist()

    def _files(self, name: str) -> List[Path]:
        """The paths of the files that the configuration lists under ``name``; empty if it lists
        none. Folders in its list are ignored, since they are those of the machine where it was
        written: the files must be in the model's folder."""
        names = self.settings.values.get(name, [])
        names = [names] if isinstance(names, str) and names else names
        if (
            not isinstance(names, list)
            or len(names) > 64
            or not all(isinstance(one, str) for one in names)
        ):
            raise ValueError(
                f"{self.settings.subject} has {name}: {shown(names)}; it must be a list of files,"
                " at most 64"
            )
        return [self._file(one) for one in names]

    def _file(self, name: str) -> Path:
        return beside(
            self.folder, name.replace("\\", "/").rpartition("/")[2], self.settings.subject
        )

    def _only_model(self) -> List[Path]:
        models = _models_in(self.folder)
        if len(models) != 1:
            raise ValueError(
                f"{self.folder} has {len(models)} models"
                f" ({', '.join(path.name for path in models)[:200]}): give the path of one"
            )
        return models

    def _vocabularies(self) -> List[Path]:
        files = sorted(path for path in self.folder.iterdir() if path.is_file())
        found = [path for path in files if _VOCABULARY.fullmatch(path.name)] or [
            path for path in files if path.suffix == ".spm"
        ]
        if len(found) == 2:
            # Sort source before target by their names.
            found.sort(key=lambda path: (bool(re.search(r"trg|tgt|target", path.name)), path.name))
            if not re.search(r"src|source", found[0].name) or not re.search(
                r"trg|tgt|target", found[1].name
            ):
                raise ValueError(
                    f"{self.folder} has the vocabularies {found[0].name} and {found[1].name}: say"
                    " which is the source's by vocabs: [SOURCE, TARGET] in a config.yml beside"
                    " them"
                )
        if not 1 <= len(found) <= 2:
            raise ValueError(
                f"{self.folder} has {len(found)} vocabularies"
                f" ({', '.join(path.name for path in found)[:200]}): a model needs one (vocab.spm,"
                " vocab.yml) or two; name them by vocabs: [SOURCE, TARGET] in a config.yml beside"
                " them"
            )
        return found

    def _shortlist(self) -> Optional[Path]:
        given = self.settings.values.get("shortlist")
        if isinstance(given, list) and given and isinstance(given[0], str):
            return self._file(given[0])
        found = sorted(path for path in self.folder.glob("lex*.bin") if path.is_file())
        found = found or sorted(path for path in self.folder.glob("lex*.s2t*") if path.is_file())
        if len(found) > 1:
            raise ValueError(
                f"{self.folder} has {len(found)} shortlists"
                f" ({', '.join(path.name for path in found)[:200]}): leave only one of them there"
            )
        return found[0] if found else None

    def candidates(self, source: Vocabulary, target: Vocabulary) -> Optional[List[str]]:
        """Reads the shortlist of a model with the vocabularies ``source`` and ``target``, and
        returns it as lines of a ``vmap`` file (a source word, a tab, target words), see
        :func:`.marian_shortlist.read_binary`; None if there is no shortlist.

        Raises:
            ValueError: the shortlist is damaged or belongs to another model.
        """
        if self.shortlist is None:
            return None
        if is_binary(self.shortlist):
            return read_binary(self.shortlist, source, target)
        # The option's values are PATH FREQUENT BEST THRESHOLD.
        given = self.settings.values.get("shortlist")
        numbers = dict(
            zip(("first", "best", "threshold"), given[1:] if isinstance(given, list) else ())
        )
        settings = Settings(numbers, f"{self.settings.subject}: shortlist")
        return read_table(
            self.shortlist, source, target, frequent=settings.number("first", 100, least=0),
            best=settings.number("best", 100), least=settings.fraction("threshold", 0.0),
        )  # fmt: skip

    def decoding(self) -> Dict[str, str]:
        """Converts the configuration's decoding options to those of fairseq, {name: text};
        ValueError if one is invalid."""
        settings = self.settings
        factor = settings.fraction("max-length-factor", 3.0)
        if not 0 < factor <= 100:
            raise ValueError(
                f"{settings.subject} has max-length-factor: {factor:g}; it must be above 0 and at"
                " most 100"
            )
        found = {
            "beam": str(settings.number("beam-size", 12 if settings.values else 1, most=1000)),
            "max_len_a": f"{factor:g}",
            "max_len_b": "0",
            "min_len": "0",
            "lenpen": f"{settings.fraction('normalize', 0.0 if settings.values else 1.0):g}",
        }
        if settings.fraction("word-penalty", 0.0):
            raise ValueError(
                f"{settings.subject} has a word-penalty, which is not supported: remove it from"
                " that file"
            )
        if settings.switch("allow-unk"):
            found["unkpen"] = "0"
        # With skip-cost Marian compares hypotheses by logits; greedy search stays the same.
        if found["beam"] != "1" and not _is_off(settings.values.get("skip-cost", "")):
            raise ValueError(
                f"{settings.subject} has skip-cost with a beam-size of {found['beam']}, which is"
                " not supported: remove skip-cost from that file, or set beam-size to 1"
            )
        return found


def _require_known(settings: Settings) -> None:
    """Raises ValueError, which names the option, if a decoder's configuration has an option that
    might change translations and is not read."""
    if "train-sets" in settings.values:
        raise ValueError(
            f"{settings.subject} configures a training (it has train-sets): leave only the"
            " decoder's configuration beside the model"
        )
    for name, value in settings.values.items():
        known = name in _READ or name in _HARMLESS or _DESCRIBING.fullmatch(name) is not None
        if name in _OFF:
            known = _is_off(value)
        elif name == "weights":
            # Equal weights of an ensemble's models do not change which hypothesis is best.
            known = isinstance(value, list) and all(one == value[0] for one in value)
        if not known:
            raise ValueError(
                f"{settings.subject} has {shown(name)}: {shown(value)}, which this package does not"
                " support: remove it from that file if it does not change translations"
            )


def _is_off(value: Any) -> bool:
    return value == [] or (isinstance(value, str) and value.lower() in _NO)


def _description(path: Path, text: str) -> Dict[str, Any]:
    """Parses the options that describe a model, {name: value}: from ``text``, which the model file
    ``path`` holds, or if that is empty from the ``.yml`` file beside the model file."""
    place = path
    if not text:
        beside_it = (path.with_name(path.name + ".yml"), path.with_suffix(".yml"))
        place = next((one for one in beside_it if one.is_file()), path)
        if place == path:
            raise ValueError(
                f"{path} does not hold the model's description (special:model.yml): put this"
                f" description beside it as {path.name}.yml"
            )
        text = read_text(place)
    values = parse_yaml(text, place)
    if not isinstance(values, dict):
        raise ValueError(
            f"{place} does not describe a model by a table of options and values: it holds"
            f" {shown(values)}"
        )
    return values


def _languages(folder: Path, given: Tuple[Optional[str], Optional[str]]) -> Tuple[str, str]:
    """The names of source and target language: those in ``given``, or where that is None those in
    ``model_info.json``, which translateLocally's models have.

    File names are not used: ``model.base.npz`` and ``model.best.npz`` name no languages.

    Raises:
        ValueError: a language is neither given nor in that file.
    """
    path = folder / "model_info.json"
    told = _told(Settings(read_json(path), path)) if path.is_file() else (None, None)
    source, target = (own or other for own, other in zip(given, told))
    if source is None or target is None:
        raise ValueError(
            f"{folder}: its files do not name the languages: give --source-language and"
            " --target-language, e.g. en and de"
        )
    return source, target


def _told(info: Settings) -> Tuple[Optional[str], Optional[str]]:
    """The (source, target) language that a ``model_info.json`` (``info``) names, None where it
    names none: from ``srcTags``, if that has a single language, and ``trgTag``; in older files from
    the beginning of ``shortName`` (en-pt-tiny)."""
    tags = info.values.get("srcTags")
    source = next(iter(tags)) if isinstance(tags, dict) and len(tags) == 1 else None
    target = info.text("trgTag") or None
    short = _SHORT_NAME.fullmatch(info.text("shortName").removesuffix(info.text("type")))
    if short is not None:
        source, target = source or short[1], target or short[2]
    return source, target
