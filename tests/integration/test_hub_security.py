"""Nothing that comes from a bundle or a checkpoint is run: every attempt is refused in one line
that names the value."""

import io
import json
import os
import struct
import sys
import zipfile
from argparse import Namespace
from collections import OrderedDict

import numpy
import pytest
from fairseq.data import Dictionary
from hostile import Hostile, make_bundle_folder
from omegaconf import AnyNode, OmegaConf

import fairseq_hrt
from fairseq_hrt.cli.main import main
from fairseq_hrt.compat.checkpoint_loading import TRUST_VARIABLE
from fairseq_hrt.export.checkpoint_bundle import make_bundle
from fairseq_hrt.native.bundles.bundle import load_bundle

# Whole commands, with hundreds of hostile files.
pytestmark = pytest.mark.slow

CALL = "__import__"


@pytest.fixture(scope="session")
def harmless(tmp_path_factory):
    return make_bundle_folder(tmp_path_factory.mktemp("harmless") / "bundle")


@pytest.fixture
def hostile(harmless, tmp_path):
    return Hostile(harmless, tmp_path)


@pytest.fixture
def run(monkeypatch, capsys):
    """A verb in this process: (exit status, what it wrote to the standard error, to the standard
    output)."""

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
    # Its option alone is refused, too ("evaluated" below).
    hostile.describe(task="translation_multi_simple_epoch")


def old_arguments(**given):
    """A checkpoint as fairseq before 0.10 wrote it."""

    def change(hostile):
        def convert(state):
            values = {
                **vars(state["cfg"]["model"]),
                "task": "translation",
                "data": "data",
                "criterion": "cross_entropy",
            }
            values.update(
                {name: value.replace("CODE", hostile.code) for name, value in given.items()}
            )
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
        state["cfg"]["model"] = {
            **vars(state["cfg"]["model"]),
            "adaptive_softmax_cutoff": "${model.zzz}",
            "zzz": hostile.code,
        }

    hostile.checkpoint(change)


def referred_within(hostile):
    """The same within a text, which is one only when the reference has been followed."""

    def change(state):
        model = vars(state["cfg"]["model"])
        state["cfg"]["model"] = {
            **model,
            "adaptive_softmax_cutoff": "[${model.zzz}]",
            "zzz": hostile.code,
        }

    hostile.checkpoint(change)


def hidden(hostile):
    """A dictionary that shows an empty one to whoever asks for its items, and its keys to
    fairseq."""

    class Held:
        def __reduce__(self):
            return (
                OrderedDict,
                (),
                {"items": dict},
                None,
                iter([("xformers_att_config", hostile.code)]),
            )

    def change(state):
        state["cfg"]["model"].decoder = Held()

    hostile.checkpoint(change)


def dictionary_as_configuration(hostile):
    def change(state):
        state["cfg"]["model"] = Dictionary()
        state["cfg"]["model"].__dict__.update(
            _name="fconv", arch="fconv", encoder_layers=hostile.code
        )

    hostile.checkpoint(change)


def yaml_configuration(hostile):
    hostile.checkpoint(
        lambda state: state.update(
            cfg=f"model:\n  adaptive_softmax_cutoff: {hostile.code}\ntask: {{}}"
        )
    )


def node_configuration(hostile):
    """The same in one of OmegaConf's nodes, which fairseq would read when it has been unpacked."""

    def change(state):
        state["cfg"] = AnyNode(f"model:\n  adaptive_softmax_cutoff: {hostile.code}\ntask: {{}}")

    hostile.checkpoint(change)


def name_with_line_feed(hostile):
    """fairseq takes it for xformers_att_config of the encoder."""
    hostile.model(**{"encoder_xformers_att_config\nx": hostile.code})


def file_name_with_line_feed(hostile):
    hostile.model(**{"encoder_embed_path\nx": "/etc/passwd"})


def environment_in_history(hostile):
    """fairseq copies it into the state, which is written into averages and bundles."""
    hostile.checkpoint(
        lambda state: state.update(extra_state=OmegaConf.create({"epoch": "${oc.env:HOME}"}))
    )


