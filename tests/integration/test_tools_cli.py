"""The tools beside fairseq's commands, on tiny models: comparisons, the analyses of the study,
graphs, averages, training speed."""

import json
import math
import pickle
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import OPTIMIZER, SIZES

import fairseq_hrt.cli.main

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def tool(command, name, *arguments, check=True):
    return command("fairseq-hrt", name, *arguments, check=check)


@pytest.fixture
def study(load_example, capsys):
    """Runs a program of the study in this process, which saves the start of another: exit status
    and outputs."""

    def run(name, *arguments):
        status = 0
        try:
            load_example(f"study/{name}.py").main([*map(str, arguments)])
        except SystemExit as error:
            status = error.code
        said = capsys.readouterr()
        return SimpleNamespace(returncode=status, stdout=said.out, stderr=said.err)

    return run


@pytest.fixture(scope="module")
def models(command, toy_data, tmp_path_factory):
    """``{name: checkpoint}``: interleaved one word a step, and two words a step; beside each the
    last two."""
    found = {}
    for name, options in (("interleaved", ["--bidirectional-block", "1"]), ("parallel", [])):
        found[name] = tmp_path_factory.mktemp(name) / "checkpoint_last.pt"
        command(
            "fairseq-train", toy_data, "--user-dir", "fairseq_hrt", "--task",
            "translation_bidirectional", "--arch", "bidirectional_transformer", "--criterion",
            "bidirectional_loss", *SIZES, *OPTIMIZER, "--max-update", "2",
            "--save-interval-updates", "1", "--save-dir", found[name].parent, *options,
        )  # fmt: skip
    return found


@pytest.fixture(scope="module")
def graphs(command, toy_data, tmp_path_factory):
    """A dag_transformer."""
    folder = tmp_path_factory.mktemp("dag")
    command(
        "fairseq-train", toy_data, "--user-dir", "fairseq_hrt", "--task", "translation_dag",
        "--arch", "dag_transformer", "--criterion", "dag_nll_loss", *SIZES, *OPTIMIZER,
        "--dag-upsample-scale", "3", "--max-update", "6", "--save-dir", folder,
    )  # fmt: skip
    return folder / "checkpoint_last.pt"


def test_the_graph_of_a_sentence(command, refusal, toy_data, graphs, teacher, tmp_path):
    system = ["--system", f"name=DAG,path={graphs},dag_keep_repeats=true"]
    shown = tool(
        command, "graph", toy_data, *system, "--sentence", "5", "--out", tmp_path / "a"
    ).stdout
    document = json.loads((tmp_path / "a/graph.json").read_text())
    assert shown.strip() == document["translation"]
    vertices, links = document["vertices"], document["links"]
    assert [vertices[end]["passing"] for end in (0, -1)] == pytest.approx([1, 1], abs=1e-5)
    assert (
        vertices[0]["tokens"][0]["token"] == "<s>" and vertices[-1]["tokens"][0]["token"] == "</s>"
    )
    path = [(link["from"], link["to"]) for link in links if link["chosen"]]
    assert sorted(path)[0][0] == 0 and sorted(path)[-1][1] == len(vertices) - 1
    words = [v["tokens"][0]["token"] for v in vertices[1:-1] if v["chosen"]]
    assert " ".join(words) == document["translation"]
    dot = (tmp_path / "a/graph.dot").read_text()
    assert dot.startswith("digraph") and f"-> v{len(vertices) - 1} " in dot
    assert all((tmp_path / f"a/graph.{kind}").stat().st_size > 0 for kind in ("png", "svg"))
    for arguments, message in (
        ([*system, "--sentence", "99"], "--sentence 99: test has the sentences 0 to 19"),
        (
            ["--system", f"name=AT,path={teacher},task=translation_autoregressive"],
            "writes no graph",
        ),
    ):
        assert message in refusal("graph", toy_data, *arguments, "--out", tmp_path / "c")


