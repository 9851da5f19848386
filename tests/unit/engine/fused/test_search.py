"""The choice of words from logits against references, and these against the engine's rules."""

import math
import os

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.utils import apply_to_sample
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fairseq_hrt.engine import static_rows, static_search
from fairseq_hrt.engine.constraints import Constraints
from fairseq_hrt.engine.fused import best_continuations, best_words, search
from fairseq_hrt.engine.fused.search import best_continuations_reference, best_words_reference
from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.native.options.values import DecodingOptions

PAD, EOS, UNK = 1, 2, 3
SPECIAL = dict(pad=PAD, eos=EOS, unk=UNK)
# The interpreter is too slow for shrinking.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
TYPES = st.sampled_from([torch.float32, torch.float16])
TEMPERATURES = st.sampled_from([1.0, 0.5, 3.0])
UNKPENS = st.sampled_from([0.0, 1.5, -1.0, math.inf])
# Behind the temperature, logits are rounded, and PyTorch may multiply by its inverse.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 1e-5, torch.bfloat16: 1e-5}
ROUNDED = {torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 0.1}


@pytest.fixture(params=["as on a GPU", "small blocks"])
def blocks(request, monkeypatch):
    """Small blocks, so that small vocabularies have several blocks and parts."""
    if request.param == "small blocks":
        small_blocks(monkeypatch)


def small_blocks(monkeypatch, lanes=64):
    monkeypatch.setattr(search, "WIDE_BLOCK", 32)
    monkeypatch.setattr(search, "BLOCK", 16)
    monkeypatch.setattr(search, "BUSY", 12)
    monkeypatch.setattr(search, "MOST_LANES", lanes)


def some_logits(rows, words, dtype, device, *, seed, ties=False, gaps=False):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, words + (5 if gaps else 0), generator=generator)
    # </s> and <unk> are among the best words, so that the rules decide.
    logits[:, 1:4] += 4
    if ties:
        logits = logits.round()
    return logits.to(device, dtype)[:, :words]


def some_flags(rows, device, *, seed):
    generator = torch.Generator().manual_seed(seed)
    forbid, only = torch.rand(2, rows, generator=generator).lt(0.3).to(device)
    return dict(forbid_eos=forbid, only_eos=only)


def compare_words(
    device, rows, words, dtype, *, temperature, penalties, flags, forced, gaps=False, seed=0
):
    logits = some_logits(rows, words, dtype, device, seed=seed, ties=True, gaps=gaps)
    options = dict(temperature=temperature, penalties=penalties, eos=EOS)
    if flags:
        options.update(some_flags(rows, device, seed=seed))
    if forced:
        options["forced"] = torch.randint(-words, words, (rows,), device=device)
    before = logits.clone()
    log_prob, token = best_words(logits, **options)
    assert torch.equal(before, logits)
    best, expected = best_words_reference(logits, **options)
    assert token.dtype == torch.int64 and log_prob.dtype == torch.float32
    tolerance = (TOLERANCE if temperature == 1.0 else ROUNDED)[dtype]
    torch.testing.assert_close(log_prob, best, rtol=tolerance, atol=tolerance)
    if dtype == torch.float32 and temperature != 3.0:
        # Rounded logits are equal or far apart, the first of equal ones is chosen.
        assert torch.equal(token, expected)


@settings(max_examples=25, deadline=None, phases=PHASES)
@given(
    rows=st.integers(1, 40),
    words=st.integers(5, 300),
    dtype=TYPES,
    temperature=TEMPERATURES,
    penalties=st.sampled_from(
        [None, {PAD: math.inf}, {PAD: math.inf, UNK: 1.5}, {0: math.inf, UNK: -1.7, 4: 0.3}]
    ),
    flags=st.booleans(),
    forced=st.booleans(),
    gaps=st.booleans(),
    seed=st.integers(0, 99),
    small=st.booleans(),
)
def test_any_words(
    device, rows, words, dtype, temperature, penalties, flags, forced, gaps, seed, small
):
    with pytest.MonkeyPatch.context() as patch:
        if small:
            small_blocks(patch)
        compare_words(
            device, rows, words, dtype, temperature=temperature, penalties=penalties, flags=flags,
            forced=forced, gaps=gaps, seed=seed,
        )  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("rows", [1, 40, 200, 700])