class Record:
    """Answers to names as a dictionary does, and has no keys."""

    def __reduce__(self):
        return numpy.float32(0).__reduce__()[0], (RecordType(), bytes(8))


class RecordType:
    def __reduce__(self):
        return numpy.dtype, ([("cfg", "i4"), ("args", "i4")],)


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
    return {
        **members,
        f"{prefix}/constants.pkl": b"\x80\x02).",
        f"{prefix}/code/__torch__.py": hostile.code.encode(),
    }


def second_pickle(prefix, members, hostile):
    """Another pickle in the place of the first."""
    code = f"cbuiltins\neval\n(V{hostile.code}\ntR.".encode()
    return {**members, f"{prefix}/data.pkl": b"\x80\x02" + code}


def without_weights(prefix, members, hostile):
    return {name: content for name, content in members.items() if "/data/" not in name}


def huge_pickle(hostile):
    """Bytes that promise more than there is."""
    (hostile.folder / "model.pt").write_bytes(
        b"\x80\x04\x95" + struct.pack("<Q", 1 << 60) + b"(" * 9
    )


DEEP = 100_000
BUNDLES = {
    # ------------------------------------------------ plugins and tasks
    "a plugin in the bundle": (plugin("user_dir"), "'user_dir'"),
    "the same with dashes": (plugin("user-dir"), "'user-dir'"),
    "as an option of its own": (plugin("--user-dir"), "'--user-dir'"),
    "as a name with a value": (lambda h: h.describe(options={f"beam=1 --user-dir={h.plugin('p')}": "true"}), "--user-dir"),
    "as a value": (lambda h: h.describe(options={"beam": f"--user-dir={h.plugin('p')}"}),
                   "'--user-dir="),
    "behind a value": (lambda h: h.describe(options={"lenpen": f"1\n--user-dir={h.plugin('p')}"}),
                       "'1\\n--user-dir="),
    "a relative plugin": (options(user_dir="bundle/plugin"), "'bundle/plugin'"),
    "a task that evaluates": (multilingual, "'translation_multi_simple_epoch'"),
    "another task among the options": (options(task="translation_multi_simple_epoch"),
                                       "'translation_multi_simple_epoch'"),
    "a task that does not exist": (field(task="no such task"), "'no such task'"),
    "a task that is a path": (field(task="../../plugin"), "'../../plugin'"),
    "a task that is a list": (field(task=["translation", "--user-dir", "plugin"]),
                              "['translation', '--user-dir', 'plugin']"),
    "a task with an option": (field(task="translation --user-dir plugin"),
                              "'translation --user-dir plugin'"),
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
    "a draft": (lambda h: h.describe(task="translation_jacobi",
                                     options={"jacobi_draft_path": "../outside/model.pt"}),
                "'jacobi_draft_path'"),
    "a model that chooses": (lambda h: h.describe(options={"rescore_path": "../outside/model.pt"}),
                             "'rescore_path'"),
    "a file of costs": (lambda h: h.describe(task="translation_jacobi",
                                             options={"jacobi_cost_file": "/tmp/x"}),
                        "'jacobi_cost_file'"),
    "options of a draft": (lambda h: h.describe(task="translation_jacobi",
                                                options={"jacobi_draft_options": "{}"}),
                           "'jacobi_draft_options'"),
    "subwords that load a file": (options(bpe="sentencepiece", sentencepiece_model="/etc/passwd"),
                                  "'bpe'"),
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
    "a home folder": (lambda h: h.describe(task="translation_hrt",
                                           options={"hrt_chunk_table": "~/x"}), "'~/x'"),
    "no choice": (lambda h: h.describe(task="translation_jacobi", options={"jacobi_mode": "../x"}),
                  "'../x'"),
    "options that are a list": (field(options=["--user-dir", "plugin"]),
                                "['--user-dir', 'plugin']"),
    "NUL": (options(beam="1\0"), "'1\\x00'"),
    # ------------------------------------------------ files
    "a model outside, relative": (field(models=["../outside/model.pt"]), "'../outside/model.pt'"),
    "a model outside, absolute": (lambda h: h.describe(models=[str(h.outside / "model.pt")]),
                                  "/outside/model.pt'"),
    "two models in one name": (field(models=["model.pt:../outside/model.pt"]),
                               "'model.pt:../outside/model.pt'"),
    "an address": (field(models=["http://localhost/model.pt"]), "'http://localhost/model.pt'"),
    "a model that is an option": (field(models=["--user-dir"]), "'--user-dir'"),
    "a model with NUL": (field(models=["model.pt\0"]), "'model.pt\\x00'"),
    "models that are a text": (field(models="model.pt"), "'model.pt'"),
    "models that are numbers": (field(models=[1]), "names 1"),
    "no models": (field(models=[]), "[]"),
    "one model twice": (field(models=["model.pt", "model.pt"]), "['model.pt', 'model.pt']"),
    "codes outside": (field(subwords="subword-nmt", codes="../outside/dict.de.txt"),
                      "'../outside/dict.de.txt'"),
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
    "nested deeply": (text(lambda own: own[:-1] + ', "card": ' + "[" * DEEP + "]" * DEEP + "}"),
                      "bundle.json"),
    "nested deeply in options": (text(lambda own: own.replace('"1"',
                                                              '{"a":' * DEEP + "1" + "}" * DEEP)), "bundle.json"),
    "huge": (text(lambda own: own[:-1] + ', "x": "' + "x" * 2_000_000 + '"}'),
             "more than 1000000 bytes"),
    "a key twice": (text(lambda own: own.replace('"options"',
                                                 '"options": {"beam": "1"}, "options"')),
                    "'options' appears twice"),
    "an option twice": (text(lambda own: own.replace('"beam": "1"', '"beam": "1", "beam": "--x"')),
                        "'beam' appears twice"),
    "an unknown field": (field(user_dir="plugin"), "'user_dir'"),
    "a format of another kind": (field(format=True), "True"),
    "a description that is a list": (text(lambda own: "[1]"), "[1]"),
    "no JSON": (text(lambda own: "import os"), "Expecting value"),
    "no UTF-8": (replaced("bundle.json", b"\xff\xfe"), "bundle.json"),
    "a card that is a text": (field(card="x"), "'x'"),
    # ------------------------------------------------ dictionaries and codes
    "a dictionary that is none": (replaced("dict.de.txt", b"junk\n"), "junk"),
    "a dictionary with a word twice": (replaced("dict.de.txt", b"a 1\na 1\n"),
                                       "has the word 'a' again"),
    "a dictionary of bytes": (replaced("dict.de.txt", b"\xff\xff 1\n"), "dict.de.txt"),
    "another dictionary": (replaced("dict.de.txt", b"a 1\n"), "model.pt cannot be loaded"),
    "codes that are empty": (lambda h: (replaced("codes", b"")(h),
                                        h.describe(subwords="subword-nmt", codes="codes")),
                             "codes"),
}  # fmt: skip
CHECKPOINTS = {
    # ------------------------------------------------ texts that fairseq evaluates
    "fconv": (fconv("encoder_layers"), CALL),
    "fconv, the attention": (fconv("decoder_attention"), CALL),
    "a Transformer, its softmax": (evaluated("adaptive_softmax_cutoff"), CALL),
    "a Transformer, xFormers": (evaluated("encoder_xformers_att_config"), CALL),
    "nested": (evaluated("encoder", encoder={"xformers_att_config": "exit()"}), "exit()"),
    "behind a reference": (referred, CALL),
    "behind a reference within a text": (referred_within, "'[${model.zzz}]'"),
    "behind a text that becomes a reference": (lambda h: h.task(source_lang="$${model.zzz}"),
                                               "'$${model.zzz}'"),
    "a file that only behaves like a dictionary": (lambda h: h.checkpoint(lambda state: OmegaConf.create({"cfg": {"model": {"encoder_layers": h.code}}, "args": None})), "not a plain dictionary"),
    "a dictionary that hides what it holds": (hidden, CALL),
    "an object with the attributes of a configuration": (dictionary_as_configuration,
                                                         "not a value of an option"),
    "a node of two names": (shared_node, CALL),
    "shadowed": (shadowed, CALL),
    "in the arguments of another model": (nested_arguments, CALL),
    "bytes": (lambda h: h.fconv(encoder_layers=h.code.encode()), CALL),
    "a buffer": (buffer, "encoder_layers"),
    "an optimizer": (lambda h: h.checkpoint(lambda s: s["cfg"].update(optimizer={"_name": "adam",
                                                                                 "adam_betas": h.code})), CALL),
    "a comprehension": (lambda h: h.fconv(encoder_layers="[(8, 3) for x in [exit()]]"), "exit()"),
    "an attribute": (lambda h: h.fconv(encoder_layers="[].__class__.__base__.__subclasses__()"),
                     "__subclasses__"),
    "a formatted text": (lambda h: h.fconv(encoder_layers="[f'{exit()}']"), "exit()"),
    "something huge": (lambda h: h.fconv(encoder_layers="[0] * 10000000000"), "10000000000"),
    "something deep": (lambda h: h.fconv(encoder_layers="(" * 5000 + ")" * 5000), "model.pt"),
    "a configuration in YAML": (yaml_configuration, "cfg="),
    "a configuration in a node": (node_configuration, "which is not a configuration"),
    "a name with a line feed": (name_with_line_feed, "encoder_xformers_att_config\\nx"),
    "a file behind a name with a line feed": (file_name_with_line_feed, "encoder_embed_path\\nx"),
    "the environment in the history": (environment_in_history,
                                       "which is a part of a configuration but is stored outside it"),
    "a record": (lambda h: h.checkpoint(lambda state: Record()),
                 "holds the NumPy type [('cfg', 'i4'), ('args', 'i4')], which is not one"),
    "old arguments": (old_arguments(adaptive_softmax_cutoff="CODE"), CALL),
    "old arguments, outside a text when hydra has read them": (old_arguments(adaptive_softmax_cutoff=r"'a\\\\',' + exit() #'"), "exit()"),
    "old arguments, evaluated twice": (old_arguments(adaptive_softmax_cutoff="'exit()'"), "exit()"),
    "old arguments, a file of hydra": (old_arguments(bpe="../../outside/evil"),
                                       "'../../outside/evil'"),
    "the environment": (lambda h: h.model(dropout="${oc.env:HOME}"), "'${oc.env:HOME}'"),
    "the environment in the task": (lambda h: h.task(source_lang="${oc.env:HOME}"),
                                    "'${oc.env:HOME}'"),
    "the environment, nested": (lambda h: h.task(source_lang="${oc.env:${x}}"), "'${oc.env:${x}}'"),
    "a reference that decodes": (lambda h: h.task(eval_bleu_args="${oc.decode:'{}'}"), "oc.decode"),
    # ------------------------------------------------ architectures
    "an unknown architecture": (lambda h: h.model(_name="no_such", arch="no_such"), "'no_such'"),
    "an architecture that loads a file": (lambda h: h.model(_name="fconv_self_att"),
                                          "'fconv_self_att'"),
    "an architecture that loads a model": (lambda h: h.model(_name="transformer_from_pretrained_xlm"), "'transformer_from_pretrained_xlm'"),
    "another family's architecture": (lambda h: h.model(_name="wav2vec2"), "'wav2vec2'"),
    "an architecture that is a list": (lambda h: h.model(_name=["transformer"], arch=None),
                                       "['transformer']"),
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
    "parameters that are missing": (lambda h: h.checkpoint(lambda s: s["model"].popitem() and None), "model.pt"),
    "a deep configuration": (lambda h: h.checkpoint(lambda s: s["cfg"].update(x=deep(250))),
                             "model.pt"),
    "no history": (lambda h: h.checkpoint(lambda s: s.pop("optimizer_history") and None),
                   "model.pt"),
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
    assert not hostile.sentinel.exists()


@pytest.mark.parametrize("attack", CHECKPOINTS)
def test_checkpoint_is_refused(hostile, run, attack):
    change, value = CHECKPOINTS[attack]
    change(hostile)
    assert_refused(run("translate", hostile.folder, "--quiet"), value)
    assert not hostile.sentinel.exists()


@pytest.mark.parametrize(
    "attack",
    [
        "a plugin in the bundle", "a task that evaluates", "nested deeply",
        "models that are numbers", "codes that are empty", "help", "a dictionary of bytes",
        "fconv", "code in a pickle", "TorchScript", "no history",
    ],
)  # fmt: skip
def test_python_gets_a_value_error(hostile, attack):
    change, value = {**BUNDLES, **CHECKPOINTS}[attack]
    change(hostile)
    with pytest.raises(ValueError) as error:
        fairseq_hrt.from_pretrained(hostile.folder, device="cpu")
    assert value in str(error.value) and "\n" not in str(error.value)
    assert not hostile.sentinel.exists()


# ---------------------------------------------------------------------- the other commands, and
# Python


def test_harmless_bundle_translates(harmless, run):
    status, error, said = run("translate", harmless, "--quiet")
    assert not status and not error and said.count("\n") == 1


@pytest.mark.parametrize("verb", ["trace", "graph", "export", "benchmark"])
@pytest.mark.parametrize(
    "attack",
    ["a plugin in the bundle", "a task that evaluates", "a linked model", "two models in one name"],
)
def test_every_command_that_takes_a_bundle_refuses_it(hostile, run, verb, attack):
    if verb == "benchmark" and attack != "a plugin in the bundle":
        pytest.skip("takes the description for its dictionaries only")
    change, value = BUNDLES[attack]
    change(hostile)
    path = hostile.outside / "model.pt"
    system = ["--system", f"name=x,path={path}"] if verb == "benchmark" else []
    more = {
        "export": ["--output", hostile.folder.parent / "out"],
        "trace": ["--text", "a"],
        "graph": ["--text", "a", "--out", hostile.folder.parent],
    }
    status, error, said = run(
        verb, hostile.folder, *system, *more.get(verb, ["--out", hostile.folder.parent / "out"])
    )
    # What was logged before stands on lines of its own.
    assert_refused((status, error.splitlines()[-1], said), value)
    assert not hostile.sentinel.exists()


@pytest.mark.parametrize(
    "attack",
    [
        "fconv",
        "a Transformer, its softmax",
        "code in a pickle",
        "an architecture that loads a file",
        "the environment in the history",
    ],
)
@pytest.mark.parametrize("verb", ["trace", "export", "benchmark", "distill", "bundle", "average"])
def test_every_command_that_takes_a_checkpoint_refuses_it(hostile, run, verb, attack):
    change, value = CHECKPOINTS[attack]
    change(hostile)
    path, data, out = hostile.folder / "model.pt", hostile.outside, hostile.folder.parent / "out"
    system = ["--system", f"name=x,path={path}"]
    arguments = {
        "trace": [data, *system, "-s", "de", "-t", "en", "--text", "a"],
        "export": [path, "--data", data, "-s", "de", "-t", "en", "--output", out],
        "benchmark": [data, *system, "-s", "de", "-t", "en", "--out", out],
        "distill": [data, *system, "-s", "de", "-t", "en", "--out", out],
        "bundle": [
            path,
            "--data",
            data,
            "--tokenizer",
            "space",
            "--subwords",
            "none",
            "--output",
            out,
        ],
        "average": ["--inputs", path, path, "--output", out],
    }[verb]
    if verb == "average" and attack == "an architecture that loads a file":
        pytest.skip("averaging builds no model")
    status, error, _ = run(verb, *arguments)
    assert status == 2 and value in error.splitlines()[-1] and "Traceback" not in error
    assert not hostile.sentinel.exists() and not out.exists()


def test_draft_chooses_no_task(hostile, run):
    """The task that fairseq would take stands under another name than the one that is shown."""
    hostile.task(task="translation_multi_simple_epoch", extra_data=hostile.code)
    options = [
        "--set",
        "task=translation_jacobi",
        "--set",
        "jacobi_draft=hrt",
        "--set",
        f"jacobi_draft_path={hostile.folder / 'model.pt'}",
    ]
    assert_refused(
        run("translate", hostile.outside, "--quiet", *options), "'translation_multi_simple_epoch'"
    )


@pytest.mark.parametrize(
    "names",
    [
        {"task": "translation_jacobi", "_name": "translation_hrt"},
        {"task": "translation_dag", "_name": "translation_hrt"},
    ],
)
def test_draft_opens_and_writes_no_file(hostile, run, names):
    """Its configuration names one task by each of two keys, and files of the one that is not looked
    at."""
    victim = hostile.folder.parent / "victim.txt"
    victim.write_text("one of a kind")
    files = dict.fromkeys(
        ("jacobi_cost_file", "jacobi_draft_path", "rescore_path", "dag_lm_path"), str(victim)
    )
    hostile.task(**names, jacobi_draft="previous", jacobi_window=4, **files)
    options = (
        "task=translation_jacobi",
        "jacobi_draft=hrt",
        "jacobi_window=4",
        f"jacobi_draft_path={hostile.folder / 'model.pt'}",
    )
    chosen = [part for option in options for part in ("--set", option)]
    assert_refused(
        run("translate", hostile.outside, "--quiet", "--engine", "torch", *chosen),
        f"belongs to the task {names['task']}",
    )
    assert victim.read_text() == "one of a kind"


@pytest.mark.parametrize(
    "names",
    [
        {"task": "translation_jacobi"},
        {"_name": "translation_jacobi"},
        {"task": "translation", "_name": "translation_hrt"},
    ],
)
def test_a_model_that_chooses_opens_and_writes_no_file(hostile, run, names):
    victim = hostile.folder.parent / "victim.txt"
    victim.write_text("one of a kind")
    hostile.task(
        **names,
        **dict.fromkeys(
            ("jacobi_cost_file", "jacobi_draft_path", "rescore_path", "eval_bleu_args"), str(victim)
        ),
    )
    chosen = ["--set", "beam=3", "--set", f"rescore_path={hostile.folder / 'model.pt'}"]
    status, error, said = run("translate", hostile.outside, "--quiet", "--engine", "torch", *chosen)
    assert not status and not error and said.count("\n") == 1
    assert victim.read_text() == "one of a kind"


def test_options_of_the_training_are_chosen(hostile):
    """Decoding takes what belongs to the model over from its training, and nothing that names a
    file."""
    hostile.describe(task="translation_jacobi")
    hostile.task(
        _name="translation_jacobi", jacobi_draft="hrt",
        jacobi_draft_path=str(hostile.outside / "model.pt"), max_source_positions=17,
        jacobi_cost_file="/etc/passwd", jacobi_mode="../x", distilled_data="/etc", data="/etc",
    )  # fmt: skip
    hostile.describe(options={"beam": 1, "max_len_b": 5, "jacobi_draft": "previous"})
    model = fairseq_hrt.from_pretrained(hostile.folder, device="cpu")
    config = model.decoder._configuration({"beam": "1", "jacobi_draft": "previous"}, hostile.folder)
    assert config.task.max_source_positions == 17 and config.task.jacobi_draft_path is None
    # No task has it any more.
    assert "jacobi_cost_file" not in config.task
    assert config.task.data == str(hostile.folder) and str(config.task.jacobi_mode) == "frontier"


def test_no_file_of_the_training_is_opened(hostile, run):
    """fairseq reads pre-trained embeddings again whenever such a model is loaded; a pipe would be
    waited for."""
    pipe = hostile.folder / "pipe"
    os.mkfifo(pipe)
    hostile.model(
        encoder_embed_path=str(pipe), decoder_embed_path="/etc/passwd", embed_path=str(pipe)
    )
    status, error, _ = run("translate", hostile.folder, "--quiet")
    assert not status, error


def test_checkpoint_beside_the_checked_one_is_not_read(hostile, run):
    """fairseq prefers model-shard0.pt to model.pt."""
    (hostile.folder / "model-shard0.pt").write_text("hostile")
    status, error, _ = run("translate", hostile.folder, "--quiet")
    assert not status, error


def test_what_the_user_says_is_free(hostile, run):
    """The same plugin and options, given by the user."""
    name = f"plugin_{id(hostile)}"
    plugin = hostile.plugin(name)
    status, error, _ = run(
        "translate", hostile.folder, "--quiet", "--set", f"user_dir={plugin}", "--set", "beam=2"
    )
    assert not status and hostile.sentinel.exists(), error
    hostile.fconv()
    path = hostile.folder / "model.pt"
    options = [
        "--set",
        f"model_overrides={{'encoder_layers': '[(8, 3)]', 'max_source_positions': {15}}}",
    ]
    assert (
        "cannot be loaded"
        in run("translate", hostile.folder, "--quiet", "--set", "task=translation", *options)[1]
    )
    for wrong in ("[1]", "exit()", "{"):
        assert_refused(
            run("translate", hostile.outside, "--quiet", "--set", f"model_overrides={wrong}"),
            f"--model-overrides {wrong!r}",
        )
    for wrong, message in (
        ("help=true", "help"),
        ("user_dir=true", "--user-dir"),
        ("user_dir=/nowhere", "/nowhere"),
        ("beam=--x", "--beam"),
    ):
        status, error, _ = run("translate", hostile.outside, "--quiet", "--set", wrong)
        assert status == 2 and error.count("\n") == 1 and message in error
    assert path.exists()


def test_trusted_file_is_the_users_choice(hostile, run, monkeypatch):
    CHECKPOINTS["a Transformer, its softmax"][0](hostile)
    monkeypatch.setenv(TRUST_VARIABLE, str(hostile.folder / "model.pt"))
    with pytest.raises(ValueError):
        fairseq_hrt.from_pretrained(hostile.folder, device="cpu")
    assert hostile.sentinel.exists()


def test_folder_is_no_option(hostile, run, monkeypatch):
    """An archive may unpack into any name."""
    plugin = hostile.plugin("plugin")
    folder = hostile.folder.parent / f"--user-dir={plugin.name}"
    hostile.folder.rename(folder)
    monkeypatch.chdir(hostile.folder.parent)
    (hostile.folder.parent / "plugin").symlink_to(folder / "plugin")
    assert load_bundle(folder).folder.is_absolute()
    model = fairseq_hrt.from_pretrained(folder.name, device="cpu")
    assert isinstance(model.translate("a b"), str)
    assert not hostile.sentinel.exists()


# ---------------------------------------------------------------------- what is legitimate


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 2, "lenpen": 0.5, "unnormalized": True},
        {"beam": "2", "lenpen": "-1", "retain_iter_history": "false"},
        {"max-len-b": "7"},
    ],
)
def test_numbers_and_switches_are_options(hostile, options):
    hostile.describe(options=options)
    assert isinstance(
        fairseq_hrt.from_pretrained(hostile.folder, device="cpu").translate("a b"), str
    )


