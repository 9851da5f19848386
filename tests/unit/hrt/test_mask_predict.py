"""Mask-Predict with relative positions, mixed targets and a start from an autoregressive model
beside fairseq's own, and its attention beside Eq. 4 written as loops."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.tasks.translation_lev import (
    TranslationLevenshteinConfig,
    TranslationLevenshteinTask,
)

from fairseq_hrt.hrt.config import MaskPredictTaskConfig
from fairseq_hrt.hrt.mask_predict import MaskPredictTask, WholeSelfAttention
from fairseq_hrt.training import draw_raw

BOS, PAD, EOS, UNK = range(4)


def built(tiny, arch, seed=1, **options):
    torch.manual_seed(seed)
    args = tiny.arguments(arch, label_smoothing=0.1, share_all_embeddings=False, **options)
    args.hrt_relative_window = options.get("hrt_relative_window", 16)
    ARCH_CONFIG_REGISTRY[arch](args)
    task = Namespace(source_dictionary=tiny.dictionary(), target_dictionary=tiny.dictionary())
    return ARCH_MODEL_REGISTRY[arch].build_model(args, task).double()


def batch(lengths, seed=3):
    """Targets with ``<s>`` and ``</s>``, padded, some of them masked; sources."""
    torch.manual_seed(seed)
    width = max(lengths) + 2
    target = torch.full((len(lengths), width), PAD)
    for row, length in enumerate(lengths):
        words = torch.randint(4, 16, (length,))
        target[row, : length + 2] = torch.tensor([BOS, *words.tolist(), EOS])
    masked = target.masked_fill(target.gt(EOS) & (torch.rand(target.shape) < 0.5), UNK)
    sources = torch.cat(
        [torch.randint(4, 16, (len(lengths), 5)), torch.full((len(lengths), 1), 2)], 1
    )
    return sources, torch.full((len(lengths),), 6), masked, target


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("training", [False, True])
def test_it_is_fairseqs_model_until_the_tables_learn(tiny, window, training):
    own = built(tiny, "mask_predict_transformer", hrt_relative_window=window, dropout=0.0)
    stock = built(tiny, "cmlm_transformer", dropout=0.0)
    known = own.state_dict()
    tables = {key for key in known if key.endswith("relative_keys")}
    assert len(tables) == (len(own.decoder.layers) if window else 0)
    stock.load_state_dict({key: known[key] for key in known.keys() - tables})
    inputs = batch([4, 1, 6])
    mine, theirs = (model.train(training)(*inputs) for model in (own, stock))
    for part in ("word_ins", "length"):
        torch.testing.assert_close(mine[part]["out"], theirs[part]["out"])
    if window:
        with torch.no_grad():
            own.decoder.layers[0].self_attn.relative_keys.normal_()
        assert not torch.allclose(own(*inputs)["word_ins"]["out"], theirs["word_ins"]["out"])


@pytest.mark.parametrize("window", [1, 2, 9])
def test_attention_equals_the_loop(hrt, window):
    width, heads, lengths = 8, 2, [5, 2, 3]
    torch.manual_seed(window)
    module = WholeSelfAttention(width, heads, dropout=0.0, window=window).double()
    torch.nn.init.normal_(module.relative_keys)
    x = torch.randn(3, max(lengths), width, dtype=torch.double)
    padding = torch.arange(max(lengths)) >= torch.tensor(lengths).unsqueeze(1)
    y = x.transpose(0, 1)
    found = module(
        y,
        y,
        y,
        key_padding_mask=padding,
        incremental_state=None,
        need_weights=False,
        attn_mask=None,
    )[0].transpose(0, 1)
    size = width // heads
    for row, length in enumerate(lengths):
        parts = [p(x[row, :length]) for p in (module.q_proj, module.k_proj, module.v_proj)]
        mixed = [
            hrt.attention(
                *(part[:, head * size : (head + 1) * size] for part in parts),
                list(range(length)), module.relative_keys, lambda i, j: True,
            )
            for head in range(heads)
        ]  # fmt: skip
        torch.testing.assert_close(found[row, :length], module.out_proj(torch.cat(mixed, -1)))


def task_of(tiny, **options):
    config = MaskPredictTaskConfig(**options)
    config.seed, config.eval_bleu = 5, False
    return MaskPredictTask(config, tiny.dictionary(), tiny.dictionary())


def test_a_training_starts_from_an_autoregressive_model(tiny):
    """What both have is bit-equal, tables are zeros; a checkpoint that is decoded may lack
    nothing."""
    teacher = built(tiny, "transformer", seed=7)
    arguments = tiny.arguments("mask_predict_transformer", hrt_relative_window=2)
    for from_checkpoint in (False, True):
        model = task_of(tiny).build_model(arguments, from_checkpoint).double()
        length = model.decoder.embed_length.weight.clone()
        if from_checkpoint:
            with pytest.raises(RuntimeError, match="relative_keys"):
                model.load_state_dict(teacher.state_dict())
            continue
        model.load_state_dict(teacher.state_dict())
        theirs, mine = teacher.state_dict(), model.state_dict()
        # fairseq never initialises these; only their device is used.
        theirs = {key: theirs[key] for key in theirs if not key.endswith("_float_tensor")}
        mine = {key: mine[key] for key in mine if not key.endswith("_float_tensor")}
        assert not [key for key, value in theirs.items() if not torch.equal(mine[key], value)]
        assert all(
            not mine[key].any() if key.endswith("relative_keys") else torch.equal(mine[key], length)
            for key in mine.keys() - theirs.keys()
        )
        # Trained vectors are kept when a checkpoint is loaded.
        with torch.no_grad():
            model.decoder.layers[0].self_attn.relative_keys.normal_()
        again = task_of(tiny).build_model(arguments).double()
        again.load_state_dict(model.state_dict())
        learnt = dict(model.named_parameters())
        assert all(torch.equal(value, learnt[key]) for key, value in again.named_parameters())


@pytest.mark.parametrize("probability", [0.0, 0.5, 1.0])
def test_each_sentence_is_trained_on_one_of_its_targets(tiny, monkeypatch, probability):
    task = task_of(tiny, distilled_data="d", raw_probability=probability)
    raw, distilled = batch([4, 3, 6, 2, 2, 5])[3], batch([5, 1, 2, 7, 3, 4], seed=8)[3]
    seen = []
    monkeypatch.setattr(
        TranslationLevenshteinTask, "train_step", lambda self, sample, *rest: seen.append(sample)
    )
    ids = torch.tensor([9, 4, 0, 7, 3, 11])
    sample = {"id": ids, "target": raw, "distilled_target": distilled, "nsentences": 6}
    for update in range(20):
        task.train_step(sample, None, None, None, update)
        chosen = seen[-1]["target"]
        for row, use_raw in enumerate(draw_raw(5, update, ids, probability).tolist()):
            words = (raw if use_raw else distilled)[row]
            assert chosen[row][chosen[row].ne(PAD)].tolist() == words[words.ne(PAD)].tolist()
    assert sample["target"] is raw
    del sample["distilled_target"]
    task.train_step(sample, None, None, None, 1)
    assert seen[-1]["target"] is raw


def test_it_masks_by_itself_and_decodes_as_fairseq(tiny):
    """The same iterations: with tables of zeros the same translations as fairseq's model."""
    own = built(tiny, "mask_predict_transformer").eval()
    stock = built(tiny, "cmlm_transformer").eval()
    known = own.state_dict()
    stock.load_state_dict({k: v for k, v in known.items() if not k.endswith("relative_keys")})
    stocks = TranslationLevenshteinTask(
        TranslationLevenshteinConfig(noise="random_mask"), tiny.dictionary(), tiny.dictionary()
    )
    options = Namespace(
        iter_decode_max_iter=3, iter_decode_with_beam=2, iter_decode_force_max_iter=True
    )
    sources, lengths, *_ = batch([3, 4])
    sample = {"net_input": {"src_tokens": sources, "src_lengths": lengths}, "id": torch.arange(2)}
    found = [
        [
            best[0]["tokens"].tolist()
            for best in task.build_generator([model], options).generate([model], sample)
        ]
        for task, model in ((task_of(tiny), own), (stocks, stock))
    ]
    assert found[0] == found[1]
    target = batch([6, 2])[3]
    noisy = task_of(tiny).inject_noise(target)
    assert noisy.shape == target.shape and (noisy.eq(target) | noisy.eq(UNK)).all()
    assert noisy.eq(UNK).any(1).all()


