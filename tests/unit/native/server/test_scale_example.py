"""examples/scale: shards are finished or not, found by their contents, and joined in the order of
the corpus."""

import gzip
import hashlib
import json
import sys
import types
from pathlib import Path
from types import SimpleNamespace

import pytest

MADE_WITH = {"bundle": "abc", "options": {}}
LINES = ["b a", "", " d  c", "\u2028e", "é", "last"]


@pytest.fixture(scope="module")
def shards(load_example):
    return load_example("scale/shards.py")


def turned(lines):
    return [line[::-1] for line in lines]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_bytes(b"\xef\xbb\xbf" + "\n".join(LINES).encode())
    return path


def run(shards, corpus, out, target, made_with=MADE_WITH, order=reversed):
    """Translates what is missing, in any order; returns the numbers."""
    found = shards.split_corpus(corpus, out, 2)
    missing = [shard for shard in found if not shards.is_finished(shard, out, made_with)]
    for shard in order(missing):
        shards.translate_shard(shard, out, made_with, turned)
    shards.join_shards(found, out, target)
    return [shard.number for shard in missing]


def test_the_order_is_that_of_the_corpus(shards, corpus, tmp_path):
    assert run(shards, corpus, tmp_path / "out", tmp_path / "joined") == [0, 1, 2]
    expected = "".join(line + "\n" for line in turned(LINES)).encode()
    assert (tmp_path / "joined").read_bytes() == expected
    for number in range(3):
        index = json.loads((tmp_path / f"out/shards/{number:06}.json").read_text())
        data = (tmp_path / f"out/shards/{number:06}.txt").read_bytes()
        assert (index["number"], index["lines"], index["sha256"]) == (
            number,
            2,
            hashlib.sha256(data).hexdigest(),
        )
    packed = tmp_path / "corpus.gz"
    packed.write_bytes(gzip.compress(corpus.read_bytes()))
    run(shards, packed, tmp_path / "other", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == expected


def test_only_what_is_missing_or_damaged_is_made_again(shards, corpus, tmp_path):
    out, target = tmp_path / "out", tmp_path / "joined"
    run(shards, corpus, out, target)
    first = target.read_bytes()
    assert run(shards, corpus, out, target) == []
    (out / "shards/000000.txt").unlink()
    (out / "shards/000002.txt").write_bytes(b"xx\n")
    assert run(shards, corpus, out, target) == [0, 2]
    for content in ("{", "[]", "{}", "5", '{"made_with": {}}'):
        (out / "shards/000001.json").write_text(content)
        assert run(shards, corpus, out, target) == [1]
    assert target.read_bytes() == first
    # A line has changed: its shard alone is made again.
    corpus.write_bytes(corpus.read_bytes().replace(b"last", b"lost"))
    assert run(shards, corpus, out, target) == [2]
    with pytest.raises(ValueError, match="another bundle or other options"):
        run(shards, corpus, out, target, made_with={**MADE_WITH, "options": {"beam": "5"}})


def test_what_is_wrong_is_said(shards, corpus, tmp_path):
    found = shards.split_corpus(corpus, tmp_path / "out", 2)
    Path(found[0].path).write_text("other\n")
    with pytest.raises(ValueError, match="has changed since the corpus was split"):
        shards.translate_shard(found[0], tmp_path / "out", MADE_WITH, turned)
    run(shards, corpus, tmp_path / "out", tmp_path / "joined")
    (tmp_path / "out/shards/000001.txt").write_bytes(b"")
    with pytest.raises(ValueError, match="000001.txt is damaged"):
        shards.join_shards(found, tmp_path / "out", tmp_path / "joined")
    for content, message in (
        ("[]", "000001.json is not an index"),
        ("{", "000001.json is not an index"),
        ("{}", "000001.txt is damaged"),
    ):
        (tmp_path / "out/shards/000001.json").write_text(content)
        with pytest.raises(ValueError, match=message):
            shards.join_shards(found, tmp_path / "out", tmp_path / "joined")
    (tmp_path / "empty").write_text("")
    with pytest.raises(ValueError, match="has no lines"):
        shards.split_corpus(tmp_path / "empty", tmp_path / "out", 2)
    with pytest.raises(ValueError, match="--shard-lines 0"):
        shards.split_corpus(corpus, tmp_path / "out", 0)


def test_parquet(shards, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="columns are read with pyarrow")
    import pyarrow

    parquet.write_table(
        pyarrow.table({"id": range(3), "words": ["ab", None, "c\nd"]}), tmp_path / "corpus.parquet"
    )
    found = shards.split_corpus(tmp_path / "corpus.parquet", tmp_path / "out", 2, "words")
    for shard in found:
        shards.translate_shard(shard, tmp_path / "out", MADE_WITH, turned)
    shards.join_shards(found, tmp_path / "out", tmp_path / "joined.parquet")
    rows = parquet.read_table(tmp_path / "joined.parquet").to_pylist()
    assert rows == [{"source": text, "translation": text[::-1]} for text in ("ab", "", "c d")]


@pytest.fixture(scope="module")
def deploying(load_example):
    return load_example("scale/serve_deployment.py")


def deployed(**changes):
    """The options of a deployment, as they are parsed."""
    given = dict(
        systems=["x=bundle"], replicas=2, threads=3, engine="auto", time_limit=7.0, key_file=None
    )
    return SimpleNamespace(**{**given, **changes})


def test_a_deployment_is_the_application_of_the_server(deploying, tmp_path, monkeypatch):
    """Ray itself stands aside: what it is given to start, and how much of a machine."""
    pytest.importorskip("starlette", reason="the server needs the extra serve")
    from fairseq_hrt.native.server import application

    seen = {}

    def deployment(**options):
        seen.update(options)
        return lambda cls: SimpleNamespace(bind=lambda: cls)

    def ingress(build):
        seen["build"] = build
        return lambda cls: cls

    serve = types.ModuleType("ray.serve")
    serve.deployment, serve.ingress = deployment, ingress
    ray = types.ModuleType("ray")
    ray.serve = serve
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.serve", serve)
    monkeypatch.setattr(application, "check", lambda settings: None)
    monkeypatch.chdir(tmp_path)
    settings = deploying.settings_of(deployed())
    # A replica has a folder of its own.
    assert settings.systems == (("x", tmp_path / "bundle"),)
    deploying.deployment(settings, 2)
    assert (
        seen["num_replicas"],
        seen["ray_actor_options"],
        seen["graceful_shutdown_timeout_s"],
    ) == (
        2,
        {"num_cpus": 3},
        7.0,
    )
    made = seen["build"]()
    assert made.state.server.settings == settings and "/v1/translate" in {
        route.path for route in made.routes
    }
    with pytest.raises(ValueError, match="--replicas 0"):
        deploying.settings_of(deployed(replicas=0))
