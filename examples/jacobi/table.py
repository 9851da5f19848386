"""The layout of Table 1 of the paper on Jacobi decoding, for imported models: BLEU and speed-up of
each decoding algorithm, language pair by language pair.

    python examples/jacobi/table.py --out runs/jacobi \\
        --test Opus opus-mt-en-de test.en test.de \\
        --test MBart50 mbart-large-50-many-to-many-mmt test.en test.de en de

Each --test is a name, a folder (a bundle, or what fairseq-hrt import takes), raw source lines, and
their references; multilingual models need two languages besides. Tests of one name share rows. All
lines are translated for BLEU, --speed-lines of them are timed one sentence at a time, the
algorithms in turns. A cell is BLEU / how many times as fast as greedy search of the same engine /
how many times fewer decoder passes it takes. The table goes to the standard output and into
--out/table.md, everything that was measured into --out/table.json.
"""

import argparse
import json
import logging
import shlex
import sys
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "measure"))
from timed_rows import Clock, Row

from fairseq_hrt.cli.settings import read_settings
from fairseq_hrt.evaluation.comparison import processor
from fairseq_hrt.evaluation.quality import evaluate, read_lines
from fairseq_hrt.evaluation.speed import measure
from fairseq_hrt.native.bundles.bundle import load_bundle
from fairseq_hrt.native.bundles.pretrained import from_pretrained
from fairseq_hrt.native.bundles.translator import Translator
from fairseq_hrt.native.conversion import Wishes, import_model
from fairseq_hrt.native.options.schema import EVERY_TASK, FAIRSEQ, NATIVE_MODES, SCHEMA
from fairseq_hrt.native.options.values import read_value

GREEDY = "Greedy autoregressive"
JACOBI: Dict[str, Dict[str, Any]] = {
    "PJ": {"jacobi_mode": "pj"},
    "PGJ (b=5)": {"jacobi_mode": "pgj", "jacobi_block_size": 5},
    "PGJ (b=3)": {"jacobi_mode": "pgj", "jacobi_block_size": 3},
    "HGJ (b=3)": {"jacobi_mode": "hgj", "jacobi_block_size": 3},
    # Ours: a window that slides.
    "Frontier (ours)": {"jacobi_mode": "frontier"},
}
ALGORITHMS: Dict[str, Dict[str, Any]] = {
    GREEDY: {"beam": 1},
    "Beam search (5)": {"beam": 5},
    **{
        name: {"beam": 1, "task": "translation_jacobi", **options}
        for name, options in JACOBI.items()
    },
}
ENGINES = {"torch": "PyTorch", "native": "native"}
# What is chosen by other options of this command, or by the row.
NOT_OF_ROWS = ("device", "engine", "task", "threads", "use_shortlist")
# The paper's own modes are PyTorch's alone.
OF_ENGINE = {
    "torch": list(ALGORITHMS),
    "native": [
        name
        for name, options in ALGORITHMS.items()
        if options.get("jacobi_mode", "frontier") in NATIVE_MODES
    ],
}


def own_settings(algorithm: str, settings: Mapping[str, str]) -> Dict[str, str]:
    """The settings that have an effect on an algorithm and are not what it consists of."""
    row = ALGORITHMS[algorithm]
    origins = (FAIRSEQ, EVERY_TASK, *(["jacobi"] if "task" in row else []))
    found = {name: settings[name] for name in settings if name not in {*SCHEMA, *NOT_OF_ROWS}}
    values: Dict[str, Any] = {}
    # Options stand behind those that their conditions depend on.
    for name, option in SCHEMA.items():
        values[name] = row.get(name, option.default)
        works = option.when is None or option.when.holds(values)
        if name in settings and name not in row and option.origin in origins and works:
            found[name] = settings[name]
            if settings[name] != "false":
                values[name] = read_value(name, settings[name])
    return found


def require_effects(settings: Mapping[str, str], engines: Sequence[str]) -> None:
    """Raises ValueError if no row of these engines has an option."""
    shown = {name for engine in engines for name in OF_ENGINE[engine]}
    used = {name for row in shown for name in own_settings(row, settings)}
    for name, value in settings.items():
        if name not in used:
            raise ValueError(
                f"--set {name}={value}: no algorithm of {' and '.join(engines)} has this option, or"
                " each sets it itself; leave it out"
            )


