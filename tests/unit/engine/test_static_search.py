"""Searches that run on the device alone find what those find that the host leads."""

import gc
import itertools
import math
import threading
import time
import weakref
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from static_decoding import assert_recordable, assert_static_equals

from fairseq_hrt.engine import static_rows, static_search
from fairseq_hrt.engine.buckets import LENGTHS, ROWS, bucket
from fairseq_hrt.engine.fused.search import largest
from fairseq_hrt.engine.generator import PAUSE, AutoregressiveGenerator
from fairseq_hrt.engine.graphs import AGAIN, WARM_UPS, GraphStore
from fairseq_hrt.native.decoding import NumericalError
from fairseq_hrt.native.options.values import DecodingOptions


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch):
    """Few rows already move to smaller buffers, few steps to larger ones."""
    monkeypatch.setattr(static_search, "ENOUGH", 2)
    monkeypatch.setattr(static_search, "FIRST_CAPACITY", 4)
    monkeypatch.setattr(static_search, "LENGTHS", (4, 8, 16, 32))
    monkeypatch.setattr(static_search, "ROWS", (1, 2, 3, 6, 8))


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 15),
    beam=st.sampled_from([1, 2, 5]),
    rules=st.sampled_from(
        [dict(), dict(unkpen=2.0, min_len=2), dict(unkpen=math.inf), dict(temperature=0.5)]
    ),
    ranking=st.sampled_from([dict(), dict(lenpen=0.0), dict(unnormalized=True, nbest=2)]),
    start=st.sampled_from([None, None, "w4", "w5 w5 w4"]),
    limit=st.sampled_from([(0, 9), (1.5, 2), (0, 30), (0, 2)]),
    lengths=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=7), min_size=1, max_size=3),
    variant=st.sampled_from(
        [
            dict(),
            dict(encoder_normalize_before=True, decoder_normalize_before=True),
            dict(decoder_learned_pos=True, encoder_learned_pos=True, max_target_positions=18),
            dict(layernorm_embedding=True, no_scale_embedding=True),
            dict(activation_fn="tanh", no_token_positional_embeddings=True),
        ]
    ),
)
def test_equal_to_search_by_the_host(
    tiny, seed, beam, rules, ranking, start, limit, lengths, variant
):
    if "nbest" in ranking and beam == 1:
        ranking = dict()
    options = DecodingOptions(
        beam=beam, max_len_a=limit[0], max_len_b=limit[1], forced_start=start, **rules, **ranking
    )
    assert_static_equals(
        lambda model: AutoregressiveGenerator([model], tiny.dictionary(), options),
        tiny.lively(seed=seed, **variant),
        [tiny.sample(own, seed=seed + place) for place, own in enumerate(lengths)],
    )


@pytest.mark.parametrize("beam", [1, 3])
def test_recurrent_cells(tiny, beam):
    options = DecodingOptions(beam=beam, max_len_b=9)
    assert_static_equals(
        lambda model: AutoregressiveGenerator([model], tiny.dictionary(), options),
        tiny.lively("marian_transformer", marian_cell="ssru"),
        [tiny.sample([5, 3, 6, 1]), tiny.sample([2, 4])],
    )


@pytest.mark.parametrize("beam", [1, 4])
def test_steps_can_be_recorded(tiny, beam):
    options = DecodingOptions(beam=beam, max_len_b=8, min_len=2, unkpen=1.0, temperature=0.9)
    steps = 9
    reads = assert_recordable(
        lambda model: AutoregressiveGenerator([model], tiny.dictionary(), options),
        tiny.lively(),
        tiny.sample([5, 3, 6, 2, 8, 4]),
    )
    # The flags of each step, the lengths of the sources, and a log for each size.
    assert reads <= steps + 6


