"""Mask-Predict trained as HRT is (HRT, Appendix E): started from an autoregressive model, with
relative positions and mixed targets.

These are added to fairseq's ``cmlm_transformer``, ``nat_loss`` and iterative refinement
(``translation_lev``).
"""

from argparse import ArgumentParser, Namespace
from dataclasses import fields
from typing import Any, Dict, Tuple

import torch
from fairseq.criterions import FairseqCriterion
from fairseq.data import Dictionary
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import ARCH_MODEL_REGISTRY, register_model, register_model_architecture
from fairseq.models.nat.cmlm_transformer import CMLMNATransformerModel, cmlm_base_architecture
from fairseq.models.nat.nonautoregressive_transformer import NATransformerDecoder
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from fairseq.tasks import FairseqTask, register_task
from fairseq.tasks.translation_lev import TranslationLevenshteinTask
from torch import Tensor, nn

from ..decoding_task import task_of_model
from ..loading.checkpoints import architecture_name
from ..native.options.conditions import flag
from ..task import refuse_options_of_bleu
from ..training import with_distilled_targets, with_drawn_targets
from ..training.task_options import checked_options, is_stored, refuse_options_of_training
from ..training.transformer_options import as_config, flat_values, refuse_extras, refuse_unread
from .attention import RelativeSelfAttention, attention_pattern
from .config import MaskPredictModelConfig, MaskPredictTaskConfig

# Options that fairseq's task of this model does not hand to its data sets, and their values that
# change nothing.
_UNREAD = {
    "truncate_source": False, "num_batch_buckets": 0, "load_alignments": False,
    "required_seq_len_multiple": 1,
}  # fmt: skip


class WholeSelfAttention(RelativeSelfAttention):
    """Relative self-attention in which every token sees all others of its sentence."""

    def forward(  # type: ignore[override]  # fairseq's call, with its mask of padding alone
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor, **_: Any
    ) -> Tuple[Tensor, None]:
        """The output of the attention, with the arguments that fairseq's decoder layer gives.

        Args:
            query: ``[T, B, D]``; ``key`` and ``value`` are the same tensor.
            key_padding_mask: BoolTensor ``[B, T]``, True for padding, which is on the right.

        Returns:
            (output ``[T, B, D]``, None instead of the attention weights).
        """
        assert self.relative_keys is not None
        places = torch.arange(query.size(0), device=query.device).expand_as(key_padding_mask)
        window = self.relative_keys.size(0) // 2
        pattern = attention_pattern(
            places, key_padding_mask, causal=False, window=window, like=query
        )
        return super().forward(query, key, value, attn_mask=pattern)


class MaskPredictDecoder(NATransformerDecoder):
    """fairseq's non-autoregressive decoder with relative positions.

    Attributes:
        may_start: whether a checkpoint may lack the length head and the tables of relative
            positions, as an autoregressive one does; False if it is loaded for decoding.
    """

    may_start = False

    def build_decoder_layer(self, cfg: Any, no_encoder_attn: bool = False) -> nn.Module:
        layer = super().build_decoder_layer(cfg, no_encoder_attn)
        # ``cfg`` holds fairseq's own options only.
        window = self.args.hrt_relative_window
        if window:
            layer.self_attn = WholeSelfAttention(
                cfg.decoder.embed_dim,
                cfg.decoder.attention_heads,
                dropout=cfg.attention_dropout,
                window=window,
            )
        return layer

    def upgrade_state_dict_named(
        self, state_dict: Dict[str, Tensor], name: str
    ) -> Dict[str, Tensor]:
        """Adds to ``state_dict`` what an autoregressive checkpoint lacks: an untrained length head,
        and tables of relative positions filled with zeros; nothing if the attribute ``may_start``
        is False (decoding). ``name`` is the decoder's prefix in the keys."""
        super().upgrade_state_dict_named(state_dict, name)
        for key, value in self.state_dict().items() if self.may_start else ():
            if key == "embed_length.weight" or key.endswith("self_attn.relative_keys"):
                state_dict.setdefault(f"{name}.{key}", value)
        return state_dict


