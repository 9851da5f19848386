"""Which of two translations models prefer, by the distance of verb and subject."""

import json
import math

import agreement_by_distance as script
import pytest
from native_bundles import loaded

PAIRS = [
    {"source": "a b", "right": "A B C", "wrong": "A B D", "distance": 1},
    {"source": "c", "right": "C D", "wrong": "C E E", "distance": 4},
    {"source": "d e", "right": "F", "wrong": "G H", "distance": 1},
]


class Lengths:
    """Each subword costs one; the worst mean is not the worst sum."""

    def score(self, sources, targets):
        assert len(sources) == len(targets) == 3
        return [
            type("Scored", (), {"positional_scores": [-1.0] * len(target)})() for target in targets
        ]


def test_sums_are_compared_and_draws_are_not_won():
    found = script.compare("lengths", Lengths(), PAIRS)
    assert found.right == {1: (1, 2), 4: (1, 1)}
    assert found.between(1, 2) == (1, 2) and found.between(2, math.inf) == (1, 1)


def test_the_table():
    results = [script.Agreement("a|b", {1: (1, 2), 4: (1, 1), 9: (0, 3)})]
    assert script.markdown(results).splitlines() == [
        r"| Model | 1 | 2 | 3–4 | 5–7 | 8 or more | all |",
        "|---|---:|---:|---:|---:|---:|---:|",
        "| a&#124;b | 50.0 | – | 100.0 | – | 0.0 | 33.3 |",
        "| pairs | 2 | 0 | 1 | 0 | 3 | 6 |",
    ]


def test_bundles_score_both_sides(bundles, tmp_path, capsys):
    """What the command counts is what the bundles' own scores say, pair by pair."""
    families = ("autoregressive", "hrt", "bidirectional")
    pairs, out = tmp_path / "agreement.jsonl", tmp_path / "out"
    pairs.write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS))
    named = [word for name in families for word in ("--bundle", f"{name}={bundles / name}")]
    script.main([str(pairs), *named, "--out", str(out)])
    results = json.loads((out / "agreement.json").read_text())["results"]
    for family, found in zip(families, results, strict=True):
        model, expected = loaded(bundles / family, "auto"), {}
        for pair in PAIRS:
            good, bad = (
                sum(model.score([pair["source"]], [pair[side]])[0].positional_scores)
                for side in ("right", "wrong")
            )
            won, every = expected.get(str(pair["distance"]), (0, 0))
            expected[str(pair["distance"])] = [won + (good > bad), every + 1]
        assert found == {"name": family, "right": expected}
    assert "| pairs | 2 | 0 | 1 | 0 | 0 | 3 |" in capsys.readouterr().out
    assert (out / "agreement.png").stat().st_size > 5000


@pytest.mark.parametrize("text, bundle, message", [
    ("", "a=b", "has no pairs"), ("{}", "bundles/at", "--bundle bundles/at: give NAME=FOLDER"),
])  # fmt: skip
def test_what_is_missing_is_named(tmp_path, capsys, text, bundle, message):
    (tmp_path / "pairs").write_text(text)
    with pytest.raises(SystemExit) as end:
        script.main([str(tmp_path / "pairs"), "--bundle", bundle])
    assert end.value.code == 2 and message in capsys.readouterr().err
