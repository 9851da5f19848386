"""The engine of the runtime as Python sees it: sources that it refuses, its lifetime, what it raises."""

import contextlib
import dataclasses
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtime_models import ARCHITECTURES

from fairseq_hrt.decoding import Hypothesis, NumericalError
from fairseq_hrt.engine.native_model import convert
from fairseq_hrt.runtime import binding
from fairseq_hrt.runtime.engine import Cancelled, Engine, UnsupportedOption, _check, _deduplicate


def test_long_and_odd_sources(runtime):
    model = runtime.build(max_source_positions=700, max_target_positions=700, seed=8)
    with runtime.runtime_engine(model, weights="int8") as engine:
        assert engine.decode([], runtime.options()) == []
        rows = runtime.sources((600, 1, 700))
        found = engine.decode(rows, runtime.options(beam=1, max_len_b=699, min_len=650))
        assert all(len(best[0].tokens) > 650 for best in found)
        for row, message in (([], "no tokens"), ([4] * 701, "the model takes 700"), ([4, 99, 2], "dictionary"), ([-1], "token id"),
                             ([1, 2], "padding"), ([2**40], "token id"), (["a"], "token id"), ([4.0, 2], "token id")):  # fmt: skip
            with pytest.raises(ValueError, match=message):
                engine.decode([row], runtime.options(beam=1))
        with pytest.raises(ValueError, match="--min-len 9"):
            engine.decode([[4, 2]], runtime.options(beam=1, min_len=9, max_len_b=8))
        engine.close()
        with pytest.raises(ValueError, match="closed"):
            engine.decode([[4, 2]], runtime.options())


def test_not_a_number_is_named(runtime):
    """Weights so large that sums overflow: finite in the file, broken in use."""
    for arch in ARCHITECTURES:
        model = runtime.build(arch)
        header, tensors = convert(model, *model.dictionaries, weights="float32")
        tensors["decoder.layers.0.inner"] = np.full_like(tensors["decoder.layers.0.inner"], 3e38)
        with Engine(header, tensors) as engine, pytest.raises(NumericalError, match="NaN"):
            engine.decode([[4, 5, 2]], runtime.options(beam=1))


@pytest.mark.parametrize("options", [dict(beam=1), dict(beam=1, scores=False), dict(beam=3)], ids=str)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_words_of_no_probability_are_named(runtime, arch, options):
    """Finite weights whose products are all minus infinity: the first word is none that the model chose."""
    model = runtime.build(arch)
    header, tensors = convert(model, *model.dictionaries, weights="float32")
    tensors["output"] = np.full((header.target_vocabulary, header.decoder_width), -3e37, np.float32)
    last = "decoder.final_norm" if header.decoder_final_norm else f"decoder.layers.{header.decoder_layers - 1}.final.norm"
    tensors[f"{last}.bias"] = np.full_like(tensors[f"{last}.bias"], 50)
    header = dataclasses.replace(header, tied_output=False)
    with Engine(header, tensors) as engine, pytest.raises(NumericalError, match="NaN"):
        engine.decode([[4, 5, 2]], runtime.options(**options))


def test_an_engine_and_its_end(files):
    with Engine.open(files[0]) as engine:
        assert engine.isa and engine.weight_bytes > 0 and engine.threads == 1
        assert [best[0].tokens[-1] for best in engine.decode([[4, 2], np.array([5, 2])])] == [2, 2]
    engine.close()
    for use in (
        lambda: engine.isa,
        lambda: engine.weight_bytes,
        lambda: engine.decode([[4, 2]]),
        lambda: engine.set_shortlist(None),
    ):
        with pytest.raises(ValueError, match="the engine is closed"):
            use()


@pytest.mark.parametrize("threads", [0, -1, 4097, 2.0, "2", None])
def test_threads_are_a_number(files, threads):
    with pytest.raises(ValueError, match=f"threads={threads!r}: give a number from 1 to 4096"):
        Engine.open(files[0], threads=threads)


def test_an_instruction_set_that_is_not_there(files):
    with pytest.raises(ValueError, match="avx1024"):
        Engine.open(files[0], isa="avx1024")


@pytest.mark.parametrize("status, kind", [
    (binding.MEMORY, MemoryError), (binding.INVALID, ValueError), (binding.NUMBER, NumericalError), (binding.REFUSED, UnsupportedOption), (77, ValueError),
])  # fmt: skip
def test_what_the_kernel_reports(status, kind):
    message = binding.message_buffer()
    _check(binding.OK, message)
    message.value = "why \u00e9".encode()
    with pytest.raises(kind, match="why \u00e9") as caught:
        _check(status, message)
    assert type(caught.value) is kind


def collapsed(words):
    """Immediately repeated n-grams, the longest first, taken out one after the other until there are none."""
    for size in (4, 3, 2, 1):
        for place in range(len(words) - 2 * size + 1):
            if words[place : place + size] == words[place + size : place + 2 * size]:
                return collapsed(words[: place + size] + words[place + 2 * size :])
    return words


@given(st.lists(st.integers(4, 6), max_size=10))
def test_no_ngram_is_repeated_at_once(words):
    tokens = [*words, 2]
    places = list(range(len(tokens)))
    result = Hypothesis(list(tokens), -1.0, [float(-place) for place in places], list(places), 3)
    _deduplicate(result)
    kept = result.tokens[:-1]
    assert result.tokens[-1] == 2 and collapsed(kept) == kept
    assert (kept == words) == (collapsed(words) == words)
    # What belongs to a token goes with it; what was not there does not appear.
    assert [tokens[place] for place in result.token_steps] == result.tokens
    assert result.positional_scores == [float(-place) for place in result.token_steps] and result.alignment == []


