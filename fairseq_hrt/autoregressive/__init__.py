"""Autoregressive decoding and training of fairseq's Transformers: the baseline of all other
families.

``--task translation_autoregressive`` decodes any checkpoint of fairseq's ``transformer`` family
with the results of ``--task translation``, several times faster on a CPU.
``--criterion autoregressive_loss`` is fairseq's ``label_smoothed_cross_entropy``, but faster.
"""

from . import criterion as criterion
from . import model as model
from . import task as task
