"""Paths by one function of fixed shapes: equal to the ordinary search, and fit for a recording."""

import copy
import logging

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_device import OnDevice, SimulatedDevice
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_hrt.dag.generator import DagGenerator
from fairseq_hrt.dag.static import StaticPaths
from fairseq_hrt.engine.buckets import LENGTHS
from fairseq_hrt.native.decoding import NumericalError
from fairseq_hrt.native.options.values import DecodingOptions

STRATEGIES = ["greedy", "lookahead", "viterbi", "joint-viterbi"]


def lively(family, **options):
    """A model whose vertices write different words, often more than one of them, and would rather
    write what is forbidden."""
    model = family.dag(**options)
    decoder = model.decoder
    torch.manual_seed(options.get("seed", 1))
    with torch.no_grad():
        vectors = torch.randn_like(decoder.output_projection.weight)
        vectors[:4] *= 2
        decoder.output_projection.weight.copy_(vectors)
        decoder.embed_tokens.weight.div_(20)
        for layer in decoder.layers:
            for block, share in (
                (layer.encoder_attn.out_proj, 0.3),
                (layer.self_attn.out_proj, 0.1),
                (layer.fc2, 0.15),
            ):
                block.weight.mul_(share)
                block.bias.zero_()
            for norm in (
                layer.final_layer_norm,
                layer.self_attn_layer_norm,
                layer.encoder_attn_layer_norm,
            ):
                norm.bias.zero_()
        for part in (decoder.links.query, decoder.links.key):
            part.weight.mul_(0.3)
    return model


def both(family, model, strategy, **options):
    """Two generators for one model: the ordinary one, and that of fixed shapes, which may not fall
    back on it."""
    chosen = DecodingOptions(
        **{
            "dag_decode_strategy": strategy,
            "dag_decode_upsample_scale": 3.0,
            "unkpen": float("inf"),
            **options,
        }
    )
    generators = [DagGenerator([model], family.dictionary(), chosen) for _ in range(2)]
    generators[0].uses_graphs, generators[1].uses_graphs = False, True
    return generators


def found(generator, model, sample):
    hypotheses = [best[0] for best in generator.find(sample)]
    return [(one.tokens, one.token_vertices, one.steps, one.token_steps) for one in hypotheses], [
        number for one in hypotheses for number in (one.score, *one.positional_scores)
    ]


def compare(family, model, sample, strategy, *, may_fall_back=False, tolerance=1e-9, **options):
    ordinary, static = both(family, model, strategy, **options)
    expected, scores = found(ordinary, model, sample)
    same, numbers = found(static, model, sample)
    assert same == expected
    assert numbers == pytest.approx(scores, abs=tolerance, rel=tolerance)
    assert may_fall_back or static.ways == ["with CUDA graphs"], static.ways


SHAPES = {
    "single": [5],
    "ragged": [5, 3, 6],
    "one token": [1],
    "one token beside others": [4, 1, 2],
    "the end of a bucket": [16],
    "one behind a bucket": [17, 3],
    "rows of padding": [7, 6, 5, 4, 9],
}