@pytest.mark.parametrize("beam", [1, 3])
def test_a_start_that_all_translations_share(tiny, beam):
    options = DecodingOptions(beam=beam, max_len_b=7, min_len=2, forced_start="w5 w5 <unk>")
    made = []

    def make(model, options=options):
        made.append(AutoregressiveGenerator([model], tiny.dictionary(), options))
        return made[-1]

    samples = [tiny.sample([5, 3, 6]), tiny.sample([2])]
    assert_static_equals(make, tiny.lively(), samples)
    assert made[1].ways == ["with CUDA graphs"]
    assert_static_equals(
        partial(make, options=replace(options, max_len_b=2)), tiny.lively(), samples
    )
    # No other search continues with its recordings.
    generator = make(tiny.lively())
    generator.uses_graphs = True
    begun = [best[0].tokens[:3] for best in generator.find(samples[0])]
    assert begun == [generator.forced] * 3
    free = make(tiny.lively(), DecodingOptions(beam=beam, max_len_b=7, min_len=2))
    free.uses_graphs, free._ensemble = True, generator.ensemble
    assert all(best[0].tokens[:3] != generator.forced for best in free.find(samples[0]))
    assert_recordable(make, tiny.lively(), samples[0])


@pytest.mark.parametrize(
    "options, reason",
    [
        (dict(no_repeat_ngram_size=2), "--no-repeat-ngram-size"),
        (dict(retain_iter_history=True), "--retain-iter-history"),
    ],
)
def test_what_is_decoded_step_by_step(tiny, options, reason):
    generator = AutoregressiveGenerator(
        [tiny.model()], tiny.dictionary(), DecodingOptions(**options)
    )
    generator.uses_graphs = True
    assert generator.graph_refusal(None) == reason
    # All the same it is decoded.
    assert generator.find(tiny.sample([4, 2]))
    assert generator.ways == [f"without CUDA graphs because of {reason}"]


def test_prefixes_traces_ensembles_and_training_go_step_by_step(tiny):
    models = [tiny.model(), tiny.model(seed=2)]
    generator = AutoregressiveGenerator(models[:1], tiny.dictionary(), DecodingOptions())
    assert not generator.uses_graphs
    generator.uses_graphs = True
    assert generator.graph_refusal(None) is None
    assert generator.graph_refusal(None, torch.tensor([[4]])) == "a given beginning"
    with generator.watched(print):
        assert generator.graph_refusal(None) == "a trace of the steps"
    generator = AutoregressiveGenerator(models, tiny.dictionary(), DecodingOptions())
    generator.uses_graphs = True
    assert generator.graph_refusal(None) == "an ensemble"
    generator = AutoregressiveGenerator(
        models[:1], tiny.dictionary(), DecodingOptions(static_weights=False)
    )
    generator.uses_graphs = True
    assert generator.graph_refusal(None) == "weights that are being trained"


@pytest.mark.parametrize("beam", [1, 3])
def test_nan_is_an_error_and_leaves_nothing_behind(tiny, beam):
    """Also for later batches, although buffers are used again."""
    model, sample = tiny.lively(), tiny.sample([5, 3])
    generator = AutoregressiveGenerator(
        [model], tiny.dictionary(), DecodingOptions(beam=beam, max_len_b=6)
    )
    generator.uses_graphs = True
    expected = [[one.tokens for one in best] for best in generator.find(sample)]
    word = int(sample["net_input"]["src_tokens"][0, 0])
    kept = model.encoder.embed_tokens.weight[word].clone()
    with torch.no_grad():
        model.encoder.embed_tokens.weight[word] = math.nan
        with pytest.raises(NumericalError):
            generator.find(sample)
        model.encoder.embed_tokens.weight[word] = kept
    assert [[one.tokens for one in best] for best in generator.find(sample)] == expected


def test_a_batch_counts_its_steps(tiny):
    model = tiny.lively()
    counts = []
    for captured in (False, True):
        generator = AutoregressiveGenerator(
            [model], tiny.dictionary(), DecodingOptions(max_len_b=9)
        )
        generator.uses_graphs = captured
        generator.find(tiny.sample([5, 3, 6]))
        counts.append((generator.counters.sentences, generator.counters.encoder_calls))
        assert generator.counters.decoder_calls >= 1
    assert counts[0] == counts[1]


