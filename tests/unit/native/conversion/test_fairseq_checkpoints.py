"""Folders as fairseq publishes them: ensembles, Moses, codes with counts."""

import functools
import shutil
from argparse import Namespace

import pytest
import torch
from fairseq import checkpoint_utils
from tiny_models import write_checkpoint, write_dictionaries
from tiny_weights import sharpen

from fairseq_hrt.compat.checkpoint_loading import allowed_types
from fairseq_hrt.native.bundles.pretrained import from_pretrained
from fairseq_hrt.native.conversion import Wishes, import_model

LINES = ["a b", "c d e f g", "h", "j i h g f e d c b a", "a a a"]


def drawn(model):
    """Leaves a model's weights as they were drawn."""


@pytest.fixture(scope="module")
def write(tmp_path_factory):
    """A function that writes a checkpoint; each is made once."""
    made = tmp_path_factory.mktemp("made")
    write_dictionaries(made)

    @functools.cache
    def make(seed, fill):
        path = made / f"{fill.__name__}{seed}.pt"
        return write_checkpoint(path, made, "autoregressive", seed=seed, fill=fill)

    return lambda path, seed=1, fill=drawn: shutil.copyfile(make(seed, fill), path)


@pytest.fixture
def folder(tmp_path, write):
    place = tmp_path / "wmt19.de-en.joined-dict.ensemble"
    write_dictionaries(place)
    (place / "bpecodes").write_text("a b 12\nc d</w> 7\n")
    write(place / "model1.pt")
    return place


def test_a_model_with_codes_of_fastbpe(folder, tmp_path):
    bundle = import_model(folder, tmp_path / "bundle", Wishes(examples=["a b"]))
    assert bundle.examples == ["a b"]
    assert (bundle.tokenizer, bundle.subwords, bundle.models) == (
        "moses",
        "subword-nmt",
        ["model.pt"],
    )
    assert bundle.card["imported from"] == "fairseq: model1.pt"
    model = from_pretrained(tmp_path / "bundle", device="cpu", engine="torch", max_len_b=5)
    assert model.pipeline.words("abcd") == ["ab@@", "cd"] and isinstance(
        model.translate("a b"), str
    )


def test_codes_that_are_given_say_what_they_are(folder, tmp_path):
    (folder / "bpecodes").rename(tmp_path / "mine")
    bundle = import_model(folder, tmp_path / "bundle", Wishes(codes=tmp_path / "mine"))
    assert bundle.subwords == "subword-nmt"


def test_each_language_may_have_its_own_codes(folder, tmp_path):
    (tmp_path / "mine").write_text("a c 5\n")
    bundle = import_model(folder, tmp_path / "bundle", Wishes(target_codes=tmp_path / "mine"))
    assert bundle.pipeline().words("abcd") == ["ab@@", "cd"]
    assert bundle.target_pipeline().words("acb") == ["ac@@", "b"]


def test_an_ensemble_in_the_order_of_its_numbers(folder, tmp_path, write):
    for number in (2, 10):
        write(folder / f"model{number}.pt", seed=number)
    bundle = import_model(folder, tmp_path / "bundle")
    assert bundle.models == ["model.pt", "model_2.pt", "model_3.pt"]
    assert bundle.card["imported from"] == "fairseq: model1.pt, model2.pt, model10.pt"
    assert import_model(folder / "model2.pt", tmp_path / "one").models == ["model.pt"]


def test_what_is_missing_is_named(folder, tmp_path):
    with pytest.raises(ValueError, match="--source-language 'en': .* has the source language 'de'"):
        import_model(folder, tmp_path / "bundle", Wishes("en", "de"))
    (folder / "bpecodes").unlink()
    with pytest.raises(ValueError, match="holds no subword codes"):
        import_model(folder, tmp_path / "bundle")
    assert (
        import_model(folder, tmp_path / "bundle", Wishes(tokenizer="space", subwords="none")).codes
        is None
    )
    for number in (1, 2):
        (
            (folder / "model1.pt").rename(folder / "checkpoint1.pt")
            if number == 1
            else (folder / "checkpoint2.pt").write_bytes(b"")
        )
    with pytest.raises(ValueError, match="has 2 checkpoints"):
        import_model(folder, tmp_path / "other", Wishes(subwords="none"))


