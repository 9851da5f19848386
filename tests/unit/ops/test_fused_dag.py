"""The kernels of the graph's dynamic programs, against all paths and against float64."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from triton_devices import DEVICES, use_kernels

from fairseq_hrt.ops import dag_best_alignment, dag_log_likelihood
from fairseq_hrt.ops.dag_likelihood import forward_backward

pytest.importorskip("triton", reason="Triton, which PyTorch brings for CUDA, is not installed")

from fairseq_hrt.ops.fused import dag

pytestmark = pytest.mark.parametrize("device", DEVICES)

VERTICES, TOKENS = (7, 5, 8, 2), (4, 5, 2, 2)


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    use_kernels(monkeypatch)
    tile(monkeypatch, 4, 2)


def tile(monkeypatch, before, after):
    """Several tiles at this size."""
    for name in ("SUMMED", "BEST", "USED"):
        monkeypatch.setattr(dag, name, (before, after, 4))
    monkeypatch.setattr(dag, "SCAN", before)


def batch(graphs, device, *, spread=1.0, seed=0, holes=0.0, vertices=VERTICES, tokens=TOKENS):
    links = graphs.links(
        len(vertices), max(vertices), vertices, seed=seed, spread=spread, dtype=torch.float32,
        holes=holes,
    )  # fmt: skip
    match = graphs.match(
        len(vertices), max(tokens), max(vertices), seed=seed, spread=spread, dtype=torch.float32
    )
    given = match, links, torch.tensor(tokens), torch.tensor(vertices)
    return tuple(tensor.to(device) for tensor in given)


def gradients(given, weights):
    """likelihood ``[B]`` and gradients of its weighted sum over possible sentences."""
    match, links = (tensor.detach().requires_grad_() for tensor in given[:2])
    found = dag_log_likelihood(match, links, *given[2:])
    possible = found.detach() > -math.inf
    (weights.to(found) * torch.where(possible, found, 0.0)).sum().backward()
    return found.detach(), match.grad, links.grad


class Sums(TorchDispatchMode):
    """Keeps what additions and subtractions return, so that no two results share an address."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if func._schema.name in ("aten::add", "aten::sub", "aten::sub_"):
            self.found.append(found)
        return found


def test_the_gradient_takes_one_table(graphs, device):
    """Of the size of both recursions, which are still needed; another one would be the peak."""
    given = batch(graphs, device)
    context = SimpleNamespace()
    context.save_for_backward = lambda *kept: setattr(context, "saved_tensors", kept)
    dag.LogLikelihood.forward(context, *given)
    with Sums() as sums:
        of_match, *_ = dag.LogLikelihood.backward(context, torch.ones(len(VERTICES), device=device))
    assert {one.data_ptr() for one in sums.found} == {of_match.data_ptr()}


@pytest.mark.parametrize("tiles", [(4, 2), (2, 4), (16, 16)])
@pytest.mark.parametrize("spread", [1.0, 8.0])
@pytest.mark.parametrize("holes", [0.0, 0.4])
def test_all_paths(graphs, device, spread, holes, tiles, monkeypatch):
    tile(monkeypatch, *tiles)
    weights = torch.tensor([1.0, 2.0, -0.5, 3.0], device=device)
    for seed in range(2):
        given = batch(graphs, device, spread=spread, seed=seed, holes=holes)
        found, of_match, of_links = gradients(given, weights)
        with torch.no_grad():
            assert torch.equal(dag_log_likelihood(*given), found)
        assert found.dtype == torch.float32
        for row, (count, length) in enumerate(zip(TOKENS, VERTICES)):
            match, links = given[0][row].double().cpu(), given[1][row].double().cpu()
            truth = graphs.Enumeration(match, links, count, length)
            assert float(found[row]) == pytest.approx(truth.likelihood, abs=1e-4)
            weight = float(weights[row])
            for own, exact in ((of_match, truth.posterior), (of_links, truth.usage)):
                torch.testing.assert_close(
                    own[row].double().cpu(), weight * exact, rtol=0, atol=1e-4
                )


