"""Untrained models of all families and their decoders, for gpu_speed.py."""

import math
from argparse import Namespace
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.modules import SinusoidalPositionalEmbedding
from fairseq.sequence_generator import SequenceGenerator
from gpu_rows import NotMeasured

import fairseq_hrt  # noqa: F401  (registers the families)
from fairseq_hrt.bidirectional.generator import BidirectionalGenerator
from fairseq_hrt.ctc.generator import CtcGenerator
from fairseq_hrt.dag.generator import DagGenerator
from fairseq_hrt.engine import AutoregressiveGenerator
from fairseq_hrt.hrt.generator import HRTGenerator
from fairseq_hrt.jacobi.drafts import Drafter
from fairseq_hrt.jacobi.generator import JacobiGenerator
from fairseq_hrt.native.options.values import DecodingOptions


@dataclass(frozen=True)
class Size:
    """What all models share.

    Attributes:
        width: of the layers; the inner size is four times that.
        words: of the vocabulary.
        length: words of a source sentence, and of its translation where that is forced.
        heads: of attention.
    """

    width: int = 512
    words: int = 32768
    length: int = 26
    heads: int = 8


FULL, TINY = Size(), Size(width=32, words=96, length=6, heads=2)

# How long a translation may be: of exactly ``length`` words, or of at most as many. hrt's chunks
# end behind the last word, so that one word more has to fit. A path has the length that it has.
FORCED, CHUNKS, FREE = "forced", "chunks", "free"
GRAPH: Dict[str, Any] = dict(dag_decode_upsample_scale=8.0, unkpen=math.inf, beam=1)


@dataclass(frozen=True)
class System:
    """A way of decoding.

    Attributes:
        model: key of :data:`ARCHITECTURES`.
        generator: the class.
        options: of the decoding.
        lengths: FORCED, CHUNKS or FREE.
        layers: of the model, where they are not those of the others.
        more: further arguments of the generator.
    """

    model: str
    generator: Callable[..., Any]
    options: Dict[str, Any]
    lengths: str = FORCED
    layers: Optional[str] = None
    more: Callable[[], Dict[str, Any]] = field(default=dict)


# Architecture and options of each kind of model.
ARCHITECTURES: Dict[str, Tuple[str, Dict[str, Any]]] = {
    "transformer": ("transformer", {}),
    "hrt": ("hrt_transformer", {"hrt_chunk_sizes": [2, 3]}),
    "bidirectional": ("bidirectional_transformer", {}),
    "bidirectional 2": ("bidirectional_transformer", {"bidirectional_tokens_per_step": 2}),
    "dag": ("dag_transformer", {"dag_upsample_scale": "8"}),
    "ctc": ("ctc_transformer", {"ctc_upsample_scale": 3.0}),
}

SYSTEMS: Dict[str, System] = {
    "Transformer greedy": System("transformer", AutoregressiveGenerator, {"beam": 1}),
    "Transformer beam 5": System("transformer", AutoregressiveGenerator, {"beam": 5}),
    "Transformer 6+2 greedy": System(
        "transformer", AutoregressiveGenerator, {"beam": 1}, layers="6+2"
    ),
    "hrt k=2": System("hrt", HRTGenerator, {"beam": 1, "hrt_decode_chunk": "2"}, CHUNKS),
    "hrt k=3": System("hrt", HRTGenerator, {"beam": 1, "hrt_decode_chunk": "3"}, CHUNKS),
    "hrt k=2 (5,1)": System(
        "hrt", HRTGenerator, {"beam": 5, "hrt_decode_chunk": "2", "hrt_nat_beam": 1}, CHUNKS
    ),
    "bidirectional": System("bidirectional", BidirectionalGenerator, {"beam": 1}),
    "bidirectional 2 words": System("bidirectional 2", BidirectionalGenerator, {"beam": 1}),
    "bidirectional beam 4": System("bidirectional", BidirectionalGenerator, {"beam": 4}),
    "jacobi": System(
        "transformer", JacobiGenerator,
        {"beam": 1, "jacobi_mode": "frontier", "jacobi_window": 3},
        more=lambda: {"drafter": Drafter()},
    ),
    "dag greedy": System(
        "dag", DagGenerator, {**GRAPH, "dag_decode_strategy": "greedy"}, FREE
    ),
    "dag lookahead": System(
        "dag", DagGenerator, {**GRAPH, "dag_decode_strategy": "lookahead"}, FREE
    ),
    "dag joint-viterbi": System(
        "dag", DagGenerator, {**GRAPH, "dag_decode_strategy": "joint-viterbi"}, FREE
    ),
    "ctc greedy": System("ctc", CtcGenerator, {"beam": 1}, FREE),
}  # fmt: skip


