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


def configuration(criterion="dag_nll_loss", optimizer="adam", **model):
    return {
        "model": model,
        "criterion": Namespace(_name=criterion),
        "optimizer": Namespace(_name=optimizer),
    }


class Trainer:
    """The methods of fairseq's that the repair calls."""

    refitted, reason, cfg, stored = "", None, configuration(), configuration()
    read = None

    def get_model(self):
        return Namespace(decoder=Namespace(refitted=self.refitted))

    def load_checkpoint(self, filename, reset_optimizer=False, reset_lr_scheduler=False):
        self.read({"cfg": self.stored})
        if isinstance(self.reason, AssertionError):
            raise self.reason
        if self.reason is not None:
            try:
                raise self.reason
            except type(self.reason):
                raise Exception(f"Cannot load model parameters from {filename}")  # noqa: B904
        return {} if filename == "there.pt" else None


@pytest.fixture
def trainer(monkeypatch):
    monkeypatch.setattr(mismatched_weights, "computation", dict)
    module, checkpoints = map(types.ModuleType, ("fairseq.trainer", "fairseq.checkpoint_utils"))
    module.Trainer = type("Trainer", (Trainer,), {"load_checkpoint": Trainer.load_checkpoint})
    checkpoints.load_checkpoint_to_cpu = lambda state: state
    for one in (module, checkpoints):
        mismatched_weights.REPAIR.apply(one)
    module.Trainer.read = staticmethod(checkpoints.load_checkpoint_to_cpu)
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


@pytest.mark.parametrize(
    "stored, own, message",
    [
        (dict(encoder_attention_heads=4), dict(encoder_attention_heads=8),
         "its training has --encoder-attention-heads 4, this one --encoder-attention-heads 8; give"),
        (dict(share_all_embeddings=True, a=None), dict(share_all_embeddings=False, a=[2, 3]),
         "has --share-all-embeddings, no --a, this one no --share-all-embeddings, --a 2,3;"),
        (dict(criterion="dag_nll_loss"), dict(criterion="dag_fuzzy_loss"),
         "--criterion dag_nll_loss, this one --criterion dag_fuzzy_loss"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("reason", [None, AssertionError("Criterion does not match")])
def test_a_training_is_not_resumed_with_other_options(trainer, stored, own, message, reason):
    trainer.stored, trainer.cfg = (configuration(**given) for given in (stored, own))
    trainer.reason = reason
    with pytest.raises(ValueError, match=f"^there.pt: .*{message}"):
        trainer.load_checkpoint("there.pt")


def test_another_class_of_the_optimizer_is_one_line(trainer):
    trainer.reason = AssertionError("Optimizer does not match; please reset it. A vs B")
    with pytest.raises(ValueError, match="^there.pt: Optimizer does not match"):
        trainer.load_checkpoint("there.pt")


def test_a_start_that_computes_something_else_is_a_warning(trainer, caplog):
    trainer.stored = configuration(activation_fn="relu", hrt_tail_target="eos", arch="transformer")
    trainer.cfg = configuration("hrt_loss", activation_fn="relu", hrt_tail_target="pad", arch="hrt")
    assert trainer.load_checkpoint("there.pt", True) == {} and not caplog.messages
    trainer.cfg = configuration(activation_fn="gelu")
    assert trainer.load_checkpoint("there.pt", True) == {}
    expected = "there.pt was trained with --activation-fn relu, this model has --activation-fn gelu"
    assert expected in caplog.text


def test_the_families_options_are_compared():
    found = mismatched_weights.computation(Namespace(arch="bidirectional_transformer"))
    assert found["bidirectional_directions"] == 2 and found["arch"] == "bidirectional_transformer"