@register_model("mask_predict_transformer")
class MaskPredictModel(CMLMNATransformerModel):
    """fairseq's ``cmlm_transformer`` with relative positions in the decoder. Its training may start
    from an autoregressive Transformer of the same sizes."""

    config = MaskPredictModelConfig

    @classmethod
    def build_model(cls, args: Any, task: Any) -> Any:
        """Builds the model.

        Raises:
            ValueError: the task's batches and searches are not those of fairseq's
                non-autoregressive models, or an option needs a part of fairseq's Transformers that
                this one does not have.
        """
        if isinstance(task, FairseqTask) and not isinstance(task, TranslationLevenshteinTask):
            raise ValueError(
                "a mask_predict_transformer needs the batches and the search of --task"
                " translation_mask_predict: give that task"
            )
        refuse_extras(flat_values(as_config(args)))
        return super().build_model(args, task)

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        CMLMNATransformerModel.add_args(parser)
        gen_parser_from_dataclass(
            parser, MaskPredictModelConfig(), delete_default=True, with_prefix=""
        )

    @classmethod
    def build_decoder(
        cls, args: Namespace, tgt_dict: Dictionary, embed_tokens: nn.Embedding
    ) -> MaskPredictDecoder:
        if args.hrt_relative_window < 0:
            raise ValueError(
                f"--hrt-relative-window {args.hrt_relative_window} must not be negative; 0 switches"
                " it off"
            )
        decoder = MaskPredictDecoder(args, tgt_dict, embed_tokens)
        if getattr(args, "apply_bert_init", False):
            decoder.apply(init_bert_params)
        return decoder


@register_model_architecture("mask_predict_transformer", "mask_predict_transformer")
def mask_predict_transformer(args: Namespace) -> None:
    """Sets options that were not given to the base sizes of ``cmlm_transformer``. That model always
    shares embeddings; this one only with ``--share-all-embeddings``, as ``transformer`` does."""
    args.hrt_relative_window = getattr(args, "hrt_relative_window", 16)
    args.share_all_embeddings = getattr(args, "share_all_embeddings", False)
    cmlm_base_architecture(args)


@register_task("translation_mask_predict", dataclass=MaskPredictTaskConfig)
class MaskPredictTask(TranslationLevenshteinTask):
    """fairseq's ``translation_lev``, in which training can draw each sentence's target from a raw
    and a distilled one."""

    cfg: MaskPredictTaskConfig

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Builds the model; ``from_checkpoint`` is True if a checkpoint is to be loaded into it for
        decoding.

        Raises:
            ValueError: the model is not one of Mask-Predict, or an option of the task was given
                that has no effect.
        """
        kind = ARCH_MODEL_REGISTRY.get(architecture_name(cfg))
        if kind is not None and not issubclass(kind, CMLMNATransformerModel):
            raise ValueError(
                f"the model is a {kind.__name__}, not one of Mask-Predict: train with --arch"
                " mask_predict_transformer, or decode this one with --task"
                f" {task_of_model(kind)}"
            )
        if not from_checkpoint:
            checked_options([MaskPredictTaskConfig], [self.cfg])
            if self.cfg.eval_bleu:
                raise ValueError(
                    "--eval-bleu: translation_mask_predict validates by its loss alone; leave the"
                    " option out"
                )
            refuse_options_of_bleu(self.cfg)
            for item in fields(MaskPredictTaskConfig):
                if item.name in _UNREAD and getattr(self.cfg, item.name) not in (
                    item.default,
                    _UNREAD[item.name],
                ):
                    raise ValueError(
                        f"{flag(item.name)} has no effect in translation_mask_predict: leave the"
                        " option out"
                    )
            values = flat_values(as_config(cfg))
            refuse_unread(values)
            if kind is not None and issubclass(kind, MaskPredictModel):
                refuse_extras(values, training=True)
            paths = values["encoder_embed_path"], values["decoder_embed_path"]
            if getattr(cfg, "apply_bert_init", False) and any(paths):
                raise ValueError(
                    "--apply-bert-init initialises the embeddings that --encoder-embed-path and"
                    " --decoder-embed-path load: leave it or these paths out"
                )
        model = super().build_model(cfg, from_checkpoint)
        if isinstance(model.decoder, MaskPredictDecoder):
            model.decoder.may_start = not from_checkpoint
        return model

    def build_criterion(self, cfg: Any) -> FairseqCriterion:
        """Builds the criterion; ValueError for any other than ``nat_loss``."""
        if cfg._name != "nat_loss":
            raise ValueError(f"Mask-Predict is trained with --criterion nat_loss, not {cfg._name}")
        return super().build_criterion(cfg)

    def build_generator(self, *args: Any, **options: Any) -> Any:
        """fairseq's generator of iterative refinement; ValueError if an option was given that has
        an effect only in training."""
        if not is_stored(self.cfg):
            refuse_options_of_training(MaskPredictTaskConfig, self.cfg)
        return super().build_generator(*args, **options)

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """Loads a split; with ``--distilled-data`` the training split has both sets of targets."""
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        self.datasets[split] = with_distilled_targets(
            self.datasets[split], self.cfg, split, epoch, combine=combine, prepend_bos=True
        )

    def train_step(
        self,
        sample: Dict[str, Any],
        model: nn.Module,
        criterion: FairseqCriterion,
        optimizer: Any,
        update_num: int,
        ignore_grad: bool = False,
    ) -> Any:
        # The batch keeps the raw targets' ``ntokens``, by which fairseq logs the speed.
        sample = with_drawn_targets(sample, self.cfg, update_num, self.target_dictionary.pad())
        return super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)
