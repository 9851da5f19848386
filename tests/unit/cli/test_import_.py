"""The verb ``import``."""

import pytest

from fairseq_hrt import __main__ as command_line
from fairseq_hrt.cli import import_


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


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["none", "--output", "x"], "none does not exist"),
        (["none", "--output", "x", "--runtime-lines", "y"], "give --runtime int8 or float32"),
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
