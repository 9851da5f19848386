"""README and recipes: their commands are what the real parsers accept, their stages resume, they
run."""

import fcntl
import functools
import gzip
import importlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fairseq import options
from recipe_scripts import COMPARE, EXAMPLES, ROOT, bash, begun, copied, until

from fairseq_hrt.cli.main import VERBS, module_of
from fairseq_hrt.evaluation.systems import generate_arguments, parse_system
from fairseq_hrt.evaluation.systems.ctranslate2_system import OPTIONS
from fairseq_hrt.evaluation.systems.native_system import OWN
from fairseq_hrt.native.runtime.engine import DecodingOptions

RECIPES = sorted(
    str(path.relative_to(EXAMPLES))
    for path in EXAMPLES.rglob("*.sh")
    if path.name
    not in (
        "recipe.sh",
        "contents.sh",
        "systems.sh",
        "summarise.sh",
        "hrt_at_full_size.sh",
        "translate_hrt.sh",
        "translate_dag.sh",
        "dag_at_full_size.sh",
        "pairs.sh",
        "models.sh",
        "setup_env.sh",
    )
)
DIMENSIONS = ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
ARGUMENTS = {
    "common/prepare_text.sh": ["raw"],
    "common/collect_text.sh": ["folder"],
    "common/distill.sh": ["at/checkpoint_best.pt"],
    "measure/perplexity.sh": ["AT=at.de"],
}
# Variables that a recipe needs.
NEEDED = {"import/student.sh": {"SOURCE": "model", "TEXT": "lines.gz"}}


def commands(recipe, **environment):
    shown = shown_by(recipe, tuple(sorted({**NEEDED.get(recipe, {}), **environment}.items())))
    return [shlex.split(line[2:]) for line in shown.splitlines() if line.startswith("+ ")]


# As where everything is installed, which recipes ask a Python that takes a second for it.
INSTALLED = {"BASH_FUNC_python%%": '() { if [ "$1" != -c ]; then command python "$@"; fi; }'}


@functools.cache
def shown_by(recipe, environment):
    return bash(
        EXAMPLES / recipe, *ARGUMENTS.get(recipe, []), DRY_RUN="1", OUT="runs/dry",
        **{**INSTALLED, **dict(environment)},
    ).stdout  # fmt: skip


EVALUATIONS = {
    "fairseq-generate": options.get_generation_parser,
    "fairseq-eval-lm": options.get_eval_lm_parser,
}


def parse(command):
    """Parses ``command`` as the program would; an unknown option raises SystemExit."""
    return parsed_once(tuple(command))


@functools.cache
def parsed_once(command):
    """Recipes have commands in common, and are shown with many settings."""
    program, *arguments = command
    if program == "fairseq-hrt":
        verb, *arguments = arguments
        assert verb in VERBS, command
        program, arguments = "python", ["-m", f"fairseq_hrt.cli.{module_of(verb)}", *arguments]
    if program == "fairseq-preprocess":
        options.get_preprocessing_parser().parse_args(arguments)
    elif program == "fairseq-train":
        options.parse_args_and_arch(options.get_training_parser(), arguments)
    elif program in EVALUATIONS:
        options.parse_args_and_arch(EVALUATIONS[program](), arguments)
    elif program == "python" and arguments[0] == "-m":
        tool = importlib.import_module(arguments[1])
        parsed = tool.build_parser().parse_args(arguments[2:])
        systems = getattr(parsed, "system", None) or []
        for spec in map(parse_system, [systems] if isinstance(systems, str) else systems):
            if spec.engine == "ctranslate2":
                assert set(spec.options) <= set(OPTIONS), spec
                continue
            if spec.engine == "runtime":
                spec = replace(
                    spec,
                    options={
                        name: value for name, value in spec.options.items() if name not in OWN
                    },
                )
                DecodingOptions.parse(spec.options)
            family = spec.path.split("/")[0].split("_")[0]
            default = f"translation_{family}" if family in ("hrt", "dag") else "translation"
            parse(
                ["fairseq-generate", *generate_arguments(spec, ["data-bin"], spec.task or default)]
            )
    elif program == "python":
        assert (ROOT / arguments[0]).is_file(), command
    else:
        assert program in ("awk", "cp", "cut", "mv", "curl", "subword-nmt"), command
    return program


def test_recipes_are_found():
    assert {"quickstart.sh", "multi30k/prepare.sh", "multi30k/hrt/train_hrt.sh"} <= set(RECIPES)


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_command_of_a_recipe_is_accepted(recipe, monkeypatch):
    monkeypatch.chdir(ROOT)
    shown = commands(recipe)
    assert shown, f"{recipe} shows no command"
    for command in shown:
        try:
            parse(command)
        except SystemExit:
            pytest.fail(f"not accepted: {shlex.join(command)}")


# Documents whose commands and links have to be right.
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for path in (
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/README.md"),
    )
)
# Modules that are not ours, or have no parser.
ELSEWHERE = (
    ["python", "-m", "fairseq_hrt"],
    ["python", "-m", "zipfile"],
    ["python3", "-m", "venv"],
)
PROGRAMS = (
    "auditwheel",
    "bash",
    "clang-format",
    "curl",
    "doit",
    "hf",
    "pip",
    "python",
    "python3",
    "subword-nmt",
    "fairseq-hrt",
    "fairseq-preprocess",
    "fairseq-train",
    "fairseq-generate",
    "ruff",
    "mypy",
    "sphinx-build",
)
NOT_PARSED = ("auditwheel", "clang-format", "curl", "hf", "pip", "ruff", "mypy", "sphinx-build")
# Texts for the shell's own commands: the reader's, and those that stand-ins do not write.
TEXTS = {
    "docs/guides/distilling.md": (
        "more.en", "bpe/train.en", "bpe/train.de",
        "more/distilled/train.en", "more/distilled/train.de",
    ),
}  # fmt: skip
# Writes down its name and arguments instead of doing anything. A document may start several at once.
STAND_IN = f"""#!/bin/bash
if [ "${{0##*/}} $*" = "fairseq-hrt --user-dir" ]; then echo "{ROOT}/fairseq_hrt"; exit; fi
{{ flock 9; printf '%s\\0' "${{0##*/}}" "$@" $'\\n' >&9; }} 9>>"$RECORD"
"""


def blocks(language, document):
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / document).read_text(), re.M | re.S)


