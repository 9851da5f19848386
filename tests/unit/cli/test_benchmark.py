"""``fairseq-hrt benchmark``: what is wrong is said before anything is loaded, and results are
written."""

import json
import os
from dataclasses import replace

import pytest
from invented_results import make_comparison

from fairseq_hrt.cli import benchmark
from fairseq_hrt.cli.benchmark import (
    build_parser,
    pin,
    read_raw_text,
    recipe_of_bundle,
    settings_of,
    systems_to_compare,
)
from fairseq_hrt.evaluation import comparison
from fairseq_hrt.evaluation.comparison import Settings
from fairseq_hrt.evaluation.systems import SystemSpec
from fairseq_hrt.native.text.recipe import TextRecipe


def parse(*arguments):
    return build_parser().parse_args(["data", *map(str, arguments)])


@pytest.fixture
def refused(monkeypatch, capsys):
    """The one line that refuses these arguments; loading a system is a failure."""
    monkeypatch.setattr(
        benchmark, "load_systems", lambda *given: pytest.fail("something was loaded")
    )

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            benchmark.main(["data", *map(str, arguments)])
        (line,) = capsys.readouterr().err.splitlines()
        assert end.value.code == 2
        return line

    return run


def test_defaults_are_those_of_the_settings():
    assert settings_of(parse()) == Settings()
    chosen = parse(
        "--batch-sizes",
        "1,8,64",
        "--repeats",
        "2",
        "--speed-sentences",
        "7",
        "--quality-batch",
        "3",
        "--seed",
        "9",
        "--threads",
        "4",
    )
    assert settings_of(chosen) == Settings([1, 8, 64], 2, 7, 3, 9, 4)


