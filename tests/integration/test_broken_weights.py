"""Weights that are no numbers, or so large that the model computes none: every command ends with
one line, whatever decodes."""

import io
import math
import shutil
import sys
import warnings

import pytest
import torch
from tiny_models import FAMILIES, write_bundle, write_checkpoint

import fairseq_hrt
from fairseq_hrt.cli.main import main

pytestmark = pytest.mark.slow

PLACES = (
    "encoder.layers.0.fc1.weight",
    "decoder.layers.0.fc1.weight",
    "decoder.output_projection.weight",
)
# The second is found where the model is loaded, the first where it decodes.
VALUES = (math.inf, math.nan)
OPTIONS = {
    "hrt": "beam=1",
    "bidirectional": "beam=1",
    "dag": "dag_decode_strategy=greedy",
    "ctc": "beam=1",
    "jacobi": "jacobi_window=3,beam=1",
    "autoregressive": "beam=2",
}
# By either engine; the others tune.
DISTILLED = ("autoregressive", "bidirectional", "dag")
SAID = ("NaN", "is a number", "above 0")


@pytest.fixture
def run(monkeypatch, capsys):
    """A verb in this process: exit status and lines of the standard error."""

    def call(*arguments):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a b c\nd\n")))
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), write_through=True))
        try:
            status = main([*map(str, arguments)])
        except SystemExit as error:
            status = error.code
        monkeypatch.undo()
        return status, capsys.readouterr().err.splitlines()

    return call


@pytest.fixture(scope="session")
def bundles(tmp_path_factory):
    """A bundle of each family."""
    folder = tmp_path_factory.mktemp("bundles")
    return {family: write_bundle(folder / family, family).folder for family in FAMILIES}


def break_weights(path, name, value):
    state = torch.load(path, weights_only=False)
    # With everything that shares them.
    shared = [
        other
        for other in state["model"]
        if torch.equal(state["model"][other], state["model"][name])
    ]
    broken = state["model"][name].clone()
    broken[-1] = value
    state["model"].update(dict.fromkeys(shared, broken))
    torch.save(state, path)
    return path


def assert_refused(result):
    status, said = result
    assert status == 2, said
    errors = [line for line in said if line.startswith("error: ")]
    assert errors == said[-1:] and any(word in errors[0] for word in SAID), said


# Each family with two places and with each value; each place with each value. What is found by
# loading is found by one verb.
@pytest.mark.parametrize("family, place, value", [
    (family, PLACES[(row + column) % len(PLACES)], value)
    for row, family in enumerate([*FAMILIES, "fairseq's own"])
    for column, value in enumerate(VALUES)
])  # fmt: skip
def test_bundles(bundles, run, tmp_path, family, place, value):
    bundle = tmp_path / "bundle"
    shutil.copytree(bundles.get(family, bundles["autoregressive"]), bundle)
    break_weights(bundle / "model.pt", place, value)
    if family not in bundles:
        description = bundle / "bundle.json"
        description.write_text(
            description.read_text().replace("translation_autoregressive", "translation")
        )
    status, said = run("translate", bundle, "--engine", "torch")
    assert_refused((status, said))
    assert len(said) == 1
    if math.isnan(value):
        return
    if family in bundles:
        assert_refused(run("trace", bundle, "--text", "a b"))
    if family == "dag":
        assert_refused(run("graph", bundle, "--text", "a b", "--out", tmp_path / "graph"))
    with pytest.raises(ValueError, match="|".join(SAID)):
        fairseq_hrt.from_pretrained(bundle, engine="torch").translate("a b")
    if family in ("autoregressive", "fairseq's own"):
        with pytest.raises(ValueError, match="|".join(SAID)):
            fairseq_hrt.from_pretrained(bundle, engine="torch").score(["a b"], ["A"])


# What is found while it decodes by two verbs, each of them with either engine; what is found by
# loading by one.
@pytest.mark.parametrize("family, value, engine", [
    (family, value, ("fairseq", "runtime")[(row + column) % 2])
    for row, family in enumerate(FAMILIES)
    for column, value in enumerate(VALUES)
])  # fmt: skip
def test_checkpoints(toy_data, run, tmp_path, family, value, engine):
    path = break_weights(write_checkpoint(tmp_path / "x.pt", toy_data, family), PLACES[1], value)
    task = FAMILIES[family][2]
    system = f"name=x,path={path},engine={engine},max_len_b=20,{OPTIONS[family]}" + (
        f",task={task}" if task else ""
    )
    data = (toy_data, "-s", "de", "-t", "en", "--system", system)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_refused(
            run(
                "benchmark",
                *data,
                "--speed-sentences",
                2,
                "--repeats",
                1,
                "--batch-sizes",
                2,
                "--out",
                tmp_path / "b",
            )
        )
        if math.isinf(value) and family in DISTILLED:
            assert_refused(
                run("distill", *data, "--gen-subset", "valid", "--out", tmp_path / "distilled")
            )
        elif math.isinf(value):
            assert_refused(run("tune", *data, "--grid", "lenpen=0.5,1"))
    if family == "jacobi" and math.isnan(value):
        assert_refused(run("average", "--inputs", path, path, "--output", tmp_path / "averaged.pt"))
        assert_refused(
            run(
                "bundle",
                path,
                "--data",
                toy_data,
                "--tokenizer",
                "space",
                "--subwords",
                "none",
                "--output",
                tmp_path / "bundle",
            )
        )
        assert not (tmp_path / "bundle").exists() and not (tmp_path / "averaged.pt").exists()
