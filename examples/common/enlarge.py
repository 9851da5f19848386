"""Makes a trained model larger without changing what it computes: how fast is it at a size that you
cannot train?

    python examples/common/enlarge.py data-bin -s en -t de --model at=at.pt --model hrt=hrt.pt
    --width 2 --layers 6,6 --words 32000 --out large

Untrained weights say how long a step takes, but not how many steps lossless drafts save: that
depends on how often they are right. An enlarged model writes the words of the model it was made
from, at the cost of its own size. Every vector is written ``--width`` times in a row and every
matrix is tiled to fit (Chen, Goodfellow and Shlens 2016, Net2WiderNet, with equal shares); layers
that add nothing follow the last one (Net2DeeperNet); words without a use, copies of the last one,
fill the vocabulary. Writes NAME.safetensors for the native runtime and the folder data-bin with the
longer dictionaries, for ``fairseq-hrt benchmark``. For transformer, hrt_transformer and
bidirectional_transformer.

Greedy decoding writes the same words, but for what int8 rounds otherwise. The new words share the
probability of the last one, so that scores are a little lower (--words as many as there are leaves
them), and a beam may hold a translation twice.
"""

import argparse
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Dict, Optional, Sequence, Tuple

import numpy as np

from fairseq_hrt.native.runtime.format import (
    EMBEDDINGS,
    Header,
    expected_tensors,
    read_model,
    write_model,
)
from fairseq_hrt.native.runtime.model_tensors import quantise_rows, rest_of_rows

Tensors = Dict[str, np.ndarray]
# Matrices whose inputs are words or positions, not a vector of the model.
TABLES = ("embedding", "positions", "special")


def widen(header: Header, tensors: Tensors, times: int) -> Tuple[Header, Tensors]:
    """Every vector ``times`` times in a row.

    A layer norm has the same mean and variance, a linear layer gives its outputs ``times`` times
    from equal shares of its inputs, and attention has ``times`` as many heads, each as before. The
    output layer would add the shares up: what is tied to the embedding gets them from the last norm
    of the decoder, which is divided.

    Args:
        header, tensors: float32 weights, not of a graph.
        times: at least 1.
    """
    found: Tensors = {}
    for name, tensor in tensors.items():
        if name.endswith("relative"):
            # By the size of a head, which stays.
            found[name] = tensor
        elif name == "output":
            found[name] = np.tile(tensor, (1, times)) / times
        elif name == "output.bias":
            found[name] = tensor
        elif name.endswith(TABLES):
            found[name] = np.tile(tensor, (1, times))
        elif tensor.ndim == 2:
            # Queries, keys and values stand one below the other.
            parts = {"self.input": 3, "cross.memory": 2}.get(".".join(name.split(".")[-2:]), 1)
            found[name] = np.concatenate(
                [np.tile(part, (times, times)) / times for part in np.split(tensor, parts)]
            )
        else:
            parts = {"self.input.bias": 3, "cross.memory.bias": 2}.get(
                ".".join(name.split(".")[-3:]), 1
            )
            found[name] = np.concatenate([np.tile(part, times) for part in np.split(tensor, parts)])
    if header.tied_output:
        last = last_norm(header, "decoder")
        for name in (f"{last}.weight", f"{last}.bias"):
            found[name] = found[name] / times
    names = [
        f"{side}_{name}" for side in ("encoder", "decoder") for name in ("width", "heads", "inner")
    ]
    sizes = {name: times * getattr(header, name) for name in names}
    return replace(header, **sizes), {
        name: np.ascontiguousarray(tensor, np.float32) for name, tensor in found.items()
    }


def last_norm(header: Header, side: str) -> str:
    """The norm that an encoder or decoder ends with."""
    if getattr(header, f"{side}_final_norm"):
        return f"{side}.final_norm"
    return f"{side}.layers.{getattr(header, f'{side}_layers') - 1}.final.norm"


