"""Nothing that comes from a bundle or a checkpoint is run: every attempt is refused in one line that names the value."""

import io
import json
import os
import struct
import sys
import zipfile
from argparse import Namespace

import numpy
import pytest
import torch
from fairseq.data import Dictionary
from hostile import Hostile, make_bundle_folder
from omegaconf import AnyNode, OmegaConf

import fairseq_hrt
from fairseq_hrt.__main__ import main
from fairseq_hrt.compat.checkpoint_loading import TRUST_VARIABLE
from fairseq_hrt.hub.bundle import load_bundle, make_bundle

CALL = "__import__"


@pytest.fixture(scope="session")
def harmless(tmp_path_factory):
    return make_bundle_folder(tmp_path_factory.mktemp("harmless") / "bundle")


@pytest.fixture
def hostile(harmless, tmp_path):
    return Hostile(harmless, tmp_path)


@pytest.fixture
def run(monkeypatch, capsys):
    """A verb in this process: (exit status, what it wrote to the standard error, to the standard output)."""

    def call(*arguments, stdin="a b c\n"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), write_through=True))
        try:
            status = main([*map(str, arguments)])
        except SystemExit as error:
            status = error.code
        said = sys.stdout.buffer.getvalue().decode()
        monkeypatch.undo()
        return status, capsys.readouterr().err, said

    return call


def assert_refused(result, value):
    status, error, _ = result
    assert status == 2, error
    lines = error.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and value in lines[0], error
    assert len(lines[0]) < 1200


def options(**given):
    return lambda hostile: hostile.describe(options=given)


def plugin(name):
    return lambda hostile: hostile.describe(options={name: str(hostile.plugin("plugin"))})


def field(**given):
    return lambda hostile: hostile.describe(**given)


def evaluated(name, **more):
    return lambda hostile: hostile.model(**{name: hostile.code, **more})


def fconv(name):
    return lambda hostile: hostile.fconv(**{name: f"[{hostile.code}]"})


def state(**given):
    return lambda hostile: hostile.checkpoint(lambda state: state.update(given))


def text(change):
    return lambda hostile: hostile.write(change(hostile.text()))


def linked(name):
    def change(hostile):
        (hostile.folder / name).unlink()
        (hostile.folder / name).symlink_to(hostile.outside / name)

    return change


def replaced(name, content):
    return lambda hostile: (hostile.folder / name).write_bytes(content)


def multilingual(hostile):
    hostile.describe(task="translation_multi_simple_epoch", options={"extra_data": hostile.code})


def old_arguments(**given):
    """A checkpoint as fairseq before 0.10 wrote it."""

    def change(hostile):
        def convert(state):
            values = {**vars(state["cfg"]["model"]), "task": "translation", "data": "data", "criterion": "cross_entropy"}
            values.update({name: value.replace("CODE", hostile.code) for name, value in given.items()})
            state.update(args=Namespace(**values), cfg=None)

        hostile.checkpoint(convert)

    return change


def buffer(hostile):
    """eval takes what lies in memory like bytes as well."""
    hostile.fconv(encoder_layers=numpy.frombuffer(hostile.code.encode(), dtype=numpy.uint8).copy())


def nested_arguments(hostile):
    hostile.model(w2v_args={"model": Namespace(conv_feature_layers=hostile.code)})


def shadowed(hostile):
    """A name under which OmegaConf keeps its content, in something that is none of OmegaConf's."""
    hostile.model(_content={}, _val=None, adaptive_softmax_cutoff=hostile.code)


def shared_node(hostile):
    def change(state):
        node = AnyNode(hostile.code)
        config = OmegaConf.create({**vars(state["cfg"]["model"])})
        config.__dict__["_content"].update(zzz=node, adaptive_softmax_cutoff=node)
        state["cfg"]["model"] = config

    hostile.checkpoint(change)


