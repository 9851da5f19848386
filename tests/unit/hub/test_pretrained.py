"""Which engine a bundle is translated with."""

from types import SimpleNamespace

import pytest
from compiled_kernel import kernel  # noqa: F401 - every test of this file uses it
from tiny_models import write_bundle

import fairseq_hrt
from fairseq_hrt.hub import pretrained
from fairseq_hrt.hub.translator import Translator
from fairseq_hrt.runtime import library


def test_engines(bundles, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="engine 'fast' is unknown"):
        fairseq_hrt.from_pretrained(bundles / "hrt", engine="fast")
    with pytest.raises(ValueError, match="threads=0"):
        fairseq_hrt.from_pretrained(bundles / "hrt", threads=0)
    with pytest.raises(ValueError, match="the runtime decodes on the CPU"):
        fairseq_hrt.from_pretrained(bundles / "hrt", engine="runtime", device="cuda")
    plain = write_bundle(tmp_path / "plain", "autoregressive").folder
    with pytest.raises(ValueError, match="holds no model for the runtime.*--runtime int8"):
        fairseq_hrt.from_pretrained(plain, engine="runtime")
    assert isinstance(fairseq_hrt.from_pretrained(plain), Translator)
    with pytest.raises(ValueError, match="a shortlist needs the runtime"):
        fairseq_hrt.from_pretrained(plain, use_shortlist=True)
    with pytest.raises(ValueError, match="holds no shortlist"):
        fairseq_hrt.from_pretrained(bundles / "hrt", use_shortlist=True)

    def missing():
        raise library.LibraryUnavailable("no compiler")

    # A machine without the kernel.
    monkeypatch.setattr("fairseq_hrt.runtime.binding.kernel", missing)
    assert isinstance(fairseq_hrt.from_pretrained(bundles / "hrt", device="cpu"), Translator)
    with pytest.raises(ValueError, match="no compiler"):
        fairseq_hrt.from_pretrained(bundles / "hrt", engine="runtime")


@pytest.mark.parametrize("given, runtime, expected", [
    (dict(), True, "runtime"), (dict(), False, "torch"), (dict(device="cpu"), True, "runtime"), (dict(device="cuda"), True, "torch"),
    (dict(engine="torch"), True, "torch"), (dict(engine="runtime"), True, "runtime"), (dict(engine="runtime", device="cpu"), True, "runtime"),
])  # fmt: skip
def test_who_decodes(monkeypatch, given, runtime, expected):
    """And the options, the device and the threads reach that engine."""
    loaded = []
    monkeypatch.setattr(
        pretrained, "load_bundle", lambda folder, **more: SimpleNamespace(runtime="file" if runtime else None)
    )
    monkeypatch.setattr(
        "fairseq_hrt.hub.runtime_translator.RuntimeTranslator",
        lambda bundle, *, threads, use_shortlist, fallback, **options: loaded.append(
            ("runtime", threads, fallback is None, options)
        ),
    )
    monkeypatch.setattr(
        "fairseq_hrt.hub.translator.Translator",
        lambda bundle, *, device, **options: loaded.append(("torch", device, options)),
    )
    monkeypatch.setattr("torch.set_num_threads", lambda count: loaded.append(count))
    fairseq_hrt.from_pretrained("anywhere", threads=3, beam=2, **given)
    if expected == "runtime":
        # Where the engine was chosen, nothing takes over.
        assert loaded == [("runtime", 3, given.get("engine") == "runtime", {"beam": 2})]
    else:
        assert loaded == [3, ("torch", given.get("device"), {"beam": 2})]
