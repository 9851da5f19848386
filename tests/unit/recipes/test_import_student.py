"""examples/import: what the recipe for a student of an imported model does beside the commands."""

import pytest
import torch
from fairseq import options, tasks
from imported_models import WORDS, hugging_face_folder, marian_folder, sentencepiece_model

from fairseq_hrt.loading.checkpoints import read_checkpoint
from fairseq_hrt.native.conversion import Wishes, import_model

__all__ = ["hugging_face_folder", "marian_folder", "sentencepiece_model"]


def refused(module, arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        module.main([str(argument) for argument in arguments])
    assert stopped.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.fixture
def hold_out(load_example):
    return load_example("import/hold_out.py")


def test_every_line_goes_to_one_part(hold_out, tmp_path):
    lines = [f"line {number}" for number in range(50)]
    (tmp_path / "text").write_text("\n".join([*lines, "", "line 7", " "]) + "\n")
    parts = {}
    for seed in (1, 2, 1):
        command = [
            tmp_path / "text",
            "--language",
            "en",
            "--test",
            10,
            "--valid",
            5,
            "--seed",
            seed,
            "--out",
            tmp_path / "out",
        ]
        hold_out.main([str(word) for word in command])
        parts[seed] = found = [
            (tmp_path / f"out/{name}.en").read_text().splitlines()
            for name in ("test", "valid", "train")
        ]
        assert [len(part) for part in found] == [10, 5, 35] and sorted(sum(found, [])) == sorted(
            lines
        )
        if len(parts) == 1:
            first = found
    assert parts[1] == first != parts[2]


@pytest.mark.parametrize("changed, message", [
    (["--test", "0"], "--test 0: give 1 or more"),
    (["--valid", "3"], "4 different lines are not enough to hold out 1 + 3"),
])  # fmt: skip
def test_what_cannot_be_held_out(hold_out, tmp_path, capsys, changed, message):
    (tmp_path / "text").write_text("a\nb\nc\nd\na\n")
    command = [
        tmp_path / "text",
        "--language",
        "en",
        "--test",
        1,
        "--valid",
        1,
        "--out",
        tmp_path / "out",
        *changed,
    ]
    assert message in refused(hold_out, command, capsys)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def student_options(load_example):
    return load_example("import/student_options.py")


@pytest.mark.parametrize("kind", ["firefox", "opus"])
def test_a_student_of_these_options_starts_from_the_model(
    student_options, marian_folder, request, kind, tmp_path, capsys
):
    if kind == "firefox":
        import_model(marian_folder().path, tmp_path / "bundle")
    else:
        request.getfixturevalue("opus")
    student_options.main([str(tmp_path / "bundle")])
    found = capsys.readouterr().out.splitlines()
    command = [
        str(tmp_path / "bundle"),
        "--task",
        "translation_hrt",
        "--arch",
        "hrt_transformer",
        "--criterion",
        "hrt_loss",
        *found,
    ]
    arguments = options.parse_args_and_arch(options.get_training_parser(), command)
    model = tasks.setup_task(arguments).build_model(arguments)
    state = read_checkpoint(tmp_path / "bundle/model.pt")["model"]
    model.load_state_dict(dict(state))
    assert torch.equal(model.encoder.layers[-1].fc1.weight, state[
        f"encoder.layers.{len(model.encoder.layers) - 1}.fc1.weight"])  # fmt: skip
    if kind == "opus":
        # The table of positions of its encoder; that of its decoder has no place.
        table = "encoder.embed_positions.weight"
        assert torch.equal(model.state_dict()[table], state[table])
        assert "decoder.embed_positions.weight" in state
    assert model.encoder.embed_tokens.weight is model.decoder.output_projection.weight


@pytest.fixture
def opus(hugging_face_folder, tmp_path):
    """A bundle of a model of OPUS-MT's kind, with another SentencePiece model of each language."""
    import sentencepiece

    found = hugging_face_folder("marian")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([f"{a} {b} {a}" for a in WORDS for b in WORDS]), vocab_size=30,
        model_prefix=str(tmp_path / "target"), minloglevel=2, hard_vocab_limit=False,
    )  # fmt: skip
    (tmp_path / "target.model").replace(found.path / "target.spm")
    return import_model(found.path, tmp_path / "bundle")


def test_text_of_a_student_is_its_teachers(opus, student_options, load_example, tmp_path, capsys):
    """Each language by its own SentencePiece model, as SentencePiece itself does it."""
    import sentencepiece

    student_options.main(["--pack", str(opus.folder)])
    assert capsys.readouterr().out.split() == [
        "--tokenizer", "moses-punctuation", "--subwords", "sentencepiece",
        "--codes", str(opus.folder / "codes"), "--target-codes", str(opus.folder / "target_codes"),
    ]  # fmt: skip
    text, written = load_example("import/bundle_text.py"), []
    (tmp_path / "lines").write_text("two dogs play “here”\n\nred grass")
    for language, model in (("en", "codes"), ("de", "target_codes")):
        text.main([str(opus.folder), str(tmp_path / "lines"), "--language", language])
        written.append(capsys.readouterr().out)
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(opus.folder / model))
        lines = ['two dogs play "here"', "", "red grass"]
        assert written[-1] == "".join(
            " ".join(pieces.encode(line, out_type=str)) + "\n" for line in lines
        )
    assert written[0] != written[1]
    assert "--language fr" in refused(text, [opus.folder, tmp_path, "--language", "fr"], capsys)


def test_models_that_the_recipe_is_not_for(student_options, hugging_face_folder, tmp_path, capsys):
    import_model(hugging_face_folder("m2m_100").path, tmp_path / "bundle", Wishes("en", "de"))
    assert "without language tokens" in refused(student_options, [tmp_path / "bundle"], capsys)
    assert "bundle" in refused(student_options, [tmp_path / "missing"], capsys)


@pytest.fixture
def compare(load_example):
    return load_example("import/compare.py")


def test_systems_take_turns_with_the_same_sentences(compare):
    said = []
    systems = {name: lambda line, name=name: said.append((name, line)) for name in "ab"}
    lines = [str(number) for number in range(compare.TURN + 1)]
    told = []
    seconds = compare.translate_in_turns(systems, lines, 2, told.append)
    assert sum(told) == 2 * len(systems) * len(lines)
    turns = [("a", lines[:-1]), ("b", lines[:-1]), ("a", lines[-1:]), ("b", lines[-1:])] * 2
    assert said == [(name, line) for name, own in turns for line in own]
    assert all(len(values) == 2 and min(values) >= 0 for values in seconds.values())


def test_the_table_has_medians_and_agreement(compare):
    texts = {"teacher": ["um homem corre hoje", "dois"], "student": ["um homem corre hoje", "três"]}
    shown = compare.report(
        texts, {"teacher": [9, 1, 2], "student": [1, 1, 5]}, ["a man runs", "two"], 1
    )
    rows = [line for line in shown.splitlines() if line.startswith("| ")]
    assert rows[2] == "| teacher | | | | 1 | 1.00 |"
    assert "| 1 of 2 | 2 | 2.00 |" in rows[3]
    assert (
        "nrefs:1" in shown and "  - student: um homem corre hoje" in shown and "três" not in shown
    )
