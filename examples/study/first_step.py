"""Whether a bidirectional model knows in its first step which end of the sentence a slot writes.

    python examples/study/first_step.py data-bin --source-lang en --target-lang de --gen-subset
    valid \
        --start teacher=at/model.pt --model IBDecoder=ib/model.pt --out folder

In the first step all slots read start symbols. Compared are the first slot from the left and the
first one from the right: by how much their vectors differ, as a share of their length, where they
enter the decoder and behind each of its layers; in how many sentences the same word is the best of
both; and what the reference costs there and on the whole, in bits (log2). A model of --start is no
bidirectional one itself: its weights are put into the first --model, as --finetune-from-model does.

Writes first_step.md and first_step.json ({name: {"difference": [input, layer 1, ...], "same":
share, "left", "right", "all": bits}}).
"""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq import checkpoint_utils
from tables import markdown

from fairseq_hrt.bidirectional.decoder import BidirectionalDecoder
from fairseq_hrt.loading.checkpoints import read_checkpoint, reading, require_known_task, task_name


class FirstStep(NamedTuple):
    """What a model does in the first step, on average over sentences.

    Attributes:
        difference: |left − right| / |left| of the vectors at the input and behind each layer.
        same: share of the sentences whose best word is the same in both slots.
        left, right, all: −log2 P of the reference's token in both slots, and of a token anywhere.
    """

    difference: List[float]
    same: float
    left: float
    right: float
    all: float


@torch.inference_mode()
def first_step(model: Any, task: Any, batches: Iterator[Dict[str, Any]]) -> FirstStep:
    """Measures a model with two directions, in evaluation mode, on batches of its task.

    Raises:
        ValueError: no reference has a word.
    """
    sums: Dict[str, Any] = {"difference": 0.0, "same": 0.0, "left": 0.0, "right": 0.0}
    right, sentences, scored_right, bits, tokens = 1, 0, 0, 0.0, 0
    for batch in batches:
        slots, source = task.slots(batch["target"]), batch["net_input"]
        encoded = model.encoder(source["src_tokens"], src_lengths=source["src_lengths"])
        logits, extra = model.decoder(slots.input, encoder_out=encoded)
        costs = torch.log_softmax(logits.float(), -1) / -math.log(2)
        states = torch.stack(
            [state.float() for state in extra["inner_states"]]
        )  # [layers + 1, slots, B, D]
        one, other = states[:, 0], states[:, right]
        scored = slots.target.ne(task.target_dictionary.pad())
        own = costs.gather(2, slots.target.unsqueeze(2)).squeeze(2).masked_fill(~scored, 0)
        sums["difference"] += ((one - other).norm(dim=-1) / one.norm(dim=-1)).sum(1)
        sums["same"] += float(costs[:, 0].argmin(1).eq(costs[:, right].argmin(1)).sum())
        sums["left"] += float(own[:, 0].sum())
        sums["right"] += float(own[:, right].sum())
        scored_right += int(scored[:, right].sum())
        sentences, bits, tokens = (
            sentences + len(own),
            bits + float(own.sum()),
            tokens + int(scored.sum()),
        )
    if not scored_right:
        raise ValueError("no reference has a word: there is nothing that both ends could write")
    # A reference without words has no last one.
    found = {
        key: value / (scored_right if key == "right" else sentences) for key, value in sums.items()
    }
    return FirstStep(
        found["difference"].tolist(), found["same"], found["left"], found["right"], bits / tokens
    )


def load(path: Path, options: argparse.Namespace) -> Tuple[Any, Any]:
    """(model, task) of a checkpoint.

    Raises:
        OSError: the file or the data are missing.
        ValueError: no checkpoint that can be decoded, named.
    """
    overrides = {
        "data": options.data,
        "source_lang": options.source_lang,
        "target_lang": options.target_lang,
    }
    state = read_checkpoint(path)
    require_known_task(task_name(state["cfg"].task), str(path))
    with reading(path, "cannot be loaded", keep=(OSError,)):
        (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
            [str(path)], arg_overrides=overrides, state=state
        )
    return model.eval(), task


def run(options: argparse.Namespace) -> None:
    """Measures and writes.

    Raises:
        OSError: a file is missing.
        ValueError: a model does not write from two ends, the weights of --start are not those of
            such a model, or two have one name.
    """
    names = [name for name, _ in (*options.model, *options.start)]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two models are named {name!r}; give each its own name")
    found: Dict[str, FirstStep] = {}
    for number, (name, path) in enumerate(options.model):
        model, task = load(path, options)
        decoder = model.decoder
        ends = (
            isinstance(decoder, BidirectionalDecoder)
            and decoder.directions == 2
            and not decoder.middle_to_side
        )
        if not ends or decoder.block == 1:
            raise ValueError(
                f"{path} is no model that writes from the two ends of a sentence in one step"
            )
        task.load_dataset(options.gen_subset)

        def batches(task: Any = task) -> Iterator[Dict[str, Any]]:
            data = task.dataset(options.gen_subset)
            order = sorted(range(len(data)), key=lambda place: len(data[place]["target"]))
            for start in range(0, len(order), 64):
                yield data.collater([data[place] for place in order[start : start + 64]])

        own = first_step(model, task, batches())
        for start_name, start_path in options.start if number == 0 else []:
            with reading(
                start_path, f"has no weights from which {path} could start", keep=(OSError,)
            ):
                model.load_state_dict(load(start_path, options)[0].state_dict(), strict=True)
            found[start_name] = first_step(model, task, batches())
        found[name] = own
    rows = []
    for name, own in found.items():
        share = " → ".join(f"{100 * value:.3g}" for value in own.difference)
        rows.append(
            [
                name,
                share,
                f"{own.same:.0%}",
                f"{own.left:.2f}",
                f"{own.right:.2f}",
                f"{own.all:.2f}",
            ]
        )
    header = [
        "Model", "difference of the ends, % of the vector, from input to last layer",
        "the same best word", "first word, bits", "last word, bits", "all, bits a token",
    ]  # fmt: skip
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "first_step.md").write_text(markdown(header, rows) + "\n", encoding="utf-8")
    texts = {name: own._asdict() for name, own in found.items()}
    (options.out / "first_step.json").write_text(
        json.dumps(texts, indent=1) + "\n", encoding="utf-8"
    )


def named_path(text: str) -> Tuple[str, Path]:
    """``NAME=PATH``."""
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PATH")
    return name, Path(path)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", help="folder written by fairseq-preprocess")
    parser.add_argument("-s", "--source-lang", required=True)
    parser.add_argument("-t", "--target-lang", required=True)
    parser.add_argument("--gen-subset", default="valid", help="(default: %(default)s)")
    parser.add_argument(
        "--model",
        type=named_path,
        action="append",
        required=True,
        metavar="NAME=PATH",
        help="a bidirectional model; may be repeated",
    )
    parser.add_argument(
        "--start",
        type=named_path,
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a model that the first --model may start from; may be repeated",
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        run(options)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
