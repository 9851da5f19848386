"""The native engine's model of an imported one is that of its checkpoint, and is the same without
PyTorch."""

from dataclasses import replace

import numpy as np
import pytest

from fairseq_hrt.engine.torch_to_native import convert
from fairseq_hrt.export.torch_decoder import TorchDecoder
from fairseq_hrt.native.bundles.bundle import load_bundle
from fairseq_hrt.native.bundles.decoder import Wanted
from fairseq_hrt.native.bundles.pretrained import from_pretrained
from fairseq_hrt.native.bundles.translator import Translator
from fairseq_hrt.native.conversion import Wishes, import_model
from fairseq_hrt.native.conversion.converted import write_bundle
from fairseq_hrt.native.conversion.hugging_face_folders import read_hugging_face
from fairseq_hrt.native.conversion.imported_to_native import native_model
from fairseq_hrt.native.conversion.marian import read_marian
from fairseq_hrt.native.runtime.engine import Engine

NORMALISING_FIRST = dict(
    transformer_preprocess="n", transformer_postprocess="da", transformer_postprocess_top="n"
)
UNTIED = dict(
    tied_embeddings_all="false",
    transformer_ffn_activation="swish",
    transformer_decoder_autoreg="self-attention",
)


@pytest.fixture
def source(marian_folder, hugging_face_folder):
    """A function that makes a folder, with the languages that it needs, and reads it."""

    def make(toolkit, **options):
        if toolkit == "marian":
            folder = marian_folder(**options).path
            return folder, (None, None), read_marian(folder, (None, None))
        folder = hugging_face_folder(
            "marian" if toolkit == "hugging_face" else toolkit, **options
        ).path
        languages = {"hugging_face": (None, None), "nllb": ("eng", "deu")}.get(
            toolkit, ("en", "de")
        )
        return folder, languages, read_hugging_face(folder, languages)

    return make


KINDS = [
    ("marian", dict(int8=True)),
    ("marian", dict(transformer_decoder_autoreg="self-attention", kind="npz")),
    ("marian", NORMALISING_FIRST), ("marian", UNTIED), ("hugging_face", {}),
    ("hugging_face", dict(scale_embedding=False)), ("mbart", {}), ("m2m_100", {}), ("nllb", {}),
]  # fmt: skip


@pytest.mark.parametrize("kind, options", KINDS)
def test_it_is_that_of_the_checkpoint(source, tmp_path, kind, options):
    _, _, converted = source(kind, **options)
    bundle = write_bundle(converted, tmp_path / "bundle")
    decoder = TorchDecoder(load_bundle(bundle.folder), device="cpu")
    task = decoder.prepare(Translator(bundle, decoder).defaults, Wanted(32), frozenset()).task
    expected = convert(
        decoder.models[0], task.source_dictionary, task.target_dictionary, weights="float32"
    )
    (model,) = converted.models
    header, tensors = native_model(model.options, model.parameters, {}, weights="float32")
    assert header == expected[0] and tensors.keys() == expected[1].keys()
    for name, tensor in tensors.items():
        # Of fairseq's own sines the last digits are others.
        stock = name.endswith("positions") and model.architecture == "transformer"
        difference = 1e-3 if stock else 0
        np.testing.assert_allclose(tensor, expected[1][name], rtol=0, atol=difference, err_msg=name)
        np.testing.assert_allclose(
            tensor[:24], expected[1][name][:24], rtol=0, atol=min(difference, 1e-6), err_msg=name
        )


@pytest.mark.parametrize("runtime", ["int8", "float32"])
@pytest.mark.parametrize("kind, options", [KINDS[0], KINDS[-2]])
def test_both_installations_write_the_same_files(source, tmp_path, kind, options, runtime):
    folder, languages, converted = source(kind, **options)
    if kind == "marian":
        names = converted.source.words
        (folder / "lex.s2t").write_text("".join(f"{word} {word} 0.5\n" for word in names[:30]))
    made = [
        import_model(
            folder,
            tmp_path / f"bundle{checkpoint}",
            Wishes(*languages, runtime=runtime, checkpoint=checkpoint),
        )
        for checkpoint in (True, False)
    ]
    files = [{path.name: path.read_bytes() for path in one.folder.iterdir()} for one in made]
    differing = {name for name in files[0] if files[0][name] != files[1].get(name)}
    assert differing == {"model.pt", "bundle.json", "README.md"} and set(files[0]) - set(
        files[1]
    ) == {"model.pt"}
    assert ("shortlist.safetensors" in files[1]) == (kind == "marian")
    assert made[1].models == [] and load_bundle(made[1].folder, for_runtime=True) == made[1]


