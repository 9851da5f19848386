"""Translations with hidden words that Mask-Predict fills in."""

import random
from types import SimpleNamespace

import masked_translations as script
import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

BOS, PAD, EOS, UNK = range(4)


@pytest.mark.parametrize("strategy, setting, expected", [
    ("Head", 0.3, [0, 1, 2]), ("Tail", 0.3, [7, 8, 9]), ("Head", 0.05, [0]), ("Tail", 0.99, list(range(1, 10))),
    ("Chunk", 2, [1, 3, 5, 7, 9]), ("Chunk", 4, [1, 2, 3, 5, 6, 7, 9]),
])  # fmt: skip
def test_what_is_hidden_of_ten(strategy, setting, expected):
    assert script.hidden(10, strategy, setting, random.Random(1)) == expected


def test_random_places():
    draws = [script.hidden(10, "Random", 0.4, random.Random(seed)) for seed in range(50)]
    assert all(len(set(own)) == 4 and own == sorted(own) for own in draws)
    assert {place for own in draws for place in own} == set(range(10))
    # Nothing of nothing; at least one of one.
    assert script.hidden(0, "Random", 0.4, random.Random(1)) == []
    assert script.hidden(1, "Tail", 0.1, random.Random(1)) == [0]
    # Exactly p * N, whatever 0.3 * 10 and 0.7 * 10 are in binary.
    assert [len(script.hidden(10, "Head", p, random.Random(1))) for p in script.RATES] == list(
        range(1, 10)
    )


def filler(tiny, sources):
    """A system around a tiny model with large random weights, whose batches are sorted as
    fairseq's are."""
    torch.manual_seed(2)
    args = tiny.arguments("mask_predict_transformer", label_smoothing=0.1)
    ARCH_CONFIG_REGISTRY["mask_predict_transformer"](args)
    dictionary = tiny.dictionary()
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = ARCH_MODEL_REGISTRY["mask_predict_transformer"].build_model(args, task).double().eval()
    with torch.no_grad():
        for own in model.parameters():
            own.mul_(2)

    def collate(ids):
        order = sorted(ids, key=lambda number: -len(sources[number]))
        width = max(len(sources[number]) for number in ids)
        tokens = [[PAD] * (width - len(sources[n])) + sources[n] for n in order]
        lengths = [len(sources[number]) for number in order]
        net_input = {"src_tokens": torch.tensor(tokens), "src_lengths": torch.tensor(lengths)}
        return {"id": torch.tensor(order), "net_input": net_input}

    return SimpleNamespace(models=[model], task=task, collate=collate, device=torch.device("cpu"))


def test_each_sentence_is_filled_as_if_it_were_alone(tiny):
    """And as by the model's own call with nothing padded: hidden words are the most probable ones,
    the others stay, an unknown word among them too."""
    sources = [[0, 5, 6, 2], [0, 9, 4, 8, 7, 2], [0, 7, 2]]
    rows = [torch.tensor(row) for row in ([5, 6, 7, 2], [4, UNK, 9, 8, 5, 2], [10, 11, 2])]
    places = [[0, 2], [2, 3], [1]]
    system = filler(tiny, sources)
    together = script.filled_in_batches(system, rows, places)
    for number, (row, own) in enumerate(zip(rows, places)):
        given = torch.cat([torch.tensor([BOS]), row])
        given[torch.tensor(own) + 1] = UNK
        (model,) = system.models
        source = torch.tensor([sources[number]])
        encoded = model.encoder(source, src_lengths=torch.tensor([source.size(1)]))
        scores = model.decoder(normalize=True, prev_output_tokens=given[None], encoder_out=encoded)[
            0
        ]
        expected = row.clone()
        for place in own:
            expected[place] = scores[place + 1].argmax()
        assert together[number].tolist() == expected.tolist()


def test_the_study_and_its_table(monkeypatch):
    """A filler that always writes 9: the more is hidden, the worse."""
    rows = [torch.tensor([4, 5, 6, 7, 8, 4, 5, 6, 7, 8, EOS])] * 3
    monkeypatch.setattr(
        script,
        "decode_all",
        lambda system, size: [SimpleNamespace(tokens=r.tolist()) for r in rows],
    )
    monkeypatch.setattr(script, "target_texts", lambda system: ["4 5 6 7 8 4 5 6 7 8"] * 3)

    def nines(system, rows, places):
        found = [row.clone() for row in rows]
        for row, own in zip(found, places):
            row[own] = 9
        return found

    monkeypatch.setattr(script, "filled_in_batches", nines)
    translator = SimpleNamespace(
        text=lambda tokens: " ".join(str(t) for t in tokens.tolist() if t != EOS)
    )
    results = script.study(translator, None)
    assert results[0] == script.Filled("none", 0.0, 0.0, pytest.approx(100))
    head = [own.bleu for own in results if own.strategy == "Head"]
    assert head == sorted(head, reverse=True) and head[0] > head[-1]
    (half,) = [own for own in results if (own.strategy, own.setting) == ("Chunk", 2)]
    assert half.share == 0.5
    assert len(results) == 1 + 3 * 9 + 3
    assert "| Chunk | 2 | 0.50 | " in script.markdown(results)
    lines = script.draw(results).axes[0].lines
    assert [len(line.get_xdata()) for line in lines] == [10, 10, 10, 4]
    assert {line.get_ydata()[0] for line in lines} == {results[0].bleu}


def test_another_model_is_no_filler(monkeypatch, capsys):
    system = SimpleNamespace(task_name="translation_hrt", name="H")
    monkeypatch.setattr(script, "FairseqSystem", lambda *given: system)
    with pytest.raises(SystemExit) as end:
        script.main(["data", "--translator", "name=A,path=a.pt", "--filler", "name=H,path=h.pt"])
    assert end.value.code == 2
    assert (
        "--filler H: translation_hrt is not the task of a Mask-Predict" in capsys.readouterr().err
    )
