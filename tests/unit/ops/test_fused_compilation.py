"""Every kernel compiles for GPUs: Triton's interpreter accepts more than its compiler. No GPU is
needed."""

import pytest
from triton_devices import INTERPRETED

pytest.importorskip("triton", reason="Triton, which PyTorch brings for CUDA, is not installed")
if INTERPRETED:
    pytest.skip("kernels are interpreted: unset TRITON_INTERPRET", allow_module_level=True)

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler import compile as compile_kernel

from fairseq_hrt.ops.fused import ctc, dag, hashing, probe, smoothed, vocabulary

HALF, FLOAT, LONG, INT = "*fp16", "*fp32", "*i64", "*i32"
TYPES = dict(
    logits=HALF, result=FLOAT, targets=LONG, target=LONG, target_lengths=LONG, vertex_lengths=LONG,
    backwards=INT, counters=INT, found=INT, alignment=LONG, state=LONG, key=LONG, epsilon="fp32",
    share="fp32", number="i64", one="i64", two="i64",
)  # fmt: skip
for name in "match largest partition gradient loss nll links alpha beta likelihood scores".split():
    TYPES[name] = FLOAT
SUMMED, BEST, USED = (
    (dict(FROM=before, TO=after), warps)
    for before, after, warps in (dag.SUMMED, dag.BEST, dag.USED)
)
BEST[0]["SCAN"] = dag.SCAN
WORDS = dict(BLOCK=vocabulary.BLOCK)
PATHS = {
    kind: dict(
        emitted=kind, rows=kind, scores=kind, skips="*u8", lengths=LONG, steps="*i8", path=LONG
    )
    for kind in (FLOAT, "*fp64")
}
KERNELS = [
    (probe._one_kernel, {}, 4, {}),
    (vocabulary._gather_kernel, {**WORDS, "PART": vocabulary.PART}, 8, {}),
    (vocabulary._gradient_kernel, {**WORDS, "PART": vocabulary.PART}, 8, {}),
    (vocabulary._gradient_kernel, {**WORDS, "PART": vocabulary.PART}, 8, dict(logits="*bf16")),
    (smoothed._loss_kernel, WORDS, 8, {}),
    (smoothed._gradient_kernel, WORDS, 8, dict(result=HALF)),
    (smoothed._gradient_kernel, WORDS, 8, dict(logits=FLOAT)),
    (dag._backward_links_kernel, *USED, {}),
    (dag._recursion_kernel, *SUMMED, {}),
    (dag._use_kernel, *USED, {}),
    (dag._alignment_kernel, *BEST, {}),
    *((ctc._best_states_kernel, dict(STATES=64), ctc.WARPS, PATHS[kind]) for kind in PATHS),
    *(
        (
            hashing._absorb_kernel,
            dict(HAS_STATE=state, NUMBERS=numbers, ENDS=ends, BLOCK=256),
            4,
            dict(result="*fp64" if ends else LONG),
        )
        for state, numbers, ends in ((False, 2, False), (True, 1, True), (False, 0, True))
    ),
]


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("kernel, constants, warps, types", KERNELS)
def test_it_compiles(kernel, constants, warps, types, aligned, capability):
    names = [parameter.name for parameter in kernel.params]
    signature = {
        name: "constexpr" if name in constants else {**TYPES, **types}.get(name, "i32")
        for name in names
    }
    divisible = [
        (names.index(name),)
        for name, kind in signature.items()
        if kind.startswith("*") or (aligned and name in ("size", "words"))
    ]
    source = ASTSource(
        fn=kernel,
        signature=signature,
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={place: [["tt.divisibility", 16]] for place in divisible},
    )
    found = compile_kernel(
        source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps}
    )
    assert found.asm["cubin"]


def test_none_is_forgotten():
    tested = {kernel for kernel, *_ in KERNELS}
    for module in (ctc, dag, hashing, probe, smoothed, vocabulary):
        for name, value in vars(module).items():
            assert not name.endswith("_kernel") or value in tested, name
