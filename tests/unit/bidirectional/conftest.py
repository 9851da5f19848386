"""Tiny models of the family, and an oracle of the block search without folding,
caches or batches."""

import functools
import itertools
import math
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from tiny_weights import TINY, built_once, seed_host, sharpen

from fairseq_hrt.bidirectional.config import BidirectionalTaskConfig
from fairseq_hrt.bidirectional.generator import BidirectionalGenerator
from fairseq_hrt.bidirectional.model import BidirectionalTransformerModel
from fairseq_hrt.bidirectional.slots import natural_index
from fairseq_hrt.bidirectional.task import BidirectionalTranslationTask
from fairseq_hrt.native.options.values import DecodingOptions

PAD, EOS, UNK = 1, 2, 3


def make_model(tiny, *, symbols=12, seed=1, **overrides):
    """A bidirectional model in float64 with peaked, different distributions; flags without their
    prefix."""
    seed_host(seed)
    names = ("directions", "tokens_per_step", "block", "vanilla_mask", "vanilla_positions",
             "middle_to_side",
             "independent_directions", "distinct_starts")  # fmt: skip
    settings = dict(TINY)
    settings.update(
        {f"bidirectional_{name}" if name in names else name: v for name, v in overrides.items()}
    )
    args = Namespace(**settings)
    ARCH_CONFIG_REGISTRY["bidirectional_transformer"](args)
    task = Namespace(
        source_dictionary=tiny.dictionary(symbols), target_dictionary=tiny.dictionary(symbols)
    )
    model = BidirectionalTransformerModel.build_model(args, task).double().eval()
    sharpen(model)
    return model


def make_task(tiny, *, model=None, **overrides):
    """(task, model) with the configuration that the command line would resolve."""
    cfg = BidirectionalTaskConfig(seed=5)
    for name, value in overrides.items():
        setattr(cfg, name, value)
    task = BidirectionalTranslationTask(cfg, tiny.dictionary(), tiny.dictionary())
    model = make_model(tiny, **(model or {}))
    task.decoder = model.decoder
    return task, model


def make_batch(tiny, lengths, seed=0):
    """Sources, and targets of these lengths without ``</s>``."""
    sample = tiny.sample([length + 2 for length in lengths], seed=seed)
    targets = torch.full((len(lengths), max(lengths) + 1), PAD)
    words = torch.randint(4, 16, targets.shape, generator=torch.Generator().manual_seed(seed))
    for row, length in enumerate(lengths):
        targets[row, :length] = words[row, :length]
        targets[row, length] = EOS
    return {**sample, "target": targets}


def make_generator(
    tiny, model, symbols=12, *, scoring="canonical", collapse=False, penalty="power", **options
):
    """The generator of one model; options of decoding by their names."""
    chosen = DecodingOptions(
        bidirectional_scoring=scoring,
        bidirectional_length_penalty=penalty,
        bidirectional_deduplicate=collapse,
        **options,
    )
    return BidirectionalGenerator([model], tiny.dictionary(symbols), chosen)


def one(sample, row):
    """The source of one row without padding, as ``net_input``."""
    length = int(sample["net_input"]["src_lengths"][row])
    tokens = sample["net_input"]["src_tokens"][row : row + 1]
    return {
        "src_tokens": tokens[:, tokens.size(1) - length :],
        "src_lengths": torch.tensor([length]),
    }


def natural(words, directions, middle=False):
    """Words in the order of writing, returned to their natural order."""
    count = len(words) - 1
    slots = torch.arange(count), torch.tensor(count)
    order = natural_index(*slots, directions, middle_to_side=middle).tolist()
    placed = [None] * count
    for slot, index in enumerate(order):
        placed[index] = words[slot]
    return placed + [EOS]


