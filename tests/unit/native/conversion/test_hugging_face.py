"""Weights and descriptions of Hugging Face's folders are data."""

import json
import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from fairseq_hrt.native.conversion.hugging_face import (
    chosen_token,
    decoding_options,
    language_tokens,
    read_generation,
    read_weights,
)
from fairseq_hrt.native.conversion.plain_files import Settings


def test_weights_in_every_container_are_float32(tmp_path):
    values = {"a": torch.randn(2, 3), "b": torch.randn(4)}
    for name, write in (("model.safetensors", save_file), ("pytorch_model.bin", torch.save)):
        for kind in (torch.float32, torch.float16, torch.bfloat16):
            folder = tmp_path / f"{name}{kind}"
            folder.mkdir()
            write({key: value.to(kind) for key, value in values.items()}, str(folder / name))
            found = read_weights(folder).held
            assert all(found[key].dtype == np.float32 for key in values)
            assert all(
                np.array_equal(found[key], value.to(kind).float().numpy())
                for key, value in values.items()
            )


def test_weights_in_several_files(tmp_path):
    save_file({"a": torch.ones(1)}, str(tmp_path / "one.safetensors"))
    save_file({"b": torch.ones(2)}, str(tmp_path / "two.safetensors"))
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}))
    assert set(read_weights(tmp_path).held) == {"a", "b"}
    save_file({"a": torch.ones(1)}, str(tmp_path / "two.safetensors"))
    with pytest.raises(ValueError, match=r"two\.safetensors has 'a', which another file has, too"):
        read_weights(tmp_path)
    for table in (
        {"a": "../x"},
        {"a": 3},
        {},
        [1],
        {"a": "/etc/passwd"},
        {"a": "none.safetensors"},
    ):
        index.write_text(json.dumps({"weight_map": table}))
        with pytest.raises(ValueError, match="index.json"):
            read_weights(tmp_path)


class Runs:
    def __reduce__(self):
        return (exec, ("raise SystemExit('it was run')",))


@pytest.mark.parametrize(
    "value, message",
    [
        (pickle.dumps(Runs()), "pytorch_model.bin"),
        ({"a": Runs()}, "pytorch_model.bin"),
        ([1], "not tensors by their names"),
        ({"a": 3}, "not a plain tensor"),
        ({"a": torch.ones(2, dtype=torch.int64)}, "floating-point"),
        ({"a": torch.ones(1).expand(1 << 40)}, "the file holds fewer numbers"),
        ({"a": torch.full((2,), float("nan"))}, "not finite"),
        (dict(zip("abcde", [torch.ones(10000)] * 5)), "more than 4 times the numbers"),
        ({"a": torch.ones(3).to_sparse()}, "pytorch_model.bin"),
        ({"a": torch.empty(1 << 40, device="meta")}, "pytorch_model.bin"),
        (b"", "pytorch_model.bin"),
    ],
)
def test_other_content_is_refused(tmp_path, value, message):
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(value) if isinstance(value, bytes) else torch.save(value, path)
    with pytest.raises(ValueError, match=message) as caught:
        read_weights(tmp_path)
    assert "\n" not in str(caught.value)


def test_safetensors_that_are_none(tmp_path):
    with pytest.raises(ValueError, match="has no weights"):
        read_weights(tmp_path)
    for content in (b"", (1 << 60).to_bytes(8, "little"), b"\2\0\0\0\0\0\0\0{}x"):
        (tmp_path / "model.safetensors").write_bytes(content)
        with pytest.raises(ValueError, match=r"model\.safetensors is not a safetensors file"):
            read_weights(tmp_path)


def options_of(values, positions=64, **own):
    return decoding_options(Settings(values, "g"), positions, **{"end": 2, **own})


def test_decoding_options_come_from_the_generation_config(tmp_path):
    # Other values of a config.json are about the model.
    config = {"max_length": 20, "d_model": 16, "num_hidden_layers": 6}
    found = decoding_options(read_generation(tmp_path, config), 64, end=2)
    # The start of a translation counts there; its end is one of the words here, and free there.
    assert found == {
        "beam": "1",
        "lenpen": "1",
        "max_len_a": "0",
        "max_len_b": "19",
        "min_len": "0",
    }
    (tmp_path / "generation_config.json").write_text(
        json.dumps(
            {
                "num_beams": 6, "max_length": 512, "min_length": 4, "length_penalty": 0.8,
                "no_repeat_ngram_size": 3, "top_k": None, "forced_eos_token_id": 2,
                "do_sample": False, "repetition_penalty": 1, "suppress_tokens": [],
                "eos_token_id": [2], "use_cache": True, "transformers_version": "5.0",
            }
        )
    )  # fmt: skip
    found = decoding_options(read_generation(tmp_path, config), 64, end=2)
    expected = {
        "beam": "6",
        "lenpen": "0.8",
        "max_len_a": "0",
        "max_len_b": "62",
        "min_len": "3",
        "no_repeat_ngram_size": "3",
    }
    assert found == expected
    assert options_of({"max_new_tokens": 9, "max_length": 3})["max_len_b"] == "9"
    with pytest.raises(ValueError, match="num_beams: 'x'"):
        options_of({"num_beams": "x"})