def dictionary_of(words: int) -> Dictionary:
    """A dictionary of that many words, w0, w1 and so on behind fairseq's own."""
    dictionary = Dictionary()
    for number in range(words - dictionary.nspecial):
        dictionary.add_symbol(f"w{number}")
    return dictionary


def made_on(device: torch.device, make: Callable[[], Any]) -> Any:
    """What ``make`` builds, its weights drawn on the device: a CPU needs seconds for 60 million
    numbers."""
    try:
        with torch.device(device):
            return make()
    except RuntimeError:
        # A random generator of another device, for one.
        return make()


class Models:
    """Models of one size on a device, each built when it is first needed.

    Args:
        kind: the type of the weights.
        seed: of the weights.
        lively: whether the models shall write different words for different sentences, instead of
            being as they are before training.
    """

    def __init__(
        self,
        size: Size,
        device: torch.device,
        kind: torch.dtype,
        *,
        seed: int,
        lively: bool = False,
    ) -> None:
        self.size, self.device, self.kind = size, device, kind
        self.seed, self.lively = seed, lively
        self.dictionary = dictionary_of(size.words)
        self.built: Dict[Tuple[str, str], Any] = {}

    def model(self, name: str, layers: str) -> Any:
        """The model ``name`` of :data:`ARCHITECTURES` with ``layers`` such as ``6+6``."""
        if (name, layers) not in self.built:
            self.built[name, layers] = self._build(name, layers)
        return self.built[name, layers]

    def _build(self, name: str, layers: str) -> Any:
        architecture, own = ARCHITECTURES[name]
        options = Namespace(share_all_embeddings=not self.lively, **own)
        for side, count in zip(("encoder", "decoder"), layers.split("+")):
            for option, value in (
                ("embed_dim", self.size.width), ("ffn_embed_dim", 4 * self.size.width),
                ("attention_heads", self.size.heads), ("layers", int(count)),
            ):  # fmt: skip
                setattr(options, f"{side}_{option}", value)
        ARCH_CONFIG_REGISTRY[architecture](options)
        task = Namespace(source_dictionary=self.dictionary, target_dictionary=self.dictionary)
        torch.manual_seed(self.seed)
        model = made_on(
            self.device, lambda: ARCH_MODEL_REGISTRY[architecture].build_model(options, task)
        )
        if self.lively:
            enliven(model)
        return model.eval().to(device=self.device, dtype=self.kind)

    def generator(self, name: str, layers: str, *, forced: bool = True) -> Any:
        """The decoder of the system ``name``.

        Args:
            forced: whether translations have exactly ``size.length`` words, where the family lets
                one force that; else as many as the model writes, with a limit by the source.
        """
        system, length = SYSTEMS[name], self.size.length
        limits: Dict[str, Any] = {}
        if not forced:
            limits = {"max_len_a": 1.5, "max_len_b": 4}
        elif system.lengths != FREE:
            most = length + (system.lengths == CHUNKS)
            limits = {"max_len_a": 0.0, "max_len_b": most, "min_len": length}
        model = self.model(system.model, system.layers or layers)
        options = DecodingOptions(**{**limits, **system.options})
        return system.generator([model], self.dictionary, options, **system.more())

    def batch(self, sentences: int, seed: int = 3) -> Dict[str, Any]:
        """Random sentences of ``size.length`` words."""
        return self.padded([self.size.length] * sentences, seed)

    def padded(self, lengths: Sequence[int], seed: int) -> Dict[str, Any]:
        """A batch of random sentences of these lengths, padded on the left."""
        generator = torch.Generator().manual_seed(seed)
        widest = max(lengths) + 1
        tokens = torch.full((len(lengths), widest), self.dictionary.pad())  # [B, S]
        for row, length in zip(tokens, lengths):
            row[-length - 1 : -1] = torch.randint(
                self.dictionary.nspecial, self.size.words, (length,), generator=generator
            )
            row[-1] = self.dictionary.eos()
        sizes = torch.tensor(lengths, device=self.device) + 1
        return {"net_input": {"src_tokens": tokens.to(self.device), "src_lengths": sizes}}


