"""The engine of the runtime as Python sees it: sources that it refuses, its lifetime, what it
raises."""

import dataclasses
import os
import signal
import threading
import time

import numpy as np
import pytest
from runtime_models import ARCHITECTURES

from fairseq_hrt.engine.torch_to_native import convert
from fairseq_hrt.native.runtime import binding
from fairseq_hrt.native.runtime.engine import (
    Cancelled,
    Engine,
    NumericalError,
    Shortlist,
    UnsupportedOption,
    _check,
)


def test_long_and_odd_sources(runtime):
    model = runtime.build(max_source_positions=700, max_target_positions=700, seed=8)
    with runtime.runtime_engine(model, weights="int8") as engine:
        assert engine.decode([], runtime.options()) == []
        rows = runtime.sources((600, 1, 700))
        found = engine.decode(rows, runtime.options(beam=1, max_len_b=699, min_len=650))
        assert all(len(best[0].tokens) > 650 for best in found)
        for row, message in (([], "no tokens"), ([4] * 701, "the model takes 700"),
                             ([4, 99, 2], "dictionary"), ([-1], "token id"),
                             ([1, 2], "padding"), ([2**40], "token id"), (["a"], "token id"),
                             ([4.0, 2], "token id")):  # fmt: skip
            with pytest.raises(ValueError, match=message):
                engine.decode([row], runtime.options(beam=1))
        with pytest.raises(ValueError, match="--min-len 9"):
            engine.decode([[4, 2]], runtime.options(beam=1, min_len=9, max_len_b=8))
        engine.close()
        with pytest.raises(ValueError, match="closed"):
            engine.decode([[4, 2]], runtime.options())


@pytest.mark.parametrize("first_words, message", [
    ([[5]], "2 sources but first words of 1"),
    ([[5], [16]],
     "the given word 0 of sentence 1 is 16, which is not in the dictionary of 16 words"),
    ([[5, -1], []], "-1 is not a token id; each beginning is a list of integers"),
    ([[5], 7], "beginning 1: 7 is not a list"),
])  # fmt: skip
def test_first_words_that_are_none(runtime, first_words, message):
    with runtime.runtime_engine(runtime.build()) as engine:
        with pytest.raises(ValueError, match=message):
            engine.decode([[4, 2], [5, 2]], runtime.options(beam=1), first_words=first_words)
        with pytest.raises(
            ValueError,
            match="--forced-start w1: an engine has no dictionary; give the ids as first_words",
        ):
            engine.decode([[4, 2]], runtime.options(beam=1, forced_start="w1"))


@pytest.mark.parametrize("arch, options", [
    ("dag_transformer", {}), ("bidirectional_transformer", {}), ("hrt_transformer", {}),
    ("hrt_transformer", dict(hrt_decode_chunk="auto", hrt_chunk_table="3:1,inf:2")),
    ("ctc_transformer", {}),
])  # fmt: skip
def test_models_that_cannot_be_given_first_words(runtime, arch, options):
    with runtime.runtime_engine(runtime.build(arch)) as engine:
        options, rows = (
            runtime.options(beam=1, max_len_b=6, **options),
            [[4, 2], [5, 6, 7, 4, 5, 2]],
        )
        assert engine.decode(rows, options, first_words=[[], []]) == engine.decode(rows, options)
        with pytest.raises(UnsupportedOption, match="sentence 1 has given first words"):
            engine.decode(rows, options, first_words=[[], [5]])


def test_drafts_begin_with_given_words(runtime):
    """Whatever the draft itself begins with."""
    with runtime.runtime_engine(runtime.build("hrt_transformer")) as engine:
        rows, given = runtime.sources((3, 9, 14)), [[5, 6], [7, 1, 8], [9]]
        plain, drafted = (
            runtime.options(beam=1, max_len_b=12, hrt_decode_chunk="1", **more)
            for more in ({}, dict(hrt_draft_chunk=2, hrt_draft_width=4))
        )
        expected, found = (
            engine.decode(rows, options, first_words=given) for options in (plain, drafted)
        )
        assert [best[0].tokens for best in found] == [best[0].tokens for best in expected]
        assert [best[0].positional_scores for best in found] == [
            best[0].positional_scores for best in expected
        ]