def documented(document, folder):
    """The commands that a document's shell blocks run, one after the other in one shell, as lists
    of words."""
    tools, record = folder / "tools", folder / "record"
    tools.mkdir()
    record.touch()
    for name in PROGRAMS:
        (tools / name).write_text(STAND_IN)
        (tools / name).chmod(0o755)
    for name in TEXTS.get(document, ()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    script = folder / "script"
    script.write_text("".join(blocks("bash", document)))
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "RECORD": str(record)}
    shown = subprocess.run(
        ["/bin/bash", "-eu", str(script)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stderr
    return [command.split("\0")[:-1] for command in record.read_text().split("\n\0")[:-1]]


def trainings_on(document, folder):
    """The parsed trainings of a document."""
    return [
        options.parse_args_and_arch(options.get_training_parser(), command[1:])
        for command in documented(document, folder)
        if command[0] == "fairseq-train" and "--max-update" in command
    ]


@pytest.mark.parametrize("family", ["dag", "ctc"])
def test_the_page_of_a_family_trains_as_its_recipe(family, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    names = ("criterion", "lr", "warmup_updates", "max_update", "adam_betas", "weight_decay",
             "max_tokens", "update_freq")  # fmt: skip
    recipe = [
        options.parse_args_and_arch(options.get_training_parser(), command[1:])
        for command in trainings_of(f"wmt14_en_de/{family}/train.sh")
    ]
    page = trainings_on(f"docs/families/{family}.md", tmp_path)
    assert len(page) == 2
    for own, of_recipe in zip(page, recipe, strict=True):
        assert [vars(own)[name] for name in names] == [vars(of_recipe)[name] for name in names]


def test_students_of_the_first_teacher_train_as_long_on_every_page(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    pages = ("first_student", "guides/training", "guides/distilling", "families/hrt",
             "families/bidirectional", "families/transformer")  # fmt: skip
    found = {}
    for number, page in enumerate(pages):
        (tmp_path / str(number)).mkdir()
        trainings = trainings_on(f"docs/{page}.md", tmp_path / str(number))
        found[page] = {own.max_update for own in trainings}
    assert set(map(frozenset, found.values())) == {frozenset([30000])}, found


# That of the server's container needs Docker, and programs that attack it.
WITH_COMMANDS = [
    name for name in DOCUMENTS if blocks("bash", name) and name != "examples/serve/README.md"
]


@pytest.mark.parametrize("document", WITH_COMMANDS)
def test_every_command_of_a_document_is_accepted(document, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    found = documented(document, tmp_path)
    for command in found:
        if command[0] == "bash":
            assert (ROOT / command[1]).is_file(), command
        elif command[0] == "doit":
            assert command[1] == "-f" and (ROOT / command[2]).is_file(), command
        elif command[0] not in NOT_PARSED and command[:3] not in ELSEWHERE:
            try:
                parse(command)
            except SystemExit:
                pytest.fail(f"not accepted: {shlex.join(command)}")
    if document == "docs/first_student.md":
        programs = {
            "python",
            "subword-nmt",
            "fairseq-hrt",
            "fairseq-preprocess",
            "fairseq-train",
            "fairseq-generate",
        }
        assert {command[0] for command in found} == programs


def test_what_the_papers_experiments_take_exists():
    """Settings of recipes and options of commands that the page names in its tables."""
    from fairseq_hrt.cli import benchmark
    from fairseq_hrt.cli.option_help import own_parsers

    page = (ROOT / "docs/families/experiments.md").read_text()
    recipes = "".join(path.read_text() for path in EXAMPLES.rglob("*.sh"))
    settings = set(re.findall(r"`([A-Z_]+)(?:=[^`]*)?`", page))
    assert {"KD", "STUDENT", "TEACHERS", "CURRICULUM"} <= settings
    # Each has a default, which may be empty.
    assert not {name for name in settings if not re.search(rf"\b{name}=\$\{{{name}:?-", recipes)}
    known = {flag for action in benchmark.build_parser()._actions for flag in action.option_strings}
    known |= {
        flag for _, _, own in own_parsers() for action in own for flag in action.option_strings
    }
    flags = set(re.findall(r"--[a-z][a-z-]*", page))
    assert {"--length-bins", "--bidirectional-vanilla-mask"} <= flags <= known


TINY = " ".join(f"--{side}-{name} {size}" for side in ("encoder", "decoder") for name, size in (
    ("layers", 1), ("embed-dim", 32), ("ffn-embed-dim", 32), ("attention-heads", 2)))  # fmt: skip


@pytest.mark.slow
def test_a_first_student_from_end_to_end(forks, tmp_path):
    """As it stands there, outside the clone, but with a tiny corpus and tiny models."""
    tiny = {"fairseq-train": f"{TINY} --max-update 1 --max-tokens 600 --max-target-positions 60"
            " --num-workers 0"}  # fmt: skip
    small = 'case $1 in *generate.py) set -- "$@" --train 60 --valid 10 --test 5;; esac'
    script = "".join(blocks("bash", "docs/first_student.md"))
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {
        **os.environ,
        "PATH": programs,
        "OMP_NUM_THREADS": "1",
        **forks.of_a_shell(tiny, python=small),
    }
    shown = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stdout[-2000:] + shown.stderr[-2000:]
    assert len((tmp_path / "test.translated.de").read_text().splitlines()) == 5
    assert shown.stdout.count("BLEU4 = ") == 2


def test_the_installation_is_what_setup_env_does(tmp_path):
    setup = (EXAMPLES / "setup_env.sh").read_text()
    installed = [
        command
        for command in documented("docs/installation.md", tmp_path)
        if command[:2] == ["pip", "install"]
    ]
    assert installed[0] == ["pip", "install", "torch>=2.6"]
    (extras,) = re.findall(r'""\) extras=(.*) ;;', setup)
    assert installed[1][1:4] == ["install", "-e", f".[{extras}]"]
    setup = setup.replace("--no-build-isolation ", "").replace('".[$extras]"', f".[{extras}]")
    for command in installed[1:3]:
        assert " ".join(command[1:]) in setup


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_of_a_document_lead_somewhere(document):
    for target, section in re.findall(
        r"\]\((?!http)([^)#]*)#?([^)]*)\)", (ROOT / document).read_text()
    ):
        path = (ROOT / document).parent / target if target else ROOT / document
        assert path.exists(), target
        if section:
            titles = re.findall(r"^#+ (.+)$", path.read_text(), re.M)
            assert section in [
                re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles
            ], f"{target}#{section}"


@pytest.mark.parametrize(
    "command",
    ["fairseq-train data --arch transformer --no-such 1", "fairseq-generate data --path a --bem 5"],
)
def test_a_wrong_option_is_found(command):
    with pytest.raises(SystemExit):
        parse(shlex.split(command))


def test_teacher_and_student_have_the_same_shapes(monkeypatch):
    """Fine-tuning needs every tensor of the teacher; a changed dimension in one recipe would only
    show after hours."""
    monkeypatch.chdir(ROOT)
    students = [
        "multi30k/hrt/train_hrt.sh",
        "multi30k/bidirectional/train.sh",
        "multi30k/dag/train.sh",
    ]
    for recipes in (["quickstart.sh"], ["multi30k/hrt/train_at.sh", *students]):
        shapes = []
        for command in (command for recipe in recipes for command in commands(recipe)):
            arguments = command[2:] if command[0] == "python" else command[1:]
            if "--arch" not in arguments:
                continue
            parsed = options.parse_args_and_arch(options.get_training_parser(), arguments)
            names = [f"{side}_{name}" for side in ("encoder", "decoder") for name in DIMENSIONS]
            shapes.append([getattr(parsed, name) for name in [*names, "share_all_embeddings"]])
        assert len(shapes) >= 2 and all(shape == shapes[0] for shape in shapes)


def trained(shown):
    return [
        command[command.index("--save-dir") + 1].split("/")[-1]
        for command in shown
        if "--save-dir" in command
    ]


def systems_of(shown):
    """The names of the systems in the last comparison."""
    last = [command for command in shown if command[:2] == ["fairseq-hrt", "benchmark"]][-1]
    names = [
        dict(part.split("=", 1) for part in word.split(",", 1)[:1])["name"]
        for flag, word in zip(last, last[1:])
        if flag == "--system"
    ]
    return [name.removeprefix("native ") for name in names]


def test_one_row_for_each_family_or_all_of_them():
    short = commands("quickstart.sh", FAMILIES="all")
    whole = commands("quickstart.sh", FAMILIES="all", ROWS="all")
    assert trained(short) == [
        "at",
        "hrt",
        "bidirectional_2x1",
        "bidirectional_2x2",
        "dag",
        "dag_fuzzy",
    ]
    assert trained(whole) == [*trained(short), "nat"]
    assert [name for name in systems_of(short) if not name.startswith(("AT", "CTranslate2"))] == [
        "HRT",
        "IBDecoder",
        "IB+SA(2)",
        "DAG",
        "FA-DAT",
    ]
    assert len(systems_of(whole)) > 20 > len(systems_of(short))
    assert bash(EXAMPLES / "quickstart.sh", DRY_RUN="1", ROWS="some", check=False).returncode == 1


def test_the_comparison_of_all_takes_the_checkpoints_of_each_recipe():
    def checkpoints(recipe):
        return set(re.findall(r"path=([^, ]+)", " ".join(commands(recipe)[-1])))

    families = ("hrt", "bidirectional", "dag", "ctc")
    own = set().union(*(checkpoints(f"multi30k/{family}/benchmark.sh") for family in families))
    # Students of raw targets are for bidirectional's page alone.
    assert checkpoints("multi30k/compare_all.sh") == {one for one in own if "_raw/" not in one}


@pytest.mark.parametrize("families, models", [
    (None, ["at", "hrt", "bidirectional_2x1"]),
    ("hrt", ["at", "hrt"]),
    ("bidirectional", ["at", "bidirectional_2x1"]),
    ("dag", ["at", "dag", "dag_fuzzy"]),
    ("hrt dag", ["at", "hrt", "dag", "dag_fuzzy"]),
    ("jacobi", ["at"]),
    ("", ["at"]),
])  # fmt: skip
def test_only_the_chosen_families_are_trained(families, models):
    shown = commands("quickstart.sh", **({} if families is None else {"FAMILIES": families}))
    assert trained(shown) == models
    assert sum("distill" in command[:2] for command in shown) == (
        any(name[0] in "hb" for name in models)
    )
    assert ("AT + Jacobi" in systems_of(shown)) == (families == "jacobi")


@pytest.mark.parametrize(
    "recipe", ["quickstart.sh", *(r for r in RECIPES if re.match("multi30k/.*/train", r))]
)
def test_precision_decides_one_option_of_each_training(recipe):
    trainings = [
        [command for command in commands(recipe, PRECISION=precision) if "--max-update" in command]
        for precision in ("bfloat16", "float32")
    ]
    assert trainings[1] and {command[0] for command in trainings[1]} == {"fairseq-train"}
    assert trainings[0] == [["fairseq-train", "--bf16", *command[1:]] for command in trainings[1]]


def test_an_unknown_precision_is_refused():
    shown = bash(EXAMPLES / "quickstart.sh", DRY_RUN="1", PRECISION="int8", check=False)
    assert shown.returncode == 1 and "error: PRECISION=int8 is neither" in shown.stderr


@pytest.mark.parametrize("recipe, settings, where", [
    ("quickstart.sh", {"TRAIN": "9", "DATA": "d"}, "with DATA"),
    ("quickstart.sh", {"DAG_MODES": "9", "DATA": "d", "FAMILIES": "all"}, "with DATA"),
    ("quickstart.sh", {"TUNE": "1"}, "without ROWS=all"),
    ("quickstart.sh", {"NAT_UPDATES": "9", "FAMILIES": "all"}, "without ROWS=all"),
    ("quickstart.sh", {"IB2_UPDATES": "9"}, "without FAMILIES=all or ROWS=all"),
    ("quickstart.sh", {"HRT_UPDATES": "9", "FAMILIES": "dag"}, "without hrt in FAMILIES"),
    ("quickstart.sh", {"IB_UPDATES": "9", "FAMILIES": "hrt"},
     "without bidirectional in FAMILIES"),
    ("quickstart.sh", {"DAG_SCALE": "9"}, "without dag in FAMILIES"),
    ("quickstart.sh", {"RAW_PROBABILITY": "0.9", "FAMILIES": "dag"},
     "without hrt or bidirectional in FAMILIES"),
    ("multi30k/hrt/benchmark.sh", {"LENGTH_PENALTIES": "9", "TUNE": "0"}, "without TUNE=1"),
    ("multi30k/bidirectional/train.sh", {"BEAM": "9", "DISTILLED": ""}, "on raw targets"),
    ("multi30k/ctc/train.sh", {"MAX_TOKENS": "9", "DISTILLED": ""}, "on raw targets"),
    ("multi30k/prepare.sh", {"TOKENISED": "1", "TGT": "de fr"}, "with several languages in TGT"),
    ("common/prepare_text.sh", {"TEXT_LANGUAGE": "de", "TOKENISED": "1"},
     "with TOKENISED=1 or SENTENCEPIECE"),
    ("common/prepare_text.sh", {"MERGES": "9", "LIKE": "other"}, "with LIKE"),
    ("wmt22_en_de/prepare.sh", {"MERGES": "9", "SENTENCEPIECE": "m"},
     "with the model SENTENCEPIECE"),
    ("wmt22_en_de/hrt/train.sh", {"BEAM": "9"}, "without TEACHERS"),
    ("wmt22_en_de/hrt/translate.sh", {"NAT_BEAM": "9", "CHUNK": "1"}, "with CHUNK=1"),
    ("wmt14_en_de/hrt/train.sh", {"STUDENT_UPDATES": "90000"}, "with STUDENT=hrt"),
    ("wmt14_en_de/hrt/train.sh", {"CHUNK_SIZES": "3", "STUDENT": "mask_predict"},
     "with STUDENT=mask_predict"),
    ("wmt14_en_de/hrt/translate.sh", {"NAT_BEAM": "9", "CHUNK": "1"}, "with CHUNK=1"),
    ("wmt14_en_de/hrt/translate.sh", {"ITERATIONS": "9"}, "with STUDENT=hrt"),
    ("wmt14_en_de/hrt/translate.sh", {"CHUNK": "3", "STUDENT": "mask_predict"},
     "with STUDENT=mask_predict"),
    ("wmt14_en_de/hrt/translate.sh", {"REFERENCES": "/r"}, "on BLEU of the words of DATA"),
    ("wmt14_en_de/dag/translate.sh", {"LENGTH_BETA": "9"}, "with STRATEGY=lookahead"),
    ("wmt14_en_de/dag/translate.sh", {"REFERENCES": "/r"}, "on BLEU of the words of DATA"),
    ("wmt14_en_de/ctc/translate.sh", {"LM_WEIGHT": "9"}, "without LM"),
    ("wmt14_en_de/ctc/translate.sh", {"REFERENCES": "/r"}, "on BLEU of the words of DATA"),
    ("ibdecoder/translate.sh", {"REFERENCES": "/r", "SRC": "en", "TGT": "ja"},
     "on BLEU of the words of DATA"),
    ("gigaword/bidirectional/run.sh", {"IB_UPDATES": "9"},
     "where UPDATES is of both trainings"),
    ("gigaword/bidirectional/run.sh", {"LONGEST_SOURCE": "9"}, "in the paper's recipes"),
    ("gigaword/bidirectional/run.sh", {"BEAM": "9", "TARGETS": "raw"}, "with TARGETS=raw"),
    ("summaries/bidirectional/run.sh", {"TUNE": "1"},
     "on summaries, which are compared by ROUGE"),
    ("summaries/bidirectional/run.sh", {"UPDATES": "9"},
     "where AT_UPDATES and IB_UPDATES are of each training"),
    ("measure/perplexity.sh", {"SEED": "9", "LM": "d"}, "with LM"),
])  # fmt: skip
def test_a_setting_without_effect_is_refused(recipe, settings, where):
    (name, value), *_ = settings.items()
    own = {**NEEDED.get(recipe, {}), **INSTALLED, **settings}
    refused = bash(
        EXAMPLES / recipe, *ARGUMENTS.get(recipe, []), DRY_RUN="1", OUT="runs/dry", check=False,
        **own,
    )  # fmt: skip
    assert refused.returncode == 1
    assert refused.stderr == f"error: {name}={value} has no effect {where}: leave it out\n"


def test_what_recipes_set_for_each_other_is_not_refused():
    settings = {"FAMILIES": "all", "ROWS": "all", "MERGES": "700", "TUNE": "1", "SEED": "3"}
    assert trained(commands("quickstart.sh", **settings))[-1] == "nat"
    # MERGES of the recipe and TEXT_LANGUAGE, which the user has not given.
    assert commands("wmt22_en_de/prepare.sh", SENTENCEPIECE="m")
    assert commands("gigaword/bidirectional/run.sh", TOKENISED="1")


def test_a_corpus_is_prepared_otherwise_where_that_is_asked_for(monkeypatch):
    for corpus in ("wmt14_en_de", "wmt16_en_ro", "wmt17_zh_en"):
        recipe = f"{corpus}/prepare.sh"
        pieces = accepted(recipe, monkeypatch, SENTENCEPIECE="/m", SEPARATE="0")
        assert ["cp", "/m"] in [command[:2] for command in pieces]
        for separate in (True, False):
            shown = accepted(recipe, monkeypatch, SEPARATE=str(int(separate)))
            assert any("--joined-dictionary" in command for command in shown) != separate


@pytest.mark.parametrize("recipe, languages", [
    ("wmt14_en_de/prepare.sh", "en-de or de-en"), ("wmt16_en_ro/prepare.sh", "en-ro or ro-en"),
    ("wmt17_zh_en/prepare.sh", "zh-en or en-zh"), ("wmt22_en_de/prepare.sh", "en-de or de-en"),
    ("wmt22_en_de/hrt/train.sh", "en-de"), ("wmt22_en_de/hrt/translate.sh", "en-de"),
])  # fmt: skip
def test_other_languages_than_those_of_the_corpus_are_refused(recipe, languages):
    refused = bash(EXAMPLES / recipe, DRY_RUN="1", SRC="fr", TGT="de", check=False)
    assert refused.returncode == 1
    assert refused.stderr == f"error: SRC=fr TGT=de: give {languages}\n"


FULL_SIZE = [
    recipe
    for recipe in RECIPES
    if recipe.startswith(("wmt", "ibdecoder")) and recipe.endswith("/train.sh")
]


@pytest.mark.parametrize("recipe", FULL_SIZE)
def test_an_update_has_as_many_tokens_whatever_the_number_of_gpus(recipe, monkeypatch):
    monkeypatch.chdir(ROOT)
    found = []
    for gpus in ("1", "4", "8"):
        trainings = [
            command for command in commands(recipe, GPUS=gpus) if command[0] == "fairseq-train"
        ]
        assert trainings
        parsed = [
            options.parse_args_and_arch(options.get_training_parser(), command[1:])
            for command in trainings
        ]
        assert all(own.distributed_world_size == int(gpus) for own in parsed)
        found.append([own.max_tokens * own.update_freq[0] * int(gpus) for own in parsed])
    assert found[0] == found[1] == found[2]
    refused = bash(EXAMPLES / recipe, GPUS="3", DRY_RUN="1", check=False)
    assert refused.returncode == 1 and "GPUS=3: give 1, " in refused.stderr


PAPER_SIZE = [*FULL_SIZE, "cnn_dailymail/bidirectional/run.sh", "gigaword/bidirectional/run.sh"]


def trainings_of(recipe, **settings):
    return [command for command in commands(recipe, **settings) if command[0] == "fairseq-train"]


@pytest.mark.parametrize("recipe", PAPER_SIZE)
def test_a_card_decides_batches_and_precision_and_the_paper_the_update(recipe, monkeypatch):
    monkeypatch.chdir(ROOT)
    gpus, flags = {"GPUS": "2"}, ("--max-tokens", "--update-freq")
    whole = [[int(value_of(own, flag)) for flag in flags] for own in trainings_of(recipe, **gpus)]
    most = str(whole[0][0])
    half = trainings_of(recipe, **gpus, MAX_TOKENS=str(whole[0][0] // 2), PRECISION="bfloat16")
    # A teacher translates in batches of another size.
    for own in commands(recipe, **gpus, MAX_TOKENS=str(whole[0][0] // 2), PRECISION="bfloat16"):
        assert "distill" not in own or value_of(own, "--max-tokens") in (None, "8000")
    for own, (batch, often) in zip(half, whole, strict=True):
        parse(own)
        assert [int(value_of(own, flag)) for flag in flags] == [batch // 2, often * 2]
        assert "--bf16" in own and "--fp16" not in own and "--grouped-shuffling" in own
    # One GPU has none to wait for.
    for own in trainings_of(recipe, PRECISION="float32"):
        assert not {"--fp16", "--bf16", "--grouped-shuffling"} & set(own)
    for wrong, told in (
        ({"MAX_TOKENS": "4001"}, "MAX_TOKENS=4001 does not divide "),
        ({"MAX_TOKENS": "08"}, f"(GPUS=2): give a divisor, such as {most}"),
        ({"PRECISION": "int8"}, "PRECISION=int8: give float16, bfloat16 or float32"),
    ):
        refused = bash(EXAMPLES / recipe, DRY_RUN="1", check=False, **gpus, **wrong)
        assert refused.returncode == 1 and told in refused.stderr
        assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("precision, option", [
    ("", "fp16=true"), ("bfloat16", "bf16=true"), ("float32", None),
])  # fmt: skip
@pytest.mark.parametrize("recipe, settings", [
    ("wmt14_en_de/hrt/train.sh", {}), ("wmt22_en_de/hrt/train.sh", {"TEACHERS": "a.pt"}),
    ("ibdecoder/train.sh", {"KD": "1"}), ("gigaword/bidirectional/run.sh", {}),
])  # fmt: skip
def test_a_teacher_translates_in_the_precision_of_the_training(
    recipe, settings, precision, option, monkeypatch
):
    shown = accepted(recipe, monkeypatch, PRECISION=precision, MAX_TOKENS="", **settings)
    (taught,) = [command for command in shown if command[:2] == ["fairseq-hrt", "distill"]]
    words = value_of(taught, "--system").split(",")
    assert [word for word in words if re.match("(fp|bf)16=", word)] == ([option] if option else [])


def test_the_vertices_of_a_batch_follow_its_tokens():
    for settings, most in (
        ({}, 8 * 4096), ({"MAX_TOKENS": "8192"}, 8 * 8192), ({"SCALE": "2.5"}, 2.5 * 4096),
    ):  # fmt: skip
        for own in trainings_of("wmt14_en_de/dag/train.sh", **settings):
            assert int(value_of(own, "--dag-batch-vertices")) == most * 5 / 4


@pytest.mark.parametrize(
    "recipe", [recipe for recipe in FULL_SIZE if not re.match("wmt22|ibdecoder", recipe)]
)
def test_both_directions_are_trained_and_translated(recipe):
    *_, first, second = recipe.split("/")[0].split("_")
    for source, target in ((first, second), (second, first)):
        chosen = {"SRC": source, "TGT": target} if source == second else {}
        for own in (recipe, recipe.replace("train.sh", "translate.sh")):
            found = [command for command in commands(own, **chosen) if "--source-lang" in command]
            assert found
            pairs = {
                (
                    command[command.index("--source-lang") + 1],
                    command[command.index("--target-lang") + 1],
                )
                for command in found
            }
            assert pairs == {(source, target)}
    # A run of one direction is not taken up by the other.
    assert "$SRC-$TGT" in (EXAMPLES / recipe).read_text() + "".join(
        (EXAMPLES / "common" / f"{family}_at_full_size.sh").read_text()
        for family in ("hrt", "dag")
        if f"/{family}/" in recipe
    )


@pytest.mark.parametrize("recipe, teacher, student, layers", [
    ("wmt14_en_de/hrt/train.sh", 0.1, "hrt_transformer_wmt_en_de", None),
    ("wmt16_en_ro/hrt/train.sh", 0.3, "hrt_transformer_wmt_en_de", None),
    ("wmt17_zh_en/hrt/train.sh", 0.1, "hrt_transformer_wmt_en_de", None),
    ("wmt14_en_de/hrt/train.sh", 0.1, "hrt_transformer_wmt_en_de", 20),
    ("wmt22_en_de/hrt/train.sh", 0.1, "hrt_transformer_e12d1", None),
    ("wmt22_en_de/hrt/train.sh", 0.1, "hrt_transformer_e20d1", 20),
])  # fmt: skip
def test_hrt_at_full_size_is_fine_tuned_from_a_teacher_of_its_shape(
    recipe, teacher, student, layers, monkeypatch
):
    monkeypatch.chdir(ROOT)
    settings = {} if layers is None else {"ENCODER_LAYERS": str(layers)}
    trainings = [
        command for command in commands(recipe, **settings) if command[0] == "fairseq-train"
    ]
    at, hrt = (
        options.parse_args_and_arch(options.get_training_parser(), command[1:])
        for command in trainings
    )
    names = [
        f"{side}_{name}"
        for side in ("encoder", "decoder")
        for name in (*DIMENSIONS, "normalize_before")
    ]
    # Whatever a preset leaves open is off.
    assert [getattr(at, name, False) for name in names] == [
        getattr(hrt, name, False) for name in names
    ]
    assert (at.dropout, hrt.arch, at.max_update) == (teacher, student, hrt.max_update)
    assert layers is None or (hrt.encoder_layers, hrt.encoder_normalize_before) == (layers, True)
    assert hrt.finetune_from_model == f"{at.save_dir}/averaged.pt"
    averages = [
        command for command in commands(recipe) if command[:2] == ["fairseq-hrt", "average"]
    ]
    assert [command[-1] for command in averages] == [
        f"{at.save_dir}/averaged.pt",
        f"{hrt.save_dir}/averaged.pt",
    ]


def accepted(recipe, monkeypatch, **settings):
    """The commands of a recipe with these settings, all of which the programs accept."""
    monkeypatch.chdir(ROOT)
    shown = commands(recipe, **settings)
    for command in shown:
        parse(command)
    return shown


def value_of(command, flag):
    return command[command.index(flag) + 1] if flag in command else None


@pytest.mark.parametrize("pair, corpus, merges", [
    ("en-de", "wmt14_en_de", "32000"), ("de-en", "wmt14_en_de", "32000"),
    ("en-fr", "wmt14_en_fr", "32000"), ("ro-en", "wmt16_ro_en", "32000"),
    ("en-ru", "wmt18_en_ru", "48000"), ("en-ja", "wat17_en_ja", None),
])  # fmt: skip
def test_the_pairs_of_ibdecoder(pair, corpus, merges, monkeypatch):
    """Appendix A: their subwords; each is trained and translated as itself."""
    chosen = dict(zip(("SRC", "TGT"), pair.split("-")))
    prepared = accepted("ibdecoder/prepare.sh", monkeypatch, **chosen)
    (learnt,) = [command for command in prepared if "learn-joint-bpe-and-vocab" in command] or [[]]
    assert value_of(learnt, "--symbols") == merges if merges else not learnt
    assert any("--joined-dictionary" in command for command in prepared)
    for recipe in ("train", "translate"):
        for command in accepted(f"ibdecoder/{recipe}.sh", monkeypatch, KD="1", **chosen):
            if "--source-lang" in command:
                assert (
                    "-".join(value_of(command, f"--{side}-lang") for side in ("source", "target"))
                    == pair
                )
                assert f"data-bin/{corpus}" in command[1:3]
    refused = bash(EXAMPLES / "ibdecoder/train.sh", SRC="en", TGT="xx", DRY_RUN="1", check=False)
    assert "SRC=en TGT=xx: give en-de, en-fr, " in refused.stderr


@pytest.mark.parametrize("settings, folder, shape", [
    ({}, "2x1", (2, 1, 6)),
    ({"DISTILLED": "d"}, "2x1_kd", (2, 1, 6)),
    ({"TOKENS": "2", "LAYERS": "2", "KD": "1"}, "2x2_2layers_kd", (2, 2, 2)),
    ({"DIRECTIONS": "4"}, "4x1", (4, 1, 6)),
    ({"DIRECTIONS": "1"}, "1x1", (1, 1, 6)),
])  # fmt: skip
def test_the_models_of_ibdecoder(settings, folder, shape, monkeypatch):
    """Each has a folder of its own, is trained from scratch, and translated from where it is."""
    shown = accepted("ibdecoder/train.sh", monkeypatch, **settings)
    trainings = [command for command in shown if command[0] == "fairseq-train"]
    flags = ("--bidirectional-directions", "--bidirectional-tokens-per-step", "--decoder-layers")
    assert tuple(int(value_of(trainings[-1], flag)) for flag in flags) == shape
    assert value_of(trainings[-1], "--save-dir") == f"runs/dry/{folder}"
    assert not any("--finetune-from-model" in command for command in trainings)
    targets = {"DISTILLED": str(ROOT / "d"), "KD": "runs/dry/distilled/data-bin"}
    expected = [targets[name] for name in settings if name in targets]
    assert [value_of(trainings[-1], "--distilled-data")] == (expected or [None])
    assert len(trainings) == 1 + ("KD" in settings)
    if "KD" in settings:
        assert tuple(int(value_of(trainings[0], flag)) for flag in flags) == (1, 1, 6)
        (taught,) = [command for command in shown if "distill" in command[:2]]
        assert "path=runs/dry/teacher/averaged.pt" in value_of(taught, "--system")
    command, *_ = accepted("ibdecoder/translate.sh", monkeypatch, **settings)
    assert value_of(command, "--path") == f"runs/dry/{folder}/averaged.pt" == shown[-1][-1]


@pytest.mark.parametrize("settings, start, window, raw", [
    ({}, True, "16", "0.5"), ({"FINETUNE": "0", "RELATIVE": "0", "RAW": "0"}, False, "0", "0"),
])  # fmt: skip
def test_mask_predict_has_the_teacher_and_the_targets_of_hrt(
    settings, start, window, raw, monkeypatch
):
    recipe = "wmt14_en_de/hrt/train.sh"
    own = accepted(recipe, monkeypatch, STUDENT="mask_predict", **settings)
    hrts = accepted(recipe, monkeypatch, **{k: v for k, v in settings.items() if k == "RAW"})
    assert own[:3] == hrts[:3]
    student = own[3]
    assert value_of(student, "--finetune-from-model") == (
        "runs/dry/at/averaged.pt" if start else None
    )
    assert value_of(student, "--hrt-relative-window") == window
    assert value_of(student, "--raw-probability") == raw
    parsed = options.parse_args_and_arch(options.get_training_parser(), student[1:])
    assert (parsed.max_update, parsed.noise) == (100000, "random_mask")
    command, _ = accepted(
        "wmt14_en_de/hrt/translate.sh", monkeypatch, STUDENT="mask_predict", ITERATIONS="4"
    )
    assert value_of(command, "--path") == own[4][-1] == "runs/dry/mask_predict/averaged.pt"
    # fairseq counts from 0.
    assert value_of(command, "--iter-decode-max-iter") == "3"
    for wrong in (
        {"STUDENT": "mp"},
        {"STUDENT": "mask_predict", "CURRICULUM": "0"},
        {"MODEL": "at"},
    ):
        assert bash(EXAMPLES / recipe, DRY_RUN="1", check=False, **wrong).returncode == 1


def test_what_hrts_ablations_leave_out(monkeypatch):
    """Table 5; each is a training of its own, beside the others of the same teacher."""
    recipe = "wmt14_en_de/hrt/train.sh"
    whole = accepted(recipe, monkeypatch)[3]
    for setting, gone, put in (
        ("FINETUNE", ["--finetune-from-model", "runs/dry/at/averaged.pt"], []),
        ("RELATIVE", ["--hrt-relative-window", "16"], ["--hrt-relative-window", "0"]),
        ("RAW", ["--raw-probability", "0.5"], ["--raw-probability", "0"]),
        ("CURRICULUM", [], ["--hrt-curriculum-power", "0"]),
    ):
        shown = accepted(recipe, monkeypatch, MODEL="other", **{setting: "0"})
        own = shown[3]
        assert shown[4][-1] == f"{value_of(own, '--save-dir')}/averaged.pt"
        assert value_of(own, "--save-dir") == "runs/dry/other"
        own[own.index("runs/dry/other")] = "runs/dry/hrt"
        assert sorted(own) == sorted([word for word in whole if word not in gone] + put)


def test_an_ensemble_translates_for_royalflush(monkeypatch):
    """Teacher and student learn from its translations alone."""
    shown = accepted(
        "wmt22_en_de/hrt/train.sh", monkeypatch, TEACHERS="a.pt:b.pt:c.pt:d.pt", DATA="data"
    )
    paths = ":".join(str(ROOT / name) for name in ("a.pt", "b.pt", "c.pt", "d.pt"))
    assert f"path={paths}," in value_of(shown[0], "--system")
    trainings = [command for command in shown if command[0] == "fairseq-train"]
    assert [command[1] for command in trainings] == ["runs/dry/distilled/data-bin"] * 2
    refused = bash(
        EXAMPLES / "wmt22_en_de/hrt/train.sh", DRY_RUN="1", TEACHERS="a.pt", DATA="a:b", check=False
    )
    assert "an ensemble translates one folder" in refused.stderr


VASWANI = {
    "dropout": 0.1, "label_smoothing": 0.1, "adam_betas": "(0.9, 0.98)", "lr": [0.0007],
    "warmup_updates": 4000,
}  # fmt: skip
WANG = {
    "label_smoothing": 0.1, "adam_betas": "(0.9, 0.997)", "lr": [0.002], "warmup_updates": 16000,
    "clip_norm": 0.0, "decoder_normalize_before": True, "tokens": 65536,
}  # fmt: skip
FA_DAT = {
    "dropout": 0.1, "weight_decay": 0.01, "adam_betas": "(0.9, 0.999)", "clip_norm": 0.1,
    "dag_upsample_scale": "8", "dag_read_bos": True, "keep_best_checkpoints": 5,
}  # fmt: skip
LIKELIHOOD = {
    **FA_DAT, "lr": [0.0005], "warmup_updates": 10000, "tokens": 65536, "max_update": 300000,
    "dag_glance_schedule": "0.5:0.1@200k",
}  # fmt: skip
FUZZY = {
    **FA_DAT, "lr": [0.0002], "warmup_updates": 500, "tokens": 4 * 65536, "max_update": 5000,
    "dag_glance_schedule": "0.1", "dag_ngram_order": 2,
}  # fmt: skip
IBDECODER = {
    **VASWANI, "attention_dropout": 0.1, "decoder_layers": 6, "finetune_from_model": None,
    "adam_eps": 1e-8, "clip_norm": 0.0,
}  # fmt: skip


@pytest.mark.parametrize("recipe, settings, expected", [
    ("wmt14_en_de/hrt", {}, {**VASWANI, "tokens": 25000, "max_update": 300000}),
    ("wmt14_en_de/hrt", {"ENCODER_LAYERS": "20"}, {**WANG, "encoder_layers": 20}),
    ("wmt16_en_ro/hrt", {}, {**VASWANI, "dropout": 0.3, "tokens": 25000, "max_update": 100000}),
    ("wmt17_zh_en/hrt", {}, {**VASWANI, "tokens": 25000}),
    ("wmt22_en_de/hrt", {}, {**WANG, "encoder_layers": 12, "decoder_layers": 1}),
    ("ibdecoder", {}, {
        **IBDECODER, "tokens": 25000, "max_update": 300000, "share_all_embeddings": None,
        "share_decoder_input_output_embed": True,
    }),
    ("wmt14_en_de/dag", {}, (LIKELIHOOD, FUZZY)),
    ("wmt17_zh_en/dag", {"SRC": "en", "TGT": "zh"},
     [{**own, "eval_bleu_tokenizer": "zh"} for own in (LIKELIHOOD, FUZZY)]),
    ("cnn_dailymail/bidirectional", {},
     {**IBDECODER, "tokens": 128000, "max_source_positions": 400}),
    ("gigaword/bidirectional", {}, {**IBDECODER, "tokens": 64000, "max_source_positions": 256}),
])  # fmt: skip
def test_the_papers_trainings(recipe, settings, expected, monkeypatch):
    """What their sections state, or Vaswani et al. (2017) and Wang et al. (2019), to whom they
    refer, of the last trainings of each recipe."""
    name = "run" if "bidirectional" in recipe else "train"
    shown = accepted(f"{recipe}/{name}.sh", monkeypatch, **settings)
    trainings = [command[1:] for command in shown if command[0] == "fairseq-train"]
    expected = [expected] if isinstance(expected, dict) else list(expected)
    # Where checkpoints are averaged, all that are kept, and no others.
    averages = [command[3:] for command in shown if command[:2] == ["fairseq-hrt", "average"]]
    for (folder, *which, _, output), training in zip(averages, trainings, strict=True):
        kept = {"--last": "--keep-interval-updates", "--best": "--keep-best-checkpoints"}[which[0]]
        assert value_of(training, "--save-dir") == folder and output == f"{folder}/averaged.pt"
        assert which[1] == value_of(training, kept) == "5"
    for command, wanted in zip(trainings[-len(expected) :], expected, strict=True):
        parsed = vars(options.parse_args_and_arch(options.get_training_parser(), command))
        parsed["tokens"] = parsed["max_tokens"] * parsed["update_freq"][0]
        assert {option: parsed.get(option) for option in wanted} == wanted


CUT = {"truncate_source": True, "max_source_positions": 127}
JOINT = {**CUT, "dag_decode_strategy": "joint-viterbi", "dag_repeats": "collapsed"}


@pytest.mark.parametrize("recipe, settings, expected", [
    ("wmt14_en_de/hrt", {}, {"beam": 5, "hrt_nat_beam": 5, "lenpen": 0.6}),
    ("wmt22_en_de/hrt", {}, {
        "beam": 1, "hrt_nat_beam": 1, "lenpen": 0.6, "max_len_b": 200, "batch_size": 1,
        "truncate_source": True, "max_source_positions": 200, "fp16": True, "scoring": "sacrebleu",
    }),
    ("ibdecoder", {}, {
        "beam": 4, "lenpen": 0.6, "bidirectional_scoring": "paper",
        "bidirectional_length_penalty": "gnmt",
    }),
    ("wmt14_en_de/dag", {}, {
        **CUT, "dag_decode_strategy": "lookahead", "dag_repeats": "collapsed",
    }),
    ("wmt14_en_de/dag", {"STRATEGY": "greedy"}, {**CUT, "dag_decode_strategy": "greedy"}),
    *(
        (f"{corpus}/dag", {"SRC": source, "TGT": target, "STRATEGY": "joint-viterbi", **given},
         {**JOINT, **scored, "dag_decode_length_beta": beta})
        for corpus, source, target, given, beta, scored in (
            ("wmt14_en_de", "en", "de", {}, 0.1, {"scoring": "bleu"}),
            ("wmt14_en_de", "de", "en", {}, 3.5, {}),
            ("wmt14_en_de", "de", "en", {"LENGTH_BETA": "2"}, 2.0, {}),
            ("wmt17_zh_en", "zh", "en", {}, 3.5, {"scoring": "bleu"}),
            ("wmt17_zh_en", "en", "zh", {}, 3.0,
             {"scoring": "sacrebleu", "sacrebleu_tokenizer": "zh"}),
        )
    ),
])  # fmt: skip
def test_the_papers_searches(recipe, settings, expected, monkeypatch):
    """No sentence of a test set is left out because it is long, and none ends the command."""
    command, _ = accepted(f"{recipe}/translate.sh", monkeypatch, **settings)
    parsed = vars(options.parse_args_and_arch(options.get_generation_parser(), command[1:]))
    assert {option: parsed[option] for option in expected} == expected


@pytest.mark.parametrize("recipe, own", [
    ("cnn_dailymail", {"AT beam 4": "lenpen=0.6", "IBDecoder beam 4": "bidirectional_scoring=paper,"
     "bidirectional_length_penalty=gnmt,lenpen=0.6"}),
    ("summaries", {"AT beam 5": "", "IBDecoder beam 4": ""}),
])  # fmt: skip
def test_summaries_are_searched_as_in_the_paper(recipe, own):
    shown = commands(f"{recipe}/bidirectional/run.sh")
    found = [word for command in shown for word in command if word.startswith("name=")]
    for name, options_of in own.items():
        (system,) = [word for word in found if word.startswith(f"name={name},")]
        beam = name.split()[-1]
        assert system.split(f"beam={beam}", 1)[1].lstrip(",") == options_of


@pytest.mark.parametrize("recipe, settings, how", [
    ("wmt14_en_de/hrt", {}, []),
    ("wmt17_zh_en/hrt", {"SRC": "en", "TGT": "zh"}, ["--detokenize", "moses:zh"]),
    ("wmt14_en_de/dag", {}, []),
    ("wmt17_zh_en/dag", {"SRC": "en", "TGT": "zh"}, ["--detokenize", "moses:zh"]),
    ("wmt22_en_de/hrt", {}, ["--detokenize", "none"]),
    ("ibdecoder", {"SRC": "ro", "TGT": "en"}, ["--detokenize", "moses:en"]),
    ("ibdecoder", {"SRC": "en", "TGT": "ja"}, []),
])  # fmt: skip
def test_the_papers_metrics(recipe, settings, how, monkeypatch):
    """IBDecoder, section 4.1; FA-DAT, 4.1; RoyalFlush, 4.1; HRT, 5, by Ghazvininejad et al."""
    generate, shown = accepted(f"{recipe}/translate.sh", monkeypatch, **settings)
    assert shown[:2] == ["python", "examples/common/bleu_of_log.py"] and shown[3:] == how
    # Translations are printed.
    assert "--quiet" not in generate


def test_royalflush_decodes_in_half_precision_if_it_may(monkeypatch):
    recipe = "wmt22_en_de/hrt/translate.sh"
    (half, _), (single, _) = (accepted(recipe, monkeypatch, FP16=fp16) for fp16 in ("1", "0"))
    assert [word for word in half if word != "--fp16"] == single and "--fp16" in half


@pytest.mark.parametrize("recipe, start, targets", [
    ("gigaword", "scratch", "raw"), ("cnn_dailymail", "scratch", "distilled"),
    ("summaries", "teacher", "raw"), ("summaries", "teacher", "distilled"),
])  # fmt: skip
def test_summaries_from_scratch_and_on_raw_targets(recipe, start, targets, monkeypatch):
    """As in Table 6; what is not the default of a recipe stands beside it."""
    other = {"scratch": "teacher", "teacher": "scratch"}[start]
    folders = []
    for chosen in (start, other):
        shown = accepted(
            f"{recipe}/bidirectional/run.sh", monkeypatch, START=chosen, TARGETS=targets
        )
        students = [command for command in shown if "translation_bidirectional" in command]
        assert len(students) == 2
        for student in students:
            assert ("--finetune-from-model" in student) == (chosen == "teacher")
            assert ("--distilled-data" in student) == (targets == "distilled")
        assert any("distill" in command[:2] for command in shown) == (targets == "distilled")
        folders.append([value_of(student, "--save-dir") for student in students])
    assert len({folder for both in folders for folder in both}) == 4
    default = commands(f"{recipe}/bidirectional/run.sh", TARGETS=targets)
    assert folders[0][0] in [value_of(command, "--save-dir") for command in default]


SENTENCES = {
    "en": "a man rides his bike .",
    "de": "ein Mann fährt Rad .",
    "ro": "un om merge cu bicicleta .",
    "zh": "一个人骑自行车。",
    "ja": "自転@@ 車 に 乗る 。",
}


@pytest.fixture
def raw_text(forks, tmp_path):
    """A function that writes raw text of two languages; it returns the settings of a recipe for
    it, whose commands are forks; with `copies` words and subwords are those of the text."""

    def write(*languages, copies=False):
        for split, lines in (("train", 60), ("valid", 9), ("test", 9)):
            for language in languages:
                text = "".join(f"{SENTENCES[language]} {number}\n" for number in range(lines))
                (tmp_path / f"{split}.{language}").write_text(text, encoding="utf-8")
        own = forks.of_a_shell()
        return {
            **(copied(own) if copies else own),
            "DATA": str(tmp_path),
            "OUT": str(tmp_path / "out"),
            "SAMPLE": "7",
        }

    return write


@pytest.mark.slow
def test_pieces_of_raw_text(raw_text, tmp_path):
    settings = {**raw_text("en", "de"), "MERGES": "30", "SPLITS": "train"}
    bash(EXAMPLES / "wmt22_en_de/prepare.sh", **settings, SENTENCEPIECE="learn")
    out = tmp_path / "out"
    pieces = (out / "pieces/train.de").read_text(encoding="utf-8").splitlines()
    assert (
        len(pieces) == 7
        and pieces[3].replace(" ", "").replace("▁", " ").strip() == f"{SENTENCES['de']} 3"
    )
    # Another text with the model of this one, as with the model of the task.
    again = {
        **settings,
        "MERGES": "",
        "OUT": str(tmp_path / "again"),
        "SENTENCEPIECE": str(out / "pieces/sentencepiece.model"),
    }
    bash(EXAMPLES / "wmt22_en_de/prepare.sh", **again)
    for file in ("pieces/train.en", "data-bin/dict.en.txt", "data-bin/train.en-de.de.bin"):
        assert (tmp_path / "again" / file).read_bytes() == (out / file).read_bytes()
    for wrong, message in (
        (str(tmp_path / "none"), "there is no such model"),
        ("", "names the model of the task"),
    ):
        refused = bash(
            EXAMPLES / "wmt22_en_de/prepare.sh", **{**again, "SENTENCEPIECE": wrong}, check=False
        )
        assert refused.returncode == 1 and message in refused.stderr


# Ends a recipe that has new words.
BEFORE_SUBWORDS = {"BASH_FUNC_subword-nmt%%": "() { exit 3; }"}
PREPARE, COLLECT = EXAMPLES / "common/prepare_text.sh", EXAMPLES / "common/collect_text.sh"


@pytest.mark.parametrize("recipe, changes, message", [
    (COLLECT, {"OUT": "."},
     "the text is in .*/raw, where the collected one is written: give another OUT"),
    (COLLECT, {"both": "train.en.gz"}, "has both train.en and train.en.gz"),
    (PREPARE, {"both": "train.en.gz"}, "has both train.en and train.en.gz"),
    (PREPARE, {"SEPARATE": "yes"}, "SEPARATE=yes: give 1"),
    (PREPARE, {"SEPARATE": "1", "SENTENCEPIECE": "learn"}, "SENTENCEPIECE takes raw text"),
    (PREPARE, {"MERGES": "0"}, "MERGES=0: give a number"),
    (PREPARE, {"LIKE": "out", "MERGES": ""}, "LIKE=.*out is OUT itself"),
    (PREPARE, {"LIKE": "other", "SENTENCEPIECE": "m", "MERGES": ""},
     "LIKE=.*other has a model of its own"),
    (PREPARE, {"LIKE": "other", "MERGES": ""},
     "LIKE=.*other has no bpe/codes: it was prepared in another way"),
    (PREPARE, {"SENTENCEPIECE": "out/pieces/sentencepiece.model", "MERGES": ""},
     "lies where the pieces are written"),
    (PREPARE, {"TGT": "ro"}, "has neither train.ro nor train.ro.gz"),
])  # fmt: skip
def test_text_that_would_be_lost_or_mixed_is_refused(tmp_path, recipe, changes, message):
    raw = tmp_path / "raw"
    raw.mkdir()
    for split in ("train", "valid", "test"):
        for language in ("en", "de"):
            (raw / f"{split}.{language}").write_text("a b\n")
    if "both" in changes:
        (raw / changes["both"]).touch()
    before = {path: path.read_bytes() for path in raw.iterdir()}
    settings = {
        "OUT": "out",
        "MERGES": "5",
        **{name: value for name, value in changes.items() if name != "both"},
    }
    # Paths of the user are relative to the user's folder; OUT stays the same for that.
    settings["OUT"] = str(tmp_path / settings["OUT"])
    refused = bash(recipe, "raw", cwd=tmp_path, check=False, **settings)
    assert refused.returncode == 1 and re.search(f"error: .*{message}", refused.stderr), (
        refused.stderr
    )
    assert "Traceback" not in refused.stderr
    assert {path: path.read_bytes() for path in raw.iterdir()} == before and not (
        tmp_path / "out/data-bin"
    ).exists()


@pytest.mark.slow
def test_one_folder_prepared_in_several_ways(raw_text, tmp_path):
    """Each start makes all of it; a carriage return within a line moves no other line."""
    settings = {**raw_text("en", "de"), "SPLITS": "train"}
    out = Path(settings["OUT"])
    lines = (tmp_path / "train.en").read_text().split("\n")
    lines[1] = lines[1].replace("rides", "rides\r")
    (tmp_path / "train.en").write_text("\n".join(lines), newline="\n")

    def prepared(**changes):
        bash(PREPARE, ".", cwd=tmp_path, **{**settings, "MERGES": "30", **changes})
        return (out / "data-bin/dict.en.txt").read_text(encoding="utf-8"), (
            out / "data-bin/train.en-de.en.idx"
        ).read_bytes()

    joint = prepared(SEPARATE="0")
    pieces = prepared(SENTENCEPIECE="learn", MERGES="36")
    assert "▁" in pieces[0] and "@@" in joint[0]
    separate = prepared(SEPARATE="1", TOKENISED="1")
    known = [{line.split()[0] for line in own[0].splitlines()} for own in (joint, separate)]
    assert {"ein", "Mann"} <= known[0] and not {"ein", "Mann"} & known[1]
    for own in (joint, pieces, separate):
        # The number of sentences stands after magic, version and type.
        assert int.from_bytes(own[1][18:26], "little") == 60


def binarised(folder):
    """What a recipe looks at of a folder that fairseq-preprocess wrote."""
    folder.mkdir()
    for language in ("en", "de"):
        (folder / f"dict.{language}.txt").write_text("a 1\n")
        for split in ("train", "valid"):
            for end in ("bin", "idx"):
                (folder / f"{split}.en-de.{language}.{end}").write_text(f"{split} {language}")


def test_training_of_days_is_not_removed(tmp_path):
    recipe, data = EXAMPLES / "wmt14_en_de/dag/train.sh", tmp_path / "data-bin"
    binarised(data)
    (tmp_path / ".stages").mkdir()
    (tmp_path / ".stages/nll.started").write_text("nll: of other settings")
    (tmp_path / "nll").mkdir()
    (tmp_path / "nll/checkpoint_last.pt").touch()
    refused = bash(recipe, check=False, OUT=str(tmp_path), DATA=str(data))
    assert (
        refused.returncode == 1
        and "begun with other settings (nll: of other settings): give another OUT" in refused.stderr
    )
    assert (tmp_path / "nll/checkpoint_last.pt").exists()
    (data / "valid.en-de.de.idx").unlink()
    refused = bash(recipe, check=False, OUT=str(tmp_path), DATA=str(data))
    assert (
        refused.returncode == 1
        and "data-bin has no valid.en-de.en.idx and .de.idx" in refused.stderr
    )
    for own in ("wmt14_en_de/hrt/train.sh", "wmt22_en_de/hrt/train.sh"):
        refused = bash(
            EXAMPLES / own, check=False, OUT=str(tmp_path / "other"), UPDATES="20000", DRY_RUN="1"
        )
        assert refused.returncode == 1 and "UPDATES=20000: give 25000 or more" in refused.stderr
    own, few = "wmt14_en_de/hrt/train.sh", {"STUDENT": "mask_predict", "STUDENT_UPDATES": "9"}
    refused = bash(EXAMPLES / own, check=False, OUT=str(tmp_path), DRY_RUN="1", **few)
    assert "STUDENT_UPDATES=9: give 25000 or more" in refused.stderr


@pytest.fixture
def untrained(tmp_path):
    """A function that starts a recipe whose trainings and decodings fail at once, on binarised
    data."""
    for folder in ("data-bin", "distilled"):
        binarised(tmp_path / folder)
    stubs = tmp_path / "stubs.sh"
    stubs.write_text("fairseq-train() { echo trains; exit 3; }\nfairseq-hrt() { exit 3; }\n")
    settings = {
        "OUT": str(tmp_path / "out"), "DATA": str(tmp_path / "data-bin"),
        "DISTILLED": str(tmp_path / "distilled"), "BASH_ENV": str(stubs),
    }  # fmt: skip

    def start(recipe, *arguments, status=3, **changes):
        started = bash(
            EXAMPLES / recipe, *arguments, check=False, limit=60, **{**settings, **changes}
        )
        assert started.returncode == status, started.stdout + started.stderr
        return started

    return start


@pytest.mark.parametrize("recipe, changed", [
    ("wmt14_en_de/dag/train.sh", "data-bin/train.en-de.de.bin"),
    ("wmt14_en_de/hrt/train.sh", "data-bin/valid.en-de.en.idx"),
    ("wmt22_en_de/hrt/train.sh", "data-bin/dict.de.txt"),
    ("ibdecoder/train.sh", "distilled/train.en-de.de.bin"),
])  # fmt: skip
def test_training_does_not_go_on_with_other_data(tmp_path, untrained, recipe, changed):
    for _ in range(2):
        assert untrained(recipe).stdout.endswith("trains\n")
    (tmp_path / changed).write_text("else")
    refused = untrained(recipe, status=1).stderr
    assert "was begun with other settings" in refused and "or say ADOPT=1" in refused
    # The user's choice wins, and stays.
    for settings in ({"ADOPT": "1"}, {}):
        assert untrained(recipe, **settings).stdout.endswith("trains\n")


def test_data_of_the_other_direction_and_shards(tmp_path, untrained):
    back = {"SRC": "de", "TGT": "en"}
    assert untrained("ibdecoder/train.sh", **back).stdout.endswith("trains\n")
    binarised(tmp_path / "shard")
    for path in (tmp_path / "shard").glob("valid.*"):
        path.unlink()
    shards = {"DATA": f"{tmp_path}/data-bin:{tmp_path}/shard", "OUT": str(tmp_path / "other")}
    assert untrained("wmt14_en_de/dag/train.sh", **shards).stdout.endswith("trains\n")
    (tmp_path / "shard/train.en-de.en.bin").write_text("else")
    assert (
        "was begun with other settings"
        in untrained("wmt14_en_de/dag/train.sh", **shards, status=1).stderr
    )


def test_the_processes_of_several_gpus_do_not_wait_for_each_other(tmp_path, untrained):
    (tmp_path / "out/.stages").mkdir(parents=True)
    with (tmp_path / "out/.stages/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for rank in ({"RANK": "1"}, {"SLURM_PROCID": "3"}):
            assert "another start" not in untrained("wmt14_en_de/dag/train.sh", **rank).stdout


NESTED = """
set -euo pipefail
OUT=$1
source {recipe}
# As the recipe got it: the one that it calls spells it otherwise.
OUT=$1
nothing() {{ :; }}
stage "$2" "$OUT" 1 nothing
shift 2
if [ $# -gt 0 ]; then bash "$0" "$@"; fi
"""


def test_a_recipe_does_not_wait_for_the_one_that_called_it(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    script = tmp_path / "nested.sh"
    script.write_text(NESTED.format(recipe=EXAMPLES / "common/recipe.sh"))
    folders = [tmp_path / "link", tmp_path / "other", tmp_path / "real", tmp_path / "link"]
    names = ["first", "second", "third", "fourth"]
    shown = bash(
        script, *(str(word) for pair in zip(folders, names) for word in pair), limit=60
    ).stdout
    assert [line.split("] ")[1] for line in shown.splitlines()] == names


def test_what_was_used_may_be_removed(tmp_path, raw_text, untrained):
    settings = {
        **raw_text("en", "de", copies=True), "OUT": str(tmp_path / "prepared"), "MERGES": "30",
        "BASH_FUNC_fairseq-preprocess%%": "() { :; }",
    }  # fmt: skip
    del settings["DATA"], settings["SAMPLE"]
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for split in ("train", "valid", "test"):
        for language in ("en", "de"):
            (tmp_path / f"{split}.{language}").rename(corpus / f"{split}.{language}")
    bash(COLLECT, str(corpus), **settings)
    # Packed, it is the same text.
    subprocess.run(["gzip", str(corpus / "test.de")], check=True)
    assert "\n+ " not in bash(COLLECT, str(corpus), **settings, SPLITS=" train  valid test").stdout
    for folder in (corpus, tmp_path / "prepared/raw"):
        shutil.rmtree(folder)
        assert "\n+ " not in bash(COLLECT, str(corpus), **settings).stdout
    other = bash(COLLECT, str(corpus), check=False, **{**settings, "OUT": str(tmp_path / "third")})
    assert other.returncode == 1 and "has neither train.en nor train.en.gz" in other.stderr


def test_other_text_under_the_same_name_is_noticed(raw_text, tmp_path):
    settings = {**raw_text("en", "de", copies=True), "MERGES": "30", "SPLITS": "train valid"}
    del settings["SAMPLE"]
    (tmp_path / "test.de").unlink()
    folder = settings.pop("DATA")
    bash(COLLECT, folder, **settings)
    words = tmp_path / "out/text/valid.de"
    assert (
        "fährt" in words.read_text() and not (tmp_path / "out/data-bin/test.en-de.de.bin").exists()
    )
    assert "\n+ " not in bash(COLLECT, folder, **settings).stdout
    (tmp_path / "valid.de").write_text("ein Hund .\n" * 9)
    stopped = bash(COLLECT, folder, **{**settings, **BEFORE_SUBWORDS}, check=False)
    assert "collect: settings changed" in stopped.stdout and stopped.returncode == 3
    assert words.read_text() == "ein Hund .\n" * 9
    missing = bash(COLLECT, folder, **{**settings, "SPLITS": "train test"}, check=False)
    assert missing.returncode == 1 and "has neither test.de nor test.de.gz" in missing.stderr
    assert "cat:" not in missing.stderr
    assert (tmp_path / "out/raw/valid.de.gz").exists()


def test_sources_are_cut_and_targets_are_not(raw_text):
    settings = {**raw_text("en", "de", copies=True), "MERGES": "30", "SPLITS": "train valid"}
    folder, out = settings.pop("DATA"), Path(settings["OUT"])
    del settings["SAMPLE"]
    recipe = EXAMPLES / "common/prepare_text.sh"
    bash(recipe, folder, **settings, LONGEST_SOURCE="5")
    for split in ("train", "valid"):
        cut, whole, targets = (
            (out / "bpe" / name).read_text().splitlines()
            for name in (f"{split}.en", f"whole.{split}.en", f"{split}.de")
        )
        assert cut == [" ".join(line.split()[:5]) for line in whole]
        assert min(len(line.split()) for line in (*whole, *targets)) > 5
    binary = out / "data-bin/train.en-de.en.bin"
    size = binary.stat().st_size
    assert "\n+ " not in bash(recipe, folder, **settings, LONGEST_SOURCE="5").stdout
    assert "settings changed" in bash(recipe, folder, **settings, LONGEST_SOURCE="4").stdout
    # Five and four subwords, and the end of the sentence.
    assert 6 * binary.stat().st_size == 5 * size
    for wrong, message in (
        ({"LONGEST_SOURCE": "all"}, "LONGEST_SOURCE=all: give a number of 1 or more"),
        (
            {"LONGEST_SOURCE": "5", "SENTENCEPIECE": "learn"},
            "leave TOKENISED, SEPARATE and LONGEST",
        ),
    ):
        assert message in bash(recipe, folder, check=False, **settings, **wrong).stderr


def test_another_teacher_under_the_same_name_translates_anew(tmp_path, untrained):
    teacher = tmp_path / "checkpoint_best.pt"
    assert "there is no checkpoint" in untrained("common/distill.sh", str(teacher), status=1).stderr
    shown = []
    for content in ("a", "a", "b", None):
        teacher.unlink() if content is None else teacher.write_text(content)
        shown.append(untrained("common/distill.sh", str(teacher)).stdout)
    assert ["settings changed" in own for own in shown] == [False, False, True, False]
    (tmp_path / "second.pt").write_text("c")
    ensemble = f"{tmp_path / 'second.pt'}:{teacher}"
    assert (
        f"there is no checkpoint {teacher}"
        in untrained("common/distill.sh", ensemble, status=1).stderr
    )
    teacher.write_text("b")
    assert "settings changed" in untrained("common/distill.sh", ensemble).stdout


# Trainings and decodings of no time: a model is what its command was.
AT_ONCE = """
fairseq-train() {
    local folder=$*
    folder=${folder##*--save-dir } && folder=${folder%% *}
    mkdir -p "$folder"
    if [ ! -f "$folder/checkpoint_last.pt" ]; then echo "$*" >"$folder/checkpoint_last.pt"; fi
    cp "$folder/checkpoint_last.pt" "$folder/checkpoint_best.pt"
}
fairseq-hrt() { rm -rf "$OUT/distilled/data-bin"; cp -r "$OUT/data-bin" "$OUT/distilled"; }
"""


@pytest.mark.parametrize("recipe, models", [
    ("hrt/train_at", ["at"]), ("hrt/train_hrt", ["hrt"]),
    ("bidirectional/train", ["bidirectional_2x1"]), ("dag/train", ["dag_nll", "dag_fuzzy"]),
    ("ctc/train", ["ctc_nll", "ctc_ngram"]),
])  # fmt: skip
def test_a_model_of_multi30k_has_its_text_teacher_and_settings(tmp_path, recipe, models):
    out = tmp_path / "out"
    out.mkdir()
    binarised(out / "data-bin")
    (tmp_path / "stubs.sh").write_text(AT_ONCE)
    if models != ["at"]:
        (out / "at").mkdir()
        (out / "at/checkpoint_best.pt").write_text("teacher")

    def started(*arguments, check=True, **changes):
        script = EXAMPLES / f"multi30k/{recipe}.sh"
        changes.update(OUT=str(out), BASH_ENV=str(tmp_path / "stubs.sh"), PRECISION="float32")
        return bash(script, *arguments, check=check, limit=60, **changes)

    def trained_anew(*arguments, **changes):
        for model in models:
            if (out / model).exists():
                (out / model / "checkpoint_last.pt").write_text("before")
        started(*arguments, **changes)
        return [
            "before" not in (out / model / "checkpoint_last.pt").read_text() for model in models
        ]

    every, none = [True] * len(models), [False] * len(models)
    assert trained_anew() == every and trained_anew() == none
    assert trained_anew(SEED="2") == every and trained_anew(SEED="2") == none
    (out / "data-bin/train.en-de.de.bin").write_text("else")
    assert trained_anew(SEED="2") == every
    if models != ["at"]:
        (out / "at/checkpoint_best.pt").write_text("trained further")
        assert trained_anew(SEED="2") == every and trained_anew(SEED="2") == none
    if len(models) == 1:
        assert trained_anew("--dropout", "0.3", SEED="2") == every
        # A folder that the user names is another model, and is not removed.
        own = tmp_path / "own"
        assert (
            trained_anew("--save-dir", str(own)) == none and (own / "checkpoint_last.pt").exists()
        )
        refused = started(f"--save-dir={own}", "--dropout", "0.3", check=False)
        assert refused.returncode == 1 and f"{own} was begun with other settings" in refused.stderr
        assert (own / "checkpoint_last.pt").exists()


@pytest.mark.slow
def test_several_languages_become_one_task(forks, tmp_path):
    for split, lines in (("train", 40), ("val", 5), ("test_2016_flickr", 5)):
        for language, words in (
            ("en", "a man rides a bike ."),
            ("de", "ein Mann fährt Rad ."),
            ("fr", "l'homme fait du vélo ."),
        ):
            with gzip.open(tmp_path / f"{split}.{language}.gz", "wt") as file:
                file.write("".join(f"{words} {number}\n" for number in range(lines)))
    settings = {"DATA": str(tmp_path), "OUT": str(tmp_path / "out"), "MERGES": "60", "TGT": "de fr"}
    settings["SPLITS"] = "train"
    for command in commands(
        "multi30k/prepare.sh", **{name: settings[name] for name in ("DATA", "TGT")}
    ):
        parse(command)
    # All parts are made into words, mixed and told apart in the same way.
    others = "*/tokenize_text.py*/raw/test.*|*/tokenize_text.py*/raw/valid.*"
    own = forks.of_a_shell(python=f'case "$*" in {others}) gzip -cdf "${{@: -1}}"; return ;; esac')
    settings.update(own)
    bash(EXAMPLES / "multi30k/prepare.sh", **settings)
    assert (tmp_path / "out/mixed/test.en").read_text().startswith("__de__ a man rides a bike . 0")
    words = [
        (tmp_path / f"out/text/train.{language}").read_text().split("\n")[:4]
        for language in ("en", "xx")
    ]
    assert words[0] == [
        "__de__ a man rides a bike . 0",
        "__fr__ a man rides a bike . 0",
        "__de__ a man rides a bike . 1",
        "__fr__ a man rides a bike . 1",
    ]
    assert words[1] == [
        "ein Mann fährt Rad . 0",
        "l' homme fait du vélo . 0",
        "ein Mann fährt Rad . 1",
        "l' homme fait du vélo . 1",
    ]
    # A language stays one word, whatever else is split.
    assert {
        line.split()[0] for line in (tmp_path / "out/bpe/train.en").read_text().splitlines()
    } == {"__de__", "__fr__"}
    assert (tmp_path / "out/data-bin/train.en-xx.xx.bin").exists()
    assert "\n+ " not in bash(EXAMPLES / "multi30k/prepare.sh", **settings).stdout
    # Other languages are another text.
    settings["TGT"] = "fr\tde"
    settings.update({**copied(own), **BEFORE_SUBWORDS})
    assert bash(EXAMPLES / "multi30k/prepare.sh", **settings, check=False).returncode == 3
    assert (tmp_path / "out/text/train.en").read_text().startswith("__fr__")
    prepare, mixed = EXAMPLES / "common/prepare_text.sh", tmp_path / "out/mixed"
    (mixed / "test.xx").write_text("eins\n")
    refused = bash(
        prepare, str(mixed), check=False, OUT=str(tmp_path / "other"), TGT="xx", TOKENISED="1",
        SPLITS="test",
    )  # fmt: skip
    assert refused.returncode == 1 and "have different numbers of lines" in refused.stderr


def test_own_data_are_used(tmp_path):
    for name in ("train.fr.gz", "test.fr.gz"):
        (tmp_path / name).touch()
    shown = commands("quickstart.sh", DATA=str(tmp_path), SRC="en", TGT="fr")
    flat = [word for command in shown for word in command]
    assert str(tmp_path / "train.fr.gz") in flat
    assert "examples/corpus/generate.py" not in flat
    assert "--valid-translations" not in flat
    assert flat[flat.index("--references") + 1] == str(tmp_path / "test.fr.gz")


def test_missing_data_are_named(tmp_path):
    result = bash(
        EXAMPLES / "multi30k/prepare.sh", DATA=str(tmp_path), OUT=str(tmp_path / "out"), check=False
    )
    assert result.returncode == 1
    assert "has no train.en.gz" in result.stderr


STAGES = """
set -euo pipefail
OUT=$1
source {recipe}
first() {{ echo first >>"$OUT/log"; touch "$OUT/a/result"; if [ -n "${{CRASH:-}}" ]; then exit 3; fi; }}
second() {{ echo second >>"$OUT/log"; ls "$OUT/b" >>"$OUT/log"; touch "$OUT/b/result"; }}
stage first "$OUT/a" "${{SETTING:-1}}" first
stage second "$OUT/b" "${{OTHER:-1}}" second
"""


@pytest.fixture
def stages(tmp_path):
    script = tmp_path / "recipe_under_test.sh"
    script.write_text(STAGES.format(recipe=EXAMPLES / "common/recipe.sh"))
    out = tmp_path / "out"
    out.mkdir()

    def run(**environment):
        (out / "log").write_text("")
        status = bash(script, str(out), check=False, **environment).returncode
        return status, (out / "log").read_text().split()

    return run


@pytest.mark.parametrize(
    "recipe, grids",
    [
        (
            "multi30k/dag/benchmark.sh",
            ["lenpen"] + 2 * ["dag_decode_beta", "dag_decode_length_beta"],
        ),
        ("multi30k/hrt/benchmark.sh", 3 * ["lenpen"]),
        ("multi30k/bidirectional/benchmark.sh", None),
    ],
)
def test_options_are_chosen_on_the_validation_set_where_that_is_wanted(recipe, grids):
    assert not any("tune" in command for command in commands(recipe))
    chosen = [
        command for command in commands(recipe, TUNE="1") if command[:2] == ["fairseq-hrt", "tune"]
    ]
    for command in chosen:
        parse(command)
        assert (
            "--gen-subset" not in command
            and command[command.index("--detokenize") + 1] == "moses:de"
        )
    names = [command[command.index("--grid") + 1].split("=")[0] for command in chosen]
    assert names == grids if grids else set(names) == {"lenpen"}


def test_chosen_options_reach_the_comparison(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "fairseq-hrt").write_text(
        '#!/bin/bash\nfor word; do case $word in *_beta=*) echo "${word%%=*}=1.7";; esac; done\n'
    )
    (tools / "fairseq-hrt").chmod(0o755)
    script = (
        f"source {EXAMPLES}/common/recipe.sh; PATH={tools}:$PATH; SRC=en TGT=de; source"
        ' $COMMON/systems.sh; dag_systems X model.pt; printf "%s\\n" "${SYSTEMS[@]}"; cat'
        " $OUT/tuned/X_lookahead/best"
    )
    shown = subprocess.run(
        ["bash", "-ec", script],
        env={**os.environ, "OUT": str(tmp_path / "out"), "TUNE": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    systems = [line for line in shown if line.startswith("name=X")]
    assert [system.count("=1.7") for system in systems] == [0, 1, 1]
    assert systems[1].endswith("dag_decode_strategy=lookahead,dag_decode_beta=1.7")
    assert systems[2].endswith("dag_decode_strategy=joint-viterbi,dag_decode_length_beta=1.7")
    assert shown[-1] == "dag_decode_beta=1.7"


def test_stages_run_once(stages):
    assert stages() == (0, ["first", "second"])
    assert stages() == (0, [])


def test_an_interrupted_stage_goes_on(stages):
    assert stages(CRASH="1") == (3, ["first"])
    assert stages() == (0, ["first", "second"])
    assert stages() == (0, [])


def test_a_changed_setting_starts_again_with_an_empty_folder(stages):
    stages()
    # The second stage would list a result left over from before.
    assert stages(OTHER="2") == (0, ["second"])
    assert stages(OTHER="2", SETTING="2") == (0, ["first", "second"])


def test_a_second_start_waits_for_the_first(stages, tmp_path):
    out, script = tmp_path / "out", tmp_path / "recipe_under_test.sh"
    script.write_text(
        script.read_text().replace(
            "first() {", "first() { until [ -f $OUT/go ]; do sleep 0.05; done;"
        )
    )
    (out / "log").touch()
    starts = []
    for _ in range(2):
        starts.append(
            subprocess.Popen(["bash", str(script), str(out)], stdout=subprocess.PIPE, text=True)
        )
        until((out / ".stages/first.started").exists)
    assert f"another start (process {starts[0].pid}) works in" in starts[1].stdout.readline()
    (out / "go").touch()
    shown = [start.communicate(timeout=30)[0] for start in starts]
    assert [start.returncode for start in starts] == [0, 0]
    assert shown[1].count("finished before") == 2 and (out / "log").read_text().split() == [
        "first",
        "second",
    ]


def test_what_outlives_a_killed_start_is_waited_for(stages, tmp_path):
    out, script = tmp_path / "out", tmp_path / "recipe_under_test.sh"
    (out / "log").touch()
    whole = script.read_text()
    # A process of its own.
    waits = 'bash -c "touch $OUT/started; until [ -f $OUT/go ]; do sleep 0.05; done"'
    script.write_text(whole.replace("first() {", f"first() {{ {waits}; }}; unused() {{"))
    killed = subprocess.Popen(["bash", str(script), str(out)], stdout=subprocess.DEVNULL)
    until((out / "started").exists)
    killed.kill()
    killed.wait()
    script.write_text(whole)
    second = subprocess.Popen(["bash", str(script), str(out)], stdout=subprocess.PIPE, text=True)
    assert f"another start (process {killed.pid}) works in" in second.stdout.readline()
    (out / "go").touch()
    second.communicate(timeout=30)
    assert bash(script, str(out)).stdout.count("finished before") == 2


TWO_LANES = """
set -euo pipefail
OUT=$1 LOGS=$1/logs
source {recipe}
train() {{ echo "begins $1"; touch "$OUT/$1/begun"; if [ -n "${{WAIT:-}}" ]; then sleep 60; fi; [ "$1" != "${{FAILS:-}}" ]; }}
left() {{ stage one "$OUT/one" 1 train one; stage two "$OUT/two" 2 train two; }}
right() {{ stage three "$OUT/three" 3 train three; }}
LANE="--lane 'One|$LOGS/one.log|0|1000' 'Two|$LOGS/two.log|0|1000' --lane 'Three|$LOGS/three.log|10|100'"
side_by_side "$LANE" left right
stage four "$OUT/four" 4 train four
"""


@pytest.fixture
def lanes(tmp_path):
    script = tmp_path / "recipe_under_test.sh"
    script.write_text(TWO_LANES.format(recipe=EXAMPLES / "common/recipe.sh"))
    out = tmp_path / "out"
    out.mkdir()
    return script, out


@pytest.mark.slow
def test_what_misses_the_first_signal_is_stopped_by_another(lanes):
    script, out = lanes
    deaf = """train() { touch "$OUT/$1/begun"; bash -c 'trap "trap - TERM" TERM; touch "$0"; while :; do sleep 0.1; done' "$OUT/$1/deaf"; }\nleft() {"""
    script.write_text(script.read_text().replace("left() {", deaf))
    process = subprocess.Popen(
        ["bash", str(script), str(out)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    for name in ("one", "three"):
        until((out / name / "deaf").exists)
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 143 and not (out / ".stages/one.done").exists()
    assert subprocess.run(["pgrep", "-f", str(out / "one/deaf")]).returncode == 1


def test_side_by_side(lanes):
    script, out = lanes
    shown = bash(script, str(out)).stdout
    assert all((out / name / "begun").exists() for name in ("one", "two", "three", "four"))
    assert "begins" not in shown and (out / "logs/two.log").read_text() == "begins two\n"
    assert bash(script, str(out)).stdout.count("finished before") == 4


def test_one_that_fails_stops_the_other_and_shows_its_end(lanes):
    script, out = lanes
    result = bash(script, str(out), FAILS="three", check=False)
    assert (
        result.returncode == 1
        and "error: the end of" in result.stderr
        and "begins three" in result.stderr
    )
    assert not (out / ".stages/three.done").exists() and not (out / "four").exists()
    shown = bash(script, str(out)).stdout
    assert "three\n" in shown and (out / "four/begun").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_both_and_the_next_start_goes_on_with_both(lanes, number):
    script, out = lanes
    environment = {**os.environ, "WAIT": "1"}
    process = subprocess.Popen(
        ["bash", str(script), str(out)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Where the tests themselves run in the background, this signal is ignored, and a shell
        # cannot change that.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    for name in ("one", "three"):
        until((out / name / "begun").exists)
    # A terminal signals the group of the recipe, in which the two are not; others signal the recipe
    # alone.
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    # Only when all of them have ended is the pipe closed.
    process.communicate(timeout=30)
    assert process.returncode == 128 + number
    shown = bash(script, str(out)).stdout
    assert "finished before" not in shown and (out / "four/begun").exists()


def test_progress_tells_what_is_done_and_how_long_it_takes(load_example, tmp_path):
    progress = load_example("common/progress.py")
    logs = [tmp_path / name for name in ("a.log", "b.log", "c.log")]
    lanes = [
        progress.Lane(
            [progress.Step(f"A|{logs[0]}|100|1000"), progress.Step(f"B|{logs[1]}|200|500")]
        ),
        progress.Lane([progress.Step(f"C|{logs[2]}|0|30000")]),
    ]
    assert progress.line(lanes, 1000, 990, 20) == "[ 10 s] starting; about 4 min to go"
    logs[0].touch()
    # A program that starts, or waits for another one, shows nothing of its speed: 200 s of work,
    # and 20 that follow.
    assert progress.line(lanes, 1060, 990, 20) == "[ 70 s] A 0 of 100 updates; about 4 min to go"
    logs[0].write_text(
        "train_inner | num_updates=5, lr=1\ntrain_inner | epoch 002: num_updates=25, lr=1\n"
    )
    logs[2].touch()
    assert (
        progress.line(lanes, 1100, 990, 20) == "[110 s] A 25 of 100 updates, C; about 3 min to go"
    )
    logs[0].write_text("num_updates=50, lr=1\n")
    # 25 s of work in 50 s: 150 s take twice as long, however long ago the last line is.
    assert (
        progress.line(lanes, 1150, 990, 20) == "[160 s] A 50 of 100 updates, C; about 5 min to go"
    )
    assert (
        progress.line(lanes, 1160, 990, 20) == "[170 s] A 50 of 100 updates, C; about 5 min to go"
    )
    logs[0].write_text("... num_updates=98, lr=1\ndone training in 99.0 seconds")
    logs[1].write_text("num_updates=100\n")
    assert (
        progress.line(lanes, 1200, 990, 20) == "[210 s] B 100 of 200 updates, C; about 2 min to go"
    )
    logs[1].write_text("num_updates=150\n")
    # 25 + 25 s in 50 + 45 s: another 25 s take 47.5.
    assert (
        progress.line(lanes, 1245, 990, 20) == "[255 s] B 150 of 200 updates, C; about 70 s to go"
    )
    with pytest.raises(ValueError, match="--lane 'A|b' is not TITLE"):
        progress.Step("A|b")


def test_progress_ends_with_the_first_process(load_example, capsys):
    progress = load_example("common/progress.py")
    child = subprocess.Popen(["sleep", "0"])
    child.wait()
    progress.main(
        ["--started", "0", "--lane", "A|none|0|1", "--", str(os.getpid()), str(child.pid)]
    )
    assert capsys.readouterr().out == ""


def test_the_short_table(load_example):
    table = load_example("common/short_table.py")
    system = {
        "name": "HRT", "quality": {"bleu": 93.04},
        "timings": {"1": {"decoder_calls": 90, "sentences_per_second": {"median": 500.0}}},
        "ratios": {"AT": {"1": {"median": 12.34}}},
    }  # fmt: skip
    unknown = {
        "name": "other",
        "quality": {"bleu": None},
        "timings": {"1": {"decoder_calls": None}},
        "ratios": {},
    }
    results = {"settings": {"speed_sentences": 10}, "systems": [system, unknown]}
    assert list(table.rows(results, "AT"))[1:] == [
        ("HRT", "93.0", "9.0", "2.0", "12.3"),
        ("other", "–", "–", "–", "–"),
    ]


def test_tokenisation_keeps_lines_and_can_be_undone(load_example, tmp_path, capsys):
    from sacremoses import MosesDetokenizer

    text = "Der Hund, der bellt & läuft, ist „groß“.\nA\u2028B\n"
    (tmp_path / "text.de").write_text(text, encoding="utf-8")
    load_example("common/tokenize_text.py").main([str(tmp_path / "text.de"), "--language", "de"])
    first, _ = capsys.readouterr().out.rstrip("\n").split("\n")
    assert first == 'Der Hund , der bellt & läuft , ist " groß " .'
    assert (
        MosesDetokenizer(lang="de").detokenize(first.split())
        == 'Der Hund, der bellt & läuft, ist "groß".'
    )


@pytest.mark.slow
def test_quickstart_from_end_to_end(forks, tmp_path):
    # Models that have learnt nothing write until there is no more room; graphs need theirs.
    room = '--max-target-positions $([[ "$*" == *_dag* ]] && echo 128 || echo 40)'
    own = forks.of_a_shell({"fairseq-train": f"{TINY} {room}"})
    # One system of each kind; whole recipes have the others.
    compare = tmp_path / "compare.py"
    compare.write_text(COMPARE)
    compared = f'if [ $1 = benchmark ]; then python {compare} "$@" --batch-sizes 1; return; fi;'
    own["BASH_FUNC_fairseq-hrt%%"] = begun(own["BASH_FUNC_fairseq-hrt%%"], compared)
    settings = {
        **own, "KEPT": "AT (greedy|[+])|HRT k=[23] .1|IB.* greedy|NAT|DAG lookahead|FA-DAT greedy",
        "OUT": str(tmp_path / "out"), "TRAIN": "150", "VALID": "5", "TEST": "5", "MERGES": "600",
        "AT_UPDATES": "2", "HRT_UPDATES": "2", "IB_UPDATES": "2", "IB2_UPDATES": "2",
        "NAT_UPDATES": "2", "DAG_UPDATES": "2", "FUZZY_UPDATES": "2",
        "SPEED_SENTENCES": "1", "REPEATS": "1", "ROWS": "all", "FAMILIES": "all",
    }  # fmt: skip
    shown = bash(EXAMPLES / "quickstart.sh", **settings).stdout
    # Progress and the table with translations; the programs' output goes to the logs.
    assert "\n+ " not in shown and shown.count("source  ") == 5
    assert re.search(r"training HRT\n", shown) and "What to try next" in shown
    document = json.loads((tmp_path / "out/results.json").read_text())
    names = [system["name"] for system in document["systems"]]
    assert {
        "AT greedy",
        "HRT k=2 (1,1)",
        "HRT k=3 (1,1)",
        "IBDecoder greedy",
        "IB+SA(2) greedy",
    } <= set(names)
    assert {
        "NAT (fairseq)",
        "DAG lookahead",
        "FA-DAT greedy",
        "AT + Jacobi",
        "AT + hrt drafts",
    } <= set(names)
    for system in document["systems"]:
        if system["name"].startswith("AT +"):
            assert system["identical"] == 5
    for system in document["systems"]:
        assert 0 <= system["quality"]["valid_share"] <= 1
        assert system["timings"]["1"]["decoder_calls"] > 0
    assert (tmp_path / "out/quality_speed.png").stat().st_size > 0
    assert "× AT greedy" in (tmp_path / "out/table.md").read_text()
    # One row a family needs no further training, but hrt's for k = 2 alone.
    del settings["ROWS"], settings["NAT_UPDATES"]
    installed = 'if [ "$1" = -c ]; then return 0; fi; '
    settings["BASH_FUNC_python%%"] = begun(own["BASH_FUNC_python%%"], installed)
    settings.update(UNDRAWN="1", KEPT="AT greedy|CTranslate2|native (HRT|FA-DAT)")
    again = bash(EXAMPLES / "quickstart.sh", **settings).stdout
    assert again.count("finished before") == 14 and again.count("settings changed") == 2
    document = json.loads((tmp_path / "out/results.json").read_text())
    assert [system["name"] for system in document["systems"]] == [
        "AT greedy (fairseq)", "AT greedy", "CTranslate2 int8", "native HRT", "native FA-DAT",
    ]  # fmt: skip
    for name in ("IB_UPDATES", "IB2_UPDATES", "DAG_UPDATES", "FUZZY_UPDATES"):
        del settings[name]
    settings.update(
        {"FAMILIES": "hrt", "HRT_UPDATES": "3", "BASH_FUNC_fairseq-train%%": "() { exit 3; }"}
    )
    short = bash(EXAMPLES / "quickstart.sh", check=False, **settings)
    assert short.returncode == 3 and "training HRT: settings changed" in short.stdout
    assert short.stdout.count("finished before") == 6
