"""Training code that several families share: options, distilled targets, reproducible random
numbers, losses, presets, the base class of models."""

from .config import ACTIVATIONS, ConventionsConfig, DistillationConfig, SmoothedLossConfig
from .conventions import leave_sinusoids_out, start_self_attention
from .distillation import (
    draw_raw,
    shortest_target_sizes,
    truncate_targets,
    with_distilled_targets,
    with_drawn_targets,
)
from .glancing import GlanceSchedule, same_random_numbers_afterwards
from .hashing import Purpose, hash_uniform
from .losses import (
    BITS,
    FamilyLoss,
    SmoothedLoss,
    Sums,
    check_label_smoothing,
    smoothed_cross_entropy,
)
from .model import ConfiguredTransformer
from .model_options import flatten_options
from .presets import COMMON_PRESETS, register_presets
from .sentence_sizes import source_sizes, target_sizes

__all__ = [
    "ACTIVATIONS",
    "BITS",
    "COMMON_PRESETS",
    "ConfiguredTransformer",
    "ConventionsConfig",
    "DistillationConfig",
    "FamilyLoss",
    "GlanceSchedule",
    "Purpose",
    "SmoothedLoss",
    "SmoothedLossConfig",
    "Sums",
    "check_label_smoothing",
    "draw_raw",
    "flatten_options",
    "hash_uniform",
    "leave_sinusoids_out",
    "register_presets",
    "same_random_numbers_afterwards",
    "shortest_target_sizes",
    "smoothed_cross_entropy",
    "source_sizes",
    "start_self_attention",
    "target_sizes",
    "truncate_targets",
    "with_distilled_targets",
    "with_drawn_targets",
]
