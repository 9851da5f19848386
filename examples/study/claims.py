"""Claims of the papers, each with the experiment that tests it, as a table.

    [[claim]]
    paper = "HRT"
    place = "Table 2"
    says = "hybrid decoding is as good as its teacher"
    theirs = "27.85 against 27.45 BLEU"
    experiment = "test-hrt, test-at"                      # entries of the matrix, or a script
    values = { a = "test-hrt/HRT k=2 (5 1)/bleu", b = "test-at/AT beam 5/bleu" }     # figures.py
    says what can stand here ours = "{a:.2f} against {b:.2f} BLEU"
    yes = "a >= b - 0.3"                                   # condition (none: never yes); otherwise
    no, only_if = "a >= b - 1"                                 # or, where this one holds, "only if"
    with unless = "another 0.7 BLEU may be lost"                # these words

A claim that is judged by other means has ``verdict`` instead of conditions, and ``ours`` may be
plain text; one without values and verdict is "not run yet".
"""

import string
from typing import Any, Dict, List, Mapping, Optional

from figures import Figures, evaluate

MISSING = "not run yet"
NEEDED = ("paper", "place", "says", "theirs", "experiment")


def judged(claim: Mapping[str, Any], figures: Figures) -> List[str]:
    """Our figure and the verdict.

    Raises:
        ValueError: the claim names a figure, or has a condition, that does not exist.
    """
    check(claim)
    if "values" not in claim:
        return [claim.get("ours", MISSING), claim.get("verdict", MISSING)]
    found: Dict[str, Optional[float]] = {
        name: figures.value(place) for name, place in claim["values"].items()
    }
    values = {name: value for name, value in found.items() if value is not None}
    if len(values) < len(found):
        return [MISSING, MISSING]
    verdict = "no"
    if "verdict" in claim:
        verdict = claim["verdict"]
    elif "yes" in claim and evaluate(claim["yes"], values):
        verdict = "yes"
    elif "only_if" in claim and evaluate(claim["only_if"], values):
        verdict = f"only if {claim['unless']}"
    return [claim["ours"].format(**values), verdict]


def check(claim: Mapping[str, Any]) -> None:
    """Refuses a claim that could not be shown or judged, whatever its figures.

    Raises:
        ValueError: a key of another type or without the one that it needs, values that nothing
            judges, a name in ``ours`` that is none of the values.
    """
    for key, value in claim.items():
        expected = dict if key == "values" else str
        if not isinstance(value, expected) or (
            expected is dict and not all(isinstance(own, str) for own in value.values())
        ):
            raise ValueError(
                f"{key} = {value!r} is {'no table of texts' if expected is dict else 'no text'}"
            )
    for key, other in (("values", "ours"), ("only_if", "unless")):
        if key in claim and other not in claim:
            raise ValueError(f"it has {key} and no {other}; give it")
    if "values" not in claim:
        return
    if not {"yes", "only_if", "verdict"} & set(claim):
        raise ValueError("it has values and nothing that judges them; give yes, only_if or verdict")
    for _, name, _, _ in string.Formatter().parse(claim["ours"]):
        if name is not None and name not in claim["values"]:
            raise ValueError(
                f"ours shows {{{name}}}, which is none of {', '.join(claim['values'])}"
            )


def claims_table(raw: Mapping[str, Any], figures: Figures) -> str:
    """One row a claim, in the order of the file.

    Raises:
        ValueError: a claim lacks a key, or see :func:`judged`.
    """
    lines = [
        "| Claim | where | the paper | here | reproduced? | experiment |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    # "not run yet" begins with "no" as well.
    count = {"yes": 0, "only if": 0, MISSING: 0, "no": 0}
    if not isinstance(raw.get("claim", []), list):
        raise ValueError("[claim] is one table; give a list of them, each under [[claim]]")
    for claim in raw.get("claim", []):
        for key in NEEDED:
            if key not in claim:
                raise ValueError(f"claim {claim.get('says', '?')!r} has no {key!r}")
        try:
            ours, verdict = judged(claim, figures)
        except (ArithmeticError, KeyError, ValueError) as error:
            raise ValueError(f"claim {claim['says']!r}: {error}") from None
        count[next((kind for kind in count if verdict.startswith(kind)), MISSING)] += 1
        cells = [
            claim["says"],
            f"{claim['paper']}, {claim['place']}",
            claim["theirs"],
            ours,
            f"**{verdict}**",
            claim["experiment"],
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    summary = f"{sum(count.values())} claims: " + ", ".join(
        f"{number} {kind}" for kind, number in count.items()
    )
    return "\n".join([*lines, "", summary + ".", ""])
