"""``fairseq-hrt completion``: a shell completes verbs and their options."""

import shutil
import subprocess
import sys

import pytest

from fairseq_hrt.cli import completion
from fairseq_hrt.cli.completion import SHELLS
from fairseq_hrt.cli.main import VERBS, main

pytest.importorskip("shtab")


@pytest.fixture
def complete(capsys, tmp_path):
    """What bash offers for the last of some words."""
    main(["completion", "bash"])
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out)

    def offered(*words):
        given = " ".join(f"'{word}'" for word in ("fairseq-hrt", *words))
        line = (
            f"source {script}; COMP_WORDS=({given}); COMP_CWORD={len(words)}; $(complete -p"
            ' fairseq-hrt | sed "s/.*-F \\([^ ]*\\).*/\\1/") fairseq-hrt; printf "%s\\n"'
            ' "${COMPREPLY[@]}"'
        )
        return subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, check=True
        ).stdout.split()

    return offered


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_verbs_and_options(complete):
    assert complete("tra") == ["translate", "trace"]
    assert set(complete("")) >= set(VERBS)
    assert complete("translate", "--out") == ["--output"]
    assert complete("translate", "--engine", "n") == ["native"]


def test_the_shells_are_named(capsys):
    with pytest.raises(SystemExit):
        main(["completion"])
    assert "required: {bash,zsh,tcsh,fish} (see" in capsys.readouterr().err


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_every_verb(shell, capsys):
    main(["completion", shell])
    shown = capsys.readouterr().out
    assert all(verb in shown for verb in VERBS) and "--dag-upsample" not in shown


def test_an_installation_that_only_translates(monkeypatch, capsys):
    monkeypatch.setattr(completion, "only_translates", lambda: True)
    main(["completion", "bash"])
    shown = capsys.readouterr().out
    assert "--runtime-lines" in shown and "--gen-subset" not in shown and "distill" not in shown


def test_without_shtab(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit) as end:
        main(["completion", "bash"])
    assert end.value.code == 2
    assert "shtab is not installed: pip install" in capsys.readouterr().err
