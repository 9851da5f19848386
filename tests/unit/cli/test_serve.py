"""``fairseq-hrt serve``: the server gets the settings that were asked for, or nothing is
started."""

from pathlib import Path

import pytest

from fairseq_hrt.cli import serve as verb
from fairseq_hrt.native.server import process
from fairseq_hrt.native.server.settings import Settings


@pytest.fixture
def served(monkeypatch):
    found = []
    monkeypatch.setattr(process, "serve", lambda *given: found.append(given))
    return found


def test_defaults_are_those_of_the_settings(served, tmp_path):
    verb.main([str(tmp_path)])
    assert served == [(Settings(systems=((tmp_path.name, tmp_path),)), "127.0.0.1", 8080, 1)]


@pytest.mark.parametrize("engine", ["auto", "torch", "native", "runtime"])
def test_engines(served, tmp_path, engine):
    """The last one is what the native engine was called before."""
    verb.main([str(tmp_path), "--engine", engine])
    assert served[0][0].engine == engine


def test_every_setting_can_be_given(served, tmp_path):
    terms = tmp_path / "terms.tsv"
    terms.write_text("dog\tHund\n")
    limits = {
        "max_body": 1, "max_characters": 2, "max_texts": 3, "max_alternatives": 0,
        "max_terms": 4,
        "max_sentences": 5, "max_queue": 6, "max_connections": 7, "max_batch": 8,
        "batch_wait": 0.5, "time_limit": 1.5, "threads": 2, "engine": "torch", "device": "cuda:1",
        "key_file": Path("keys"), "allow_origin": "*",
    }  # fmt: skip
    hosts = ("a.example", "b")
    given = [f"--{name.replace('_', '-')}={value}" for name, value in limits.items()]
    chosen = [
        "--set",
        "A:beam=5",
        "--set",
        "B:--hrt-decode-chunk=3",
        "--host",
        "::1",
        "--port",
        "0",
        "--workers",
        "4",
    ]
    chosen += ["--glossary", f"B:{terms}", "--glossary", str(terms)]
    chosen += ["--allow-host", "a.example", "--allow-host", "b", "--shortlist"]
    verb.main(["A=x", "B=y", *given, *chosen])
    systems, options = (
        (("A", Path("x")), ("B", Path("y"))),
        (("A", "beam", "5"), ("B", "hrt_decode_chunk", "3")),
    )
    assert served == [
        (
            Settings(
                systems=systems,
                options=options,
                allow_hosts=hosts,
                shortlist=True,
                glossaries=(("B", terms), ("", terms)),
                **limits,
            ),
            "::1",
            0,
            4,
        )
    ]
    assert set(limits) | {"systems", "options", "allow_hosts", "shortlist", "glossaries"} == set(
        Settings.__dataclass_fields__
    ), "every setting has its option"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["x", "--port", "70000"], "--port 70000: give a port from 0 to 65535"),
        (["x", "--port", "-1"], "--port -1"), (["x", "--workers", "0"], "--workers 0"),
        (["A=x", "A=y"], "two systems are called 'A'"),
        (["x", "--time-limit", "nan"], "--time-limit nan"),
        (["x", "--set", "beam=1"], "--set 'beam=1': write NAME:OPTION=VALUE"),
        (["x", "--set", "hrt_chunk_table=9:1,inf:2"], "write NAME:OPTION=VALUE"),
        (["x", "--set", "x:baem=5"], "--set baem=5: there is no such option of decoding; did you mean beam?"),
        (["x", "--set", "x:beam=b"], "'b' is not an integer"),
        (["x", "--set", "x:dag_decode_strategy=best"], "choose one of greedy"),
        (["x", "--set", "x:beam=1", "--set", "x:beam=2"], "give one of them"),
        (["x", "--set", "y:beam=1"], "there is no such system; there are: x"),
        (["=x"], "system '=x'"), ([], "BUNDLE"), (["x", "--engine", "onnx"], "'onnx'"),
        (["x", "--glossary", "x:none"], "glossary none cannot be read: No such file"),
        (["x", "--allow-host", "a:80"], "--allow-host 'a:80' is not a name or address"),
    ],
)  # fmt: skip
def test_what_is_refused(served, capsys, arguments, message):
    with pytest.raises(SystemExit) as end:
        verb.main(arguments)
    assert (
        end.value.code == 2 and message in capsys.readouterr().err.splitlines()[-1] and served == []
    )
