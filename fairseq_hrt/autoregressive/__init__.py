"""Autoregressive decoding of any Transformer checkpoint with the house's engine: the baseline of all the other rooms.

``--task translation_autoregressive`` decodes a checkpoint of fairseq's ``transformer`` family token by token and gives
what ``--task translation`` gives, several times faster on a CPU: the strong baseline that a speed-up has to beat.
"""

# Registers every family first, so that whatever is imported first finds the others whole.
import fairseq as _fairseq  # noqa: F401

from . import task as task
