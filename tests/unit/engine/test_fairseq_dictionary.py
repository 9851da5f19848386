"""The dictionary of our tasks gives what fairseq's gives, without touching an element of a
tensor."""

import copy

import pytest
import torch
from fairseq.data import Dictionary
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.engine import TaskDictionary

KNOWN = ["a", "b@@", "c", "▁d", "e|"]
LINES = st.lists(st.sampled_from([*KNOWN, "new", "</s>", "<unk>"]), max_size=6).map(" ".join)


def filled(kind):
    dictionary = kind()
    for word in KNOWN:
        dictionary.add_symbol(word)
    return dictionary


OURS, FAIRSEQS = filled(TaskDictionary), filled(Dictionary)


def no_elements(*_):
    raise AssertionError("a tensor was read element by element")


@given(
    ids=st.lists(st.integers(0, len(OURS) + 1), max_size=8),
    kind=st.sampled_from([torch.long, torch.int]),
    lines=st.sampled_from([None, 1, 3]),
    options=st.fixed_dictionaries(
        {},
        optional=dict(
            bpe_symbol=st.sampled_from(["@@ ", "sentencepiece", None]),
            escape_unk=st.booleans(),
            extra_symbols_to_ignore=st.sets(st.integers(0, 6)),
            unk_string=st.just("?"),
            include_eos=st.booleans(),
            separator=st.just("_"),
        ),
    ),
)
def test_ids_are_the_same_text(ids, kind, lines, options):
    tensor = torch.tensor(ids, dtype=kind)
    if lines is not None:
        tensor = tensor.expand(lines, -1)
    assert OURS.string(tensor, **options) == FAIRSEQS.string(tensor, **options)
    assert OURS.string(ids, **options) == FAIRSEQS.string(ids, **options)


@given(
    line=LINES,
    options=st.fixed_dictionaries(
        {},
        optional=dict(
            line_tokenizer=st.just(list),
            add_if_not_exist=st.booleans(),
            append_eos=st.booleans(),
            reverse_order=st.booleans(),
        ),
    ),
)
def test_a_line_has_the_same_ids(line, options):
    found = []
    for dictionary in (copy.deepcopy(OURS), copy.deepcopy(FAIRSEQS)):
        seen = []
        ids = dictionary.encode_line(
            line, **options, consumer=lambda *pair, seen=seen: seen.append(pair)
        )
        assert torch.equal(ids, copy.deepcopy(dictionary).encode_line(line, **options))
        found.append((ids.dtype, ids.tolist(), seen, dictionary.symbols, dictionary.count))
    assert found[0] == found[1]


class Whole(torch.Tensor):
    """A tensor that is not taken apart. A class of its own: methods of torch.Tensor cannot be put
    back as they were."""

    __iter__ = __getitem__ = __setitem__ = item = __index__ = __eq__ = no_elements
    __hash__ = torch.Tensor.__hash__


def test_no_element_of_a_tensor_is_touched():
    tokens = OURS.encode_line("a new c", add_if_not_exist=False).as_subclass(Whole)
    assert OURS.string(tokens) == "a <unk> c"
    with pytest.raises(AssertionError, match="element by element"):
        FAIRSEQS.string(tokens)