def test_long_graphs_against_double_precision(graphs, device, monkeypatch):
    tile(monkeypatch, 16, 16)
    given = batch(graphs, device, spread=6.0, vertices=(40, 25, 33), tokens=(12, 7, 12), holes=0.2)
    found, of_match, of_links = gradients(given, torch.ones(3, device=device))
    truth = forward_backward(given[0].double(), given[1].double(), *given[2:])
    for own, exact in zip((found, of_match, of_links), truth):
        torch.testing.assert_close(own.double(), exact, rtol=1e-5, atol=1e-4)
    alignment = dag_best_alignment(*given)
    exact = dag_best_alignment(given[0].double(), given[1].double(), *given[2:])
    assert torch.equal(alignment, exact)


def test_partial_paths_a_factor_of_e_1000_apart(graphs, device):
    """The unlikely one is the only one that can be finished."""
    links = graphs.links(1, 5, [5], dtype=torch.float32)
    links[0, 1, 4] = links[0, 1, 3] = -math.inf
    match = torch.zeros(1, 4, 5)
    match[0, 1, 2] = -1000.0
    match[0, 2, 2] = -math.inf
    given = tuple(
        tensor.to(device) for tensor in (match, links, torch.tensor([4]), torch.tensor([5]))
    )
    found, of_match, _ = gradients(given, torch.ones(1, device=device))
    lifted = match[0].double() + torch.tensor([0, 1000.0, 0, 0]).view(4, 1)
    truth = graphs.Enumeration(lifted, links[0].double(), 4, 5)
    assert float(found[0]) == pytest.approx(truth.likelihood - 1000, abs=1e-3)
    torch.testing.assert_close(of_match[0].double().cpu(), truth.posterior, rtol=0, atol=1e-3)


def test_links_that_lead_backwards_count_as_in_double_precision(graphs, device):
    match, links, tokens, vertices = batch(graphs, device)
    links[0, 5, 1], links[2, 3, 3], links[3, 1, 0] = -0.5, -0.7, -0.2
    links[1, 4, 5:] = 0.0  # behind its last vertex
    given = match, links, tokens, vertices
    found, of_match, of_links = gradients(given, torch.ones(4, device=device))
    truth = forward_backward(match.double(), links.double(), tokens, vertices)
    for own, exact in zip((found, of_match, of_links), truth):
        torch.testing.assert_close(own.double(), exact, rtol=1e-5, atol=1e-5)
    assert of_links[0, 5, 1] > 0


def test_the_best_path_may_lead_backwards(device):
    links = torch.full((2, 9, 9), -math.inf, device=device)
    for row, path in enumerate(([0, 7, 1, 8], [0, 3, 5, 8])):
        for u, v in zip(path, path[1:]):
            links[row, u, v] = 0.0
    match = torch.zeros(2, 4, 9, device=device)
    sizes = torch.tensor([4, 4], device=device), torch.tensor([9, 9], device=device)
    expected = [[0, 2, -1, -1, -1, -1, -1, 1, 3], [0, -1, -1, 1, -1, 2, -1, -1, 3]]
    assert dag_best_alignment(match.double(), links.double(), *sizes).tolist() == expected
    assert dag_best_alignment(match, links, *sizes).tolist() == expected


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_best_alignment(graphs, device, holes):
    for seed in range(8):
        given = batch(graphs, device, spread=3.0, seed=seed, holes=holes)
        found = dag_best_alignment(*given)
        assert found.dtype == torch.long
        for row, (count, length) in enumerate(zip(TOKENS, VERTICES)):
            match, links = given[0][row].double().cpu(), given[1][row].double().cpu()
            score, path = graphs.Enumeration(match, links, count, length).best
            expected = [-1] * max(VERTICES)
            for index, vertex in enumerate(path if score > -math.inf else ()):
                expected[vertex] = index
            assert found[row].tolist() == expected


def test_equal_paths_take_the_first_vertex(graphs, device):
    """As the reference does on the host, whatever the tiles."""
    match = torch.zeros(1, 3, 8, device=device)
    links = torch.zeros(1, 8, 8, device=device).masked_fill(
        torch.ones(8, 8, device=device).tril().bool(), -math.inf
    )
    sizes = torch.tensor([3], device=device), torch.tensor([8], device=device)
    assert dag_best_alignment(match, links, *sizes).tolist() == [[0, 1, -1, -1, -1, -1, -1, 2]]


