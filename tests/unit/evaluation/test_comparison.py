"""One run over several systems: the same sentences for all, every translation in its place, every
measurement kept."""

import json
import sys
from types import SimpleNamespace

import pytest
import torch
from fairseq.iterative_refinement_generator import IterativeRefinementGenerator
from invented_results import make_comparison

from fairseq_hrt.engine.counters import GenerationCounters
from fairseq_hrt.evaluation.comparison import (
    RawText,
    Settings,
    commit,
    compare,
    decode_all,
    environment,
    source_text,
    source_texts,
    speed_sample,
    target_texts,
    to_json,
)
from fairseq_hrt.native.decoding import Hypothesis
from fairseq_hrt.native.text.pipeline import TextPipeline
from fairseq_hrt.native.text.recipe import TextRecipe

LINES = ["w1 w2 w3", "w4", "w5 w6 w7 w8", "w9 w1", "w2 w2 w2 w2 w2"]


@pytest.fixture
def comparison():
    return make_comparison()


def told(tokens):
    return Hypothesis(tokens, 0.0, [])


class Data(list):
    def num_tokens(self, sentence):
        return len(self[sentence]["source"])


class Copying:
    """Writes the source, its first ``kept`` words; answers with the last sentence of a batch first,
    as a sorted batch may."""

    def __init__(self, name, dictionary, kept=9):
        self.name, self.kept, self.counters, self.generator = name, kept, GenerationCounters(), None
        self.task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
        rows = [dictionary.encode_line(line, add_if_not_exist=False).long() for line in LINES]
        self.dataset = Data({"source": row, "target": row} for row in rows)
        self.batches = []

    def collate(self, ids):
        self.batches.append(list(ids))
        return {
            "id": torch.tensor(ids).flip(0),
            "rows": [self.dataset[i]["source"] for i in ids][::-1],
        }

    def collate_text(self, lines):
        rows = [
            self.task.source_dictionary.encode_line(line, add_if_not_exist=False).long()
            for line in lines
        ]
        return {"id": torch.arange(len(lines)), "rows": rows}

    def decode(self, sample):
        self.counters.decoder_calls += 1
        return [[told(row.tolist()[: self.kept]), told([])] for row in sample["rows"]]

    def text(self, tokens):
        return self.task.target_dictionary.string(tokens)

    def signature(self):
        return {"kept": str(self.kept)}


def run(systems, **changes):
    values = dict(
        references=["whole"], reference_texts=[line.upper() for line in LINES], valid=None,
        detokenize=str.upper,
        settings=Settings(batch_sizes=[1, 2], repeats=2, speed_sentences=3, quality_batch=2),
    )  # fmt: skip
    return compare(systems, **{**values, **changes})


def test_every_system_translates_the_same_sentences(tiny):
    systems = [Copying("whole", tiny.dictionary()), Copying("short", tiny.dictionary(), kept=2)]
    valid = [{line.upper()} for line in LINES]
    found = run(systems, identical_to="whole", valid=valid)
    whole, short = found.results
    assert whole.hypotheses == [
        line.upper() for line in LINES
    ] and whole.quality.bleu == pytest.approx(100)
    assert short.hypotheses == [" ".join(line.upper().split()[:2]) for line in LINES]
    # Of one word, a line is whole with its </s>; of two, it is not.
    assert [found.identical(result) for result in found.results] == [5, 1] and short.signature == {
        "kept": "2"
    }
    assert (whole.quality.valid_share, short.quality.valid_share) == (1, 0.4)
    sample = speed_sample(5, 3, seed=1)
    assert found.source_words == sum(len(LINES[number].split()) for number in sample)
    for size in (1, 2):
        batches = whole.timings[size].batches
        assert batches == short.timings[size].batches and sorted(sum(batches, [])) == sample
        assert max(map(len, batches)) == size and whole.timings[size].decoder_calls == len(batches)
        assert (
            len(short.timings[size].seconds) == 2
            and found.timing("short", size) is short.timings[size]
        )
    assert systems[0].batches == systems[1].batches
    assert found.environment["threads"] == "1" and found.raw_words == 0 and whole.raw is None