def test_options_are_chosen_for_every_family(toy_data, graphs, models, teacher, capsys, tmp_path):
    """In this process, which saves the starts of others."""

    def tune(*arguments):
        fairseq_hrt.cli.main.main(["tune", str(toy_data), *map(str, arguments)])
        return capsys.readouterr()

    system = [
        "--system",
        f"name=DAG,path={graphs},dag_decode_strategy=joint-viterbi",
        "--out",
        tmp_path / "dag",
    ]
    first = tune(
        *system, "--grid", "dag_decode_length_beta=0.5,3", "--grid", "dag_decode_upsample_scale=2"
    ).out
    document = json.loads((tmp_path / "dag/tuned.json").read_text())
    assert [trial["options"]["dag_decode_length_beta"] for trial in document["settings"]] == [
        "0.5",
        "3",
    ]
    # A larger beta, longer translations.
    ratios = [trial["length_ratio"] for trial in document["settings"]]
    assert ratios[0] < ratios[1] and all(f"| {ratio:.3f} |" in first for ratio in ratios)
    again = tune(
        *system,
        "--grid",
        "dag_decode_length_beta=0.5,3,1",
        "--grid",
        "dag_decode_upsample_scale=2",
        "--print-best",
    )
    assert again.err.count("measured before") == 2 and again.out.startswith(
        "dag_decode_length_beta="
    )
    for path, options, grid in (
        (models["parallel"], ",beam=2", "lenpen=0.2,2"),
        (teacher, ",task=translation_autoregressive", "beam=1,2"),
    ):  # fmt: skip
        assert (
            "best by chrF: " + grid.split("=")[0]
            in tune(
                "--system", f"name=x,path={path}{options}", "--grid", grid, "--metric", "chrf"
            ).out
        )
    for grid, named in (
        ("no_such_option=1", "unrecognized arguments: --no-such-option"),
        ("dag_decode_beta=-1", "--dag-decode-beta -1"),
    ):
        with pytest.raises(SystemExit) as stopped:
            tune("--system", f"name=DAG,path={graphs}", "--grid", grid)
        assert stopped.value.code == 2 and named in capsys.readouterr().err.splitlines()[-1]


def test_graph_statistics(study, toy_data, graphs, teacher, tmp_path):
    system = f"name=DAG,path={graphs}"
    table = study("graph_statistics", toy_data, "--system", system, "--out", tmp_path).stdout
    (result,) = json.loads((tmp_path / "graph_statistics.json").read_text())["results"]
    assert f"| DAG | {result['path_nll']:.2f} |" in table
    # The sum over all paths is more probable than the best path alone.
    assert 0 < result["nll"] < result["path_nll"] + result["token_nll"]
    assert 0 < result["own_nll"] <= result["own_path_nll"] + result["own_token_nll"] + 1e-6
    assert len(result["passing"]) == len(result["token"]) and max(result["token"]) <= 1
    assert (tmp_path / "graph_statistics.svg").stat().st_size > 0
    failed = study("graph_statistics", toy_data, "--system", f"name=AT,path={teacher}")
    assert failed.returncode == 2 and "writes no graph" in failed.stderr
    short = study(
        "graph_statistics", toy_data, "--system", f"{system},dag_decode_upsample_scale=0.3"
    )
    assert short.returncode == 2 and "--dag-decode-upsample-scale" in short.stderr


def test_identical_translations_are_counted(command, refusal, toy_data, teacher, graphs):
    shared = f"path={teacher},beam=1,max_len_b=20"
    result = tool(
        command, "benchmark", toy_data, "--system",
        f"name=AT,{shared},task=translation_autoregressive", "--system",
        f"name=Jacobi,{shared},task=translation_jacobi,jacobi_window=3", "--system",
        f"name=DAG,path={graphs}", "--identical-to", "AT", "--repeats", "1", "--speed-sentences",
        "4", "--batch-sizes", "2",
    )  # fmt: skip
    table = [
        [cell.strip() for cell in row.split("|")]
        for row in result.stdout.splitlines()
        if row.startswith("| ")
    ]
    column = table[0].index("identical to AT")
    rows = {row[1]: row[column] for row in table if len(row) > column}
    assert rows["AT"] == rows["Jacobi"] == "20/20" and rows["DAG"] != "20/20"
    system = ["--system", f"name=AT,{shared}"]
    assert "'BT'" in refusal("benchmark", toy_data, *system, "--identical-to", "BT")


