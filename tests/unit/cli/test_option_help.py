"""The help of the options that are added to fairseq's commands: each under what it belongs to, and
nothing of fairseq's."""

import re
from dataclasses import dataclass, field

import pytest
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterionConfig

from fairseq_hrt.cli.option_help import option_help


@pytest.fixture
def help_of():
    """The help of every heading, in one line."""
    parts = re.split(r"^(--(?:task|arch|criterion) \S+):$", option_help(), flags=re.M)
    return dict(zip(parts[1::2], (" ".join(part.split()) for part in parts[2::2])))


def options(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))


def test_every_option_stands_under_its_own_heading(help_of):
    families = {"hrt", "bidirectional", "dag", "jacobi", "ctc"}
    for family in families:
        task = options(help_of[f"--task translation_{family}"])
        assert any(option.startswith(f"--{family}-") for option in task), family
        others = families - {family}
        # An option of one task may be explained by naming another's, but begins none of its own
        # lines.
        defined = set(
            re.findall(r"(--[a-z0-9-]+) [A-Z_]{3,}", help_of[f"--task translation_{family}"])
        )
        assert not [option for option in defined if option[2:].split("-")[0] in others]
    assert "--hrt-decode-chunk" in options(help_of["--task translation_hrt"])
    assert "--hrt-chunk-sizes" in options(help_of["--arch hrt_transformer…"])


def test_options_of_fairseq_are_left_to_fairseq(help_of):
    shown = set().union(*map(options, help_of.values()))
    assert (
        not {"--encoder-layers", "--source-lang", "--dropout", "--lr", "--max-source-positions"}
        & shown
    )
    assert "label_smoothed_cross_entropy" not in " ".join(help_of)


def test_what_is_registered_is_shown(monkeypatch):
    @dataclass
    class LateConfig(LabelSmoothedCrossEntropyCriterionConfig):
        late_share: float = field(
            default=0.125, metadata={"help": "an option of a loss that was registered late"}
        )
        late_seed: int = field(
            default="${common.seed}", metadata={"help": "taken from another option"}
        )

    LateConfig.__module__ = "fairseq_hrt.late"
    monkeypatch.setitem(CRITERION_DATACLASS_REGISTRY, "late_loss", LateConfig)
    monkeypatch.setitem(CRITERION_REGISTRY, "late_loss", object)
    text = " ".join(option_help().split())
    late = text[text.index("--criterion late_loss:") :]
    assert (
        "--late-share LATE_SHARE an option of a loss that was registered late (default: 0.125)"
        in late
    )
    # Neither what fairseq's own class has, nor what is not given by itself.
    assert "--label-smoothing" not in late and "--late-seed" not in late
