"""Silences warnings about fairseq's code, on which its users have no influence.

fairseq 0.12.2 uses interfaces of Hydra, PyTorch and NumPy that have been deprecated since 2022
(options.py:14 and dataclass/utils.py:410 ``hydra.experimental``, optim/fp16_optimizer.py
``torch.cuda.amp``), so that each command prints some twenty lines. Deprecation warnings attributed
to fairseq's modules are silenced in general, those attributed to a library by message. The filters
are appended to the list, so that ``python -W error`` and pytest's settings take precedence. The
advice to install tensorboardX for speech synthesis, logged by every command, is silenced, too.
"""

import logging
import types
import warnings

from .importing import Repair

_MESSAGES = (
    # hydra_init and compose, dataclass/initialize.py and dataclass/utils.py:410
    (r"hydra\.experimental\.\w+\(\) is no longer experimental", UserWarning),
    (r"\s*The version_base parameter is not specified", UserWarning),
    (r"In '[^']*': Usage of deprecated keyword in package header", UserWarning),
    (r"\s*'[^']*' is validated against ConfigStore schema", UserWarning),
    (r"\s*The strict flag in the compose API is deprecated", UserWarning),
    # models/model_utils.py:12, while it is imported
    (r"`torch\.jit\.script` is dep", FutureWarning),
    # the boolean padding mask beside the decoder's float mask, modules/multihead_attention.py:537
    (r"Support for mismatched key_padding_mask and attn_mask is dep", UserWarning),
    # data/iterators.py pins memory on a CPU too
    (r"'pin_memory' argument is set as true but no accelerator", UserWarning),
)
_FAIRSEQ = r"fairseq(_cli)?(\.|$)"


def _is_shown(record: logging.LogRecord) -> bool:
    """Whether a log record is to be shown: True for all but the advice to install tensorboardX
    (tasks/text_to_speech.py:34)."""
    return not record.getMessage().startswith("Please install tensorboardX")


def _silence(module: types.ModuleType) -> None:
    logging.getLogger("fairseq.tasks.text_to_speech").addFilter(_is_shown)
    for message, category in _MESSAGES:
        warnings.filterwarnings("ignore", message, category, append=True)
    for kind in (DeprecationWarning, FutureWarning):
        warnings.filterwarnings("ignore", "", kind, _FAIRSEQ, append=True)
    warnings.filterwarnings("ignore", r"(?s).*deprecated", UserWarning, _FAIRSEQ, append=True)


REPAIR = Repair(
    name="deprecation-warnings",
    # the first module that fairseq/__init__.py imports: what follows is covered
    modules=("fairseq.version",),
    reason="Hydra 1.3 and PyTorch 2 deprecate what fairseq calls",
    apply=_silence,
)