def test_convolutional_network_is_loaded(hostile, run):
    """Its layers are texts that fairseq evaluates: plain literals."""
    config = hostile.fconv()
    from fairseq import tasks
    from fairseq.models.fconv import FConvModel

    task = tasks.setup_task(
        Namespace(task="translation", data=str(hostile.folder), source_lang="de", target_lang="en")
    )
    hostile.checkpoint(
        lambda state: state.update(model=FConvModel.build_model(config, task).state_dict())
    )
    hostile.describe(task="translation")
    status, error, said = run("translate", hostile.folder, "--quiet")
    assert not status and said.count("\n") == 1, error


def test_dictionary_in_the_state_of_a_task_is_loaded(hostile, run):
    hostile.checkpoint(
        lambda state: state.update(
            task_state={"target_dictionary": Dictionary(), "dictionaries": [Dictionary()]}
        )
    )
    status, error, _ = run("translate", hostile.folder, "--quiet")
    assert not status, error


def test_what_would_be_refused_is_not_packed(harmless, tmp_path):
    arguments = dict(tokenizer="space", subwords="none", codes=None)
    with pytest.raises(ValueError, match="'user_dir' to 'x'"):
        make_bundle(
            tmp_path / "b",
            [harmless / "model.pt"],
            harmless,
            options={"user_dir": "x"},
            **arguments,
        )
    with pytest.raises(ValueError, match="'translation_multi_simple_epoch'"):
        make_bundle(
            tmp_path / "b",
            [harmless / "model.pt"],
            harmless,
            task="translation_multi_simple_epoch",
            **arguments,
        )
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------- cards and pages

