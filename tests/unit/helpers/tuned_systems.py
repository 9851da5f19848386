"""Systems to tune that need no model: an option sets how much of the references they translate."""

from types import SimpleNamespace

from fairseq_hrt.evaluation import tuning

REFERENCES = ["a b c d e", "f g h i j k"]


class StubData(list):
    def num_tokens(self, i):
        return len(self[i]["target"])


class StubSystem:
    """Translates the references with as many words as the option ``words`` sets."""

    loaded = []  # noqa: RUF012 - all systems tell the tests here
    task = SimpleNamespace(cfg=SimpleNamespace(target_lang="b"))

    def __init__(self, spec, data):
        self.loaded.append(dict(spec.options))
        self.words, self.dataset = (
            int(spec.options["words"]),
            StubData({"target": line.split()} for line in REFERENCES),
        )

    def collate(self, ids):
        return {"id": SimpleNamespace(tolist=lambda: list(ids))}

    def decode(self, sample):
        return [
            [SimpleNamespace(tokens=REFERENCES[i].split()[: self.words])]
            for i in sample["id"].tolist()
        ]

    def text(self, tokens):
        return " ".join(tokens)


def prepare(tmp_path, monkeypatch):
    """Lets them be loaded, and writes what stands for a model and its data into the folder, which
    it returns."""
    StubSystem.loaded.clear()
    monkeypatch.setattr(tuning, "load_system", StubSystem)
    (tmp_path / "model.pt").write_bytes(b"weights")
    data = tmp_path / "data"
    data.mkdir()
    (data / "valid.a-b.a.bin").write_bytes(b"sentences")
    return tmp_path
