"""Bundles of tiny models for the native runtime."""

import functools

from tiny_models import write_bundle

import fairseq_hrt
from fairseq_hrt.export.runtime_bundle import add_runtime

LINES = [
    "a b c d",
    "",
    "j",
    "zzz a",
    "f e d c b a  a",
    "</s> <pad> b",
    "c c\tc",
    "h" * 3,
    " ".join("abcdefghij" * 30),
    "b\x00d",
]


def with_runtime(
    folder, family, weights="float32", shortlist=None, compared=tuple(LINES[:5]), **changes
):
    """``compared``: lines; None: as many random ones as a user's bundle is compared with."""

    def complete(bundle):
        add_runtime(
            bundle,
            weights,
            data=folder.with_name(folder.name + "_data"),
            lines=compared,
            shortlist=shortlist,
        )

    if family == "dag":
        # Vertices never write the unknown word, and repeats stay: whatever both engines make of
        # them by themselves.
        changes.setdefault(
            "options",
            {"beam": "1", "max_len_b": "20", "unkpen": "1000", "dag_keep_repeats": "true"},
        )
    return write_bundle(folder, family, complete=complete, **changes)


@functools.cache
def loaded(folder, engine):
    """A bundle's model, for all tests that do not change it."""
    return fairseq_hrt.from_pretrained(folder, device="cpu", engine=engine)
