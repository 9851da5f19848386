"""Texts of a configuration that fairseq would run as Python, and the sentences that refuse them."""

import os
import pickle
import re
from argparse import Namespace
from collections import Counter, OrderedDict
from fractions import Fraction

import numpy
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging.meters import AverageMeter
from hydra.errors import HydraException
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import AnyNode, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fairseq_hrt.compat.checkpoint_contents import UnsafeValueError, make_plain
from fairseq_hrt.compat.checkpoint_loading import (
    CorruptCheckpointError,
    UnsafeCheckpointError,
    load,
)


def unsafe_value(state):
    """What is refused in it; None: nothing."""
    try:
        make_plain(state)
    except UnsafeValueError as error:
        return error
    return None


NUMBERS = st.integers(-1000, 1000) | st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.sampled_from(["", "a", "b c", "(2, 3)", "relu"])


@given(
    st.recursive(
        NUMBERS | WORDS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=2),
    )
)
def test_literals_are_left_alone(value):
    assert unsafe_value({"cfg": {"model": {"encoder_layers": repr(value)}}}) is None


@pytest.mark.parametrize("text", ["roberta-base", "models/x.pt", "a b", "", "luong"])
def test_texts_that_run_nothing_are_left_to_whoever_reads_them(text):
    """Packages of other people may have options of these names."""
    assert unsafe_value({"cfg": {"model": {"pretrained": text}}}) is None


@pytest.mark.parametrize(
    "text",
    [
        "f()", "(f)()", "[f() for _ in [0]]", "lambda: 0", "x if f() else y", "a.b", "a[0]",
        "f'{f()}'", "[*f()]", "{**f()}", "x := 1", "await x", "1 < f()", "not f()", "2 ** 99999",
        "1 // 0", "'x' * 10 ** 9", "[0] * 99999999", "(" + "[0] * 99999 + " * 9 + "[0])", "\tf()",
        "\n f()", "b'x'", "1j", "...", "9" * 5000, "-" * 3000 + "1", "'%s' % f()",
    ],
)  # fmt: skip
def test_everything_else_is_refused(text):
    for state in (
        {"cfg": {"model": {"encoder_layers": text}}},
        {"cfg": {"model": Namespace(_name="fconv", encoder_layers=text)}},
        {"args": Namespace(encoder_layers=text)},
        {"args": Namespace(encoder_layers=[1, (text,)])},
        {
            "cfg": OmegaConf.create(
                {"model": {"w2v_args": {"model": {"conv_feature_layers": text}}}}
            )
        },
    ):
        try:
            compile(text.lstrip(" \t"), "text", "eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        assert unsafe_value(state) is not None, text


def test_values_take_the_places_of_references_to_them():
    """Old versions of fairseq saved them."""
    references = {
        "a": "${optimization.lr}",
        "b": "${optimization.lr.1}",
        "c": "${task.d}",
        "d": "${task.b}",
        "e": "${no.such}",
        "f": ["${task.b}"],
    }
    state = {"cfg": OmegaConf.create({"task": references, "optimization": {"lr": [0.5, 0.25]}})}
    make_plain(state)
    assert state["cfg"]["task"] == {
        "a": [0.5, 0.25],
        "b": 0.25,
        "c": 0.25,
        "d": 0.25,
        "e": "???",
        "f": [0.25],
    }
    for text in (
        "${oc.env:HOME}",
        "x${oc.env:HOME}",
        "${oc.env:${a}}",
        "${${a}.b}",
        "${ oc.env:HOME}",
        "${hydra:runtime.cwd}",
        "${a['b']}",
        "${.b}",
        "${..a.b}",
    ):
        found = unsafe_value({"cfg": {"task": {"data": text}}})
        assert found is not None and "outside the file" in str(found)


KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.integers(0, 9)
    | st.lists(KEYS | st.sampled_from(["0", "1", "9"]), min_size=1, max_size=3).map(
        lambda path: "${" + ".".join(path) + "}"
    ),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=8,
)


