"""What the description of a bundle may say."""

import json

import pytest

from fairseq_hrt.loading.data_options import allowed_options
from fairseq_hrt.native.bundles import description
from fairseq_hrt.native.bundles.data_options import option_for_runtime
from fairseq_hrt.native.bundles.description import read_description

FIELDS = dict(
    format=1,
    task="translation_hrt",
    source_lang="de",
    target_lang="en",
    tokenizer="space",
    subwords="none",
)


@pytest.fixture
def folder(tmp_path):
    for name in ("model.pt", "model_2.pt", "dict.de.txt", "dict.en.txt", "codes", "moses.json"):
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("codes")
    (tmp_path / "inner").mkdir()
    return tmp_path


def read(folder, *, for_runtime=False, text=None, **fields):
    document = {name: value for name, value in {**FIELDS, **fields}.items() if value is not ...}
    (folder / "bundle.json").write_text(json.dumps(document) if text is None else text)
    return read_description(folder, for_runtime=for_runtime)


def test_a_short_description_and_a_long_one(folder):
    expected = {
        **{name: FIELDS[name] for name in FIELDS if name != "format"},
        "models": ["model.pt"],
        "codes": None,
        "card": {},
    }
    expected.update(
        options={}, runtime_options={}, examples=[], rules=None, runtime=None, shortlist=None
    )
    expected.update(target_codes=None, source_prefix=None, target_prefix=None)
    assert read(folder) == expected
    more = dict(
        models=["model.pt", "model_2.pt"],
        codes="codes",
        rules="moses.json",
        card={"BLEU": 30},
        options={"beam": 5, "unnormalized": True},
    )
    found = read(folder, **more, runtime_options={"hrt_decode_chunk": "2"})
    assert found == {
        **expected,
        **more,
        "options": {"beam": "5", "unnormalized": "true"},
        "runtime_options": {"hrt_decode_chunk": "2"},
    }


def test_the_runtime_checks_its_options_itself(folder):
    found = read(
        folder,
        for_runtime=True,
        task="of_a_plugin",
        options={"hrt_no-such": 1.5, "fp16": False, "lenpen": -2},
    )
    assert found["task"] == "of_a_plugin" and found["options"] == {
        "hrt_no_such": "1.5",
        "fp16": "false",
        "lenpen": "-2",
    }
    with pytest.raises(ValueError, match="bundle.json has the options .*it must be an object"):
        read(folder, for_runtime=True, options=[])
    for task in (5, "\x1b[31mx", "a b", "../x"):
        with pytest.raises(ValueError, match="names the task") as refused:
            read(folder, for_runtime=True, task=task)
        assert str(refused.value).isprintable()


@pytest.mark.parametrize("name, value", [
    ("replace_unk", "/etc/passwd"), ("replace_unk", True), ("replace-unk", "x"),
    ("task", "translation_jacobi"), ("alignments", True), ("graphs", True), ("scores", False),
    ("batch_size", 9), ("max_tokens", 9), ("cpu", True), ("lm_path", "x"), ("dag_lm_path", "x"),
    ("jacobi_draft_path", "x"), ("jacobi_cost_file", "x"), ("rescore_path", "x"),
    ("jacobi_draft_options", "{}"), ("model_overrides", "{}"), ("path", "x"), ("no_such", 1),
    ("hrt_\x1b[2J", 1), ("", 1), ("beam", [1]), ("beam", None), ("hrt_chunk_table", "~/x"),
    ("jacobi_mode", "../x"), ("jacobi_mode", "\x1b[2J"), ("beam", "1\0"),
    ("post_process", "$HOME"), ("beam", "9" * 5000), ("hrt_chunk_table", ""),
])  # fmt: skip
def test_the_runtime_reads_no_file_that_a_bundle_names(folder, name, value):
    for field in ("options", "runtime_options"):
        with pytest.raises(ValueError, match="bundle.json sets the option") as refused:
            read(folder, for_runtime=True, **{field: {name: value}})
        assert str(refused.value).isprintable() and len(str(refused.value)) < 500


@pytest.mark.parametrize(
    "task",
    [
        "translation",
        *(
            f"translation_{family}"
            for family in ("autoregressive", "hrt", "bidirectional", "dag", "jacobi", "ctc")
        ),
    ],
)
def test_the_runtime_takes_every_option_that_a_bundle_may_set(task):
    for name in allowed_options(task):
        assert option_for_runtime(name, False, "x") == (name, "false") or name in (
            "post_process",
            "remove_bpe",
        )
    assert option_for_runtime("post_process", "@@ ", "x") == ("post_process", "@@ ")
    assert option_for_runtime("hrt_chunk_table", "10:1,inf:2", "x") == (
        "hrt_chunk_table",
        "10:1,inf:2",
    )


