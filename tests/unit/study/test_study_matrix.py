"""examples/study/matrix.py: published entries keep their identities, and fairseq takes what new
ones ask for."""

import entries
import matrix
import pytest
import steps
from fairseq import options
from figures import HERE, read_outcomes

from fairseq_hrt.evaluation.systems import parse_system

ENTRIES, GROUPS = matrix.read_matrix()
ENTRIES = ENTRIES.entries


def test_what_was_published_is_not_trained_again():
    published = {
        outcome["name"]: outcome["identity"] for outcome in read_outcomes(HERE / "outcomes.jsonl")
    }
    known = [name for name in ENTRIES if name in published]
    assert len(set(known) & set(GROUPS["main"])) > 40
    assert set(known) >= {*GROUPS["plenty-short"], *GROUPS["plenty"]}
    assert {name: ENTRIES[name].identity for name in known} == {
        name: published[name] for name in known
    }


def small(lr="1", model="a"):
    own = entries.Matrix()
    own.add(model, "command", command=[lr], result="model.pt")
    own.add(
        "b", "command", command=[f"${{{model}}}/model.pt", f"$({model}/best)", "${out}"], result="x"
    )
    return own.entries["b"]


def test_an_entry_is_known_by_its_content():
    assert small() == small() and small().parents == ("a",)
    assert small(model="other").identity == small().identity != small(lr="2").identity


def test_wrong_entries_are_refused():
    own = entries.Matrix()
    with pytest.raises(ValueError, match="no entry 'a' yet"):
        own.add("b", "command", command=["${a}/model.pt"])
    own.add("a", "command", command=[])
    with pytest.raises(ValueError, match="two entries are called 'a'"):
        own.add("a", "command", command=["other"])


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.kind == "train"])
def test_every_training_is_accepted_by_fairseq(name, tmp_path):
    folders = {other: tmp_path / other for other in ENTRIES}
    (_, *train), average = steps.commands(ENTRIES[name], folders, tmp_path / "out")
    options.parse_args_and_arch(options.get_training_parser(), train)
    own = ENTRIES[name].fields["options"]
    assert own["max-update"] // own["save-interval-updates"] >= ENTRIES[name].fields["average"]
    assert own["total-num-update"] == own[
        "max-update"
    ] and f"--last {ENTRIES[name].fields['average']} " in " ".join(average)


def test_every_system_can_be_read_and_is_compared_with_another():
    for entry in ENTRIES.values():
        names = []
        for text in [*entry.fields.get("systems", []), *filter(None, [entry.fields.get("system")])]:
            names.append(parse_system(entries.TEXT.sub("lenpen=1.0", text)).name)
        assert set(entry.against) | set(entry.against.values()) <= set(names) and len(
            set(names)
        ) == len(names)


@pytest.mark.parametrize("budget", [matrix.PLENTY, matrix.SHORT], ids=lambda budget: budget.name)
def test_students_from_plenty_have_equal_budgets(budget):
    own = budget.name

    def updates(*names):
        return sum(ENTRIES[f"{own}-{name}"].fields["options"]["max-update"] for name in names)

    students = ["at", "at-2", "ib", "ib-sa2", "hrt-k2", "hrt"]
    assert {updates(name) for name in students} == {budget.updates}
    for count, ratio in budget.shares.items():
        tokens = updates(f"dag-{count}", f"fa-dat-{count}") * budget.graph_tokens
        assert tokens == budget.updates * ratio * budget.tokens
    assert {ENTRIES[f"{own}-{name}"].fields["options"]["seed"] for name in students} == {1}
    shown = ENTRIES[f"test-{own}"]
    assert (
        shown.against["HRT for k=2 alone (5 1)"] == "AT beam 5"
        and shown.against["FA-DAT greedy"] == "AT greedy"
        and "HRT k=3 (1 1)" in shown.against
    )
    rescored = ENTRIES[f"test-{own}-rescored"].against
    assert rescored["IB+SA(2) beam 8 rescored"] == "IB+SA(2) beam 8"
    assert rescored["IB+SA(2) beam 8"] == "AT beam 5"
    speed = ENTRIES[f"speed-{own}"]
    assert speed.fields["options"]["batch-sizes"] == "1,32"
    assert all("weights=float32" not in text for text in speed.fields["systems"])
    assert any("engine=ctranslate2" in text for text in speed.fields["systems"])


def test_students_from_plenty_pass_equally_often_over_the_translations():
    """Where raw pairs stand beside them, too."""
    raw = 29_000
    for count, ratio in matrix.PLENTY.shares.items():
        assert ratio == pytest.approx(1 + count * raw / matrix.CAPTIONS, rel=0.01)