@pytest.mark.parametrize("lengths", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_batches_of_all_shapes_are_decoded_alike(family, strategy, lengths):
    compare(family, lively(family), family.sample(lengths, seed=4), strategy)


# Options of some strategies are ignored by the others' ordinary search as well.
OF_STRATEGIES = {
    "dag_decode_beta": ["lookahead"],
    "dag_decode_length_beta": ["viterbi", "joint-viterbi"],
}


@pytest.mark.parametrize(
    "options",
    [
        dict(dag_keep_repeats=True),
        dict(dag_repeats="collapsed"),
        dict(dag_decode_beta=0.4),
        dict(dag_decode_beta=0.0),
        dict(dag_decode_length_beta=1.7),
        dict(dag_decode_length_beta=-1.0),
        dict(dag_allow_unk=True, unkpen=0.5),
        dict(max_len_a=0.0, max_len_b=2),
        dict(max_len_a=0.0, max_len_b=1),
        dict(lenpen=0.0),
        dict(unnormalized=True),
        dict(dag_decode_upsample_scale=0.4),
        dict(dag_decode_upsample_scale=3.3),
        dict(dag_decode_upsample_scale=40.0),
        dict(dag_decode_upsample_scale=40.0, dag_max_graph=21),
        dict(retain_iter_history=True),
    ],
    ids=str,
)
def test_options_are_honoured(family, options):
    model, sample = lively(family), family.sample([5, 3, 6], seed=1)
    for strategy in OF_STRATEGIES.get(next(iter(options)), STRATEGIES):
        compare(family, model, sample, strategy, **options)


@pytest.mark.parametrize(
    "model",
    [
        dict(max_transition_length=2),
        dict(max_transition_length=5),
        dict(count_bos=True),
        dict(read_bos=True, upsample_base="source-words"),
        dict(link_features="feature"),
        dict(link_features="feature:sinposition"),
        dict(encoder_normalize_before=True, decoder_normalize_before=True),
        dict(encoder_learned_pos=True, decoder_learned_pos=True, max_source_positions=20),
        dict(encoder_layers=1, decoder_layers=3),
        dict(decoder_output_dim=8),
    ],
    ids=str,
)
def test_models_are_honoured(family, model):
    built = lively(family, **model)
    # The model's part is the same in all strategies: one of each kind of search.
    for strategy in ("lookahead", "joint-viterbi"):
        # A short reach leaves some vertices only by long chains of repetitions.
        compare(
            family,
            built,
            family.sample([5, 3, 18], seed=1),
            strategy,
            dag_keep_repeats="max_transition_length" in model,
        )


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_batch(family, data):
    lengths = data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=5))
    reach = data.draw(st.sampled_from([None, None, 1, 3]))
    model = lively(family, seed=data.draw(st.integers(0, 50)), max_transition_length=reach)
    compare(
        family,
        model,
        family.sample(
            lengths, seed=data.draw(st.integers(0, 50)), left_pad=data.draw(st.booleans())
        ),
        data.draw(st.sampled_from(STRATEGIES)),
        # A short reach leaves some vertices only by long chains of repetitions.
        may_fall_back=reach is not None,
        dag_decode_upsample_scale=data.draw(st.sampled_from([0.5, 1.0, 2.0, 4.5])),
        dag_decode_beta=data.draw(st.sampled_from([0.3, 1.0, 1.5])),
        dag_keep_repeats=data.draw(st.booleans()),
        max_len_a=data.draw(st.sampled_from([0.0, 0.5, 2.0])),
        max_len_b=data.draw(st.integers(1, 9)),
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_other_precisions(family, strategy, dtype, tolerance):
    model = lively(family).to(dtype)
    compare(family, model, family.sample([5, 3, 6], seed=1), strategy, tolerance=tolerance)


def test_weights_are_read_anew(family):
    model, sample = lively(family), family.sample([5, 3, 6])
    ordinary, static = both(family, model, "lookahead", static_weights=False)
    before = found(static, model, sample)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    after = found(static, model, sample)
    assert after[0] != before[0] and after[0] == found(ordinary, model, sample)[0]
    model.float()
    assert found(static, model, sample)[0] == found(ordinary, model, sample)[0]


class Recorded(TorchDispatchMode):
    """Notes the operations of the function that would be recorded, with their tensors' shapes,
    and refuses what a recording does not allow: tensors of the host, even single numbers."""

    def __init__(self):
        super().__init__()
        self.operations = []

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kernel = "CompositeImplicitAutograd"
        if torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), kernel):
            # In inference mode operations arrive here before they are taken apart.
            with self:
                return function.decompose(*args, **(kwargs or {}))
        found = function(*args, **(kwargs or {}))
        shapes = []
        for value in (*args, *(kwargs or {}).values(), found):
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, torch.Tensor):
                    assert isinstance(tensor, OnDevice), f"{function}: a tensor of the host"
                    shapes.append((tuple(tensor.shape), tensor.stride()))
        self.operations.append((str(function), shapes))
        return found


def operations(family, strategy, model, samples, **options):
    """What the function does for each sample, on a simulated device: its operations, and how often
    the host waited."""
    chosen = DecodingOptions(
        unkpen=float("inf"),
        dag_decode_strategy=strategy,
        dag_decode_upsample_scale=2.0,
        **options,
    )
    seen = []
    with SimulatedDevice() as device:
        moved = device.move(model)
        generator = DagGenerator([moved], family.dictionary(), chosen)
        generator.uses_graphs = True
        store = generator.ensemble.graphs

        def run(key, function, *inputs):
            waits, recorded = device.reads, Recorded()
            with recorded:
                found = function(*inputs)
            seen.append((key, recorded.operations, device.reads - waits))
            return found

        store.run = run
        for sample in samples:
            generator.find(device.send(sample))
        assert generator.ways == ["with CUDA graphs"]
    return seen