def test_more_programs_than_run_side_by_side(graphs, device):
    """Programs wait for those that began before them, and for no others."""
    if device == "cpu":
        pytest.skip("the interpreter runs programs one after the other")
    vertices, tokens = [257 - row % 5 for row in range(300)], [9 - row % 3 for row in range(300)]
    given = batch(graphs, device, vertices=vertices, tokens=tokens)
    match, links, *sizes = given
    found, of_match, of_links = gradients(given, torch.ones(300, device=device))
    truth = forward_backward(match.double(), links.double(), *sizes)
    for own, exact in zip((found, of_match, of_links), truth):
        torch.testing.assert_close(own.double(), exact, rtol=1e-5, atol=1e-4)
    expected = dag_best_alignment(match.double(), links.double(), *sizes)
    same = (dag_best_alignment(*given) == expected).all(1)
    assert float(same.float().mean()) > 0.98  # of nearly equal paths either may win


def test_sentences_without_a_path(graphs, device):
    match, links, _, vertices = batch(graphs, device, vertices=(4, 6, 6), tokens=(6, 6, 4))
    links[2, :, 5] = -math.inf
    given = match, links, torch.tensor([6, 6, 4], device=device), vertices
    match, links = match.requires_grad_(), links.requires_grad_()
    found = dag_log_likelihood(*given)
    assert found[0] == found[2] == -math.inf and found[1] > -math.inf
    found[1].backward()
    for own in (match.grad, links.grad):
        assert not own[0].any() and not own[2].any() and own[1].any() and own.isfinite().all()
    alignment = dag_best_alignment(*(tensor.detach() for tensor in given))
    assert alignment[0].eq(-1).all() and alignment[2].eq(-1).all()
    assert alignment[1].tolist() == list(range(6))


def test_padding_is_not_read(graphs, device):
    match, links, tokens, vertices = batch(graphs, device)
    weights = torch.ones(4, device=device)
    expected = gradients((match, links, tokens, vertices), weights)
    alignment = dag_best_alignment(match, links, tokens, vertices)
    match, links = match.clone(), links.clone()
    for row, (count, length) in enumerate(zip(TOKENS, VERTICES)):
        match[row, count:] = math.nan
        match[row, :, length:] = math.nan
        links[row, length:] = 5.0
        links[row, :, length:] = math.nan
    found = gradients((match, links, tokens, vertices), weights)
    for own, exact in zip(found, expected):
        assert torch.equal(own, exact)
    assert torch.equal(dag_best_alignment(match, links, tokens, vertices), alignment)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(graphs, device, dtype):
    match, links, tokens, vertices = batch(graphs, device, spread=20.0)
    given = match.to(dtype), links.to(dtype), tokens, vertices
    found, of_match, of_links = gradients(given, torch.ones(4, device=device))
    truth = forward_backward(given[0].double(), given[1].double(), tokens, vertices)
    assert found.dtype == torch.float32 and of_match.dtype == of_links.dtype == dtype
    for own, exact in zip((found, of_match, of_links), truth):
        torch.testing.assert_close(own.double(), exact, rtol=1e-2, atol=1e-2)


def test_tensors_that_are_not_contiguous(graphs, device):
    match, links, tokens, vertices = batch(graphs, device)
    weights = torch.ones(4, device=device)
    expected = gradients((match, links, tokens, vertices), weights)
    turned = match.transpose(1, 2).contiguous().transpose(1, 2), links.mT.contiguous().mT
    found = gradients((*turned, tokens.repeat_interleave(2)[::2], vertices), weights)
    for own, exact in zip(found, expected):
        assert torch.equal(own, exact)


def test_double_precision_is_computed_by_pytorch(graphs, device, monkeypatch):
    monkeypatch.setattr(dag, "_inputs", None)
    match, links, tokens, vertices = batch(graphs, device)
    found = dag_log_likelihood(match.double(), links.double(), tokens, vertices)
    assert found.dtype == torch.float64
    dag_best_alignment(match.double(), links.double(), tokens, vertices)


def test_mistakes_are_named(graphs, device):
    match, links, tokens, vertices = batch(graphs, device)
    with pytest.raises(ValueError, match="match holds NaN"):
        dag_log_likelihood(match * math.nan, links, tokens, vertices)
    with pytest.raises(ValueError, match="target_lengths"):
        dag_log_likelihood(match, links, tokens + 5, vertices)
    with pytest.raises(ValueError, match="vertex_lengths"):
        dag_best_alignment(match, links, tokens, vertices + 1)
