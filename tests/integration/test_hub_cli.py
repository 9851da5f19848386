"""Bundles through the real command line and from Python: raw text in, raw text out, whatever is in
it."""

import json
import random
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from command_line import OPTIMIZER, SIZES, VALIDATED, hypotheses
from tiny_models import STUDENTS

import fairseq_hrt.cli.main

pytestmark = pytest.mark.slow
FAMILIES = ("hrt", "bidirectional", "dag", "ctc")


def verb(command, *arguments, **options):
    return command("fairseq-hrt", *arguments, **options)


@pytest.fixture
def refusal(capsys):
    """What is told by a verb that must refuse its arguments; in this process, which saves the start
    of another."""

    def run(*arguments):
        with pytest.raises(SystemExit) as stopped:
            fairseq_hrt.cli.main.main([*map(str, arguments)])
        told = capsys.readouterr().err
        assert stopped.value.code == 2 and "Traceback" not in told, told
        return told

    return run


@pytest.fixture(scope="module")
def bundles(toy_data, teacher, student_of, tmp_path_factory):
    """A bundle of each family and of the teacher, made in this process; the toy corpus has letters
    for words."""
    folder, found = tmp_path_factory.mktemp("bundles"), {}
    for family in ("teacher", *FAMILIES):
        checkpoint = teacher if family == "teacher" else student_of(family)
        task = ["--task", "translation_autoregressive"] if family == "teacher" else []
        found[family] = folder / family
        arguments = [
            checkpoint, "--data", toy_data, "--tokenizer", "space", "--subwords", "none", "--set",
            "beam=1", "--set", "max_len_b=20", *task, "--card", "BLEU=1.5", "--output",
            found[family],
        ]  # fmt: skip
        fairseq_hrt.cli.main.main(["bundle", *map(str, arguments)])
    return found


def test_a_bundle_is_complete_and_small(bundles, teacher):
    for family, folder in bundles.items():
        assert {path.name for path in folder.iterdir()} == {
            "README.md", "bundle.json", "model.pt", "dict.de.txt", "dict.en.txt",
        }  # fmt: skip
        card = (folder / "README.md").read_text()
        assert (
            "| BLEU | 1.5 |" in card
            and "| updates |" in card
            and f"fairseq-hrt translate {family}" in card
        )


@pytest.mark.parametrize("family", ["teacher", *FAMILIES])
def test_translations_are_those_of_fairseq_generate(command, toy_data, bundles, family):
    task = "translation_autoregressive" if family == "teacher" else f"translation_{family}"
    arguments = [
        "--user-dir",
        "fairseq_hrt",
        "--task",
        task,
        "--cpu",
        "--beam",
        "1",
        "--max-len-b",
        "20",
        "--unkpen",
        "inf",
    ]
    output = command(
        "fairseq-generate",
        toy_data,
        *arguments,
        "--path",
        bundles[family] / "model.pt",
        "--batch-size",
        "7",
    ).stdout
    expected = [texts[0] for _, texts in sorted(hypotheses(output).items())]
    lines = (Path(toy_data).parent / "test.de").read_text().splitlines()
    model = fairseq_hrt.from_pretrained(bundles[family], device="cpu")
    assert model.translate(lines) == expected
    assert model.translate(lines[3]) == expected[3] and model.translate([]) == []
    details = model.translate(lines, details=True, batch_size=3)
    assert [found.text for found in details] == expected
    for found in details:
        assert found.tokens[-1] == "</s>" and len(found.tokens) == len(
            found.positional_scores
        ) == len(found.token_steps)
        assert found.steps == max(found.token_steps)


@pytest.mark.parametrize("family", ["teacher", "bidirectional"])
def test_score_agrees_with_translate(bundles, family):
    model = fairseq_hrt.from_pretrained(bundles[family], device="cpu")
    sources = ["a b c d", "b", "f e d c b a", "", "c c"]
    found = model.translate(sources, details=True)
    scored = model.score(sources, [translation.text for translation in found])
    for translation, other in zip(found, scored):
        if other.score is None:
            assert not (translation.source and translation.text)
        elif translation.tokens == other.tokens:
            assert other.score == pytest.approx(translation.score, abs=1e-4)
    assert sum(other.score is not None for other in scored) >= 3
    with pytest.raises(ValueError, match="5 sources but 1 targets"):
        model.score(sources, ["a"])


