"""Outputs that are continued: nothing is written twice, nothing is lost, and two runs are never
mixed."""

import json
import os
import random

import pytest

from fairseq_hrt.native.io.resuming import ResumableOutput, different_settings, identified_options

LINES = [f"line {number}\n".encode() for number in range(20)]
SETTINGS = {"beam": "5", "names": ("a", "b")}


class Killed(BaseException):
    """As sudden as a signal."""


def run(path, lines=LINES, *, settings=SETTINGS, blocks=10**6, size=3, forget=True):
    """Writes each line in capital letters, a few at a time; killed after some blocks."""
    source = iter(lines)
    with ResumableOutput(path, settings) as output:
        output.skip(source)
        while not output.finished:
            block = [line for _, line in zip(range(size), source)]
            if blocks == 0:
                raise Killed
            blocks -= 1
            output.append(block, b"".join(block).upper())
            if len(block) < size:
                output.finish()
        if forget:
            output.forget()
    return output


def interrupted(path, **changes):
    with pytest.raises(Killed):
        run(path, **{"blocks": 3, **changes})


@pytest.mark.parametrize("seed", range(10))
def test_interrupted_again_and_again(tmp_path, seed):
    generator, path = random.Random(seed), tmp_path / "new" / "out"
    for _ in range(generator.randint(1, 5)):
        try:
            run(path, blocks=generator.randint(0, 2), size=generator.randint(1, 4))
        except Killed:
            partial = path.with_name("out.partial")
            if generator.random() < 0.5:
                # A killed process leaves this behind its last whole block.
                partial.write_bytes(partial.read_bytes() + b"half a li")
    run(path)
    assert path.read_bytes() == b"".join(LINES).upper() and os.listdir(path.parent) == ["out"]


def test_what_is_done_is_not_read_again(tmp_path):
    interrupted(tmp_path / "out")
    notes = json.loads((tmp_path / "out.partial.json").read_text())
    assert (
        notes["lines"] == 9 and notes["bytes"] == sum(map(len, LINES[:9])) and not notes["complete"]
    )
    output = ResumableOutput(tmp_path / "out", SETTINGS)
    with output:
        assert output.lines == 9 and not output.finished