@settings(max_examples=25, deadline=None)
@given(
    batch=st.integers(1, 3),
    size=st.integers(1, 900),
    count=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_largest_equals_topk(batch, size, count, seed):
    count = min(count, size)
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(batch, size, generator=generator, dtype=torch.float64)
    values[values < 0.2] = -math.inf
    found, places = largest(values, count)
    assert torch.equal(found, values.topk(count).values)
    assert torch.equal(values.gather(1, places), found)


def test_buckets():
    assert [bucket(value, ROWS) for value in (1, 3, 8, 9, 512, 513, 1025)] == [
        1, 4, 8, 16, 512, 1024, 1536,
    ]  # fmt: skip
    assert all(length % 16 == 0 for length in LENGTHS)


def test_the_store_keeps_what_was_used_last(monkeypatch):
    monkeypatch.setattr("fairseq_hrt.engine.graphs.MOST", 2)
    store, made = GraphStore(torch.device("cpu")), []

    def keep(key):
        return store.keep(key, lambda: made.append(key) or [key])

    first = keep("a")
    keep("b")
    assert keep("a") is first
    keep("c")
    assert keep("a") is first
    keep("b")
    assert made == ["a", "b", "c", "b"]
    store.clear()
    assert keep("a") is not first


def test_what_is_dropped_is_freed_at_once(monkeypatch):
    """Recordings are cycles of references, and the garbage collector does not look at the device's
    memory. A pool without graphs is not used again."""
    monkeypatch.setattr("fairseq_hrt.engine.graphs.MOST", 1)
    store, alive = GraphStore(torch.device("cpu")), []
    store.enabled = True
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)

    class Recording:
        def __init__(self):
            self.itself = self
            alive.append(weakref.ref(self))

    gc.disable()
    try:
        for key in "abc":
            store.keep(key, Recording)
        assert [one() is None for one in alive] == [True, True, False]
        store._pool = object()
        store.clear()
        assert store._pool is None and not any(one() for one in alive)
    finally:
        gc.enable()


def test_stores_share_the_memory_of_their_device(monkeypatch):
    """What was used longest ago goes, in whichever store; but nothing of one that decodes."""
    held = []
    monkeypatch.setattr(GraphStore, "_allocated", lambda store: sum(held))
    first, second, third = (GraphStore(torch.device("cpu")) for _ in range(3))
    elsewhere = GraphStore(torch.device("meta"))
    for store in (first, second, third, elsewhere):
        store.enabled, store._limit = True, 35

    def keep(store, key, size=10):
        with store.lock:
            store.keep(key, lambda: held.append(size) or key)

    def kept():
        return [list(store._kept) for store in (first, second, third)]

    keep(elsewhere, "other", 30)
    for store, key in ((first, "a"), (second, "b"), (first, "c"), (first, "a")):
        keep(store, key)
    assert kept() == [["c", "a"], ["b"], []]
    first._pool = second._pool = object()
    keep(third, "d")
    assert kept() == [["c", "a"], [], ["d"]] and second._pool is None and first._pool
    keep(first, "e")
    assert kept() == [["a", "e"], [], ["d"]]
    busy, done = threading.Event(), threading.Event()

    def decode():
        with first.lock:
            busy.set()
            done.wait()

    thread = threading.Thread(target=decode)
    thread.start()
    busy.wait()
    keep(third, "f")
    assert kept() == [["a", "e"], [], ["f"]]
    keep(third, "g", 90)
    assert kept() == [["a", "e"], [], ["g"]]
    done.set()
    thread.join()
    keep(second, "h")
    assert kept() == [[], ["h"], []]
    keep(first, "i")
    keep(second, "j")
    second.make_room()
    assert kept() == [[], [], []] and list(elsewhere._kept) == ["other"]
    assert not any(store._bytes for store in (first, second, third)) and elsewhere._bytes == 30