@settings(max_examples=40)
@given(st.dictionaries(KEYS, VALUES, max_size=3))
def test_references_lead_where_omegaconf_finds_them(values):
    config = OmegaConf.create(values)
    try:
        expected = OmegaConf.to_container(config, resolve=True)
    except (OmegaConfBaseException, RecursionError):
        # Some lead nowhere, or back to where they stand.
        expected = None
    state = {"cfg": config}
    try:
        make_plain(state)
    except UnsafeValueError as error:
        assert (expected is None and "levels deep" in str(error)) or "more than" in str(error)
    else:
        assert are_plain(state["cfg"]) and "${" not in str(state["cfg"])
        if expected is not None:
            assert state["cfg"] == expected


PIECES = [
    "${model.note}", "${model.decoder_layers}", "${.note}", "${..model.note}", "${model.list.0}",
    "${", "}", "$", "\\", "[", "]", "(", ")", "'", '"', " ", "\n", "1", ",", "x", "model.note", ".",
]  # fmt: skip


@settings(max_examples=40)
@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
def test_what_omegaconf_puts_into_a_text_is_not_run(text):
    """fairseq evaluates what the references within a text lead to, not the text that stands
    there."""
    model = {
        "note": "exit()",
        "list": ["exit()"],
        "decoder_layers": "[1]",
        "encoder_layers": text,
        "attention": "(2, 3)",
    }
    try:
        config = OmegaConf.create({"model": model})
        resolved = config.model.encoder_layers
    except (OmegaConfBaseException, ValueError):
        return
    if unsafe_value({"cfg": config}) is None and isinstance(resolved, str):
        assert "exit()" not in resolved, (text, resolved)


@pytest.mark.parametrize(
    "text",
    ["[${model.note}]", '"${model.note}"', "${model.note} ", "${model.a}(${model.b})",
     "${model.note}", "1 + ${model.decoder_layers}", "\\${x}"]
)  # fmt: skip
def test_references_within_a_text_are_refused_where_it_is_evaluated(text):
    model = {"adaptive_softmax_cutoff": text, "note": "exit()", "decoder_layers": "(1, 2)"}
    assert unsafe_value({"cfg": {"model": model}}) is not None
    assert unsafe_value({"args": Namespace(adaptive_softmax_cutoff=text)}) is not None
    for state in (
        {"cfg": {"model": {**model, "adaptive_softmax_cutoff": "${model.decoder_layers}"}}},
        {"args": Namespace(adaptive_softmax_cutoff="${model.decoder_layers}")},
    ):
        assert unsafe_value(state) is None


@pytest.mark.parametrize(
    "text",
    [
        "$${a.b}",
        "${a.b}${a.c}",
        "x${a.b}",
        "\\${a.b}",
        r"'\x24{oc.env:HOME}'",
        r"['$' '{a.b}']",
        r"'\N{DOLLAR SIGN}{a.b}'",
        "${a.b}\n",
    ],
)
def test_texts_that_become_references_are_refused_everywhere(text):
    """Old arguments are read twice, and texts of options that are none are unquoted."""
    for state in ({"cfg": {"something_else": text}}, {"args": Namespace(something_else=[text])}):
        assert "outside the file" in str(unsafe_value(state))
    for harmless in ("${a.b}", "a$b", "$", "C:\\x", r"'\n'", "{a.b}", "'{a}'"):
        for state in (
            {"cfg": {"something_else": harmless}},
            {"args": Namespace(something_else=[harmless])},
        ):
            assert unsafe_value(state) is None, harmless


class Mapping(dict):
    """Shows other values than it has."""


def with_attributes(value, **attributes):
    value.__dict__.update(attributes)
    return value