def measure_engine(
    translator: Translator,
    algorithms: Sequence[str],
    lines: Sequence[str],
    references: Sequence[str],
    settings: Dict[str, str],
    given: argparse.Namespace,
) -> List[Dict[str, Any]]:
    """What each algorithm does with one model on one engine; the first is greedy search."""
    systems, found = [], []
    for name in algorithms:
        own = own_settings(name, settings)
        way = partial(translator.translate, batch_size=1, **{**own, **ALGORITHMS[name]})
        # One sentence at a time, raw text to raw text.
        systems.append(Row(name, [[line] for line in lines], way, Clock()))
        found.append(way(lines, details=True))
    count = min(given.speed_lines, len(lines))
    # Spread over the text.
    batches = [[number * len(lines) // count] for number in range(count)]
    timings = measure(systems, batches, repeats=given.repeats)
    steps = [sum(one.steps for one in own) for own in found]
    texts = [[one.text for one in own] for own in found]
    rows = []
    for system, own_steps, own in zip(systems, steps, texts):
        quality = evaluate(own, references)
        rows.append(
            {
                "algorithm": system.name,
                "settings": own_settings(system.name, settings),
                "bleu": quality.bleu,
                "signature": quality.bleu_signature,
                "speed_up": asdict(timings[system.name].ratio_to(timings[GREEDY])),
                "milliseconds": timings[system.name].mean_milliseconds(),
                "steps": own_steps,
                "step_ratio": steps[0] / max(own_steps, 1),
                "as_greedy": sum(map(str.__eq__, own, texts[0])),
                "sentences": len(own),
            }
        )
    return rows


def run_test(
    test: Sequence[str], settings: Dict[str, str], given: argparse.Namespace
) -> List[Dict[str, Any]]:
    """The rows of one ``--test``.

    Raises:
        ValueError: it does not have what it needs.
    """
    if len(test) not in (4, 6):
        raise ValueError(
            f"--test {' '.join(test)}: give NAME MODEL SOURCES REFERENCES, and for a multilingual"
            " model its two languages"
        )
    name, folder, languages = test[0], Path(test[1]), test[4:] or (None, None)
    lines, references = (read_lines(Path(file)) for file in test[2:4])
    if not lines or len(lines) != len(references):
        raise ValueError(
            f"{test[2]} has {len(lines)} lines and {test[3]} has {len(references)}: give a"
            " reference for each line, one at least"
        )
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        if not (folder / "bundle.json").is_file():
            kind = "float32" if "native" in given.engines else None
            wishes = Wishes(languages[0], languages[1], runtime=kind)
            folder = import_model(folder, Path(temporary) / "bundle", wishes).folder
        elif languages[0] is not None:
            raise ValueError(f"--test {name}: {folder} is a bundle, which has its languages")
        bundle = load_bundle(folder, for_runtime=True)
        for engine in given.engines:
            if engine == "native" and bundle.runtime is None:
                continue
            print(f"{name}, {bundle.source_lang}-{bundle.target_lang}, {engine}", file=sys.stderr)
            translator = from_pretrained(folder, device="cpu", engine=engine, threads=given.threads)
            shared = {
                "model": name,
                "direction": f"{bundle.source_lang}-{bundle.target_lang}",
                "engine": engine,
            }
            found = measure_engine(
                translator, OF_ENGINE[engine], lines, references, settings, given
            )
            rows += [{**shared, **row} for row in found]
    return rows


def table(rows: Sequence[Dict[str, Any]]) -> str:
    """In Markdown: algorithms below each other, directions beside each other."""
    directions = list(dict.fromkeys(row["direction"] for row in rows))
    cells = {
        (row["model"], row["engine"], row["algorithm"], row["direction"]): (
            f"{row['bleu']:.2f} / {row['speed_up']['median']:.2f}× / {row['step_ratio']:.2f}×"
        )
        for row in rows
    }
    written = [
        f"| model, engine | algorithm | {' | '.join(directions)} |",
        "| --- | --- |" + " --- |" * len(directions),
    ]
    for model, engine, algorithm in dict.fromkeys(key[:3] for key in cells):
        own = [cells.get((model, engine, algorithm, direction), "–") for direction in directions]
        written.append(f"| {model}, {ENGINES[engine]} | {algorithm} | {' | '.join(own)} |")
    signatures = ", ".join(dict.fromkeys(f"`{row['signature']}`" for row in rows))
    written += ["", f"BLEU / speed-up in time / in decoder passes. BLEU: {signatures}."]
    having: Dict[str, List[str]] = {}
    for row in rows:
        for name, value in row["settings"].items():
            having.setdefault(f"{name}={value}", []).append(row["algorithm"])
    algorithms = {row["algorithm"] for row in rows}
    for setting, own in having.items():
        # In the order of the table.
        names = "" if set(own) == algorithms else f": {', '.join(dict.fromkeys(own))} alone"
        written.append(f"With `--set {setting}`{names}.")
    return "\n".join(written) + "\n"


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--test", action="append", nargs="+", required=True, metavar="WORD",
        help="NAME MODEL SOURCES REFERENCES [SOURCE_LANGUAGE TARGET_LANGUAGE]; repeatable",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument(
        "--engines", nargs="+", choices=ENGINES, default=list(ENGINES),
        help="native: where a bundle has its model (default: both)",
    )  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE",
        help="a decoding option of the algorithms that have it, e.g. max_len_a=1.5; repeatable",
    )  # fmt: skip
    for name, default, explanation in (
        ("--speed-lines", 100, "lines that are timed, spread over the text"),
        ("--repeats", 5, "of the timing"),
        ("--threads", 1, "of each engine"),
    ):
        parser.add_argument(
            name, type=int, default=default, metavar="N", help=f"{explanation} (default: {default})"
        )
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = build_parser()
    given = parser.parse_args(arguments)
    for name in ("speed_lines", "repeats", "threads"):
        if getattr(given, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(given, name)}: give 1 or more")
    try:
        settings = read_settings(given.set)
        require_effects(settings, given.engines)
        rows = [row for test in given.test for row in run_test(test, settings, given)]
        if not rows:
            raise ValueError(
                "--engines native: none of the bundles has a model for it; make them with --runtime"
            )
        given.out.mkdir(parents=True, exist_ok=True)
        written = table(rows)
        words = sys.argv[1:] if arguments is None else arguments
        contents = {
            "command": shlex.join(["python", "examples/jacobi/table.py", *words]),
            "machine": processor(),
            "threads": given.threads,
            "rows": rows,
        }
        (given.out / "table.md").write_text(written, encoding="utf-8")
        (given.out / "table.json").write_text(
            json.dumps(contents, indent=1) + "\n", encoding="utf-8"
        )
    except (OSError, ValueError) as error:
        parser.error(str(error))
    sys.stdout.write(written)


if __name__ == "__main__":
    logging.disable(logging.INFO)
    main()