def old_fashioned(path):
    """Gives a checkpoint the form of those that fairseq published in 2018: ``args``, norms by
    numbers, one matrix of an attention."""
    with torch.serialization.safe_globals(allowed_types()):
        state = torch.load(path, weights_only=True)
    config, model = state.pop("cfg"), state["model"]
    names = {"encoder": ("self_attn", "final"), "decoder": ("self_attn", "encoder_attn", "final")}
    for side, norms in names.items():
        layer = f"{side}.layers.0"
        for part in ("weight", "bias"):
            for number, norm in enumerate(norms):
                model[f"{layer}.layer_norms.{number}.{part}"] = model.pop(
                    f"{layer}.{norm}_layer_norm.{part}"
                )
            for attention in norms[:-1]:
                parts = [model.pop(f"{layer}.{attention}.{name}_proj.{part}") for name in "qkv"]
                model[f"{layer}.{attention}.in_proj_{part}"] = torch.cat(parts)
        model[f"{side}.version"] = torch.tensor([2.0])
        model[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
    model["decoder.embed_out"] = model.pop("decoder.output_projection.weight")
    given = {
        name: value
        for name, value in vars(config["model"]).items()
        if name.partition("_")[0] in ("encoder", "decoder", "share")
    }
    for new in (
        "encoder_layerdrop",
        "decoder_layerdrop",
        "encoder_layers_to_keep",
        "decoder_layers_to_keep",
    ):
        given.pop(new, None)
    state["args"] = Namespace(
        **given, arch="transformer_wmt_en_de", task="translation", source_lang="de",
        target_lang="en", data="data-bin/wmt16", left_pad_source="True", left_pad_target="False",
        max_source_positions=1024, max_target_positions=1024, dropout=0.1,
        criterion="label_smoothed_cross_entropy", optimizer="adam", lr_scheduler="inverse_sqrt",
        lr=[0.001], raw_text=False,
    )  # fmt: skip
    torch.save(state, path)


def found_by_fairseq(folder, paths, lines, **search):
    """Tokens and positional scores of the best translations of fairseq's own ``SequenceGenerator``,
    sentence by sentence."""
    overrides = {"data": str(folder)}
    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(path) for path in paths], arg_overrides=overrides
    )
    for model in models:
        model.eval()
    generator = task.build_generator(models, Namespace(**search))
    for line in lines:
        tokens = task.source_dictionary.encode_line(
            line, add_if_not_exist=False, append_eos=True
        ).long()[None]
        sample = {
            "net_input": {"src_tokens": tokens, "src_lengths": torch.tensor([tokens.size(1)])}
        }
        best = task.inference_step(generator, models, sample)[0][0]
        yield (
            [task.target_dictionary[word] for word in best["tokens"]],
            best["positional_scores"].tolist(),
            float(best["score"]),
        )


@pytest.mark.parametrize("models, beam", [(1, 1), (2, 4)])
def test_old_checkpoints_decode_as_fairseq_decodes_them(folder, tmp_path, write, models, beam):
    paths = [
        write(folder / f"model{number}.pt", seed=number, fill=sharpen)
        for number in range(1, models + 1)
    ]
    for path in paths:
        old_fashioned(path)
    import_model(folder, tmp_path / "bundle", Wishes(tokenizer="space", subwords="none"))
    search = {"beam": beam, "max_len_a": 0.0, "max_len_b": 12}
    found = from_pretrained(
        tmp_path / "bundle", device="cpu", engine="torch", unkpen=0, **search
    ).translate(LINES, details=True)
    expected = [*found_by_fairseq(folder, paths, LINES, **search)]
    assert len({str(tokens) for tokens, *_ in expected}) > 2
    for ours, (tokens, positional, score) in zip(found, expected):
        assert ours.tokens == tokens and ours.score == pytest.approx(score, abs=1e-5)
        assert ours.positional_scores == pytest.approx(positional, abs=1e-5)


def test_old_checkpoints_on_the_native_engine(folder, tmp_path, write):
    path = write(folder / "model1.pt", seed=2, fill=sharpen)
    old_fashioned(path)
    import_model(
        folder,
        tmp_path / "bundle",
        Wishes(tokenizer="space", subwords="none", runtime="float32", lines=LINES),
    )
    search = {"beam": 3, "max_len_a": 0.0, "max_len_b": 12}
    found = from_pretrained(
        tmp_path / "bundle", device="cpu", engine="native", unkpen=0, **search
    ).translate(LINES, details=True)
    assert [one.tokens for one in found] == [
        tokens for tokens, *_ in found_by_fairseq(folder, [path], LINES, **search)
    ]


def test_languages_that_a_training_took_from_its_files(folder, tmp_path):
    """A checkpoint that was trained without ``-s`` and ``-t`` does not hold them."""
    path = folder / "model1.pt"
    state = torch.load(path, weights_only=False)
    state["cfg"]["task"]["source_lang"] = state["cfg"]["task"]["target_lang"] = None
    torch.save(state, path)
    for given in (Wishes(), Wishes("de")):
        with pytest.raises(
            ValueError, match="import, give --source-language and --target-language"
        ):
            import_model(folder, tmp_path / "none", given)
    bundle = import_model(folder, tmp_path / "bundle", Wishes("de", "en"))
    assert (bundle.source_lang, bundle.target_lang) == ("de", "en")
    model = from_pretrained(tmp_path / "bundle", device="cpu", engine="torch", max_len_b=5)
    assert isinstance(model.translate("a b"), str)
    with pytest.raises(ValueError, match="dict.fr.txt"):
        import_model(folder, tmp_path / "other", Wishes("de", "fr"))
