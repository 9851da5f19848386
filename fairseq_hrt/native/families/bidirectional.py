"""Models that write from both ends at once, several words a step."""

from dataclasses import dataclass

from ..options.schema import Schema
from .fields import ModelFields
from .record import Family


@dataclass(frozen=True, kw_only=True)
class BidirectionalFields(ModelFields):
    """Header fields that describe the order of writing, see ``bidirectional/config.py``.

    Attributes:
        directions: h, the number of directions of writing: 1 from left to right, 2 from both ends,
            4 or more (even) from both ends of several segments.
        block: z, the number of words written per step, in all directions together.
        causal: True: a word does not attend to the inputs of later words of the same step.
        independent: True: a direction does not attend to the words of other directions.
        middle_to_side: whether two directions go from the middle of the sentence to its ends;
            False: from the ends to the middle.
    """

    directions: int = 1
    block: int = 1
    causal: bool = True
    independent: bool = False
    middle_to_side: bool = False


class Bidirectional(Family):
    """Models that write a block of words per step: overrides the defaults of
    :class:`.record.Family` where such models differ."""

    def check_header(self, header: BidirectionalFields) -> None:
        h, z = header.directions, header.block
        header.demand(1 <= h <= 4096 and (h == 1 or h % 2 == 0), "directions")
        header.demand(1 <= z <= 4096 and (z == 1 or z % h == 0), "block", "directions")
        header.demand(not header.middle_to_side or h == 2, "middle_to_side", "directions")

    def spare_positions(self, header: BidirectionalFields) -> int:
        return 1 + header.block

    def writes_in_order(self, header: BidirectionalFields) -> bool:
        return header.block == header.directions == 1

    def takes_first_words(self, header: BidirectionalFields, options: Schema) -> bool:
        return header.directions == 1

    def collapses_repeats(self, options: Schema) -> bool:
        return options.bidirectional_deduplicate


FAMILY = Bidirectional(
    "bidirectional",
    "translation_bidirectional",
    "bidirectional_transformer",
    ("bidirectional_loss",),
    several=True,
    first_words_by="one direction",
    header_fields=BidirectionalFields,
)
