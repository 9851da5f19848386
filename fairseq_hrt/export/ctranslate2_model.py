"""Converts autoregressive models for CTranslate2, a C++ runtime that decodes them without Python.

Models that write one word after another convert: fairseq's Transformers (the teachers, also of
parallel Jacobi decoding), and ``hrt_transformer`` as the autoregressive model that it also is
(C_d = 1), if it was trained without relative positions. Others do not: CTranslate2's decoder takes
one token a step and sees only those to its left, while HRT's second stage fills gaps seen from both
sides, a bidirectional model writes at two ends at once, and a directed acyclic Transformer writes a
graph in one pass. This package's own engines decode them.
"""

import copy
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models.nat import FairseqNATDecoder
from fairseq.models.transformer import TransformerDecoderBase, TransformerEncoderBase
from torch import Tensor

from ..engine import FairseqModule
from ..native.bundles.bundle import require_new
from ..native.io.files import new_folder, remove_leftovers

# Largest difference of a log-probability between fairseq and the converted model, weights in
# float32.
TOLERANCE = 1e-3
# CTranslate2's padding symbol. CTranslate2 may write it, which fairseq never does, unless called
# with suppress_sequences=[["<blank>"]].
PADDING = "<blank>"


@dataclass(frozen=True)
class Exported:
    """A model that has been converted.

    Attributes:
        folder: the folder of the converted model.
        size: the size of the folder's files together, in bytes.
        difference: the largest difference between the log-probabilities that CTranslate2 and
            fairseq give a word, over some random sentences.
    """

    folder: Path
    size: int
    difference: float


def import_ctranslate2() -> Any:
    """Imports CTranslate2 and returns the module.

    Raises:
        ValueError: CTranslate2 is not installed.
    """
    try:
        import ctranslate2
        import ctranslate2.converters
    except ImportError as error:
        raise ValueError(
            f"CTranslate2 is not installed ({error}): pip install 'ctranslate2>=4.6,<5'"
        ) from error
    return ctranslate2


def stored_types() -> Sequence[str]:
    """The names of the types in which CTranslate2 can store weights."""
    import_ctranslate2()
    from ctranslate2.specs.model_spec import ACCEPTED_MODEL_TYPES

    return ACCEPTED_MODEL_TYPES


def check_exportable(model: FairseqModule) -> None:
    """Checks that CTranslate2 can decode a model.

    Raises:
        ValueError: CTranslate2 cannot; the message gives the reason and, where there is one, the
            fix.
    """
    name, encoder, decoder = (
        type(model).__name__,
        getattr(model, "encoder", None),
        getattr(model, "decoder", None),
    )
    if not isinstance(encoder, TransformerEncoderBase) or not isinstance(
        decoder, TransformerDecoderBase
    ):
        raise ValueError(
            f"a {name} cannot be converted: it is not a Transformer with an encoder and a decoder;"
            " give a checkpoint of such a model"
        )
    task = getattr(decoder, "only_task", None)
    if task is not None or isinstance(decoder, FairseqNATDecoder):
        how = (
            f"decode it with --task {task}"
            if task
            else "decode it with fairseq-generate --task translation_lev"
        )
        raise ValueError(
            f"a {name} does not write one word after another from left to right, which is all that"
            f" CTranslate2 can do; {how}"
        )
    tables = [
        getattr(getattr(layer, "self_attn", None), "relative_keys", None)
        for layer in decoder.layers
    ]
    if any(table is not None and table.any() for table in tables):
        raise ValueError(
            "this hrt_transformer has relative positions beside the absolute ones; CTranslate2"
            " drops the absolute ones of a decoder with relative keys. Export a model that was"
            " trained with --hrt-relative-window 0, or the autoregressive teacher of this one"
        )
    refused = {
        "--adaptive-softmax-cutoff": decoder.adaptive_softmax is not None,
        "--marian-cell ssru": getattr(decoder, "cell", "attention") != "attention",
        "--marian-zero-start yes": getattr(decoder, "zero_start", False),
        "a --decoder-input-dim or --decoder-output-dim of its own": (
            decoder.project_in_dim is not None or decoder.project_out_dim is not None
        ),
        "--no-token-positional-embeddings": (
            encoder.embed_positions is None or decoder.embed_positions is None
        ),
        "--no-cross-attention or --cross-self-attention": any(
            layer.encoder_attn is None or getattr(layer, "cross_self_attention", False)
            for layer in decoder.layers
        ),
        f"--activation-fn {model.cfg.activation_fn}": model.cfg.activation_fn not in _ACTIVATIONS,
    }
    for option, given in refused.items():
        if given:
            raise ValueError(
                f"the model was trained with {option}, which CTranslate2 does not support: decode"
                " it with the engines of this package"
            )


# CTranslate2's names of fairseq's activation functions.
_ACTIVATIONS = {
    "relu": "RELU", "gelu": "GELU", "gelu_accurate": "GELUTanh", "gelu_fast": "GELUTanh",
    "swish": "SWISH", "tanh": "Tanh",
}  # fmt: skip