@pytest.mark.parametrize("name, value", [
    ("repetition_penalty", 1.2), ("do_sample", True), ("suppress_tokens", [3]),
    ("sequence_bias", [[[3], 1]]), ("early_stopping", "never"), ("guidance_scale", 1.5),
    ("stop_strings", ["."]), ("forced_decoder_ids", [[1, 5]]), ("constraints", [[4]]),
    ("watermarking_config", {"greenlist_ratio": 0.25}), ("an_option_of_next_year", 1),
])  # fmt: skip
@pytest.mark.parametrize("place", ["generation_config.json", "config.json"])
def test_options_that_would_change_translations_are_refused(tmp_path, name, value, place):
    config = {name: value}
    if place == "generation_config.json":
        (tmp_path / place).write_text(json.dumps(config))
    elif name == "an_option_of_next_year":
        return
    with pytest.raises(ValueError, match=f"{place} has '?{name}'?: .*remove it from that file"):
        read_generation(tmp_path, config)


def test_words_that_are_forced_or_forbidden():
    """Rows: </s> is 2, the language token of the translation 7, <pad> 1."""
    for values in ({"eos_token_id": [2]}, {"forced_bos_token_id": 7}, {"bad_words_ids": [[1]]}):
        assert options_of(values, first=7, never=(1,))
    for values in (
        {"eos_token_id": [2, 5]}, {"eos_token_id": 5}, {"forced_eos_token_id": 5},
        {"forced_bos_token_id": 8}, {"bad_words_ids": [[1], [9]]}, {"bad_words_ids": [[1, 1]]},
        {"bad_words_ids": 3},
    ):  # fmt: skip
        with pytest.raises(
            ValueError, match=f"g has {next(iter(values))}: .*remove it from that file"
        ):
            options_of(values, first=7, never=(1,))
    with pytest.raises(ValueError, match="forced_bos_token_id: 7, but none is expected"):
        options_of({"forced_bos_token_id": 7})


def test_language_tokens_by_number_or_in_order(tmp_path):
    ordered = {"additional_special_tokens": ["de_DE", {"content": "en_XX"}, "<mask>", 3]}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(ordered))
    assert language_tokens(tmp_path, 10) == {"de_DE": 10, "en_XX": 11}
    entries = {
        "7": {"content": "en_XX"},
        "9": {"content": "<mask>"},
        "8": 3,
        "6": {"content": ["de_DE"]},
    }
    numbered = {"added_tokens_decoder": entries}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(numbered))
    # One that has no number keeps its place, as older files number only those of fine-tuning.
    assert language_tokens(tmp_path, 10) == {"de_DE": 10, "en_XX": 7}
    numbered["added_tokens_decoder"] = {"x": {"content": "en_XX"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(numbered))
    with pytest.raises(ValueError, match="must be an integer"):
        language_tokens(tmp_path, 10)


def test_languages_by_their_names():
    tokens = {"__de__": 1, "__en__": 2, ">>fra<<": 3, "zh_CN": 4, "zh_TW": 5, "en_XX": 6}
    for name, token in (
        ("de", "__de__"),
        ("__de__", "__de__"),
        ("fra", ">>fra<<"),
        ("zh_CN", "zh_CN"),
        ("en", "__en__"),
    ):
        assert chosen_token(tokens, name, "-t", "f") == (token, name)
    for name, message in (
        (None, "is needed"),
        ("zh", "'zh' is not a language"),
        ("xx", "its languages are de, en, fra, zh_CN"),
    ):
        with pytest.raises(ValueError, match=message):
            chosen_token(tokens, name, "-t", "f")


def test_types_that_are_not_read(tmp_path):
    save_file({"a": torch.ones(3, dtype=torch.int64)}, str(tmp_path / "model.safetensors"))
    with pytest.raises(ValueError, match="'a' has the type I64, which is not floating-point"):
        read_weights(tmp_path)
    save_file(
        {"a": torch.tensor([1.0, float("inf")], dtype=torch.bfloat16)},
        str(tmp_path / "model.safetensors"),
    )
    with pytest.raises(ValueError, match="'a' holds numbers that are not finite"):
        read_weights(tmp_path)