def test_mutual_information(study, toy_data, models, tmp_path):
    result = study(
        "mutual_information", toy_data, "--baseline",
        f"name=one,path={models['interleaved']}", "--system",
        f"name=two,path={models['parallel']}", "--system",
        f"name=again,path={models['interleaved']}", "--out", tmp_path,
    )  # fmt: skip
    assert result.stdout.count("| two |") == 1
    two, again = json.loads((tmp_path / "mutual_information.json").read_text())["results"]
    assert again["nats"] == again["low"] == again["high"] == 0, "a model compared with itself"
    assert two["low"] < two["nats"] < two["high"] and two["words"] == again["words"]
    twice = study(
        "mutual_information", toy_data, "--baseline", f"name=one,path={models['interleaved']}",
        "--system", f"name=one,path={models['parallel']}",
    )  # fmt: skip
    assert twice.returncode == 2 and "two models are called 'one'" in twice.stderr


def test_fit(command, toy_data, models, teacher, tmp_path):
    """On the same pairs both columns are the mean that fairseq-generate computes."""
    result = command(
        "python", EXAMPLES / "study/fit.py", "--learnt", toy_data, "--unseen", toy_data, "--gen-subset", "valid",
        "--baseline", f"name=AT,path={teacher}", "--system", f"name=IB,path={models['parallel']}",
        "--out", tmp_path,
    )  # fmt: skip
    assert "| AT |" in result.stdout
    found = json.loads((tmp_path / "fit.json").read_text())["results"]
    tasks = ("translation_autoregressive", "translation_bidirectional")
    for own, path, task in zip(found, (teacher, models["parallel"]), tasks):
        assert own["learnt"] == own["unseen"]
        generated = command(
            "fairseq-generate", toy_data, "--gen-subset", "valid", "--path", path,
            "--score-reference", "--user-dir", "fairseq_hrt", "--task", task,
        ).stdout  # fmt: skip
        lines = [line.split("\t")[1] for line in generated.split("\n") if line.startswith("P-")]
        words = [float(score) for line in lines for score in line.split()]
        # fairseq prints logarithms to base 2.
        nats = -math.log(2) * sum(words) / len(words)
        assert math.log(own["learnt"]["perplexity"]) == pytest.approx(nats, abs=1e-3)


def test_an_average_can_be_decoded(command, toy_data, models, tmp_path):
    output = tmp_path / "averaged.pt"
    tool(
        command, "average", "--folder", models["parallel"].parent, "--last", "2", "--output", output
    )
    found = command(
        "fairseq-generate", toy_data, "--user-dir", "fairseq_hrt", "--task",
        "translation_bidirectional", "--cpu", "--path", output, "--max-len-b", "10",
    )  # fmt: skip
    assert "BLEU4" in found.stdout


