"""A comparison of two systems whose results are invented: what becomes of figures needs no
models."""

from fairseq_hrt.evaluation.comparison import Comparison, Result, Settings
from fairseq_hrt.evaluation.quality import Quality
from fairseq_hrt.evaluation.speed import Timing


def make_result(name, task, bleu, seconds, valid_share=None):
    signature = {"task": task, "checkpoint": "best.pt", "beam": "1"}
    quality = Quality(bleu, "nrefs:1|tok:13a", 60.0, "nrefs:1|nc:6", valid_share, None, 1.0)
    timings = {
        1: Timing([[0], [1]], [[seconds, seconds]] * 3, decoder_calls=20),
        32: Timing([[0, 1]], [[seconds]] * 3, decoder_calls=12),
    }
    return Result(name, signature, ["Ja.", "Nein."], [{}, {}], quality, timings)


def make_comparison():
    results = [
        make_result("AT greedy", "translation", 38.25, 0.4, 0.5),
        make_result("HRT k=2 (1,1)", "translation_hrt", 37.75, 0.2, 0.25),
    ]
    return Comparison(
        results, ["AT greedy"], 24, Settings(repeats=3), {"cpu": "some processor", "threads": "1"}
    )
