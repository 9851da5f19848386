"""examples/study: the analyses cut and count what they say."""

import importlib
import json
import math
import sys
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def analyses(study):
    return {
        name: importlib.import_module(name)
        for name in ("by_length", "first_step", "masking", "stages", "threads")
    }


def test_sentences_are_grouped_by_length(analyses):
    assert analyses["by_length"].groups_of([3, 8, 9, 20, 12], [8, 12]) == [[0, 1], [2, 4], [3]]


def test_by_length_takes_ratios_over_the_same_sentences(analyses, tmp_path):
    def system(name, seconds):
        return {
            "name": name,
            "timings": {"1": {"batches": [[0], [2], [1]], "seconds": seconds, "decoder_calls": 3}},
        }

    systems = [
        system("slow", [[1.0, 8.0, 2.0], [1.0, 6.0, 2.0]]),
        system("fast", [[1.0, 2.0, 1.0], [1.0, 2.0, 1.0]]),
    ]
    comparison = tmp_path / "comparison"
    comparison.mkdir()
    (comparison / "results.json").write_text(json.dumps({"systems": systems}))
    for number, name in ((1, "slow"), (2, "fast")):
        (comparison / f"translations_{number}_{name}.txt").write_text(
            "ein haus mit einem dach\nein hund\nein baum im garten hier\n"
        )
    (tmp_path / "sources").write_text("a b\nc d\ne f g h\n")
    (tmp_path / "references").write_text(
        "ein haus mit einem dach\nein hund\nzwei bäume im garten dort\n"
    )
    arguments = [str(comparison), "--sources", str(tmp_path / "sources"), "--references",
                 str(tmp_path / "references"),
                 "--limits", "2,3", "--slow", "slow", "--fast", "fast", "--out",
                 str(tmp_path / "out")]  # fmt: skip
    assert analyses["by_length"].main(arguments) == 0
    # Two sentences of two tokens: (1 + 2) / (1 + 1); one of four: 8/2 and 6/2, of which the median
    # is 3.5. Nothing has three tokens.
    found = json.loads((tmp_path / "out/by_length.json").read_text())
    assert (
        found["groups"] == {"1–2": 2, "4–": 1}
        and found["ratio"] == {"1–2": 1.5, "4–": 3.5}
        and (found["short"], found["long"]) == (1.5, 3.5)
    )
    assert found["bleu"]["slow"]["1–2"] == pytest.approx(100) and found["bleu"]["fast"]["4–"] < 50
    assert (tmp_path / "out/by_length.md").read_text().count("100.00") == 2
    assert (tmp_path / "out/by_length.png").stat().st_size > 0
    other = tmp_path / "other"
    other.mkdir()
    (other / "results.json").write_text(
        json.dumps({"systems": [system("third", [[1.0, 1.0, 1.0]])]})
    )
    (other / "translations_1_third.txt").write_text("a\nb\nc\n")
    assert (
        analyses["by_length"].main(
            [
                *arguments[:1],
                str(other),
                *arguments[1:5],
                "--limits",
                "2,3",
                "--out",
                str(tmp_path / "two"),
            ]
        )
        == 0
    )
    found = json.loads((tmp_path / "two/by_length.json").read_text())
    assert list(found["bleu"]) == ["slow", "fast", "third"] and "ratio" not in found
    for wrong in (
        ["--fast", "none"],
        ["--fast", ""],
        ["--sources", str(tmp_path / "out/by_length.md")],
    ):
        with pytest.raises(SystemExit):
            analyses["by_length"].main([*arguments, *wrong])


def test_by_length_refuses_translations_of_another_test_set(analyses, tmp_path, capsys):
    (tmp_path / "results.json").write_text(
        json.dumps({"systems": [{"name": "one", "timings": {}}]})
    )
    (tmp_path / "translations_1_one.txt").write_text("a\n")
    (tmp_path / "lines").write_text("a\nb\n")
    both = ["--sources", str(tmp_path / "lines"), "--references", str(tmp_path / "lines")]
    with pytest.raises(SystemExit):
        analyses["by_length"].main(
            [str(tmp_path), *both, "--limits", "2", "--out", str(tmp_path / "out")]
        )
    assert "one has 1 translations of 2 references" in capsys.readouterr().err


