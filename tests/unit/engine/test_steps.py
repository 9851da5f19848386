"""Hooks come and go without disturbing each other."""

from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.engine.steps import attached
from fairseq_hrt.native.options.values import DecodingOptions


def test_a_hook_is_attached_while_its_context_lasts(tiny):
    generator = AutoregressiveGenerator(
        [tiny.model()], tiny.dictionary(), DecodingOptions(beam=1, max_len_b=4)
    )
    seen, kept = [], []
    generator.step_hooks.append(kept.append)
    with generator.watched(seen.append):
        generator.generate([], tiny.sample([3]))
    assert seen == kept and seen
    generator.generate([], tiny.sample([3]))
    assert len(kept) == 2 * len(seen)


def test_each_context_removes_its_own():
    hooks, first, second = [], [], []
    # Empty lists are equal; it is identity that counts.
    outer, inner = attached(hooks, first), attached(hooks, second)
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert len(hooks) == 1 and hooks[0] is second
    # Somebody has cleared the list meanwhile.
    hooks.clear()
    inner.__exit__(None, None, None)
    assert hooks == []


def test_a_hook_goes_when_decoding_fails():
    hooks = []
    try:
        with attached(hooks, print):
            raise ValueError
    except ValueError:
        pass
    assert hooks == []
