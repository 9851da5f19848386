"""Systems: trained models and the way they are decoded, behind one interface whatever decodes
them."""

from .fairseq_system import FairseqSystem, count_calls
from .load import load_system, load_watched
from .specification import SystemSpec, generate_arguments, parse_system, read_systems, scoring
from .system import System, subwords

__all__ = [
    "FairseqSystem",
    "System",
    "SystemSpec",
    "count_calls",
    "distill",
    "generate_arguments",
    "load_system",
    "load_watched",
    "parse_system",
    "read_systems",
    "scoring",
    "subwords",
]