# All pairs of values.
@pytest.mark.parametrize(
    "strategy, keep, reach",
    [
        (strategy, keep, 4 if keep == (place % 2 == 0) else None)
        for place, strategy in enumerate(STRATEGIES) for keep in (False, True)
    ],
)  # fmt: skip
def test_the_function_can_be_recorded(family, strategy, keep, reach):
    model = lively(family, max_transition_length=reach)
    batches = [family.sample([5, 3, 6], seed=1), family.sample([16, 1, 9, 4], seed=2)]
    (one, first, waits), (other, second, again) = operations(
        family, strategy, model, batches, dag_keep_repeats=keep
    )
    assert waits == again == 0
    assert one == other and first == second


def test_other_buckets_have_other_recordings(family):
    model = lively(family)
    batches = [family.sample(lengths) for lengths in ([5], [5, 4], [17], [16])]
    keys = [key for key, _, _ in operations(family, "greedy", model, batches)]
    assert len(set(keys)) == 3 and keys[0] == keys[3]


# Operations that launch nothing.
FREE = ("view", "slice", "select", "unsqueeze", "squeeze", "expand", "transpose", "permute", "t.",
        "split", "unbind", "empty", "new_empty", "alias", "detach", "_reshape_alias")  # fmt: skip


@pytest.mark.parametrize("strategy, most", [("greedy", 142), ("joint-viterbi", 248)])
def test_few_kernels_are_launched(family, strategy, most):
    """For one sentence and two layers each, up to 32 inner vertices, two kernels for each of
    these."""
    ((_, found, _),) = operations(family, strategy, lively(family), [family.sample([5])])
    launched = [name for name, _ in found if not name.split("::")[-1][5:].startswith(FREE)]
    assert len(launched) <= most, len(launched)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nan_is_refused(family, strategy):
    model = lively(family)
    with torch.no_grad():
        model.decoder.links.query.weight[0, 0] = float("nan")
    _, static = both(family, model, strategy)
    with pytest.raises(NumericalError, match="NaN"):
        static.find(family.sample([5, 3]))


def test_what_underflows_is_decoded_with_wider_arithmetic(family, monkeypatch):
    monkeypatch.setattr("fairseq_hrt.dag.static_result.LEAST_MASS", 2.0)
    compare(family, lively(family), family.sample([5, 3]), "lookahead", may_fall_back=True)
    _, static = both(family, lively(family), "lookahead")
    static.find(family.sample([5, 3]))
    assert len(static.ways) == 1 and "underflow" in static.ways[0]


def test_why_a_batch_is_decoded_otherwise(family, caplog):
    model, sample = lively(family), family.sample([5, 3])
    cases = {
        "--dag-decode-strategy beam": (model, "beam", {}),
        "--dag-no-repeat-consecutive": (model, "lookahead", dict(dag_no_repeat_consecutive=1)),
        "--dag-upsample-base predict": (lively(family, upsample_base="predict"), "greedy", {}),
        "--dag-decode-length-beta": (model, "viterbi", dict(dag_decode_length_beta=3000.0)),
    }
    for reason, (own, strategy, options) in cases.items():
        ordinary, static = both(family, own, strategy, **options)
        caplog.clear()
        with caplog.at_level(logging.INFO):
            for _ in range(2):
                assert found(static, own, sample)[0] == found(ordinary, own, sample)[0]
        lines = [line for line in caplog.messages if "CUDA graphs" in line]
        assert len(lines) == 1 and reason in lines[0] and lines == [f"decoding {static.ways[0]}"]
    ensemble = DagGenerator(
        [model, lively(family, seed=2)],
        family.dictionary(),
        DecodingOptions(dag_decode_strategy="greedy", unkpen=float("inf")),
    )
    ensemble.uses_graphs = True
    ensemble.find(sample)
    assert ensemble.ways == ["without CUDA graphs because of an ensemble of models"]
    long = both(family, lively(family, max_source_positions=2048), "greedy")[1]
    assert "source tokens" in long.graph_refusal(torch.full((1, LENGTHS[-1] + 1), 5))