def deepen(
    header: Header, tensors: Tensors, encoder_layers: int, decoder_layers: int
) -> Tuple[Header, Tensors]:
    """Layers that add nothing, behind the last one.

    Their blocks end in zeros. Where norms stand behind the blocks they would scale what they get:
    the last layer's own norm moves to the last of the new ones, all between leave a normalised
    vector as it is.

    Raises:
        ValueError: fewer layers than there are.
    """
    found, wanted = dict(tensors), {"encoder": encoder_layers, "decoder": decoder_layers}
    for side, count in wanted.items():
        before = getattr(header, f"{side}_layers")
        if count < max(before, 1):
            raise ValueError(
                f"{count} {side} layers: the model has {before}, and they can only grow"
            )
        if count == before:
            continue
        pattern, last = (
            re.compile(rf"{side}\.layers\.{before - 1}\.(.*)"),
            f"{side}.layers.{before - 1}.final.norm",
        )
        own = {
            match[1]: tensor
            for name, tensor in tensors.items()
            if (match := pattern.fullmatch(name))
        }
        for number in range(before, count):
            for name, tensor in own.items():
                neutral = (
                    np.ones_like(tensor) if name.endswith("norm.weight") else np.zeros_like(tensor)
                )
                found[f"{side}.layers.{number}.{name}"] = neutral
        if not getattr(header, f"{side}_pre_norm"):
            for part, value in (("weight", 1), ("bias", 0)):
                found[f"{side}.layers.{count - 1}.final.norm.{part}"] = tensors[f"{last}.{part}"]
                found[f"{last}.{part}"] = np.full_like(tensors[f"{last}.{part}"], value)
    return replace(header, encoder_layers=encoder_layers, decoder_layers=decoder_layers), found


def add_words(header: Header, tensors: Tensors, words: int) -> Tuple[Header, Tensors]:
    """Copies of the last word behind it; of equal words a search takes the first.

    Raises:
        ValueError: fewer words than there are.
    """
    found = dict(tensors)
    for side, size in (
        ("encoder", header.source_vocabulary),
        ("decoder", header.target_vocabulary),
    ):
        if words < size:
            raise ValueError(f"{words} words: the model has {size}, and they can only grow")
        names = [f"{side}.embedding"] + (["output", "output.bias"] if side == "decoder" else [])
        for name in names:
            if name in found:
                found[name] = np.concatenate(
                    [found[name], np.repeat(found[name][-1:], words - size, axis=0)]
                )
    return replace(header, source_vocabulary=words, target_vocabulary=words), found


def enlarge(
    header: Header, tensors: Tensors, times: int, layers: Tuple[int, int], words: int
) -> Tuple[Header, Tensors]:
    """A larger model that computes the same.

    Args:
        header, tensors: of a file with float32 weights (``read_model``).
        times: as wide as before.
        layers: of the encoder and the decoder.
        words: of both dictionaries.

    Raises:
        ValueError: a graph, int8 weights, or a size below the model's own.
    """
    if header.family == "dag" or header.weights != "float32":
        raise ValueError(
            "only transformers, HRT and bidirectional models with float32 weights can be enlarged"
        )
    if times < 1:
        raise ValueError(f"{times} times as wide: give at least 1")
    return add_words(*deepen(*widen(header, tensors, times), *layers), words)


def rounded(header: Header, tensors: Tensors) -> Tuple[Header, Tensors]:
    """The model with int8 weights."""
    found: Tensors = {}
    for name, (kind, _) in expected_tensors(header).items():
        found[name] = tensors[name]
        if kind == "matrix":
            found[name], scale = quantise_rows(tensors[name])
            found[f"{name}.scale"] = scale
            if name in EMBEDDINGS:
                found[f"{name}.rest"] = rest_of_rows(tensors[name], found[name], scale)
    return replace(header, weights="int8"), found