def test_what_has_no_effect_or_no_sense_is_refused(tiny):
    arguments = tiny.arguments("mask_predict_transformer")
    with pytest.raises(ValueError, match="--raw-probability 0.5 has an effect only with"):
        task_of(tiny, raw_probability=0.5).build_model(arguments)
    with pytest.raises(ValueError, match="--hrt-relative-window -1 must not be negative"):
        built(tiny, "mask_predict_transformer", hrt_relative_window=-1)
    task = task_of(tiny)
    for name in ("truncate_source", "load_alignments", "num_batch_buckets",
                 "required_seq_len_multiple"):  # fmt: skip
        default = getattr(task.cfg, name)
        setattr(task.cfg, name, 2)
        with pytest.raises(ValueError, match=f"--{name.replace('_', '-')} has no effect in"):
            task.build_model(arguments)
        setattr(task.cfg, name, default)
    task.cfg.eval_bleu_remove_bpe = "@@ "
    with pytest.raises(ValueError, match="--eval-bleu-remove-bpe has an effect only with --eval-b"):
        task.build_model(arguments)
    task.cfg.eval_bleu_remove_bpe = None
    for options, message in (
        (dict(no_decoder_final_norm=True), "--no-decoder-final-norm has an effect only with"),
        (dict(no_cross_attention=True), "--no-cross-attention: only fairseq's own"),
        (dict(apply_bert_init=True, encoder_embed_path="words"), "leave it or these paths out"),
    ):
        with pytest.raises(ValueError, match=message):
            task.build_model(tiny.arguments("mask_predict_transformer", **options))
    task.cfg.eval_bleu = True
    with pytest.raises(ValueError, match="--eval-bleu: .* by its loss alone; leave"):
        task.build_model(arguments)
    # A decoding is not a training, whose options change nothing.
    with pytest.raises(ValueError, match="--distilled-data d: an option of training"):
        task_of(tiny, distilled_data="d").build_generator([], Namespace())


@pytest.mark.parametrize("arch, task", [
    ("transformer", "translation_autoregressive"), ("hrt_transformer", "translation_hrt"),
    ("dag_transformer", "translation_dag"), ("nonautoregressive_transformer", "translation_lev"),
])  # fmt: skip
@pytest.mark.parametrize("from_checkpoint", [False, True])
def test_another_model_is_refused(tiny, arch, task, from_checkpoint):
    message = f"not one of Mask-Predict: train with --arch mask_predict_.* --task {task}$"
    with pytest.raises(ValueError, match=message):
        task_of(tiny).build_model(tiny.arguments(arch), from_checkpoint)


def test_another_task_or_loss_is_refused(tiny):
    arguments = tiny.arguments("mask_predict_transformer")
    other = TranslationTask(TranslationConfig(), tiny.dictionary(), tiny.dictionary())
    with pytest.raises(ValueError, match="of --task translation_mask_predict: give that task"):
        other.build_model(arguments)
    with pytest.raises(ValueError, match="--criterion nat_loss, not label_smoothed_cross_entropy"):
        task_of(tiny).build_criterion(Namespace(_name="label_smoothed_cross_entropy"))