def test_only_greedy_search_has_the_lower_limit(family, monkeypatch):
    """Lookahead without a weight for tokens still sums over repetitions."""
    monkeypatch.setattr("fairseq_hrt.dag.static._MOST_LINKS_GREEDY", 0)
    tokens = family.sample([5, 3])["net_input"]["src_tokens"]
    for strategy, options in (("lookahead", dict(dag_decode_beta=0.0)), ("joint-viterbi", {})):
        _, generator = both(family, lively(family), strategy, **options)
        assert generator.graph_refusal(tokens) is None
    _, generator = both(family, lively(family), "greedy")
    assert "large graphs" in generator.graph_refusal(tokens)


@pytest.mark.parametrize(
    "strategy, limit", [("greedy", "_MOST_LINKS_GREEDY"), ("lookahead", "_MOST_LINKS")]
)
def test_tables_are_kept_and_dropped_with_the_recordings(family, monkeypatch, strategy, limit):
    """They take memory of the device as well; a batch that is refused makes none."""
    _, generator = both(family, lively(family), strategy)
    store, sample = generator.ensemble.graphs, family.sample([5, 3])
    before = found(generator, generator.models[0], sample)
    ((key, entry),) = store._kept.items()
    assert "tables" in key
    seen = keys_and_results(generator, [sample])
    assert id(entry.made) in seen[0][0]
    store.make_room()
    assert not store._kept and found(generator, generator.models[0], sample) == before
    store.make_room()
    monkeypatch.setattr(f"fairseq_hrt.dag.static.{limit}", 10)
    assert "large graphs" in generator.graph_refusal(sample["net_input"]["src_tokens"])
    assert not store._kept


@pytest.mark.parametrize("strategy, tried", [("greedy", True), ("beam", False)])
def test_a_shortage_pauses_graphs_only_where_they_were_tried(family, strategy, tried, monkeypatch):
    _, generator = both(family, lively(family), strategy)

    def short(*given):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    for name in ("find", "encode"):
        owner = generator.ensemble if name == "encode" else StaticPaths
        monkeypatch.setattr(owner, name, short)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        generator.decode(family.sample([5, 3])["net_input"], prefix=None, start=None)
    assert generator._tried_graphs == tried


def test_a_host_decodes_as_before(family):
    ordinary, _ = both(family, lively(family), "greedy")
    ordinary.uses_graphs = None
    ordinary.find(family.sample([5]))
    assert ordinary._static is None


def test_graphs_that_are_cut_are_named(family, caplog):
    model, sample = lively(family, max_target_positions=16), family.sample([14, 3])
    for generator in both(family, model, "greedy"):
        caplog.clear()
        generator.find(sample)
        generator.find(sample)
        assert [line for line in caplog.messages if "cut" in line] == [
            "graphs of long sentences are cut to the decoder's 16 positions"
        ]
    compare(family, model, sample, "joint-viterbi")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_capped_graphs_are_those_of_a_model_with_fewer_positions(family, strategy, caplog):
    sample = family.sample([14, 3, 8])
    few, many = (
        lively(family, max_target_positions=most, link_features="feature") for most in (16, 64)
    )
    many.load_state_dict(few.state_dict(), strict=False)
    expected, scores = found(both(family, few, strategy)[0], few, sample)
    free, _ = found(both(family, many, strategy)[0], many, sample)
    assert free != expected
    caplog.clear()
    for generator in both(family, many, strategy, dag_max_graph=16):
        same, numbers = found(generator, many, sample)
        assert same == expected and numbers == pytest.approx(scores, abs=1e-9)
    assert "cut" not in caplog.text
    # Beyond the decoder's positions, as a bundle may have it.
    for generator in both(family, many, strategy, dag_max_graph=640):
        assert found(generator, many, sample)[0] == free


