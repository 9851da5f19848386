"""Warnings that fairseq causes are silent, those of others are not."""

import logging
import types
import warnings

import pytest

from fairseq_hrt.compat.deprecation_warnings import REPAIR


@pytest.fixture
def shown(monkeypatch):
    """Warnings that reach the screen under Python's defaults and the repair."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        REPAIR.apply(types.ModuleType("fairseq.version"))
        yield caught


def warn(message, category, module):
    warnings.warn_explicit(message, category, "file.py", 1, module=module)


@pytest.mark.parametrize(
    "message, category, module",
    [
        ("hydra.experimental.compose() is no longer experimental.", UserWarning, "hydra.compose"),
        ("\nThe version_base parameter is not specified.", UserWarning, "hydra.initialize"),
        ("torch.cuda.amp.GradScaler(args...) is deprecated", FutureWarning, "fairseq.trainer"),
        ("indexing with uint8 is now\ndeprecated", UserWarning, "fairseq.search"),
        ("old name", DeprecationWarning, "fairseq_cli.train"),
    ],
)
def test_silent(shown, message, category, module):
    warn(message, category, module)
    assert shown == []


@pytest.mark.parametrize(
    "message, category, module",
    [
        ("old name", DeprecationWarning, "fairseq_hrt.hrt"),
        ("old name", FutureWarning, "mine"),
        ("this result is wrong", UserWarning, "fairseq.search"),
        ("out of memory soon", UserWarning, "hydra.compose"),
    ],
)
def test_shown(shown, message, category, module):
    warn(message, category, module)
    assert [str(warning.message) for warning in shown] == [message]


def test_advice_about_another_package_is_silent_and_nothing_else(caplog):
    REPAIR.apply(types.ModuleType("fairseq.version"))
    logger = logging.getLogger("fairseq.tasks.text_to_speech")
    with caplog.at_level(logging.INFO, logger=logger.name):
        logger.info("Please install tensorboardX: pip install tensorboardX")
        logger.info("synthesised %d sentences", 3)
    assert caplog.messages == ["synthesised 3 sentences"]


def test_settings_of_the_user_prevail():
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("error")
        REPAIR.apply(types.ModuleType("fairseq.version"))
        with pytest.raises(DeprecationWarning):
            warn("old name", DeprecationWarning, "fairseq.trainer")
