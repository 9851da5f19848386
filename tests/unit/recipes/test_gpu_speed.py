"""examples/common/gpu_speed.py on a CPU at tiny size: every part has rows, and what fails or does
not fit keeps the rest."""

import json
import logging
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import gpu_rows
import gpu_speed
import gpu_systems
import gpu_training
import pytest
import torch
from gpu_decoding import equality
from gpu_losses import differences, ours, random_batch
from gpu_rows import DeviceLost, Journal, NotMeasured, timed

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def shared_process(monkeypatch):
    """The script silences loggers for its own process, which the tests share, and looks at all that
    is in it, which takes a second where there is so much else."""
    monkeypatch.setattr(gpu_rows.gc, "collect", lambda: 0)
    levels = {
        logger: logger.level
        for logger in map(logging.getLogger, ("fairseq", "torch", "fairseq_hrt"))
    }
    yield
    for logger, level in levels.items():
        logger.setLevel(level)


@pytest.fixture
def journal(tmp_path):
    made = Journal(tmp_path / "gpu.json", CPU, time.time() + 100, {"about": "a test"})
    made.begin("decoding", 1.0)
    return made


def given(path, *more):
    """The options of the process that measures."""
    words = ["--device", "cpu", "--tiny", "--out", str(path), "--layers", "1+1", *more]
    found = gpu_speed.build_parser().parse_args(words)
    found.until = time.time() + 100
    return found


def rows_of(path):
    return json.loads(path.read_text(encoding="utf-8"))["rows"]


def test_every_part_has_rows(tmp_path, monkeypatch):
    """Few systems: each part's own test has the others."""
    monkeypatch.setattr(gpu_systems, "SYSTEMS", kept(gpu_systems.SYSTEMS, "hrt k=2", "dag greedy"))
    monkeypatch.setattr("gpu_decoding.SYSTEMS", gpu_systems.SYSTEMS)
    monkeypatch.setattr(gpu_training, "TRAININGS", kept(gpu_training.TRAININGS, "hrt"))
    path = tmp_path / "gpu.json"
    assert gpu_speed.measure(given(path)) == 0
    document = json.loads(path.read_text(encoding="utf-8"))
    rows = {part: [row for row in document["rows"] if row["part"] == part]
            for part in gpu_speed.PARTS}  # fmt: skip
    assert not [row for row in document["rows"] if "failed" in row] and "doing" not in document
    assert [row["tflops"] for row in rows["ceilings"] if "tflops" in row]
    assert {row["system"] for row in rows["losses"]} == {
        "likelihood", "alignment", "vocabulary", "smoothed", "fuzzy",
    }  # fmt: skip
    trained, grown = rows["training"]
    assert trained["tokens_a_second"] > 0 < trained["tflop_an_update"] and trained["parameters"]
    assert grown["way"] == "other sizes" and all(own["ms"] for own in grown["by_tokens"].values())
    assert list(grown["by_tokens"]) == ["6", "12"]
    timed_rows = [row for row in rows["decoding"] if "ms" in row]
    assert {row["way"] for row in timed_rows} == {"captured", "eager", "stock"}
    # Two words a pass and one more for the end, of six: what the decoder was called for.
    assert {row["calls"] for row in timed_rows if row["system"] == "hrt k=2"} == {5}
    assert {row["words_a_sentence"] for row in timed_rows if row["system"] == "hrt k=2"} == {8}
    assert all(row["equal"] == row["sentences"] for row in rows["correctness"] if "equal" in row)
    assert document["environment"]["commit"] and document["settings"]["seed"] == 1


def kept(table, *names):
    """Some of a table's entries."""
    return {name: table[name] for name in names}


@pytest.mark.parametrize("name", ["Transformer beam 5", "hrt k=2", "ctc greedy"])
def test_a_difference_is_counted(name, monkeypatch):
    """The second way writes another word at one place."""
    size = gpu_systems.Size(width=32, words=96, length=6, heads=2)
    models = gpu_systems.Models(size, CPU, torch.float32, seed=1, lively=True)
    batches = [models.padded([6, 3, 5], seed=1)]
    generator = models.generator(name, "1+1", forced=False)
    find, ways = generator.find, []

    def changed(batch):
        found = find(batch)
        if ways[-1]:
            found[1][0].tokens = [*found[1][0].tokens, 5]
        return found

    generator.find = changed
    monkeypatch.setattr(models, "generator", lambda *given, **named: generator)
    way = SimpleNamespace(check=lambda: None, reasons=["one of them"])
    monkeypatch.setattr("gpu_decoding.Way", lambda one, captured: ways.append(captured) or way)
    found = equality(models, name, "1+1", batches)
    assert (found["sentences"], found["equal"], found["equal_eager_again"]) == (3, 2, 3)
    assert found["step_by_step"] == "one of them"
    assert found["eager_tokens"][0] == 1 and found["captured_tokens"][-1] == 5