def test_words_for_unknown_ones(bundles, tmp_path):
    """Only where they are asked for; otherwise the model may not say <unk> at all."""
    model = fairseq_hrt.from_pretrained(bundles["teacher"], device="cpu")
    (tmp_path / "lexicon").write_text("zebra Zebra\n")
    lines = ["zebra zebra zebra", "a zebra b"]
    eager = dict(unkpen=-100, min_len=3)
    assert model.translate(lines, **eager) == ["<unk> " * 19 + "<unk>"] * 2
    assert not any("<unk>" in text for text in model.translate(lines))
    copied = model.translate(lines, replace_unk=True, **eager)
    named = model.translate(lines, replace_unk=str(tmp_path / "lexicon"), **eager)
    assert set(copied[0].split()) == {"zebra"} and set(named[0].split()) == {"Zebra"}
    assert set(copied[1].split()) <= {"a", "b", "zebra"} and named[1] == copied[1].replace(
        "zebra", "Zebra"
    )
    with pytest.raises(ValueError, match="--replace-unk .*cannot be read"):
        model.translate(lines, replace_unk=str(tmp_path / "missing"))
    with pytest.raises(ValueError, match="--replace-unk: .*DagTransformerModel"):
        fairseq_hrt.from_pretrained(bundles["dag"], device="cpu").translate(lines, replace_unk=True)


def test_options_of_a_call(bundles):
    model = fairseq_hrt.from_pretrained(bundles["hrt"], device="cpu", beam=3)
    found = model.translate(["a b c d e"], details=True, nbest=3, hrt_nat_beam=3)[0]
    assert len(found.alternatives) == 2 and found.score >= found.alternatives[0].score
    single = model.translate(["a b c d e"], details=True, hrt_decode_chunk=1)[0]
    assert single.steps == len(single.tokens)
    jacobi = fairseq_hrt.from_pretrained(
        bundles["teacher"], device="cpu", task="translation_jacobi", jacobi_window=3
    )
    plain = fairseq_hrt.from_pretrained(bundles["teacher"], device="cpu")
    assert jacobi.translate(["a b c d", "e f"]) == plain.translate(["a b c d", "e f"])
    for wrong, message in (
        (dict(no_such=1), "no-such"),
        (dict(match_source_len=True), "--match-source-len"),
    ):
        with pytest.raises(ValueError, match=message):
            plain.translate(["a"], **wrong)
    with pytest.raises(ValueError, match="batch_size=0"):
        plain.translate(["a"], batch_size=0)


def test_several_threads(bundles):
    model = fairseq_hrt.from_pretrained(bundles["hrt"], device="cpu")
    lines = [" ".join(random.Random(seed).choices("abcdef", k=1 + seed % 7)) for seed in range(12)]
    expected = [model.translate(line) for line in lines]
    results = {}
    threads = [
        threading.Thread(
            target=lambda n=n: results.__setitem__(
                n, [model.translate(line) for line in lines[n::4]]
            )
        )
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: expected[n::4] for n in range(4)}


def test_a_bundle_shows_how_it_translates(command, refusal, bundles, tmp_path):
    """Traces of data are drawn elsewhere."""

    def translation(family):
        return fairseq_hrt.from_pretrained(bundles[family], device="cpu").translate("a b c d")

    shown = verb(command, "trace", bundles["hrt"], "--text", "a\tb c  d").stdout
    found = shown.splitlines()[-1].replace("●", "").split()[1:]
    assert found == [*translation("hrt").split(), "</s>"]
    assert "hrt:" in shown and "source  a b c d" in shown
    # Few links are drawn.
    options = ["--text", "a b c d", "--least", "0.9", "--out", tmp_path / "graph"]
    verb(command, "graph", bundles["dag"], *options)
    graph = json.loads((tmp_path / "graph/graph.json").read_text())
    assert graph["translation"] == translation("dag")
    for wrong, message in (
        (["trace", bundles["hrt"]], "holds no sentences"),
        (["graph", bundles["dag"], "--text", " "], "no words"),
    ):
        assert message in refusal(*wrong, "--out", tmp_path / "none")


