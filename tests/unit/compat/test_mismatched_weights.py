"""The repair `mismatched-weights`: what a checkpoint and a model do not share, in one line."""

import types
from argparse import Namespace

import pytest
import torch

from fairseq_hrt.compat import mismatched_weights
from fairseq_hrt.compat.mismatched_weights import MismatchedWeightsError, explanation


def tensors(*, words=(10, 12), width=4, layers=2, inner=8, **more):
    found = {name: torch.zeros(shape) for name, shape in more.items()}
    for side, count in zip(("encoder", "decoder"), words):
        found[f"{side}.embed_tokens.weight"] = torch.zeros(count, width)
        for number in range(layers):
            found[f"{side}.layers.{number}.fc1.weight"] = torch.zeros(inner, width)
    return found


@pytest.mark.parametrize(
    "found, message",
    [
        (dict(words=(9, 12)), "source dictionary has 9 words (that of the data 10): give the"),
        (
            dict(words=(9, 11)),
            "source dictionary has 9 words (that of the data 10) and target dictionary has 11",
        ),
        (dict(width=6), "--encoder-embed-dim 6 (this model 4), --decoder-embed-dim 6"),
        (dict(layers=3), "--encoder-layers 3 (this model 2), --decoder-layers 3 (this model 2)"),
        (dict(inner=16), "--encoder-ffn-embed-dim 16 (this model 8)"),
        (dict(words=(9, 12), layers=3), "9 words (that of the data 10): give the dictionaries"),
        ({"decoder.links.key": (2, 2)}, "the model has no place for decoder.links.key; start"),
    ],
)
def test_causes(found, message):
    told = explanation(tensors(**found), tensors())
    assert message in told and "\n" not in told


def test_nothing_is_told_of_what_fits():
    assert explanation(tensors(), tensors()) == ""


def test_shapes_that_no_option_explains():
    found, wanted = tensors(**{"x": (2, 3)}), tensors(**{"x": (2, 4), "y": (1,)})
    assert "the checkpoint lacks y, size mismatch: x [2, 3] instead of [2, 4]" in explanation(
        found, wanted
    )


class Trainer:
    """The methods of fairseq's that the repair calls."""

    refitted, reason = "", None

    def get_model(self):
        return Namespace(decoder=Namespace(refitted=self.refitted))

    def load_checkpoint(self, filename, reset_optimizer=False, reset_lr_scheduler=False):
        if self.reason is not None:
            try:
                raise self.reason
            except type(self.reason):
                raise Exception(f"Cannot load model parameters from {filename}")  # noqa: B904
        return {} if filename == "there.pt" else None


@pytest.fixture
def trainer():
    module = types.ModuleType("fairseq.trainer")
    module.Trainer = type("Trainer", (Trainer,), {"load_checkpoint": Trainer.load_checkpoint})
    mismatched_weights.REPAIR.apply(module)
    return module.Trainer()


def test_the_trainers_message_has_the_reason(trainer):
    trainer.reason = MismatchedWeightsError("--encoder-layers 3 (this model 2)")
    with pytest.raises(ValueError, match=r"^there.pt: --encoder-layers 3"):
        trainer.load_checkpoint("there.pt", False)
    trainer.reason = KeyError("model")
    with pytest.raises(Exception, match="^Cannot load model parameters"):
        trainer.load_checkpoint("there.pt", False)


def test_a_training_resumes_with_its_own_options(trainer):
    assert trainer.load_checkpoint("there.pt") == {}
    trainer.refitted = "--hrt-chunk-sizes 2,3: that model was trained for 2"
    assert trainer.load_checkpoint("there.pt", True) == {}
    assert trainer.load_checkpoint("there.pt", reset_optimizer=True) == {}
    assert trainer.load_checkpoint("missing.pt") is None
    for arguments in ((), (False,)):
        with pytest.raises(ValueError, match="there.pt: --hrt-chunk-sizes 2,3: .*finetune-from"):
            trainer.load_checkpoint("there.pt", *arguments)