SYSTEM = ("--system", "name=a,path=a.pt")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "no system is given"), ([*SYSTEM, "--threads", "0"], "--threads 0 must be at least 1"),
        ([*SYSTEM, "--repeats", "-1"], "--repeats -1"),
        ([*SYSTEM, "--speed-sentences", "0"], "--speed-sentences 0"),
        ([*SYSTEM, "--quality-batch", "0"], "--quality-batch 0"),
        ([*SYSTEM, "--batch-sizes", "1,x"], "--batch-sizes '1,x': give numbers"),
        ([*SYSTEM, "--batch-sizes", "1,0"], "--batch-sizes '1,0': each must be at least 1"),
        ([*SYSTEM, "--length-bins", "6,4"], "--length-bins '6,4'"),
        ([*SYSTEM, "--detokenize", "x"], "'x'"), ([*SYSTEM, "--codes", "c"], "give --sources"),
        ([*SYSTEM, "--target-codes", "c"], "--target-codes: this prepares raw source lines"),
        ([*SYSTEM, "--comet", "missing.ckpt"], "missing.ckpt"),
        ([*SYSTEM, "--comet-program", "x"], "--comet-program x has an effect only with --comet"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_anything_is_loaded(refused, arguments, message):
    line = refused(*arguments)
    assert line.startswith("error: ") and message in line


def test_systems_of_options_and_file(tmp_path):
    (tmp_path / "more.json").write_text('[{"name": "c", "path": "c.pt", "beam": 5}]')
    found = systems_to_compare(
        parse(*SYSTEM, "--system", "name=b,path=b.pt", "--systems", tmp_path / "more.json")
    )
    assert [(spec.name, spec.path) for spec in found] == [
        ("a", "a.pt"),
        ("b", "b.pt"),
        ("c", "c.pt"),
    ]
    assert found[2].options == {"beam": "5"}


def test_what_was_parsed_reaches_the_comparison(monkeypatch, tmp_path, capsys):
    (tmp_path / "references").write_text("Ja.\nNein.\n")
    found, seen = make_comparison(), []
    monkeypatch.setattr(
        benchmark, "load_systems", lambda specs, options: [spec.name for spec in specs]
    )
    monkeypatch.setattr(
        comparison, "compare", lambda systems, **given: seen.append((systems, given)) or found
    )
    options = [
        "--references",
        tmp_path / "references",
        "--ratio-to",
        "a",
        "--identical-to",
        "a",
        "--rouge",
        "--repeats",
        "3",
    ]
    benchmark.main(["data", *SYSTEM, *map(str, options)])
    ((systems, given),) = seen
    assert (
        systems == ["a"]
        and given["references"] == ["a"]
        and given["reference_texts"] == ["Ja.", "Nein."]
    )
    assert (
        given["identical_to"] == "a"
        and given["rouge"] is True
        and given["valid"] is None
        and given["raw"] is None
    )
    assert given["settings"].repeats == 3 and given["detokenize"]("a b") == "a b"
    assert "| HRT k=2 (1,1) |" in capsys.readouterr().out


def test_raw_lines_and_their_preparation(tmp_path, monkeypatch):
    (tmp_path / "x").write_text("a\n\nb\u2028c\n")
    assert read_raw_text(parse()) is None
    options = parse("--sources", tmp_path / "x", "--tokenizer", "space", "--subwords", "none")
    with pytest.raises((ValueError, OSError), match="data"):
        read_raw_text(options)
    options.source_lang, options.target_lang = "de", "en"
    for language in ("de", "en", "fr"):
        (tmp_path / f"dict.{language}.txt").write_text("a 1\nb 1\n")
    options.data = str(tmp_path)
    raw = read_raw_text(options)
    assert raw.lines == ["a", "", "b\u2028c"] and raw.pipeline.words("a  b") == ["a", "b"]
    # The names of the files tell the languages.
    (tmp_path / "train.fr-en.fr.idx").touch()
    options.source_lang = None
    assert read_raw_text(options).pipeline.recipe.source_lang == "fr"
    # A bundle's own preparation, and the other tokens of a multilingual model.
    options.source_lang = "de"
    recipe = TextRecipe("de", "en", "space+lower", "none", source_prefix=">>eng<<")
    (tmp_path / "dict.de.txt").write_text(">>fra<< 1\n")
    words = read_raw_text(options, recipe).pipeline.words
    assert words("A b") == [">>eng<<", "a", "b"] and words(">>fra<< A") == [">>fra<<", "a"]
    with pytest.raises(ValueError, match="--tokenizer: this prepares raw source lines"):
        read_raw_text(parse("--tokenizer", "space"))


def test_translations_of_a_bundle_are_restored_by_its_preparation(tmp_path):
    from tiny_models import write_bundle

    from fairseq_hrt.evaluation.quality import build_detokenizer

    bundle = write_bundle(tmp_path / "b", "autoregressive", tokenizer="moses+escape")
    recipe = recipe_of_bundle([SystemSpec("a", str(bundle.folder), None, {})])
    assert build_detokenizer(None, recipe)("it &apos;s here .") == "it's here."
    assert build_detokenizer("none", recipe)("a .") == build_detokenizer(None)("a .") == "a ."
    assert recipe_of_bundle([SystemSpec("a", "checkpoint.pt", None, {})]) is None


def test_what_is_told_changes_the_preparation_of_a_bundle(tmp_path, monkeypatch):
    from tiny_models import write_bundle

    (tmp_path / "codes").write_text("#version: 0.2\na b\n")
    bundle = write_bundle(
        tmp_path / "b", "autoregressive", subwords="subword-nmt", codes=tmp_path / "codes"
    )
    description = json.loads((bundle.folder / "bundle.json").read_text())
    (bundle.folder / "bundle.json").write_text(json.dumps({**description, "source_prefix": "xx"}))

    def changed(*options):
        arguments = ["--system", f"name=a,path={bundle.folder}", "--sources", tmp_path / "codes"]
        seen = []
        with monkeypatch.context() as patch, pytest.raises(StopIteration):
            patch.setattr(benchmark, "read_raw_text", lambda options, recipe: seen.append(recipe))
            patch.setattr(benchmark, "load_systems", lambda *given: next(iter(())))
            benchmark.run(parse(*arguments, *options))
        return seen[0]

    own = changed()
    assert own.codes == bundle.folder / "codes" and own.source_prefix == "xx"
    assert changed("--tokenizer", "space+lower") == replace(own, tokenizer="space+lower")
    assert changed("--subwords", "none") == replace(own, subwords="none", codes=None)
    codes = replace(own, codes=tmp_path / "codes")
    assert changed("--codes", tmp_path / "codes") == codes
    other = changed("--target-codes", tmp_path / "codes")
    assert other == replace(own, target_codes=tmp_path / "codes")


def test_bundles_whose_text_is_prepared_differently_are_refused(tmp_path, refused, capsys):
    from tiny_models import write_bundle

    (tmp_path / "codes").write_text("#version: 0.2\na b\n")
    (tmp_path / "others").write_text("#version: 0.2\nb a</w>\n")
    (tmp_path / "lines").write_text("a\n")
    subwords = dict(subwords="subword-nmt", codes=tmp_path / "codes")

    def system(name, **changes):
        write_bundle(tmp_path / name, "autoregressive", **changes)
        return ["--system", f"name={name},path={tmp_path / name}"]

    first, same = system("first", **subwords), system("same", **subwords)
    other = system("other", **{**subwords, "codes": tmp_path / "others"})
    moses = system("moses", **subwords, tokenizer="moses+escape")
    capsys.readouterr()
    line = refused(*first, *moses)
    assert "systems first (space, subword-nmt) and moses (moses+escape, subword-nmt)" in line
    assert "give --detokenize for all, or compare each of them alone" in line
    assert "different steps or codes" in refused(*first, *same, *other)
    sources = ["--sources", tmp_path / "lines"]
    line = refused(*first, *moses, *sources, "--detokenize", "none")
    assert "give --tokenizer (--subwords, --codes) for all" in line
    told = ["--detokenize", "none", "--tokenizer", "space", "--subwords", "none"]
    for arguments in ([*first, *same], [*first, *moses, "--detokenize", "none"]):
        with pytest.raises(pytest.fail.Exception, match="something was loaded"):
            benchmark.main(["data", *arguments])
    data = str(tmp_path / "first_data")
    with pytest.raises(pytest.fail.Exception, match="something was loaded"):
        benchmark.main([
            data, *map(str, [*first, *moses, *sources, *told]), "-s", "de", "-t", "en",
        ])  # fmt: skip


def test_the_process_keeps_to_its_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {7, 3, 5}, raising=False)
    chosen = []
    monkeypatch.setattr(
        os, "sched_setaffinity", lambda pid, cores: chosen.append(cores), raising=False
    )
    pin(2)
    assert chosen == [[3, 5]]
    with pytest.raises(
        ValueError, match="--pin with --threads 4: this process may use only 3 cores"
    ):
        pin(4)
    monkeypatch.delattr(os, "sched_setaffinity")
    with pytest.raises(ValueError, match="leave out --pin"):
        pin(1)
