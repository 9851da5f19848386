"""From the engine's probabilities to translations: options, constraints, beam search, and the generators' base."""

from ..decoding_rules import NumericalError
from .beam_search import SearchPlan, check_number, leave_out_finished, search
from .constraints import Constraints, length_limits
from .generator import AutoregressiveGenerator, EngineGenerator
from .hypothesis import Hypothesis
from .options import DecodingOptions
from .rescoring import Rescorer, RescoringConfig
from .steps import DecodingStep, StepHook, attached, single_step
from .transfer import lists_to_host, to_host

__all__ = [
    "AutoregressiveGenerator",
    "Constraints",
    "DecodingOptions",
    "DecodingStep",
    "EngineGenerator",
    "Hypothesis",
    "NumericalError",
    "Rescorer",
    "RescoringConfig",
    "SearchPlan",
    "StepHook",
    "attached",
    "check_number",
    "leave_out_finished",
    "length_limits",
    "lists_to_host",
    "search",
    "single_step",
    "to_host",
]