@pytest.mark.parametrize("value, reason", [
    (Mapping(x=1), "not a value of an option"), (Counter("a"), "not a value of an option"),
    (numpy.arange(2), "not a value of an option"),
    (with_attributes(Dictionary(), encoder_layers="exit()"), "not a value of an option"),
    (AverageMeter(), "not a value of an option"), (torch.zeros(1), "not a value of an option"),
    pytest.param(16**10000, "40001 bits', which is not a number", id="huge"),
    (-(2**64), "65 bits', which is not a number"), (dict, "not a value of an option"),
    (AnyNode("x")._metadata, "not a value of an option"), ({(1, 2): 3}, "not a name of an option"),
    (with_attributes(Namespace(), __class__="x"), "not a name of an option"),
    (with_attributes(Namespace(), **{"__iter__": 1}), "not a name of an option"),
    # fairseq's pattern for names of a part's options stops at a line feed.
    (with_attributes(Namespace(), **{"encoder_xformers_att_config\nx": "exit()"}),
     "not a name of an option"), ({"encoder_embed_path\n": "x"}, "not a name of an option"),
    ({"x" * 101: 1}, "not a name of an option"),
    (Namespace(encoder_encoder_xformers_att_config="exit()"), "must be a plain literal"),
    (Namespace(bpe="../x"), "not a name of anything"), (Namespace(task=["x"]), "not a name of anything"),
    (Namespace(bpe=OmegaConf.create(["../x"])), "not a name of anything"),
])  # fmt: skip
def test_what_fairseq_could_see_otherwise_is_refused(value, reason):
    for state in (
        {"cfg": {"model": value}},
        {"args": Namespace(x=value)},
        {"cfg": {"model": {"x": [value]}}},
    ):
        found = unsafe_value(state)
        assert found is not None and reason in str(found) and "\n" not in str(found)


def node(content, **attributes):
    return with_attributes(OmegaConf.create(content), **attributes)


@pytest.mark.parametrize("value, plain", [
    (with_attributes(OrderedDict(x=1), items=dict), {"x": 1}),
    (with_attributes(Namespace(x=1)), Namespace(x=1)), (AnyNode("x"), "x"),
    (with_attributes(AnyNode("y"), _val=[AnyNode(1)]), [1]), (node({"x": 1}, get=1), {"x": 1}),
    (node({"x": [1, None]}, _metadata=None), {"x": [1, None]}),
    (node({"x": "y"}, _parent={"y": "exit()"}), {"x": "y"}), (numpy.float32(0.5), 0.5),
    (numpy.bool_(True), True), (numpy.str_("x"), "x"), (bytearray(b"x"), b"x"),
    ({1: (2, {3}), None: frozenset("4")}, {1: (2, {3}), None: frozenset("4")}),
])  # fmt: skip
def test_fairseq_gets_nothing_but_what_a_value_holds(value, plain):
    state = {"cfg": {"x": value}, "args": Namespace(x=[value]), "other": [1]}
    make_plain(state)
    assert state == {"cfg": {"x": plain}, "args": Namespace(x=[plain]), "other": [1]}
    assert are_plain(state["cfg"]) and are_plain(state["args"])


def are_plain(value):
    """Whether it consists of exact types that have no attributes, namespaces apart."""
    if type(value) in (int, float, bool, str, bytes, type(None)):
        return True
    if type(value) is Namespace:
        return are_plain(vars(value))
    if type(value) is dict:
        return all(are_plain(inner) for pair in value.items() for inner in pair)
    return type(value) in (list, tuple, set, frozenset) and all(map(are_plain, value))


CONFIGURATIONS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.sampled_from(["x", "a b", "???", ""]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from("abcd"), CONFIGURATIONS, max_size=3))
def test_a_node_and_what_it_was_made_of_become_the_same(plain):
    for value in (plain, OmegaConf.create(plain), OrderedDict(plain), Namespace(**plain)):
        state = {"cfg": {"x": value}}
        make_plain(state)
        assert are_plain(state["cfg"])
        assert state["cfg"] == {"x": value if isinstance(value, Namespace) else plain}