def test_training_speed(command, toy_corpus, tmp_path):
    command(
        "fairseq-preprocess", "-s", "de", "-t", "en", "--joined-dictionary", "--trainpref",
        toy_corpus / "train", "--validpref", toy_corpus / "valid", "--destdir", tmp_path / "bin",
    )  # fmt: skip
    script = Path(__file__).resolve().parents[2] / "examples/measure/training_speed.py"
    result = command(
        "python", script, tmp_path / "bin", "--layers", "1", "--width", "16", "--heads", "2",
        "--updates", "2", "--repeats", "2", "--max-tokens", "200", cwd=tmp_path,
    )  # fmt: skip
    assert (
        "| Transformer |" in result.stdout
        and "1.00 (1.00–1.00)" in result.stdout
        and "| HRT k=2 |" in result.stdout
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin"], "nothing is saved"


def tables_of(shown):
    """Of each table that decoding_speed.py prints: what stands before it, and {system: decoder
    calls}."""
    found = {}
    for table in shown.split("\n\n| System")[1:]:
        rows = [line.split("|") for line in table.splitlines() if line.startswith("| ")]
        found[len(found)] = {row[1].strip(): row[2].strip() for row in rows}
    titles = [
        line.split(":")[0]
        for line in shown.splitlines()
        if line.endswith(":") or ", native runtime on" in line
    ]
    return dict(zip(titles, found.values()))


def test_decoding_speed(command, tmp_path):
    script = Path(__file__).resolve().parents[2] / "examples/measure/decoding_speed.py"
    arguments = ["--arch", "tiny", "--vocabulary", "50", "--sentences", "1", "--repeats", "1"]
    tables = tables_of(
        command("python", script, *arguments, "--lengths", "5,8", "--out", tmp_path / "all").stdout
    )
    assert [title.split(", 50 words")[0] for title in tables] == [
        f"tiny, {length} tokens, batch size 1" for length in (5, 8)
    ]
    for length, found in zip((5, 8), tables.values()):
        # Every word and </s>; half or a third of them, and the second stage.
        assert found["fairseq greedy"] == found["AT greedy"] == f"{length + 1}.0"
        assert found["HRT k=2 (1,1)"] == f"{(length + 1) // 2 + 1}.0"
        if "native AT" in found:
            for name in ("AT greedy", "HRT k=2 (1,1)", "HRT k=3 (1,1)"):
                assert (
                    found["native " + name.replace(" greedy", "").replace(" (1,1)", "")]
                    == found[name]
                )
            assert (
                found["native AT beam 5"] == found["AT greedy"]
                and found["native HRT k=2 beam 5"] == found["HRT k=2 (1,1)"]
            )
            assert (
                found["native IBDecoder"] == f"{-(-(length + 1) // 2)}.0"
                and found["native DAG"] == found["native CTC"] == "1.0"
            )
    systems = next(iter(tables.values()))
    speed = json.loads((tmp_path / "all/speed.json").read_text())
    assert list(speed) == [f"tiny, {length} tokens, batch size 1" for length in (5, 8)]
    for own in speed.values():
        assert set(own) == set(systems)
        assert all(
            figures["low"] <= figures["ratio"] <= figures["high"] and figures["milliseconds"] > 0
            for figures in own.values()
        )
    counted = (
        "CTranslate2 int8 greedy" if "CTranslate2 int8 greedy" in systems else "fairseq greedy"
    )
    assert speed["tiny, 5 tokens, batch size 1"][counted]["ratio"] == 1


def test_decoding_speed_of_several_settings(command, tmp_path):
    script = Path(__file__).resolve().parents[2] / "examples/measure/decoding_speed.py"
    arguments = [
        "--arch",
        "tiny,quickstart",
        "--vocabulary",
        "50",
        "--sentences",
        "1",
        "--repeats",
        "1",
        "--lengths",
        "5",
        "--threads",
        "1",
    ]
    several = [
        "--batch-sizes",
        "1,3",
        "--shortlist",
        "0,5",
        "--systems",
        "AT greedy,native AT,int8",
        "--ratio-to",
        "AT greedy",
    ]
    tables = tables_of(command("python", script, *arguments, *several, "--out", tmp_path).stdout)
    settings = [
        f"{arch}, 5 tokens, batch size {size}{short}"
        for arch in ("tiny", "quickstart")
        for short in ("", ", shortlist 5")
        for size in (1, 3)
    ]
    assert [title.split(", 50 words")[0] for title in tables] == settings
    systems = set(tables[next(iter(tables))])
    # The whole name of one system names no other: not fairseq's greedy search, not the beam of
    # five.
    assert (
        {"AT greedy"}
        <= systems
        <= {"AT greedy", "native AT", "CTranslate2 int8 greedy", "CTranslate2 int8 beam 5"}
    )
    header, _, *rows = (tmp_path / "speed.md").read_text().splitlines()
    assert (
        header.startswith("| Setting | AT greedy, ms a sentence |")
        and header.count("|") == len(systems) + 2
    )
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == settings
    assert "AT greedy, × as fast" not in header and all(
        row.count("–") == len(systems) - 1 for row in rows
    )


def test_decoding_speed_refuses(load_example, capsys, tmp_path):
    program = load_example("measure/decoding_speed.py")
    for arguments, named in (
        (["--lengths", "5,x"], "5,x"),
        (["--batch-sizes", "0"], "at least 1"),
        (["--shortlist", "-1"], "at least 0"),
        (["--arch", "tiny,none"], "none"),
        (["--arch", "tiny", "--vocabulary", "50", "--systems", "Moses"], "Moses"),
    ):
        with pytest.raises(SystemExit) as stopped:
            program.main([*arguments, "--out", str(tmp_path / "out")])
        refused = capsys.readouterr().err
        assert stopped.value.code == 2 and named in refused and "Traceback" not in refused
    assert not (tmp_path / "out/speed.json").exists()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_decoding_memory(load_example, capsys, monkeypatch):
    """Every model is written, three are started."""
    program, measured = load_example("measure/decoding_memory.py"), {}
    start = program.started

    def started(settings):
        name = Path(settings["path"]).stem
        own = start(settings) if name in ("AT", "DAG", "int8") else measured["AT"]
        return dict(measured.setdefault(name, own))

    monkeypatch.setattr(program, "started", started)
    sizes = ["--arch", "tiny", "--vocabulary", "60", "--length", "5", "--batch-sizes", "3,1"]
    program.main([*sizes, "--batches", "1", "--starts", "1"])
    shown = capsys.readouterr().out
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in shown.splitlines()
        if line.startswith("| ")
    ]
    assert rows[0] == [
        "System",
        "file MB",
        "loading s",
        "settled MB, batches of 1",
        "settled MB, batches of 3",
        "peak MB",
    ]
    for name, *figures in rows[1:]:
        size, seconds, *settled, peak = map(float, figures)
        assert (
            0 <= size < 10 and 0 <= seconds < 60 and 10 < min(settled) <= max(settled) <= peak + 1
        ), name
        # Without PyTorch, which alone takes more than 150 MB.
        assert not name.startswith("native") or peak < 150
    names = {name for name, *_ in rows[1:]}
    assert (
        names
        <= {
            "native AT",
            "native HRT",
            "native IBDecoder",
            "native DAG",
            "CTranslate2 int8",
            "CTranslate2 float32",
        }
        and names
    )
    assert "Before anything is loaded: " in shown
    for wrong in (["--batch-sizes", "1,x"], ["--starts", "0"], ["--vocabulary", "4"]):
        with pytest.raises(SystemExit) as stopped:
            program.main([*sizes, *wrong])
        assert stopped.value.code == 2 and wrong[0] in capsys.readouterr().err.splitlines()[-1]