def test_hooks_and_counters(family):
    model, sample = lively(family), family.sample([5, 3, 6])
    _, static = both(family, model, "greedy")
    graphs = []
    static.graph_hooks.append(lambda *seen: graphs.append(seen))
    static.find(sample)
    assert len(graphs) == 1 and "hooks that read the graph" in static.ways[0]
    static.graph_hooks.clear()
    steps = []
    with static.watched(steps.append):
        hypotheses = static.find(sample)
    assert static._static is not None and len(steps) == 1
    assert steps[0].tokens[0, : len(hypotheses[0][0].tokens)].tolist() == hypotheses[0][0].tokens
    static.counters.reset()
    static.find(sample)
    counters = static.counters
    # 4 rows of a bucket for 16 source tokens.
    assert (counters.encoder_calls, counters.decoder_calls) == (1, 1)
    assert (counters.decoder_tokens, counters.sentences) == (4 * 48, 3)


def test_models_of_these_tests_write_several_words(family):
    lengths = []
    for strategy in STRATEGIES:
        for seed in (1, 2):
            ordinary, _ = both(family, lively(family, seed=seed), strategy)
            found = ordinary.find(family.sample([5, 3, 6, 16], seed=1))
            lengths += [len(best[0].tokens) for best in found]
    assert max(lengths) >= 8 and sum(length > 2 for length in lengths) >= 14


@pytest.mark.parametrize("strategy", ["viterbi", "joint-viterbi"])
def test_where_no_path_is_short_enough_the_best_links_are_followed(family, strategy):
    model = lively(family, max_transition_length=2)
    sample = family.sample([2, 14, 3], seed=1)
    for keeps in (False, True):
        # In the second sentence no path of so few vertices reaches the end.
        options = dict(max_len_a=0.0, max_len_b=4, dag_keep_repeats=keeps)
        # Suppressed repetitions fill the short reach, and need wider arithmetic.
        compare(family, model, sample, strategy, may_fall_back=not keeps, **options)


def test_weights_of_links_keep_their_place(family):
    model, sample = lively(family), family.sample([5])
    _, static = both(family, model, "greedy", static_weights=False)
    static.find(sample)
    links = static.builder().links[0]
    places = links.weight.data_ptr(), links.table.data_ptr()
    static.find(sample)
    assert (links.weight.data_ptr(), links.table.data_ptr()) == places


def keys_and_results(generator, samples):
    """The key and the result of each run of the function."""
    seen, store = [], generator.ensemble.graphs
    run = store.run

    def watched(key, function, *inputs):
        found = run(key, function, *inputs)
        seen.append((key, found[0].clone()))
        return found

    store.run = watched
    for sample in samples:
        sample() if callable(sample) else generator.find(sample)
    return seen


def test_rows_of_padding_are_the_first_sentence(family):
    _, static = both(family, lively(family), "joint-viterbi")
    ((_, rows),) = keys_and_results(static, [family.sample([7, 6, 5])])
    assert len(rows) == 4 and torch.equal(rows[3], rows[0])


def test_more_positions_of_the_source_lead_to_another_recording(family):
    _, static = both(family, lively(family), "greedy")
    sample = family.sample([5])
    more = lambda: static.ensemble.engines[0].embed_source.reserve(3000)  # noqa: E731
    keys = [key for key, _ in keys_and_results(static, [sample, sample, more, sample])]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("reach", [None, 3])
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_recordings_find_what_the_host_finds(family, strategy, keeps, reach):
    model = lively(family, max_transition_length=reach).float()
    options = dict(dag_keep_repeats=keeps)
    ordinary = both(family, model, strategy, **options)[0]
    samples = [family.sample(lengths, seed=seed) for seed, lengths in enumerate(
        [[5, 3, 6], [7, 2, 9], [16, 1, 4, 8], [5], [9], [20, 17]])]  # fmt: skip
    expected = [found(ordinary, model, sample) for sample in samples]
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        moved = copy.deepcopy(model).to("cuda", dtype)
        generator = both(family, moved, strategy, **options)[0]
        generator.uses_graphs = None
        for _ in range(2):
            for sample, (paths, scores) in zip(samples, expected):
                there = {**sample, "net_input": {
                    key: value.cuda() for key, value in sample["net_input"].items()}}  # fmt: skip
                same, numbers = found(generator, moved, there)
                if dtype == torch.float32:
                    assert same == paths
                    assert numbers == pytest.approx(scores, abs=1e-3, rel=1e-3)
                assert len(same) == len(paths)
        if reach is None or keeps:
            assert generator.ways == ["with CUDA graphs"]
            assert sum("tables" not in key for key in generator.ensemble.graphs._kept) == 3
