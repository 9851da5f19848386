"""The model file: safetensors, with the hyper-parameters as JSON in its metadata; everything is
checked before it is used.

A matrix is either float32 ``[outputs, inputs]``, or int8 of that shape beside ``NAME.scale``,
float32 ``[outputs]``: row r stands for ``scale[r] * int8[r]``. Biases, norms, position tables and
the like are float32. :func:`expected_tensors` lists the tensors that a header requires; a file has
exactly these and their scales. Beside an embedding in int8 there may be ``NAME.rest``, int8 of the
same shape: as the vector of a word, row r stands for ``scale[r] * (int8[r] + rest[r] / 254)``. An
output layer that shares the embedding ignores ``NAME.rest``.
"""

import os
import secrets
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Tuple

import numpy as np

from ..families.fields import ModelFileError
from ..families.record import Shapes
from .header import Header

__all__ = [
    "DAMAGED", "EMBEDDINGS", "KEY", "Header", "check_tensors", "expected_tensors", "read_header",
    "read_model", "write_model",
]  # fmt: skip

_REMEDY = "convert the model again"
# Key of the JSON in the file's metadata.
KEY = "fairseq_hrt.native.runtime"

# Matrices that may have a NAME.rest.
EMBEDDINGS = ("encoder.embedding", "decoder.embedding")
# Exceptions of reading damaged safetensors, besides the package's own. AttributeError: a type of
# number that NumPy lacks.
DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, MemoryError)

# ---------------------------------------------------------------- tensors


def expected_tensors(header: Header) -> Shapes:
    """The tensors that a model with this header has, without their scales: {name: (kind, shape)}.
    The kind is ``matrix`` (int8 or float32) or ``float32``."""
    found: Shapes = {}
    _side_tensors(found, header, "encoder")
    _side_tensors(found, header, "decoder")
    width = header.decoder_width
    if not header.tied_output:
        found["output"] = ("matrix", (header.target_vocabulary, width))
    if header.output_bias:
        found["output.bias"] = ("float32", (header.target_vocabulary,))
    found.update(header.record.tensors(header))
    return found


def _side_tensors(found: Shapes, header: Header, side: str) -> None:  # noqa: C901 - three helpers
    def size(name: str) -> int:
        return getattr(header, f"{side}_{name}")

    def norm(name: str) -> None:
        found[f"{name}.weight"] = found[f"{name}.bias"] = ("float32", (width,))

    def linear(name: str, outputs: int, inputs: int) -> None:
        found[name] = ("matrix", (outputs, inputs))
        found[f"{name}.bias"] = ("float32", (outputs,))

    width, decoder = size("width"), side == "decoder"
    if decoder or not header.shared_embedding:
        vocabulary = header.target_vocabulary if decoder else header.source_vocabulary
        found[f"{side}.embedding"] = ("matrix", (vocabulary, width))
    if size("positions"):
        found[f"{side}.positions"] = ("float32", (size("positions"), width))
    if size("embedding_norm"):
        norm(f"{side}.embedding_norm")
    if size("final_norm"):
        norm(f"{side}.final_norm")
    for number in range(size("layers")):
        layer = f"{side}.layers.{number}"
        if decoder and header.cell == "ssru":
            # The forget gate on top of the candidate, whose bias is zero.
            linear(f"{layer}.cell", 2 * width, width)
        else:
            linear(f"{layer}.self.input", 3 * width, width)
            linear(f"{layer}.self.output", width, width)
        norm(f"{layer}.self.norm")
        if decoder:
            linear(f"{layer}.cross.query", width, width)
            linear(f"{layer}.cross.memory", 2 * width, header.encoder_width)
            linear(f"{layer}.cross.output", width, width)
            norm(f"{layer}.cross.norm")
        linear(f"{layer}.inner", size("inner"), width)
        linear(f"{layer}.outer", width, size("inner"))
        norm(f"{layer}.final.norm")


def check_tensors(header: Header, tensors: Mapping[str, np.ndarray]) -> None:
    """Checks that there are exactly the tensors that the header requires, with the right types and
    shapes and only finite values.

    Raises:
        ModelFileError: a tensor is missing or unknown, or has an invalid type, shape or value; the
            message names the tensor.
    """
    expected = expected_tensors(header)
    unread = set(tensors)
    for name, (kind, shape) in expected.items():
        tensor = _one(tensors, unread, name)
        if tensor.shape != shape:
            raise ModelFileError(
                f"the tensor {name} has the shape {list(tensor.shape)}, not {list(shape)};"
                f" {_REMEDY}"
            )
        if kind == "matrix" and tensor.dtype == np.int8:
            _check_integers(tensor, name)
            _check_scale(_one(tensors, unread, f"{name}.scale"), name, shape)
            if name in EMBEDDINGS and f"{name}.rest" in tensors:
                _check_rest(_one(tensors, unread, f"{name}.rest"), name, shape)
        elif tensor.dtype != np.float32:
            raise ModelFileError(
                f"the tensor {name} is {tensor.dtype}, not float32"
                + (" or int8" if kind == "matrix" else "")
                + f"; {_REMEDY}"
            )
        elif not _finite(tensor):
            raise ModelFileError(
                f"the tensor {name} holds a number that is not finite (NaN or infinity); {_REMEDY}"
            )
    if unread:
        raise ModelFileError(
            f"the tensor {sorted(unread)[0]!r:.100} belongs to no part of the model; {_REMEDY}"
        )


