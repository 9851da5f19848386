"""How the time and the memory of translating and distilling a corpus grow with its lines, and how
long a run that was killed needs until it writes new ones.

    FAMILIES="" bash examples/quickstart.sh
    python examples/scale/corpus_growth.py runs/quickstart --work work --lines 1000000 10000000 \\
        --part translate --out growth

A model of one layer and width 64 is trained on the quickstart's data, so that a line costs little
besides what is made of its text. Lines are short sentences of the quickstart's corpus; one of seven
has a word of its own, so that there are ever more different words. Parts:

    translate   fairseq-hrt translate --resume: uninterrupted, and killed at 10 and 90 % of the file
    distill     fairseq-hrt distill of the same, made binary by fairseq-preprocess, in the same way
    shortlist   fairseq-hrt shortlist of the lines and their translations

--out has all figures, corpora.json, and a picture of them, corpora.svg; what another start wrote
there of other parts or numbers of lines stays. Needs Linux, some 2 GB of disk for each million
lines, and about 40 microseconds a line and run.
"""

import argparse
import json
import os
import shutil
from itertools import islice
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import numpy as np
from watched import Watched, watch

# Longest line of the corpus that is taken, in words.
SHORT = 8
SYLLABLES = [first + second for first in "bdfgklmnprstv" for second in "aeiou"]
# Random numbers that are drawn together.
DRAWN = 1 << 16
# Where runs are killed, in parts of the corpus.
KILLED = (0.1, 0.9)
LANGUAGES = ("en", "de")
TRAINING = (
    "--task translation --arch transformer --share-all-embeddings --dropout 0"
    " --encoder-layers 1 --encoder-embed-dim 64 --encoder-ffn-embed-dim 128"
    " --encoder-attention-heads 2 --decoder-layers 1 --decoder-embed-dim 64"
    " --decoder-ffn-embed-dim 128 --decoder-attention-heads 2"
    " --criterion autoregressive_loss --label-smoothing 0.1 --optimizer adam --clip-norm 1.0"
    " --lr-scheduler polynomial_decay --lr 0.008 --warmup-updates 100 --total-num-update 700"
    " --max-update 700 --max-tokens 2000 --num-workers 0 --no-epoch-checkpoints"
    " --disable-validation --log-format simple --seed 1"
).split()
DECODING = {"beam": "1", "max_len_a": "1.2", "max_len_b": "6"}


def invented(number: int) -> str:
    """A word that no corpus has, for each number from 1."""
    parts = []
    while number:
        number, syllable = divmod(number, len(SYLLABLES))
        parts.append(SYLLABLES[syllable])
    return "".join(parts) + "x"


def generated(sentences: Sequence[Sequence[str]], count: int, seed: int) -> Iterator[str]:
    """Lines; fewer are the first ones of more."""
    generator, made = np.random.default_rng(seed), 0
    while made < count:
        drawn = (
            generator.integers(0, len(sentences), DRAWN),
            # As in any language: few words come often, and new ones never end.
            np.minimum(generator.zipf(1.3, DRAWN), 1 << 40),
            generator.integers(0, 6 * SHORT, DRAWN),
        )
        rows = zip(*(values.tolist() for values in drawn))
        for sentence, word, place in islice(rows, count - made):
            words = sentences[sentence]
            if place < len(words) - 1:
                words = [*words[:place], invented(word), *words[place + 1 :]]
            yield " ".join(words)
        made += DRAWN


def write_text(given: argparse.Namespace, count: int) -> Path:
    """The corpus of so many lines."""
    path = given.work / f"text.{count}"
    if not path.exists():
        lines = (given.quickstart / "corpus" / "train.en").read_text(encoding="utf-8").split("\n")
        short = [line.split() for line in lines if 0 < len(line.split()) <= SHORT]
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in generated(short, count, given.seed))
    return path


def make_model(given: argparse.Namespace) -> None:
    """``work/model`` and ``work/bundle``."""
    data = str(given.quickstart / "data-bin")
    model, bundle = given.work / "model", given.work / "bundle"
    if not (model / "checkpoint_last.pt").exists():
        folder = ["--save-dir", str(model), "--user-dir", "fairseq_hrt"]
        run(given, ["fairseq-train", data, *folder, *TRAINING])
    if not bundle.exists():
        options = [f"--set={name}={value}" for name, value in DECODING.items()]
        run(
            given,
            ["fairseq-hrt", "bundle", str(model / "checkpoint_last.pt"), "--data", data, "--codes",
             str(given.quickstart / "bpe" / "codes"), "--runtime", "int8", "--output", str(bundle),
             *options],
        )  # fmt: skip


def run(
    given: argparse.Namespace, command: Sequence[str], kill_at: Optional[int] = None, **more: Any
) -> Watched:
    """Runs a command that must not fail."""
    shown = " ".join(command).replace(str(given.work), "work")
    print(shown.replace(str(given.quickstart), "quickstart"), flush=True)
    found = watch(command, log=given.work / "log", kill_at=kill_at, **more)
    if found.status not in (0, 0 if kill_at is None else -9):
        raise SystemExit(f"exit status {found.status}: {given.work / 'log'} has its messages")
    print(f"  {found.seconds:.1f} s, cpu {found.cpu:.1f} s, {found.own_peak:.0f} MB")
    return found