def referred(hostile):
    """The text stands elsewhere, under a harmless name."""

    def change(state):
        state["cfg"]["model"] = {**vars(state["cfg"]["model"]), "adaptive_softmax_cutoff": "${model.zzz}", "zzz": hostile.code}

    hostile.checkpoint(change)


def yaml_configuration(hostile):
    hostile.checkpoint(lambda state: state.update(cfg=f"model:\n  adaptive_softmax_cutoff: {hostile.code}\ntask: {{}}"))


class Trap:
    def __init__(self, code):
        self.code = code

    def __reduce__(self):
        return (eval, (self.code,))


def pickled(hostile):
    hostile.checkpoint(lambda state: state.update(x=Trap(hostile.code)))


def zip_tricks(trick):
    """What an archive can do besides holding a checkpoint."""

    def change(hostile):
        path = hostile.folder / "model.pt"
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        prefix = next(iter(members)).split("/")[0]
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in trick(prefix, members, hostile).items():
                archive.writestr(name, content)

    return change


def torchscript(prefix, members, hostile):
    return {**members, f"{prefix}/constants.pkl": b"\x80\x02).", f"{prefix}/code/__torch__.py": hostile.code.encode()}


def second_pickle(prefix, members, hostile):
    """Another pickle in the place of the first."""
    code = f"cbuiltins\neval\n(V{hostile.code}\ntR.".encode()
    return {**members, f"{prefix}/data.pkl": b"\x80\x02" + code}


def without_weights(prefix, members, hostile):
    return {name: content for name, content in members.items() if "/data/" not in name}


def huge_pickle(hostile):
    """Bytes that promise more than there is."""
    (hostile.folder / "model.pt").write_bytes(b"\x80\x04\x95" + struct.pack("<Q", 1 << 60) + b"(" * 9)