def _check_rest(rest: np.ndarray, name: str, shape: Tuple[int, ...]) -> None:
    if rest.dtype != np.int8 or rest.shape != shape:
        raise ModelFileError(
            f"the tensor {name}.rest is {rest.dtype} {list(rest.shape)}, not int8 {list(shape)};"
            f" {_REMEDY}"
        )
    _check_integers(rest, f"{name}.rest")


def _check_integers(tensor: np.ndarray, name: str) -> None:
    if tensor.size and tensor.min() == -128:
        raise ModelFileError(
            f"the tensor {name} holds -128; int8 weights lie between -127 and 127; {_REMEDY}"
        )


def _check_scale(scale: np.ndarray, name: str, shape: Tuple[int, ...]) -> None:
    if scale.dtype != np.float32 or scale.shape != shape[:1]:
        raise ModelFileError(
            f"the tensor {name}.scale is {scale.dtype} {list(scale.shape)}, not float32"
            f" {[shape[0]]}; {_REMEDY}"
        )
    if not np.isfinite(scale).all() or (scale < 0).any():
        raise ModelFileError(
            f"the tensor {name}.scale holds a number that is negative or not finite; {_REMEDY}"
        )


def _finite(tensor: np.ndarray) -> bool:
    # A finite sum has finite terms; any other sum may have overflowed, so each term is looked at.
    with np.errstate(all="ignore"):
        return bool(np.isfinite(tensor.sum()) or np.isfinite(tensor).all())


def _one(tensors: Mapping[str, np.ndarray], unread: set, name: str) -> np.ndarray:
    if name not in tensors:
        raise ModelFileError(f"the tensor {name} is missing; {_REMEDY}")
    unread.discard(name)
    return tensors[name]


# ---------------------------------------------------------------- files


def write_model(path: Path, header: Header, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes a model file, which appears only when complete.

    Raises:
        ModelFileError: a field of the header has an invalid value, or the tensors are not those
            that the header requires.
    """
    from safetensors.numpy import save_file

    header.check()
    check_tensors(header, tensors)
    # A unique name, for several processes may write at once.
    partial = Path(path).with_name(
        f"{Path(path).name}.{os.getpid()}.{secrets.token_hex(4)}.partial"
    )
    arrays = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    try:
        save_file(arrays, str(partial), metadata={KEY: header.to_json()})
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_header(path: Path) -> Header:
    """Reads the hyper-parameters of a model file, without its tensors.

    Raises:
        ModelFileError: as :func:`read_model`.
    """
    return _read(Path(path), False)[0]


def read_model(path: Path) -> Tuple[Header, Dict[str, np.ndarray]]:
    """Reads and checks a model file; returns its header and {name: tensor}. No code in the file is
    ever run.

    Raises:
        ModelFileError: the file is missing, damaged, or not a model of the native engine.
    """
    return _read(Path(path), True)


def _read(path: Path, whole: bool) -> Tuple[Header, Dict[str, np.ndarray]]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise ModelFileError(
            f"{path}: the package safetensors is missing ({error}); fix: pip install safetensors"
        ) from None
    if not path.is_file():
        raise ModelFileError(
            f"{path}: no such file; give a model file of the native engine (a bundle's"
            " runtime.safetensors)"
        )
    try:
        with safe_open(str(path), framework="np") as file:
            text: Optional[str] = (file.metadata() or {}).get(KEY)
            if text is None:
                raise ModelFileError(
                    "it is not a model of the native engine (fix: make one with fairseq-hrt bundle"
                    " … --runtime int8)"
                )
            header = Header.from_json(text)
            names: List[str] = list(file.keys()) if whole else []
            # Checked before tensors are read: a file of a million tensors is refused by their
            # names.
            known = {
                key for name in expected_tensors(header) for key in (name, f"{name}.scale")
            } | {f"{name}.rest" for name in EMBEDDINGS}
            strange = set(names) - known if whole else ()
            if strange:
                raise ModelFileError(
                    f"the tensor {sorted(strange)[0]!r:.100} belongs to no part of the model;"
                    f" {_REMEDY}"
                )
            tensors = {name: file.get_tensor(name) for name in names}
        if whole:
            check_tensors(header, tensors)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except (SafetensorError, *DAMAGED) as error:
        raise ModelFileError(
            f"{path}: it cannot be read as safetensors ({error!s:.200}); convert the model again"
        ) from None
    return header, tensors
