"""The choice of a token and a token's vector against references, and these against the
engine's."""

import math

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.modules import LearnedPositionalEmbedding
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fairseq_hrt.engine.constraints import Constraints
from fairseq_hrt.engine.embedding import PackedEmbedding
from fairseq_hrt.engine.fused import choose, embed
from fairseq_hrt.engine.fused.output import choose_reference, embed_reference

PAD, EOS, UNK = 1, 2, 3
SPECIAL = dict(pad=PAD, eos=EOS, unk=UNK)
TYPES = st.sampled_from([torch.float32, torch.float16])
TOLERANCE = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}
# Sums in another order may fall on the other side of a rounding of a logit.
LOGITS = {torch.float32: 2e-5, torch.float16: 2e-2, torch.bfloat16: 0.2}


def normal(*shape, dtype=torch.float32, device="cpu"):
    return torch.randn(shape).to(device, dtype)


def flags(rows, device, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    forbid, only = torch.rand(2, rows, generator=generator).lt(0.4).to(device)
    return dict(forbid_eos=forbid, only_eos=only)


def norm_of(width, dtype, device):
    return (
        1 + normal(width, dtype=dtype, device=device) / 4,
        normal(width, dtype=dtype, device=device) / 4,
        1e-5,
    )


def compare_choice(device, rows, width, words, dtype, *, bias, norm, temperature, unkpen, seed=0):
    x = normal(rows, width, dtype=dtype, device=device)
    weight = normal(words, width, dtype=dtype, device=device) / width**0.5
    # </s> and <unk> are among the best words, so that the constraints decide.
    own_bias = normal(words, dtype=dtype, device=device) if bias else None
    if own_bias is not None:
        own_bias[1:4] += 3
    parts = norm_of(width, dtype, device) if norm else None
    options = dict(
        norm=parts, temperature=temperature, unkpen=unkpen, **SPECIAL,
        **flags(rows, device, seed=seed),
    )  # fmt: skip
    token, log_prob = choose(x, weight, own_bias, **options)
    wide = None if parts is None else (parts[0].double(), parts[1].double(), parts[2])
    expected, best = choose_reference(
        x.double(), weight.double(), None if own_bias is None else own_bias.double(),
        **{**options, "norm": wide},
    )  # fmt: skip
    assert token.dtype == torch.int64 and log_prob.dtype == torch.float32
    tolerance = LOGITS[dtype] / min(temperature, 1.0)
    torch.testing.assert_close(log_prob, best.float(), rtol=tolerance, atol=tolerance)
    if dtype == torch.float32:
        assert torch.equal(token, expected)
    only = options["only_eos"]
    assert token[only].eq(EOS).all() and not token.eq(PAD).any()
    assert not token[options["forbid_eos"] & ~only].eq(EOS).any()
    if unkpen == math.inf:
        assert not token.eq(UNK).any()


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 20),
    width=st.integers(1, 70),
    words=st.integers(5, 300),
    dtype=TYPES,
    bias=st.booleans(),
    norm=st.booleans(),
    temperature=st.sampled_from([1.0, 0.5, 2.0]),
    unkpen=st.sampled_from([0.0, 1.5, -1.0, math.inf]),
    seed=st.integers(0, 99),
)
def test_any_choice(device, rows, width, words, dtype, bias, norm, temperature, unkpen, seed):
    compare_choice(
        device, rows, width, words, dtype, bias=bias, norm=norm, temperature=temperature,
        unkpen=unkpen, seed=seed,
    )  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", list(LOGITS))
@pytest.mark.parametrize("rows", [1, 8, 32])
@pytest.mark.parametrize("norm", [False, True])
def test_vocabularies_of_real_models(device, dtype, rows, norm):
    if device.type != "cuda":
        pytest.skip("too large for the interpreter")
    for width, words in ((512, 32768), (1024, 42024)):
        compare_choice(
            device, rows, width, words, dtype, bias=True, norm=norm, temperature=1.0, unkpen=0.0
        )


def peaked(device, words=300):
    """Rows that ask for one word each: logits are the weight's columns."""
    return torch.eye(8, device=device)[:3], torch.zeros(words, 8, device=device)


def test_the_first_of_equal_tokens(device):
    """In one block and in two."""
    x, weight = peaked(device)
    weight[[200, 20, 290], [0, 0, 0]] = 5.0
    weight[[140, 135, PAD], [1, 1, 1]] = 5.0
    none = torch.zeros(3, dtype=torch.bool, device=device)
    token, _ = choose(x, weight, **SPECIAL, forbid_eos=none, only_eos=none)
    assert token.tolist() == [20, 135, 0]


def test_a_row_that_has_to_end_does_so_even_if_it_must_not(device):
    x, weight = normal(3, 16, device=device), normal(300, 16, device=device)
    forbid = torch.tensor([True, True, False], device=device)
    only = torch.tensor([True, False, True], device=device)
    token, log_prob = choose(x, weight, **SPECIAL, forbid_eos=forbid, only_eos=only)
    assert token.eq(EOS).tolist() == [True, False, True]
    expected = torch.log_softmax(x @ weight.t(), -1)[:, EOS]
    torch.testing.assert_close(log_prob[only], expected[only])


