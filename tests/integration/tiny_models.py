"""Bundles of tiny models with random weights, made within the process: for tests that ask what
becomes of lines, not how good they are."""

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

import fairseq_hrt  # noqa: F401  (repairs fairseq, registers the families)
from fairseq_hrt.export.checkpoint_bundle import make_bundle

LETTERS = "abcdefghij"
SIZES = [
    f"--{side}-{name}={value}"
    for side in ("encoder", "decoder")
    for name, value in (
        ("layers", 1),
        ("embed-dim", 16),
        ("ffn-embed-dim", 32),
        ("attention-heads", 2),
    )
]
# family: task and model of the training, task and options of decoding
FAMILIES = {
    "autoregressive": ("translation", "transformer", "translation_autoregressive", {}),
    "jacobi": ("translation", "transformer", "translation_jacobi", {"jacobi_window": "3"}),
    "hrt": ("translation_hrt", "hrt_transformer", None, {}),
    "bidirectional": ("translation_bidirectional", "bidirectional_transformer", None, {}),
    "dag": ("translation_dag", "dag_transformer", None, {}),
    "ctc": ("translation_ctc", "ctc_transformer", None, {}),
}
# Options of a training.
STUDENTS = {
    "hrt": "--arch hrt_transformer --criterion hrt_loss --hrt-curriculum-power 0",
    "bidirectional": "--arch bidirectional_transformer --criterion bidirectional_loss",
    "dag": "--arch dag_transformer --criterion dag_nll_loss --dag-upsample-scale 3",
    "ctc": "--arch ctc_transformer --criterion ctc_nll_loss --ctc-upsample-scale 2"
    " --ctc-inputs unk",
}
# Graphs of lines of hundreds of words would take long; the two languages have words of their own.
MODELS = {
    "dag": "--dag-upsample-scale 2",
    "ctc": "--ctc-upsample-scale 2 --ctc-inputs unk",
}


def write_dictionaries(folder):
    """``dict.de.txt`` of letters and ``dict.en.txt`` of capital letters."""
    folder.mkdir(parents=True, exist_ok=True)
    for language, letters in (("de", LETTERS), ("en", LETTERS.upper())):
        (folder / f"dict.{language}.txt").write_text("".join(f"{letter} 9\n" for letter in letters))


def write_checkpoint(path, data, family, seed=1, sizes=SIZES, fill=lambda model: None):
    """A checkpoint as fairseq-train writes it, of a model that has not been trained; ``fill`` may
    give it other weights."""
    task_name, arch, *_ = FAMILIES[family]
    parser = options.get_training_parser(default_task=task_name)
    arguments = [
        *MODELS.get(family, "").split(),
        str(data),
        "--task",
        task_name,
        "--arch",
        arch,
        "--source-lang",
        "de",
        "--target-lang",
        "en",
        *sizes,
    ]
    config = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, arguments))
    task = tasks.setup_task(config.task)
    torch.manual_seed(seed)
    model = task.build_model(config.model)
    fill(model)
    history = [
        {
            "criterion_name": "CrossEntropyCriterion",
            "optimizer_name": "FairseqAdam",
            "lr_scheduler_state": {},
            "num_updates": 1,
        }
    ]
    state = {
        "args": None,
        "cfg": OmegaConf.to_container(config, resolve=True, enum_to_str=True),
        "model": model.state_dict(),
        "criterion": None,
        "optimizer_history": history,
    }
    torch.save({**state, "task_state": {}, "extra_state": {}, "last_optimizer_state": None}, path)
    return path


def write_bundle(folder, family, **changes):
    """A bundle at ``folder``; what it is made of lies beside it."""
    data = folder.with_name(folder.name + "_data")
    write_dictionaries(data)
    checkpoint = write_checkpoint(
        data / "checkpoint.pt", data, family, changes.pop("seed", 1), changes.pop("sizes", SIZES)
    )
    *_, task, decoding = FAMILIES[family]
    values = dict(
        tokenizer="space",
        subwords="none",
        codes=None,
        task=task,
        options={"beam": "1", "max_len_b": "20", **decoding},
    )
    return make_bundle(folder, [checkpoint], data, **{**values, **changes})
