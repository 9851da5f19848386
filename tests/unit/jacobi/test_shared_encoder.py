"""The encoder that a draft shares with the model that checks runs once."""

from argparse import Namespace
from dataclasses import replace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

from fairseq_hrt.bidirectional.config import BidirectionalTaskConfig
from fairseq_hrt.bidirectional.task import BidirectionalTranslationTask
from fairseq_hrt.dag.config import DagTaskConfig
from fairseq_hrt.dag.task import DagTranslationTask
from fairseq_hrt.engine import EngineEnsemble
from fairseq_hrt.engine.counters import GenerationCounters
from fairseq_hrt.engine.transformer import TransformerEngine
from fairseq_hrt.hrt.config import HRTTaskConfig
from fairseq_hrt.hrt.task import HRTTranslationTask
from fairseq_hrt.jacobi.config import JacobiTaskConfig
from fairseq_hrt.jacobi.drafts import ModelDrafter
from fairseq_hrt.jacobi.generator import JacobiGenerator
from fairseq_hrt.jacobi.shared_encoder import DraftEnsemble, lender, same_encoder
from fairseq_hrt.jacobi.task import JacobiTranslationTask
from fairseq_hrt.native.options.values import DecodingOptions

FAMILIES = {
    "hrt": (HRTTranslationTask, HRTTaskConfig, dict(hrt_chunk_sizes=[2])),
    "bidirectional": (BidirectionalTranslationTask, BidirectionalTaskConfig, {}),
    "dag": (DagTranslationTask, DagTaskConfig, dict(dag_upsample_scale=2.0)),
}


def make_draft(tiny, family, like=None, **options):
    """A draft's task and model, with the encoder of another model."""
    task_class, config, more = FAMILIES[family]
    task = task_class(config(), tiny.dictionary(), tiny.dictionary())
    sizes = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in
             dict(embed_dim=16, ffn_embed_dim=24, layers=2).items()}  # fmt: skip
    args = Namespace(**{
        **sizes, "encoder_attention_heads": 2, "decoder_attention_heads": 4,
        "max_source_positions": 64, "max_target_positions": 64, "dropout": 0.0, **more, **options,
    })  # fmt: skip
    arch = f"{family}_transformer"
    ARCH_CONFIG_REGISTRY[arch](args)
    torch.manual_seed(7)
    model = ARCH_MODEL_REGISTRY[arch].build_model(args, task).double().eval()
    if like is not None:
        model.encoder.load_state_dict(like.encoder.state_dict())
    return task, model


def checking(tiny, family, model, draft_task, draft, **options):
    """(generator that checks, its drafter, the draft's generator)."""
    cfg = JacobiTaskConfig(jacobi_draft=family, jacobi_window=4)
    task = JacobiTranslationTask(cfg, tiny.dictionary(), tiny.dictionary())
    generator = draft_task.make_generator([draft], DecodingOptions(beam=1))
    drafter = ModelDrafter(task.translate_with(generator, [model]))
    options = task.decoding_options(Namespace(beam=1, max_len_b=12, **options))
    return JacobiGenerator([model], tiny.dictionary(), options, drafter=drafter), drafter, generator


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shared", [True, False])
def test_an_equal_encoder_runs_once(tiny, monkeypatch, family, shared):
    """And the drafts are those of the draft alone."""
    model, sample = tiny.lively(seed=3), tiny.sample([7, 3, 5], seed=3)
    task, draft = make_draft(tiny, family, like=model)
    if not shared:
        with torch.no_grad():
            draft.encoder.layers[1].fc2.bias[3] += 1e-6
    generator, drafter, alone = checking(tiny, family, model, task, draft)
    encoded, right = [], TransformerEngine.encode
    monkeypatch.setattr(
        TransformerEngine,
        "encode",
        lambda self, batch: encoded.append(self.model) or right(self, batch),
    )
    for _ in range(2):
        del encoded[:]
        found = generator.generate([model], sample)
        assert len(encoded) == (1 if shared else 2) and encoded[0] is model
    mine = drafter.drafts
    assert alone.counters.encoder_calls == (0 if shared else 2)
    fresh = task.make_generator([draft], DecodingOptions(beam=1))
    assert mine == [best[0]["tokens"].tolist() for best in fresh.generate([draft], sample)]
    assert [best[0]["tokens"][-1] for best in found] == [2, 2, 2]


def test_what_makes_encoders_differ(tiny):
    """Weights, embeddings, and what is not written in them."""
    model, dictionary = tiny.model(), tiny.dictionary()
    copy = tiny.model()
    assert same_encoder(model, copy, dictionary)
    for name in (
        "embed_tokens.weight",
        "layers.0.self_attn.k_proj.weight",
        "layers.1.final_layer_norm.bias",
    ):
        other = tiny.model()
        with torch.no_grad():
            other.encoder.state_dict()[name].view(-1)[-1] += 1e-7
        assert not same_encoder(model, other, dictionary), name
    for options in (dict(encoder_attention_heads=4), dict(activation_fn="gelu"),
                    dict(no_scale_embedding=True),
                    dict(encoder_layers=1), dict(encoder_normalize_before=True),
                    dict(encoder_learned_pos=True)):  # fmt: skip
        other = tiny.model(**options)
        other.encoder.load_state_dict(model.encoder.state_dict(), strict=False)
        assert not same_encoder(model, other, dictionary), options
    assert not same_encoder(model, tiny.model().float(), dictionary)


def test_the_first_model_with_the_drafts_encoder_lends_it(tiny):
    first, second, other = tiny.model(seed=1), tiny.model(seed=2), tiny.model(seed=3)
    draft, dictionary = tiny.model(seed=2), tiny.dictionary()
    assert lender(draft, [first, second, draft], dictionary) == 1
    assert lender(draft, [first, other], dictionary) is None


def test_a_lent_encoding_is_used_until_it_is_taken_back(tiny):
    """The draft's own attention to the source, computed from vectors that another model's engine
    has."""
    model, draft = tiny.model(seed=2), tiny.model(seed=4)
    draft.encoder.load_state_dict(model.encoder.state_dict())
    batch = tiny.sample([5, 3])["net_input"]
    counters = [GenerationCounters(), GenerationCounters()]
    (lent,) = EngineEnsemble([model], counters[0]).encode(batch)
    ensemble = DraftEnsemble([draft], counters[1])
    (own,) = ensemble.encode(batch)
    assert counters[1].encoder_calls == 1
    for encoded, calls in ((lent, 1), (replace(lent, encoded=None), 2), (None, 3)):
        ensemble.lent = encoded
        (memory,) = ensemble.encode(batch)
        assert counters[1].encoder_calls == calls, "without vectors the draft encodes itself"
        for found, expected in zip([*memory.keys, *memory.values], [*own.keys, *own.values]):
            torch.testing.assert_close(found, expected)
        assert torch.equal(memory.lengths, own.lengths)
