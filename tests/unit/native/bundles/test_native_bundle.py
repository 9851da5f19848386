"""What the native engine reads of a bundle: written where the bundle is being made, for all who may
read the rest."""

from native_bundles import with_runtime

from fairseq_hrt.native.bundles.bundle import Bundle
from fairseq_hrt.native.bundles.native_bundle import (
    write_native_model,
    write_native_shortlist,
)
from fairseq_hrt.native.bundles.shortlist import load_shortlist, read_shortlist
from fairseq_hrt.native.runtime.format import read_model


def test_files_and_their_names(tmp_path):
    whole = with_runtime(tmp_path / "whole", "autoregressive")
    bundle = Bundle(tmp_path / "made", whole.task, "de", "en", "space", "none", models=[])
    bundle.folder.mkdir()
    for language in ("de", "en"):
        (bundle.folder / f"dict.{language}.txt").write_bytes(
            (whole.folder / f"dict.{language}.txt").read_bytes()
        )
        (bundle.folder / f"dict.{language}.txt").chmod(0o640)
    write_native_model(bundle, *read_model(whole.folder / whole.runtime))
    assert (bundle.folder / bundle.runtime).read_bytes() == (
        whole.folder / whole.runtime
    ).read_bytes()
    (tmp_path / "lex").write_text("B b 0.9\nC b 0.5\n")
    candidates = load_shortlist(tmp_path / "lex", *bundle.dictionaries())
    write_native_shortlist(bundle, candidates)
    held = read_shortlist(bundle.folder / bundle.shortlist)
    assert (
        all(
            (own == other).all() and own.dtype == other.dtype
            for own, other in zip(held, candidates)
        )
        and len(held.candidates) == 2
    )
    assert {path.stat().st_mode & 0o777 for path in bundle.folder.iterdir()} == {0o640}
