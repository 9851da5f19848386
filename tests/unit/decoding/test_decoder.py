"""Both engines have what the protocols ask for."""

import inspect

import pytest

from fairseq_hrt.decoding.decoder import Decoder, Scorer
from fairseq_hrt.engine import ModelScorer
from fairseq_hrt.runtime.engine import Engine


@pytest.mark.parametrize(
    "protocol, engine", [(Scorer, ModelScorer), (Scorer, Engine), (Decoder, Engine)]
)
def test_the_members_are_there(protocol, engine):
    for name in [name for name in dir(protocol) if not name.startswith("_")]:
        asked, own = getattr(protocol, name), inspect.getattr_static(engine, name)
        if isinstance(inspect.getattr_static(protocol, name), property):
            assert isinstance(own, property)
        else:
            assert set(inspect.signature(asked).parameters) <= set(
                inspect.signature(own).parameters
            ), name
