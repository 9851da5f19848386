"""All systems can do what one of them can."""

import pytest

from fairseq_hrt.systems import FairseqSystem, System
from fairseq_hrt.systems.ctranslate2_system import CTranslate2System
from fairseq_hrt.systems.native_system import NativeSystem

METHODS = {name for name in vars(System) if not name.startswith("_")}


@pytest.mark.parametrize("kind", [FairseqSystem, CTranslate2System, NativeSystem])
def test_every_system_has_every_method(kind):
    assert {"collate", "decode", "signature"} <= METHODS
    assert [name for name in METHODS if not hasattr(kind, name)] == []
