"""``marian_transformer`` through the stock commands: trained, decoded in every way, a teacher, a
judge, and the start of a student."""

import re

import pytest
from command_line import OPTIMIZER, SIZES, hypotheses

pytestmark = pytest.mark.slow

USER_DIR = ("--user-dir", "fairseq_hrt")
MODEL = [
    *SIZES,
    "--arch",
    "marian_transformer",
    "--marian-cell",
    "ssru",
    "--share-decoder-input-output-embed",
]
LOSS = (
    "--criterion label_smoothed_cross_entropy --label-smoothing 0.1 --lr 0.01 --max-update 24"
    " --log-interval 8".split()
)
MARIANS = "--activation-fn swish --marian-first-position 0 --marian-epsilon 1e-6 --marian-output-bias yes".split()
STUDENT = "--task translation_hrt --arch hrt_transformer --criterion hrt_loss --hrt-curriculum-power 0".split()


def losses(finished):
    """Of a training, in the order of its updates."""
    log = finished.stdout + finished.stderr
    return [float(loss) for loss in re.findall(r"train_inner \| .*?\bloss=([\d.]+)", log)]


@pytest.fixture(scope="module")
def trained(command, toy_data, tmp_path_factory):
    """The folder of a model with recurrent cells, and the log of its training."""
    folder = tmp_path_factory.mktemp("marian")
    arguments = [
        *USER_DIR,
        "--task",
        "translation",
        *MODEL,
        *OPTIMIZER,
        *LOSS,
        "--save-dir",
        folder,
    ]
    return folder, command("fairseq-train", toy_data, *arguments)


@pytest.fixture(scope="module")
def generate(command, toy_data, trained):
    """A function that decodes the test set; translations and scores of each sentence."""

    def run(task, *options, path=trained[0] / "checkpoint_last.pt"):
        arguments = [
            *USER_DIR,
            "--cpu",
            "--task",
            task,
            "--path",
            path,
            "--max-len-b",
            "12",
            *options,
        ]
        return hypotheses(command("fairseq-generate", toy_data, *arguments).stdout)

    return run


def test_it_learns(trained):
    first, *_, last = losses(trained[1])
    assert last < first - 0.3


def test_the_engine_decodes_as_fairseq_does(generate):
    begun = ("--beam", "3", "--forced-start", "C A")
    stock, engine, forced = generate("translation", "--beam", "3"), *(
        generate("translation_autoregressive", *options, "--engine",
                 "torch") for options in (("--beam", "3"), begun)
    )  # fmt: skip
    assert stock == engine
    assert len(forced) == 20 and all(text.startswith("C A") for (text,) in forced.values())


def test_a_student_starts_from_it(command, toy_data, trained, generate, tmp_path):
    """With its conventions; self-attention starts anew, as the log reports. It learns and
    translates."""
    arguments = [
        *USER_DIR,
        *STUDENT,
        *SIZES,
        *OPTIMIZER,
        *MARIANS,
        "--share-decoder-input-output-embed",
    ]
    arguments += [
        "--finetune-from-model",
        trained[0] / "checkpoint_last.pt",
        "--lr",
        "0.01",
        "--max-update",
        "24",
        "--log-interval",
        "8",
    ]
    finished = command("fairseq-train", toy_data, *arguments, "--save-dir", tmp_path)
    assert "recurrent cells (SSRU): self-attention starts anew" in finished.stdout + finished.stderr
    first, *_, last = losses(finished)
    assert last < first - 0.2
    found = generate("translation_hrt", "--beam", "1", path=tmp_path / "checkpoint_last.pt")
    assert len(found) == 20 and any(text for (text,) in found.values())


def test_it_teaches_and_judges(command, toy_data, trained, tmp_path):
    checkpoint = trained[0] / "checkpoint_last.pt"
    teacher = f"name=teacher,path={checkpoint},task=translation_autoregressive,beam=3,max_len_b=12,rescore_path={checkpoint}"
    command(
        "fairseq-hrt",
        "distill",
        toy_data,
        "--system",
        teacher,
        "--out",
        tmp_path / "out",
        "-s",
        "de",
        "-t",
        "en",
    )
    assert len((tmp_path / "out" / "train.en").read_text().splitlines()) == 200