def test_bleu_is_that_of_the_target_language(tiny, monkeypatch):
    systems = [Copying("whole", tiny.dictionary())]
    assert "|tok:13a|" in run(systems).results[0].quality.bleu_signature
    for language in ("zh", "ja"):
        systems[0].task.cfg = SimpleNamespace(target_lang=language)
        systems[0].batches = []
        if language == "zh":
            found = run(systems)
            assert "|tok:zh|" in found.results[0].quality.bleu_signature and found.language == "zh"
            continue
        # As where its package is not installed: said before anything is decoded.
        monkeypatch.setitem(sys.modules, "MeCab", None)
        with pytest.raises(ValueError, match="BLEU for language ja: "):
            run(systems)
        assert not systems[0].batches


def test_masks_that_an_iterative_model_leaves_are_named(tiny, caplog):
    dictionary = tiny.dictionary()
    generators = {
        name: IterativeRefinementGenerator(dictionary, adaptive=name == "early")
        for name in ("early", "patient")
    }
    systems = [Copying(name, dictionary) for name in ("early", "patient", "word by word")]
    for system in systems:
        system.generator = generators.get(system.name)
        for row in (0, 2):
            system.dataset[row]["source"][1] = dictionary.unk()
    run(systems, references=["early"])
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1 and warnings[0].startswith(
        "2 of 5 translations of early contain masks"
    )
    assert "iter_decode_force_max_iter=true" in warnings[0]


def test_raw_lines_are_measured_one_by_one(tiny, caplog):
    system = Copying("whole", tiny.dictionary())
    pipeline = TextPipeline(TextRecipe("en", "de", "space", "none"))
    found = run(
        [system], raw=RawText(pipeline, [*LINES[:4], "w1 w1 w1"]), settings=Settings([1], 2, 9, 4)
    )
    assert found.raw_words == 3 + 1 + 4 + 2 + 3 and found.results[0].raw.batches == [
        [0],
        [1],
        [2],
        [3],
        [4],
    ]
    assert "1 of 5 raw lines are prepared differently from the data" in caplog.text


@pytest.mark.parametrize("changes", [dict(references=["other"]), dict(identical_to="other")])
def test_an_unknown_reference_is_named_before_anything_is_decoded(tiny, changes):
    system = Copying("whole", tiny.dictionary())
    with pytest.raises(ValueError, match=r"'other' \(.*\) is not one of the systems \['whole'\]"):
        run([system], **changes)
    assert system.batches == []


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_the_best_hypotheses_are_in_the_order_of_the_data(tiny, size):
    system = Copying("whole", tiny.dictionary())
    assert (
        [system.text(best.tokens) for best in decode_all(system, size)]
        == LINES
        == target_texts(system)
    )
    assert [source_text(system, number) for number in range(5)] == source_texts(system) == LINES


def test_sample_is_fixed_by_the_seed():
    assert speed_sample(100, 10, 3) == speed_sample(100, 10, 3) != speed_sample(100, 10, 4)
    assert speed_sample(5, 10, 3) == [0, 1, 2, 3, 4]
    assert len(set(speed_sample(100, 10, 3))) == 10


def test_json_holds_every_measurement(comparison):
    document = json.loads(json.dumps(to_json(comparison)))
    hrt = document["systems"][1]
    assert hrt["timings"]["1"]["seconds"] == [[0.2, 0.2]] * 3
    assert hrt["ratios"]["AT greedy"]["1"] == {"median": 2.0, "low": 2.0, "high": 2.0}
    assert hrt["quality"]["bleu"] == 37.75
    assert document["environment"]["cpu"] == "some processor"


def test_machine_and_versions(monkeypatch):
    found = environment(3)
    assert (
        found["threads"] == "3"
        and found["torch"] == torch.__version__
        and found["cpu"].endswith(" cores)")
    )
    monkeypatch.setenv("PATH", "")
    assert commit() == "-", "without git"