@pytest.fixture
def refusal(capsys):
    """The message of a verb that must refuse its arguments; in this process, which saves the start
    of another."""

    def run(verb, *arguments):
        with pytest.raises(SystemExit) as stopped:
            fairseq_hrt.cli.main.main([verb, *map(str, arguments)])
        assert stopped.value.code == 2
        return capsys.readouterr().err.splitlines()[-1]

    return run


@pytest.fixture(scope="module")
def exported(command, toy_data, teacher, tmp_path_factory):
    """The teacher, converted by the command."""
    pytest.importorskip("ctranslate2")
    folder = tmp_path_factory.mktemp("exported") / "model"
    said = command("fairseq-hrt", "export", teacher, "--data", toy_data, "--output", folder).stdout
    assert "weights float32; log-probabilities differ from fairseq's by at most" in said
    return folder


def test_export_of_bundles_and_what_is_refused(
    command, refusal, toy_data, teacher, models, exported, tmp_path
):
    bundle = tmp_path / "bundle"
    command(
        "fairseq-hrt",
        "bundle",
        teacher,
        "--data",
        toy_data,
        "--tokenizer",
        "space",
        "--subwords",
        "none",
        "--output",
        bundle,
    )
    said = command(
        "fairseq-hrt", "export", bundle, "--quantization", "int8", "--output", tmp_path / "small"
    ).stdout
    assert (
        "weights int8" in said
        and (tmp_path / "small/model.bin").stat().st_size < (exported / "model.bin").stat().st_size
    )
    for message, arguments in {
        "give --data": [teacher],
        "exists already": [bundle, "--output", exported],
        "'int3' is unknown": [bundle, "--quantization", "int3"],
        "--task translation_bidirectional": [models["parallel"], "--data", toy_data],
        "is not a bundle": [toy_data],
        "none.pt": [tmp_path / "none.pt", "--data", toy_data],
    }.items():
        output = [] if "--output" in arguments else ["--output", tmp_path / "refused"]
        assert message in refusal("export", *arguments, *output)
        assert not (tmp_path / "refused").exists()