MARKS = [
    "<script>alert(1)</script>", "![x](http://localhost/x.png)", "[x](javascript:alert(1))",
    "a | b", "a\n\n# heading", "`x`", "@somebody", "<!-- x", "http://localhost", "$x$",
    "www.example.invalid", "\x1b[31mred", "*x* _x_ ~~x~~", "\u202ereversed",
]  # fmt: skip


def test_card_shows_and_does_nothing(harmless, tmp_path):
    card = {f"{number}{mark}": mark for number, mark in enumerate(MARKS)}
    folder = tmp_path / "b"
    make_bundle(
        folder,
        [harmless / "model.pt"],
        harmless,
        tokenizer="space",
        subwords="none",
        codes=None,
        card=card,
    )
    text = (folder / "README.md").read_text()
    table = text[text.index("|---|---|\n") :].splitlines()[1:]
    assert all(
        line.startswith("| ") and line.endswith(" |") and line.count("|") == 3 for line in table
    )
    for sign in ("<", "](", "`", "@", "://", "$", "*", "~", "www.", "\x1b", "\u202e"):
        assert sign not in "".join(table), sign
    assert (
        "&#60;script&#62;" in text
        and json.loads((folder / "bundle.json").read_text())["card"]["0" + MARKS[0]] == MARKS[0]
    )


