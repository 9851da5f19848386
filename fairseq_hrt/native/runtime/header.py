"""The hyper-parameters of a model, which a model file holds as JSON, and their strict checks."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Tuple

from ..families import BY_NAME, FAMILIES, MODEL_FAMILIES, Family, FamilyFields
from ..families.fields import ModelFileError

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Header(FamilyFields):
    """The hyper-parameters of a model; :mod:`..families` explains the fields. The JSON has exactly
    these fields and ``format``; fields named in LATER are left out if they have their defaults."""

    @property
    def record(self) -> Family:
        """The record of the model's family."""
        return BY_NAME[self.family]

    def to_json(self) -> str:
        """Writes the header as JSON, which :meth:`from_json` reads."""
        values = asdict(self)
        for item in fields(self):
            if item.name in LATER and values[item.name] == item.default:
                del values[item.name]
        return json.dumps({"format": FORMAT, **values}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Header":
        """Reads and checks a header that was written as JSON.

        Raises:
            ModelFileError: the text is not JSON, or a field is missing, unknown or has an invalid
                value; the message names the field.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ModelFileError(
                f"the header is not JSON ({error}); convert the model again"
            ) from None
        if not isinstance(values, dict):
            raise ModelFileError("the header is not a JSON object; convert the model again")
        version = values.pop("format", None)
        if version != FORMAT or isinstance(version, bool):
            raise ModelFileError(
                f"the header's format is {version!r}, but this release reads {FORMAT}; convert the"
                " model again"
            )
        known = {item.name: item for item in fields(cls)}
        odd = sorted((set(values) ^ set(known)) - (set(LATER) - set(values)))
        if odd:
            raise ModelFileError(
                f"the header {'lacks the' if odd[0] in known else 'has an unknown'} field"
                f" {odd[0]!r}; convert the model again"
            )
        header = cls(
            **{
                name: _typed(name, item.type, values[name])
                for name, item in known.items()
                if name in values
            }
        )
        header.check()
        return header

    def check(self) -> None:
        """Checks the values of all fields.

        Raises:
            ModelFileError: a field has a value that no model has; the message names the field.
        """
        self.demand(self.family in MODEL_FAMILIES, "family")
        self.check_common()
        # Fields of other families have their defaults.
        for family in FAMILIES:
            for name in family.own_fields if family.name != self.family else ():
                self.demand(getattr(self, name) == getattr(Header, name), "family", name)
        self.record.check_header(self)


# Fields that files of earlier releases do not have.
LATER = tuple(item.name for item in fields(Header) if item.metadata.get("later"))


def _typed(name: str, kind: object, value: object) -> Any:
    """Returns a JSON value as the type ``kind`` of the field ``name``; raises ModelFileError if it
    has another type."""
    if kind is bool and isinstance(value, bool):
        return value
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    if kind is str and isinstance(value, str):
        return value
    if (
        kind is Tuple[int, ...]
        and isinstance(value, (list, tuple))
        and all(isinstance(item, int) and not isinstance(item, bool) for item in value)
    ):
        return tuple(value)
    raise ModelFileError(
        f"the field {name!r} of the header holds {value!r:.80}, which has the wrong type or is too"
        " large; convert the model again"
    )