def curve(found: Watched, lines: int) -> Dict[str, Any]:
    """What is kept of an uninterrupted run: processor seconds and memory at each tenth."""
    places = [found.at(lines * part / 10) for part in range(1, 11)]
    return {
        "lines": lines,
        "seconds": round(found.seconds, 1),
        "cpu": round(found.cpu, 1),
        "MB": round(found.own_peak),
        "cpu at tenths": [round(place.cpu, 1) for place in places],
        "MB at tenths": [round(place.memory) for place in places],
    }


def continued(
    given: argparse.Namespace,
    command: Sequence[str],
    states: Sequence[Callable[[], None]],
    done: Callable[[], int],
) -> List[Dict[str, Any]]:
    """For each state of a run, which is made first: continues it, kills it when it has written new
    lines, and starts it again; of the last state to the end."""
    found = []
    for number, restore in enumerate(states, start=1):
        restore()
        run(given, command, done=done, kill_at=done() + 1)
        killed = done()
        kill_at = None if number == len(states) else killed + 1
        again = run(given, command, done=done, kill_at=kill_at)
        new = again.first_after(killed) or again.samples[-1]
        found.append({"killed at": killed, "seconds": round(new.seconds, 2),
                      "cpu": round(new.cpu, 2)})  # fmt: skip
    return found


def notes_of(target: Path) -> Path:
    """What a run that can be continued notes beside its output."""
    return target.with_name(f"{target.name}.partial.json")


def translating(given: argparse.Namespace, text: Path, target: Path) -> List[str]:
    """The command that translates the lines."""
    return ["fairseq-hrt", "translate", str(given.work / "bundle"), str(text), "-o", str(target),
            "--resume", "--quiet", "--threads", str(given.threads)]  # fmt: skip


def translate(given: argparse.Namespace, lines: int) -> Dict[str, Any]:
    """The verb's curve, and its continuing."""
    text = write_text(given, lines)
    plain, killed = given.work / f"plain.{lines}", given.work / f"killed.{lines}"
    places = [place * lines for place in KILLED]
    states: List[Callable[[], None]] = []

    def lines_of(target: Path) -> int:
        try:
            return int(json.loads(notes_of(target).read_bytes())["lines"])
        except (OSError, ValueError):
            return lines if target.exists() else 0

    def watched() -> int:
        done = lines_of(plain)
        if places[len(states) :] and done >= places[len(states)] and notes_of(plain).exists():
            states.append(kept(plain, killed, given.work / f"state.{lines}.{len(states)}"))
        return done

    found = curve(run(given, translating(given, text, plain), done=watched), lines)
    command = translating(given, text, killed)
    again = continued(given, command, states, lambda: lines_of(killed))
    same = plain.read_bytes() == killed.read_bytes()
    killed.unlink()
    return {**found, "continued": again, "same bytes": same}


def kept(plain: Path, killed: Path, place: Path) -> Callable[[], None]:
    """Copies what a kill would leave of a run now, notes first, for they never say more than there
    is; returns what makes it the state of another run."""
    pairs = [
        (path, Path(f"{place}{path.name[len(plain.name) :]}"))
        for path in (notes_of(plain), notes_of(plain).with_suffix(""))
    ]
    for path, copy in pairs:
        shutil.copyfile(path, copy)

    def restore() -> None:
        for path, copy in pairs:
            copy.replace(killed.with_name(killed.name + path.name[len(plain.name) :]))

    return restore


def make_data(given: argparse.Namespace, lines: int) -> Path:
    """The lines and their translations, binary."""
    from fairseq_hrt.native.bundles.bundle import load_bundle

    folder = given.work / f"data.{lines}"
    if (folder / "data-bin").exists():
        return folder / "data-bin"
    folder.mkdir(exist_ok=True)
    bundle = load_bundle(given.work / "bundle")
    texts = (write_text(given, lines), given.work / f"plain.{lines}")
    if not texts[1].exists():
        run(given, translating(given, *texts))
    for path, language, pipeline in zip(
        texts, LANGUAGES, (bundle.pipeline(), bundle.target_pipeline())
    ):
        made = folder / f"train.{language}"
        with open(path, encoding="utf-8") as source, open(made, "w", encoding="utf-8") as target:
            target.writelines(" ".join(pipeline.words(line)) + "\n" for line in source)
    words = [f"--{side}dict={given.quickstart / 'data-bin'}/dict.{language}.txt"
             for side, language in zip(("src", "tgt"), LANGUAGES)]  # fmt: skip
    run(
        given,
        ["fairseq-preprocess", "--source-lang", LANGUAGES[0], "--target-lang", LANGUAGES[1],
         "--trainpref", str(folder / "train"), *words, "--destdir", str(folder / "data-bin")],
    )  # fmt: skip
    for language in LANGUAGES:
        (folder / f"train.{language}").unlink()
    return folder / "data-bin"