def huge_values():
    """Small files whose contents would take for ever."""
    endless, endless_node, doubled = {}, OmegaConf.create({}), [1]
    endless["x"] = endless
    endless_node.__dict__["_content"] = endless_node
    for _ in range(60):
        doubled = [doubled, doubled]
    text = "x" * 9000 + "$"
    chain = {
        f"b{number}": dict.fromkeys("cd", f"${{model.b{number - 1}}}") for number in range(1, 60)
    }
    return {
        "endless": (endless, "levels deep"), "an endless node": (endless_node, "levels deep"),
        "doubled": (doubled, "limit of 30000 values"),
        "long": ([f"{number}{text}" for number in range(200)], "limit of 1000000 characters"),
        "doubled in a namespace": (Namespace(x=doubled), "limit of 300000 values"),
        "a long way": ({"a": "${" + ".".join(["model"] * 4000) + "}", "model": "${model}"},
                       "beyond the limit of"),
        "references": ({"b0": 1, **chain}, "limit of 30000 values"),
        "circles": ({"a": "${model.b}", "b": "${model.a}"}, "levels deep"),
        "itself": ({"a": "${model.a.a.a}"}, "levels deep"),
        "products": ({"encoder_layers": "[[['a']*9999]*9999]*9999"}, "not a plain literal|elements"),
        "parts": ({"encoder_layers": "[" + "[0]*40000," * 900 + "]"}, "elements"),
        "parts less than nothing": ({"encoder_layers": "[[0]*-99999999," + "[0]*40000," * 900 + "]"},
                                    "elements"),
        "as many, before the sign": ({"encoder_layers": "[-99999999*[0]," + "[0]*40000," * 900 + "]"},
                                     "elements"),
        "doubled object": (Counter({1: doubled}), "not a value of an option"),
        "too late": ([[1] * 30001, Counter({1: doubled})], "limit of 30000 values"),
    }  # fmt: skip


@pytest.mark.parametrize("name", huge_values())
def test_what_holds_itself_or_is_huge_is_refused(name):
    value, reason = huge_values()[name]
    found = unsafe_value({"cfg": {"model": value}})
    # Apart from the value, of which pytest would show all where an assertion fails.
    said = str(found)
    assert re.search(reason, said) and len(said) < 300
    if name == "doubled":
        for state in (OmegaConf.create({"x": 1}), Counter({1: value})):
            state.__dict__["_content"] = value
            assert "not a plain dictionary" in str(unsafe_value(state))


@pytest.mark.parametrize("value",
                         ["x: 1", AnyNode("x: 1"),
                          with_attributes(OmegaConf.create({}), _content="x: 1"),
                          with_attributes(OmegaConf.create([]), _content=b"x: 1"),
                          with_attributes(AnyNode(1), _val=AnyNode("x: 1")), 5, [1],
                          Namespace(x=1)])  # fmt: skip
def test_a_configuration_is_a_dictionary(value):
    """OmegaConf would read a text as YAML."""
    assert "which is not a configuration" in str(unsafe_value({"cfg": value}))


