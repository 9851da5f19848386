"""Dataclass instances as defaults on Python >= 3.11."""

import builtins
import sys
import types
from dataclasses import dataclass

import pytest

from fairseq_hrt.compat.dataclass_defaults import REPAIR, allow_as_default


@dataclass
class Base:
    pass


allow_as_default(Base)


@dataclass
class Part(Base):
    size: int = 3


def test_instances_of_later_subclasses_are_accepted_as_defaults():
    @dataclass
    class Whole(Base):
        part: Part = Part()  # noqa: RUF009 - what fairseq's configurations do

    assert Whole().part == Part(3)


def test_instances_stay_unhashable():
    for instance in (Base(), Part()):
        with pytest.raises(TypeError, match=f"unhashable type: '{type(instance).__name__}'"):
            hash(instance)


def test_hash_of_a_frozen_subclass_is_its_own():
    class Base:
        pass

    allow_as_default(Base)

    @dataclass(frozen=True, eq=True, unsafe_hash=False)
    class Point(Base):
        x: int = 1

        def __hash__(self):
            return self.x

    assert hash(Point(5)) == 5


def test_only_the_base_class_of_the_module_is_changed():
    module = types.ModuleType("configs")
    REPAIR.apply(module)
    source = (
        "class FairseqDataclass: pass\nclass Other: pass\nclass Config(FairseqDataclass): pass\n"
    )
    exec(source, vars(module))
    assert "__init_subclass__" in vars(module.FairseqDataclass)
    assert "__init_subclass__" not in vars(module.Other)
    with pytest.raises(TypeError, match="unhashable"):
        hash(module.Config())
    assert builtins.__build_class__ is not module.__builtins__["__build_class__"]


def test_needed_from_python_3_11_on(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    assert REPAIR.needed is None
    monkeypatch.setattr(sys, "version_info", (3, 12, 1))
    assert "3.12" in REPAIR.needed


def test_fairseq_configuration_has_its_stock_defaults():
    from fairseq.dataclass.configs import CommonConfig, FairseqConfig

    assert FairseqConfig().common == CommonConfig()
    assert FairseqConfig.__dataclass_fields__["common"].default == CommonConfig()
