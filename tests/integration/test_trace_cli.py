"""One sentence through every family: in the terminal, as data and pictures, and as a page whose
slider is moved in a browser."""

import json
import shutil
import subprocess
import time
import urllib.request
from contextlib import contextmanager

import pytest
from command_line import refused

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def traced(command, toy_data, teacher, student_of, tmp_path_factory):
    """(folder, terminal output) of the teacher, its parallel decoding, and a bidirectional
    model."""
    folder = tmp_path_factory.mktemp("traced")
    shared = f"path={teacher},beam=1,max_len_b=5"
    output = command(
        "fairseq-hrt", "trace", toy_data, "--sentence", "2", "--out", folder / "out",
        "--system", f"name=AT,{shared},task=translation_autoregressive",
        "--system", f"name=</script><b>Jacobi,{shared},task=translation_jacobi,jacobi_mode=pj",
        "--system", f"name=IB,path={student_of('bidirectional')},beam=1,max_len_b=5",
    )  # fmt: skip
    return folder / "out", output.stdout


def test_data_and_pictures(traced):
    folder, _ = traced
    plain, jacobi, bidirectional = json.loads((folder / "trace.json").read_text())
    assert plain["tokens"] == jacobi["tokens"] and plain["fixed"] == list(
        range(1, len(plain["tokens"]) + 1)
    )
    assert len(plain["passes"]) == len(plain["tokens"]) and not plain["arcs"]
    assert jacobi["decoder_calls"] == len(jacobi["passes"]) <= len(plain["passes"])
    for document in (plain, jacobi, bidirectional):
        assert all(len(row) == len(document["tokens"]) for row in document["passes"])
        for number, row in enumerate(document["passes"], start=1):
            for cell, token, fixed in zip(row, document["tokens"], document["fixed"]):
                state = document["states"][cell["state"]]
                assert (state == "fixed now") == (fixed == number) and (state == "settled") == (
                    fixed < number
                )
                if state in ("fixed now", "settled", "right, not confirmed"):
                    assert cell["token"] == token
                elif state == "wrong":
                    assert cell["token"] != token
                assert cell["probability"] is None or 0 <= cell["probability"] <= 1
    assert [pair[1] for pair in bidirectional["arcs"]] and bidirectional["directions"]
    assert len(list(folder.glob("trace_*.png"))) == len(list(folder.glob("trace_*.svg"))) == 3


def test_steps_of_the_runtime(toy_data, teacher, tmp_path, capsys, monkeypatch):
    """The passes that the native runtime tells of are those of the eager engine; CTranslate2 does
    not tell. Pictures are drawn above."""
    from fairseq_hrt.cli import trace as verb

    monkeypatch.setattr("fairseq_hrt.evaluation.trace_picture.draw", lambda *_: None)

    shared = f"path={teacher},beam=1,max_len_b=5,task=translation_autoregressive"
    systems = [
        "--system",
        f"name=eager,{shared}",
        "--system",
        f"name=native,{shared},engine=runtime,weights=float32",
    ]
    verb.main([str(toy_data), "--sentence", "2", "--out", str(tmp_path), *systems])
    eager, native = json.loads((tmp_path / "trace.json").read_text())
    for name in ("tokens", "fixed", "arcs", "source", "decoder_calls"):
        assert native[name] == eager[name], name
    for row, other in zip(native["passes"], eager["passes"]):
        assert [(cell["state"], cell["token"]) for cell in row] == [
            (cell["state"], cell["token"]) for cell in other
        ]
        assert [cell["probability"] or 0 for cell in row] == pytest.approx(
            [cell["probability"] or 0 for cell in other], abs=1e-3
        )
    assert "native: " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        verb.main([str(toy_data), "--system", f"name=x,path={teacher},engine=ctranslate2"])
    assert "does not report its decoder passes" in capsys.readouterr().err


def test_the_terminal(traced, command, toy_data, teacher):
    _, shown = traced
    assert shown.startswith("· open") and "IB: " in shown and "\x1b" not in shown
    system = f"name=AT,path={teacher},beam=1,task=translation_autoregressive,max_len_b=5"
    typed = command(
        "fairseq-hrt",
        "trace",
        toy_data,
        "--system",
        system,
        "--text",
        "-",
        stdin="a b c\n",
        environment={"FORCE_COLOR": "1"},
    ).stdout
    assert "source  a b c" in typed and "\x1b[32m" in typed
    for change, message in (
        (["--sentence", "50"], "the sentences 0 to 19"),
        (["--system", system], "two systems share a name"),
    ):
        assert message in refused("fairseq-hrt", "trace", toy_data, "--system", system, *change)


def test_the_page_holds_its_data(traced):
    page = (traced[0] / "trace.html").read_text()
    assert "http" not in page.replace("http-equiv", "") and page.count("</script>") == 2
    data = page.split('id="data">')[1].split("</script>")[0]
    assert json.loads(data) == json.loads((traced[0] / "trace.json").read_text())


@contextmanager
def browser():
    """Calls of the WebDriver protocol to a headless Chromium; skips where there is none."""
    program = shutil.which("chromedriver")
    if program is None or not (shutil.which("chromium") or shutil.which("google-chrome")):
        pytest.skip("no Chromium with its driver on this machine")
    driver = subprocess.Popen(
        [program, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        port = next(
            line.rsplit(" ", 1)[1].strip(" .\n")
            for line in driver.stdout
            if "started successfully on port" in line
        )

        def call(path, body):
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}{path}",
                json.dumps(body).encode(),
                {"Content-Type": "application/json"},
            )
            return json.loads(urllib.request.urlopen(request, timeout=60).read())["value"]

        options = {
            "args": ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        }
        session = call(
            "/session", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        )["sessionId"]
        yield lambda path, body: call(f"/session/{session}{path}", body)
    finally:
        driver.terminate()
        driver.wait()
        time.sleep(0.1)


def test_the_slider_moves(traced):
    page = traced[0] / "trace.html"
    plain = json.loads((traced[0] / "trace.json").read_text())[0]
    with browser() as call:
        call("/url", {"url": page.as_uri()})
        read = """
            const slider = document.getElementById("step");
            slider.value = arguments[0];
            slider.dispatchEvent(new Event("input"));
            const section = document.querySelectorAll("#traces section")[0];
            return [slider.max, document.getElementById("number").textContent, section.querySelector("h2").textContent,
                    [...section.querySelectorAll(".word")].map(word => [word.title, word.firstChild.textContent])];
        """
        seen = [call("/execute/sync", {"script": read, "args": [step]}) for step in (1, 3, 999)]
    last = len(plain["passes"])
    assert {found[0] for found in seen} == {str(max(last, 1))}
    assert [found[1] for found in seen] == ["1", "3", str(last)]
    for found, step in zip(seen, (1, 3, last)):
        assert found[2] == f"AT: pass {step} of {last}"
        expected = [
            [plain["states"][cell["state"]], cell["token"] or "·"]
            for cell in plain["passes"][step - 1]
        ]
        assert found[3] == expected
