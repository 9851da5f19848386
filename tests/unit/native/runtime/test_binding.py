"""What ctypes is told of the kernel, against the kernel's own header."""

import ctypes as C
import dataclasses
import math
import re

import numpy as np
import pytest

from fairseq_hrt.engine.torch_to_native import convert
from fairseq_hrt.native.families import MODEL_FAMILIES
from fairseq_hrt.native.families.ctc import INPUTS
from fairseq_hrt.native.families.fields import CELLS
from fairseq_hrt.native.options.schema import NATIVE_DRAFTS, NATIVE_STRATEGIES
from fairseq_hrt.native.options.values import KINDS as VALUES
from fairseq_hrt.native.options.values import SCHEMA
from fairseq_hrt.native.runtime import binding, build, engine
from fairseq_hrt.native.runtime.options import plan_search

STRUCTURES = {
    "fh_side_shape": binding.SideShape, "fh_shape": binding.Shape, "fh_tensor": binding.Tensor,
    "fh_options": binding.Options, "fh_targets": binding.Targets,
    "fh_first_words": binding.FirstWords, "fh_results": binding.Results,
}  # fmt: skip
KINDS = {
    "int32_t": C.c_int32, "int64_t": C.c_int64, "double": C.c_double, "float": C.c_float,
    "fh_side_shape": binding.SideShape, "char *": C.c_char_p, "void *": C.c_void_p,
    "int32_t *": C.POINTER(C.c_int32), "int64_t *": C.POINTER(C.c_int64),
    "double *": C.POINTER(C.c_double), "float *": C.POINTER(C.c_float),
}  # fmt: skip


@pytest.fixture(scope="module")
def header():
    """runtime.h without its comments."""
    return re.sub(r"/\*.*?\*/", "", (build.KERNEL / "runtime.h").read_text(), flags=re.DOTALL)


def fields_of(header, name):
    """(name, type) of each field of a structure, in the header's order."""
    body = re.search(r"typedef struct {([^}]*)} " + name + ";", header).group(1)
    fields = []
    for declaration in filter(None, (line.strip() for line in body.split(";"))):
        kind, names = re.fullmatch(r"(?:const )?(\w+) (.*)", declaration, re.DOTALL).groups()
        for one in names.split(","):
            one = one.strip()
            fields.append((one.lstrip("*"), KINDS[kind + " *" * one.startswith("*")]))
    return fields


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_are_those_of_the_header(header, name):
    assert fields_of(header, name) == STRUCTURES[name]._fields_


def test_options_of_the_kernel_are_those_of_the_schema(header):
    """Fields, their order and their types; four are made of others."""
    fields = fields_of(header, "fh_options")
    kinds = ("int32_t", "int32_t", "double *", "int32_t *")
    made = dict(
        zip(("normalize", "table_size", "table_limits", "table_chunks"), map(KINDS.get, kinds))
    )
    assert {name: kind for name, kind in fields if name in made} == made
    named = {option.kernel: VALUES[name][0] for name, option in SCHEMA.items() if option.kernel}
    assert len(named) == sum(bool(option.kernel) for option in SCHEMA.values())
    numbers = [(name, C.c_double) for name, kind in named.items() if kind is float]
    others = [(name, C.c_int32) for name, kind in named.items() if kind is not float]
    assert [field for field in fields if field[0] not in made] == others + numbers


def test_numbers_are_those_of_the_header(header):
    assert f"#define FH_INTERFACE {binding.INTERFACE} " in re.sub(r"\s+", " ", header)
    values = {name: int(value) for name, value in re.findall(r"FH_(\w+) = (\d+)", header)}
    assert [values[name] for name in ("OK", "MEMORY", "INVALID", "NUMBER", "REFUSED", "ENDED")] == [
        binding.OK, binding.MEMORY, binding.INVALID, binding.NUMBER, binding.REFUSED, binding.ENDED,
    ]  # fmt: skip
    for number, name in enumerate(NATIVE_STRATEGIES):
        assert values[name.upper().replace("-", "_")] == number
    for number, name in enumerate(NATIVE_DRAFTS):
        assert values[name.upper()] == number
    for number, name in enumerate(INPUTS):
        assert values[name.upper().replace("-", "_")] == number
    assert [values[f"{'SELF_' * (name == 'attention')}{name.upper()}"] for name in CELLS] == [0, 1]
    for number, name in enumerate(MODEL_FAMILIES):
        assert values[name.upper()] == number
    assert {name: values[{"GELU_FAST": "GELU_TANH", "GELU_ACCURATE": "GELU_TANH"}.get(name.upper(),
                                                                                      name.upper())]
            for name in binding._ACTIVATION} == binding._ACTIVATION  # fmt: skip


def test_every_function_is_declared(kernel, header):
    found = binding.kernel()
    for result, name, parameters in re.findall(
        r"FH_PUBLIC ([\w ]+?[ *]+)(fh_\w+)\(([^)]*)\)", header
    ):
        count = 0 if parameters == "void" else parameters.count(",") + 1
        assert len(getattr(found, name).argtypes) == count, name
        assert (getattr(found, name).restype is None) == (result.strip() == "void"), name