def test_not_a_number_is_named(runtime):
    """Weights so large that sums overflow: finite in the file, broken in use."""
    for arch in ARCHITECTURES:
        model = runtime.build(arch)
        header, tensors = convert(model, *model.dictionaries, weights="float32")
        tensors["decoder.layers.0.inner"] = np.full_like(tensors["decoder.layers.0.inner"], 3e38)
        with Engine(header, tensors) as engine, pytest.raises(NumericalError, match="NaN"):
            engine.decode([[4, 5, 2]], runtime.options(beam=1))


@pytest.mark.parametrize(
    "options", [dict(beam=1), dict(beam=1, scores=False), dict(beam=3)], ids=str
)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_words_of_no_probability_are_named(runtime, arch, options):
    """Finite weights whose products are all minus infinity: the first word is none that the model
    chose."""
    model = runtime.build(arch)
    header, tensors = convert(model, *model.dictionaries, weights="float32")
    tensors["output"] = np.full((header.target_vocabulary, header.decoder_width), -3e37, np.float32)
    last = (
        "decoder.final_norm"
        if header.decoder_final_norm
        else f"decoder.layers.{header.decoder_layers - 1}.final.norm"
    )
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


def in_fork(work):
    """Whether ``work`` succeeds in a forked process, in less than 20 seconds."""
    process = os.fork()
    if not process:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="of Unix only")
@pytest.mark.parametrize("threads", [1, 2])
def test_an_engine_in_a_forked_process(runtime, threads):
    """As in pools of processes: its threads are not there, and another thread may have had it."""
    model, options = runtime.build(seed=3), runtime.options(beam=2)
    rows = runtime.sources((3, 7, 5, 9))
    words = len(model.encoder.dictionary)
    shortlist = Shortlist(
        np.zeros(words + 1, np.int64), np.zeros(0, np.int32), np.arange(4, 9, dtype=np.int32)
    )
    with runtime.runtime_engine(model, threads=threads) as engine:
        engine.set_shortlist(shortlist)
        expected = engine.decode(rows, options)
        ended, decoding = threading.Event(), threading.Event()

        def ask():
            decoding.set()
            return ended.is_set()

        def decode():
            with pytest.raises(Cancelled):
                engine.decode(rows * 50_000, options, cancelled=ask)

        def close():
            engine.close()
            return True

        other = threading.Thread(target=decode)
        for busy in (False, True):
            if busy:
                other.start()
                assert decoding.wait(20)
            assert in_fork(close)
            assert in_fork(lambda: engine.decode(rows, options) == expected and close())
        ended.set()
        other.join()
        assert engine.decode(rows, options) == expected


@pytest.mark.parametrize("threads", [0, -1, 4097, 2.0, "2", None])
def test_threads_are_a_number(files, threads):
    with pytest.raises(ValueError, match=f"threads={threads!r}: give an integer from 1 to 4096"):
        Engine.open(files[0], threads=threads)


def test_an_instruction_set_that_is_not_there(files):
    with pytest.raises(ValueError, match="avx1024"):
        Engine.open(files[0], isa="avx1024")


@pytest.mark.parametrize("status, kind", [
    (binding.MEMORY, MemoryError), (binding.INVALID, ValueError), (binding.NUMBER, NumericalError),
    (binding.REFUSED, UnsupportedOption), (77, ValueError),
])  # fmt: skip
def test_what_the_kernel_reports(status, kind):
    message = binding.message_buffer()
    _check(binding.OK, message)
    message.value = "why \u00e9".encode()
    with pytest.raises(kind, match="why \u00e9") as caught:
        _check(status, message)
    assert type(caught.value) is kind


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("strategy", ["lookahead", "joint-viterbi"])
def test_graphs_of_long_sentences_cost_the_square_of_their_length(runtime, strategy, keep):
    """Of few words, which are repeated everywhere. The cube would be 64 times as much for four
    times the words."""
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
    options = runtime.options(
        beam=1, dag_decode_strategy=strategy, dag_keep_repeats=keep, max_len_b=1000
    )
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
