"""What a process takes."""

from fairseq_hrt.evaluation.footprint import peak_memory


def test_peak_memory_grows():
    before = peak_memory()
    block = bytearray(before + (50 << 20))
    block[::4096] = b"x" * len(block[::4096])
    assert peak_memory() > before + (40 << 20)
