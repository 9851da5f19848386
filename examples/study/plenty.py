"""The data of «students from plenty»: English captions, their translations beside raw pairs, a
sample of pairs, and the better of two models.

    PLENTY=captions.en.gz python examples/study/plenty.py text EN_DE --lines 144541 --out FOLDER
    python examples/study/plenty.py mix EN_DE --translated DISTILLED --raw 3 --out FOLDER
    python examples/study/plenty.py take EN_DE --of DISTILLED/train --lines 1014 --out FOLDER
    python examples/study/plenty.py choose MODEL TUNED.json MODEL TUNED.json --out FOLDER

EN_DE is the folder of examples/multi30k/prepare.sh. ``text`` tokenises, splits into its subwords
and binarises with its dictionaries; there are no targets, so the sources stand for them, which
fairseq-hrt distill does not read. ``mix`` puts the pairs of EN_DE beside translations, --raw times.
``take`` makes a training set of some pairs, as far apart as can be, whose sources are not among the
training set of EN_DE.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List, Sequence

COMMON = Path(__file__).resolve().parents[1] / "common"


def run(name: str, *arguments: object) -> None:
    """Runs a program of the interpreter's own environment."""
    program = Path(sys.executable).with_name(name)
    subprocess.run([str(program), *map(str, arguments)], check=True)


def binarise(data: Path, out: Path) -> None:
    """Binarises ``out/train`` with the dictionaries of ``data``, beside its validation and test
    set."""
    dictionaries = [
        f"--{side}dict={data}/data-bin/dict.{language}.txt"
        for side, language in (("src", "en"), ("tgt", "de"))
    ]
    shutil.rmtree(out / "data-bin", ignore_errors=True)
    places = ["--trainpref", out / "train", "--destdir", out / "partial"]
    run("fairseq-preprocess", "-s", "en", "-t", "de", *places, *dictionaries)
    for path in (data / "data-bin").glob("*"):
        if not path.name.startswith(("train.", "dict.", "preprocess.log")):
            shutil.copy(path, out / "partial" / path.name)
    (out / "partial").rename(out / "data-bin")


def text(options: argparse.Namespace) -> None:
    """Captions as the sources of a training set.

    Raises:
        ValueError: no file is named, or it has another number of lines.
    """
    name = os.environ.get("PLENTY")
    if not name or not Path(name).is_file():
        raise ValueError(
            f"PLENTY={name or ''} names no file; give English captions, one a line, plain or gzip"
        )
    words, source = options.out / "words.en", options.out / "train.en"
    tokenize = [sys.executable, str(COMMON / "tokenize_text.py"), "--language", "en", name]
    with words.open("wb") as output:
        subprocess.run(tokenize, check=True, stdout=output)
    count = words.read_bytes().count(b"\n")
    if count != options.lines:
        raise ValueError(
            f"PLENTY={name} has {count} lines instead of {options.lines}; give the captions that"
            " the matrix means"
        )
    codes = options.data / "bpe/codes"
    run("subword-nmt", "apply-bpe", "--codes", codes, "--input", words, "--output", source)
    shutil.copy(source, options.out / "train.de")
    binarise(options.data, options.out)


def mix(options: argparse.Namespace) -> None:
    """Translations, then the raw pairs as often as asked for."""
    for name in ("train.en", "train.de"):
        translated, raw = (options.translated / name).read_bytes(), options.data / "bpe" / name
        (options.out / name).write_bytes(translated + raw.read_bytes() * options.raw)
    binarise(options.data, options.out)


def take(options: argparse.Namespace) -> None:
    """Some pairs of two files, as far apart as can be, but none whose source EN_DE learns from.

    Raises:
        ValueError: the files have too few of them, or not the same number of lines.
    """

    def lines(path: str) -> List[bytes]:
        return Path(path).read_bytes().split(b"\n")[:-1]

    sources, targets = lines(f"{options.of}.en"), lines(f"{options.of}.de")
    known = set(lines(str(options.data / "bpe/train.en")))
    pairs = [pair for pair in zip(sources, targets) if pair[0] not in known]
    if len(sources) != len(targets) or not 0 < options.lines <= len(pairs):
        raise ValueError(
            f"{options.of}.en and .de have {len(sources)} and {len(targets)} lines, {len(pairs)} of"
            f" them new pairs; give the same number of both, and --lines between 1 and that, not"
            f" {options.lines}"
        )
    chosen = [pairs[place * len(pairs) // options.lines] for place in range(options.lines)]
    for side, language in enumerate(("en", "de")):
        text = b"".join(pair[side] + b"\n" for pair in chosen)
        (options.out / f"train.{language}").write_bytes(text)
    binarise(options.data, options.out)


def choose(options: argparse.Namespace) -> None:
    """Copies the model whose best setting has most BLEU on the validation set."""
    pairs = list(zip(options.found[::2], options.found[1::2]))
    scores = [
        max(trial["bleu"] for trial in json.loads(tuned.read_text(encoding="utf-8"))["settings"])
        for _, tuned in pairs
    ]
    model = pairs[scores.index(max(scores))][0]
    print(
        f"{model}: {max(scores):.2f} BLEU, the best of"
        f" {', '.join(f'{score:.2f}' for score in scores)}"
    )
    shutil.copy(model, options.out / "model.pt")


def main(arguments: Sequence[str] = ()) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(required=True)
    for verb in (text, mix, take, choose):
        own = verbs.add_parser(verb.__name__, help=(verb.__doc__ or "").splitlines()[0])
        own.set_defaults(verb=verb)
        own.add_argument("--out", type=Path, required=True)
        if verb is choose:
            own.add_argument("found", type=Path, nargs="+", metavar="MODEL TUNED.json")
        else:
            own.add_argument("data", type=Path, metavar="EN_DE")
    for name in ("text", "take"):
        verbs.choices[name].add_argument("--lines", type=int, required=True)
    verbs.choices["mix"].add_argument("--translated", type=Path, required=True, metavar="DISTILLED")
    verbs.choices["mix"].add_argument("--raw", type=int, required=True)
    verbs.choices["take"].add_argument("--of", required=True, metavar="PREFIX")
    options = parser.parse_args(arguments)
    try:
        options.verb(options)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
