"""Descriptions of systems."""

import json

import pytest

from fairseq_hrt.evaluation.systems.specification import (
    SystemSpec,
    generate_arguments,
    parse_system,
    read_systems,
)


def test_values_may_hold_commas_and_equal_signs():
    spec = parse_system(
        "name=HRT k=2"
        " (1,1),path=a.pt:b.pt,task=translation_hrt,beam=1,hrt_chunk_table=10:1,30:2,inf:1"
    )
    assert spec == SystemSpec(
        "HRT k=2 (1,1)",
        "a.pt:b.pt",
        "translation_hrt",
        {"beam": "1", "hrt_chunk_table": "10:1,30:2,inf:1"},
    )


def test_reports_name_files_without_their_folders():
    spec = parse_system(
        "name=AT,path=a/b/x.pt:c/y.pt,lenpen=0.6,rescore_path=d/z.pt,shortlist=true"
    )
    assert spec.shown() == {
        "checkpoint": "x.pt+y.pt",
        "lenpen": "0.6",
        "rescore_path": "z.pt",
        "shortlist": "true",
    }


def test_task_is_optional():
    assert parse_system("name=AT,path=a.pt").task is None


@pytest.mark.parametrize(
    "given, engine",
    [
        ("", "auto"),
        (",engine=torch", "torch"),
        (",engine=auto", "auto"),
        (",engine=native", "native"),
        (",engine=ctranslate2", "ctranslate2"),
        # As they were called before.
        (",engine=fairseq", "torch"),
        (",engine=runtime", "native"),
    ],
)
def test_engines(given, engine):
    spec = parse_system(f"name=AT,path=a.pt{given}")
    assert spec.engine == engine and spec.options == {}


@pytest.mark.parametrize(
    "text, message",
    [
        ("path=a.pt", "needs name="),
        ("name=AT", "needs path="),
        ("AT,path=a.pt", "not of the form"),
        ("name=AT,path=a.pt,gen_subset=valid", "same for all systems"),
        (
            "name=AT,path=a.pt,engine=fast",
            "engine=fast is unknown, choose one of auto, torch, native, ctranslate2",
        ),
        (
            "name=AT,path=a.pt,prefix-size=2",
            "'AT': prefix_size=2 gives the system words of the references",
        ),
        (
            "name=AT,path=a.pt,score_reference=true",
            "score_reference=true gives the system words of the references",
        ),
    ],
)
def test_incomplete_systems_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_system(text)


def test_file_of_systems(tmp_path):
    path = tmp_path / "systems.json"
    path.write_text(
        json.dumps(
            [{"name": "AT", "path": "a.pt", "beam": 5, "unnormalized": True, "--max-len-b": 10}]
        )
    )
    (spec,) = read_systems(path)
    assert spec.options == {"beam": "5", "unnormalized": "true", "max_len_b": "10"}
    path.write_text('{"name": "AT"}')
    with pytest.raises(ValueError, match="list of objects"):
        read_systems(path)
    for text in ("[", "[" * 100_000):
        path.write_text(text)
        with pytest.raises(ValueError, match="not valid JSON"):
            read_systems(path)


def test_arguments_of_fairseq_generate():
    spec = SystemSpec(
        "AT", "a.pt", None, {"max_len_b": "10", "unnormalized": "true", "sampling": "false"}
    )
    arguments = generate_arguments(spec, ["data-bin", "--gen-subset", "test"], "translation")
    assert (
        arguments
        == "data-bin --gen-subset test --path a.pt --task translation --max-len-b 10 --unnormalized".split()
    )
