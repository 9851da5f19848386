"""``fairseq-hrt average``: options are handed on, and a failure leaves nothing behind."""

import pytest
import torch
from small_checkpoints import save

from fairseq_hrt.cli.average import main


def test_the_command(tmp_path, capsys):
    for number in (1, 2):
        save(tmp_path / f"checkpoint{number}.pt", float(number), update=number)
    output = tmp_path / "averaged.pt"
    main(["--folder", str(tmp_path), "--last", "2", "--output", str(output)])
    assert torch.load(output, weights_only=False)["model"]["w"].tolist() == [1.5, 1.5]
    for wrong, message in {
        ("--folder", str(tmp_path), "--best", "5"): "5",
        ("--inputs", str(tmp_path / "missing.pt")): "missing.pt",
        ("--last", "2"): "need --folder",
        ("--inputs", "a.pt", "--folder", "b"): "with --inputs leave --folder out",
        (): "required",
    }.items():
        with pytest.raises(SystemExit) as stopped:
            main([*wrong, "--output", str(tmp_path / "none.pt")])
        assert stopped.value.code == 2 and message in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "averaged.pt",
        "checkpoint1.pt",
        "checkpoint2.pt",
    ]


def test_the_last_the_best_or_these(tmp_path):
    for number, metric in ((1, 0.5), (2, 0.25), (3, 0.75)):
        save(tmp_path / f"checkpoint{number}.pt", float(number), update=number, metric=metric)
    folder = ["--folder", str(tmp_path)]
    these = ["--inputs", str(tmp_path / "checkpoint3.pt"), str(tmp_path / "checkpoint1.pt")]
    for chosen, mean in (
        ([*folder, "--last", "1"], 3.0),
        ([*folder, "--best", "1"], 2.0),
        ([*folder, "--best", "2"], 1.5),
        (these, 2.0),
    ):
        main([*chosen, "--output", str(tmp_path / "averaged.pt")])
        assert torch.load(tmp_path / "averaged.pt", weights_only=False)["model"]["w"].tolist() == [
            mean,
            mean,
        ], chosen


def test_a_full_disk(tmp_path, monkeypatch, capsys):
    save(tmp_path / "checkpoint1.pt", 1.0, update=1)

    def fail(state, file):
        file.write(b"half")
        raise RuntimeError("file write failed")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(SystemExit):
        main(
            [
                "--inputs",
                str(tmp_path / "checkpoint1.pt"),
                "--output",
                str(tmp_path / "averaged.pt"),
            ]
        )
    assert "cannot be written: file write failed" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint1.pt"]