@pytest.mark.parametrize("value", [
    OmegaConf.create({"a": "${oc.env:HOME}"}), AnyNode("${oc.env:HOME}"), [OmegaConf.create({})],
    {1: (AnyNode(1),)}, {AnyNode("x"): 1}, Namespace(a=AnyNode(1)),
    with_attributes(AverageMeter(), val=AnyNode(1)), with_attributes(OrderedDict(), x=AnyNode(1)),
    with_attributes(Dictionary(), x=[AnyNode(1)]), ListConfig([1]),
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_nodes_outside_of_the_configuration_are_refused(value):
    """fairseq would write down what they read."""
    for state in ({"extra_state": value}, {"x": [{"y": value}], "cfg": {"a": 1}}):
        found = unsafe_value(state)
        assert found is not None and "is stored outside it" in str(found)


def test_hooks_of_tensors_are_looked_at():
    """PyTorch reads them when it writes the tensor."""
    tensor = torch.zeros(1)
    tensor._backward_hooks = OrderedDict(x=OmegaConf.create({"a": "${oc.env:HOME}"}))
    assert "is stored outside it" in str(unsafe_value({"extra_state": [tensor]}))
    tensor._backward_hooks = OmegaConf.create({"a": "${oc.env:HOME}"})
    assert "is stored outside it" in str(unsafe_value({"extra_state": [tensor]}))


def test_models_of_many_languages_are_left_alone():
    languages = [f"l{number:03}_Latn" for number in range(202)]
    pairs = [f"{one}-{other}" for one in languages for other in languages if one != other]
    task = Namespace(lang_pairs=pairs, sampling_weights={"main:de-en": 0.5, "mined:de-en": 0.5})
    for state in (
        {"args": task},
        {"cfg": {"task": task, "model": Namespace(**vars(task), x=",".join(pairs))}},
    ):
        assert unsafe_value(state) is None
    assert (
        unsafe_value(
            {"cfg": {"x": ["$" + "x" * 9000] * 200, 10**5000: 1, "y": {10**5000: Namespace(x=1)}}}
        )
        is None
    )


def test_what_checkpoints_hold_besides_is_left_alone():
    circle = {
        "model": {"weight": torch.zeros(2)},
        "extra_state": {"meters": OrderedDict(a=AverageMeter())},
        "array": numpy.zeros(2),
        "scalar": numpy.float32(1),
    }
    circle["itself"] = [circle, Dictionary(), Namespace(x=dict), {1: {2}, None: frozenset((3,))}]
    assert unsafe_value(circle) is None


@pytest.mark.parametrize(
    "state",
    [
        OmegaConf.create({"cfg": {}}),
        Mapping(cfg={}),
        Counter("a"),
        with_attributes(OrderedDict(cfg={}), get=str),
    ],
    ids=repr,
)
def test_a_file_that_only_behaves_like_a_dictionary_is_refused(state):
    assert "which is not a plain dictionary" in str(unsafe_value(state))


def test_configurations_of_all_kinds_are_left_alone():
    config = OmegaConf.create({"a": {"b": [1, "x", None, 2.5], "lr": "${a.b}"}, "c": True})
    OmegaConf.set_struct(config, True)
    plain = {
        "a": [1, (2.5, None)],
        "b": {"c"},
        "d": numpy.float32(1),
        "e": numpy.int64(2),
        "f": numpy.str_("x"),
        3: True,
    }
    again = pickle.loads(pickle.dumps(config))
    for value in (
        config,
        again,
        OmegaConf.create(plain["a"][:1]),
        plain,
        Namespace(**{"x": plain}),
        OrderedDict(a=1),
    ):
        assert unsafe_value({"cfg": {"model": value}, "args": None}) is None
    assert unsafe_value(with_attributes(OrderedDict(weight=torch.zeros(1)), _metadata={})) is None


class Built:
    """What a pickle makes of a call."""

    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call[0], self.call[1:]


def test_nothing_is_looked_up_while_a_file_is_built(tmp_path):
    """Allowed types alone can ask OmegaConf to; the file would hold what was found."""
    torch.save(
        {"cfg": {"note": Built(list, Built(ListConfig, ["${oc.env:HOME}"]))}}, tmp_path / "x.pt"
    )
    with pytest.raises(CorruptCheckpointError, match="x.pt"):
        load(tmp_path / "x.pt")
    assert OmegaConf.create({"a": "${oc.env:HOME}"}).a == os.environ["HOME"]


@pytest.mark.parametrize("text",
                         [r"'a\\',' + f() #'", r"'a\\\\\\',' + f() #'", r"[f(\'x\')]", "'f()'",
                          "['f()']", "{'a': 'f()'}", "{'f()': 1}", "\"'f()'\"", "\\"])  # fmt: skip
def test_texts_that_hydra_or_fairseq_read_twice_are_refused(text):
    """What is inside a text for Python stands outside when hydra has read it, or when it is
    evaluated once more."""
    for state in (
        {"args": Namespace(adaptive_softmax_cutoff=text)},
        {"cfg": {"optimizer": {"adam_betas": text}}},
    ):
        found = unsafe_value(state)
        assert found is not None and "which fairseq would run as Python" in str(found)
        assert "\n" not in str(found)


@pytest.mark.parametrize("text",
                         ["(0.9, 0.98)", "'a'", "[(512, 3)] * 2", '{"a": "b c"}', "'", "''", '"',
                          " [1]  ", "f(", "#", "=", "{", "a'b", "'a' 'b'", "~"])  # fmt: skip
def test_hydra_leaves_other_texts_as_they_are(text):
    arguments = Namespace(
        task="language_modeling", criterion="cross_entropy", optimizer="adam",
        lr_scheduler="fixed", arch="transformer_lm", adam_betas=text
    )  # fmt: skip
    assert unsafe_value({"args": arguments}) is None
    try:
        config = convert_namespace_to_omegaconf(arguments)
    except HydraException:
        return
    assert config.optimizer.adam_betas == text


def test_arguments_are_a_namespace():
    """In another form they would be looked up without the check of their names."""
    for arguments in (
        {"bpe": "../x"},
        OmegaConf.create({"bpe": "../x"}),
        ["bpe"],
        5,
        "bpe",
        AnyNode("bpe"),
    ):
        assert unsafe_value({"args": arguments}).name == "args"
    found = unsafe_value({"args": Namespace(bpe="../x")})
    assert (found.name, found.value, found.reason) == (
        "bpe",
        "'../x'",
        "which is not a name of anything registered",
    )
    assert (
        unsafe_value(
            {"args": Namespace(arch="transformer_wmt_en_de", bpe=None, task="translation")}
        )
        is None
    )


def test_strange_states_are_no_concern_of_this_check():
    for state in (None, [], {}, {"cfg": None, "args": None}, {"cfg": {1: {2: 3}}}, torch.ones(2)):
        assert unsafe_value(state) is None


def test_dictionaries_of_task_states_load(tmp_path):
    """Speech models keep theirs in the checkpoint."""
    dictionary = Dictionary()
    dictionary.add_symbol("a")
    torch.save(
        {"task_state": {"target_dictionary": dictionary, "dictionaries": [dictionary]}},
        tmp_path / "x.pt",
    )
    assert load(tmp_path / "x.pt")["task_state"]["dictionaries"][0].symbols == dictionary.symbols


@pytest.mark.parametrize(
    "value, kind",
    [
        (numpy.zeros(2), "ndarray"),
        (Namespace(cfg={}), "Namespace"),
        ([{"cfg": {}}], "list"),
        ("cfg", "str"),
    ],
)
def test_a_checkpoint_is_a_dictionary(tmp_path, value, kind):
    """Others may answer to names, too."""
    torch.save(value, tmp_path / "x.pt")
    with pytest.raises(
        CorruptCheckpointError,
        match=rf"x.pt is not a checkpoint: it holds a {kind} instead of a dictionary",
    ):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "x.pt"))
    assert type(load(tmp_path / "x.pt")).__name__ == kind


def test_what_pytorch_says_of_a_file_is_shown_on_one_line(tmp_path):
    torch.save({"x": Built(torch.device, "\x1b]0;" + "x" * 9999)}, tmp_path / "x.pt")
    with pytest.raises(CorruptCheckpointError) as error:
        load(tmp_path / "x.pt")
    assert str(error.value).isprintable() and len(str(error.value)) < 1000


def test_refusals_are_values_and_true(tmp_path):
    torch.save({"cfg": {"model": {"encoder_layers": "exit()"}}}, tmp_path / "x.pt")
    with pytest.raises(
        UnsafeCheckpointError,
        match=r"x\.pt holds encoder_layers='exit\(\)', which fairseq would run as Python",
    ) as error:
        load(tmp_path / "x.pt")
    assert "\n" not in str(error.value)
    assert issubclass(UnsafeCheckpointError, ValueError) and issubclass(
        CorruptCheckpointError, ValueError
    )
    torch.save({"x": Fraction(1, 2)}, tmp_path / "y.pt")
    with pytest.raises(
        UnsafeCheckpointError,
        match=(
            r"holds fractions\.Fraction, which is none of the types that are known to be harmless"
        ),
    ):
        load(tmp_path / "y.pt")
