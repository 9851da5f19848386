"""The native runtime as a system of the comparison."""

from dataclasses import replace

import pytest
import torch
from tiny_models import write_bundle, write_checkpoint, write_dictionaries

from fairseq_hrt.evaluation.systems import load_system, parse_system
from fairseq_hrt.evaluation.systems.native_system import NativeSystem
from fairseq_hrt.export.runtime_bundle import add_runtime

# A bundle for each way of decoding.
pytestmark = pytest.mark.slow

LINES = ["a b c", "j i", "zzz a b c d e"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Dictionaries, a checkpoint of two families, and a bundle."""
    place = tmp_path_factory.mktemp("systems")
    write_dictionaries(place)
    for family in ("autoregressive", "hrt"):
        write_checkpoint(place / f"{family}.pt", place, family)
    write_bundle(
        place / "bundle", "hrt", complete=lambda bundle: add_runtime(bundle, "float32", data=place)
    )
    return place


@pytest.fixture
def load(folder):
    def loaded(text):
        return load_system(
            parse_system(text.replace("FOLDER", str(folder))), [str(folder), "-s", "de", "-t", "en"]
        )

    return loaded


def translations(system):
    sample = system.collate_text(LINES)
    return sorted(
        (number, best[0].tokens)
        for number, best in zip(sample["id"].tolist(), system.decode(sample))
    )


def strings(system):
    """All translations of the lines as their data set, in fairseq's words."""
    source, string = system.task.source_dictionary, system.task.target_dictionary.string
    rows = [source.encode_line(line, add_if_not_exist=False).long() for line in LINES]
    lengths = [len(row) for row in rows]
    system.task.datasets[system.subset] = system.task.build_dataset_for_inference(rows, lengths)
    sample = system.collate(range(len(rows)))
    found = dict(zip(sample["id"].tolist(), system.decode(sample)))
    return [[string(one.tokens) for one in found[number]] for number in sorted(found)]


def test_it_decodes_what_the_others_decode(load, folder):
    at = "path=FOLDER/autoregressive.pt,task=translation_autoregressive,beam=2,max_len_b=9"
    eager, native = load(f"name=a,{at}"), load(f"name=b,{at},engine=native,weights=float32")
    assert isinstance(native, NativeSystem) and translations(native) == translations(eager)
    found = native.decode(native.collate_text(LINES[:1]))[0][0]
    assert native.text(found.tokens) == eager.text(found.tokens)
    expected = eager.decode(eager.collate_text(LINES[:1]))[0][0]
    assert found.score == pytest.approx(expected.score, abs=1e-4)
    assert len(found.positional_scores) == len(found.token_steps) == len(found.tokens)
    native.counters.reset()
    native.decode(native.collate_text(LINES[:1]))
    assert native.counters.decoder_calls == found.steps and native.counters.sentences == 1
    native.without_scores()
    assert translations(native) == translations(eager)
    assert strings(native) == strings(eager)
    assert native.decode(native.collate_text(LINES))[0][0].score is None
    again = native.reloadable
    assert again.path.endswith(".safetensors") and native.model_bytes > 1000
    assert translations(load_system(again, [str(folder), "-s", "de", "-t", "en"])) == translations(
        eager
    )


def test_the_task_may_choose_the_engine(load):
    """As in ``fairseq-generate``."""
    options = "path=FOLDER/autoregressive.pt,task=translation_autoregressive,beam=2,max_len_b=9"
    torch, auto = load(f"name=a,{options},engine=torch"), load(f"name=b,{options}")
    assert translations(auto) == translations(torch) == translations(load(f"name=c,{options}"))
    assert auto.signature() == {**torch.signature(), "engine": "native"}
    rounded = load(f"name=b,{options},weights=int8")
    assert (rounded.engine, rounded.dtype) == ("native", "int8")
    assert rounded.model_bytes < auto.model_bytes
    exact = load(f"name=c,{options},engine=native")
    assert (exact.dtype, exact.model_bytes) == ("float32", auto.model_bytes)
    auto.without_scores()
    assert auto.decode(auto.collate_text(LINES))[0][0].score is None
    assert translations(auto) == translations(torch)
    left = load(f"name=b,{options},engine=auto,temperature=0.5")
    assert left.signature()["engine"] == "torch"
    # fairseq's own task has its own generator.
    own = load(f"name=c,{options},engine=auto".replace("translation_autoregressive", "translation"))
    assert own.signature()["engine"] == "torch" and strings(own) == strings(torch)


def test_bundles_and_their_options(load):
    eager = load("name=a,path=FOLDER/bundle/model.pt,beam=1,max_len_b=20")
    native = load("name=b,path=FOLDER/bundle,engine=native")
    assert (
        translations(native) == translations(eager)
        and native.dtype == "float32"
        and native.task_name == "translation_hrt"
    )
    assert native.signature()["beam"] == "1" and native.signature()["engine"].startswith("native ")
    slower = load("name=b,path=FOLDER/bundle,engine=native,hrt_decode_chunk=1")
    assert slower.plan.options.hrt_decode_chunk == "1" and slower.plan.options.max_len_b == 20


def test_jacobi_is_a_task_of_the_teacher(load):
    at = "path=FOLDER/autoregressive.pt,beam=1,max_len_b=9"
    greedy = load(f"name=a,{at},engine=native,task=translation_autoregressive,weights=float32")
    for options in ("", ",jacobi_window=9", ",jacobi_mode=frontier"):
        found = load(f"name=b,{at},engine=native,task=translation_jacobi,weights=float32{options}")
        assert (
            translations(found) == translations(greedy) and found.task_name == "translation_jacobi"
        )
    assert translations(
        load(f"name=c,{at},task=translation_jacobi,jacobi_mode=pj")
    ) == translations(greedy)
    with pytest.raises(ValueError, match="--jacobi-mode hgj: the native engine has frontier"):
        load(f"name=d,{at},engine=native,task=translation_jacobi,jacobi_mode=hgj")
    with pytest.raises(ValueError, match="one dictionary for both sides"):
        load(f"name=d,{at},engine=native,task=translation_jacobi,jacobi_draft=source")


def test_a_shortlist_from_a_file(load, folder):
    (folder / "lex").write_text("A a 0.9\n")
    assert translations(
        load("name=a,path=FOLDER/hrt.pt,engine=native,beam=1,weights=float32,shortlist=FOLDER/lex")
    )


@pytest.mark.parametrize(
    "text, message",
    [
        ("path=FOLDER/bundle,weights=int8", "a bundle's weights have their type"),
        ("path=FOLDER/bundle/model.safetensors,weights=float32", "a model file's weights have their"),
        ("path=FOLDER,beam=1", "is not a bundle"), ("path=FOLDER/hrt.pt,sampling=true", "--sampling"),
        ("path=FOLDER/hrt.pt,task=translation_autoregressive", "task=translation_hrt"),
        ("path=FOLDER/hrt.pt:FOLDER/hrt.pt", "decodes one model"),
        ("path=FOLDER/hrt.pt,weights=int4", "choose one of"),
        ("path=FOLDER/bundle,shortlist=true", "needs a bundle with a shortlist"),
        ("path=FOLDER/hrt.pt,no_such=1", "no-such"),
        ("path=FOLDER/hrt.pt,num_shards=2", "--num-shards has no effect here; leave it out"),
        ("path=FOLDER/hrt.pt,beam=1,hrt_decode_chunk=7", "chunk size 7 was not trained"),
    ],
)  # fmt: skip
def test_what_is_refused(load, text, message):
    with pytest.raises(ValueError, match=message):
        load(f"name=a,engine=native,{text}")


def test_other_dictionaries(load, folder, tmp_path):
    write_dictionaries(tmp_path)
    with open(tmp_path / "dict.en.txt", "a") as file:
        file.write("more 1\n")
    spec = parse_system(f"name=a,engine=native,path={folder}/bundle")
    with pytest.raises(ValueError, match="different dictionaries from the data"):
        load_system(spec, [str(tmp_path), "-s", "de", "-t", "en"])
    assert torch.is_tensor(
        load(f"name=a,engine=native,path={folder}/bundle").collate_text(["a"])["id"]
    )


RESCORED = "path=FOLDER/hrt.pt,beam=4,hrt_nat_beam=4,nbest=3,max_len_b=9,rescore_path=FOLDER/autoregressive.pt"


def test_a_teacher_chooses(load, folder):
    """As in PyTorch; again from the converted files, which is what a measurement of memory
    loads."""
    eager = load(f"name=a,{RESCORED},rescore_lenpen=0.5")
    native = load(f"name=b,{RESCORED},rescore_lenpen=0.5,engine=native,weights=float32")
    plain = load(
        "name=c,path=FOLDER/hrt.pt,beam=4,hrt_nat_beam=4,nbest=3,max_len_b=9,engine=native,weights=float32"
    )
    assert translations(native) == translations(eager) != translations(plain)
    sample, other = native.collate_text(LINES), eager.collate_text(LINES)
    expected = dict(zip(other["id"].tolist(), eager.decode(other)))
    for number, best in zip(sample["id"].tolist(), native.decode(sample)):
        assert [one.tokens for one in best] == [one.tokens for one in expected[number]]
        assert [one.score for one in best] == pytest.approx(
            [one.score for one in expected[number]], abs=1e-4
        )
    native.counters.reset()
    native.decode(sample)
    assert (native.counters.encoder_calls, native.counters.sentences) == (2, len(LINES))
    assert native.model_bytes > 1.5 * plain.model_bytes
    engine = native.decoder.engine
    engine.header = replace(engine.header, longest_source=9)
    assert native.longest_source == 9 < plain.longest_source == eager.longest_source
    judge = native.decoder.rescorer.judge
    judge.header = replace(judge.header, longest_source=7)
    assert native.longest_source == 7
    again = native.reloadable
    assert again.options["rescore_path"].endswith(".safetensors")
    assert translations(load_system(again, [str(folder), "-s", "de", "-t", "en"])) == translations(
        eager
    )
    native.without_scores()
    assert translations(native) == translations(eager)
    assert strings(native) == strings(eager) and len(strings(native)[0]) == 3


def test_a_teacher_chooses_among_the_translations_of_a_bundle(load, folder):
    options = "beam=4,hrt_nat_beam=4,max_len_b=9,rescore_path=FOLDER/autoregressive.pt"
    eager = load(f"name=a,path=FOLDER/bundle/model.pt,{options}")
    native = load(f"name=b,path=FOLDER/bundle,{options},engine=native")
    assert translations(native) == translations(eager)
    again = native.reloadable
    assert again.path == native.spec.path and again.options["rescore_path"].endswith(".safetensors")
    assert translations(load_system(again, [str(folder), "-s", "de", "-t", "en"])) == translations(
        eager
    )
    plain = load("name=c,path=FOLDER/bundle,rescore_lenpen=1.0,engine=native")
    assert plain.decoder.rescorer is None and plain.reloadable == plain.spec


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "path=FOLDER/hrt.pt,beam=4,rescore_lenpen=2",
            "--rescore-lenpen 2.0 has an effect only with --rescore-path",
        ),
        (
            f"{RESCORED}:FOLDER/hrt.pt",
            "'b': the native engine rescores with one model, but rescore_path= names 2; give one",
        ),
        (f"{RESCORED},rescore_lenpen=21", "--rescore-lenpen 21.0: give a number from -20 to 20"),
        (
            f"{RESCORED},hrt_nat_beam=1,nbest=1",
            "only one translation to choose from; give --beam and --hrt-nat-beam 2 or more",
        ),
        ("path=FOLDER/hrt.pt,beam=4,rescore_path=FOLDER/no.pt", "--rescore-path: No such file"),
        (
            "path=FOLDER/hrt.pt,beam=4,rescore_path=FOLDER/dict.de.txt",
            "--rescore-path .*dict.de.txt",
        ),
        (
            "path=FOLDER/hrt.pt,beam=4,rescore_path=FOLDER/no.safetensors",
            "--rescore-path .*no.safetensors: ",
        ),
        (
            "path=FOLDER/hrt.pt,beam=4,rescore_path=FOLDER/bundle/dict.de.txt.safetensors",
            "--rescore-path .*safetensors: ",
        ),
        # Nothing is loaded where there is nothing to choose from.
        (
            "path=FOLDER/hrt.pt,beam=1,rescore_path=FOLDER/no.pt",
            "there is only one translation to choose from",
        ),
    ],
)
def test_a_judge_that_cannot_choose(load, text, message):
    with pytest.raises((ValueError, OSError), match=message):
        load(f"name=b,{text},engine=native")
