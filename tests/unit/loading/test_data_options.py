"""Options that come from files: numbers, switches, choices and a few words, of known names."""

from argparse import Namespace

import pytest
from omegaconf import OmegaConf

from fairseq_hrt.loading.data_options import (
    allowed_options,
    options_of_training,
    task_of_training,
)
from fairseq_hrt.native.bundles.data_options import language_of_data, language_pair, option_of_data


@pytest.mark.parametrize("name, value, text", [
    ("beam", 5, "5"), ("max-len-a", 1.5, "1.5"), ("unnormalized", True, "true"),
    ("sampling", "false", "false"), ("post_process", "@@ ", "@@ "),
    ("hrt_decode_chunk", "10:1,30:2,inf:1", "10:1,30:2,inf:1"),
    ("hrt_chunk_curriculum_power", 2.5, None), ("lenpen", "-1", "-1"),
])  # fmt: skip
def test_options_of_files(name, value, text):
    allowed = allowed_options("translation_hrt")
    if text is None:
        with pytest.raises(ValueError, match="a file may not set it"):
            option_of_data(name, value, allowed, "x.json")
    else:
        assert option_of_data(name, value, allowed, "x.json") == (name.replace("-", "_"), text)


@pytest.mark.parametrize("name, value, message", [
    ("engine", "torch", "a file may not set it"),
    ("weights", "int8", "a file may not set it"),
    ("user_dir", "/x", "a file may not set it"), ("lm_path", "x", "a file may not set it"),
    (1, "x", "a file may not set it"), ("beam", "5.5", "must be an integer"),
    ("beam", "9" * 41, "must be an integer"), ("beam", "\u0665", "must be an integer"),
    ("beam", "5\n", "must be an integer"), ("beam", " 5", "must be an integer"),
    ("lenpen", "inf", "must be a number"), ("lenpen", "x", "must be a number"),
    ("sampling", "yes", "must be true or false"),
    ("post_process", "false ", "must be one of '@@ '"),
    ("print_step", None, "must be a number, a text, true or false"),
    ("beam", [5], "must be a number, a text, true or false"),
    ("hrt_decode_chunk", "/x", "must be a short word or table of numbers"),
    ("hrt_decode_chunk", "a\nb", "must be a short word"),
    ("hrt_decode_chunk", "", "must be a short word"), ("hrt_decode_chunk", "x" * 201, "short word"),
])  # fmt: skip
def test_options_that_files_must_not_set(name, value, message):
    with pytest.raises(
        ValueError, match=f"^x.json sets the option .*: it must be|{message}"
    ) as refused:
        option_of_data(name, value, allowed_options("translation_hrt"), "x.json")
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_languages():
    for name in ("de", "zh_CN", "sr@latin", "2x"):
        assert language_of_data(name, "x") == name
    for name in ("", "-x", "../de", "de\n", "a" * 41, None, 5, ".de"):
        with pytest.raises(ValueError, match="x names the language"):
            language_of_data(name, "x")


def test_what_decoding_takes_over_from_the_training():
    saved = Namespace(
        _name="translation_hrt", data="/data", source_lang="de", max_source_positions=77,
        left_pad_source=False, hrt_decode_chunk="2", hrt_nat_beam="two", truncate_source=None,
        eval_bleu=True, eval_bleu_args="{}",
    )  # fmt: skip
    found = options_of_training(saved, "translation_hrt")
    assert found == {
        "max_source_positions": 77,
        "left_pad_source": False,
        "hrt_decode_chunk": "2",
        "truncate_source": None,
    }
    assert options_of_training(saved, "no_task") == {}


VALUES = dict(
    source_lang="de", target_lang="en", data="/x", eval_bleu=True, eval_bleu_args="{}",
    max_source_positions=77, seed=5, jacobi_draft="hrt", jacobi_draft_path="/x",
    jacobi_cost_file="/x", rescore_path="/x", dag_lm_path="/x", ctc_lm_path="/x", distilled_data="/x",
    eval_tokenized_bleu="x", load_alignments=True,
)  # fmt: skip


@pytest.mark.parametrize(
    "kind, name",
    [
        (Namespace, "translation"),
        (dict, "translation_hrt"),
        (OmegaConf.create, "translation_jacobi"),
        (Namespace, "translation_dag"),
        (OmegaConf.create, "translation_dag"),
    ],
)
def test_a_task_is_made_anew(kind, name):
    """No file that the training names is opened again, whichever task the file names by which
    key."""
    for names in (
        {"_name": name},
        {"task": name},
        {"_name": "translation_hrt", "task": name},
        {"_name": name, "task": "x"},
    ):
        values = {**VALUES, **names}
        found = task_of_training(
            kind(**values) if kind is Namespace else kind(values), name, "x.pt"
        )
        assert (
            "/x" not in str(found)
            and found.eval_bleu is False
            and found.load_alignments is False
            and found._name == name
        )
        assert "task" not in found
        assert (found.source_lang, found.target_lang, found.max_source_positions) == (
            "de",
            "en",
            77,
        )
        if name == "translation_dag":
            assert (found.seed, found.train_subset) == (5, "train")
    with pytest.raises(ValueError, match="x.pt names the language"):
        values = {**VALUES, "target_lang": "../en"}
        task_of_training(kind(**values) if kind is Namespace else kind(values), name, "x.pt")


def test_what_a_task_leaves_out_is_left_open():
    for saved in (
        OmegaConf.create({"source_lang": "???", "max_source_positions": "???"}),
        {},
        Namespace(),
    ):
        found = task_of_training(saved, "translation", "x.pt")
        assert (found.source_lang, found.target_lang, found.max_source_positions) == (
            None,
            None,
            1024,
        )


def test_languages_are_those_of_the_dictionaries(tmp_path):
    for name in ("checkpoint.avg-10.pt", "dict.de.txt", "notes.txt", "train.de-en.de.bin"):
        (tmp_path / name).touch()
    assert language_pair(tmp_path) == language_pair(tmp_path / "missing") == (None, None)
    (tmp_path / "dict.en.txt").touch()
    assert language_pair(tmp_path) == ("de", "en")