def test_words_of_real_vocabularies(device, dtype, rows):
    if device.type != "cuda":
        pytest.skip("too large for the interpreter")
    for words in (32768, 42024, 70001):
        compare_words(
            device, rows, words, dtype, temperature=1.0, penalties={PAD: math.inf, UNK: 1.5},
            flags=True, forced=rows == 200,
        )  # fmt: skip


def test_the_first_of_equal_words(device, blocks):
    """In one block, in two and in two parts."""
    logits = torch.zeros(3, 90, device=device)
    logits[0, [80, 12, 11]] = 2.0
    logits[1, [70, 40, PAD]] = 2.0
    _, token = best_words(logits, penalties={PAD: math.inf})
    assert token.tolist() == [11, 40, 0]


@pytest.mark.parametrize("place", [0, PAD, EOS, 77])
@pytest.mark.parametrize("forced", [False, True])
def test_a_nan_anywhere_is_the_log_probability(device, blocks, place, forced):
    logits = torch.zeros(3, 90, device=device)
    logits[1, place] = math.nan
    logits[2] = -math.inf
    given = torch.full((3,), 5, device=device) if forced else None
    only = torch.zeros(3, dtype=torch.bool, device=device)
    for flag in (only, ~only):
        log_prob, token = best_words(
            logits, penalties={PAD: math.inf}, eos=EOS, forced=given, only_eos=flag
        )
        assert log_prob.isnan().tolist() == [False, True, True]
        assert ((token >= 0) & (token < 90)).all()


def test_words_that_are_impossible(device, blocks):
    """What has to be chosen is chosen; otherwise the first word, with log-probability -inf."""
    logits = torch.full((3, 90), -math.inf, device=device)
    logits[:, PAD] = 0.0
    given = torch.tensor([-1, 80, EOS], device=device)
    log_prob, token = best_words(logits, penalties={PAD: math.inf}, forced=given)
    assert log_prob.tolist() == [-math.inf] * 3 and token.tolist() == [0, 80, EOS]


@pytest.mark.parametrize("step", [0, 3, 6])
@pytest.mark.parametrize("unkpen", [0.0, 0.7, math.inf])
def test_references_keep_the_constraints_of_the_engine(step, unkpen):
    """Greedy search and beam search, by the rules that both take."""
    dictionary = Dictionary()
    for number in range(8):
        dictionary.add_symbol(f"w{number}")
    limits = torch.tensor([2, 6, 9, 3])
    rules = Constraints(dictionary, min_length=4, max_lengths=limits, unkpen=unkpen)
    ids = dict(pad=dictionary.pad(), eos=dictionary.eos(), unk=dictionary.unk())
    flags = dict(forbid_eos=torch.full((4,), step < 4), only_eos=step >= limits)
    logits = some_logits(12, 12, torch.float32, "cpu", seed=step)
    log_probs = torch.log_softmax(logits, -1)

    single = rules.apply(log_probs[:4].clone(), step, torch.arange(4), 1, None)
    best, token = best_words(
        logits[:4], penalties={ids["pad"]: math.inf, ids["unk"]: unkpen}, eos=ids["eos"], **flags
    )
    assert torch.equal(token, single.argmax(1))
    torch.testing.assert_close(best, single.amax(1))

    totals = torch.randn(4, 3)
    totals[1, 2] = -math.inf
    whole = rules.apply(log_probs, step, torch.arange(4), 3, None).view(4, 3, -1)
    scores, flat = (whole + totals.unsqueeze(2)).flatten(1).topk(6)
    found = best_continuations(logits, totals, count=6, **ids, unkpen=unkpen, **flags)
    torch.testing.assert_close(found[0], scores)
    possible = scores > -math.inf
    assert torch.equal((found[2] * 12 + found[1])[possible], flat[possible])


def sorted_continuations(logits, totals, *, count, **options):
    """All continuations, sorted."""
    size = totals.size(1) * logits.size(1)
    scores, tokens, parents = best_continuations_reference(logits, totals, count=size, **options)
    # In the order of the hypotheses and words.
    order = (parents * logits.size(1) + tokens).sort(1).indices
    whole = scores.gather(1, order)
    scores, flat = whole.sort(dim=1, descending=True, stable=True)
    scores, flat = scores[:, :count], flat[:, :count]
    return scores, flat % logits.size(1), flat // logits.size(1)