@pytest.mark.parametrize("place", [5, 250, PAD])
def test_a_nan_anywhere_gives_nan(device, place):
    """Of a word that may be chosen or not; the row's own, or of all words."""
    x, weight = peaked(device)
    weight[place, 1] = float("inf")
    x[2, 3] = float("nan")
    none = torch.zeros(3, dtype=torch.bool, device=device)
    for only in (none, ~none):
        # inf * 0 is NaN in rows 0 and 2 as well; row 1 has one infinite logit.
        token, log_prob = choose(x, weight, **SPECIAL, forbid_eos=none, only_eos=only)
        assert log_prob.isnan().all() and ((token >= 0) & (token < 300)).all()
    _, log_prob = choose(x, peaked(device)[1], **SPECIAL, forbid_eos=none, only_eos=none)
    assert log_prob.isnan().tolist() == [False, False, True]


def test_rows_of_a_wider_tensor(device):
    wide, weight = normal(4, 3, 16, device=device), normal(40, 16, device=device)
    options = dict(**SPECIAL, **flags(4, device))
    token, log_prob = choose(wide[:, 1], weight, **options)
    expected = choose_reference(wide[:, 1], weight, **options)
    assert torch.equal(token, expected[0])
    torch.testing.assert_close(log_prob, expected[1])


@pytest.mark.gpu
def test_captured(device):
    if device.type != "cuda":
        pytest.skip("graphs need a GPU")
    x = normal(4, 512, dtype=torch.float16, device=device)
    weight = normal(32768, 512, dtype=torch.float16, device=device)
    table = normal(64, 512, dtype=torch.float16, device=device)
    position = torch.zeros(1, dtype=torch.long, device=device)
    options = dict(**SPECIAL, **flags(4, device))

    def step():
        token, log_prob = choose(x, weight, **options)
        return token, log_prob, embed(token, weight, table, position, scale=2.0)

    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    x.normal_()
    position.fill_(7)
    graph.replay()
    for own, expected in zip(found, step()):
        assert torch.equal(own, expected)


@pytest.mark.parametrize("step", [0, 3, 6])
@pytest.mark.parametrize("unkpen", [0.0, 0.7, math.inf])
def test_reference_keeps_the_constraints_of_the_engine(step, unkpen):
    dictionary = Dictionary()
    for number in range(8):
        dictionary.add_symbol(f"w{number}")
    limits = torch.tensor([2, 6, 9, 3])
    x, weight, bias = torch.randn(4, 6), torch.randn(12, 6), torch.zeros(12)
    bias[:4] += 4
    rules = Constraints(dictionary, min_length=4, max_lengths=limits, unkpen=unkpen)
    log_probs = torch.log_softmax(x @ weight.t() + bias, -1)
    best, token = rules.apply(log_probs, step, torch.arange(4), 1, None).max(1)
    only = step >= limits
    found = choose_reference(
        x, weight, bias, pad=dictionary.pad(), eos=dictionary.eos(), unk=dictionary.unk(),
        unkpen=unkpen, forbid_eos=(step < limits) & (step < 4), only_eos=only,
    )  # fmt: skip
    assert torch.equal(found[0], token)
    torch.testing.assert_close(found[1], best)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 5),
    width=st.integers(1, 40),
    dtype=TYPES,
    places=st.sampled_from([None, "one", "each"]),
    norm=st.booleans(),
    zero=st.sampled_from([None, 1]),
)
def test_any_vector(device, rows, width, dtype, places, norm, zero):
    token = torch.randint(0, 5, (rows,)).to(device)
    table = normal(5, width, dtype=dtype, device=device)
    vectors = normal(7, width, dtype=dtype, device=device) if places else None
    position = None
    if places:
        # Also one behind the table.
        position = torch.randint(0, 9, (1 if places == "one" else rows,)).to(device)
    parts = norm_of(width, dtype, device) if norm else None
    args = (token, table, vectors, position)
    found = embed(*args, scale=1.5, norm=parts, zero=zero)
    expected = embed_reference(*args, scale=1.5, norm=parts, zero=zero)
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("zero", [None, 4])
def test_reference_is_the_embedding_of_the_engine(norm, positions, zero):
    own_norm = nn.LayerNorm(6) if norm else None
    module = LearnedPositionalEmbedding(12, 6, PAD) if positions else None
    packed = PackedEmbedding(
        torch.randn(9, 6), scale=2.0, positions=module, pad=PAD, norm=own_norm, zero=zero
    )
    packed.reserve(7)
    tokens, place = torch.tensor([[4], [5], [4]]), torch.tensor([3])
    with torch.no_grad():
        expected = packed(tokens, place)[:, 0]
        found = embed(
            tokens[:, 0], packed.tokens, packed.table, place, scale=2.0, zero=zero,
            norm=None if own_norm is None else (own_norm.weight, own_norm.bias, own_norm.eps),
        )  # fmt: skip
    torch.testing.assert_close(found, expected)


def test_bad_input():
    none = torch.zeros(2, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"only_eos is torch.float32 \(2,\)"):
        x, weight = torch.zeros(2, 4), torch.zeros(9, 4)
        choose(x, weight, **SPECIAL, forbid_eos=none, only_eos=none.float())
    with pytest.raises(ValueError, match="positions_table without position"):
        embed(torch.tensor([1]), torch.zeros(4, 2), torch.zeros(4, 2), None)
