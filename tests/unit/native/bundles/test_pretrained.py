"""Which engine a bundle is translated with."""

import json
import os
import shutil
from types import SimpleNamespace

import pytest
import torch
from tiny_models import write_bundle

import fairseq_hrt
from fairseq_hrt.export import plugin
from fairseq_hrt.export.torch_decoder import TorchDecoder
from fairseq_hrt.native.bundles import pretrained
from fairseq_hrt.native.bundles.native_decoder import NativeDecoder
from fairseq_hrt.native.runtime import library
from fairseq_hrt.native.server.routes import Server
from fairseq_hrt.native.server.settings import Settings


def test_engines(bundles, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="engine 'fast' is unknown"):
        fairseq_hrt.from_pretrained(bundles / "hrt", engine="fast")
    for threads in (0, "2"):
        with pytest.raises(ValueError, match=f"threads={threads!r}: give an integer"):
            fairseq_hrt.from_pretrained(bundles / "hrt", threads=threads)
    with pytest.raises(ValueError, match="the native engine decodes on the CPU"):
        fairseq_hrt.from_pretrained(bundles / "hrt", engine="native", device="cuda")
    plain = write_bundle(tmp_path / "plain", "autoregressive").folder
    with pytest.raises(ValueError, match="holds no model for the native engine.*--runtime int8"):
        fairseq_hrt.from_pretrained(plain, engine="native")
    assert isinstance(fairseq_hrt.from_pretrained(plain).decoder, TorchDecoder)
    with pytest.raises(ValueError, match="a shortlist needs the native engine"):
        fairseq_hrt.from_pretrained(plain, use_shortlist=True)
    with pytest.raises(ValueError, match="holds no shortlist"):
        fairseq_hrt.from_pretrained(bundles / "hrt", use_shortlist=True)

    def missing():
        raise library.LibraryUnavailable("no compiler")

    # A machine without the kernel.
    monkeypatch.setattr("fairseq_hrt.native.runtime.binding.kernel", missing)
    assert isinstance(
        fairseq_hrt.from_pretrained(bundles / "hrt", device="cpu").decoder, TorchDecoder
    )
    with pytest.raises(ValueError, match="no compiler"):
        fairseq_hrt.from_pretrained(bundles / "hrt", engine="native")


