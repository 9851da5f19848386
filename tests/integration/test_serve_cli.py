"""``fairseq-hrt serve`` as a process: every route, the clients that others have written, signals
under load, workers that are killed."""

import fcntl
import html
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import ENVIRONMENT
from recipe_scripts import EXAMPLES
from tiny_models import write_bundle

import fairseq_hrt
from fairseq_hrt.cli import serve as verb

httpx = pytest.importorskip("httpx", reason="asks the server; it comes with the extra test")
pytest.importorskip("httptools", reason="the server needs the extra serve")
pytestmark = pytest.mark.slow
SECONDS = 60
# Sentences of each request while the server is told to end.
EACH = 300
PROGRAM = [sys.executable, "-m", "fairseq_hrt", "serve"]
ASKED = {"source": "de", "target": "en"}
# For clients that ask once: each would read all certificates first, which costs more than the rest.
WITHOUT_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Tiny bundles with models for the native engine."""
    from fairseq_hrt.export.runtime_bundle import add_runtime

    folder = tmp_path_factory.mktemp("served")

    def complete(bundle, family):
        add_runtime(bundle, "float32", data=folder / f"{family}_data")

    for family in ("autoregressive", "hrt", "dag"):
        write_bundle(
            folder / family, family, complete=lambda bundle, family=family: complete(bundle, family)
        )
    return folder


def get_once(url, **options):
    """An answer over a connection of its own."""
    return httpx.get(url, timeout=SECONDS, verify=WITHOUT_CERTIFICATES, **options)


def post_once(url, **options):
    return httpx.post(url, timeout=SECONDS, verify=WITHOUT_CERTIFICATES, **options)


@pytest.fixture(scope="module")
def converted(bundles):
    """The autoregressive one for CTranslate2."""
    pytest.importorskip("ctranslate2", reason="is compared with")
    from fairseq_hrt.cli import export

    folder = bundles / "converted"
    export.main([str(bundles / "autoregressive"), "--output", str(folder)])
    return folder


def environment():
    """Of processes that import this very copy of the package."""
    return {**ENVIRONMENT, "PYTHONPATH": str(Path(fairseq_hrt.__file__).parents[1])}


@contextmanager
def serving(*arguments, program=PROGRAM):
    """A running server: (process, address)."""
    program = [*map(str, program), *map(str, arguments), "--port", "0"]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        # Or its pipe fills up.
        log = []
        reader = threading.Thread(target=lambda: log.extend(process.stderr), daemon=True)
        reader.start()
        try:
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:"), (address, log)
            process.log = log
            yield process, address
        finally:
            if process.poll() is None:
                process.kill()


def ended(process):
    """The exit status of a server that was asked to end; its standard output had one line."""
    status = process.wait(SECONDS)
    assert process.stdout.read() == ""
    assert "Traceback" not in "".join(process.log)
    return status


def counted(client, name):
    """A figure of ``/metrics``, summed over its labels."""
    lines = client.get("/metrics").text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def test_one_process(bundles, tmp_path):
    model = fairseq_hrt.from_pretrained(bundles / "autoregressive", device="cpu")
    expected = model.translate("a b c")
    (tmp_path / "keys").write_text("key\n")
    arguments = [
        f"AT={bundles / 'autoregressive'}",
        bundles / "hrt",
        "--max-queue",
        "20000",
        "--key-file",
        tmp_path / "keys",
    ]
    with (
        serving(*arguments) as (process, address),
        httpx.Client(base_url=address, timeout=SECONDS, verify=WITHOUT_CERTIFICATES) as client,
    ):
        fields = {**ASKED, "q": "a b c", "api_key": "key"}
        for how in ("json", "data", "params"):
            assert client.post("/translate", **{how: fields}).json() == {"translatedText": expected}
        assert client.post("/translate", json={**fields, "api_key": "no"}).status_code == 403
        german = {**fields, "q": "Ein Mann geht mit seinem Hund durch den Park."}
        assert client.post("/detect", json=german).json()[0]["language"] == "de"
        assert client.get("/languages").json()[0] == {
            "code": "de",
            "name": "German",
            "targets": ["de", "en"],
        }
        assert client.get("/frontend/settings").json()["keyRequired"] is True
        assert client.get("/health").json() == {"status": "ok"}
        assert [system["name"] for system in client.get("/v1/systems").json()] == ["AT", "hrt"]
        assert set(client.get("/spec").json()["paths"]) >= {"/translate", "/detect", "/languages"}
        for path in ("/", "/page.js", "/page.css"):
            assert client.get(path).status_code == 200
        # Only this machine is listened to: nobody else can be meant.
        assert client.get("/", headers={"Host": "evil.example"}).status_code == 421
        for system in ("AT", "hrt"):
            answer = client.post(
                "/v1/translate",
                json={**fields, "system": system, "alternatives": 2, "options": {"beam": 4}},
            ).json()
            (sentence,) = answer["translations"][0]["sentences"]
            own = fairseq_hrt.from_pretrained(
                bundles / ("autoregressive" if system == "AT" else "hrt"), device="cpu"
            )
            options = {} if system == "AT" else {"hrt_nat_beam": 3}
            found = own.translate("a b c", details=True, **{"beam": 4, "nbest": 3, **options})
            assert sentence["text"] == found.text and sentence["token_steps"] == found.token_steps
            assert [other["text"] for other in sentence["alternatives"]] == [
                other.text for other in found.alternatives
            ]
        marked = {**fields, "q": '<i id="1">a</i> {x} <b>b <u>c</u></b>', "format": "html"}
        found = client.post("/translate", json=marked).json()["translatedText"]
        assert sorted(re.findall(r"<[^<>]+>|\{x\}", found)) == sorted(
            re.findall(r"<[^<>]+>|\{x\}", marked["q"])
        )
        assert (
            re.sub(r"<[^<>]+>| ?\{x\}|^\{x\} ", "", found).split()
            == html.escape(expected, quote=False).split()
        )
        foreign_clients(address, expected)
        status, texts = ended_under_load(process, client, fields)
    assert status == 0
    assert texts == ["\n".join([expected] * EACH)] * 8
    with pytest.raises(httpx.ConnectError):
        get_once(address)


def foreign_clients(address, expected):
    """The clients that others have written for LibreTranslate, as their documentation uses them."""
    libretranslatepy = pytest.importorskip(
        "libretranslatepy", reason="a client of LibreTranslate that is not installed"
    )
    deep_translator = pytest.importorskip(
        "deep_translator", reason="a client of LibreTranslate that is not installed"
    )
    own = libretranslatepy.LibreTranslateAPI(address, api_key="key")
    assert own.translate("a b c", "de", "en") == expected
    assert own.detect("a b c")[0]["language"] == "de"
    assert {language["code"] for language in own.languages()} == {"de", "en"}
    other = deep_translator.LibreTranslator(
        source="de", target="en", custom_url=address + "/", api_key="key"
    )
    assert other.translate("a b c") == expected
    assert other.translate_batch(["a b c", "a b c"]) == [expected, expected]


def ended_under_load(process, client, fields):
    """SIGTERM while eight requests of many sentences each are being translated: (exit status,
    their translations)."""
    before = counted(client, "fairseq_hrt_sentences_total")

    def ask(number):
        return post_once(
            f"{client.base_url}/translate",
            json={**fields, "q": "\n".join(["a b c"] * EACH)},
        )

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask, number) for number in range(8)]
        # All have been accepted: waiting or done, but for one batch that is neither.
        deadline = time.monotonic() + SECONDS
        while (
            counted(client, "fairseq_hrt_waiting")
            + counted(client, "fairseq_hrt_sentences_total")
            - before
            < 8 * EACH - 32
        ):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        texts = [one.result().json()["translatedText"] for one in asked]
    return ended(process), texts


def workers_of(process):
    """The worker processes of a server (not the one that tidies up shared memory)."""
    found = []
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        try:
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
        except FileNotFoundError:
            continue
    return set(found)


@pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="looks for the worker processes in /proc"
)
def test_a_worker_that_is_killed_is_replaced(bundles):
    expected = fairseq_hrt.from_pretrained(bundles / "hrt", device="cpu").translate("a b c")
    results, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            try:
                response = post_once(f"{address}/translate", json={**ASKED, "q": "a b c"})
                results.append((response.status_code, response.json()["translatedText"]))
            except httpx.TimeoutException:
                results.append("hung")
            except httpx.TransportError:
                results.append("failed")

    with serving(bundles / "hrt", "--workers", "2") as (process, address):
        before = workers_of(process)
        assert len(before) == 2
        with ThreadPoolExecutor(4) as pool:
            for _ in range(4):
                pool.submit(ask)
            try:
                killed = before.pop()
                deadline = time.monotonic() + SECONDS
                while len(results) < 20:
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
                os.kill(killed, signal.SIGKILL)
                while len(workers_of(process) - {killed}) < 2:
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
                answered = len(results)
                while len(results) < answered + 20:
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
            finally:
                stop.set()
        assert "fairseq_hrt_waiting_sentences" in get_once(f"{address}/metrics").text
        process.send_signal(signal.SIGTERM)
        assert ended(process) == 0
    assert set(results) <= {(200, expected), "failed"}
    # Only what the killed one had taken: at most one request of each client.
    assert results.count("failed") <= 4 and len(results) > 20


@pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="looks for the worker processes in /proc"
)
@pytest.mark.parametrize("workers", [1, 2])
def test_an_unread_log_and_a_killed_server(bundles, workers):
    """Nobody is kept waiting by a full pipe; whatever ends the server, its workers go with it and
    the port is free."""
    program = [*PROGRAM, bundles / "hrt", "--workers", workers, "--port", "0"]
    with subprocess.Popen(
        list(map(str, program)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        try:
            # As small as a pipe can be: half of these lines fill it.
            fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)
            address = process.stdout.readline().decode().strip()
            with httpx.Client(
                base_url=address, timeout=SECONDS, verify=WITHOUT_CERTIFICATES
            ) as client:
                # All of them go to one worker.
                assert {client.get("/health").status_code for _ in range(120)} == {200}
            started = workers_of(process)
            assert len(started) == (workers if workers > 1 else 0)
        finally:
            process.kill()
        process.wait(SECONDS)
        deadline = time.monotonic() + SECONDS
        while any(Path(f"/proc/{worker}").exists() for worker in started):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", int(address.rpartition(":")[2])))


def limited(limit):
    """The server with another limit of its shell."""
    return ["bash", "-c", f'ulimit {limit}; exec "$@"', "limited", *PROGRAM]


def test_few_open_files(bundles):
    """Clients that ask nothing take no descriptor from those that do."""
    with serving(bundles / "hrt", program=limited("-n 256")) as (process, address):
        port = int(address.rpartition(":")[2])
        idle = [socket.create_connection(("127.0.0.1", port), timeout=SECONDS) for _ in range(600)]
        for _ in range(5):
            assert get_once(f"{address}/health").status_code == 200
        for one in idle:
            one.close()
        process.send_signal(signal.SIGTERM)
        assert ended(process) == 0
    log = "".join(process.log)
    assert "this process may open 256 files (ulimit -n), so it takes 192" in log
    assert len(log) < 10_000


class Browser:
    """Headless Chromium by the WebDriver protocol."""

    ELEMENT = "element-6066-11e4-a52e-4f735466cecf"

    def __init__(self, driver):
        options = {
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        }
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        self._client = httpx.Client(base_url=driver, timeout=SECONDS, verify=WITHOUT_CERTIFICATES)
        session = self.send("POST", "/session", capabilities={"alwaysMatch": wanted})["sessionId"]
        self._session = self._client.base_url = f"{driver}/session/{session}"

    def send(self, method, path, **fields):
        response = self._client.request(method, path, json=fields if method == "POST" else None)
        assert response.status_code == 200, response.text
        return response.json()["value"]

    def run(self, script, *arguments):
        return self.send("POST", "/execute/sync", script=script, args=list(arguments))

    def until(self, condition):
        """The value of an expression when it is true at last."""
        deadline = time.monotonic() + SECONDS
        while not (value := self.run(f"return {condition}")):
            assert time.monotonic() < deadline, (
                condition,
                self.run("return document.body.innerText"),
            )
            time.sleep(0.05)
        return value

    def write(self, text):
        self.run("document.getElementById('text').value = ''")
        element = self.send("POST", "/element", using="css selector", value="#text")[self.ELEMENT]
        self.send("POST", f"/element/{element}/value", text=text)

    def resize(self, width):
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        self.send(
            "POST", "/goog/cdp/execute", cmd="Emulation.setDeviceMetricsOverride", params=metrics
        )

    def nameless(self):
        """What a screen reader would find without a name: (role, value) of everything that can be
        used or looked at."""
        nodes = self.send(
            "POST", "/goog/cdp/execute", cmd="Accessibility.getFullAXTree", params={}
        )["nodes"]
        used = (
            "button",
            "textbox",
            "combobox",
            "checkbox",
            "slider",
            "image",
            "link",
            "group",
            "region",
            "article",
        )
        found = [node for node in nodes if not node["ignored"] and node["role"]["value"] in used]
        assert len(found) > 5
        return [
            (node["role"]["value"], node.get("value"))
            for node in found
            if not node.get("name", {}).get("value", "").strip()
        ]

    def close(self):
        self.send("DELETE", self._session)


@pytest.fixture(scope="module")
def chromium():
    program = shutil.which("chromedriver")
    if program is None:
        pytest.skip("the page is looked at with Chromium and chromedriver, which are not installed")
    with subprocess.Popen(
        [program, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            port = (
                next(line for line in process.stdout if "successfully on port" in line)
                .rstrip(".\n")
                .rpartition(" ")[2]
            )
            found = Browser(f"http://127.0.0.1:{port}")
            yield found
            found.close()
            # Killed before its Chromium has ended, it would leave that behind.
            httpx.get(f"http://127.0.0.1:{port}/shutdown", verify=WITHOUT_CERTIFICATES)
            process.wait(SECONDS)
        finally:
            process.kill()


@pytest.fixture
def browser(chromium):
    """One for all tests; what it logged before is forgotten."""
    chromium.send("POST", "/se/log", type="browser")
    return chromium


def test_the_page_in_a_browser(bundles, browser):
    articles = "[...document.querySelectorAll('article')]"
    model = fairseq_hrt.from_pretrained(bundles / "autoregressive", device="cpu")
    # A name is a text, whatever is in it.
    systems = [
        f"<b>AT</b>={bundles / 'autoregressive'}",
        f"HRT={bundles / 'hrt'}",
        f"DAG={bundles / 'dag'}",
    ]
    with serving(*systems) as (process, address):
        browser.resize(1280)
        browser.send("POST", "/url", url=address)
        # These bundles have no examples.
        browser.until(
            "document.getElementById('suggestions').textContent === 'Translations appear here.'"
        )
        browser.write("a b c")
        found = model.translate("a b c", details=True)
        shown = f"{articles}.map((one) => one.querySelector('.translation').textContent)"
        browser.until(f"{shown}[0] === {json.dumps(found.text)}")
        assert browser.run(
            f"return {articles}.map((one) => one.querySelector('h2').textContent)"
        ) == ["<b>AT</b>", "HRT", "DAG"]
        choose = (
            "[...document.querySelectorAll('#systems input')].forEach((box) => { if (box.checked"
            " !== arguments[0].includes(box.value)) box.click(); })"
        )
        browser.run(choose, ["<b>AT</b>", "HRT"])
        browser.until(f"{articles}.length === 2")
        steps = f"return {articles}[0].querySelector('.facts').textContent"
        assert browser.run(steps) == f"{len(found.tokens)} tokens in {found.steps} steps"
        assert browser.run("return [...document.querySelectorAll('.languages option')].map((one) => one.text)") == [
            "German", "English",
        ]  # fmt: skip
        # Nothing that cannot be used: there is no way back, and nothing to be detected.
        assert browser.run("return document.getElementById('swap').hidden")
        # Side by side, beside the text.
        places = (
            f"return {articles}.map((one) => one.getBoundingClientRect()).map((place) =>"
            " [place.left, place.top])"
        )
        (left, top), (right, same) = browser.run(places)
        assert (
            left < right
            and top == same
            and left
            > browser.run("return document.getElementById('text').getBoundingClientRect().right")
        )
        slide = (
            f"const slider = {articles}[0].querySelector('input'); slider.value = arguments[0];"
            " slider.dispatchEvent(new Event('input'))"
        )
        hidden = f"return {articles}[0].querySelectorAll('li.open').length"
        for step in (1, 3, found.steps):
            browser.run(slide, step)
            assert browser.run(hidden) == sum(one > step for one in found.token_steps)
        browser.run("document.getElementById('alternatives').click()")
        # Of other translations those are shown that are whole sentences, or a word that there are
        # none.
        scores = "[...document.querySelectorAll('article .facts')].map((one) => one.textContent)"
        browser.until(f"{scores}.some((one) => one.startsWith('Score '))")
        others = [
            ("Ein Hund rennt.", -0.4), ("Ein", -0.3), ("Ein Hund", -0.3), ("Der Hund läuft!", -0.9),
            ("ein Hund läuft !", -0.4), ("Hund. Hund. Hund. Hund. Hund. Hund. Hund.", -0.4),
        ]  # fmt: skip
        sentence = {
            "text": "Ein Hund läuft.",
            "score": -0.3,
            "alternatives": [{"text": text, "score": score} for text, score in others],
        }
        shown_ones = "return wholeSentences(arguments[0]).map((one) => one.text)"
        assert browser.run(shown_ones, sentence) == ["Ein Hund rennt."]
        # What is given stands in the translation; a line that cannot be read is named.
        write = (
            "const field = document.getElementById('glossary'); field.value = arguments[0];"
            " field.dispatchEvent(new Event('input'))"
        )
        browser.run(write, "\na b = Xyz")
        browser.until(
            f"{articles}.length === 2 && document.querySelectorAll('.terms').length === 2"
        )
        assert "Xyz" in browser.run(f"return {shown}[1]")
        assert browser.run("return document.querySelector('.terms').textContent") == (
            "From the glossary: a b → Xyz"
        )
        for wrong, message in (
            ("a = x\nb", "Glossary, line 2: write term = translation."),
            ("a = x\na = y", "glossary, line 2: 'a' has the translation 'x' in line 1"),
        ):
            browser.run(write, wrong)
            browser.until(
                f"document.querySelector('#status.error')?.textContent.includes("
                f"{json.dumps(message)})"
            )
        # The browser logs what the server refuses.
        log = browser.send("POST", "/se/log", type="browser")
        assert len(log) == 2 and all("status of 400" in one["message"] for one in log)
        browser.run(write, "")
        browser.until(f"{articles}.length === 2 && !document.querySelector('.terms')")
        browser.run("document.getElementById('watch').click()")
        browser.until(f"{articles}[0].querySelectorAll('li.open').length")
        browser.resize(375)
        (left, top), (same, below) = browser.run(places)
        assert (
            left == same
            and below > top
            and browser.run("return document.documentElement.scrollWidth") <= 375
        )
        browser.run(choose, [])
        browser.until("document.getElementById('status').textContent === 'Choose a system.'")
        browser.run(choose, ["<b>AT</b>", "HRT"])
        browser.until(f"{articles}.length === 2")
        # What is written at once has no slider: the words of a graph, the chosen ones in a row.
        browser.run(choose, ["DAG"])
        browser.until(f"{articles}.length === 1 && document.querySelector('.graph svg')")
        path = [
            token
            for token in fairseq_hrt.from_pretrained(bundles / "dag", device="cpu").graphs(
                ["a b c"]
            )[0][0]["vertices"]
            if token["chosen"]
        ]
        assert browser.run("return document.querySelectorAll('.graph g.chosen').length") == len(
            path
        )
        assert (
            browser.run("return document.querySelectorAll('.graph path.chosen').length")
            == len(path) - 1
        )
        assert browser.run(
            f"return {articles}[0].querySelector('label').hidden &&"
            " document.getElementById('watch').hidden"
        )
        assert "Chosen path: ▶ → " in browser.run(
            "return document.querySelector('.graph svg').getAttribute('aria-label')"
        )
        assert browser.run("return document.documentElement.scrollWidth") <= 375
        assert browser.nameless() == []
        # Nothing was blocked by the policy for contents, nothing failed.
        assert browser.send("POST", "/se/log", type="browser") == []
        process.send_signal(signal.SIGTERM)
        assert ended(process) == 0
        browser.write("b c d")
        browser.until(
            "document.querySelector('#status.error') &&"
            " document.getElementById('status').textContent === 'The server does not answer.'"
        )


def test_the_page_at_first_sight(bundles, browser, tmp_path):
    """Examples of the bundles, both directions, a phone."""
    for name, languages, examples in (
        ("forth", ("de", "en"), ["a b c d e", "f g"]),
        ("back", ("en", "de"), ["A B", "ZEBRA A"]),
    ):
        shutil.copytree(bundles / "autoregressive", tmp_path / name)
        description = json.loads((tmp_path / name / "bundle.json").read_text())
        changed = {"source_lang": languages[0], "target_lang": languages[1], "examples": examples}
        (tmp_path / name / "bundle.json").write_text(json.dumps({**description, **changed}))
    text = "document.getElementById('text').value"
    translation = "document.querySelector('.translation')"
    write = (
        "const text = document.getElementById('text'); text.value = arguments[0];"
        " text.dispatchEvent(new Event('input'))"
    )
    choose = (
        "const one = document.getElementById('source'); one.value = arguments[0];"
        " one.dispatchEvent(new Event('change'))"
    )
    with serving(tmp_path / "forth", tmp_path / "back") as (process, address):
        for touch in (True, False):
            metrics = {"width": 375, "height": 812, "deviceScaleFactor": 1, "mobile": touch}
            browser.send(
                "POST",
                "/goog/cdp/execute",
                cmd="Emulation.setDeviceMetricsOverride",
                params=metrics,
            )
            params = {"enabled": touch, "maxTouchPoints": 1}
            browser.send(
                "POST", "/goog/cdp/execute", cmd="Emulation.setTouchEmulationEnabled", params=params
            )
            browser.send("POST", "/url", url=address)
            browser.until(translation)
            if touch:
                assert browser.run("return document.activeElement.id") == ""
        assert browser.run(f"return {text}") == "a b c d e"
        # Without scrolling, and well above the middle.
        assert browser.run(f"return {translation}.getBoundingClientRect().bottom") < 450
        assert browser.run("return document.documentElement.scrollWidth") <= 375
        browser.run("document.getElementById('swap').click()")
        shown = "[document.getElementById('source').value, document.getElementById('target').value]"
        browser.until(f"{shown}.join() === 'en,de'")
        browser.run(write, "")
        offered = (
            "[...document.querySelectorAll('#suggestions button')].map((one) => one.textContent)"
        )
        browser.until(f"!document.querySelector('article') && {offered}.length === 2")
        assert browser.run(f"return {offered}") == ["A B", "ZEBRA A"]
        browser.run("document.querySelector('#suggestions button').click()")
        browser.until(
            f"{translation} && document.getElementById('suggestions').hidden && {text} === 'A B'"
        )
        browser.run(write, "ZEBRA YAK")
        browser.until("document.querySelector('.unknown')")
        assert "them: ZEBRA, YAK. They" in browser.run(
            "return document.querySelector('.unknown').textContent"
        )
        browser.run(choose, "auto")
        browser.run(write, "Dieser Satz ist ganz sicher auf Deutsch geschrieben.")
        browser.until(
            "document.getElementById('source').selectedOptions[0].text === 'German (detected)'"
        )
        browser.until(
            f"document.getElementById('target').value === 'en' && {translation}.lang === 'en'"
        )
        browser.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        browser.run("document.querySelector('article button').click()")
        browser.until(
            f"window.copied === {translation}.textContent && document.querySelector('article"
            " button').textContent === 'Copied'"
        )
        assert browser.nameless() == [] and browser.send("POST", "/se/log", type="browser") == []
        process.send_signal(signal.SIGTERM)
        assert ended(process) == 0


@pytest.mark.skipif(
    not os.environ.get("AXE_CORE"),
    reason="looks with axe-core: npm install axe-core, and"
    " AXE_CORE=node_modules/axe-core/axe.min.js",
)
def test_accessibility(bundles, browser):
    """No violation that axe-core finds, on a wide and on a narrow page, light and dark."""
    path = os.environ["AXE_CORE"]
    with serving(f"AT={bundles / 'autoregressive'}", f"DAG={bundles / 'dag'}") as (
        process,
        address,
    ):
        for width, scheme in ((1280, "light"), (375, "dark")):
            browser.resize(width)
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.send(
                "POST",
                "/goog/cdp/execute",
                cmd="Emulation.setEmulatedMedia",
                params={"features": features},
            )
            browser.send("POST", "/url", url=address)
            browser.until("document.querySelector('#systems input')")
            browser.write("a b c")
            browser.until(
                "document.querySelectorAll('article').length === 2 &&"
                " document.querySelector('.graph svg')"
            )
            browser.run(Path(path).read_text(encoding="utf-8"))
            browser.run(
                "window.found = null; axe.run().then((found) => { window.found ="
                " found.violations.map((one) => one.id); })"
            )
            assert browser.until("window.found !== null && JSON.stringify(window.found)") == "[]"
        process.send_signal(signal.SIGTERM)
        assert ended(process) == 0


def test_requests_made_from_the_description(bundles, tmp_path):
    """What schemathesis makes of /spec, right and wrong: no answer is a failure of the server, and
    all are as described."""
    program = shutil.which("schemathesis")
    if program is None:
        pytest.skip("asks with schemathesis, which is not installed")
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    with serving(bundles / "hrt") as (process, address):
        command = [
            program,
            "run",
            f"{address}/spec",
            "--max-examples",
            "5",
            "--seed",
            "1",
            "--checks",
            checks,
            "--phases",
            "examples,fuzzing",
        ]
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=4 * SECONDS, cwd=tmp_path
        )
        assert result.returncode == 0, result.stdout[-4000:]
        process.send_signal(signal.SIGTERM)
        assert ended(process) == 0


@pytest.fixture
def example(load_example, monkeypatch):
    """A function that runs a program of examples/serve in this process."""
    for name, value in environment().items():
        monkeypatch.setenv(name, value)

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        load_example(f"serve/{name}.py").main()

    return run


def test_the_same_load_on_several_servers(bundles, converted, tmp_path, example, capsys):
    """Our engine and CTranslate2 behind the same server code: both translate, are measured, and end
    well."""
    (tmp_path / "lines").write_text("a b c\n\nd e. f\n")
    examples = Path(fairseq_hrt.__file__).parents[1] / "examples" / "serve"
    other = (
        f"CTranslate2=python '{examples}/ctranslate2_server.py' '{bundles}/autoregressive' --model"
        f" '{converted}'"
    )
    own = f"native=fairseq-hrt serve '{bundles}/autoregressive'"
    arguments = [
        "--lines",
        tmp_path / "lines",
        "--clients",
        "1",
        "3",
        "--seconds",
        "0.1",
        "--warm-up",
        "0.05",
        "--json",
        tmp_path / "figures",
    ]
    example("compare", "--server", own, "--server", other, *arguments)
    rows = json.loads((tmp_path / "figures").read_text())
    assert [(row["server"], row["clients"]) for row in rows] == [
        ("native", 1),
        ("native", 3),
        ("CTranslate2", 1),
        ("CTranslate2", 3),
    ]
    assert all(
        row["failures"] == 0 and row["requests/s"] > 0 and row["memory MB"] > 10 for row in rows
    )
    assert capsys.readouterr().out.count("| native |") == 2
    for wrong, message in (
        ("no command", "write NAME=COMMAND"),
        ("k=2=python -c pass", "no program '2=python'"),
        ("x=python -c pass", "does not start"),
    ):
        with pytest.raises(SystemExit, match=f"^error: .*{message}"):
            example("compare", "--server", wrong, *arguments)


def test_another_engine_translates_what_it_would_without_the_server(bundles, converted):
    from fairseq_hrt.native.server.systems import Settings, load_translator

    expected = load_translator(
        bundles / "autoregressive", Settings(systems=(("x", bundles),))
    ).translate("a b c", details=True)
    program = [
        sys.executable,
        Path(fairseq_hrt.__file__).parents[1] / "examples/serve/ctranslate2_server.py",
        bundles / "autoregressive",
    ]
    program += ["--model", converted, "--compute-type", "float32"]
    with serving(*program[2:], program=program[:2]) as (process, address):
        answer = post_once(f"{address}/v1/translate", json={**ASKED, "q": "a b c"}).json()
        (sentence,) = answer["translations"][0]["sentences"]
        assert (sentence["text"], sentence["tokens"], sentence["token_steps"]) == (
            expected.text,
            expected.tokens,
            expected.token_steps,
        )
        assert get_once(f"{address}/v1/systems").json()[0]["engine"] == "ctranslate2 float32"
        process.send_signal(signal.SIGTERM)
        assert ended(process) == 0


def test_replicas_on_a_ray_cluster(bundles):
    """A cluster of this machine alone: the program prints where, it answers, and ends at
    SIGTERM."""
    pytest.importorskip("ray.serve", reason="deploys with Ray Serve, which is not installed")
    expected = fairseq_hrt.from_pretrained(bundles / "hrt", device="cpu").translate("a b c")
    program = [
        sys.executable,
        Path(fairseq_hrt.__file__).parents[1] / "examples" / "scale" / "serve_deployment.py",
    ]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    with subprocess.Popen(
        [*program, bundles / "hrt", "--port", port],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    ) as process:
        address = process.stdout.readline().decode().strip()
        assert address == f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=address, timeout=SECONDS, verify=WITHOUT_CERTIFICATES) as client:
            assert {
                client.post("/translate", json={**ASKED, "q": "a b c"}).json()["translatedText"]
                for _ in range(20)
            } == {expected}
            assert client.post("/translate", json={**ASKED, "target": "zz", "q": "a"}).json() == {
                "error": "zz is not supported"
            }
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0


def test_hostile_requests_and_memory(bundles, tmp_path, example, capsys):
    """A few of each kind; the program counts what the server made of them, and whether it goes
    on. Another one watches its memory afterwards."""
    with serving(bundles / "hrt", "--time-limit", "1") as (process, address):
        arguments = ["--source", "de", "--target", "en"]
        with pytest.raises(SystemExit, match="^0$"):
            example("hostile", address, *arguments, "--requests", "150", "--patience", "40")
        assert (
            "150 requests, 0 failures of the server; a right one afterwards: 200"
            in capsys.readouterr().out
        )
        (tmp_path / "lines").write_text("a b c\nd e f\n")
        own = ["--lines", tmp_path / "lines", "--requests", "40", "--process", process.pid]
        example("load", address, *arguments, *own)
        process.send_signal(signal.SIGTERM)
        assert ended(process) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [int(row[0]) for row in rows] == list(range(4, 41, 4)) and all(
        row[3] == "0" and float(row[4]) > 10 for row in rows
    )
    with pytest.raises(SystemExit, match="^1$"):
        example("hostile", address, *arguments, "--requests", "1", "--patience", "1")


def test_attacks(bundles, load_example, monkeypatch, capsys):
    """The program repeats small ones: a server that it starts itself, one that runs, and none of
    another machine."""
    attack = load_example("serve/attack.py")
    # The others differ in what they send, not in how that is measured.
    few = ("requests, answers read", "an endless head", "a head of spaces")
    monkeypatch.setattr(attack, "FLOODS", {name: attack.FLOODS[name] for name in few})
    for name, value in environment().items():
        monkeypatch.setenv(name, value)

    def run(*given):
        monkeypatch.setattr(sys, "argv", ["attack.py", *map(str, given)])
        attack.main()

    small = "--size 5000 --seconds 5 --word 50 --line 60 --clients 3 --patience 30"
    run(bundles / "hrt", *small.split())
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in capsys.readouterr().out.splitlines()
    ]
    found = {row[0]: row[1:] for row in rows}
    assert f"| {' | '.join(rows[0])} |\n" in (EXAMPLES / "serve/README.md").read_text()
    assert found["a head of spaces"][2] == "answered"
    assert (
        found["an endless head"][2] == "closed" and float(found["requests, answers read"][3]) < 20
    )
    assert (
        found["five words"][0] == "200"
        and found["five words after 3 such words whose clients have left"][0] == "200"
    )
    for arguments, message in (
        (["http://10.0.0.1:8080", "--process", "1"], "only servers of this machine"),
        (["http://127.0.0.1:8080"], "--process is missing"),
    ):
        with pytest.raises(SystemExit, match=message):
            run(*arguments)


def test_what_is_refused_before_anything_is_served(bundles, tmp_path, capsys):
    (tmp_path / "empty").write_text("# nobody\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments, message in (
            ([tmp_path / "nothing"], "nothing"),
            ([f"x={bundles / 'hrt'}", f"x={bundles / 'hrt'}"], "two systems are called 'x'"),
            ([bundles / "hrt", "--key-file", tmp_path / "empty"], "holds no key"),
            ([bundles / "hrt", "--key-file", tmp_path / "missing"], "--key-file"),
            ([bundles / "hrt", "--port", "70000"], "--port 70000"),
            ([bundles / "hrt", "--port", port], f"--port {port}"),
            ([bundles / "hrt", "--host", "no.such.host.invalid"], "--host no.such.host.invalid"),
            ([bundles / "hrt", "--workers", "0"], "--workers 0"),
            ([bundles / "hrt", "--time-limit", "0"], "--time-limit 0"),
        ):
            with pytest.raises(SystemExit) as ending:
                verb.main(list(map(str, arguments)))
            (line,) = capsys.readouterr().err.strip().splitlines()
            assert ending.value.code == 2 and line.startswith("error: ") and message in line


def test_workers_that_cannot_start_end_the_server(bundles, tmp_path):
    """What is only found when a system is loaded: the server does not try again for ever."""
    shutil.copytree(bundles / "hrt", tmp_path / "broken")
    (tmp_path / "broken" / "runtime.safetensors").write_bytes(b"nothing")
    # Without PyTorch that is known at once.
    program = [
        *PROGRAM,
        str(tmp_path / "broken"),
        "--workers",
        "2",
        "--port",
        "0",
        "--engine",
        "runtime",
    ]
    result = subprocess.run(
        program, capture_output=True, text=True, timeout=SECONDS, env=environment()
    )
    assert result.returncode == 2 and result.stdout == ""
    assert (
        "runtime" in result.stderr
        and "a worker cannot start; the log above tells why" in result.stderr
    )
    assert "Traceback" not in result.stderr
