"""Bundles and checkpoints that try to do something, made from a harmless one."""

import json
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any, Callable, Dict

import torch
from fairseq import options, tasks
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

TINY = {f"{side}-{name}": size for side in ("encoder", "decoder") for name, size in
        (("layers", 1), ("embed-dim", 8), ("ffn-embed-dim", 8),
         ("attention-heads", 1))}  # fmt: skip


def make_bundle_folder(folder: Path) -> Path:
    """A bundle of an untrained Transformer of a few hundred weights, as ``fairseq-hrt bundle``
    writes it."""
    folder.mkdir(parents=True)
    dictionary = Dictionary()
    for word in "abcdefgh":
        dictionary.add_symbol(word)
    for language in ("de", "en"):
        dictionary.save(str(folder / f"dict.{language}.txt"))
    arguments = [
        str(folder),
        "-s",
        "de",
        "-t",
        "en",
        "--task",
        "translation_autoregressive",
        "--arch",
        "transformer",
        "--optimizer",
        "adam",
    ]
    arguments += [f"--{name}={size}" for name, size in TINY.items()]
    config = convert_namespace_to_omegaconf(
        options.parse_args_and_arch(options.get_training_parser(), arguments)
    )
    model = tasks.setup_task(config.task).build_model(config.model)
    history = {
        "criterion_name": "CrossEntropyCriterion",
        "optimizer_name": "FairseqAdam",
        "lr_scheduler_state": {},
        "num_updates": 3,
    }
    state = {
        "args": None, "cfg": OmegaConf.to_container(config, resolve=True, enum_to_str=True),
        "model": model.state_dict(), "criterion": None, "optimizer_history": [history],
        "task_state": {}, "extra_state": {"train_iterator": {"epoch": 1}},
        "last_optimizer_state": None,
    }  # fmt: skip
    torch.save(state, folder / "model.pt")
    description = {
        "format": 1, "task": "translation_autoregressive", "source_lang": "de",
        "target_lang": "en", "tokenizer": "space", "subwords": "none", "models": ["model.pt"],
        "codes": None, "options": {"beam": "1", "max_len_b": "5"}, "card": {},
    }  # fmt: skip
    (folder / "bundle.json").write_text(json.dumps(description))
    return folder


class Hostile:
    """A copy of a harmless bundle, and what can be done to it.

    Attributes:
        folder: the bundle.
        sentinel: a folder that appears when something of the bundle is run.
        outside: a folder beside it that nothing may be read from.
    """

    def __init__(self, harmless: Path, folder: Path) -> None:
        self.folder, self.sentinel, self.outside = (
            folder / "bundle",
            folder / "executed",
            folder / "outside",
        )
        shutil.copytree(harmless, self.folder)
        shutil.copytree(harmless, self.outside)

    @property
    def code(self) -> str:
        """An expression that leaves the sentinel behind."""
        return f"__import__('os').mkdir({str(self.sentinel)!r})"

    def plugin(self, name: str) -> Path:
        """A package in the bundle that leaves the sentinel behind when it is imported."""
        path = self.folder / name
        path.mkdir()
        (path / "__init__.py").write_text(self.code)
        return path

    def describe(self, **changes: Any) -> None:
        """Changes fields of ``bundle.json``."""
        path = self.folder / "bundle.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    def write(self, text: str) -> None:
        """Replaces ``bundle.json``."""
        (self.folder / "bundle.json").write_text(text)

    def text(self) -> str:
        return (self.folder / "bundle.json").read_text()

    def checkpoint(self, change: Callable[[Dict[str, Any]], Any]) -> None:
        """Changes the checkpoint; what ``change`` returns is saved instead of it."""
        path = self.folder / "model.pt"
        state = torch.load(path, weights_only=False)
        changed = change(state)
        torch.save(state if changed is None else changed, path)

    def model(self, **values: Any) -> None:
        """Changes the checkpoint's ``cfg.model``."""

        def change(state: Dict[str, Any]) -> None:
            for name, value in values.items():
                setattr(state["cfg"]["model"], name, value)

        self.checkpoint(change)

    def task(self, **values: Any) -> None:
        """Changes the checkpoint's ``cfg.task``."""
        self.checkpoint(lambda state: state["cfg"]["task"].update(values))

    def fconv(self, **values: Any) -> Namespace:
        """The model's configuration becomes one of fairseq's convolutional networks."""
        config = Namespace(
            _name="fconv", arch="fconv", dropout=0.1, encoder_embed_dim=8, decoder_embed_dim=8,
            encoder_layers="[(8, 3)] * 2", decoder_layers="[(8, 3)] * 2", decoder_attention="True",
            decoder_out_embed_dim=8, encoder_embed_path=None, decoder_embed_path=None,
            share_input_output_embed=False, max_source_positions=10, max_target_positions=10, **{},
        )  # fmt: skip
        vars(config).update(values)
        self.checkpoint(lambda state: state["cfg"].update(model=config))
        return config