def test_a_batch_of_another_thread_keeps_its_recordings():
    store = GraphStore(torch.device("cpu"))
    store.keep("a", list)
    clearing = threading.Thread(target=store.clear)
    with store.lock:
        clearing.start()
        clearing.join(0.05)
        assert clearing.is_alive() and "a" in store._kept
    clearing.join()
    assert not store._kept


def test_recording_the_same_in_every_batch_is_given_up(tiny, monkeypatch, caplog):
    """Where the share of the memory holds less than one batch needs."""
    monkeypatch.setattr("fairseq_hrt.engine.graphs.MOST", 2)
    model, sample = tiny.lively(), tiny.sample([5, 3])
    generator = AutoregressiveGenerator([model], tiny.dictionary(), DecodingOptions(max_len_b=12))
    expected = [[one.tokens for one in best] for best in generator.find(sample)]
    generator.uses_graphs = True
    # Collecting garbage takes longer than decoding.
    for name, value in (
        ("on_device", nullcontext), ("record", lambda function: function), ("_free", lambda: None),
    ):  # fmt: skip
        monkeypatch.setattr(generator.ensemble.graphs, name, value)
    monkeypatch.setattr(static_rows._Flags, "__init__", _flags_of_the_host)
    generator.ensemble.graphs.enabled = True
    for _ in range(AGAIN):
        generator.find(sample)
        assert not generator.paused
    with caplog.at_level("WARNING"):
        found = generator.find(sample)
    assert [[one.tokens for one in best] for best in found] == expected
    assert "because of too little memory" in caplog.text and generator.paused


def test_what_was_made_for_a_dropped_object_goes_with_it(monkeypatch):
    """It would hold that object, and never be found again."""
    store, taken = GraphStore(torch.device("cpu")), itertools.count(step=10)
    monkeypatch.setattr(store, "_allocated", lambda: next(taken))
    source = store.keep(("source", 1), object)
    store.keep(("search", id(source), 5), object)
    other = store.keep(("source", 2), object)
    store.keep(("search", id(other), 5), object)
    with store.lock:
        assert store._drop_oldest() == 20
    assert list(store._kept) == [("source", 2), ("search", id(other), 5)] and store._bytes == 20


def test_every_shortage_makes_room(tiny, monkeypatch):
    """Also where another thread has begun a pause meanwhile, and in a pause."""
    generator = AutoregressiveGenerator(
        [tiny.lively()], tiny.dictionary(), DecodingOptions(max_len_b=6)
    )
    graphs, rooms, falls = generator.ensemble.graphs, [], [2]
    expected = generator.find(tiny.sample([5, 3]))
    generator.uses_graphs = True
    monkeypatch.setattr(graphs, "on_device", nullcontext)
    monkeypatch.setattr(graphs, "make_room", lambda: rooms.append(generator.paused))
    monkeypatch.setattr(graphs, "enabled", True)
    decode = generator.decode

    def short(*given, **options):
        if falls[0]:
            falls[0] -= 1
            generator.by_graphs(given[0]["src_tokens"])
            generator._resume = time.monotonic() + 60
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return decode(*given, **options)

    monkeypatch.setattr(generator, "decode", short)
    for _ in range(2):
        falls[0] = 1
        found = generator.find(tiny.sample([5, 3]))
        assert [best[0].tokens for best in found] == [best[0].tokens for best in expected]
    assert rooms == [True, True]
    assert generator._pause == 2 * PAUSE, "an attempt without graphs tells nothing of them"
    falls[0] = 2
    with pytest.raises(torch.cuda.OutOfMemoryError):
        generator.find(tiny.sample([5, 3]))
    # Nor does one that another reason has kept from graphs: it stays the reason.
    generator._resume, falls[0] = 0.0, 1
    generator.options = replace(generator.options, no_repeat_ngram_size=2)
    generator.find(tiny.sample([5, 3]))
    assert generator._pause == 2 * PAUSE
    assert generator.graph_refusal(torch.zeros(1, 1)) == "--no-repeat-ngram-size"


