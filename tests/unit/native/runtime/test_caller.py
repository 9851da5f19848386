"""Calls that end before they are done: nobody wants them any more, or a signal has come."""

import contextlib
import dataclasses
import os
import signal
import time
from pathlib import Path

import pytest

from fairseq_hrt.native.runtime.caller import Cancelled

# Searches that take far longer than the kernel works before it asks for the first time, most of
# them on one sentence.
LONG = {
    "greedy": ("transformer", dict(beam=1)), "beam": ("transformer", dict(beam=300)),
    "jacobi": ("transformer", dict(beam=1, jacobi_mode="frontier", jacobi_window=4)),
    "hrt": ("hrt_transformer", dict(beam=200)),
    "drafts": ("hrt_transformer",
               dict(beam=1, hrt_decode_chunk="1", hrt_draft_chunk=2, hrt_draft_width=4)),
    "blocks": ("bidirectional_transformer", dict(beam=1)),
    "beam of blocks": ("bidirectional_transformer", dict(beam=200)),
    "lookahead": ("dag_transformer", dict(beam=1)),
    "viterbi": ("dag_transformer", dict(beam=1, dag_decode_strategy="joint-viterbi")),
    "texts": ("ctc_transformer", dict(beam=200)),
}  # fmt: skip
LARGE = dict(
    encoder_embed_dim=32,
    decoder_embed_dim=32,
    max_source_positions=300,
    max_target_positions=1500,
    symbols=2000,
)


def long_work(runtime, way, *, threads=1):
    """(engine, sources, options) of a call that takes half a second at least: the kernel asks 20
    times a second."""
    arch, options = LONG[way]
    dag = arch == "dag_transformer"
    model = runtime.build(arch, **LARGE, **(dict(dag_upsample_scale="5") if dag else {}))
    few = options["beam"] > 1 and way != "texts"
    rows = runtime.sources([300] * (2 if few else 60), symbols=2000)
    rules = {} if dag else dict(min_len=1400)
    return (
        runtime.runtime_engine(model, threads=threads),
        rows,
        runtime.options(max_len_b=1499, **rules, **options),
    )


@pytest.mark.parametrize(
    "way, threads",
    # Each search once; one sentence after the other, and a beam, in both ways.
    [*zip(LONG, 5 * (1, 3)), ("greedy", 3), ("beam", 1)],
)
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
        rows = runtime.sources([300] * 100, symbols=2000)
        with pytest.raises(Cancelled):
            engine.score(rows, [[row] * 20 for row in rows], cancelled=lambda: True)
        with pytest.raises(Cancelled):
            # One word each, which takes little time.
            engine.decode(
                20 * rows,
                runtime.options(beam=1, max_len_b=1, alignments=True),
                cancelled=lambda: True,
            )


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
        for delay in (0.02, 0.15):
            with pytest.raises(Rang), alarm_in(delay, raises):
                engine.decode(rows, options)
        # One that raises nothing ends nothing.
        with alarm_in(0.05, lambda *signal: heard.append(1)), pytest.raises(Cancelled):
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
