"""Every way of decoding finds what it found when it was recorded: texts, tokens, steps and scores
of both engines.

What is meant to find something else is recorded anew, and the reason belongs into the message of
the commit::

    python tests/integration/test_recorded_results.py --record
"""

import sys
import tempfile
from pathlib import Path

import pytest
from recorded_calls import Comparison, Record, answer, calls
from recorded_models import MODELS, joined, make_models, sources

pytestmark = pytest.mark.slow
RECORD = Path(__file__).with_name("recorded_results.json.gz")
# Without three whose last places in the beam hang on the last bit of a sum: on another processor
# they are others.
WORDS = [row for number, row in enumerate(sources(13, 14, 5)) if number not in (1, 9, 11)]
# And a line without words, one with letters that no dictionary has, and one that is translated in
# pieces.
LINES = [*map(joined, WORDS), "", "zab qz", joined(sources(1, 1, 6)[0] + sources(40, 1, 7)[0] * 30)]
PAIRS = [
    *zip(map(joined, sources(6, 12, 8)), map(joined, sources(6, 12, 9))),
    ("", "ab"),
    ("ab", ""),
    ("za b", "ezra"),
]


def answers(folder, model, wanted=None):
    """Yields (call, answer) of a model; ``wanted``: the names of calls, all by default."""
    (folder / "lexicon").write_text("zab Zebra\n")
    for name, call in calls(folder, model, MODELS[model][0], LINES, PAIRS):
        if wanted is None or name in wanted:
            yield name, answer(call)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        # What is measured while it decodes is kept elsewhere.
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        # Commands raise the error with which they refuse an option, instead of one line.
        patch.setenv("LOGLEVEL", "DEBUG")
        make_models(folder)
        yield folder


@pytest.fixture(scope="module")
def record():
    return Record.read(RECORD)


@pytest.mark.parametrize("model", MODELS)
def test_what_was_found_is_found(folder, record, model):
    comparison, names = Comparison(), []
    for name, found in answers(folder, model, record.answers[model]):
        names.append(name)
        comparison.compare(name, record.get(model, name), found)
    assert names == [*record.answers[model]]
    assert not comparison.differences, (
        f"{len(comparison.differences)} differences, e.g. {comparison.differences[:5]}"
    )
    assert not comparison.too_many_ties, (
        f"{comparison.ties} of {comparison.hypotheses} hypotheses differ"
    )
    assert comparison.hypotheses > 300


def main():
    if sys.argv[1:] != ["--record"]:
        sys.exit(__doc__)
    sys.path.append(str(Path(__file__).parents[1]))
    import composed_configs

    composed_configs.install()
    record = Record()
    with tempfile.TemporaryDirectory() as folder:
        make_models(Path(folder))
        for model in MODELS:
            for name, found in answers(Path(folder), model):
                record.add(model, name, found)
            record.forget_what_is_alike(model)
    record.write(RECORD)


if __name__ == "__main__":
    main()