def test_options_of_loading_are_refused_in_later_calls(bundles):
    plain, rounded = (
        fairseq_hrt.from_pretrained(bundles / "hrt", engine="torch", device="cpu", **given)
        for given in ({}, {"bf16": True})
    )
    assert "float32" in plain.describe() and "bfloat16" in rounded.describe()
    assert rounded.translate(["a b"]) == rounded.translate(["a b"], bf16=True)
    for model, given in (
        (plain, {"bf16": True}), (plain, {"fp16": True}), (rounded, {"bf16": False}),
        (plain, {"model_overrides": "{'dropout': 0.5}"}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"{next(iter(given))}=.*: it takes effect when"):
            model.translate(["a b"], **given)
    plain.decoder.device = torch.device("cuda:1")
    with pytest.raises(ValueError, match="cpu=true, but the device is cuda:1: give device cpu"):
        plain.translate(["a b"], cpu=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_is_not_locked_by_a_thread_of_its_parent(bundles):
    """Which was loading what takes over for options of PyTorch's."""
    model = fairseq_hrt.from_pretrained(bundles / "autoregressive", device="cpu", threads=1)
    with model._lock:
        child = os.fork()
        if child == 0:
            os._exit(int(model._lock.locked()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_cap_of_graphs_beyond_the_positions_is_a_bundles_to_have(tmp_path):
    options = {"beam": "1", "max_len_b": "9", "dag_max_graph": "5000"}
    plain, capped = (
        fairseq_hrt.from_pretrained(
            write_bundle(tmp_path / name, "dag", options=chosen).folder, device="cpu"
        )
        for name, chosen in (("plain", {**options, "dag_max_graph": "900"}), ("capped", options))
    )
    assert capped.translate(["a b"]) == plain.translate(["a b"])
    with pytest.raises(ValueError, match="--dag-max-graph 5000 has no effect"):
        capped.translate(["a b"], dag_max_graph=5000)


def test_systems_of_one_bundle_share_a_model_of_the_same_precision(bundles):
    names = ("plain", "rounded", "beam")
    settings = Settings(
        systems=tuple((name, bundles / "hrt") for name in names), engine="torch", device="cpu",
        options=(("rounded", "bf16", "true"), ("beam", "beam", "2")),
    )  # fmt: skip
    server = Server(settings)
    server.load()
    try:
        plain, rounded, beam = (system.translator for system in server.catalogue.systems)
        assert beam is plain and "float32" in plain.describe()
        assert "bfloat16" in rounded.describe()
    finally:
        server.close()


def test_nothing_takes_over_where_fairseq_is_not_installed(bundles, monkeypatch, caplog):
    monkeypatch.setattr(pretrained.importlib.util, "find_spec", lambda name: None)
    model = fairseq_hrt.from_pretrained(bundles / "hrt")
    assert isinstance(model.decoder, NativeDecoder) and model.translate(["a b"])
    with pytest.raises(ValueError, match="no-repeat-ngram-size 2: the native engine has no such"):
        fairseq_hrt.from_pretrained(bundles / "hrt", no_repeat_ngram_size=2)
    assert "takes over" not in caplog.text


def test_bundles_without_a_checkpoint(bundles, tmp_path, caplog):
    """Of models that were imported without PyTorch: nothing takes over, and what needs the
    checkpoint names them."""
    folder = shutil.copytree(bundles / "hrt", tmp_path / "bundle")
    document = json.loads((folder / "bundle.json").read_text())
    (folder / "bundle.json").write_text(json.dumps({**document, "models": []}))
    (folder / "model.pt").unlink()
    model = fairseq_hrt.from_pretrained(folder)
    assert (
        isinstance(model.decoder, NativeDecoder)
        and model.translate(["a b"])
        and model.bundle.content_hash()
    )
    with pytest.raises(ValueError, match="no-repeat-ngram-size"):
        model.translate(["a b"], no_repeat_ngram_size=2)
    assert "takes over" not in caplog.text
    with pytest.raises(
        ValueError,
        match="only the native engine's model.* import the model again with the whole plugin",
    ):
        fairseq_hrt.from_pretrained(folder, engine="torch")
    (folder / "bundle.json").write_text(json.dumps({**document, "models": [], "runtime": None}))
    with pytest.raises(ValueError, match=r"names the models \[\]: it must be a list of 1 to"):
        fairseq_hrt.from_pretrained(folder)


@pytest.mark.parametrize("given, runtime, expected", [
    (dict(), True, "native"), (dict(), False, "torch"), (dict(device="cpu"), True, "native"),
    (dict(device="cuda"), True, "torch"), (dict(engine="torch"), True, "torch"),
    (dict(engine="native"), True, "native"), (dict(engine="native", device="cpu"), True, "native"),
    (dict(engine="runtime"), True, "native"),
])  # fmt: skip
def test_who_decodes(monkeypatch, given, runtime, expected):
    """And the options, the device and the threads reach that engine."""
    loaded = []
    bundle = SimpleNamespace(runtime="file" if runtime else None, models=["model.pt"])
    for module in (pretrained, plugin):
        monkeypatch.setattr(module, "load_bundle", lambda folder, **more: bundle)
    monkeypatch.setattr(
        pretrained.NativeDecoder, "of_bundle", lambda bundle, **more: ("native", more)
    )
    monkeypatch.setattr(
        "fairseq_hrt.export.plugin.TorchDecoder",
        lambda bundle, *, device: ("torch", device),
    )
    monkeypatch.setattr(
        pretrained,
        "Translator",
        lambda bundle, decoder, *, fallback=None, **options: (
            decoder,
            fallback is not None,
            options,
        ),
    )
    monkeypatch.setattr("torch.set_num_threads", loaded.append)
    decoder, takes_over, options = fairseq_hrt.from_pretrained(
        "anywhere", threads=3, beam=2, **given
    )
    assert options == {"beam": 2, "glossary": None}
    if expected == "native":
        assert decoder == ("native", {"threads": 3, "use_shortlist": False}) and loaded == []
        # Where the engine was chosen, nothing takes over.
        assert takes_over == ("engine" not in given)
    else:
        assert decoder == ("torch", given.get("device")) and loaded == [3] and not takes_over


def test_the_former_name_of_the_native_engine(bundles):
    model = fairseq_hrt.from_pretrained(bundles / "autoregressive", engine="runtime")
    assert isinstance(model.decoder, NativeDecoder) and model.identity()["engine"] == "native"