# Searches that take far longer than the kernel works before it asks for the first time, most of them on one sentence.
LONG = {
    "greedy": ("transformer", dict(beam=1)), "beam": ("transformer", dict(beam=300)),
    "jacobi": ("transformer", dict(beam=1, jacobi_mode="frontier", jacobi_window=4)),
    "hrt": ("hrt_transformer", dict(beam=200)), "drafts": ("hrt_transformer", dict(beam=1, hrt_decode_chunk="1", hrt_draft_chunk=2, hrt_draft_width=4)),
    "blocks": ("bidirectional_transformer", dict(beam=1)), "beam of blocks": ("bidirectional_transformer", dict(beam=200)),
    "lookahead": ("dag_transformer", dict(beam=1)), "viterbi": ("dag_transformer", dict(beam=1, dag_decode_strategy="joint-viterbi")),
}  # fmt: skip
LARGE = dict(encoder_embed_dim=32, decoder_embed_dim=32, max_source_positions=300, max_target_positions=1500, symbols=2000)


def long_work(runtime, way, *, threads=1):
    """(engine, sources, options) of a call that takes seconds at least."""
    arch, options = LONG[way]
    dag = arch == "dag_transformer"
    model = runtime.build(arch, **LARGE, **(dict(dag_upsample_scale="5") if dag else {}))
    rows = runtime.sources([300] * (60 if options["beam"] == 1 or dag else 2), symbols=2000)
    rules = {} if dag else dict(min_len=1400)
    return runtime.runtime_engine(model, threads=threads), rows, runtime.options(max_len_b=1499, **rules, **options)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("way", LONG)
def test_a_call_ends_when_nobody_wants_it_any_more(runtime, way, threads):
    """Within all searches, on all threads; the engine is as before then."""
    engine, rows, options = long_work(runtime, way, threads=threads)
    few, short = (
        runtime.sources([5, 9], symbols=2000),
        dataclasses.replace(options, beam=min(options.beam, 4), min_len=0, max_len_b=6),
    )
    with engine:
        before = engine.decode(few, short)
        asked = []
        for cancelled in (lambda: not asked.append(1), lambda: len(asked) == 3 or asked.append(1)):
            asked.clear()
            with pytest.raises(Cancelled):
                engine.decode(rows, options, cancelled=cancelled)
            assert asked
            assert engine.decode(few, short) == before


def test_scores_and_alignments_end_too(runtime):
    with runtime.runtime_engine(runtime.build(**LARGE)) as engine:
        rows = runtime.sources([300] * 400, symbols=2000)
        with pytest.raises(Cancelled):
            engine.score(rows, [[row] * 20 for row in rows], cancelled=lambda: True)
        with pytest.raises(Cancelled):
            engine.decode(rows, runtime.options(beam=1, max_len_b=1, alignments=True), cancelled=lambda: True)


class Rang(BaseException):
    """What the handler of a signal raises."""


@contextlib.contextmanager
def alarm_in(seconds, handler):
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("threads", [1, 2])
def test_handlers_of_signals_run_during_a_call(runtime, threads):
    engine, rows, options = long_work(runtime, "beam", threads=threads)
    heard = []

    def raises(*signal):
        raise Rang

    with engine:
        for delay in (0.02, 0.12, 0.3):
            with pytest.raises(Rang), alarm_in(delay, raises):
                engine.decode(rows, options)
        # One that raises nothing ends nothing.
        with alarm_in(0.1, lambda *signal: heard.append(1)), pytest.raises(Cancelled):
            engine.decode(rows, options, cancelled=lambda: bool(heard))
        short = dataclasses.replace(options, beam=20, min_len=0, max_len_b=60)
        expected = engine.decode(rows, short)
        with alarm_in(0.01, lambda *signal: heard.append(2)):
            assert engine.decode(rows, short) == expected
            while 2 not in heard:
                time.sleep(0.01)


def test_what_is_raised_while_asking_is_raised_by_the_call(runtime):
    engine, rows, options = long_work(runtime, "greedy")

    def fails():
        raise OSError("lost")

    with engine, pytest.raises(OSError, match="lost"):
        engine.decode(rows, options, cancelled=fails)


def resident():
    """Bytes of memory in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's own figures")
def test_calls_that_ended_early_leave_no_memory_behind(runtime):
    engine, rows, options = long_work(runtime, "beam")
    with engine:

        def end_early(times):
            for _ in range(times):
                with pytest.raises(Cancelled):
                    engine.decode(rows, options, cancelled=lambda: True)

        end_early(3)
        before = resident()
        end_early(10)
        # The lists of a step alone have 4 MB.
        assert resident() - before < 10 << 20


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("strategy", ["lookahead", "joint-viterbi"])
def test_graphs_of_long_sentences_cost_the_square_of_their_length(runtime, strategy, keep):
    """Of few words, which are repeated everywhere. The cube would be 64 times as much for four times the words."""
    small = dict(encoder_embed_dim=8, decoder_embed_dim=8, encoder_layers=1, decoder_layers=1)
    model = runtime.build(
        "dag_transformer",
        symbols=2,
        seed=3,
        dag_upsample_scale="3",
        max_source_positions=640,
        max_target_positions=1920,
        **small,
    )
    options = runtime.options(beam=1, dag_decode_strategy=strategy, dag_keep_repeats=keep, max_len_b=1000)
    costs = []
    with runtime.runtime_engine(model) as engine:
        for length in (160, 640):
            rows, own = runtime.sources([length], symbols=2), []
            for _ in range(4):
                start = time.process_time()
                engine.decode(rows, options)
                own.append(time.process_time() - start)
            costs.append(min(own))
    assert costs[1] < 36 * costs[0]
