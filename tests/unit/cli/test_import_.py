"""The verb ``import``."""

import pytest

import fairseq_hrt
from fairseq_hrt.cli import import_
from fairseq_hrt.cli import main as command_line


def test_a_folder_becomes_a_bundle(marian_folder, tmp_path, capsys):
    made = marian_folder()
    command_line.main(["import", str(made.path), "--output", str(tmp_path / "bundle")])
    assert (
        capsys.readouterr().out
        == f"{tmp_path / 'bundle'}: en -> de, task translation_autoregressive\n"
    )
    with pytest.raises(SystemExit) as ended:
        import_.main([str(made.path), "--output", str(tmp_path / "bundle")])
    line = capsys.readouterr().err
    assert ended.value.code == 2 and line.count("\n") == 1 and "exists already" in line


def test_examples_of_ones_own(marian_folder, tmp_path, capsys):
    made = marian_folder()
    examples = tmp_path / "examples.txt"
    examples.write_text("A first line.\n\n  Another.\n")
    arguments = [str(made.path), "--output", str(tmp_path / "bundle"), "--examples", str(examples)]
    command_line.main(["import", *arguments])
    bundle = fairseq_hrt.from_pretrained(tmp_path / "bundle").bundle
    assert bundle.examples == ["A first line.", "Another."]
    examples.write_text("a " * 1000)
    arguments[2] = str(tmp_path / "other")
    with pytest.raises(SystemExit):
        import_.main(arguments)
    assert str(examples) in capsys.readouterr().err and not (tmp_path / "other").exists()


def test_an_installation_that_only_translates(marian_folder, tmp_path, capsys, monkeypatch):
    """The native engine's model is what it can make, and what it makes unasked."""
    monkeypatch.setattr(import_, "only_translates", lambda: True)
    made = marian_folder()
    import_.main([str(made.path), "--output", str(tmp_path / "bundle")])
    assert "the native engine's model alone (no PyTorch here" in capsys.readouterr().out
    assert fairseq_hrt.from_pretrained(tmp_path / "bundle").decoder.engine.header.weights == "int8"
    assert not (tmp_path / "bundle" / "model.pt").exists()
    published, ensemble = tmp_path / "model.pt", [made.path, "--output", tmp_path / "other"]
    published.touch()
    second = made.path / "second.bin"
    second.write_bytes((made.path / "model.ende.bin").read_bytes())
    (made.path / "config.yml").write_text(
        "models: [model.ende.bin, second.bin]\nvocabs: [vocab.ende.spm]\n"
    )
    for arguments, message in (
        (
            [made.path / "model.ende.bin", "--runtime-lines", published, "--output", "x"],
            "--runtime-lines are for comparing",
        ),
        (
            [published, "--output", "x"],
            "model.pt is a model of fairseq, which is read by PyTorch: import it with the whole",
        ),
        (
            ensemble,
            (
                "an ensemble of 2 models is decoded by PyTorch only: import it with the whole"
                " plugin, fairseq_hrt"
            ),
        ),
    ):
        with pytest.raises(SystemExit) as ended:
            import_.main(list(map(str, arguments)))
        line = capsys.readouterr().err
        assert ended.value.code == 2 and message in line and line.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["none", "--output", "x"], "none does not exist"),
        (
            ["none", "--output", "x", "--runtime-lines", "y"],
            "give --runtime int8 or --runtime float32",
        ),
    ],
)
def test_errors_are_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        import_.main(arguments)
    line = capsys.readouterr().err
    assert ended.value.code == 2 and message in line and line.count("\n") == 1


def test_the_verb_has_its_help(capsys):
    with pytest.raises(SystemExit):
        command_line.main(["import", "--help"])
    assert (
        "--source-language" in capsys.readouterr().out
        and command_line.module_of("import") == "import_"
    )
