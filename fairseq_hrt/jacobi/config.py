"""Options of the family; those of decoding are defined in :mod:`..native.options.values`."""

from dataclasses import dataclass

from fairseq.tasks.translation import TranslationConfig

from ..training.task_options import with_decoding_options


@with_decoding_options("jacobi")
@dataclass
class JacobiTaskConfig(TranslationConfig):
    """Options of ``translation_jacobi``: how tokens are guessed and how many at a time."""
