"""CTranslate2 behind the server of `fairseq-hrt serve`: the same HTTP, text preparation, batching
and limits, another engine.

    fairseq-hrt export bundle --quantization int8 --output at.ctranslate2
    python examples/serve/ctranslate2_server.py bundle --model at.ctranslate2 --port 8081

The bundle gives text preparation and decoding options, the folder of `fairseq-hrt export` the
model. It is there to be compared with (compare.py), and shows how any other engine is put behind
the same interface.
"""

import argparse
import logging
import sys
from dataclasses import replace
from pathlib import Path

from fairseq_hrt.native.bundles.bundle import load_bundle
from fairseq_hrt.native.bundles.translation import (
    DEFAULTS,
    LONGEST,
    PreparedLine,
    Translation,
    join_pieces,
    raw_text,
)
from fairseq_hrt.native.server.log import LOG_FORMAT, LOG_TIME
from fairseq_hrt.native.server.process import serve
from fairseq_hrt.native.server.settings import Settings, parse_served
from fairseq_hrt.native.text.dictionary import Words
from fairseq_hrt.native.text.replacement import unknown_words

# Options of fairseq-generate and what CTranslate2 calls them.
OPTIONS = {
    "beam": ("beam_size", int),
    "nbest": ("num_hypotheses", int),
    "lenpen": ("length_penalty", float),
    "min_len": ("min_decoding_length", int),
}


class CTranslate2Translator:
    """What the server asks of a translator, done by CTranslate2.

    Args:
        bundle: with its options.
        model: folder of a converted model.
        threads: of a sentence or batch.
        compute_type: of CTranslate2.
    """

    def __init__(self, bundle, model, threads, compute_type):
        import ctranslate2

        self.bundle, self.pipeline = bundle, bundle.pipeline()
        self.source = Words(bundle.folder / f"dict.{bundle.source_lang}.txt")
        self.defaults = {**DEFAULTS, **bundle.options}
        self.translator = ctranslate2.Translator(
            str(model), device="cpu", compute_type=compute_type, intra_threads=threads
        )

    def identity(self):
        """What it is called."""
        return {"engine": f"ctranslate2 {self.translator.compute_type}"}

    def describe(self):
        """The engine and the type of its weights."""
        return self.identity()["engine"]

    def unknown_words(self, line):
        """The words and signs of a line of which the model does not know a part."""
        return unknown_words(self.pipeline.words(line), self.source, self.bundle.subwords)

    def prepare(self, line):
        """The pieces of a line that are translated."""
        return PreparedLine.pieces(line, self.pipeline, LONGEST)

    def translate(
        self, lines, *, details=False, batch_size=32, cancelled=None, given=None, **decoding
    ):
        """Translations of some lines, raw or prepared, as
        `fairseq_hrt.native.bundles.translator.Translator.translate` gives them."""
        asked = {
            name: str(value)
            for name, value in {**self.defaults, **decoding}.items()
            if name not in ("unkpen", "task")
        }
        longest = int(asked.pop("max_len_b", 200))
        per_word = float(asked.pop("max_len_a", 0))
        unknown = sorted(set(asked) - set(OPTIONS))
        if unknown:
            raise ValueError(f"CTranslate2 does not support {', '.join(unknown)}")
        options = {OPTIONS[name][0]: OPTIONS[name][1](value) for name, value in asked.items()}
        options.setdefault("beam_size", 5)
        pieces = [
            [list(piece.words) for piece in self.prepare(line) if piece.words] for line in lines
        ]
        flat = [piece for own in pieces for piece in own]
        found = []
        for start in range(0, len(flat), batch_size):
            part = flat[start : start + batch_size]
            limit = int(per_word * (1 + max(map(len, part))) + longest)
            # As the bundle's own engine: no padding, no unknown word.
            found += self.translator.translate_batch(
                part, max_decoding_length=limit, max_input_length=0, return_scores=True,
                disable_unk=True, suppress_sequences=[["<blank>"]], **options,
            )  # fmt: skip
        results, place = [], 0
        for line, own in zip(lines, pieces):
            best = found[place : place + len(own)]
            place += len(own)
            text = raw_text(line)
            results.append(join_pieces(text, [self._translation(text, result) for result in best]))
        return results if details else [result.text for result in results]

    def _translation(self, line, result):
        found = []
        for words, score in zip(result.hypotheses, result.scores):
            tokens = [*words, "</s>"]
            steps = list(range(1, len(tokens) + 1))
            found.append(
                Translation(
                    self.pipeline.text(" ".join(words)),
                    line,
                    tokens,
                    score,
                    steps=len(tokens),
                    token_steps=steps,
                )
            )
        best, *best.alternatives = found
        return best


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", help="bundle of the same model, BUNDLE or NAME=BUNDLE")
    parser.add_argument(
        "--model",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder written by fairseq-hrt export",
    )
    parser.add_argument(
        "--compute-type", default="int8", help="compute type of CTranslate2 (default: %(default)s)"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8081)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()

    def load(folder, settings):
        bundle = replace(load_bundle(folder, for_runtime=True), task="translation_autoregressive")
        return CTranslate2Translator(bundle, options.model, settings.threads, options.compute_type)

    # Like the verb: a line for each request.
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=LOG_FORMAT, datefmt=LOG_TIME)
    try:
        serve(
            Settings(systems=(parse_served(options.bundle),), threads=options.threads),
            options.host,
            options.port,
            1,
            load,
        )
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
