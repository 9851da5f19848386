"""Autoregressive decoding of any Transformer checkpoint with the engine of this package: the
baseline of all the other families.

``--task translation_autoregressive`` decodes a checkpoint of fairseq's ``transformer`` family token
by token and gives what ``--task translation`` gives, several times faster on a CPU: the strong
baseline that a speed-up has to beat. ``--criterion autoregressive_loss`` trains such a checkpoint
as fairseq's own criterion does, faster.
"""

from . import criterion as criterion
from . import model as model
from . import task as task
