"""The tools beside fairseq's commands, on tiny models: comparison by length, mutual information, averages, training speed."""

import json
from pathlib import Path

import pytest
from command_line import OPTIMIZER, SIZES

pytestmark = pytest.mark.slow


def tool(command, name, *arguments, check=True):
    return command("python", "-m", f"fairseq_hrt.cli.{name}", *arguments, check=check)


@pytest.fixture(scope="module")
def models(command, toy_data, tmp_path_factory):
    """``{name: checkpoint}``: interleaved one word a step, and two words a step."""
    found = {}
    for name, options in (("interleaved", ["--bidirectional-block", "1"]), ("parallel", [])):
        found[name] = tmp_path_factory.mktemp(name) / "checkpoint_last.pt"
        command(
            "fairseq-train", toy_data, "--user-dir", "fairseq_hrt", "--task", "translation_bidirectional",
            "--arch", "bidirectional_transformer", "--criterion", "bidirectional_loss", *SIZES, *OPTIMIZER,
            "--max-update", "8", "--save-interval-updates", "4", "--save-dir", found[name].parent, *options,
        )  # fmt: skip
    return found


def test_mutual_information(command, toy_data, models, tmp_path):
    result = tool(
        command, "mutual_information", toy_data, "--baseline", f"name=one,path={models['interleaved']}",
        "--system", f"name=two,path={models['parallel']}", "--system", f"name=again,path={models['interleaved']}",
        "--out", tmp_path,
    )  # fmt: skip
    assert "| two |" in result.stdout
    two, again = json.loads((tmp_path / "mutual_information.json").read_text())["results"]
    assert again["nats"] == again["low"] == again["high"] == 0, "a model compared with itself"
    assert two["low"] < two["nats"] < two["high"] and two["words"] == again["words"]
    assert (tmp_path / "mutual_information.png").stat().st_size > 0
    twice = tool(
        command, "mutual_information", toy_data, "--baseline", f"name=one,path={models['interleaved']}",
        "--system", f"name=one,path={models['parallel']}", check=False,
    )  # fmt: skip
    assert twice.returncode == 2 and "two models are called 'one'" in twice.stderr


def test_comparison_by_length_and_with_rouge(command, toy_data, models, teacher, tmp_path):
    pytest.importorskip("rouge_score")
    result = tool(
        command, "benchmark", toy_data, "--system", f"name=AT,path={teacher},task=translation_autoregressive,beam=1",
        "--system", f"name=IB,path={models['parallel']},beam=1", "--ratio-to", "AT", "--repeats", "1",
        "--speed-sentences", "6", "--batch-sizes", "1", "--rouge", "--length-bins", "4,6", "--out", tmp_path,
    )  # fmt: skip
    assert "ROUGE-L" in result.stdout and "| System | 1–4 (" in result.stdout
    assert (tmp_path / "by_length.svg").exists()
    wrong = tool(
        command, "benchmark", toy_data, "--system", f"name=AT,path={teacher}", "--length-bins", "6,4", check=False
    )
    assert wrong.returncode == 2 and "--length-bins '6,4'" in wrong.stderr


def test_an_average_can_be_decoded(command, toy_data, models, tmp_path):
    output = tmp_path / "averaged.pt"
    tool(command, "average", "--folder", models["parallel"].parent, "--last", "2", "--output", output)
    found = command(
        "fairseq-generate", toy_data, "--user-dir", "fairseq_hrt", "--task", "translation_bidirectional", "--cpu",
        "--path", output, "--max-len-b", "10",
    )  # fmt: skip
    assert "BLEU4" in found.stdout


def test_training_speed(command, toy_corpus, tmp_path):
    command(
        "fairseq-preprocess", "-s", "de", "-t", "en", "--joined-dictionary", "--trainpref", toy_corpus / "train",
        "--validpref", toy_corpus / "valid", "--destdir", tmp_path / "bin",
    )  # fmt: skip
    script = Path(__file__).resolve().parents[2] / "examples/common/training_speed.py"
    result = command(
        "python", script, tmp_path / "bin", "--layers", "1", "--width", "16", "--heads", "2", "--updates", "2",
        "--repeats", "2", "--max-tokens", "200", cwd=tmp_path,
    )  # fmt: skip
    assert "| Transformer |" in result.stdout and "1.00 (1.00–1.00)" in result.stdout and "| HRT k=2 |" in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin"], "nothing is saved"
