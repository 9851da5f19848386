"""A checkpoint gets a model of the size that it holds, no other, and honest ones are built as
ever."""

import threading
from argparse import Namespace

import pytest
import torch
from fairseq import checkpoint_utils
from tiny_models import FAMILIES, write_checkpoint, write_dictionaries
from torch import nn

from fairseq_hrt.compat.checkpoint_loading import TRUST_VARIABLE
from fairseq_hrt.compat.checkpoint_sizes import OversizedModelError, SizeLimit, counting

WIDTHS = ("encoder_embed_dim", "decoder_embed_dim", "decoder_input_dim", "decoder_output_dim")
ABSURD = {
    "layers": ({"encoder_layers": 10**9},
               r"its configuration \(encoder_layers=1000000000\) asks for more than \d+ parameter tensors"),
    "layers of the decoder": ({"decoder_layers": 10**9},
                              r"\(decoder_layers=1000000000\) asks for more than \d+ parameter tensors"),
    "width": (dict.fromkeys(WIDTHS, 10**7), r"10000000"),
    "inner width": ({"decoder_ffn_embed_dim": 10**8},
                    r"\(decoder_ffn_embed_dim=100000000\) asks for more than \d+ parameters,"),
    "beyond any memory": ({"encoder_ffn_embed_dim": 10**15},
                          r"\(encoder_ffn_embed_dim=1000000000000000\) asks for more memory than there is"),
    "positions": ({"max_source_positions": 10**9},
                  r"max_source_positions=1000000000 in the configuration asks for a table of 1000000000 rows of 16"),
    "learned positions": ({"decoder_learned_pos": True, "max_target_positions": 10**8},
                          r"max_target_positions=100000000 in the"),
}  # fmt: skip
OWN = {
    "hrt": ({"hrt_chunk_sizes": [2, 10**9]}, r"hrt_chunk_sizes=1000000000 in the configuration"),
    "hrt window": ({"hrt_relative_window": 10**9}, r"hrt_relative_window=1000000000"),
    "bidirectional": (
        {"bidirectional_directions": 10**9},
        r"bidirectional_directions=1000000000 in the configuration",
    ),
}


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    """Less is built before it is refused."""
    monkeypatch.setattr("fairseq_hrt.compat.checkpoint_sizes._MORE_TENSORS", 100)
    monkeypatch.setattr("fairseq_hrt.compat.checkpoint_sizes._MORE_NUMBERS", 1 << 20)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """One of each family, and a function that writes a copy with another configuration."""
    folder = tmp_path_factory.mktemp("checkpoints")
    write_dictionaries(folder)
    made = {
        family: write_checkpoint(folder / f"{family}.pt", folder, family)
        for family in FAMILIES
        if family != "jacobi"
    }

    def changed(family, options, name="changed.pt"):
        state = torch.load(made[family], weights_only=False)
        for option, value in options.items():
            setattr(state["cfg"]["model"], option, value)
        torch.save(state, folder / name)
        return str(folder / name)

    return made, changed


def build(path):
    """What fairseq-generate does."""
    return checkpoint_utils.load_model_ensemble([str(path)])[0][0]


# All of them for fairseq's own, whose constructors the families call.
OF_FAMILIES = {
    "autoregressive": list(ABSURD),
    "hrt": ["layers", "positions"],
    "bidirectional": ["width", "learned positions"],
    "dag": ["layers of the decoder", "inner width", "beyond any memory"],
    "ctc": ["layers of the decoder", "positions"],
}
CASES = [(family, *ABSURD[name]) for family, names in OF_FAMILIES.items() for name in names]


@pytest.mark.parametrize(
    "family, options, reason", [*CASES, *((name.split()[0], *case) for name, case in OWN.items())]
)
def test_absurd_models_are_not_built(checkpoints, family, options, reason):
    path = checkpoints[1](family, options)
    with pytest.raises(OversizedModelError, match=reason) as error:
        build(path)
    said = str(error.value)
    assert said.startswith(f"{path}: ") and "\n" not in said and len(said) < 900
    assert "the file holds" in said and f"{TRUST_VARIABLE}={path}" in said


@pytest.mark.parametrize("family", ["autoregressive", "hrt", "bidirectional", "dag", "ctc"])
def test_honest_models_are_built_and_nothing_stays(checkpoints, family):
    before = len(nn.modules.module._global_parameter_registration_hooks)
    made = build(checkpoints[0][family])
    assert sum(weight.numel() for weight in made.parameters()) > 1000
    with pytest.raises(OversizedModelError):
        build(checkpoints[1](family, {"encoder_layers": 10**9}))
    assert len(nn.modules.module._global_parameter_registration_hooks) == before


def test_an_infinite_number_is_not_a_size(checkpoints):
    infinite = {"adaptive_softmax_dropout": float("-inf"), "adaptive_softmax_factor": float("inf")}
    assert build(checkpoints[1]("autoregressive", infinite))


def test_each_model_of_an_ensemble_is_counted_anew(checkpoints):
    made, _ = checkpoints
    path = str(made["autoregressive"])
    tensors = len(torch.load(path, weights_only=False)["model"])
    count = 5 + 100 // tensors
    assert count * tensors > 4 * tensors + 100
    assert len(checkpoint_utils.load_model_ensemble([path] * count)[0]) == count


def test_trusted_files_get_what_they_ask_for(checkpoints, monkeypatch):
    path = checkpoints[1]("autoregressive", {"encoder_layers": 60})
    with pytest.raises(OversizedModelError):
        build(path)
    monkeypatch.setenv(TRUST_VARIABLE, path)
    with pytest.raises(RuntimeError, match="--encoder-layers 1 \\(this model 60\\)"):
        build(path)


def test_checkpoints_in_several_files_are_left_to_fairseq(checkpoints):
    path = checkpoints[1]("autoregressive", {"encoder_layers": 100}, "shard_part0.pt").replace(
        "_part0", ""
    )
    # The model of the first file is built, whatever its size.
    with pytest.raises(OSError, match="not found: .*shard_part1.pt"):
        checkpoint_utils.load_model_ensemble([path], strict=False, num_shards=2)


def test_other_threads_build_what_they_like():
    limit = SizeLimit("")
    limit.begin("x.pt", {"model": {"w": torch.ones(2)}, "cfg": {"model": Namespace()}})
    limit.limit = 1, 1
    built = []
    with counting(limit):
        thread = threading.Thread(target=lambda: built.append(nn.Linear(100, 100)))
        thread.start()
        thread.join()
        assert len(built) == 1
        with pytest.raises(OversizedModelError):
            nn.Linear(100, 100)


@pytest.mark.parametrize(
    "error", [RuntimeError("another reason"), MemoryError("Unable to allocate 1 GiB")]
)
def test_errors_that_are_of_no_checkpoint_stay(error):
    with pytest.raises(type(error), match=str(error)), counting(SizeLimit("")):
        raise error
