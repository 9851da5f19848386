"""What passes cost, as it is learnt and kept in a file."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parallel_decoding import assert_same, greedy, make_generator

from fairseq_hrt.jacobi.costs import CostTable, default_cost_file


def test_costs_are_kept_for_the_next_run(tiny, tmp_path):
    model, sample = tiny.lively(), tiny.sample([6, 3])
    path = tmp_path / "folder" / "costs.json"
    generator = make_generator(tiny, [model], options=dict(max_len_b=9), cost_file=str(path))
    expected = greedy(tiny, [model], sample, options=dict(max_len_b=9))
    for _ in range(12):
        assert_same(generator.generate([model], sample), expected)
    stored = json.loads(path.read_text())
    ((key, table),) = stored.items()
    assert key.endswith("rows 2") and all(seconds > 0 for seconds in table.values())
    path.write_text(json.dumps({key: dict.fromkeys(map(str, range(1, 9)), 5.0)}))
    again = make_generator(tiny, [model], options=dict(max_len_b=9), cost_file=str(path))
    seen = again.chooser.choose
    with pytest.MonkeyPatch.context() as patch:
        asked = []
        patch.setattr(again.chooser, "choose", lambda costs, rows: asked.append((dict(costs), rows)) or seen(costs, rows))
        assert_same(again.generate([model], sample), expected)
    assert asked == [(dict.fromkeys(range(1, 9), 5.0), 2)]
    for broken in ("no json", "[]", json.dumps({key: 3}), json.dumps({key: {"1": "x", "y": 2.0, "2": None, "3": -1.0}})):
        path.write_text(broken)
        third = make_generator(tiny, [model], options=dict(max_len_b=9), cost_file=str(path))
        for _ in range(3):
            assert_same(third.generate([model], sample), expected)


def test_measuring(tiny, tmp_path):
    """The median of the last five batches; the first one of a run, which pays for more than itself, is dropped; few writes; the
    file does not grow for ever."""
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({f"other {number}": {"1": 1.0} for number in range(400)}))
    ensemble = make_generator(tiny, [tiny.lively()], cost_file=str(path)).ensemble
    table, writes = CostTable(ensemble, path), []
    with pytest.MonkeyPatch.context() as patch:
        write = table._write
        patch.setattr(table, "_write", lambda *arguments: writes.append(1) or write(*arguments))
        for seconds in (50.0, 2.0, 4.0, 6.0, 4.0, 4.0, 4.0, 40.0):
            table.learn(3, 2, seconds, 2)
            table.learn(4, 4, seconds, 1)
    assert table.known(4) == table.known(3) == {2: 2.0, 4: 4.0} and table.known(5) == {} and len(writes) == 4
    again = CostTable(ensemble, path)
    assert again.known(3) == {2: 2.0, 4: 4.0}
    again.learn(3, 2, 500.0, 1)
    again.learn(3, 2, 8.0, 1)
    assert again.known(3)[2] == 5.0
    stored = json.loads(path.read_text())
    assert len(stored) == 256 and "other 399" in stored and "other 0" not in stored


def test_costs_that_cannot_be_kept(tiny, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    model, sample = tiny.lively(), tiny.sample([4])
    generator = make_generator(tiny, [model], options=dict(max_len_b=5), cost_file=str(tmp_path / "file" / "costs.json"))
    for _ in range(8):
        assert_same(generator.generate([model], sample), greedy(tiny, [model], sample, options=dict(max_len_b=5)))
    assert "not kept" in caplog.text


@pytest.mark.parametrize("cache", [None, ""])
def test_the_file_lies_in_the_users_cache_folder(monkeypatch, tmp_path, cache):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert default_cost_file() == tmp_path / "cache" / "fairseq_hrt" / "jacobi_costs.json"
    # An empty variable counts as none.
    monkeypatch.delenv("XDG_CACHE_HOME") if cache is None else monkeypatch.setenv("XDG_CACHE_HOME", cache)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cost_file() == tmp_path / ".cache" / "fairseq_hrt" / "jacobi_costs.json"


@given(st.integers(1, 5000))
def test_batches_up_to_the_same_power_of_two_are_of_one_size(rows):
    size = CostTable.size(rows)
    assert size in {2**n for n in range(14)} and rows <= size < 2 * rows


def test_costs_belong_to_a_model_its_type_and_the_threads(tiny, tmp_path, monkeypatch):
    """What was measured in another situation is not known."""
    path = tmp_path / "costs.json"

    def table(**options):
        double = options.pop("double", True)
        model = tiny.model(**options)
        return CostTable(make_generator(tiny, [model if double else model.float()]).ensemble, path)

    own = table()
    for _ in range(2):
        own.learn(3, 2, 6.0, 2)
    assert table(seed=5).known(4) == {2: 3.0}, "weights change nothing"
    for other in (table(decoder_layers=1), table(decoder_ffn_embed_dim=32), table(double=False)):
        assert other.known(4) == {}
    assert table().known(5) == {}
    monkeypatch.setattr("torch.get_num_threads", lambda: 77)
    assert table().known(4) == {}