def compare_continuations(
    device, batch, beams, words, count, dtype, *, temperature, unkpen, flags, ties, gaps=False,
    seed=0,
):  # fmt: skip
    logits = some_logits(batch * beams, words, dtype, device, seed=seed, ties=ties, gaps=gaps)
    generator = torch.Generator().manual_seed(seed)
    totals = torch.randn(batch, beams, generator=generator)
    if ties:
        # Rows that are equal, too.
        totals = totals.round()
        logits[1::2] = logits[: len(logits) // 2 * 2 : 2]
    totals[torch.rand(batch, beams, generator=generator) < 0.2] = -math.inf
    totals = totals.to(device)
    options = dict(temperature=temperature, **SPECIAL, unkpen=unkpen)
    if flags:
        options.update(some_flags(batch, device, seed=seed))
    before = logits.clone()
    scores, tokens, parents = best_continuations(logits, totals, count=count, **options)
    assert torch.equal(before, logits)
    expected = sorted_continuations(logits, totals, count=count, **options)
    assert (scores.dtype, tokens.dtype, parents.dtype) == (torch.float32, *[torch.int64] * 2)
    tolerance = (TOLERANCE if temperature == 1.0 else ROUNDED)[dtype]
    torch.testing.assert_close(scores, expected[0], rtol=tolerance, atol=tolerance)
    assert ((tokens >= 0) & (tokens < words)).all() and ((parents >= 0) & (parents < beams)).all()
    # Distances that are larger than what sums in another order differ by decide everywhere.
    gap = (expected[0][:, 1:] - expected[0][:, :-1]).abs() < 4 * tolerance
    if temperature == 1.0 and (ties or not gap.any()):
        possible = expected[0] > -math.inf
        # The penalty of <unk> and other totals give equal scores that are rounded differently.
        if unkpen in (0.0, math.inf) and not (ties and beams > 1):
            assert torch.equal(tokens[possible], expected[1][possible])
            assert torch.equal(parents[possible], expected[2][possible])
    # Each at most once, and each with its own score.
    flat = parents * words + tokens
    possible = scores > -math.inf
    for row, exists in zip(flat.tolist(), possible.tolist()):
        real = [one for one, there in zip(row, exists) if there]
        assert len(set(real)) == len(real)
    whole = sorted_continuations(logits, totals, count=beams * words, **options)
    table = torch.empty(batch, beams * words, device=device)
    table.scatter_(1, whole[2] * words + whole[1], whole[0])
    torch.testing.assert_close(
        scores[possible], table.gather(1, flat)[possible], rtol=tolerance, atol=tolerance
    )


@settings(max_examples=30, deadline=None, phases=PHASES)
@given(
    batch=st.integers(1, 4),
    beams=st.integers(1, 6),
    words=st.integers(6, 200),
    extra=st.integers(0, 3),
    dtype=TYPES,
    temperature=TEMPERATURES,
    unkpen=UNKPENS,
    flags=st.booleans(),
    ties=st.booleans(),
    gaps=st.booleans(),
    seed=st.integers(0, 99),
    small=st.booleans(),
)
def test_any_continuations(
    device, batch, beams, words, extra, dtype, temperature, unkpen, flags, ties, gaps, seed, small
):
    with pytest.MonkeyPatch.context() as patch:
        if small:
            small_blocks(patch, 128)
        compare_continuations(
            device, batch, beams, words, min(2 * beams + extra, beams * words - 1), dtype,
            temperature=temperature, unkpen=unkpen, flags=flags, ties=ties, gaps=gaps, seed=seed,
        )  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("batch, beams", [(1, 5), (128, 5), (3, 10), (2, 16)])
def test_continuations_of_real_vocabularies(device, dtype, batch, beams):
    if device.type != "cuda":
        pytest.skip("too large for the interpreter")
    for words in (32768, 42024, 70001):
        compare_continuations(
            device, batch, beams, words, 2 * beams, dtype, temperature=1.0, unkpen=0.0, flags=True,
            ties=False,
        )  # fmt: skip


def plain(device, beams=3, words=90):
    """Two sentences, all of whose words are equally probable."""
    return torch.zeros(2 * beams, words, device=device), torch.zeros(2, beams, device=device)


def test_equal_scores_in_the_order_of_hypotheses_and_words(device, blocks):
    logits, totals = plain(device)
    totals[0, 0] = -1.0
    _, tokens, parents = best_continuations(logits, totals, count=6, **SPECIAL)
    assert tokens.tolist() == [[0, 2, 3, 4, 5, 6]] * 2
    assert parents.tolist() == [[1] * 6, [0] * 6]
    logits[3:, 4:] = -1.0
    _, tokens, parents = best_continuations(logits, totals, count=6, **SPECIAL)
    assert tokens.tolist()[1] == [0, 2, 3, 0, 2, 3] and parents.tolist()[1] == [0] * 3 + [1] * 3
    # The best words are the last ones of their part.
    logits[3:] = torch.arange(90, device=device) / 10.0
    _, tokens, parents = best_continuations(logits, totals, count=6, **SPECIAL)
    assert tokens.tolist()[1] == [89] * 3 + [88] * 3 and parents.tolist()[1] == [0, 1, 2] * 2
    # Minus zero is zero.
    logits[3:] = -1.0
    logits[3, [20, 21, 50, 51]] = torch.tensor([-0.0, 0.0, -0.0, 0.0], device=device)
    _, tokens, _ = best_continuations(logits, totals, count=2, **SPECIAL)
    assert tokens.tolist()[1] == [20, 21]


@pytest.mark.parametrize("place", [0, PAD, EOS, UNK, 77])
@pytest.mark.parametrize(
    "total, dtype, sign", [(0.0, torch.float32, -1.0), (-math.inf, torch.float16, 1.0)]
)
def test_a_nan_anywhere_comes_first(device, blocks, place, total, dtype, sign):
    logits, totals = plain(device)
    logits = logits.to(dtype)
    logits[4, place] = math.copysign(math.nan, sign)
    totals[1, 1] = total
    none = torch.zeros(2, dtype=torch.bool, device=device)
    for flags in ({}, dict(forbid_eos=~none, only_eos=none), dict(only_eos=~none)):
        scores, tokens, parents = best_continuations(
            logits, totals, count=6, **SPECIAL, unkpen=math.inf, **flags
        )
        assert scores[:, 0].isnan().tolist() == [False, True]
        assert ((tokens >= 0) & (tokens < 90)).all() and ((parents >= 0) & (parents < 3)).all()


def test_a_total_that_is_nan_and_logits_that_are_minus_infinity(device, blocks):
    logits, totals = plain(device)
    totals[0, 2] = math.nan
    logits[5] = -math.inf
    scores, _, _ = best_continuations(logits, totals, count=6, **SPECIAL)
    assert scores[:, 0].isnan().all()


def test_a_sentence_that_has_to_end(device, blocks):
    logits, totals = plain(device)
    totals[0] = torch.tensor([-2.0, -math.inf, -1.0])
    only = torch.tensor([True, False], device=device)
    scores, tokens, parents = best_continuations(
        logits, totals, count=6, **SPECIAL, only_eos=only, forbid_eos=torch.ones_like(only)
    )
    own = math.log(90)
    assert scores[0].tolist() == pytest.approx([-1 - own, -2 - own] + [-math.inf] * 4)
    assert tokens[0, :2].tolist() == [EOS] * 2 and parents[0, :2].tolist() == [2, 0]
    assert tokens[1].tolist() == [0, 3, 4, 5, 6, 7]


POINTERS = dict(
    forced="*i64", forbid_eos="*u8", only_eos="*u8", picks="*i32", tokens="*i64", parents="*i64",
    temperature="fp32", unkpen="fp32", tops="*fp32", peaks="*fp32", sums="*fp32", totals="*fp32",
    scores="*fp32",
)  # fmt: skip
FORMATS = {"*fp16": (True, -(2**31)), "*bf16": (True, -(2**31)), "*fp32": (False, -(2**62))}


@pytest.mark.parametrize("logits", list(FORMATS))
@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("few", [False, True])
def test_kernels_compile(logits, capability, few):
    """The interpreter accepts more than the compiler, which needs no GPU."""
    pytest.importorskip("triton", reason="Triton, which PyTorch brings for CUDA, is not installed")
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("kernels are interpreted: unset TRITON_INTERPRET")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    from fairseq_hrt.engine.fused import search_kernels

    half, least = FORMATS[logits]
    flags = {} if few else dict(forbid_eos=None, only_eos=None)
    key = dict(HALF=half, LEAST=least, SCALED=few)
    cases = [
        (
            search_kernels.best_of_part,
            dict(
                PENALISED=(PAD, UNK), PENALTIES=(math.inf, 0.5), COUNT=2, BLOCK=1024 if few else
                4096, ALIGN=8, SCALED=few, WHOLE=not few, forced=None, **flags,
                **({} if few else dict(picks=None, peaks=None, sums=None, splits=1)),
            ),
        ),
        (search_kernels.top_of_part, dict(COUNT=10, PLACES=16, BLOCK=2048, ALIGN=16, pad=1, **key)),
        (
            search_kernels.top_of_sentence,
            dict(
                BEAMS=5, COUNT=10, ROWS=8, PARTS=32 if few else 1, LANES=512 if few else 16,
                PLACES=16, WITH_UNK=few, **key, **flags, **({} if few else dict(splits=1)),
            ),
        ),
    ]  # fmt: skip
    kinds = dict(**POINTERS, logits=logits, keys="*i32" if half else "*i64")
    for kernel, constants in cases:
        names = kernel.arg_names
        source = ASTSource(
            fn=kernel,
            signature={
                name: "constexpr" if name in constants else kinds.get(name, "i32") for name in names
            },
            constexprs={(names.index(name),): value for name, value in constants.items()},
            attrs={
                (names.index(name),): [["tt.divisibility", 16]]
                for name in ("logits", "stride", "words", "part")
                if name in names
            },
        )
        found = compile(
            source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 4}
        ).asm
        assert found["cubin"]
        if kernel is not search_kernels.top_of_sentence:
            # 16 bytes at once.
            assert "ld.global.v4.b32" in found["ptx"]


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [4, 300])
def test_captured(device, rows):
    if device.type != "cuda":
        pytest.skip("graphs need a GPU")
    logits = some_logits(5 * rows, 32768, torch.float16, device, seed=0)
    totals = torch.randn(rows, 5, device=device)
    single = dict(penalties={PAD: math.inf}, eos=EOS, **some_flags(rows, device, seed=0))
    several = dict(**SPECIAL, count=10, **some_flags(rows, device, seed=1))

    def step():
        return (
            *best_words(logits[:rows], **single),
            *best_continuations(logits, totals, **several),
        )

    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    logits.normal_()
    totals.normal_()
    single["only_eos"].logical_not_()
    several["forbid_eos"].logical_not_()
    graph.replay()
    for own, expected in zip(found, step()):
        assert torch.equal(own, expected)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_search_by_the_kernels(device, tiny, monkeypatch, beam):
    """Beside the search that the host leads, which takes words from all log-probabilities."""
    monkeypatch.setattr(static_rows, "MOST_ROWS", 0)
    calls = []
    for module, name in ((static_rows, "best_words"), (static_search, "best_continuations")):
        own = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, own=own, **k: calls.append(0) or own(*a, **k))
    model = tiny.lively(seed=1).float().to(device)
    sample = apply_to_sample(lambda part: part.to(device), tiny.sample([4, 2], seed=1))
    options = DecodingOptions(
        beam=beam, max_len_a=0, max_len_b=4, min_len=2, unkpen=0.5, temperature=0.9
    )
    found = []
    for captured in (False, True):
        generator = AutoregressiveGenerator([model], tiny.dictionary(), options)
        generator.uses_graphs = captured
        found.append(generator.find(sample))
        assert bool(calls) == captured
    for mine, theirs in zip(*found, strict=True):
        assert [one.tokens for one in mine] == [one.tokens for one in theirs]
        assert [one.score for one in mine] == pytest.approx([one.score for one in theirs], abs=1e-4)