def distill(given: argparse.Namespace, lines: int) -> Dict[str, Any]:
    """The verb's curve, and its continuing."""
    data = make_data(given, lines)
    system = {
        "name": "teacher", "path": str(given.work / "model" / "checkpoint_last.pt"),
        "task": "translation_autoregressive", "engine": "native", "weights": "int8", **DECODING,
    }  # fmt: skip
    plain, killed = (given.work / f"{name}-distilled.{lines}" for name in ("plain", "killed"))

    def command(folder: Path) -> List[str]:
        named = ",".join(f"{name}={value}" for name, value in system.items())
        return ["fairseq-hrt", "distill", str(data), "--out", str(folder), "--system", named,
                "--threads", str(given.threads)]  # fmt: skip

    def lines_of(folder: Path) -> int:
        # Blocks of distill's own size.
        blocks = folder / "blocks"
        names = os.listdir(blocks) if blocks.exists() else []
        return min(lines, 1000 * sum(name.endswith(".json") for name in names))

    def state(part: float) -> Callable[[], None]:
        def restore() -> None:
            (killed / "blocks").mkdir(parents=True, exist_ok=True)
            shutil.copyfile(plain / "settings.json", killed / "settings.json")
            for number in range(int(part * lines) // 1000):
                name = f"blocks/{number:06}.json"
                shutil.copyfile(plain / name, killed / name)

        return restore

    whole = run(given, command(plain), done=lambda: lines_of(plain))
    found = {**curve(whole, lines), "cpu of translating": round(whole.at(lines).cpu, 1),
             "MB of fairseq-preprocess": round(whole.children_peak)}  # fmt: skip
    again = continued(given, command(killed), [*map(state, KILLED)], lambda: lines_of(killed))
    same = all(
        (plain / name).read_bytes() == (killed / name).read_bytes()
        for name in ("train.en", "train.de", "data-bin/train.en-de.de.bin")
    )
    for folder in (plain, killed):
        shutil.rmtree(folder)
    return {**found, "continued": again, "same bytes": same}


def shortlist(given: argparse.Namespace, lines: int) -> Dict[str, Any]:
    """The verb's time and memory."""
    data, table = make_data(given, lines), given.work / "lex.txt"
    command = ["fairseq-hrt", "shortlist", str(data), "--output", str(table)]
    found = run(given, [*command, "--sentences", str(lines)])
    table.unlink()
    return {"lines": lines, "seconds": round(found.seconds, 1), "cpu": round(found.cpu, 1),
            "MB": round(found.own_peak)}  # fmt: skip


PARTS: Dict[str, Callable[[argparse.Namespace, int], Dict[str, Any]]] = {
    "translate": translate, "distill": distill, "shortlist": shortlist,
}  # fmt: skip


def draw(found: Dict[str, Dict[str, Dict[str, Any]]], path: Path) -> None:
    """Processor time by lines, memory on the way, and time until a killed run writes new lines."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "corpora", "font.size": 9})
    figure, (time, memory, again) = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for part, by_lines in found.items():
        rows = sorted(by_lines.values(), key=lambda row: row["lines"])
        style = {"marker": "o", "markersize": 3, "label": part}
        time.loglog([row["lines"] for row in rows], [row["cpu"] for row in rows], **style)
        killed = [
            (one["killed at"], one["cpu"]) for row in rows for one in row.get("continued", ())
        ]
        if killed:
            done = [rows[-1]["lines"] * tenth / 10 for tenth in range(1, 11)]
            memory.plot(done, rows[-1]["MB at tenths"], **style)
            again.semilogx(*zip(*sorted(killed)), **style)
    for panel, below, beside in (
        (time, "lines", "processor seconds"),
        (memory, "lines that are translated", "MB"),
        (again, "lines translated when it was killed", "processor seconds until new ones"),
    ):
        panel.set(xlabel=below, ylabel=beside)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=7)
    memory.set_ylim(bottom=0)
    again.set_ylim(bottom=0)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main(arguments: Any = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("quickstart", type=Path, help="OUT of examples/quickstart.sh")
    parser.add_argument("--work", type=Path, required=True, metavar="FOLDER", help="is filled")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=[*PARTS], help="(all)")
    parser.add_argument("--lines", nargs="+", type=int, default=[100_000, 1_000_000], metavar="N")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(%(default)s)")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="see above")
    given = parser.parse_args(arguments)
    if min(given.lines) < 10:
        parser.error(f"--lines {min(given.lines)}: give 10 or more")
    for folder in (given.work, given.out):
        folder.mkdir(parents=True, exist_ok=True)
    make_model(given)
    figures = given.out / "corpora.json"
    # By part and number of lines, which JSON has as text.
    found = json.loads(figures.read_bytes()) if figures.exists() else {}
    for part in given.part:
        for lines in given.lines:
            row = found.setdefault(part, {})[str(lines)] = PARTS[part](given, lines)
            print(json.dumps(row), flush=True)
            figures.write_text(json.dumps(found, indent=1) + "\n")
            draw(found, given.out / "corpora.svg")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