def test_what_is_masked(analyses):
    masked = analyses["masking"].masked_positions
    assert masked("head", 10, 35) == {0, 1, 2} and masked("tail", 10, 35) == {7, 8, 9}
    # At least one; every chunk keeps its first token.
    assert (
        masked("head", 3, 10) == {0}
        and masked("chunk", 7, 3) == {1, 2, 4, 5}
        and masked("random", 0, 50) == set()
    )
    drawn = [masked("random", 10, 50, seed) for seed in range(20)]
    assert (
        all(len(own) == 5 and own <= set(range(10)) for own in drawn)
        and len(set(map(frozenset, drawn))) > 10
    )
    assert masked("random", 10, 50, 3) == drawn[3]
    with pytest.raises(ValueError, match="strategy 'x'"):
        masked("x", 3, 1)


def test_masking_measures_every_strategy(analyses):
    translations = [["a", "b", "c", "d"], ["e"]]

    def fill(lines, positions):
        return [
            ["?" if number in own else word for number, word in enumerate(line)]
            for line, own in zip(lines, positions)
        ]

    def score(lines):
        return 100 * sum(word != "?" for line in lines for word in line) / 5

    found = analyses["masking"].measure(translations, fill, score)
    assert found["none"] == 100 and found["chunk"] == {"2": 60, "3": 60, "4": 40}
    assert found["head"]["50"] == found["tail"]["50"] == found["random"]["50"] == 40
    assert list(found["random"]) == [str(percent) for percent in analyses["masking"].PERCENTS]


def test_a_fillers_words_stand_where_the_masks_were(analyses, tmp_path):
    """A model that gives every position the word after its own input, and masks a word of the
    source."""
    from types import SimpleNamespace

    import torch
    from fairseq.data import Dictionary

    words = Dictionary()
    for letter in "abcde":
        words.add_symbol(letter)
    seen = []

    class Model:
        def encoder(self, tokens, src_lengths):
            return tokens, src_lengths

        def decoder(self, normalize, prev_output_tokens, encoder_out):
            tokens, lengths = encoder_out
            seen.append((prev_output_tokens, tokens, lengths))
            scores = torch.zeros(*prev_output_tokens.shape, len(words))
            # Special symbols would win, were they not forbidden.
            scores[..., : words.nspecial] = 9.0
            scores.scatter_(2, tokens[:, -1:, None].expand(-1, scores.size(1), 1), 5.0)
            return scores

    filler = analyses["masking"].Filler.__new__(analyses["masking"].Filler)
    filler.torch, filler.model = torch, Model()
    filler.task = SimpleNamespace(target_dictionary=words, source_dictionary=words)
    filler.dataset = [
        {"source": torch.tensor([words.index("e")])},
        {"source": torch.tensor([words.index("a"), words.index("d")])},
    ]
    filled = filler.fill([["a", "b", "c"], ["c"]], [{0, 2}, {0}], size=2)
    assert filled == [["e", "b", "e"], ["d"]]
    tokens, sources, lengths = seen[0]
    assert tokens.tolist()[1] == [
        words.bos(),
        words.unk(),
        words.index("b"),
        words.unk(),
        words.eos(),
    ]
    assert tokens.tolist()[0] == [words.bos(), words.unk(), words.eos(), words.pad(), words.pad()]
    assert sources.tolist()[1] == [words.pad(), words.index("e")] and lengths.tolist() == [2, 1]


def test_threads_measures_each_number_once(analyses, tmp_path, monkeypatch):
    calls = []

    def benchmark(command, **_):
        threads, out = (
            int(command[command.index("--threads") + 1]),
            command[command.index("--out") + 1],
        )
        calls.append(command)
        (tmp_path / out).mkdir(parents=True)
        systems = [{"name": name,
                    "timings": {"1": {"batches": [[0]], "seconds": [[second / threads ** gain]],
                                      "decoder_calls": 1}}}
                   for name, second, gain in (("one", 1.0, 0), ("many", 2.0, 1))]  # fmt: skip
        (tmp_path / out / "results.json").write_text(json.dumps({"systems": systems}))

    monkeypatch.setattr(analyses["threads"].subprocess, "run", benchmark)
    arguments = ["data", "--threads", "1,2", "--system", "name=one,path=x", "--system",
                 "name=many,path=x", "--base", "one",
                 "--out", str(tmp_path / "out"), "--", "--repeats", "3"]  # fmt: skip
    assert analyses["threads"].main(arguments) == 0
    found = json.loads((tmp_path / "out/threads.json").read_text())
    assert found == {"1": {"one": 1.0, "many": 0.5}, "2": {"one": 1.0, "many": 1.0}}
    assert (
        len(calls) == 2
        and calls[0][:4] == [sys.executable, "-m", "fairseq_hrt", "benchmark"]
        and "--repeats" in calls[0]
    )
    assert analyses["threads"].main(arguments) == 0 and len(calls) == 2
    with pytest.raises(SystemExit):
        analyses["threads"].main(["data", "--threads", "x", *arguments[3:]])