# One of all that HTML and terminals could take for theirs, and one that is no formula.
NAMES = [
    "<!--<script>alert(1) </script><script>alert(2)</script> \u2028 & <b> \x1b]0;title\x07 ]]>",
    "$\\frac{$",
]


@pytest.mark.parametrize("name", NAMES)
def test_trace_page_shows_any_name(harmless, run, tmp_path, name):
    from html.parser import HTMLParser

    # Short: an untrained model does not end a sentence by itself, and the picture grows with it.
    system = f"name={name},path={harmless / 'model.pt'},task=translation_autoregressive,beam=1,max_len_b=4"
    status, error, said = run(
        "trace", harmless, "--text", "a <!--<script>", "--system", system, "--out", tmp_path
    )
    assert not status, error
    assert "\x1b" not in said and "\x07" not in said
    page = (tmp_path / "trace.html").read_text()
    # Whatever an HTML parser makes of it, no sign of the data can begin markup.
    start = page.index('id="data">') + len('id="data">')
    data = page[start : page.index("</script>", start)]
    assert json.loads(data)[0]["name"] == name.strip() and not set("<>&\u2028\u2029") & set(data)

    class Elements(HTMLParser):
        scripts = 0

        def handle_starttag(self, tag, attributes):
            self.scripts += tag == "script"

    elements = Elements()
    elements.feed(page)
    assert elements.scripts == 2