def test_benchmark_with_every_measure(
    command, refusal, toy_corpus, toy_data, teacher, exported, tmp_path
):
    pytest.importorskip("rouge_score")
    comet = tmp_path / "comet-score"
    comet.write_text(
        '#!/bin/sh\nwhile [ "$1" != --translations ]; do shift; done; shift\n'
        'while [ "${1#--}" = "$1" ]; do printf "%s\\tscore: 0.5\\n" "$1"; shift; done\n'
    )
    comet.chmod(0o755)
    (tmp_path / "model.ckpt").touch()
    at = f"path={teacher},beam=1,max_len_b=20"
    common = [
        "--speed-sentences",
        "6",
        "--repeats",
        "1",
        "--batch-sizes",
        "1,4",
        "--ratio-to",
        "ours",
        "--identical-to",
        "ours",
    ]
    arguments = [
        toy_data, "--system", f"name=ours,{at},task=translation_autoregressive", "--system",
        f"name=ct2,{at},engine=ctranslate2", "--system",
        f"name=int8,path={exported},beam=3,max_len_b=20,engine=ctranslate2,compute_type=int8",
        *common,
    ]  # fmt: skip
    # What is refused is so whatever else is compared.
    single = [*arguments[:3], *common]
    raw = ["--sources", toy_corpus / "test.de", "--tokenizer", "space", "--subwords", "none"]
    scored = ["--comet", tmp_path / "model.ckpt", "--comet-program", comet]
    done = command(
        "fairseq-hrt",
        "benchmark",
        *arguments,
        *raw,
        *scored,
        "--rouge",
        "--length-bins",
        "4,6",
        "--pin",
        "--out",
        tmp_path / "out",
    )
    assert "are prepared differently" not in done.stderr
    assert "ROUGE-L" in done.stdout and "| System | 1–4 (" in done.stdout
    assert (tmp_path / "out/by_length.svg").exists()
    results = json.loads((tmp_path / "out/results.json").read_text())
    ours, ct2, int8 = results["systems"]
    assert ct2["identical"] == ours["identical"] == 20
    assert (ours["comet"], results["comet"]) == (0.5, "`model.ckpt`")
    for system in (ours, ct2, int8):
        assert len(system["raw"]["seconds"][0]) == 6
    assert (
        ours["timings"]["1"]["decoder_calls"] > 0 and ct2["timings"]["1"]["decoder_calls"] is None
    )
    assert ct2["signature"]["dtype"] == "float32" and int8["signature"]["dtype"].startswith("int8")
    assert (tmp_path / "out/throughput.png").stat().st_size > 10_000
    for message, wrong in {
        "CTranslate2 does not support sampling": [
            "--system",
            f"name=x,path={exported},engine=ctranslate2,sampling=true",
        ],
        "engine=onnx is unknown": ["--system", f"name=x,path={exported},engine=onnx"],
        "takes no task": [
            "--system",
            f"name=x,path={exported},engine=ctranslate2,task=translation",
        ],
        "holds no model of fairseq-hrt export": [
            "--system",
            f"name=x,path={toy_corpus},engine=ctranslate2",
        ],
        "200 raw source lines but 20 sentences": ["--sources", toy_corpus / "train.de", *raw[2:]],
        "give --sources": ["--codes", toy_corpus / "train.de"],
        "no such file": ["--comet", tmp_path / "none.ckpt"],
        "--pin with --threads 9999": ["--pin", "--threads", "9999"],
        "--length-bins '6,4'": ["--length-bins", "6,4"],
    }.items():
        assert message in refusal("benchmark", *single, *wrong)