def test_a_search_without_graphs_is_not_taken_for_one():
    size = gpu_systems.Size(width=32, words=96, length=6, heads=2)
    models = gpu_systems.Models(size, CPU, torch.float32, seed=1)
    generator = models.generator("Transformer greedy", "1+1")
    generator.graph_refusal = lambda tokens, prefix: "a reason"
    way = gpu_systems.Way(generator, captured=True)
    generator.find(models.batch(2))
    with pytest.raises(NotMeasured, match="^a reason$"):
        way.check()
    generator = models.generator("dag greedy", "1+1")
    for captured in (True, False):
        way = gpu_systems.Way(generator, captured)
        generator.find(models.batch(2))
        way.check()
        assert way.recorded == captured


def test_translations_differ():
    """Constant ones would hide what is wrong."""
    size = gpu_systems.Size(width=64, words=200, length=12, heads=4)
    models = gpu_systems.Models(size, CPU, torch.float32, seed=1, lively=True)
    batch = models.padded([12, 11, 10, 9, 8, 7], seed=1)
    for name in ("Transformer greedy", "hrt k=2", "bidirectional", "ctc greedy"):
        found = models.generator(name, "1+1", forced=False).find(batch)
        assert len({tuple(best[0].tokens) for best in found}) > 2, name


def test_a_row_that_fails_keeps_the_others(journal):
    def fails():
        raise RuntimeError("broken\nhere")

    def absent():
        raise NotMeasured("not installed")

    assert journal.row({"system": "a"}, lambda: {"ms": 2.0, "low": 1.0, "high": 3.0})["ms"] == 2
    assert journal.row({"system": "b"}, fails) is None
    assert journal.row({"system": "c"}, absent) is None
    journal.part_end = 0
    assert journal.row({"system": "d"}, fails) is None
    assert rows_of(journal.path)[1:] == [
        {"part": "decoding", "system": "b", "failed": "RuntimeError: broken here"},
        {"part": "decoding", "system": "c", "not_run": "not installed"},
        {"part": "decoding", "system": "d", "not_run": "no time left"},
    ]


def test_a_new_process_continues(journal, monkeypatch):
    """After an error of the device; what is there is not measured again."""
    journal.row({"system": "a"}, lambda: {"ms": 2.0, "low": 1.0, "high": 3.0})
    monkeypatch.setattr(Journal, "answers", lambda self: "an illegal memory access")

    def fails():
        raise RuntimeError("an illegal memory access")

    with pytest.raises(DeviceLost, match="illegal"):
        journal.row({"system": "b"}, fails)
    other = Journal(journal.path, CPU, journal.end, {})
    other.begin("decoding", 1.0)
    assert (
        other.row({"system": "a"}, fails)["ms"] == 2 and other.row({"system": "b"}, fails) is None
    )
    assert other.row({"system": "c"}, lambda: {"equal": 3}) and len(rows_of(journal.path)) == 3


MEASURING = """
import json, os, sys, time
path, rows = sys.argv[1], []
if os.path.exists(path):
    rows = json.load(open(path))["rows"]
number = len(rows) + 1
until = time.time() + (0.1 if number == 1 else 60)
doing = {"part": "losses", "system": f"row {number}", "until": until}
planned = [{"part": "losses", "system": f"row {n}"} for n in (1, 2, 3)]
with open(path + "~", "w") as file:
    json.dump({"rows": rows, "doing": doing, "planned": planned}, file)
os.replace(path + "~", path)
if number == 2:
    os.kill(os.getpid(), 9)
time.sleep(30)
"""


def test_a_process_that_hangs_or_is_killed(tmp_path, monkeypatch):
    """The first row hangs, in the second the driver ends the process, for the third there is no
    time."""
    script, path = tmp_path / "measuring.py", tmp_path / "gpu.json"
    script.write_text(MEASURING)
    monkeypatch.setattr(gpu_speed, "GRACE", 0.0)
    start = gpu_speed.subprocess.Popen
    monkeypatch.setattr(
        gpu_speed.subprocess, "Popen", lambda words: start([sys.executable, str(script), str(path)])
    )
    options = given(path, "--only", "losses,training", "--minutes", "0.03")
    assert gpu_speed.supervise(options, []) == 0
    found = [(row.get("system"), row.get("failed"), row.get("not_run")) for row in rows_of(path)]
    assert found == [
        ("row 1", "no answer", None),
        ("row 2", "the process ended with status -9", None),
        ("row 3", "the time was over", None),
        (None, None, "no time left"),
    ]
    assert set(json.loads(path.read_text())) == {"rows"}


def test_repeats_and_the_first_call(monkeypatch):
    clock = iter([0, 9, 10, 12, 20, 21, 30, 35, 40, 43])
    monkeypatch.setattr(gpu_rows, "_host_clock", lambda run, device: -next(clock) + next(clock))
    found = timed(lambda: None, CPU, warmups=2, repeats=3, seconds=0.0)
    assert found == {"first_ms": 9, "ms": 3, "low": 1, "high": 5, "repeats": 3}