# ---------------------------------------------------------------------- the real command line


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack",
    ["a plugin in the bundle", "a task that evaluates", "nested deeply", "a dictionary of bytes"],
)
def test_command_refuses_bundles(hostile, command, attack):
    change, value = BUNDLES[attack]
    change(hostile)
    result = command("fairseq-hrt", "translate", hostile.folder, check=False, stdin="a\n")
    assert_refused((result.returncode, result.stderr, result.stdout), value)
    assert not hostile.sentinel.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack", ["fconv", "code in a pickle", "TorchScript", "a pickle that promises too much"]
)
def test_command_refuses_checkpoints(hostile, command, attack):
    change, value = CHECKPOINTS[attack]
    change(hostile)
    result = command("fairseq-hrt", "translate", hostile.folder, check=False, stdin="a\n")
    assert_refused((result.returncode, result.stderr, result.stdout), value)
    assert not hostile.sentinel.exists()


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["fconv", "a name with a line feed", "a record"])
def test_stock_command_is_protected_from_checkpoints(hostile, command, attack):
    """With the package installed, fairseq-generate evaluates nothing of a checkpoint either."""
    change, value = CHECKPOINTS[attack]
    change(hostile)
    arguments = [
        hostile.folder,
        "--path",
        hostile.folder / "model.pt",
        "-s",
        "de",
        "-t",
        "en",
        "--cpu",
    ]
    result = command("fairseq-generate", *arguments, check=False)
    assert result.returncode and value in result.stderr.splitlines()[-1]
    assert not hostile.sentinel.exists()