@pytest.mark.parametrize("fields, message", [
    (dict(format=2), "has the format 2, this release reads 1"),
    (dict(format=True), "has the format"), (dict(format=...), "has the format"),
    (dict(user_dir="/x"), "'user_dir' is not one of format, task"),
    (dict(subwords=...), "it has no 'subwords'"), (dict(task="of_a_plugin"), "names the task"),
    (dict(source_lang="../de"), "names the language"), (dict(target_lang=5), "names the language"),
    (dict(tokenizer=1), "names the tokenizer 1, which is not text"),
    (dict(subwords=None), "names the subwords None"),
    (dict(models=[]), "it must be a list of 1 to 64"),
    (dict(models="model.pt"), "names the models"),
    (dict(models=["model.pt"] * 2), "names the models"),
    (dict(models=[f"m{n}" for n in range(65)]), "names the models"),
    (dict(models=["../model.pt"]), "it must be the plain name"),
    (dict(models=[5]), "names 5, which the bundle does not hold"),
    (dict(codes="/etc/passwd"), "it must be the plain name"),
    (dict(codes="link"), "'link', which is a link"), (dict(rules="inner"), "does not hold"),
    (dict(runtime="none.safetensors"), "does not hold"), (dict(shortlist=""), "does not hold"),
    (dict(target_lang="fr"), "'dict.fr.txt'"),
    (dict(card=[]), r"has the card \[\]: it must be an object"),
    (dict(options=[]), r"has the options \[\]: it must be an object"),
    (dict(examples="a"), "has the examples"), (dict(examples=["a"] * 11), "a list of at most 10"),
    (dict(examples=["a\nb"]), "has the example"), (dict(examples=[""]), "1 to 200 printable"),
    (dict(examples=["a" * 201]), "1 to 200"), (dict(examples=["\x1b[2J"]), "has the example"),
    (dict(examples=[5]), "has the example 5"), (dict(options={"lm_path": "x"}), "lm_path"),
    (dict(runtime_options={"beam": []}), "beam"),
])  # fmt: skip
def test_what_a_bundle_must_not_say(folder, fields, message):
    with pytest.raises(ValueError, match=f"bundle.json .*{message}") as refused:
        read(folder, **fields)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text, message", [
    ("", "does not describe a bundle: Expecting value"), ("[]", "it is \\[\\], not a JSON object"),
    ("[" * 100_000, "it is nested too deeply"),
    ('{"format": 1, "format": 1}', "'format' appears twice"), ("\ud800", "does not describe"),
])  # fmt: skip
def test_what_is_no_description(folder, text, message):
    (folder / "bundle.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(
        ValueError, match=f"bundle.json does not describe a bundle.*{message}|{message}"
    ):
        read_description(folder, for_runtime=True)


def test_long_descriptions_are_not_read(folder, monkeypatch):
    size = len(json.dumps(FIELDS))
    monkeypatch.setattr(description, "LARGEST", size)
    assert read(folder)["task"] == "translation_hrt"
    monkeypatch.setattr(description, "LARGEST", size - 1)
    with pytest.raises(ValueError, match=f"it has more than {size - 1} bytes"):
        read(folder)


def test_where_no_description_is(folder):
    for make, kind in (
        (lambda path: None, "missing"),
        (lambda path: path.symlink_to("codes"), "a link"),
        (lambda path: path.mkdir(), "not a plain file"),
    ):
        path = folder / "bundle.json"
        path.unlink(missing_ok=True)
        make(path)
        with pytest.raises(ValueError, match=f"is not a bundle: bundle.json is {kind}; make one"):
            read_description(folder, for_runtime=True)
    with pytest.raises(ValueError, match="codes is a file, not a bundle: give a folder made by"):
        read_description(folder / "codes", for_runtime=True)


@pytest.mark.parametrize("prefix", ["de_DE", ">>deu<<", "__de__", "▁ >>deu<<"])
def test_language_tokens(folder, prefix):
    assert read(folder, source_prefix=prefix, target_prefix=prefix)["target_prefix"] == prefix


@pytest.mark.parametrize("prefix", ["", "a b", "\x1b", 3, ["a"], "x" * 101])
def test_language_tokens_that_are_none(folder, prefix):
    with pytest.raises(ValueError, match="source_prefix .*: it must be one word"):
        read(folder, source_prefix=prefix)
