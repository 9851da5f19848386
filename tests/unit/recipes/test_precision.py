"""Which precision recipes train in, from Linux's description of the processor."""

import pytest

ZEN_4, EMERALD_RAPIDS = "fpu avx512_vnni avx512_bf16", "fpu avx512_bf16 avx512_fp16"


@pytest.fixture(scope="module")
def precision(load_example):
    return load_example("common/precision.py")


@pytest.mark.parametrize(
    "vendor, flags, expected",
    [
        ("AuthenticAMD", ZEN_4, "bfloat16"),
        ("GenuineIntel", EMERALD_RAPIDS, "float32"),
        ("GenuineIntel", f"{EMERALD_RAPIDS} amx_bf16 amx_tile", "bfloat16"),
        ("AuthenticAMD", "fpu avx2", "float32"),
        ("GenuineIntel", "fpu avx512f avx512_vnni", "float32"),
        ("GenuineIntel", "", "float32"),
    ],
)
def test_instructions_decide_and_how_fast_they_are(precision, tmp_path, vendor, flags, expected):
    path = tmp_path / "cpuinfo"
    processor = (
        f"processor\t: 0\nvendor_id\t: {vendor}\nmodel name\t: A: processor\nflags\t\t:"
        f" {flags}\nbugs\t\t:\n\n"
    )
    path.write_text(processor * 2)
    assert precision.faster_precision(path) == expected


@pytest.mark.parametrize("content", [b"", b"Features : fp asimd bf16\n", b"\xff\x00", b"flags\n"])
def test_other_processors_train_in_float32(precision, tmp_path, content):
    path = tmp_path / "cpuinfo"
    path.write_bytes(content)
    assert precision.faster_precision(path) == "float32"
    assert precision.faster_precision(tmp_path / "missing") == "float32"


@pytest.mark.parametrize("asked", ["bfloat16", "float32"])
def test_the_environment_decides_the_precision(precision, monkeypatch, asked):
    monkeypatch.setattr(
        precision, "faster_precision", lambda: "float32" if asked == "bfloat16" else "bfloat16"
    )
    monkeypatch.delenv("PRECISION", raising=False)
    assert precision.chosen_precision() != asked
    monkeypatch.setenv("PRECISION", asked)
    assert precision.chosen_precision() == asked
    monkeypatch.setenv("PRECISION", "")
    assert precision.chosen_precision() != asked


def test_an_unknown_precision_is_refused(precision, monkeypatch):
    monkeypatch.setenv("PRECISION", "int8")
    with pytest.raises(SystemExit, match="int8 is neither bfloat16 nor float32"):
        precision.chosen_precision()