def test_what_kernels_do_not_take():
    """float64, many rows of a sentence, many penalties: by the references."""
    logits = torch.randn(6, 40, dtype=torch.float64)
    best, token = best_words(logits, penalties={word: 1.0 * word for word in range(20)})
    assert best.dtype == torch.float64 and token.dtype == torch.int64
    found = best_continuations(logits, logits.new_zeros(1, 6), count=40, **SPECIAL)
    assert found[0].shape == (1, 40) and found[0].dtype == torch.float64
    assert best_words(torch.zeros(0, 9))[1].shape == (0,)


def test_bad_input():
    logits, none = torch.zeros(4, 9), torch.zeros(4, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"only_eos is torch.float32 \(4,\)"):
        best_words(logits, only_eos=none.float())
    with pytest.raises(ValueError, match=r"forced is torch.int64 \(2,\); give a LongTensor \[4\]"):
        best_words(logits, forced=torch.zeros(2, dtype=torch.long))
    with pytest.raises(ValueError, match=r"forbid_eos is torch.bool \(4,\).*BoolTensor \[2\]"):
        best_continuations(logits, torch.zeros(2, 2), count=4, **SPECIAL, forbid_eos=none)
    with pytest.raises(ValueError, match="give torch.float32 \\[B, N\\] with B \\* N = 4"):
        best_continuations(logits, torch.zeros(2, 3), count=4, **SPECIAL)
