"""Which engine decodes behind the stock commands, and that either finds the same."""

import re

import pytest
from command_line import SIZES, VALIDATED, hypotheses, lines
from tiny_models import write_checkpoint

pytestmark = pytest.mark.slow

GENERATE = "--user-dir fairseq_hrt --cpu --batch-size 7 --max-len-b 12".split()


@pytest.fixture(scope="module")
def models(toy_data, tmp_path_factory):
    """Checkpoints of models with random weights, by family."""
    folder = tmp_path_factory.mktemp("models")
    families = ("autoregressive", "hrt", "dag", "ctc")
    return {family: write_checkpoint(folder / family, toy_data, family) for family in families}


@pytest.fixture(scope="module")
def generate(command, toy_data, models):
    """A function that decodes the test set with a family's task."""

    def run(family, *options, check=True):
        arguments = ["--task", f"translation_{family}", "--path", models[family], *options]
        return command("fairseq-generate", toy_data, *GENERATE, *arguments, check=check)

    return run


def log_of(finished):
    return finished.stdout + finished.stderr


def last_line(finished):
    """Why a command has failed."""
    assert finished.returncode
    return finished.stderr.splitlines()[-1]


def printed(finished):
    """What is printed of each sentence; all scores; all log-probabilities of tokens."""
    output = finished.stdout
    found, positional, restored, alignments, steps = (lines(output, kind) for kind in "HPDAI")
    scores = [float(text.split("\t")[0]) for best in found.values() for text in best]
    words = [float(word) for best in positional.values() for text in best for word in text.split()]
    restored = {number: [text.split("\t")[1] for text in best] for number, best in restored.items()}
    assert sorted(restored) == list(range(20)) and len(words) > len(scores) >= 20
    return (hypotheses(output), restored, alignments, steps), scores, words


def assert_equal(first, second):
    (texts, *numbers), (other, *others) = map(printed, (first, second))
    assert texts == other
    # Log-probabilities are printed with four digits.
    for own, given in zip(numbers, others):
        assert own == pytest.approx(given, abs=2e-4)


@pytest.mark.parametrize("family, options", [
    ("hrt", "--beam 4 --nbest 2 --print-step"),
    ("dag", "--dag-decode-strategy joint-viterbi"),
    ("ctc", "--beam 4 --nbest 2 --lenpen 0.6"),
    ("autoregressive", "--beam 3 --print-alignment hard"),
])  # fmt: skip
def test_both_engines_print_the_same(generate, family, options):
    native = generate(family, *options.split())
    torch = generate(family, *options.split(), "--engine", "torch")
    assert "decoding with the native engine: float32 weights" in log_of(native)
    assert "the native engine" not in log_of(torch)
    assert_equal(native, torch)
    alignments = lines(native.stdout, "A")
    assert len(alignments) == (20 if "alignment" in options else 0)


def test_int8_is_asked_for(generate):
    finished = generate("hrt", "--beam", "1", "--weights", "int8")
    assert "decoding with the native engine: int8 weights" in log_of(finished)
    assert len(hypotheses(finished.stdout)) == 20
    finished = generate("hrt", "--beam", "1", "--weights", "int8", "--engine", "torch", check=False)
    message = "--weights int8 has an effect only with --engine other than torch"
    assert last_line(finished) == f"error: {message}" and finished.returncode == 2
    said = [line for line in finished.stderr.splitlines() if " | INFO | " not in line]
    assert said == [f"error: {message}"]


def test_what_the_native_engine_does_not_have(generate):
    options = ["--temperature", "2", "--beam", "2"]
    finished = generate("hrt", *options)
    reason = "--temperature 2.0: the native engine has no such option"
    assert f"decoding with PyTorch: {reason}" in log_of(finished)
    assert len(hypotheses(finished.stdout)) == 20
    finished = generate("hrt", *options, "--engine", "native", check=False)
    assert last_line(finished).endswith(f"{reason}; use --engine torch")


def test_validation_finds_the_same(command, toy_data):
    """Of a model that changes between validations."""
    found = {}
    options = (
        "--user-dir fairseq_hrt --task translation_hrt --arch hrt_transformer --hrt-chunk-sizes 2 "
        "--criterion hrt_loss --max-update 4 --no-save --validate-interval-updates 2 --eval-bleu "
        "--eval-bleu-print-samples"
    ).split() + ["--eval-bleu-args", '{"beam": 2, "max_len_b": 12}', *SIZES, *VALIDATED]
    for engine in ("native", "torch"):
        finished = command("fairseq-train", toy_data, *options, "--engine", engine)
        log = log_of(finished)
        scores = re.findall(r"valid on 'valid' subset .*\| bleu ([\d.]+)", log)
        found[engine] = scores, re.findall(r"example hypothesis: (.*)", log)
    assert found["native"] == found["torch"]
    scores, examples = found["native"]
    assert len(scores) >= 2 and len(set(examples)) > 1, "the same weights would do"
