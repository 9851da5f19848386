"""Imported models in the commands: stock ones decode their checkpoints, they teach, and both
engines translate and serve."""

import json

import pytest
from command_line import hypotheses, refused
from imported_models import hugging_face_folder, marian_folder, sentencepiece_model

import fairseq_hrt

pytestmark = pytest.mark.slow
# Fixtures of the unit tests.
__all__ = ["hugging_face_folder", "marian_folder", "sentencepiece_model"]
USER_DIR = ("--user-dir", "fairseq_hrt", "--cpu")
LINES = [
    "a man in red shirt",
    "two dogs play with ball on green grass near water",
    "water",
    "woman reads book in the park",
]


@pytest.fixture
def imported(command, tmp_path):
    """A function that imports a folder, and binarises lines, as often as they are wanted, as its
    text preparation leaves them."""

    def run(made, *options, targets=("", "", "", "")):
        bundle, text = tmp_path / "bundle", tmp_path / "text"
        command("fairseq-hrt", "import", made.path, "--output", bundle, *options)
        text.mkdir()
        document = json.loads((bundle / "bundle.json").read_text())
        source, target = document["source_lang"], document["target_lang"]
        words = fairseq_hrt.from_pretrained(bundle, device="cpu").pipeline.words
        for subset in ("train", "test"):
            (text / f"{subset}.{source}").write_text(
                "".join(f"{' '.join(words(line))}\n" for line in LINES)
            )
            (text / f"{subset}.{target}").write_text("".join(f"{line}\n" for line in targets))
        command(
            "fairseq-preprocess", "-s", source, "-t", target, "--trainpref", text / "train",
            "--testpref", text / "test", "--srcdict", bundle / f"dict.{source}.txt", "--tgtdict",
            bundle / f"dict.{target}.txt", "--destdir", text / "bin",
        )  # fmt: skip
        return bundle, text / "bin"

    return run


def test_marians_model_in_stock_commands_and_as_a_teacher(
    command, imported, marian_folder, tmp_path
):
    bundle, data = imported(marian_folder(int8=True, seed=1), "--runtime", "float32")
    options = [
        data,
        *USER_DIR,
        "--path",
        bundle / "model.pt",
        "--max-len-b",
        "12",
        "--min-len",
        "0",
    ]
    stock = command("fairseq-generate", *options, "--task", "translation", "--beam", "4")
    native = command(
        "fairseq-generate",
        *options,
        "--task",
        "translation_autoregressive",
        "--beam",
        "4",
        "--engine",
        "native",
    )
    assert "decoding with the native engine" in native.stdout + native.stderr
    assert hypotheses(stock.stdout) == hypotheses(native.stdout) and len(
        hypotheses(stock.stdout)
    ) == len(LINES)
    teacher = f"name=t,path={bundle / 'model.pt'},task=translation_autoregressive,engine=native,beam=4,max_len_b=12,min_len=0"
    command(
        "fairseq-hrt",
        "distill",
        data,
        "--system",
        teacher,
        "--out",
        tmp_path / "out",
        "-s",
        "en",
        "-t",
        "de",
    )
    expected = [text for _, (text,) in sorted(hypotheses(stock.stdout).items())]
    assert (tmp_path / "out" / "train.de").read_text().splitlines() == expected and len(
        set(expected)
    ) > 1


def test_language_tokens_in_stock_commands(command, imported, hugging_face_folder):
    """Given by ``--forced-start``, or before the references by ``--prefix-size``; the same where
    the probability of the token, which counts only there, is not divided by lengths."""
    made = hugging_face_folder("mbart")
    # A beam of random weights would write nothing else.
    (made.path / "config.json").write_text(json.dumps({**made.config, "min_length": 4}))
    bundle, data = imported(
        made, "-s", "en", "-t", "de_DE", "--runtime", "int8", targets=["de_DE"] * len(LINES)
    )
    options = [
        data, *USER_DIR, "--path", bundle / "model.pt", "--max-len-b", "12", "--beam", "3",
        "--lenpen", "0", "--min-len", "3",
    ]  # fmt: skip
    begun = ("--forced-start", "de_DE", "--engine", "native")
    stock, native = (
        hypotheses(command("fairseq-generate", *options, "--task", task, *more).stdout)
        for task, more in (
            ("translation", ("--prefix-size", "1")),
            ("translation_autoregressive", begun),
        )
    )
    assert stock == native and all(text.startswith("de_DE ") for (text,) in native.values())
    # Neither is in what is read by people; the model's own options are those of its folder.
    printed = command(
        "fairseq-hrt", "translate", bundle, "--engine", "native", stdin="\n".join(LINES) + "\n"
    ).stdout
    assert printed == "".join(
        f"{line}\n"
        for line in fairseq_hrt.from_pretrained(bundle, engine="native").translate(LINES)
    )
    assert "de_DE" not in printed and printed.strip()


def test_what_is_refused(hugging_face_folder, tmp_path):
    made = hugging_face_folder("m2m_100")
    message = refused(
        "fairseq-hrt",
        "import",
        made.path,
        "--output",
        tmp_path / "bundle",
        "-s",
        "en",
        "-t",
        "xx",
    )
    assert (
        message.endswith("'xx' is not a language of this model; its languages are en, de, fr")
        and not (tmp_path / "bundle").exists()
    )
