"""What a translator returns, whichever engine decodes."""

from dataclasses import dataclass, field
from typing import List, Optional


@dataclass
class Translation:
    """One translated line.

    Attributes:
        text: raw text.
        source: the raw line.
        tokens: subwords, ``</s>`` included.
        score: what the decoder ranks by; None for a line without words. A line that was cut has the mean of its pieces.
        positional_scores: log-probability of each token.
        steps: decoder passes that the sentence needed.
        token_steps: the pass (1 = first) in which each token was fixed.
        alternatives: further hypotheses, best first (``nbest``).
    """

    text: str
    source: str
    tokens: List[str] = field(default_factory=list)
    score: Optional[float] = None
    positional_scores: List[float] = field(default_factory=list)
    steps: int = 0
    token_steps: List[int] = field(default_factory=list)
    alternatives: List["Translation"] = field(default_factory=list)
