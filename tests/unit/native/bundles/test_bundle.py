"""What a bundle is."""

import pytest

from fairseq_hrt.native.bundles import bundle as bundles

_PARTS = ("codes", "target_codes", "rules", "runtime", "shortlist")


@pytest.mark.parametrize("missing", _PARTS)
def test_a_bundle_is_the_contents_of_its_files(tmp_path, missing):
    names = ["bundle.json", "m1.pt", "m2.pt", "dict.de.txt", "dict.en.txt", *_PARTS]
    for name in [*names, "README.md"]:
        (tmp_path / name).write_text(name)
    whole = bundles.Bundle(
        tmp_path,
        "translation_hrt",
        "de",
        "en",
        "moses",
        "none",
        ["m1.pt", "m2.pt"],
        **{name: name for name in _PARTS},
    )
    before = whole.content_hash()
    setattr(whole, missing, None)
    assert whole.content_hash() != before
    setattr(whole, missing, missing)
    (tmp_path / "README.md").write_text("another card")
    assert whole.content_hash() == before
    for name in names:
        (tmp_path / name).write_text("changed")
        assert whole.content_hash() != before
        (tmp_path / name).write_text(name)