class SpawnedHere:
    """Stands for the pool of a process that starts from nothing, whose imports take seconds: what
    it is given and returns is pickled."""

    def __init__(self, processes, mp_context):
        assert processes == 1 and mp_context.get_start_method() == "spawn"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def submit(self, *call):
        function, *arguments = pickle.loads(pickle.dumps(call))
        found = Future()
        found.set_result(pickle.loads(pickle.dumps(function(*arguments))))
        return found


def test_memory_is_measured_in_a_process_of_its_own(monkeypatch, toy_data, exported, tmp_path):
    monkeypatch.setattr("fairseq_hrt.evaluation.footprint.ProcessPoolExecutor", SpawnedHere)
    arguments = [
        toy_data, "--system",
        f"name=int8,path={exported},engine=ctranslate2,beam=1,compute_type=int8", "--memory",
        "--repeats", "1", "--speed-sentences", "2", "--batch-sizes", "2", "--out", tmp_path,
    ]  # fmt: skip
    fairseq_hrt.cli.main.main(["benchmark", *map(str, arguments)])
    (system,) = json.loads((tmp_path / "results.json").read_text())["systems"]
    footprint = system["footprint"]
    assert footprint["peak_bytes"] >= footprint["base_bytes"] > 0 and footprint["load_seconds"] > 0
    assert footprint["model_bytes"] == (exported / "model.bin").stat().st_size


def test_distillation_by_either_engine_is_the_same(
    command, refusal, toy_data, teacher, exported, tmp_path
):
    texts = []
    for name, system in {
        "ours": f"path={teacher},task=translation_autoregressive",
        "ct2": f"path={exported},engine=ctranslate2",
    }.items():
        arguments = [
            "--system",
            f"name=teacher,{system},beam=1,max_len_b=20",
            "--gen-subset",
            "test",
            "--block",
            "7",
        ]
        command("fairseq-hrt", "distill", toy_data, *arguments, "--out", tmp_path / name)
        texts.append((tmp_path / name / "train.en").read_text())
    assert texts[0] == texts[1] and len(texts[0].splitlines()) == 20
    assert "does not report its decoder passes" in refusal(
        "trace", toy_data, "--system", f"name=x,path={exported},engine=ctranslate2"
    )
    long = tmp_path / "long"
    long.mkdir()
    for side in ("de", "en"):
        (long / f"test.{side}").write_text(" ".join(["a"] * 2000) + "\n")
    command(
        "fairseq-preprocess", "-s", "de", "-t", "en", "--testpref", long / "test", "--destdir",
        long / "bin", "--srcdict", toy_data / "dict.de.txt", "--tgtdict", toy_data / "dict.en.txt",
    )  # fmt: skip
    arguments = [
        "--system",
        f"name=x,path={exported},engine=ctranslate2",
        "--gen-subset",
        "test",
        "--out",
        tmp_path / "long_out",
    ]
    assert "a sentence of 2000 tokens" in refusal("distill", long / "bin", *arguments)


def test_a_converted_model_of_other_words_is_refused(
    command, refusal, toy_data, exported, tmp_path
):
    for side in ("de", "en"):
        (tmp_path / f"test.{side}").write_text("x y\ny z\n")
    data = tmp_path / "bin"
    command(
        "fairseq-preprocess", "-s", "de", "-t", "en", "--trainpref", tmp_path / "test",
        "--testpref", tmp_path / "test", "--destdir", data,
    )  # fmt: skip
    message = refusal("benchmark", data, "--system", f"name=x,path={exported},engine=ctranslate2")
    assert "differs from the data's source dictionary" in message
