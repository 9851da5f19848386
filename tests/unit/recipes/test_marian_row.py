"""examples/measure/marian_row.py: Marian's fastest mode as a row. The engines are stand-ins, whose
times are told where a choice depends on them."""

import json
import sys
from types import SimpleNamespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY

PYMARIAN = """
import pathlib


class Translator:
    def __init__(self, words):
        print("talks on the standard output", flush=True)
        words = words.split()
        model = pathlib.Path(words[words.index("-m") + 1])
        if "packed8avx2" in model.name:
            raise SystemExit("Illegal instruction")
        assert model.read_text() == model.name.split(".")[1]
        assert ("--shortlist" in words) == model.name.startswith("tied")
        assert words[words.index("--mini-batch") + 1] == "3"

    def translate(self, lines):
        return [line + " w0" for line in lines]
"""
CONVERT = """
import pathlib
import sys

verb, _, source, _, target, _, kind = sys.argv[1:]
assert verb == "convert" and pathlib.Path(source).stat().st_size > 1000
if kind == "packed8avx512":
    sys.exit("no such kind")
pathlib.Path(target).write_text(kind)
"""
BERGAMOT = """
import json
from types import SimpleNamespace

VectorString = list
ServiceConfig = ResponseOptions = lambda **options: options


class Service:
    def __init__(self, config):
        assert config == {"numWorkers": 1, "cacheSize": 0}

    def modelFromConfig(self, text):
        return json.loads(text)

    def translate(self, model, texts, options):
        short = " w0" if model["gemm-precision"] != "int8" else ""
        text = "\\n".join(line + short for line in texts[0].split("\\n"))
        return [SimpleNamespace(target=SimpleNamespace(text=text))]
"""


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Stand-ins of both packages for the processes of this interpreter."""
    place = tmp_path / "packages"
    for name in ("pymarian", "bergamot"):
        (place / name).mkdir(parents=True)
    (place / "_pymarian.py").write_text(PYMARIAN)
    (place / "pymarian/__main__.py").write_text(CONVERT)
    (place / "bergamot/__init__.py").touch()
    (place / "bergamot/_bergamot.py").write_text(BERGAMOT)
    monkeypatch.setenv("PYTHONPATH", str(place))
    return dict.fromkeys(("pymarian", "bergamot"), sys.executable)


@pytest.fixture
def row(load_example):
    return load_example("measure/marian_row.py")


@pytest.fixture
def batches():
    generator = torch.Generator().manual_seed(1)
    made = [torch.randint(4, 16, (3, 6), generator=generator) for _ in range(4)]
    return [{"net_input": {"src_tokens": tokens}} for tokens in made]


def marian(row, tiny, folder, interpreters):
    sizes = dict(decoder_attention_heads=2, encoder_attention_heads=2)
    sizes |= dict(encoder_ffn_embed_dim=24, decoder_ffn_embed_dim=24, share_all_embeddings=True)
    model = tiny.model("transformer", **sizes).float()
    return row.Marian(interpreters, model, tiny.dictionary(), folder)


def test_all_modes_are_tried_in_their_processes(row, tiny, tmp_path, packages, batches):
    made, clock = marian(row, tiny, tmp_path / "marian", packages), row.Clock()
    found = made.fastest(batches, clock)
    dictionary = tiny.dictionary()
    line = " ".join(dictionary[word] for word in batches[2]["net_input"]["src_tokens"][1, :-1])
    assert found.collate([2])[1] == line and len(line.split()) == 5
    assert found.decode(["w1 w2", "w3"]) == ["w1 w2 w0", "w3 w0"]
    assert found.name == "Marian int8" and min(found.cpu) >= 0 and clock.hidden > 0
    mode, tried = found.more["mode"], found.more["tried"]
    times = {mode for mode, result in tried.items() if isinstance(result, float)}
    kinds = {f"pymarian {kind}, untied" for kind in ("intgemm8", "intgemm8avx512")}
    kinds |= {"bergamot int8shiftAlphaAll", "bergamot int8shiftAll"}
    assert times == kinds and mode in kinds
    assert {mode: tried[mode] for mode in tried.keys() - times} == {
        "pymarian packed8avx512, untied": "was not converted; no such kind",
        "pymarian packed8avx2, untied": ("ended without an answer (status 1); Illegal instruction"),
        "bergamot int8": "writes 6 translations of 5 words, not 6 of 6",
    }
    process = made.worker.process
    made.end()
    assert process.returncode is not None and made.worker is None
    # With a shortlist the output layer is that of the embeddings.
    made.choose_among(shortlist(), 2)
    short = made.fastest(batches, clock).more["tried"]
    made.end()
    assert [name for name in short if "pymarian" in name] == [
        "pymarian intgemm8, tied", "pymarian intgemm8avx512, tied"
    ]  # fmt: skip
    assert made.shortlist.stat().st_size == 48 + 8 * 17 + 4 * 3
    made.choose_among(None, 2)
    assert not made.shortlist.exists()


def shortlist():
    offsets = torch.tensor([0] * 5 + [2] + [3] * 11)
    return SimpleNamespace(offsets=offsets, candidates=torch.tensor([9, 15, 10]))


class Told:
    """A worker of a mode that takes as long as it is told."""

    def __init__(self, name, engine, interpreter, log, **settings):
        self.name, self.passes = name, iter(Told.seconds[name.split()[1].rstrip(",")])

    def translate(self, batches):
        return [line + " w0" for batch in batches for line in batch], 0.0, next(self.passes)

    def end(self):
        Told.ended.append(self.name)


def test_the_least_cpu_time_decides(row, tiny, tmp_path, batches, monkeypatch):
    made = marian(row, tiny, tmp_path / "marian", {"bergamot": "python"})
    # The first pass warms up.
    Told.seconds = {
        "int8shiftAlphaAll": [0.1, 5, 4, 6],
        "int8shiftAll": [9, 7, 3, 8],
        "int8": [0, 9, 9, 3.5],
    }
    Told.ended = []
    monkeypatch.setattr(row, "Worker", Told)
    found = made.fastest(batches, row.Clock()).more
    assert found["mode"] == made.worker.name == "bergamot int8shiftAll"
    assert sorted(Told.ended) == ["bergamot int8", "bergamot int8shiftAlphaAll"]
    # Milliseconds of a sentence: two batches of three were translated.
    assert found["tried"] == {
        "bergamot int8shiftAlphaAll": pytest.approx(4000 / 6),
        "bergamot int8shiftAll": pytest.approx(500),
        "bergamot int8": pytest.approx(3500 / 6),
    }


def test_no_mode_translates(row, tiny, tmp_path, batches, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    made = marian(row, tiny, tmp_path / "marian", {"bergamot": sys.executable})
    with pytest.raises(ValueError, match="--marian: no mode translates: ended .* has no package"):
        made.fastest(batches, row.Clock())
    assert made.worker is None


def test_the_way_to_another_process_is_not_counted(load_example, monkeypatch):
    rows = load_example("measure/timed_rows.py")
    now = SimpleNamespace(wall=100.0, cpu=7.0)
    here = SimpleNamespace(perf_counter=lambda: now.wall, process_time=lambda: now.cpu)
    monkeypatch.setattr(rows, "time", here)

    def translate(sample):
        now.wall, now.cpu = now.wall + 3, now.cpu + 0.5
        return sample

    clock = rows.Clock()
    local = rows.Row("local", [["x"]], translate, clock)
    remote = rows.Row("remote", [], lambda one: (translate(one), 1.25, 0.125), clock, remote=True)
    begun = clock()
    assert local.decode(local.collate([0])) == ["x"] and clock() - begun == 3
    begun = clock()
    assert remote.decode(["y"]) == ["y"] and clock() - begun == 1.25
    assert local.cpu == [0.5] and remote.cpu == [0.125]


@pytest.fixture
def speed(load_example):
    """The command, which sets the process up for itself."""
    threads = torch.get_num_threads()
    yield load_example("measure/decoding_speed.py")
    torch.set_num_threads(threads)


def test_the_row_stands_in_the_table(speed, packages, tmp_path, capsys):
    words = ["--arch", "quickstart", "--vocabulary", "50", "--lengths", "5", "--batch-sizes", "3"]
    words += ["--sentences", "2", "--repeats", "1", "--systems", "AT greedy"]
    words += [f"--marian={name}={python}" for name, python in packages.items()]
    speed.main([*words, "--ratio-to", "Marian int8", "--out", str(tmp_path / "out")])
    shown = capsys.readouterr().out
    (found,) = json.loads((tmp_path / "out/speed.json").read_text()).values()
    row = found["Marian int8"]
    assert row["ratio"] == 1 and row["mode"] in row["tried"] and row["cpu_milliseconds"] >= 0
    assert f"| Marian int8 ({row['mode']}) | – |" in shown
    assert "- bergamot int8: writes 6 translations" in shown
    head = (tmp_path / "out/speed.md").read_text().split("\n")[0]
    assert head == "| Setting | Marian int8, ms a sentence | AT greedy, × as fast |"


def test_what_the_command_refuses(speed, capsys):
    small = ["--arch", "quickstart", "--vocabulary", "50", "--lengths", "5", "--systems", "AT"]
    for words, message in (
        (["--marian", "moses=python"], "--marian moses=python: give NAME=PYTHON, NAME one of"),
        (["--marian", "pymarian"], "--marian pymarian: give NAME=PYTHON"),
        (["--marian", "bergamot=python", "--threads", "2"], "--threads 2: Marian translates"),
        (["--marian", "bergamot=/no/python"], "No such file"),
    ):
        with pytest.raises(SystemExit, match="2"):
            speed.main([*small, *words])
        error = capsys.readouterr().err
        assert message in error.splitlines()[-1] and "Traceback" not in error


def test_the_student_has_recurrent_cells(load_example):
    models = load_example("measure/untrained_models.py").build_models("student", 40, 1)
    recurrent, plain = models["SSRU"], models["AT"]
    assert (len(recurrent.encoder.layers), len(recurrent.decoder.layers)) == (6, 2)
    assert hasattr(recurrent.decoder.layers[0], "cell")
    assert plain.encoder.layers[0].fc1.weight.shape == (1536, 256)
    assert len(plain.decoder.layers) == 2 and not hasattr(plain.decoder.layers[0], "cell")


@pytest.mark.parametrize("preset", ["quickstart", "e12d1"])
def test_features_point_at_a_word(load_example, preset, monkeypatch):
    """Of post-norm and of pre-norm models."""
    whole = ARCH_CONFIG_REGISTRY["hrt_transformer_e12d1"]

    def smaller(given):
        for side in ("encoder", "decoder"):
            setattr(given, f"{side}_embed_dim", 128)
            setattr(given, f"{side}_ffn_embed_dim", 128)
        given.encoder_layers = 1
        whole(given)
        assert given.decoder_normalize_before

    monkeypatch.setitem(ARCH_CONFIG_REGISTRY, "hrt_transformer_e12d1", smaller)
    build = load_example("measure/untrained_models.py").build_models
    model = build(preset, 40, 1, 3, 0.5)["AT"]
    source, target = torch.tensor([[4, 5, 6, 2]]), torch.tensor([[2, 7, 8, 9]])
    with torch.no_grad():
        features = model(source, torch.tensor([4]), target, features_only=True)[0][0]
    vector = model.decoder.embed_tokens.weight[-1]
    cosines = torch.nn.functional.cosine_similarity(features, vector[None])
    assert (cosines - 0.5).abs().max() < 0.15