def fuzzed_lines(count, seed):
    """Whatever a file of UTF-8 may hold, as bytes without line feeds: every special line, and so
    many others."""
    random.seed(seed)
    special = [
        b"", b" ", b"\t\r", b"\xff\xfe\xfa", b"a" * 300, "😀 🎉 a".encode(), b"\x02\x01\x1b[31m",
        "\u2028\u0085b".encode(), b"<s> </s> <pad> <unk>", b"--beam 3", b"a " * 250,
        "ü\u0301 \u200b".encode(), b"\xed\xa0\x80", b"$HOME `ls` \\n %s {}",
    ]  # fmt: skip
    lines = []
    for number in range(count):
        if number % 2:
            lines.append(" ".join(random.choices("abcdef", k=random.randint(1, 12))).encode())
        else:
            lines.append(
                bytes(random.choices([n for n in range(256) if n != 10], k=random.randint(1, 40)))
            )
    lines += special
    random.shuffle(lines)
    return [line.decode("utf-8", "replace").encode() for line in lines]


def test_every_line_comes_back(command, bundles, tmp_path):
    lines = fuzzed_lines(26, seed=1)
    path = tmp_path / "fuzzed.txt"
    path.write_bytes(b"\n".join(lines) + b"\n")
    # Lines of every family are counted elsewhere.
    output = verb(command, "translate", bundles["teacher"], path, "--json", "--quiet")
    # Not splitlines: U+2028 does not end a line.
    found = [json.loads(line) for line in output.stdout.split("\n")[:-1]]
    assert len(found) == len(lines) == 40 and "Traceback" not in output.stderr
    for line, translation in zip(lines, found):
        assert translation["source"] == line.decode().rstrip("\r")
        assert "\n" not in translation["text"]
        if not line.strip(b" \t\r"):
            assert translation["text"] == "" and translation["score"] is None


