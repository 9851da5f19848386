"""Kernels compile for GPUs that need not be there: the interpreter accepts more than the
compiler."""

import importlib
import importlib.util
import os

import pytest
import torch

from fairseq_hrt.engine import fused
from fairseq_hrt.engine.fused import attention, linear, output, step

# Compute capability, the shared memory of a program, and the type to compile for.
GPUS = [(90, 227 * 1024, torch.float16), (86, 99 * 1024, torch.float32)]
KERNELS = {
    "step_kernels": ("close_rows",),
    "linear_kernels": ["few_rows", "some_rows"],
    "attention_kernels": ["one_token", "some_tokens", "one_query"],
    "output_kernels": [
        "choose_in_block",
        "choose_of_blocks",
        "embed_row",
    ],
}
POINTERS = {
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
    torch.int64: "*i64",
    torch.int32: "*i32",
    torch.uint8: "*u8",
}


class Compiled:
    """Stands for a kernel: a launch compiles it for the arguments, as Triton specialises it."""

    def __init__(self, kernel, gpu, seen):
        self.kernel, self.gpu, self.seen = kernel, gpu, seen

    def __getitem__(self, grid):
        return self.launch

    def launch(self, *args, num_warps=4, num_stages=3, launch_pdl=False, **options):
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource, compile

        capability, memory, _ = self.gpu
        values = {**dict(zip(self.kernel.arg_names, args)), **options}
        signature, constants, facts = {}, {}, {}
        for place, parameter in enumerate(self.kernel.params):
            name, value = parameter.name, values[parameter.name]
            if isinstance(value, torch.Tensor):
                signature[name] = POINTERS[value.dtype]
            elif isinstance(value, float):
                signature[name] = "fp32"
            elif parameter.is_constexpr or value is None or value == 1:
                signature[name], constants[(place,)] = "constexpr", value
                continue
            else:
                signature[name] = "i32"
            address = value.data_ptr() if isinstance(value, torch.Tensor) else value
            if not isinstance(value, float) and address % 16 == 0:
                facts[(place,)] = [["tt.divisibility", 16]]
        made = compile(
            ASTSource(self.kernel, signature, constants, facts),
            target=GPUTarget("cuda", capability, 32),
            options={"num_warps": num_warps, "num_stages": num_stages, "launch_pdl": launch_pdl},
        )
        name = self.kernel.__name__
        assert made.asm["cubin"] and made.metadata.shared <= memory, name
        self.seen.add(name)


@pytest.fixture(params=GPUS, ids=[f"sm_{gpu[0]}" for gpu in GPUS])
def compiled(request, monkeypatch):
    """The type, and the names of the kernels that were compiled: calls on the host's tensors
    compile them."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed; PyTorch's wheels for CUDA bring it")
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("TRITON_INTERPRET=1 is set: kernels are not compiled")
    seen = set()
    for module, names in KERNELS.items():
        found = importlib.import_module(f"fairseq_hrt.engine.fused.{module}")
        for name in names:
            monkeypatch.setattr(found, name, Compiled(getattr(found, name), request.param, seen))
    monkeypatch.setattr("fairseq_hrt.engine.fused.support.available", lambda device: True)
    monkeypatch.setattr(linear, "shared_memory", lambda device: request.param[1])
    if request.param[0] >= 90:
        for module in (attention, linear, output, step):
            monkeypatch.setattr(module, "early", lambda x: {"EARLY": True, "launch_pdl": True})
    return request.param[2], seen


@pytest.mark.slow
def test_every_kernel_compiles(compiled):
    dtype, seen = compiled

    def zeros(*shape):
        return torch.zeros(shape, dtype=dtype)

    def norm(width):
        return zeros(width), zeros(width), 1e-5

    for rows, width, outputs, full in (
        (1, 512, 2048, True), (4, 2048, 512, False), (8, 512, 512, True), (16, 2048, 512, False),
    ):  # fmt: skip
        fused.fused_linear(
            zeros(rows, width), zeros(outputs, width), zeros(outputs),
            norm=norm(width) if full else None, activation="gelu" if full else "relu",
            residual=zeros(rows, outputs), residual_norm=norm(outputs) if full else None,
        )  # fmt: skip
    position = torch.zeros(1, dtype=torch.long)
    for heads, width, count, full in (
        (8, 64, 1, True),
        (1, 1, 1, False),
        (8, 64, 2, True),
        (1, 128, 2, False),
    ):
        cache = zeros(2, heads, 64, width)
        fused.attention_block(
            zeros(1, count, 3 * heads * width), cache[0], cache[1], position, heads=heads,
            scale=1.0, causal=full, relative=zeros(5, width) if full else None,
            visible=torch.ones(count, 64, dtype=torch.bool) if full and count > 1 else None,
        )  # fmt: skip
        fused.cross_attention(
            zeros(1, heads * width), cache[0], cache[1], heads=heads, scale=1.0,
            bias=zeros(1, 64) if full else None,
        )  # fmt: skip
    for rows, full in ((1, True), (32, False)):
        flags = torch.zeros(rows, dtype=torch.bool)
        fused.choose(
            zeros(rows, 512), zeros(9000, 512), zeros(9000) if full else None,
            norm=norm(512) if full else None, temperature=0.5 if full else 1.0, pad=1, eos=2, unk=3,
            unkpen=float("inf") if full else 0.0, forbid_eos=flags, only_eos=flags,
        )  # fmt: skip
        fused.embed(
            torch.zeros(rows, dtype=torch.long), zeros(9, 512), zeros(64, 512) if full else None,
            position, norm=norm(512) if full else None, zero=None if full else 4,
        )  # fmt: skip
        best = torch.zeros(rows, 1, dtype=torch.float32)
        words = torch.zeros(rows, 1, dtype=torch.long)
        fused.close_step(
            best, words, tokens=words, numbers=best[None], ids=words[None], is_open=flags,
            done=position, eos=2,
        )  # fmt: skip
    assert seen == {name for names in KERNELS.values() for name in names}