def test_another_layout_of_links():
    """The reference operations read links[b, u, d] from u to u + 1 + d."""
    from gpu_losses import theirs

    from fairseq_hrt.ops import dag_best_alignment, dag_log_likelihood, gather_log_probs

    batch = random_batch(CPU, torch.float32, tokens=4, sentences=3, width=8, words=20)

    def dense(links):
        size = links.size(1)
        places = torch.arange(size).unsqueeze(1) + 1 + torch.arange(size - 1)
        wide = links.new_full((len(links), size, 2 * size), float("-inf"))
        return wide.scatter(2, places.expand(len(links), -1, -1), links)[:, :, :size]

    others = SimpleNamespace(
        dag_loss=lambda match, links, vertices, targets: dag_log_likelihood(
            match, dense(links), targets, vertices
        ),
        dag_best_alignment=lambda match, links, vertices, targets: dag_best_alignment(
            match, dense(links), targets, vertices
        ),
        dag_logsoftmax_gather_inplace=lambda logits, chosen: (
            logits, logits.log_softmax(2).gather(2, chosen),
        ),
    )  # fmt: skip
    found = differences(ours(batch), theirs(batch, others))
    assert found["alignment"] == 0 and max(found.values()) < 1e-5
    assert gather_log_probs(batch.features, batch.weight, batch.targets).shape == (3, 4, 32)
    batch.links[:, 0, 5] += 1
    assert differences(ours(batch), theirs(batch, others))["likelihood"] < 1e-5


def test_a_profile_that_hung_is_not_tried_again(journal, monkeypatch):
    monkeypatch.setattr(gpu_training, "profile", lambda update, device: {"busy_ms": 1.0})
    training = SimpleNamespace(update=None, device=CPU)
    gpu_training.explain(journal, {"system": "a"}, training)
    journal.document["rows"].append({"part": "training", "way": "profile", "failed": "no answer"})
    gpu_training.explain(journal, {"system": "b"}, training)
    assert [row["busy_ms"] for row in rows_of(journal.path)[:1]] == [1.0]
    assert "b" not in [row.get("system") for row in journal.document["rows"]]


def test_updates_grow_as_far_as_they_fit():
    def update():
        if training.tokens > 2048:
            raise MemoryError("the batch does not fit")

    training = SimpleNamespace(update=update, device=CPU, tokens=0)
    training.resize = lambda tokens: setattr(training, "tokens", tokens)
    assert list(gpu_training.other_sizes(training, (1024, 2048, 4096))) == ["1024", "2048"]


def test_kernels_by_group():
    times = {
        "nvjet_hsh_128x256": 4.0, "void at::native::softmax_warp_forward": 1.0,
        "void at::native::vectorized_elementwise_kernel": 2.0, "Memcpy DtoH": 0.5, "odd": 0.25,
    }  # fmt: skip
    found = gpu_training.summary(times, 7)
    assert found["groups"] == {
        "matrix products": 4.0, "elementwise": 2.0, "softmax": 1.0, "copies": 0.5, "others": 0.25,
    }  # fmt: skip
    assert found["busy_ms"] == 7.75 and found["largest"][0] == ("nvjet_hsh_128x256", 4.0)


@pytest.mark.parametrize("arguments, message", [
    (["--only", "losses,all"], "--only 'all' is not a part: give some of ceilings"),
    (["--minutes", "0"], "--minutes 0.0 must be greater than 0"),
    (["--layers", "6"], "--layers '6': give encoder+decoder layers such as 6+6"),
    (["--layers", "6+0"], "--layers '6+0': give encoder+decoder layers such as 6+6"),
    (["--reference-operations", "nowhere"], "nowhere: there is no such folder"),
    (["--out", "/"], "--out /: give a file in a folder that exists"),
    (["--picture", "nowhere/a.svg"], "--picture nowhere/a.svg: give a file in a folder that exists"),
    (["--picture", "a.svg", "--only", "losses"], "--picture a.svg shows decoding: add decoding"),
    (["--device", "cuda", "--until", "9"], "--device cuda: "),
])  # fmt: skip
def test_what_is_refused(capsys, arguments, message, tmp_path):
    if torch.cuda.is_available() and "cuda" in arguments:
        pytest.skip("there is a CUDA device")
    with pytest.raises(SystemExit) as end:
        gpu_speed.main(["--out", str(tmp_path / "gpu.json"), *arguments])
    assert end.value.code == 2 and message in capsys.readouterr().err.splitlines()[-1]


def test_the_reference_operations_are_a_package(tmp_path):
    from gpu_losses import loaded

    with pytest.raises(ValueError, match="there is no __init__.py in it"):
        loaded(tmp_path)
    folder = tmp_path / "reference_of_a_test"
    folder.mkdir()
    Path(folder, "__init__.py").write_text("dag_loss = None\n")
    with pytest.raises(ValueError, match="it has no dag_best_alignment, dag_logsoftmax"):
        loaded(folder)