def test_the_claims_of_the_study_name_entries_that_exist(study, tmp_path):
    """Every figure has a place that the matrix can fill, and every condition can be read."""
    raw = study.matrix.read_toml(study.folder / "matrix.toml")
    figures = study.figures.Figures(study.matrix.resolve(raw), study.store.Store(tmp_path))
    claims = study.matrix.read_toml(study.folder / "claims.toml")
    assert len(claims["claim"]) >= 25
    text = study.claims.claims_table(claims, figures)
    assert text.count("\n| ") == len(claims["claim"]) + 1
    systems = {name: [part[5:] for own in entry.fields.get("systems",
                                        []) for part in own.split(",") if part.startswith("name=")]
               for name, entry in figures.entries.items()}  # fmt: skip
    for claim in claims["claim"]:
        values = claim.get("values", {})
        for place in values.values():
            if ":" not in place:
                name, rest = place.split("/", 1)
                assert rest.rsplit("/", 1)[0] in systems[name], place
        if values:
            # Distinct numbers, in the kinds of places where they stand.
            numbers = dict(zip(values, (30.0 + number for number in range(len(values)))))
            for condition in ("yes", "only_if"):
                if condition in claim:
                    assert study.figures.evaluate(claim[condition], numbers) in (True, False)
            assert claim["ours"].format(**numbers)


class Sources:
    """A test set that batches its sentences as fairseq does, the longest first."""

    def __init__(self, lines):
        self.lines = lines

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, number):
        return {"id": number, "source": torch.tensor(self.lines[number])}

    def collater(self, members):
        members = sorted(members, key=lambda own: -len(own["source"]))
        lengths = torch.tensor([len(own["source"]) for own in members])
        tokens = torch.full((len(members), int(lengths.max())), 1)
        for row, own in zip(tokens, members):
            row[len(row) - len(own["source"]) :] = own["source"]
        ids = torch.tensor([own["id"] for own in members])
        return {"id": ids, "net_input": {"src_tokens": tokens, "src_lengths": lengths}}


@pytest.fixture
def staged(analyses, tiny):
    decoder = analyses["stages"].Decoder.__new__(analyses["stages"].Decoder)
    decoder.model = tiny.model("hrt_transformer", symbols=9, seed=4, hrt_chunk_sizes=[2, 3])
    decoder.words, decoder.sizes = tiny.dictionary(9), [2, 3]
    decoder.dataset = Sources([[5, 2], [4, 5, 6, 7, 8, 2], [9, 4, 8, 2], [6, 6, 5, 11, 2], [7, 2]])
    return decoder