@torch.no_grad()
def enliven(model: Any) -> None:
    """Has an untrained model write different words for different sentences, places and words
    before, where it would repeat one word: its layers' common part is kept small."""
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1 and "embed" not in name:
            parameter.mul_(2.5)
    decoder = model.decoder
    links = getattr(decoder, "links", None)
    # The vertices of a dag differ by their places alone, which the inner layers have to spread.
    # Factors for attention over words, attention over the source, and the inner layers:
    attention, source, inner = (0.8, 0.15, 0.15) if links is None else (0.08, 0.15, 1.5)
    for layer in decoder.layers:
        layer.self_attn.out_proj.weight.mul_(attention)
        layer.encoder_attn.out_proj.weight.mul_(source)
        layer.fc2.weight.mul_(inner)
    # Each word asks for one other.
    vectors = torch.randn_like(decoder.embed_tokens.weight)  # [V, D]
    decoder.embed_tokens.weight.copy_(vectors / 4)
    decoder.output_projection.weight.copy_(
        vectors[torch.randperm(len(vectors), device=vectors.device)]
    )
    # Some sentences end before others.
    decoder.output_projection.weight[decoder.dictionary.eos()] *= 1.2
    if links is not None:
        decoder.embed_tokens.weight[decoder.dictionary.unk()] = 0
        for layer in decoder.layers:
            layer.fc1.weight.mul_(2)
        lead_to_neighbours(links)


def lead_to_neighbours(links: Any) -> None:
    """Has each vertex of a dag prefer vertices near to it: the links of an untrained model lead to
    the end at once. Sinusoids are alike where places are near."""
    table = links.position.weight  # [L, D]
    width = table.size(1)
    table.copy_(SinusoidalPositionalEmbedding.get_embedding(len(table), width))
    for projection in (links.query, links.key):
        projection.weight[:, :width] *= 0.3
        projection.weight[:, width:] = 2.0 * torch.eye(width, device=table.device)


class Way:
    """Has a generator decode by recorded graphs, or step by step, and notes what it does.

    Args:
        generator: of any family.
        captured: the way that is wanted.

    Attributes:
        recorded: batches that were decoded by computations of fixed shapes.
        reasons: why others were not.
    """

    def __init__(self, generator: Any, captured: bool) -> None:
        self.captured, self.recorded = captured, 0
        self.reasons: List[str] = []
        generator.uses_graphs, tell = captured, generator.tell_way

        def told(reason: Optional[str]) -> None:
            self.note(reason)
            tell(reason)

        generator.tell_way = told

    def note(self, reason: Optional[str]) -> None:
        """Notes the way of a batch; None: it was decoded as wanted."""
        if reason is None:
            self.recorded += 1
        elif reason not in self.reasons:
            self.reasons.append(reason)

    def check(self) -> None:
        """Raises NotMeasured if graphs were wanted and no batch was decoded by them."""
        if self.captured and not self.recorded:
            raise NotMeasured("; ".join(self.reasons) or "this search records no graphs")


def stock(models: Models, layers: str, beam: int) -> Callable[[Dict[str, Any]], Any]:
    """fairseq's own search over the Transformer, forced to ``size.length`` words."""
    model, length = models.model("transformer", layers), models.size.length
    generator = SequenceGenerator(
        [model], models.dictionary, beam_size=beam, max_len_a=0, max_len_b=length, min_len=length
    )

    def run(batch: Dict[str, Any]) -> Any:
        source = batch["net_input"]
        first = source["src_tokens"][:, :1]
        return generator.generate([model], {"net_input": {**source, "prev_output_tokens": first}})

    return run


def hugging_face(models: Models, layers: str) -> Tuple[Callable[[Dict[str, Any]], Any], Any]:
    """Greedy search of a Marian model of the same size in Hugging Face's transformers, with the
    cache that it has by default; and the model.

    Raises:
        NotMeasured: transformers is not installed.
    """
    try:
        from transformers import MarianConfig, MarianMTModel
    except ImportError as error:
        raise NotMeasured(f"{error}: pip install transformers") from error

    size = models.size
    encoder, decoder = map(int, layers.split("+"))
    last = size.words - 1
    settings = MarianConfig(
        vocab_size=size.words, d_model=size.width, encoder_layers=encoder, decoder_layers=decoder,
        encoder_attention_heads=size.heads, decoder_attention_heads=size.heads,
        encoder_ffn_dim=4 * size.width, decoder_ffn_dim=4 * size.width,
        max_position_embeddings=512, pad_token_id=last, eos_token_id=0,
        decoder_start_token_id=last,
    )  # fmt: skip
    if ("Hugging Face", layers) not in models.built:
        models.built["Hugging Face", layers] = MarianMTModel(settings)
    model = models.built["Hugging Face", layers]
    model = model.eval().to(device=models.device, dtype=models.kind)

    def run(batch: Dict[str, Any]) -> Any:
        # Its padding is the last word, so that no source may have that.
        return model.generate(
            input_ids=batch["net_input"]["src_tokens"] % last, num_beams=1, do_sample=False,
            min_new_tokens=size.length, max_new_tokens=size.length,
        )  # fmt: skip

    return run, model