def export(
    model: FairseqModule,
    source: Dictionary,
    target: Dictionary,
    folder: Path,
    *,
    quantization: Optional[str] = None,
    codes: Optional[Path] = None,
) -> Exported:
    """Converts a model. The folder appears only after it is complete and its log-probabilities
    agree with fairseq's.

    Args:
        model: loaded for decoding; it is moved to the CPU and converted to float32, in place.
        source, target: the model's dictionaries.
        folder: the folder to make; it must not exist.
        quantization: the type of the weights: int8, int16, float16, bfloat16 or a mixture, see
            CTranslate2; None: float32.
        codes: subword codes to copy into the folder.

    Raises:
        ValueError: the folder exists, CTranslate2 is not installed or does not support the
            quantization, the model cannot be converted (:func:`check_exportable`), or the converted
            one's log-probabilities differ from fairseq's.
    """
    ctranslate2 = import_ctranslate2()
    if quantization is not None and quantization not in stored_types():
        raise ValueError(
            f"quantization {quantization!r} is unknown: choose one of {', '.join(stored_types())}"
        )
    require_new(folder)
    check_exportable(model)
    model.float().cpu()
    remove_leftovers(folder.absolute().parent, folder.name + ".")
    with new_folder(folder) as place:
        partial = place / "model"
        # A copy: CTranslate2 quantises the arrays that it is given in place.
        _converter(copy.deepcopy(model), source, target).convert(
            str(partial), quantization=quantization
        )
        # As many threads as PyTorch has: CTranslate2 sets them for the whole process.
        translator = ctranslate2.Translator(
            str(partial),
            device="cpu",
            compute_type="default" if quantization else "float32",
            intra_threads=torch.get_num_threads(),
        )
        difference = largest_difference(model, source, target, translator)
        if not difference < (TOLERANCE if quantization in (None, "float32") else float("inf")):
            raise ValueError(
                f"the converted model differs from fairseq's by {difference:.2g} in a"
                " log-probability, so nothing was written: decode the model with the engines of"
                " this package"
            )
        if codes is not None:
            shutil.copyfile(codes, partial / "codes")
        partial.rename(folder)
    return Exported(folder, sum(path.stat().st_size for path in folder.iterdir()), difference)


def _converter(model: FairseqModule, source: Dictionary, target: Dictionary) -> Any:
    """A converter of CTranslate2 for a ``model`` that fairseq has loaded already, with its
    dictionaries. CTranslate2's own converter would load the checkpoint by pickle, which can run
    code from the file."""
    from ctranslate2.converters import Converter, fairseq
    from ctranslate2.specs import TransformerSpec, common_spec
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec

    def shape(module: FairseqModule, heads: int) -> Any:
        pre_norm = module.layers[0].normalize_before
        return dict(
            num_layers=len(module.layers),
            num_heads=heads,
            pre_norm=pre_norm,
            no_final_norm=pre_norm and module.layer_norm is None,
            activation=common_spec.Activation[_ACTIVATIONS[model.cfg.activation_fn]],
            layernorm_embedding=module.layernorm_embedding is not None,
        )

    class LoadedModel(Converter):
        def _load(self) -> TransformerSpec:
            encoder, decoder = model.encoder, model.decoder
            spec = TransformerSpec(
                TransformerEncoderSpec(**shape(encoder, encoder.layers[0].self_attn.num_heads)),
                TransformerDecoderSpec(**shape(decoder, decoder.layers[0].self_attn.num_heads)),
            )
            with torch.no_grad():
                fairseq.set_transformer_encoder(spec.encoder, encoder)
                fairseq.set_transformer_decoder(spec.decoder, decoder)
            spec.register_source_vocabulary(_symbols(source))
            spec.register_target_vocabulary(_symbols(target))
            # fairseq starts a translation with </s> and ends the source with one.
            spec.config.decoder_start_token = spec.config.eos_token
            spec.config.add_source_eos = True
            return spec

    return LoadedModel()


def _symbols(dictionary: Dictionary) -> List[str]:
    """The words of a dictionary in the order of their ids; the padding symbol has CTranslate2's
    name for it, PADDING."""
    return [
        PADDING if number == dictionary.pad() else symbol
        for number, symbol in enumerate(dictionary.symbols)
    ]


@torch.no_grad()
def largest_difference(
    model: FairseqModule,
    source: Dictionary,
    target: Dictionary,
    translator: Any,
    lengths: Sequence[int] = (1, 2, 5, 9, 17, 30),
) -> float:
    """The largest difference between a log-probability of fairseq's ``model`` and of CTranslate2's
    ``translator``, over a random sentence pair of each of the ``lengths`` (words without
    ``</s>``) for which the model has positions."""
    draw = torch.Generator().manual_seed(1)

    def sentence(dictionary: Dictionary, length: int) -> Tensor:
        first = dictionary.nspecial
        if len(dictionary) == first:
            raise ValueError(
                "the dictionary has no words beside its special symbols: give the dictionaries of"
                " the training"
            )
        return torch.randint(first, len(dictionary), (length,), generator=draw)

    largest = 0.0
    most = min(model.encoder.max_positions(), model.decoder.max_positions())
    for length in (own for own in lengths if own < most):
        words, translation = sentence(source, length), sentence(target, length)
        end, start = torch.tensor([source.eos()]), torch.tensor([target.eos()])
        logits = model(
            torch.cat([words, end])[None],
            torch.tensor([length + 1]),
            torch.cat([start, translation])[None],
        )[0]
        expected = torch.log_softmax(logits[0].float(), -1).gather(
            1, torch.cat([translation, start])[:, None]
        )[:, 0]
        scored = translator.score_batch(
            [[source[i] for i in words]], [[target[i] for i in translation]]
        )
        difference = expected - torch.tensor(scored[0].log_probs)
        largest = max(largest, float(difference.abs().max()))
    return largest
