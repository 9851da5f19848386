"""examples/measure/glossary.py: terms of a corpus, and a row for each way to place them."""

from types import SimpleNamespace

import pytest

WORDS = {"dog": "Hund", "cat": "Tier", "sleeps": "schläft", "the": "das"}


class WordByWord:
    """Translates word by word, in order."""

    pipeline = SimpleNamespace(words=str.split, text=str)
    bundle = SimpleNamespace(target_pipeline=lambda: SimpleNamespace(words=str.split))

    def in_words(self, line):
        return SimpleNamespace(words=line.split())

    def translate(self, lines, *, beam, details=False, print_alignment=None):
        found = [" ".join(WORDS.get(word, word) for word in line.split()) for line in lines]
        if not details:
            return found
        return [
            SimpleNamespace(text=one, tokens=one.split(), alignment=range(len(one.split())))
            for one in found
        ]


@pytest.fixture
def arguments(load_example, tmp_path, monkeypatch):
    module = load_example("measure/glossary.py")
    monkeypatch.setattr(module.fairseq_hrt, "from_pretrained", lambda bundle: WordByWord())
    texts = {
        "train.en": ["the dog sleeps", "the cat sleeps"] * 8,
        "train.de": ["das Hund schläft", "das Katze schläft"] * 8,
        "test.en": ["the dog sleeps", "the cat sleeps", "cat cat"],
        "test.de": ["das Hund schläft", "das Katze schläft", "Katze Katze"],
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    monkeypatch.chdir(tmp_path)

    def run(*more):
        pairs = ["--train", "train.en", "train.de", "--test", "test.en", "test.de"]
        module.main(["bundle", *pairs, "--capitals", *more])

    return run


def test_ways_to_place_terms(arguments, capsys, tmp_path):
    arguments()
    first, _, *rows = capsys.readouterr().out.splitlines()
    assert first == "2 words, 2 terms in 2 sentences"
    shares = {row[:34].strip(): row.split("nrefs")[0].split()[-2:] for row in rows}
    assert shares.pop("no glossary") == ["50.00", "50.00"]
    assert len(shares) == 4 and set(map(tuple, shares.values())) == {("100.00", "100.00")}
    arguments("--write", "constraints.txt")
    assert (tmp_path / "constraints.txt").read_text().splitlines() == [
        "the dog sleeps\tHund", "the cat sleeps\tKatze", "cat cat",
    ]  # fmt: skip
    (tmp_path / "found.txt").write_text(
        "S-0\tthe\nH-0\t-1\tdas Hund schläft\nH-0\t-2\tx\nH-2\t0\ty\nH-1\t0\tdas Tier\n"
    )
    arguments("--read", "found.txt")
    (row,) = capsys.readouterr().out.splitlines()[2:]
    assert row.startswith("constrained search") and row.split("nrefs")[0].split()[-2:] == [
        "50.00", "50.00",
    ]  # fmt: skip