@pytest.mark.parametrize("size", [2, 3])
def test_the_second_stage_writes_what_it_writes_behind_the_first(staged, size):
    both = staged.decode(size)
    assert len(both.translations) == len(both.kept) == 5 and len(set(map(tuple, both.kept))) > 1
    assert all(line[size - 1 :: size] == own[: len(line) // size] for line, own in zip(*both))
    assert staged.decode(size, both.kept, rows=2) == both
    # Told something else, it writes that.
    other = staged.decode(size, [[8, 9, 2]] * 5)
    assert other.kept == [[8, 9, 2]] * 5
    assert all(
        line[size - 1 :: size] == [8, 9, 2][: len(line) // size] for line in other.translations
    )


def test_every_kth_token_is_kept_and_the_end_fills_the_last_chunk(analyses):
    kept = analyses["stages"].kept_tokens
    assert (
        kept([5, 6, 7, 2], 2, 2) == [6, 2]
        and kept([5, 6, 7, 8, 2], 2, 2) == [6, 8, 2]
        and kept([2], 3, 2) == [2]
    )
    share = analyses["stages"].share_in_order
    # 7 and 5 are there the other way round; the end does not count.
    assert (
        share([[6, 7, 5, 2], [5, 2]], [[4, 6, 5, 7, 2], [8, 2]], 2) == 2 / 4
        and share([], [], 2) == 0
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 3), max_size=6))
def test_the_longest_common_subsequence(analyses, own, others):
    parts = [
        {part for n in range(len(line) + 1) for part in combinations(line, n)}
        for line in (own, others)
    ]
    assert analyses["stages"].in_order(own, others) == max(map(len, parts[0] & parts[1]))


@pytest.fixture
def arguments(tmp_path):
    (tmp_path / "references").write_text("5 6 7 8 9 2\n" * 5)
    return [
        "data",
        "-s",
        "de",
        "-t",
        "en",
        "--model",
        "m",
        "--references",
        str(tmp_path / "references"),
        "--out",
        str(tmp_path / "out"),
    ]


def test_stages_are_scored_apart(analyses, staged, tmp_path, monkeypatch, arguments):
    stages = analyses["stages"]
    one, two, three = [[5, 6, 7, 8, 9, 2]] * 5, [[5, 6, 7, 8, 4, 2]] * 5, [[5, 6, 7, 8, 2]] * 5
    decoded = {(1, False): one, (2, True): two, (2, False): three, (3, True): one, (3, False): two}
    staged.text = lambda tokens: " ".join(map(str, tokens))
    staged.decode = lambda size, given=None: stages.Decoded(
        decoded[size, given is not None], [[6, 4, 2]] * 5
    )
    monkeypatch.setattr(stages, "Decoder", lambda options: staged)
    assert stages.main(arguments) == 0
    found = json.loads((tmp_path / "out/stages.json").read_text())
    assert (
        found["1"]["bleu"] == pytest.approx(100)
        and found["2"]["kept"] == found["3"]["kept"] == 1 / 2
    )
    assert found["2"]["both"]["length_ratio"] == 5 / 6
    given, both = found["2"]["given"]["bleu"], found["2"]["both"]["bleu"]
    first, second = (tmp_path / "out/stages.md").read_text().splitlines()[2:]
    assert first == (
        f"| k = 2 | 100.00 (1.000) | {given:.2f} (1.000) | {both:.2f} (0.833) | −{100 - given:.2f}"
        f" | {both - given:+.2f} | 50% |"
    ).replace("| -", "| −")
    assert second.endswith(f" | +0.00 | −{100 - given:.2f} | 50% |") and 100 > given != both


def test_what_stages_cannot_measure_is_refused(
    analyses, staged, tmp_path, monkeypatch, arguments, capsys
):
    def message(*more):
        with pytest.raises(SystemExit):
            analyses["stages"].main([*arguments, *more])
        return capsys.readouterr().err

    assert "Model file not found: m" in message()
    assert "none.de" in message("--references", "none.de")
    monkeypatch.setattr(analyses["stages"], "Decoder", lambda options: staged)
    (tmp_path / "few").write_text("a\n" * 4)
    assert "few has 4 lines, the test set 5 sentences" in message(
        "--references", str(tmp_path / "few")
    )


def two_ended(tiny, directions, **options):
    """(model, task) that writes from both ends."""
    from argparse import Namespace

    from fairseq.models import ARCH_CONFIG_REGISTRY
    from tiny_weights import TINY, sharpen

    from fairseq_hrt.bidirectional.config import BidirectionalTaskConfig
    from fairseq_hrt.bidirectional.model import BidirectionalTransformerModel
    from fairseq_hrt.bidirectional.task import BidirectionalTranslationTask

    torch.manual_seed(3)
    args = Namespace(**TINY, bidirectional_directions=directions, **options)
    ARCH_CONFIG_REGISTRY["bidirectional_transformer"](args)
    words = tiny.dictionary(9)
    model = BidirectionalTransformerModel.build_model(
        args, Namespace(source_dictionary=words, target_dictionary=words)
    )
    sharpen(model.double().eval())
    task = BidirectionalTranslationTask(BidirectionalTaskConfig(seed=5), words, words)
    task.decoder = model.decoder
    return model, task


def test_the_first_step_of_every_sentence_alone(analyses, tiny):
    """The fourth sentence has an empty reference, and so no last word."""
    model, task = two_ended(tiny, 2)
    sources = [[4, 5, 6, 7, 2], [9, 8, 2], [6, 2], [7, 2]]
    targets = [[5, 6, 7, 8, 9, 4, 2], [7, 5, 2], [8, 4, 6, 2], [2]]
    first, last = [5, 7, 8, 2], [4, 5, 6]
    expected = {"difference": torch.zeros(3), "same": 0, "left": 0.0, "right": 0.0}
    for number, source in enumerate(sources):
        states = []

        def keep(layer, inputs, outputs, states=states):
            states.append(outputs[0][:, 0])

        hooks = [layer.register_forward_hook(keep) for layer in model.decoder.layers]
        encoded = model.encoder(torch.tensor([source]), src_lengths=torch.tensor([len(source)]))
        logits = model.decoder(torch.tensor([[2, 2]]), encoder_out=encoded)[0][0].log_softmax(-1)
        for hook in hooks:
            hook.remove()
        words, positions = (
            model.decoder.embed_tokens.weight[2],
            model.decoder.embed_positions.slot_table(2),
        )
        states.insert(0, model.decoder.embed_scale * words + positions)
        expected["difference"] += (
            torch.stack([(own[0] - own[1]).norm() / own[0].norm() for own in states]).detach() / 4
        )
        expected["same"] += int(logits[0].argmax() == logits[1].argmax()) / 4
        expected["left"] -= float(logits[0, first[number]]) / math.log(2) / 4
        if number < 3:
            expected["right"] -= float(logits[1, last[number]]) / math.log(2) / 3
    batch = {
        "target": torch.tensor([own + [1] * (7 - len(own)) for own in targets]),
        "net_input": {
            "src_tokens": torch.tensor([[1] * (5 - len(own)) + own for own in sources]),
            "src_lengths": torch.tensor([5, 3, 2, 2]),
        },
    }
    found = analyses["first_step"].first_step(model, task, iter([batch]))
    assert found.difference == pytest.approx(expected["difference"].tolist(), rel=1e-4)
    assert (found.same, found.left, found.right) == pytest.approx(
        (expected["same"], expected["left"], expected["right"]), rel=1e-4
    )
    slots = task.slots(batch["target"])
    losses = torch.nn.functional.cross_entropy(
        model(**batch["net_input"], slots=slots), slots.target[slots.target.ne(1)], reduction="mean"
    )
    assert found.all == pytest.approx(float(losses) / math.log(2), rel=1e-4)
    empty = {
        "target": batch["target"][3:],
        "net_input": {name: rows[3:] for name, rows in batch["net_input"].items()},
    }
    with pytest.raises(ValueError, match="no reference has a word"):
        analyses["first_step"].first_step(model, task, iter([empty]))


def test_the_table_of_first_steps(analyses, tiny, tmp_path, monkeypatch, capsys):
    """A start is measured in the first model; what cannot be measured is named."""
    module, (model, task) = analyses["first_step"], two_ended(tiny, 2)
    other, _ = two_ended(tiny, 2, bidirectional_distinct_starts=True)
    start, _ = two_ended(tiny, 2)
    with torch.no_grad():
        for value in start.parameters():
            value.add_(torch.randn_like(value), alpha=0.1)
    data = [{"target": [5, 6, 2], "source": [4, 2]}, {"target": [7, 2], "source": [4, 9, 2]}]

    class Dataset(list):
        def collater(self, members):
            targets = torch.tensor(
                [own["target"] + [1] * (3 - len(own["target"])) for own in members]
            )
            sources = torch.tensor(
                [[1] * (3 - len(own["source"])) + own["source"] for own in members]
            )
            return {
                "target": targets,
                "net_input": {"src_tokens": sources, "src_lengths": sources.ne(1).sum(1)},
            }

    task.load_dataset, task.dataset = (lambda split: None), (lambda split: Dataset(data))
    middle, _ = two_ended(tiny, 2, bidirectional_middle_to_side=True)
    models = {"a": model, "b": other, "start": start, "plain": tiny.model(), "middle": middle}
    monkeypatch.setattr(module, "load", lambda path, options: (models[str(path)], task))
    arguments = [
        "data",
        "-s",
        "de",
        "-t",
        "en",
        "--model",
        "one=a",
        "--model",
        "two=b",
        "--out",
        str(tmp_path / "out"),
    ]
    assert module.main([*arguments, "--start", "zero=start"]) == 0
    found = json.loads((tmp_path / "out/first_step.json").read_text())
    assert list(found) == ["zero", "one", "two"] and found["zero"]["all"] != found["one"]["all"]
    lines = (tmp_path / "out/first_step.md").read_text().splitlines()
    assert lines[4].startswith("| two | ") and lines[4].endswith(
        f"| {found['two']['right']:.2f} | {found['two']['all']:.2f} |"
    )
    cases = (
        ("one", "'one' is not NAME=PATH"),
        ("one=plain", "plain is no model that writes from the two ends"),
        ("one=middle", "middle is no model that writes from the two ends"),
        ("zero=a", "two models are named 'zero'"),
        ("one=a", "plain has no weights from which a could start"), ("one=none.pt", "none.pt"),
        (f"one={tmp_path / 'foreign.pt'}", "foreign.pt is no checkpoint of fairseq"),
    )  # fmt: skip
    torch.save({"a": 1}, tmp_path / "foreign.pt")
    for wrong, message in cases:
        if "none" in wrong:
            monkeypatch.undo()
        with pytest.raises(SystemExit):
            start = ["--start", "zero=plain"]
            module.main(
                [
                    "data",
                    "-s",
                    "de",
                    "-t",
                    "en",
                    "--model",
                    wrong,
                    *start,
                    "--out",
                    str(tmp_path / "out"),
                ]
            )
        assert message in capsys.readouterr().err
