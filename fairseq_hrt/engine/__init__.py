"""The PyTorch decoder engine of all families and of the autoregressive baseline: cached decoder
steps of a fairseq Transformer, and the searches that call them.

Shape letters of the whole package: B sentences, N beams, R = B * N rows, q new tokens of a step, T
cached tokens (in trainings and in ctc: all tokens or positions that the decoder reads), S source
tokens, L vertices or stage-II positions, V vocabulary, D model width, H heads, d = D / H, K chunk
size.
"""

from .beam_search import SearchPlan, check_number, leave_out_finished, search
from .cache import DecoderState, Memory
from .constraints import Constraints, length_limits
from .counters import GenerationCounters
from .ensemble import EngineEnsemble, reorder
from .fairseq_dictionary import TaskDictionary
from .fairseq_hypothesis import from_fairseq, to_fairseq
from .fairseq_options import (
    check_ranges,
    options_of_command,
    require_decoding_options,
    require_effect,
)
from .generator import AutoregressiveGenerator, EngineGenerator
from .language_model import LanguageModel
from .layers import FairseqModule, UnsupportedModelError, all_layers
from .model_scorer import ModelScorer
from .native_generator import NativeGenerator
from .native_parts import NativeParts
from .parallel_decoder import ParallelDecoder
from .parallel_generator import ParallelGenerator
from .precision import follow_precision, log_mean, log_probs_of, log_softmax, on_device
from .recurrence import recur
from .reference_scorer import ReferenceScorer, one_step_reference
from .relative_positions import relative_index
from .static_decoder import EncodedSource
from .steps import DecodingStep, StepHook, attached, single_step
from .transfer import lists_to_host, to_host
from .transformer import TransformerEngine

__all__ = [
    "AutoregressiveGenerator",
    "Constraints",
    "DecoderState",
    "DecodingStep",
    "EncodedSource",
    "EngineEnsemble",
    "EngineGenerator",
    "FairseqModule",
    "GenerationCounters",
    "LanguageModel",
    "Memory",
    "ModelScorer",
    "NativeGenerator",
    "NativeParts",
    "ParallelDecoder",
    "ParallelGenerator",
    "ReferenceScorer",
    "SearchPlan",
    "StepHook",
    "TaskDictionary",
    "TransformerEngine",
    "UnsupportedModelError",
    "all_layers",
    "attached",
    "check_number",
    "check_ranges",
    "follow_precision",
    "from_fairseq",
    "leave_out_finished",
    "length_limits",
    "lists_to_host",
    "log_mean",
    "log_probs_of",
    "log_softmax",
    "models",
    "on_device",
    "one_step_reference",
    "options_of_command",
    "recur",
    "relative_index",
    "reorder",
    "require_decoding_options",
    "require_effect",
    "search",
    "single_step",
    "to_fairseq",
    "to_host",
    "torch_to_native",
]