def enlarge_data(data: Path, out: Path, words: int) -> None:
    """A copy of a folder of fairseq-preprocess with dictionaries of ``words`` words, the four
    special symbols included.

    Raises:
        ValueError: fewer words than there are, or one folder inside the other: nothing is written
            then.
    """
    given, copy = data.resolve(), out.resolve()
    if given == copy or given in copy.parents or copy in given.parents:
        raise ValueError(
            f"{out} and {data} overlap: give another --out, the data must stay as they are"
        )
    if not data.is_dir():
        raise ValueError(f"{data}: no such folder; give one written by fairseq-preprocess")
    shutil.copytree(
        data, out, ignore=shutil.ignore_patterns("dict.*", "train.*"), dirs_exist_ok=True
    )
    for path in data.glob("dict.*.txt"):
        lines = path.read_text(encoding="utf-8").splitlines()
        missing = words - 4 - len(lines)
        if missing < 0:
            raise ValueError(f"{words} words: {path} has {len(lines) + 4}, and they can only grow")
        # Also where the data are an enlarged copy themselves.
        lines += [f"unused{len(lines) + number:05d} 0" for number in range(missing)]
        (out / path.name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def float_model(path: str, data: Sequence[str]) -> Tuple[Header, Tensors]:
    """The runtime's form of a checkpoint, with float32 weights."""
    from fairseq_hrt.evaluation.systems.native_system import NativeSystem
    from fairseq_hrt.evaluation.systems.specification import SystemSpec

    system = NativeSystem(
        SystemSpec("model", path, None, {"weights": "float32", "beam": "1"}, engine="native"), data
    )
    return read_model(system.file)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder written by fairseq-preprocess")
    parser.add_argument("-s", "--source-lang", required=True)
    parser.add_argument("-t", "--target-lang", required=True)
    parser.add_argument(
        "--model",
        action="append",
        required=True,
        metavar="NAME=CHECKPOINT",
        help="name and checkpoint of a model; repeatable",
    )
    parser.add_argument(
        "--width",
        type=int,
        default=2,
        metavar="N",
        help="factor of the width (default: %(default)s)",
    )
    parser.add_argument(
        "--layers",
        default="6,6",
        metavar="N,N",
        help="layers of encoder and decoder (default: %(default)s)",
    )
    parser.add_argument(
        "--words",
        type=int,
        default=32000,
        metavar="N",
        help="words of the dictionaries (default: %(default)s)",
    )
    parser.add_argument(
        "--weights", choices=("int8", "float32"), default="int8", help="(default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        encoder_layers, decoder_layers = map(int, options.layers.split(","))
    except ValueError:
        parser.error(f"--layers {options.layers!r}: give two numbers, as 6,6")
    named = [text.partition("=")[::2] for text in options.model]
    for name, path in named:
        if (
            not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name)
            or not path
            or [one for one, _ in named].count(name) > 1
        ):
            parser.error(
                f"--model {name}={path}: give NAME=CHECKPOINT, each name once, of letters, digits,"
                " '.', '-' and '_'"
            )
    data = [
        str(options.data),
        "--source-lang",
        options.source_lang,
        "--target-lang",
        options.target_lang,
    ]
    try:
        enlarge_data(options.data, options.out / "data-bin", options.words)
        for name, path in named:
            header, tensors = enlarge(
                *float_model(path, data),
                options.width,
                (encoder_layers, decoder_layers),
                options.words,
            )
            if options.weights == "int8":
                header, tensors = rounded(header, tensors)
            write_model(options.out / f"{name}.safetensors", header, tensors)
            size = (
                f"{header.encoder_layers}+{header.decoder_layers} layers, width"
                f" {header.decoder_width}, {options.words} words"
            )
            print(f"{options.out / name}.safetensors: {size}", flush=True)
    except (ValueError, OSError) as error:
        print(f"enlarge.py: {error}", file=sys.stderr)
        return 1
    except MemoryError:
        size = f"--width {options.width} --layers {options.layers} --words {options.words}"
        print(
            f"enlarge.py: {size}: a model of this size does not fit into memory; give smaller ones",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