class BlockOracle:
    """Exhaustive block search over the module's full forward pass.

    Every step writes out all V ** z blocks of every hypothesis.
    """

    def __init__(
        self,
        model,
        net_input,
        *,
        limit,
        min_length=1,
        lenpen=1.0,
        gnmt=False,
        normalize=True,
        unkpen=0.0,
        temperature=1.0,
        start=None,
        like=None,
    ):
        self.model, self.block = model, model.decoder.block
        self.start = start
        self.net_input = net_input
        # Oracles of one model, source and start that differ in the rules share its passes.
        self.passes = {} if like is None else like.passes
        self.encoder_out = model.encoder(
            net_input["src_tokens"], src_lengths=net_input["src_lengths"]
        )
        self.limit, self.min_length, self.lenpen, self.gnmt = limit, min_length, lenpen, gnmt
        self.normalize, self.unkpen, self.temperature = normalize, unkpen, temperature
        self.known, self.written = {}, {}

    def score(self, total, count):
        if not self.normalize:
            return total
        return total / (((5 + count) / 6) ** self.lenpen if self.gnmt else count**self.lenpen)

    def log_probs(self, words):
        """``[z][V]`` of the block after ``words``, with the rules."""
        words = tuple(words)
        if words not in self.known:
            self.known[words] = self.computed(words)
        return self.known[words]

    def computed(self, words):
        """:meth:`log_probs` by the module's full pass."""
        if words not in self.passes:
            inputs = torch.tensor([(self.start or [EOS] * self.block) + list(words)])
            logits = self.model.decoder(inputs, encoder_out=self.encoder_out)[0]
            self.passes[words] = logits[0, -self.block :]
        scores = torch.log_softmax(self.passes[words] / self.temperature, -1)
        scores[:, PAD] = -math.inf
        scores[:, UNK] -= self.unkpen
        for place in range(self.block):
            slot = len(words) + place
            if slot >= self.limit:
                ending = scores[place, EOS].clone()
                scores[place] = -math.inf
                scores[place, EOS] = ending
            elif slot < self.min_length:
                scores[place, EOS] = -math.inf
        return scores.tolist()

    def blocks(self, words, *, canonical):
        """(block, score) of every outcome, best first; canonical ones end at ``</s>``."""
        if (words, canonical) in self.written:
            return self.written[words, canonical]
        scores = self.log_probs(words)
        outcomes = {}
        for block in itertools.product(range(len(scores[0])), repeat=self.block):
            if canonical and EOS in block:
                block = block[: block.index(EOS) + 1]
            total = sum(scores[place][word] for place, word in enumerate(block))
            if total > -math.inf:
                outcomes[block] = total
        self.written[words, canonical] = sorted(outcomes.items(), key=lambda pair: -pair[1])
        return self.written[words, canonical]

    def greedy(self):
        words = []
        while EOS not in words:
            words += [max(range(len(row)), key=row.__getitem__) for row in self.log_probs(words)]
        return words[: words.index(EOS) + 1]

    def released(self, size, *, nbest=1):
        """[(words up to the first ``</s>``, score)] of the search in the code released with the
        paper, best first."""

        def best(pairs, count):
            return sorted(pairs, key=lambda pair: -pair[1])[:count]

        alive, finished, time = [((), 0.0)], [], 0
        longest = -(-(self.limit + 1) // self.block) * self.block
        while alive:
            # The bound holds for every later step, the sentence is settled once the worst finished
            # score exceeds it.
            if len(finished) >= nbest and min(score for _, score in finished) > self.score(
                alive[0][1], longest
            ):
                break
            candidates = []
            for words, total in alive:
                partial = [((), total)]
                for row in self.log_probs(words):
                    likely = best(enumerate(row), size if self.block > 1 else 2 * size)
                    partial = [
                        (block + (word,), s + more)
                        for block, s in best(partial, size)
                        for word, more in likely
                    ]
                candidates += [(words + block, score) for block, score in partial]
            time += self.block
            candidates = [pair for pair in best(candidates, 2 * size) if pair[1] > -math.inf]
            alive = [pair for pair in candidates if EOS not in pair[0]][:size]
            finished += [
                (words, self.score(total, time)) for words, total in candidates if EOS in words
            ]
            finished = best(finished, size)
        return [(words[: words.index(EOS) + 1], score) for words, score in finished]

    def expected(self, scoring, size, *, nbest=1):
        """[(words up to the first ``</s>``, score)] of each scoring, best first."""
        return (
            self.released(size, nbest=nbest)
            if scoring == "paper"
            else self.beam(size, paper=scoring == "algorithm1")
        )

    def beam(self, size, *, paper=False):
        """[(words up to the first ``</s>``, score)], best first; ``paper``: the printed
        algorithm."""
        opened, done = [((), 0.0)], []
        while opened and len(done) < size:
            candidates = []
            for words, score in opened:
                mine = self.blocks(words, canonical=not paper)
                candidates += [
                    (words + block, score + more)
                    for block, more in (mine[:size] if paper else mine)
                ]
            candidates.sort(key=lambda pair: -pair[1])
            ended = [
                pair for pair in (candidates if paper else candidates[:size]) if EOS in pair[0]
            ]
            done += ended if paper else ended[: size - len(done)]
            opened = [pair for pair in candidates if EOS not in pair[0]][:size]
        ranked = [
            (words[: words.index(EOS) + 1], self.score(score, len(words))) for words, score in done
        ]
        return sorted(ranked, key=lambda pair: -pair[1])[:size]


@pytest.fixture(scope="session")
def family(tiny):
    """The builders of this file and those of ``tiny``."""
    return SimpleNamespace(
        **vars(tiny),
        bidirectional=built_once(functools.partial(make_model, tiny)),
        task=lambda **options: make_task(tiny, **options),
        batch=lambda *arguments, **options: make_batch(tiny, *arguments, **options),
        generator=lambda *arguments, **options: make_generator(tiny, *arguments, **options),
        one=one,
        natural=natural,
        oracle=BlockOracle,
    )