DEEP = 100_000
BUNDLES = {
    # ------------------------------------------------ plugins and tasks
    "a plugin in the bundle": (plugin("user_dir"), "'user_dir'"),
    "the same with dashes": (plugin("user-dir"), "'user-dir'"),
    "as an option of its own": (plugin("--user-dir"), "'--user-dir'"),
    "as a name with a value": (lambda h: h.describe(options={f"beam=1 --user-dir={h.plugin('p')}": "true"}), "--user-dir"),
    "as a value": (lambda h: h.describe(options={"beam": f"--user-dir={h.plugin('p')}"}), "'--user-dir="),
    "behind a value": (lambda h: h.describe(options={"lenpen": f"1\n--user-dir={h.plugin('p')}"}), "'1\\n--user-dir="),
    "a relative plugin": (options(user_dir="bundle/plugin"), "'bundle/plugin'"),
    "a task that evaluates": (multilingual, "'translation_multi_simple_epoch'"),
    "another task among the options": (options(task="translation_multi_simple_epoch"), "'translation_multi_simple_epoch'"),
    "a task that does not exist": (field(task="no such task"), "'no such task'"),
    "a task that is a path": (field(task="../../plugin"), "'../../plugin'"),
    "a task that is a list": (field(task=["translation", "--user-dir", "plugin"]), "['translation', '--user-dir', 'plugin']"),
    "a task with an option": (field(task="translation --user-dir plugin"), "'translation --user-dir plugin'"),
    # ------------------------------------------------ options
    "evaluated": (lambda h: h.describe(options={"extra_data": h.code}), "'extra_data'"),
    "another criterion": (options(criterion="ctc"), "'criterion'"),
    "changes of the model": (options(model_overrides="{'arch': 'fconv', 'encoder_layers': 'exit()'}"), "'model_overrides'"),
    "another checkpoint": (options(path="../outside/model.pt"), "'path'"),
    "another folder of data": (options(data="../outside"), "'data'"),
    "a file of results": (options(results_path="results"), "'results_path'"),
    "a language model": (options(lm_path="/etc/passwd"), "'lm_path'"),
    "a language model of kenlm": (
        lambda h: h.describe(task="translation_dag", options={"dag_lm_path": "/etc/passwd"}),
        "'dag_lm_path'",
    ),
    "a draft": (lambda h: h.describe(task="translation_jacobi", options={"jacobi_draft_path": "../outside/model.pt"}), "'jacobi_draft_path'"),
    "a file of costs": (lambda h: h.describe(task="translation_jacobi", options={"jacobi_cost_file": "/tmp/x"}), "'jacobi_cost_file'"),
    "options of a draft": (lambda h: h.describe(task="translation_jacobi", options={"jacobi_draft_options": "{}"}), "'jacobi_draft_options'"),
    "subwords that load a file": (options(bpe="sentencepiece", sentencepiece_model="/etc/passwd"), "'bpe'"),
    "a tokenizer": (options(tokenizer="moses"), "'tokenizer'"),
    "a scorer": (options(scoring="wer"), "'scoring'"),
    "an optimizer": (options(optimizer="adam"), "'optimizer'"),
    "tensorboard writes": (options(tensorboard_logdir="/tmp/x"), "'tensorboard_logdir'"),
    "an alignment dictionary": (options(replace_unk="/etc/passwd"), "'replace_unk'"),
    "help": (options(help="true"), "'help'"),
    "a list": (options(beam=[1, 2]), "[1, 2]"),
    "a dictionary": (options(beam={"a": 1}), "{'a': 1}"),
    "nothing": (options(beam=None), "None"),
    "no number": (options(beam="1; import os"), "'1; import os'"),
    "not finite": (options(lenpen="nan"), "'nan'"),
    "the environment": (options(beam="${oc.env:HOME}"), "'${oc.env:HOME}'"),
    "the environment of a shell": (options(post_process="$HOME"), "'$HOME'"),
    "a home folder": (lambda h: h.describe(task="translation_hrt", options={"hrt_chunk_table": "~/x"}), "'~/x'"),
    "no choice": (lambda h: h.describe(task="translation_jacobi", options={"jacobi_mode": "../x"}), "'../x'"),
    "options that are a list": (field(options=["--user-dir", "plugin"]), "['--user-dir', 'plugin']"),
    "NUL": (options(beam="1\0"), "'1\\x00'"),
    # ------------------------------------------------ files
    "a model outside, relative": (field(models=["../outside/model.pt"]), "'../outside/model.pt'"),
    "a model outside, absolute": (lambda h: h.describe(models=[str(h.outside / "model.pt")]), "/outside/model.pt'"),
    "two models in one name": (field(models=["model.pt:../outside/model.pt"]), "'model.pt:../outside/model.pt'"),
    "an address": (field(models=["http://localhost/model.pt"]), "'http://localhost/model.pt'"),
    "a model that is an option": (field(models=["--user-dir"]), "'--user-dir'"),
    "a model with NUL": (field(models=["model.pt\0"]), "'model.pt\\x00'"),
    "models that are a text": (field(models="model.pt"), "'model.pt'"),
    "models that are numbers": (field(models=[1]), "names 1"),
    "no models": (field(models=[]), "[]"),
    "one model twice": (field(models=["model.pt", "model.pt"]), "['model.pt', 'model.pt']"),
    "codes outside": (field(subwords="subword-nmt", codes="../outside/dict.de.txt"), "'../outside/dict.de.txt'"),
    "codes that are a number": (field(subwords="subword-nmt", codes=7), "names 7"),
    "a language outside": (field(source_lang="../outside/dict.de"), "'../outside/dict.de'"),
    "a language that is an option": (field(source_lang="--user-dir"), "'--user-dir'"),
    "a language that is none": (field(target_lang=None), "None"),
    "a tokenizer of an unknown name": (field(tokenizer="perl x.pl"), "'perl x.pl'"),
    "subwords of an unknown name": (field(subwords="../x"), "'../x'"),
    "subwords that are a list": (field(subwords=["none"]), "['none']"),
    "a linked model": (linked("model.pt"), "'model.pt', which is a link"),
    "a linked dictionary": (linked("dict.de.txt"), "'dict.de.txt', which is a link"),
    "a linked description": (linked("bundle.json"), "bundle.json is a link"),
    # ------------------------------------------------ the description itself
    "nested deeply": (text(lambda own: own[:-1] + ', "card": ' + "[" * DEEP + "]" * DEEP + "}"), "bundle.json"),
    "nested deeply in options": (text(lambda own: own.replace('"1"', '{"a":' * DEEP + "1" + "}" * DEEP)), "bundle.json"),
    "huge": (text(lambda own: own[:-1] + ', "x": "' + "x" * 2_000_000 + '"}'), "more than 1000000 bytes"),
    "a key twice": (text(lambda own: own.replace('"options"', '"options": {"beam": "1"}, "options"')), "'options' stands there twice"),
    "an option twice": (text(lambda own: own.replace('"beam": "1"', '"beam": "1", "beam": "--x"')), "'beam' stands there twice"),
    "an unknown field": (field(user_dir="plugin"), "'user_dir'"),
    "a format of another kind": (field(format=True), "True"),
    "a list": (text(lambda own: "[1]"), "[1]"),
    "no JSON": (text(lambda own: "import os"), "Expecting value"),
    "no UTF-8": (replaced("bundle.json", b"\xff\xfe"), "bundle.json"),
    "a card that is a text": (field(card="x"), "'x'"),
    # ------------------------------------------------ dictionaries and codes
    "a dictionary that is none": (replaced("dict.de.txt", b"junk\n"), "junk"),
    "a dictionary with a word twice": (replaced("dict.de.txt", b"a 1\na 1\n"), "Duplicate word"),
    "a dictionary of bytes": (replaced("dict.de.txt", b"\xff\xff 1\n"), "dict.de.txt"),
    "another dictionary": (replaced("dict.de.txt", b"a 1\n"), "model.pt cannot be loaded"),
    "codes that are empty": (lambda h: (replaced("codes", b"")(h), h.describe(subwords="subword-nmt", codes="codes")), "codes"),
}  # fmt: skip
CHECKPOINTS = {
    # ------------------------------------------------ texts that fairseq evaluates
    "fconv": (fconv("encoder_layers"), CALL),
    "fconv, the attention": (fconv("decoder_attention"), CALL),
    "a Transformer, its softmax": (evaluated("adaptive_softmax_cutoff"), CALL),
    "a Transformer, xFormers": (evaluated("encoder_xformers_att_config"), CALL),
    "nested": (evaluated("encoder", encoder={"xformers_att_config": "exit()"}), "exit()"),
    "behind a reference": (referred, "'${model.zzz}'"),
    "a node of two names": (shared_node, CALL),
    "shadowed": (shadowed, CALL),
    "in the arguments of another model": (nested_arguments, CALL),
    "bytes": (lambda h: h.fconv(encoder_layers=h.code.encode()), CALL),
    "a buffer": (buffer, "encoder_layers"),
    "an optimizer": (lambda h: h.checkpoint(lambda s: s["cfg"].update(optimizer={"_name": "adam", "adam_betas": h.code})), CALL),
    "a comprehension": (lambda h: h.fconv(encoder_layers="[(8, 3) for x in [exit()]]"), "exit()"),
    "an attribute": (lambda h: h.fconv(encoder_layers="[].__class__.__base__.__subclasses__()"), "__subclasses__"),
    "a formatted text": (lambda h: h.fconv(encoder_layers="[f'{exit()}']"), "exit()"),
    "something huge": (lambda h: h.fconv(encoder_layers="[0] * 10000000000"), "10000000000"),
    "something deep": (lambda h: h.fconv(encoder_layers="(" * 5000 + ")" * 5000), "model.pt"),
    "a configuration in YAML": (yaml_configuration, "cfg="),
    "old arguments": (old_arguments(adaptive_softmax_cutoff="CODE"), CALL),
    "old arguments, a file of hydra": (old_arguments(bpe="../../outside/evil"), "'../../outside/evil'"),
    "the environment": (lambda h: h.model(dropout="${oc.env:HOME}"), "'${oc.env:HOME}'"),
    "the environment in the task": (lambda h: h.task(source_lang="${oc.env:HOME}"), "'${oc.env:HOME}'"),
    "the environment, nested": (lambda h: h.task(source_lang="${oc.env:${x}}"), "'${oc.env:${x}}'"),
    "a reference that decodes": (lambda h: h.task(eval_bleu_args="${oc.decode:'{}'}"), "oc.decode"),
    # ------------------------------------------------ architectures
    "an unknown architecture": (lambda h: h.model(_name="no_such", arch="no_such"), "'no_such'"),
    "an architecture that loads a file": (lambda h: h.model(_name="fconv_self_att"), "'fconv_self_att'"),
    "an architecture that loads a model": (lambda h: h.model(_name="transformer_from_pretrained_xlm"), "'transformer_from_pretrained_xlm'"),
    "another family's architecture": (lambda h: h.model(_name="wav2vec2"), "'wav2vec2'"),
    "an architecture that is a list": (lambda h: h.model(_name=["transformer"], arch=None), "['transformer']"),
    # ------------------------------------------------ archives and pickles
    "code in a pickle": (pickled, "eval"),
    "code in the pickle of the archive": (zip_tricks(second_pickle), "eval"),
    "TorchScript": (zip_tricks(torchscript), "model.pt"),
    "an archive without weights": (zip_tricks(without_weights), "model.pt"),
    "a pickle that promises too much": (huge_pickle, "model.pt"),
    "an empty file": (replaced("model.pt", b""), "model.pt"),
    "a list instead of a checkpoint": (lambda h: h.checkpoint(lambda state: [1, 2]), "model.pt"),
    "no configuration": (state(cfg=None), "model.pt"),
    "a configuration that is a list": (state(cfg=[1]), "model.pt"),
    "no parameters": (state(model=None), "model.pt"),
    "parameters that are a text": (state(model="x"), "model.pt"),
    "parameters of another model": (lambda h: h.checkpoint(lambda s: s["model"].pop("encoder.version", None) or s["model"].popitem()[0] and None), "model.pt"),
    "a deep configuration": (lambda h: h.model(x=deep(250)), "model.pt"),
    "no history": (lambda h: h.checkpoint(lambda s: s.pop("optimizer_history") and None), "model.pt"),
    "a history of nothing": (state(optimizer_history=[]), "model.pt"),
}  # fmt: skip


def deep(levels):
    found = {}
    for _ in range(levels):
        found = {"x": found}
    return found


@pytest.mark.parametrize("attack", BUNDLES)
def test_bundle_is_refused(hostile, run, attack):
    change, value = BUNDLES[attack]
    change(hostile)
    assert_refused(run("translate", hostile.folder, "--quiet"), value)
    with pytest.raises(ValueError) as error:
        fairseq_hrt.from_pretrained(hostile.folder, device="cpu")
    assert value in str(error.value) and "\n" not in str(error.value)
    assert not hostile.sentinel.exists()


@pytest.mark.parametrize("attack", CHECKPOINTS)
def test_checkpoint_is_refused(hostile, run, attack):
    change, value = CHECKPOINTS[attack]
    change(hostile)
    assert_refused(run("translate", hostile.folder, "--quiet"), value)
    with pytest.raises(ValueError) as error:
        fairseq_hrt.from_pretrained(hostile.folder, device="cpu")
    assert value in str(error.value) and "\n" not in str(error.value)
    assert not hostile.sentinel.exists()