# Each toolkit once: what else there is, is in the tensors that the tests above compare.
@pytest.mark.parametrize("kind, options", [*KINDS[::2], KINDS[7]])
def test_without_pytorch_it_translates_as_the_eager_engine(source, tmp_path, kind, options):
    """A different word is excused where the eager engine's probabilities of both are nearly the
    same."""
    folder, languages, _ = source(kind, **options)
    lines = ["a man in red shirt", "two dogs play with ball", "water", "grass near the park"]
    found = []
    for name, engine in (("whole", "torch"), ("light", "native")):
        wishes = Wishes(*languages, runtime="float32" if name == "light" else None)
        import_model(folder, tmp_path / name, replace(wishes, checkpoint=name == "whole"))
        options = dict(beam=1, max_len_a=0, max_len_b=14, min_len=5, unkpen=0)
        model = from_pretrained(tmp_path / name, device="cpu", engine=engine, **options)
        found.append(model.translate(lines, details=True))
    assert min(len(one.tokens) for one in found[0]) > 5
    for eager, light in zip(*found):
        for place, words in enumerate(zip(eager.tokens, light.tokens)):
            scores = eager.positional_scores[place], light.positional_scores[place]
            assert scores[0] == pytest.approx(scores[1], abs=1e-4)
            if words[0] != words[1]:
                break
        else:
            assert eager.text == light.text
            assert light.score == pytest.approx(eager.score, abs=1e-4)


def test_sizes_that_no_model_has(source):
    (model,) = source("marian")[2].models
    with pytest.raises(ValueError, match="weights 'int4': choose one of int8, float32"):
        native_model(model.options, model.parameters, {}, weights="int4")
    with pytest.raises(ValueError, match="activation='softmax'"):
        native_model(
            {**model.options, "activation_fn": "softmax"}, model.parameters, {}, weights="int8"
        )


def test_weights_of_eight_bits_are_taken_as_they_are(marian_folder):
    """Marian has one scale a matrix: to round its integers row by row would round twice."""
    (model,) = read_marian(marian_folder(int8=True).path, (None, None)).models
    _, exact = native_model(model.options, model.parameters, {}, weights="float32")
    for steps, kept in ((model.steps, True), ({}, False)):
        _, tensors = native_model(model.options, model.parameters, steps, weights="int8")
        worst = 0.0
        for name in (name for name in tensors if f"{name}.scale" in tensors):
            values = tensors[name] * tensors[f"{name}.scale"][:, None]
            largest = np.abs(exact[name]).max()
            worst = max(worst, float(np.abs(values - exact[name]).max() / largest))
        assert (worst < 1e-6) == kept


def test_eight_bits_translate_as_float32(marian_folder):
    """The weights are exact, so inputs are rounded finer: scores agree as in float32."""
    (model,) = read_marian(marian_folder(int8=True).path, (None, None)).models
    rows, scores = [[5, 9, 14, 2], [7, 2], [30, 6, 21, 8, 11, 2]], []
    for weights, steps in (("float32", model.steps), ("int8", model.steps), ("int8", {})):
        header, tensors = native_model(model.options, model.parameters, steps, weights=weights)
        assert header.input_bits == (16 if weights == "int8" and steps else 8)
        with Engine(header, tensors) as engine:
            found = engine.score(rows, [[[5, 9, 17, 2]]] * len(rows))
        scores.append(np.array([one.positional_scores for (one,) in found]))
    worst = [np.abs(one - scores[0]).max() for one in scores[1:]]
    assert worst[0] < 2e-3 and worst[1] > 5 * worst[0], worst