def record_by(monkeypatch, recording):
    """``recording`` is PyTorch's context of a recording, and the rest of a device does nothing."""
    for name in ("Stream", "current_stream", "set_stream", "CUDAGraph", "synchronize"):
        monkeypatch.setattr(torch.cuda, name, Mock())
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", object)
    monkeypatch.setattr(torch.cuda, "stream", nullcontext)
    monkeypatch.setattr(torch.cuda, "graph", recording)


def test_a_recording_that_fails(tiny, monkeypatch, caplog):
    """Decoded without graphs, now and for a while. Python's collector, which might end a recording,
    does not run in one."""
    generator = AutoregressiveGenerator(
        [tiny.lively()], tiny.dictionary(), DecodingOptions(max_len_b=6)
    )
    graphs, collects = generator.ensemble.graphs, []
    expected = generator.find(tiny.sample([5, 3]))
    decode = generator.decode

    @contextmanager
    def recording(*given, **options):
        collects.append(gc.isenabled())
        yield
        raise RuntimeError("operation failed due to a previous error during capture\nSearch for")

    def recorded(*given, **options):
        if generator.by_graphs(given[0]["src_tokens"]):
            graphs.record(lambda: None)
        return decode(*given, **options)

    generator.uses_graphs = True
    record_by(monkeypatch, recording)
    monkeypatch.setattr(graphs, "on_device", nullcontext)
    monkeypatch.setattr(graphs, "make_room", lambda: None)
    monkeypatch.setattr(graphs, "enabled", True)
    monkeypatch.setattr(generator, "decode", recorded)
    for _ in range(2):
        found = generator.find(tiny.sample([5, 3]))
        assert [best[0].tokens for best in found] == [best[0].tokens for best in expected]
    assert collects == [False] and gc.isenabled() and generator.paused
    reason = "a recording that failed (operation failed due to a previous error during capture)"
    assert reason in caplog.text and generator.ways[-1].endswith(reason)


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), torch.cuda.OutOfMemoryError("full"), ValueError("odd")]
)
def test_the_end_of_a_recording_hides_no_error(monkeypatch, error):
    @contextmanager
    def recording(*given, **options):
        try:
            yield
        except BaseException:
            raise RuntimeError("operation failed due to a previous error during capture") from None

    record_by(monkeypatch, recording)
    store, calls = GraphStore(torch.device("cpu")), []
    store.enabled = True

    def function():
        calls.append(1)
        if len(calls) > WARM_UPS:
            raise error

    with pytest.raises(type(error)) as raised:
        store.record(function)
    assert raised.value is error and gc.isenabled()


def _flags_of_the_host(self, store, count):
    self.open = self._host = torch.zeros(count, dtype=torch.bool)
    self._ready = []


@pytest.mark.parametrize(
    "error",
    [
        torch.cuda.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
    ],
)
def test_where_memory_is_short_decoding_goes_on_step_by_step(tiny, monkeypatch, caplog, error):
    model, sample = tiny.lively(), tiny.sample([5, 3])
    generator = AutoregressiveGenerator([model], tiny.dictionary(), DecodingOptions(max_len_b=6))
    expected = [[one.tokens for one in best] for best in generator.find(sample)]
    generator.uses_graphs = True
    generator.ensemble.graphs.enabled = True
    monkeypatch.setattr(generator.ensemble.graphs, "on_device", nullcontext)

    def full(*args, **options):
        raise error

    monkeypatch.setattr(static_search.StaticSearch, "encode", full)
    with caplog.at_level("WARNING"):
        found = generator.find(sample)
    assert [[one.tokens for one in best] for best in found] == expected
    assert "decoding without CUDA graphs for 60 s" in caplog.text and generator.paused
    # After that it tries again; the next pause is longer.
    monkeypatch.undo()
    monkeypatch.setattr(generator.ensemble.graphs, "on_device", nullcontext)
    monkeypatch.setattr(static_search.StaticSearch, "encode", full)
    generator._resume = 0.0
    with caplog.at_level("WARNING"):
        generator.find(sample)
    assert "decoding without CUDA graphs for 120 s" in caplog.text
    assert generator.graph_refusal(None) == "too little memory"