def test_files_and_pipes(command, forks, bundles, tmp_path):
    for number, text in enumerate(("a b\n\nc d", "e f\n")):
        (tmp_path / f"{number}.txt").write_text(text)
    both = verb(
        command, "translate", bundles["teacher"], tmp_path / "0.txt", tmp_path / "1.txt", "--quiet"
    ).stdout
    assert both.count("\n") == 4 and both.split("\n")[1] == ""
    verb(
        command,
        "translate",
        bundles["teacher"],
        tmp_path / "0.txt",
        tmp_path / "1.txt",
        "--output",
        tmp_path / "out",
        "--threads",
        "1",
    )
    assert (tmp_path / "out/0.txt").read_text() + (tmp_path / "out/1.txt").read_text() == both
    assert (
        verb(command, "translate", bundles["teacher"], stdin="a b\n\nc d").stdout
        + both.split("\n")[3]
        + "\n"
        == both
    )
    assert verb(command, "translate", bundles["teacher"], stdin="").stdout == ""
    # Behind a pipe each line is answered before the next one is written.
    program = [
        *forks.command("fairseq-hrt"), "translate", str(bundles["teacher"]), "--line-buffered",
    ]  # fmt: skip
    with subprocess.Popen(
        program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        for line in ("c d", "", "a b"):
            process.stdin.write(line + "\n")
            process.stdin.flush()
            assert (
                process.stdout.readline()
                == both.split("\n")[{"a b": 0, "": 1, "c d": 2}[line]] + "\n"
            )
        process.stdin.close()
    assert process.returncode == 0


def test_what_is_refused(refusal, bundles, toy_data, teacher, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(bundles["teacher"], broken)
    (broken / "dict.en.txt").unlink()
    foreign = tmp_path / "foreign"
    shutil.copytree(bundles["teacher"], foreign)
    text = (foreign / "bundle.json").read_text()
    (foreign / "bundle.json").write_text(text.replace('"model.pt"', '"../broken/model.pt"'))
    for arguments, message in (
        (["translate", tmp_path / "nowhere"], "is not a bundle"),
        (["translate", broken], "dict.en.txt"),
        (["translate", foreign], "'../broken/model.pt', which the bundle does not hold"),
        (["translate", bundles["teacher"], "--set", "beam"], "--set beam: give OPTION=VALUE"),
        (
            ["translate", bundles["teacher"], "--set", "no_such=1"],
            "--set no_such=1: there is no such option",
        ),
        (["translate", bundles["teacher"], tmp_path / "no.txt"], "no.txt is not a file"),
        (["translate", bundles["teacher"], "--batch-size", "0"], "--batch-size 0"),
        (
            [
                "bundle",
                teacher,
                "--data",
                toy_data,
                "--output",
                bundles["hrt"],
                "--tokenizer",
                "space",
                "--subwords",
                "none",
            ],
            "exists",
        ),
        (
            [
                "bundle",
                teacher,
                "--data",
                tmp_path,
                "--output",
                tmp_path / "b",
                "--subwords",
                "none",
            ],
            "does not hold dict.de.txt: give the folder with both dictionaries",
        ),
        (
            [
                "bundle",
                teacher,
                "--data",
                toy_data,
                "--output",
                tmp_path / "b",
                "--subwords",
                "subword-nmt",
            ],
            "need a file of codes",
        ),
        (["nonsense"], "there is no verb 'nonsense'"),
        (["doctor", "--beam"], "unrecognized arguments: --beam"),
    ):
        assert message in refusal(*arguments)
    assert not (tmp_path / "b").exists()


def test_every_verb_explains_itself(command):
    shown = verb(command, "--help").stdout
    from fairseq_hrt.cli.main import VERBS

    for name in VERBS:
        assert re.search(rf"\n +{name}\s", shown)
    for name in ("translate", "distill", "trace"):
        assert f"usage: fairseq-hrt {name}" in verb(command, name, "--help").stdout


# ---------------------------------------------------------------------- distillation


def distilled(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_distillation_is_complete_and_trains_students(command, toy_data, teacher, tmp_path):
    system = f"name=teacher,path={teacher},task=translation_autoregressive,beam=2,max_len_b=20"
    verb(
        command,
        "distill",
        toy_data,
        "--system",
        system,
        "--block",
        "16",
        "--max-tokens",
        "120",
        "--out",
        tmp_path / "distilled",
    )
    statistics = json.loads((tmp_path / "distilled/statistics.json").read_text())
    assert statistics["sentences"] == statistics["pairs"] > 100
    assert (tmp_path / "distilled/train.de").read_text() == (
        Path(toy_data).parent / "train.de"
    ).read_text()
    command(
        "fairseq-train", toy_data, "--user-dir", "fairseq_hrt", "--task",
        "translation_bidirectional",
        *STUDENTS["bidirectional"].split(), *SIZES, *OPTIMIZER, "--max-update", "1", "--save-dir",
        tmp_path / "student", "--distilled-data", tmp_path / "distilled/data-bin",
    )  # fmt: skip
    # The translations alone, validated on the data's own sentences.
    trained = command(
        "fairseq-train", tmp_path / "distilled/data-bin", "--task", "translation", "--arch",
        "transformer", "--criterion", "label_smoothed_cross_entropy", *SIZES, *VALIDATED,
        "--max-update", "1", "--save-dir", tmp_path / "alone",
    )  # fmt: skip
    assert 'begin validation on "valid" subset' in trained.stdout + trained.stderr


def test_shards_and_several_translations(command, refusal, toy_data, teacher, tmp_path):
    system = (
        f"name=teacher,path={teacher},task=translation_autoregressive,beam=2,nbest=2,max_len_b=20"
    )
    arguments = [
        "distill",
        toy_data,
        "--system",
        system,
        "--gen-subset",
        "test",
        "--block",
        "5",
        "--out",
        tmp_path,
    ]
    first = verb(command, *arguments, "--num-shards", "2", "--shard-id", "0")
    assert (
        not (tmp_path / "statistics.json").exists() and "2 blocks of other shards" in first.stderr
    )
    verb(command, *arguments, environment={"WORLD_SIZE": "2", "RANK": "1"})
    assert json.loads((tmp_path / "statistics.json").read_text())["pairs"] == 40
    for change, message in (
        (["--shard-id", "2", "--num-shards", "2"], "--shard-id 2 with --num-shards 2"),
        (["--block", "7"], "block: 5 then, 7 now"),
    ):
        assert message in refusal(*arguments, *change)


def test_the_python_of_the_manual(bundles):
    text = (Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text()
    block = next(
        part.split("```")[0] for part in text.split("```python\n")[1:] if "from_pretrained" in part
    )
    names = {}
    exec(block, names)
    model = fairseq_hrt.from_pretrained(bundles["dag"])
    assert names["translate_politely"](bundles["dag"], ["a b", ""]) == [
        f"{model.translate('a b')} (1 passes)",
        " (0 passes)",
    ]
