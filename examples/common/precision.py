"""Which precision of matrix products is the faster one to train in on this CPU: prints ``bfloat16``
or ``float32``.

    python examples/common/precision.py

``PRECISION`` in the environment decides otherwise. The option of ``fairseq-train`` for bfloat16 is
``--bf16``.

An instruction set is not enough to know: a product of two bfloat16 matrices in PyTorch 2.13, one
thread, against one in float32, took

    0.4 times as long on AMD's Zen 4 and Zen 5, which have AVX-512 BF16 at full rate;
    1.6 times as long on Intel's Emerald Rapids without AMX, which virtual machines may hide (a
        training step: 1.5 times);
    4 times as long with AVX-512, without any instruction for bfloat16.

So the answer is bfloat16 with AVX-512 BF16 on AMD, and with AMX (a training step of the
quickstart's models: 0.8 times as long), float32 everywhere else. It depends on the processor alone:
what is stopped and started again on one machine continues in the same precision.
"""

import os
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def faster_precision(cpuinfo: Path = CPUINFO) -> str:
    """``bfloat16`` or ``float32``.

    Args:
        cpuinfo: Linux's description of the processor; where there is no such file, the
            answer is ``float32``.
    """
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "float32"
    # Those of the first processor.
    parts = (line.partition(":") for line in reversed(lines))
    known = {name.strip(): value.strip() for name, _, value in parts}
    flags = known.get("flags", "").split()
    full_rate = "avx512_bf16" in flags and known.get("vendor_id") == "AuthenticAMD"
    return "bfloat16" if "amx_bf16" in flags or full_rate else "float32"


def chosen_precision() -> str:
    """``PRECISION`` of the environment, or what is faster here.

    Raises:
        SystemExit: for a ``PRECISION`` that is neither ``bfloat16`` nor ``float32``.
    """
    asked = os.environ.get("PRECISION")
    if asked not in (None, "", "bfloat16", "float32"):
        raise SystemExit(f"error: PRECISION={asked} is neither bfloat16 nor float32")
    return asked or faster_precision()


if __name__ == "__main__":
    print(chosen_precision())