def test_a_finished_file_waits_for_the_others_of_its_run(tmp_path):
    run(tmp_path / "out", forget=False)
    assert sorted(os.listdir(tmp_path)) == ["out", "out.partial.json"]
    again = run(tmp_path / "out", blocks=0)
    assert again.finished and again.lines == 20 and os.listdir(tmp_path) == ["out"]
    run(tmp_path / "out", forget=False)
    for other in (LINES[:-1], [*LINES, b"more\n"], [b"x", *LINES[1:]]):
        with pytest.raises(ValueError, match="the input is not the one.*out.partial.json"):
            run(tmp_path / "out", other)
    # Changed by somebody since: made again.
    (tmp_path / "out").write_bytes(b"other")
    run(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"".join(LINES).upper()


def test_killed_between_the_notes_and_the_name(tmp_path, monkeypatch):
    def killed(*given):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("fairseq_hrt.native.io.resuming.publish", killed)
        with pytest.raises(Killed):
            run(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    run(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"".join(LINES).upper() and os.listdir(tmp_path) == [
        "out"
    ]


def spoil(path, name, value):
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    return {}


@pytest.mark.parametrize("change, message", [
    (lambda folder: dict(settings={**SETTINGS, "beam": "1"}),
     r"other settings \(beam: '5' then, '1' now\); give the same input and settings again, or "
     "remove out.partial"),
    (lambda folder: dict(settings={"beam": "5"}), r"names: \['a', 'b'\] then, None now"),
    (lambda folder: dict(lines=LINES[1:]), "the input is not the one"),
    (lambda folder: dict(lines=LINES[:4]), "the input is not the one"),
    (lambda folder: (folder / "out.partial.json").write_text('{"lines": 1}') and {},
     "out.partial.json is damaged"),
    (lambda folder: (folder / "out.partial.json").write_text("[]") and {},
     "out.partial.json is damaged"),
    (lambda folder: (folder / "out.partial.json").write_text("[" * 100_000) and {},
     "out.partial.json is damaged"),
    # More lines than there are: told at the end of the input.
    (lambda folder: spoil(folder / "out.partial.json", "lines", 10**15),
     "the input is not the one"),
    *((lambda folder, name=name, value=value: spoil(folder / "out.partial.json", name, value),
       "out.partial.json is damaged")
      for name, value in (("settings", []), ("lines", "x"), ("lines", -1), ("bytes", 1.5),
                          ("bytes", True), ("input", None), ("output", 7), ("complete", 1))),
    (lambda folder: (folder / "out.partial.json").unlink() or {},
     "out.partial exists, but --resume did not write it"),
])  # fmt: skip
def test_another_run_is_not_mixed_in(tmp_path, change, message):
    interrupted(tmp_path / "out")
    before = (tmp_path / "out.partial").read_bytes()
    with pytest.raises(ValueError, match=message):
        run(tmp_path / "out", **change(tmp_path))
    assert (tmp_path / "out.partial").read_bytes() == before and not (tmp_path / "out").exists()


def test_one_process_at_a_time(tmp_path):
    with (
        ResumableOutput(tmp_path / "out", SETTINGS),
        pytest.raises(ValueError, match="another process is writing it"),
    ):
        run(tmp_path / "out")


def test_a_link_in_the_place_of_what_is_unfinished(tmp_path):
    interrupted(tmp_path / "out")
    os.rename(tmp_path / "out.partial", tmp_path / "elsewhere")
    (tmp_path / "out.partial").symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    with pytest.raises(OSError, match="out.partial"):
        run(tmp_path / "out")
    assert (tmp_path / "elsewhere").read_bytes() == before and not (tmp_path / "out").exists()


def test_places_that_are_no_files(tmp_path):
    with pytest.raises(IsADirectoryError):
        run(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    run(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").is_file()


def test_an_empty_input(tmp_path):
    run(tmp_path / "out", [])
    assert (tmp_path / "out").read_bytes() == b""
    # The output of an empty input is written once.
    for _ in range(2):
        with ResumableOutput(tmp_path / "gz", SETTINGS) as output:
            output.append([], b"header")
    assert (tmp_path / "gz.partial").read_bytes() == b"header"


def test_settings_in_words():
    assert different_settings({"a": 1, "b": 2}, {"b": 2, "a": 1}) == ""
    assert (
        different_settings({"a": 1, "b": 2}, {"b": "2", "c": 3})
        == "a: 1 then, None now, b: 2 then, '2' now, c: None then, 3 now"
    )


def test_files_among_the_options_are_their_contents(tmp_path, monkeypatch):
    (
        (tmp_path / "one.pt").write_text("1"),
        (tmp_path / "two.pt").write_text("2"),
        (tmp_path / "copy.pt").write_text("1"),
    )
    one, two, copy = (str(tmp_path / f"{name}.pt") for name in ("one", "two", "copy"))
    found = {
        value: identified_options({"lm_path": value})["lm_path"]
        for value in (one, two, copy, f"{one}{os.pathsep}{two}", "none")
    }
    assert found[one] == found[copy] != found[two] and len(set(found.values())) == 4
    assert found[one].startswith("sha256 ") and found["none"] == "none"
    # Names that do not sound like files, without a slash.
    monkeypatch.chdir(tmp_path)
    for name in ("shortlist", "replace_unk"):
        assert identified_options({name: "one.pt"})[name] == found[one]
    assert identified_options({"shortlist": "true"}) == {"shortlist": "true"}
    # A name that only sounds like a file is not one.
    assert identified_options({"beam": "one.pt", "a": f"{one}.missing"}) == {
        "a": f"{one}.missing",
        "beam": "one.pt",
    }
