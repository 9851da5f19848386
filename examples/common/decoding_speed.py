"""Times decoding with models of any size, untrained: what a method gains at the size and length that you have in mind.

    OMP_NUM_THREADS=1 python examples/common/decoding_speed.py --arch e12d1 --vocabulary 32000 --lengths 13,27,54

Every sentence has as many source as target tokens, which the decoders are told to write; their weights are random. The models have
the sizes of a preset of hrt_transformer. Compared are fairseq's greedy search, our engine's, CTranslate2 (where it is installed) and
hybrid-regressive decoding. Prints a table for each length: decoder calls, milliseconds a sentence at batch size 1, and the ratio to
our engine's greedy search, medians of interleaved repeats with minimum and maximum.
"""

import argparse
import logging
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.sequence_generator import SequenceGenerator

import fairseq_hrt  # noqa: F401  (registers the models)
from fairseq_hrt.common.generator import AutoregressiveGenerator
from fairseq_hrt.common.options import DecodingOptions
from fairseq_hrt.common.trace import GenerationCounters
from fairseq_hrt.evaluation.speed import measure
from fairseq_hrt.evaluation.systems import count_calls
from fairseq_hrt.hrt.chunking import ChunkChooser
from fairseq_hrt.hrt.generator import HRTGenerator
from fairseq_hrt.hrt.model import HRTTransformerModel
from fairseq_hrt.hub.export import PADDING, export


class Decoder:
    """A generator of fairseq's contract over given batches."""

    def __init__(self, name: str, generator: Any, models: List[Any], batches: Sequence[Dict[str, Any]]) -> None:
        self.name, self.generator, self.models, self.batches = name, generator, models, batches
        own = getattr(generator, "counters", None)
        self.counters: GenerationCounters = count_calls(models) if own is None else own

    def collate(self, ids: Sequence[int]) -> Dict[str, Any]:
        """The batch ``ids[0]``."""
        return self.batches[ids[0]]

    def decode(self, sample: Dict[str, Any]) -> Any:
        """Translates it."""
        return self.generator.generate(self.models, sample)


class CTranslate2Decoder:
    """The same, by CTranslate2."""

    def __init__(self, name: str, folder: Path, kind: str, dictionary: Dictionary, length: int, batches: Sequence[Any]) -> None:
        import ctranslate2

        self.name, self.generator, self.counters = name, None, GenerationCounters(known=False)
        threads = torch.get_num_threads()
        self.translator = ctranslate2.Translator(str(folder), compute_type=kind, intra_threads=threads)
        self.length = length
        self.words = [[dictionary[token] for token in batch["net_input"]["src_tokens"][0, :-1]] for batch in batches]

    def collate(self, ids: Sequence[int]) -> List[List[str]]:
        """The words of sentence ``ids[0]``."""
        return [self.words[ids[0]]]

    def decode(self, sample: List[List[str]]) -> Any:
        """Translates it."""
        return self.translator.translate_batch(
            sample, beam_size=1, min_decoding_length=self.length, max_decoding_length=self.length, suppress_sequences=[[PADDING]]
        )


def build_models(preset: str, vocabulary: int, seed: int) -> Dict[str, Any]:
    """Untrained models of one size: ``AT``, ``HRT`` and their ``dictionary``."""
    dictionary = Dictionary()
    for number in range(vocabulary - dictionary.nspecial):
        dictionary.add_symbol(f"w{number}")
    arguments = Namespace(share_all_embeddings=True, hrt_chunk_sizes=[2, 3])
    ARCH_CONFIG_REGISTRY[f"hrt_transformer_{preset}"](arguments)
    ARCH_CONFIG_REGISTRY["transformer"](arguments)
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    torch.manual_seed(seed)
    families = {"AT": TransformerModel, "HRT": HRTTransformerModel}
    models = {name: family.build_model(arguments, task).eval() for name, family in families.items()}
    return {**models, "dictionary": dictionary}


def random_sentences(count: int, length: int, vocabulary: int, seed: int) -> List[Dict[str, Any]]:
    """Batches of one sentence with ``length`` words and ``</s>``."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for _ in range(count):
        tokens = torch.randint(4, vocabulary, (1, length + 1), generator=generator)
        tokens[0, -1] = 2
        batches.append({"net_input": {"src_tokens": tokens, "src_lengths": torch.tensor([length + 1])}})
    return batches


def compare(built: Dict[str, Any], length: int, folder: Path, given: argparse.Namespace) -> List[str]:
    """The table's lines for sentences of ``length`` tokens."""
    at, hrt, dictionary = built["AT"], built["HRT"], built["dictionary"]
    batches = random_sentences(given.sentences, length, given.vocabulary, given.seed)
    options = DecodingOptions(beam=1, min_len=length, max_len_b=length)
    stock = SequenceGenerator([at], dictionary, beam_size=1, max_len_b=length, min_len=length)
    systems: List[Any] = [
        Decoder("fairseq greedy", stock, [at], batches),
        Decoder("AT greedy", AutoregressiveGenerator([at], dictionary, options), [at], batches),
    ]
    if folder.is_dir():
        for name, kind in (("CTranslate2 greedy", "float32"), ("CTranslate2 int8 greedy", "int8")):
            systems.append(CTranslate2Decoder(name, folder, kind, dictionary, length, batches))
    for size in (2, 3):
        chooser = ChunkChooser.parse(str(size), "inf:1", [2, 3])
        systems.append(Decoder(f"HRT k={size} (1,1)", HRTGenerator([hrt], dictionary, options, chooser=chooser), [hrt], batches))
    timings = measure(systems, [[number] for number in range(len(batches))], repeats=given.repeats)
    lines = [f"{length} tokens:", "", "| System | decoder calls | ms p50 | × AT greedy |", "|---|---:|---:|---:|"]
    for system in systems:
        timing = timings[system.name]
        ratio, calls = timing.ratio_to(timings["AT greedy"]), timing.decoder_calls_per_batch()
        lines.append(
            f"| {system.name} | {'–' if calls is None else f'{calls:.1f}'} | {timing.batch_milliseconds(50):.1f} "
            f"| {ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f}) |"
        )
    return lines


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    presets = sorted(name[len("hrt_transformer_") :] for name in ARCH_CONFIG_REGISTRY if name.startswith("hrt_transformer_"))
    parser.add_argument("--arch", default="e12d1", choices=presets, help="preset of hrt_transformer (default: %(default)s)")
    parser.add_argument("--lengths", default="13,27,54", help="tokens a sentence (default: %(default)s)")
    for name, default in (("vocabulary", 32000), ("sentences", 5), ("repeats", 5), ("threads", 1), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"(default: {default})")
    given = parser.parse_args(arguments)
    try:
        lengths = [int(length) for length in given.lengths.split(",")]
    except ValueError:
        parser.error(f"--lengths {given.lengths!r}: give numbers separated by commas")
    if min(lengths) < 1 or given.vocabulary < 5:
        parser.error("--lengths must be at least 1, --vocabulary at least 5")
    logging.disable(logging.INFO)
    torch.set_num_threads(given.threads)
    built = build_models(given.arch, given.vocabulary, given.seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        try:
            export(built["AT"], built["dictionary"], built["dictionary"], folder)
        except ValueError as error:
            print(f"without CTranslate2: {error}\n")
        for length in lengths:
            print("\n".join(compare(built, length, folder, given)), flush=True)
            print()


if __name__ == "__main__":
    main()