@pytest.mark.parametrize(
    "arch, changes",
    [
        ("hrt_transformer", dict(cell="ssru")),
        ("dag_transformer", dict(zero_start=True)),
        ("transformer", dict(cell=2)),
    ],
)
def test_the_kernel_checks_the_cell_itself(runtime, monkeypatch, arch, changes):
    """Also where the tensors are there."""
    model = runtime.build(arch)
    header, tensors = convert(model, *model.dictionaries, weights="float32")
    width = header.decoder_width
    for number in range(header.decoder_layers):
        tensors[f"decoder.layers.{number}.cell"] = np.zeros((2 * width, width), np.float32)
        tensors[f"decoder.layers.{number}.cell.bias"] = np.zeros(2 * width, np.float32)
    monkeypatch.setattr(binding, "CELLS", (*CELLS, 2))
    with pytest.raises(ValueError, match="the sizes of the model do not fit together"):
        engine.Engine(dataclasses.replace(header, **changes), tensors)


WRONG_OPTIONS = [
    ("transformer", {name: value}) for name, value in (
        ("beam", 0), ("nbest", 0), ("nbest", 2), ("min_len", -1), ("max_len_b", -1),
        ("batch_size", 0), ("lenpen", math.inf), ("max_len_a", -1.0), ("unkpen", math.nan),
        ("unkpen", -math.inf), ("graphs", 1),
    )
] + [
    ("transformer", {"jacobi": 1, name: value}) for name, value in (
        ("beam", 2), ("jacobi_window", -1), ("jacobi_draft", 2), ("jacobi_draft", -1),
    )
] + [
    ("two dictionaries", {"jacobi": 1, "jacobi_draft": 1}),
    ("hrt_transformer", {"jacobi": 1}), ("hrt_transformer", {"nat_beam": 0}),
    ("hrt_transformer", {"draft_chunk": 7}), ("hrt_transformer", {"draft_width": -1}),
    ("hrt_transformer", {"table_size": 0}), ("bidirectional_transformer", {"jacobi": 1}),
    ("bidirectional_transformer", {"alignments": 1}), ("dag_transformer", {"strategy": 4}),
    ("dag_transformer", {"scale": 0.0}), ("dag_transformer", {"jacobi": 1}),
    ("dag_transformer", {"alignments": 1}), ("ctc_transformer", {"alignments": 1}),
    ("ctc_transformer", {"graphs": 1}), ("ctc_transformer", {"jacobi": 1}),
]  # fmt: skip


@pytest.mark.parametrize("arch, values", WRONG_OPTIONS)
def test_the_kernel_checks_options_itself(runtime, arch, values):
    """Whoever calls it: what Python refuses never reaches it otherwise."""
    two = dict(target_symbols=9) if arch == "two dictionaries" else {}
    model = runtime.build("transformer" if two else arch, **two)
    with runtime.runtime_engine(model) as found:
        plan = plan_search(found.header, runtime.options(beam=1, max_len_b=9))
        assert found.decode([[4, 2]], plan)
        for name, value in values.items():
            setattr(plan.kernel, name, value)
        with pytest.raises(
            ValueError, match=f"the decoding option ({'|'.join(values)})=.* does not fit the model"
        ):
            found.decode([[4, 2]], plan)


@pytest.mark.parametrize(
    "interface, missing, message",
    [(99, None, "another release"), (binding.INTERFACE, "fh_decode", "no function fh_decode")],
)
def test_a_kernel_of_another_release_is_refused(monkeypatch, interface, missing, message):
    class Library:
        def __getattr__(self, name):
            if name == missing:
                raise AttributeError(name)
            function = lambda: interface  # noqa: E731
            self.__dict__[name] = function
            return function

    monkeypatch.setattr(binding, "load_library", Library)
    with pytest.raises(ValueError, match=f"{message}.*install fairseq_hrt again"):
        binding.kernel.__wrapped__()


def test_a_header_for_c(tiny):
    dictionaries = tiny.dictionary(), tiny.dictionary()
    header, _ = convert(
        tiny.model("hrt_transformer", hrt_chunk_sizes=[2, 5]), *dictionaries, weights="float32"
    )
    shape, kept = binding.shape_of(header)
    assert (shape.family, shape.eos, shape.learn_tail, shape.relative_window) == (
        1,
        2,
        header.learn_tail,
        header.relative_window,
    )
    assert shape.chunk_sizes[: shape.chunk_count] == [2, 5] == list(kept)
    for side, part in (("encoder", shape.encoder), ("decoder", shape.decoder)):
        for name in (
            "width",
            "layers",
            "heads",
            "inner",
            "positions",
            "pre_norm",
            "final_norm",
            "embedding_norm",
            "scale",
        ):
            assert getattr(part, name) == getattr(header, f"{side}_{name}")
    assert (shape.encoder.vocabulary, shape.decoder.vocabulary) == (
        header.source_vocabulary,
        header.target_vocabulary,
    )
    assert (shape.encoder.longest, shape.decoder.longest) == (
        header.longest_source,
        header.longest_target,
    )


def test_tensors_for_c():
    tensors = {"a": np.arange(6, dtype=np.float32).reshape(2, 3).T, "b": np.array([1, -2], np.int8)}
    table, kept = binding.tensor_table(tensors)
    assert [(entry.name, entry.rows, entry.columns, entry.type) for entry in table] == [
        (b"a", 3, 2, 2),
        (b"b", 1, 2, 1),
    ]
    # Row after row, whatever the array's own order.
    assert C.cast(table[0].data, C.POINTER(C.c_float))[:6] == [0, 3, 1, 4, 2, 5] and len(kept) == 2
    assert len(binding.tensor_table({})[0]) == 1


def test_small_things():
    assert len(binding.message_buffer()) >= 256
    array = np.array([3, 4], np.int64)
    binding.pointer(array, C.c_int64)[1] = 9
    assert array.tolist() == [3, 9]
