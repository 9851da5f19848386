"""Bundles on the native engine: loaded and refused; the translations are those of PyTorch's
engine."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_models
from native_bundles import LINES, loaded, with_runtime
from tiny_models import FAMILIES

import fairseq_hrt
import fairseq_hrt.native.bundles.bundle as bundle_module
from fairseq_hrt.cli import translate as verb
from fairseq_hrt.export.torch_decoder import TorchDecoder
from fairseq_hrt.native import families
from fairseq_hrt.native.bundles import native_decoder
from fairseq_hrt.native.bundles.decoder import Wanted
from fairseq_hrt.native.bundles.native_decoder import (
    NativeDecoder,
    default_threads,
    native_options,
)
from fairseq_hrt.native.options.values import UnsupportedOption

# A bundle for each way of decoding.
pytestmark = pytest.mark.slow


def shown(found):
    return [
        (one.text, one.tokens, one.steps, one.token_steps, len(one.alternatives)) for one in found
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_translations_are_those_of_pytorch(bundles, family):
    native, torch = (loaded(bundles / family, engine) for engine in ("auto", "torch"))
    assert isinstance(native.decoder, NativeDecoder) and isinstance(torch.decoder, TorchDecoder)
    expected, found = (
        torch.translate(LINES, details=True),
        native.translate(LINES, details=True, batch_size=3),
    )
    assert shown(found) == shown(expected)
    for one, other in zip(found, expected):
        assert one.source == other.source and one.score == pytest.approx(other.score, abs=1e-4)
        assert one.positional_scores == pytest.approx(other.positional_scores, abs=1e-4)
    assert native.translate(LINES) == [one.text for one in expected]
    assert native.translate(LINES[0]) == expected[0].text and native.translate([]) == []
    for model in (native, torch):
        seen = []
        model.translate(LINES, progress=lambda *done: seen.append(done), batch_size=2)  # noqa: B023
        assert len(seen) > 1 and [*seen] == sorted(set(seen))
        assert seen[-1][0] == seen[-1][1] >= len(LINES)
    assert native.translate(LINES, progress=print, batch_size=2) == [one.text for one in expected]


def test_options_of_a_call(bundles):
    native, torch = (
        fairseq_hrt.from_pretrained(bundles / "hrt", device="cpu", engine=engine, beam=3)
        for engine in ("native", "torch")
    )
    for options in (
        {"nbest": 2},
        {"hrt_decode_chunk": 1},
        {"hrt_nat_beam": 1, "lenpen": 0.5},
        {"max_len_b": 4},
        {"unnormalized": True},
        {"cpu": True},
    ):
        assert shown(native.translate(LINES[:4], details=True, **options)) == shown(
            torch.translate(LINES[:4], details=True, **options)
        ), options


def test_translations_begin_with_forced_words(bundles):
    native, torch = (loaded(bundles / "autoregressive", engine) for engine in ("native", "torch"))
    word = native.decoder.target.words[5]
    for more in ({}, {"beam": 1}):
        options = {"forced_start": f"{word} <unk>", **more}
        found, expected = (
            model.translate(LINES[:4], details=True, **options) for model in (native, torch)
        )
        assert shown(found) == shown(expected) and all(
            one.tokens[:2] == [word, "<unk>"] for one in found if one.tokens
        )
        for progress in (None, lambda *_: None):
            again = native.translate(LINES[:4], details=True, progress=progress, **options)
            assert shown(again) == shown(found)
    with pytest.raises(
        ValueError, match="--forced-start zzz: zzz is not a word of the target dictionary"
    ):
        native.translate(LINES[0], forced_start="zzz")
    with pytest.raises(
        ValueError, match="prefix_size=2: there are no target lines to take words from"
    ):
        native.translate(LINES[0], prefix_size=2)


def test_what_the_native_engine_does_not_know(bundles, caplog):
    native = loaded(bundles / "autoregressive", "native")
    for options, message in (
        ({"sampling": True}, "--sampling"),
        ({"task": "translation_hrt"}, "translation_hrt"),
        ({"task": "translation_jacobi", "jacobi_draft": "ngram"}, "--jacobi-draft ngram"),
        (
            {"task": "translation_jacobi", "jacobi_draft": "hrt", "jacobi_draft_path": "a.pt"},
            "--jacobi-draft hrt",
        ),
        ({"task": "translation_jacobi", "jacobi_mode": "pj"}, "--jacobi-mode pj"),
        ({"rescore_path": "a.pt"}, "--rescore-path a.pt"),
        ({"no_such": 1}, "--no-such"),
    ):
        with pytest.raises(UnsupportedOption, match=f"{message}.*--engine torch"):
            native.translate(["a"], **options)
        with pytest.raises(UnsupportedOption, match=message):
            fairseq_hrt.from_pretrained(bundles / "autoregressive", engine="native", **options)
    with pytest.raises(ValueError, match="--sampling True changes no score"):
        native.score(["a"], ["A"], sampling=True)
    with pytest.raises(ValueError, match="batch_size=0"):
        native.translate(["a"], batch_size=0)
    # Left open, PyTorch takes over, and logs it once.
    auto = fairseq_hrt.from_pretrained(bundles / "autoregressive")
    torch = loaded(bundles / "autoregressive", "torch")
    jacobi = {"task": "translation_jacobi", "jacobi_window": 3, "jacobi_draft": "ngram"}
    assert [auto.translate(LINES, **jacobi) for _ in range(2)] == [torch.translate(LINES)] * 2
    assert sum("PyTorch takes over" in record.message for record in caplog.records) == 1
    assert isinstance(
        fairseq_hrt.from_pretrained(bundles / "autoregressive", **jacobi).decoder, TorchDecoder
    )


SOURCES = ["a b c", "", "j i h", "zzz a", "a", "b"]
TARGETS = ["A B", "A", " ", "I zzz </s>", "A B C D E", "B"]


def test_given_translations_have_the_scores_of_pytorch(bundles):
    native, torch = (loaded(bundles / "autoregressive", engine) for engine in ("native", "torch"))
    searching = tuple(
        fairseq_hrt.from_pretrained(
            bundles / "autoregressive", device="cpu", engine=engine, lenpen=2.0, beam=3, max_len_b=1
        )
        for engine in ("native", "torch")
    )
    jacobi = {"task": "translation_jacobi"}
    for models, options in (
        ((native, torch), {}),
        ((native, torch), {"batch_size": 2}),
        (searching, {}),
        (searching, jacobi),
        ((native, torch), jacobi),
    ):
        found, expected = (model.score(SOURCES, TARGETS, **options) for model in models)
        for one, other in zip(found, expected):
            close = [(given.score, given.positional_scores) for given in (one, other)]
            assert (close[0][0] is None) == (close[1][0] is None)
            assert close[0][0] is None or close[0][0] == pytest.approx(close[1][0], abs=1e-4)
            assert close[0][1] == pytest.approx(close[1][1], abs=1e-4)
            assert replace(one, score=0.0, positional_scores=[]) == replace(
                other, score=0.0, positional_scores=[]
            )
    assert native.score([], []) == []
    for sources, targets, message in (
        (["a"], [], "1 sources but 0 targets"),
        (
            ["a", "a " * 2000],
            ["A", "A"],
            "the source of pair 1 has 2001 subwords with </s>, the model takes 1024",
        ),
        (
            ["a"],
            ["A " * 2000],
            "the target of pair 0 has 2001 subwords with </s>, the model takes 1024",
        ),
        ("a", "A", "lists of lines; for one pair give"),
    ):
        for model in (native, torch):
            with pytest.raises(ValueError, match=message):
                model.score(sources, targets)
    for model in (native, torch):
        for size in (0, "3"):
            with pytest.raises(ValueError, match=f"batch_size={size!r}: give the number of sent"):
                model.score(["a"], ["A"], batch_size=size)
        for name, value in (("beam", 5), ("lenpen", 2), ("replace-unk", True)):
            with pytest.raises(ValueError, match=f"--{name} {value} changes no score: "):
                model.score(["a"], ["A"], **{name.replace("-", "_"): value})
    with pytest.raises(ValueError, match="--seed 1: the native engine draws nothing at random"):
        native.translate("a", seed=1)


def test_given_translations_are_prepared_as_their_language_wants(bundles, monkeypatch):
    native, made = fairseq_hrt.from_pretrained(bundles / "autoregressive", engine="native"), []
    original = bundle_module.TextPipeline
    monkeypatch.setattr(
        bundle_module, "TextPipeline", lambda *given: made.append(given[0]) or original(*given)
    )
    for _ in range(2):
        native.score(["a b"], ["A B"])
    assert [(recipe.source_lang, recipe.target_lang) for recipe in made] == [("en", "de")]
    engine = native.decoder.engine
    engine.header = replace(engine.header, longest_target=3)
    with pytest.raises(
        ValueError, match="the target of pair 1 has 4 subwords with </s>, the model takes 3"
    ):
        native.score(["a b c d", "a"], ["A B", "A B C"])


def test_given_translations_of_models_that_write_several_words_at_once(bundles, caplog):
    """PyTorch reads them, and is asked for where it was left open."""
    for family in ("hrt", "bidirectional", "dag"):
        auto, torch = (loaded(bundles / family, engine) for engine in ("auto", "torch"))
        assert auto.score(["a b"], ["A"]) == torch.score(["a b"], ["A"])
        assert (
            f"with autoregressive models, and this one is of the family {family}: use --engine torch"
            " (PyTorch takes over)" in caplog.text
        )
        with pytest.raises(UnsupportedOption, match=f"this one is of the family {family}"):
            loaded(bundles / family, "native").score(["a"], ["A"])


def test_jacobi_decoding_by_a_call(bundles):
    """Any bundle of a teacher decodes losslessly in parallel; options of that task need the
    task."""
    native, torch = (loaded(bundles / "autoregressive", engine) for engine in ("native", "torch"))
    expected = native.translate(LINES)
    for options in (
        {"jacobi_mode": "frontier", "jacobi_window": 9},
        {"jacobi_window": 2},
    ):
        found, other = (
            one.translate(LINES, details=True, task="translation_jacobi", **options)
            for one in (native, torch)
        )
        assert shown(found) == shown(other), options
        assert [one.text for one in found] == expected
    with pytest.raises(ValueError, match="replace_unk with unkpen=inf: no <unk> is written"):
        native.translate(LINES, replace_unk=True, unkpen="inf")
    assert native.translate(LINES, task="translation_jacobi", replace_unk=True) == native.translate(
        LINES, replace_unk=True
    )
    for options, message in (
        (
            {"jacobi_mode": "pj"},
            (
                "--jacobi-mode pj belongs to --task translation_jacobi, not"
                " translation_autoregressive: give"
            ),
        ),
        (
            {"task": "translation_jacobi", "beam": 2},
            "--beam 2: parallel decoding is exact for greedy search only",
        ),
        (
            {"task": "translation_jacobi", "jacobi_mode": "fast"},
            "--jacobi-mode fast: choose one of frontier, hgj, pgj, pj",
        ),
        (
            {"task": "translation_jacobi", "jacobi_window": "wide"},
            "--jacobi-window 'wide' is not an integer",
        ),
        ({"task": "translation_jacobi", "jacobi_draft": "source"}, "one dictionary for both sides"),
    ):
        with pytest.raises(ValueError, match=message):
            native.translate(LINES, **options)


def test_a_training_with_the_task_of_jacobi(tmp_path, monkeypatch):
    """Its options hold for that task alone."""
    monkeypatch.setitem(
        tiny_models.FAMILIES, "jacobi", ("translation_jacobi", *FAMILIES["jacobi"][1:])
    )
    bundle = with_runtime(tmp_path / "bundle", "jacobi", options={"beam": "1", "max_len_b": "20"})
    assert bundle.runtime_options == {"jacobi_mode": "frontier"}
    native, torch = (
        fairseq_hrt.from_pretrained(bundle.folder, engine=engine) for engine in ("native", "torch")
    )
    expected = torch.translate(LINES)
    assert native.translate(LINES) == expected
    for task in ("translation", "translation_autoregressive"):
        # fairseq's own task aligns no words, so symbols that the model lacks may stand elsewhere.
        lines = [line for line in LINES if "<" not in line] if task == "translation" else LINES
        expected = native.translate(lines)
        assert native.translate(lines, task=task) == torch.translate(lines, task=task) == expected
        assert native.translate(lines, task=task, beam=3) == torch.translate(
            lines, task=task, beam=3
        )


@pytest.mark.parametrize("place", ["options", "runtime_options"])
def test_bundles_of_earlier_versions_with_modes_of_the_paper(bundles, tmp_path, caplog, place):
    """The native engine had them until 0.2.0. PyTorch takes over, if it can; otherwise a
    refusal names what there is, which can be given instead."""
    folder = tmp_path / "bundle"
    shutil.copytree(bundles / "autoregressive", folder)
    document = json.loads((folder / "bundle.json").read_text())
    document["task"] = "translation_jacobi"
    document.setdefault(place, {}).update({"jacobi_mode": "hgj", "jacobi_block_size": "4"})
    (folder / "bundle.json").write_text(json.dumps(document))
    plain = loaded(bundles / "autoregressive", "native")
    model = fairseq_hrt.from_pretrained(folder)
    assert isinstance(model.decoder, TorchDecoder)
    assert model.translate(LINES) == plain.translate(LINES)
    refusal = "--jacobi-mode hgj: the native engine has frontier; use --engine torch for others"
    assert f"{refusal} (PyTorch takes over)" in caplog.messages
    with pytest.raises(UnsupportedOption, match=refusal):
        fairseq_hrt.from_pretrained(folder, engine="native")
    native = fairseq_hrt.from_pretrained(folder, engine="native", jacobi_mode="frontier")
    assert native.translate(LINES) == plain.translate(LINES)


@pytest.mark.parametrize("family", ["autoregressive", "hrt"])
def test_words_for_unknown_ones(bundles, tmp_path, family):
    native, torch = (loaded(bundles / family, engine) for engine in ("native", "torch"))
    (tmp_path / "lexicon").write_text("zebra Zebra\n")
    lines = ["zebra a zoo", "a zebra b", "", "zoo", " ".join(["zebra"] * 300)]
    # A reward: these models say little else.
    for options in (dict(unkpen=-100, min_len=3), dict(), dict(beam=3, nbest=2, unkpen=-100)):
        for lexicon in (True, str(tmp_path / "lexicon")):
            expected, found = (
                one.translate(lines, details=True, replace_unk=lexicon, **options)
                for one in (torch, native)
            )
            assert shown(found) == shown(expected)
            assert [[other.text for other in one.alternatives] for one in found] == [
                [other.text for other in one.alternatives] for one in expected
            ]
            assert native.translate(lines, replace_unk=lexicon, **options) == [
                one.text for one in expected
            ]
    first = native.translate(
        lines[0], replace_unk=str(tmp_path / "lexicon"), unkpen=-100, min_len=3
    )
    assert set(first.split()) <= {"Zebra", "zoo", "a"} and "<unk>" not in first
    assert "<unk>" not in native.translate(lines[0]) and "<unk>" in native.translate(
        lines[0], unkpen=-100
    )
    with pytest.raises(ValueError, match="--replace-unk .*cannot be read"):
        native.translate(lines, replace_unk=str(tmp_path / "missing"))


def test_where_words_come_from(bundles):
    native = loaded(bundles / "autoregressive", "native")
    plain, aligned = (
        native.translate(LINES, details=True, **options) for options in ({}, {"alignments": True})
    )
    for bare, one in zip(plain, aligned):
        assert (bare.text, bare.alignment) == (one.text, []) and len(one.alignment) == len(
            one.tokens
        )
        assert all(0 <= place < len(native.pipeline.words(one.source)) for place in one.alignment)
    # As docs/python.md names these subwords.
    page = (Path(__file__).resolve().parents[4] / "docs" / "python.md").read_text()
    (shown,), names = re.findall(r"```python\n(def aligned.*?)```", page, re.DOTALL), {}
    exec(shown, names)
    pairs = names["aligned"](native, LINES[0])
    words = native.pipeline.words(LINES[0])
    assert pairs == [
        (token, words[place]) for token, place in zip(aligned[0].tokens, aligned[0].alignment)
    ]
    assert pairs and pairs[-1][0] == "</s>"
    # A line that was cut: its second piece stands behind the first.
    assert max(aligned[-2].alignment) >= 256
    in_torch = fairseq_hrt.from_pretrained(native.bundle.folder, device="cpu", engine="torch")
    other = in_torch.translate(LINES, details=True, alignments=True)
    assert [one.alignment for one in other] == [one.alignment for one in aligned]
    for name, instead in (("graphs", "the lines to graphs"), ("scores", "details=True to trans")):
        with pytest.raises(ValueError, match=f"{name}=True is not an option .*: give {instead}"):
            native.translate(LINES, **{name: True})
    with pytest.raises(ValueError, match="not aligned"):
        loaded(bundles / "dag", "native").translate(LINES, replace_unk=True)


def test_graphs_are_those_of_pytorch(bundles):
    native, torch = (loaded(bundles / "dag", engine) for engine in ("native", "torch"))
    lines = ["a b c d", "", "j", "a b"]
    for documents, others in zip(
        native.graphs(lines, batch_size=2), torch.graphs(lines, batch_size=2)
    ):
        assert len(documents) == len(others) <= 1
        for one, other in zip(documents, others):
            assert one["translation"] == other["translation"] and one["score"] == pytest.approx(
                other["score"], abs=1e-4
            )
            for part in ("vertices", "links"):
                assert [entry["chosen"] for entry in one[part]] == [
                    entry["chosen"] for entry in other[part]
                ]
            assert [(link["from"], link["to"]) for link in one["links"]] == [
                (link["from"], link["to"]) for link in other["links"]
            ]
            for link, same in zip(one["links"], other["links"]):
                assert link["probability"] == pytest.approx(same["probability"], abs=1e-4)
            for vertex, same in zip(one["vertices"], other["vertices"]):
                assert vertex["passing"] == pytest.approx(same["passing"], abs=1e-4)
                assert vertex["tokens"][0]["token"] == same["tokens"][0]["token"]
                assert vertex["tokens"][0]["probability"] == pytest.approx(
                    same["tokens"][0]["probability"], abs=1e-4
                )
    with pytest.raises(ValueError, match="writes no graph"):
        loaded(bundles / "hrt", "native").graphs(["a"])
    with pytest.raises(ValueError, match="no model that writes graphs"):
        loaded(bundles / "hrt", "torch").graphs(["a"])


def test_a_switch_set_to_false_leaves_the_training_its_say(bundles, tmp_path):
    folder = tmp_path / "dag"
    shutil.copytree(bundles / "dag", folder)
    document = json.loads((folder / "bundle.json").read_text())
    document["runtime_options"] = {"dag_keep_repeats": "true"}
    (folder / "bundle.json").write_text(json.dumps(document))
    native = fairseq_hrt.from_pretrained(folder, engine="native", dag_keep_repeats=False)
    plan = native.decoder.prepare(native.defaults, Wanted(32), frozenset())
    assert plan.options.dag_keep_repeats


def test_options_are_read_once_for_calls_alike(bundles):
    decoder = fairseq_hrt.from_pretrained(bundles / "hrt", engine="native").decoder
    first = decoder.prepare({"beam": "2", "lenpen": "2"}, Wanted(4), frozenset())
    assert decoder.prepare({"lenpen": "2", "beam": "2"}, Wanted(4), frozenset()) is first
    options = first.options
    assert (options.beam, options.lenpen, options.batch_size, options.scores) == (2, 2.0, 4, True)
    other = decoder.prepare({"beam": "2", "lenpen": "2"}, Wanted(5, scores=False), frozenset())
    assert (other.options.batch_size, other.options.scores) == (5, False)
    for number in range(100):
        decoder.prepare({"max_len_b": str(number + 5)}, Wanted(4), frozenset())
    assert len(decoder._kept) == 64, "a server is asked with many"
    header = decoder.engine.header
    assert decoder.longest(first) == (header.longest_source, header.longest_target)
    assert decoder.identity() == {"engine": "native", "shortlist": False}


def test_tasks_set_options():
    frontier = native_options("translation_jacobi", {"beam": "1", "jacobi_window": "false"})
    assert frontier.changed() == {"beam": 1, "jacobi_mode": "frontier"}
    assert native_options("translation_jacobi", {"jacobi_mode": "pj"}).jacobi_mode == "pj"
    for task in ("translation_hrt", "another"):
        found = native_options(task, {"beam": "1", "seed": "7"}, batch_size=9)
        assert found.changed() == {"beam": 1, "batch_size": 9}
    with pytest.raises(
        ValueError,
        match="--jacobi-window 3 belongs to --task translation_jacobi, not translation: give",
    ):
        native_options("translation", {"jacobi_window": "3"})


def test_a_task_that_only_pytorch_decodes(monkeypatch):
    family = replace(families.FAMILIES[0], native=False)
    monkeypatch.setattr(native_decoder, "family_of_task", lambda task: family)
    with pytest.raises(UnsupportedOption, match="does not support the family autoregressive"):
        native_options("translation_autoregressive", {})


def test_threads(bundles, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert default_threads() == 1
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert 1 <= default_threads() <= os.cpu_count()
    model = fairseq_hrt.from_pretrained(bundles / "bidirectional", engine="native", threads=2)
    expected, found = model.translate(LINES), {}
    callers = [
        threading.Thread(target=lambda n=n: found.__setitem__(n, model.translate(LINES)))
        for n in range(3)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == dict.fromkeys(range(3), expected)


def damage_model(folder):
    (folder / "runtime.safetensors").write_bytes(b"\x00" * 100)


def swap_dictionary(folder):
    with open(folder / "dict.en.txt", "a") as file:
        file.write("more 1\n")


def wrong_options(folder):
    document = json.loads((folder / "bundle.json").read_text())
    document["options"] = {"beam": ["5"]}
    (folder / "bundle.json").write_text(json.dumps(document))


def a_file_of_words(folder):
    """It would be read, and what it holds written instead of unknown words."""
    document = json.loads((folder / "bundle.json").read_text())
    document["options"] = {"replace_unk": "/etc/passwd"}
    (folder / "bundle.json").write_text(json.dumps(document))


def outside(folder):
    document = json.loads((folder / "bundle.json").read_text())
    document["runtime"] = "../other.safetensors"
    (folder / "bundle.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    "damage, message",
    [
        (damage_model, "runtime.safetensors"), (swap_dictionary, "make the bundle again"),
        (wrong_options, "option 'beam' to"), (a_file_of_words, "option 'replace_unk' to"),
        (outside, "which the bundle does not hold"),
        (lambda folder: (folder / "dict.de.txt").write_text("a\n"), "line 1 is 'a'"),
    ],
)  # fmt: skip
def test_damaged_bundles_are_refused(bundles, tmp_path, damage, message):
    folder = tmp_path / "damaged"
    shutil.copytree(bundles / "autoregressive", folder)
    damage(folder)
    with pytest.raises(ValueError, match=message):
        fairseq_hrt.from_pretrained(folder, engine="native")


def test_translating_needs_neither_pytorch_nor_fairseq(bundles, tmp_path):
    (tmp_path / "x").write_text("a b\n\nc\n")
    script = (
        "import sys; from fairseq_hrt.cli.main import main; main(['translate', sys.argv[1], 'x',"
        " '--output', 'y']); print([name for name in ('torch', 'fairseq', 'sacremoses',"
        " 'subword_nmt', 'tqdm') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, bundles / "hrt"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "[]\n"
    model = loaded(bundles / "hrt", "torch")
    assert (tmp_path / "y").read_text() == "".join(
        text + "\n" for text in model.translate(["a b", "", "c"])
    )


def test_the_verb_ends_in_the_middle_of_a_call(bundles, tmp_path):
    """And continues where it was: the blocks that were done stay."""
    generator = random.Random(3)
    # A block that is soon done, and one that is not.
    lengths = [1] * 1024 + [20] * 200
    lines = (" ".join(generator.choices("abcdefghij", k=length)) + "\n" for length in lengths)
    (tmp_path / "x").write_text("".join(lines))
    command = [
        sys.executable,
        "-m",
        "fairseq_hrt",
        "translate",
        bundles / "autoregressive",
        tmp_path / "x",
        "--engine",
        "native",
    ]
    command = [*map(str, command), "--threads", "1", "--set", "beam=8"]
    command += ["--set", "max_len_a=1", "--set", "max_len_b=1"]
    partial = tmp_path / "parts.partial"
    # On a busy machine the signal may come when all is done: then it is tried again.
    for _ in range(5):
        (tmp_path / "parts").unlink(missing_ok=True)
        with subprocess.Popen(
            [*command, "--resume", "--output", tmp_path / "parts"],
            stderr=subprocess.PIPE,
            text=True,
            # Who waits for it goes first.
            preexec_fn=lambda: os.nice(19),
        ) as process:
            while not (partial.exists() and partial.stat().st_size) and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=60)[1]
        if process.returncode:
            break
    # Behind the progress, which is shown after two seconds.
    assert said.endswith("interrupted\n") and process.returncode == 130
    kept = partial.read_bytes()
    assert kept.count(b"\n") % 1024 == 0
    subprocess.run([*command, "--resume", "--output", tmp_path / "parts"], check=True)
    subprocess.run([*command, "--output", tmp_path / "whole"], check=True)
    whole = (tmp_path / "whole").read_bytes()
    assert (tmp_path / "parts").read_bytes() == whole and whole.startswith(kept)


def test_the_verb(bundles, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_text("a b\n\nc\n")
    found = {}
    for engine in ("torch", "native"):
        verb.main(
            [
                str(bundles / "dag"),
                "x",
                "--engine",
                engine,
                "--json",
                "--threads",
                "1",
                "--output",
                engine,
            ]
        )
        found[engine] = [json.loads(line) for line in (tmp_path / engine).read_text().splitlines()]
    for one, other in zip(found["torch"], found["native"]):
        assert {**one, "score": None, "positional_scores": []} == {
            **other,
            "score": None,
            "positional_scores": [],
        }
        assert one["positional_scores"] == pytest.approx(other["positional_scores"], abs=1e-4)
    with pytest.raises(SystemExit):
        verb.main(
            [str(bundles / "dag"), "x", "--engine", "native", "--set", "dag_decode_strategy=beam"]
        )
    assert "--engine torch" in capfd.readouterr().err
