"""The contract of decoders."""

import inspect

import pytest

from fairseq_hrt.export.torch_decoder import TorchDecoder
from fairseq_hrt.native.bundles.decoder import Decoder, Watch
from fairseq_hrt.native.bundles.native_decoder import NativeDecoder
from fairseq_hrt.native.runtime.engine import Cancelled


@pytest.mark.parametrize("decoder", [NativeDecoder, TorchDecoder])
def test_both_engines_take_what_a_translator_gives(decoder):
    contract = {
        name: list(inspect.signature(method).parameters)
        for name, method in vars(Decoder).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }
    assert set(contract) == {
        "decode", "describe", "graphs", "identity", "longest", "prepare", "score",
    }  # fmt: skip
    for name, parameters in contract.items():
        assert list(inspect.signature(getattr(decoder, name)).parameters) == parameters, name


def test_a_watch_ends_what_nobody_wants():
    asked = iter([False, True])
    watch = Watch(cancelled=lambda: next(asked))
    watch.go_on()
    with pytest.raises(Cancelled):
        watch.go_on()
    Watch().go_on()
