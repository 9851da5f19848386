"""Checkpoints as DA-Transformer and FA-DAT write them, against their computation in NumPy.

The oracle reads their parameters by their names and options, and shares nothing with the package.
"""

import math
import re
from argparse import Namespace
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_hrt.cli import one_sentence
from fairseq_hrt.dag.generator import DagGenerator
from fairseq_hrt.export.da_transformer import convert
from fairseq_hrt.export.imported import checkpoint_of
from fairseq_hrt.loading.checkpoints import read_checkpoint
from fairseq_hrt.native.bundles.pretrained import from_pretrained
from fairseq_hrt.native.conversion import Wishes, import_model
from fairseq_hrt.native.options.values import DecodingOptions

WORDS = 9
BOS, PAD, EOS, UNK = range(4)
WIDTH, INNER, HEADS = 8, 12, 2
DAT, FIRST = "translation_dat_task", "translation_lev_modified"
OPTIONS = dict(
    arch="glat_decomposed_link_base", _name="glat_decomposed_link_base", source_lang="de",
    target_lang="en", encoder_embed_dim=WIDTH, decoder_embed_dim=WIDTH, encoder_layers=1,
    decoder_layers=2, encoder_ffn_embed_dim=INNER, decoder_ffn_embed_dim=INNER,
    encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, decoder_input_dim=WIDTH,
    decoder_output_dim=WIDTH, max_source_positions=30, max_target_positions=40, dropout=0.1,
    encoder_learned_pos=True, decoder_learned_pos=True, share_all_embeddings=True,
    share_decoder_input_output_embed=True, encoder_normalize_before=False,
    decoder_normalize_before=False, activation_fn="gelu", no_scale_embedding=False,
    links_feature="feature:position", max_transition_length=99999, decode_strategy="lookahead",
    decode_beta=0.7, decode_viterbibeta=1.3, adaptive_softmax_cutoff=None, adaptive_input=False,
    layernorm_embedding=False, no_token_positional_embeddings=False, pred_length_offset=False,
    encoder_layers_to_keep=None, src_embedding_copy=False, adam_betas=(0.9, 0.999),
)  # fmt: skip
SECOND = dict(
    task=DAT, upsample_base="source_old", upsample_scale="3", decode_upsample_scale=3.0,
    prepend_bos=False, seg_tokens=0, segment_embedding=False,
)  # fmt: skip
# By the seed of their weights, with which they write different words.
CASES = {
    (8, "DA-Transformer"): SECOND,
    (5, "its default size, sinusoids, layer norms before"): dict(
        SECOND, upsample_base="source", prepend_bos=True, encoder_learned_pos=False,
        decoder_learned_pos=False, links_feature="sinposition:feature", activation_fn="relu",
        share_all_embeddings=False, encoder_normalize_before=True, decoder_normalize_before=True,
        max_transition_length=4),
    (1, "predicted lengths, segments"): dict(
        SECOND, upsample_base="predict", upsample_scale="2~4", decode_upsample_scale=2.5,
        seg_tokens=3, segment_embedding=True, max_transition_length=3),
    (12, "predicted differences, a short reach"): dict(
        SECOND, upsample_base="predict", pred_length_offset=True, prepend_bos=True,
        links_feature="position", max_transition_length=7),
    (2, "segments over sinusoids"): dict(
        SECOND, segment_embedding=True, seg_tokens=2, decoder_learned_pos=False,
        max_target_positions=14, max_transition_length=3),
    (12, "FA-DAT"): dict(task=FIRST, src_upsample_scale=2.5, max_transition_length=-1),
    (12, "first release"): dict(
        task=FIRST, src_upsample_scale=2.0, links_feature="feature", share_all_embeddings=False,
        share_decoder_input_output_embed=False, no_scale_embedding=True, max_transition_length=2),
}  # fmt: skip


class Weights:
    """Random parameters by their names, float32."""

    def __init__(self, own, seed):
        self.own, self.random, self.found = own, np.random.default_rng(seed), OrderedDict()
        self.embeddings()
        for side in ("encoder", "decoder"):
            self.side(side)
        self.ends()

    def add(self, name, *shape, std=None, mean=0.0):
        std = shape[-1] ** -0.5 if std is None else std
        self.found[name] = torch.tensor(self.random.normal(mean, std, shape), dtype=torch.float32)

    def linear(self, name, outputs, inputs):
        self.add(f"{name}.weight", outputs, inputs, std=1.5 * inputs**-0.5)
        self.add(f"{name}.bias", outputs, std=0.2)

    def norm(self, name):
        self.add(f"{name}.weight", WIDTH, std=0.2, mean=1.0)
        self.add(f"{name}.bias", WIDTH, std=0.2)

    def embeddings(self):
        found, size = self.found, 4 + WORDS + self.own.get("seg_tokens", 0)
        source, target, output = (
            f"{name}.weight"
            for name in (
                "encoder.embed_tokens",
                "decoder.embed_tokens",
                "decoder.output_projection",
            )
        )
        self.add(source, size, WIDTH)
        self.add(target, size, WIDTH)
        self.add(output, size, WIDTH, std=0.8)
        if self.own["share_decoder_input_output_embed"]:
            found[output] = found[target]
        if self.own["share_all_embeddings"]:
            found[source] = found[target]

    def side(self, side):
        own = self.own
        self.found[f"{side}.version"] = torch.tensor([3.0])
        if own[f"{side}_learned_pos"]:
            rows = own[f"max_{'source' if side == 'encoder' else 'target'}_positions"] + 2
            self.add(f"{side}.embed_positions.weight", rows, WIDTH, std=0.7)
        else:
            self.found[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
        for layer in (f"{side}.layers.{number}" for number in range(own[f"{side}_layers"])):
            for attention in ("self_attn", "encoder_attn")[: 1 + (side == "decoder")]:
                for part in ("k", "v", "q", "out"):
                    self.linear(f"{layer}.{attention}.{part}_proj", WIDTH, WIDTH)
                self.found[f"{layer}.{attention}.v_proj.weight"] *= 3
                self.norm(f"{layer}.{attention}_layer_norm")
            self.linear(f"{layer}.fc1", INNER, WIDTH)
            self.linear(f"{layer}.fc2", WIDTH, INNER)
            self.norm(f"{layer}.final_layer_norm")
        if own[f"{side}_normalize_before"]:
            self.norm(f"{side}.layer_norm")

    def ends(self):
        """Segments, lengths of a few words, and links."""
        own = self.own
        if own.get("segment_embedding"):
            self.add("decoder.embed_seg.weight", own["seg_tokens"] + 1, WIDTH, std=0.7)
        self.add("decoder.embed_length.weight", 256, WIDTH, std=0.005)
        middle = 130 if own["pred_length_offset"] else 7
        self.found["decoder.embed_length.weight"][middle - 2 : middle + 4] *= 100
        features = own["links_feature"].split(":")
        if "position" in features:
            rows = own["max_target_positions"] + 2
            self.add("decoder.link_positional.weight", rows, WIDTH, std=0.7)
        prefix = "decoder.link_predictor." if features == ["feature"] else "decoder."
        for name, outputs in (("query", WIDTH), ("key", WIDTH), ("gate", HEADS)):
            self.linear(f"{prefix}{name}_linear", outputs, WIDTH * len(features))


def checkpoint(path, changes=SECOND, seed=1, edit=None, **more):
    """Writes a checkpoint; returns its options and parameters."""
    own = {**OPTIONS, **changes, **more}
    held = Weights(own, seed).found
    if edit is not None:
        edit(own, held)
    names = ("source_lang", "target_lang", "max_source_positions", "max_target_positions")
    state = {
        "args": None,
        "cfg": {
            "_name": None,
            "model": Namespace(**own),
            "task": {"_name": own["task"], **{name: own[name] for name in names}},
            "criterion": Namespace(_name="nat_dag_loss"),
            "optimization": {"lr": [0.0005], "max_update": 300000},
        },
        "model": held,
        "optimizer_history": [
            {"num_updates": 7, "optimizer_name": "FairseqAdam", "criterion_name": "x",
             "lr_scheduler_state": {}}],
        "extra_state": {},
        "last_optimizer_state": {},
    }  # fmt: skip
    torch.save(state, path)
    return own, held


class Oracle:
    """Their forward pass for one sentence, in float64."""

    def __init__(self, own, held):
        self.own = own
        self.held = {
            name.replace("link_predictor.", ""): value.double().numpy()
            for name, value in held.items()
        }

    def linear(self, name, x):
        return x @ self.held[f"{name}.weight"].T + self.held[f"{name}.bias"]

    def norm(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
        return x * self.held[f"{name}.weight"] + self.held[f"{name}.bias"]

    def heads(self, x):
        return x.reshape(len(x), HEADS, -1).swapaxes(0, 1)

    def attend(self, name, x, memory):
        q, k, v = (
            self.heads(self.linear(f"{name}.{part}_proj", source))
            for part, source in (("q", x), ("k", memory), ("v", memory))
        )
        weights = np.exp(log_softmax(q @ k.swapaxes(1, 2) / math.sqrt(WIDTH // HEADS)))
        mixed = (weights @ v).swapaxes(0, 1).reshape(len(x), WIDTH)
        return self.linear(f"{name}.out_proj", mixed)

    def feed(self, name, x):
        x = self.linear(f"{name}.fc1", x)
        if self.own["activation_fn"] == "relu":
            x = np.maximum(x, 0)
        else:
            x = x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
        return self.linear(f"{name}.fc2", x)

    def run(self, side, x, memory=None):
        before = self.own[f"{side}_normalize_before"]

        def block(name, x, function):
            if before:
                return x + function(self.norm(name, x))
            return self.norm(name, x + function(x))

        for number in range(self.own[f"{side}_layers"]):
            layer = f"{side}.layers.{number}"
            x = block(
                f"{layer}.self_attn_layer_norm",
                x,
                lambda y, layer=layer: self.attend(f"{layer}.self_attn", y, y),
            )
            if memory is not None:
                x = block(
                    f"{layer}.encoder_attn_layer_norm",
                    x,
                    lambda y, layer=layer: self.attend(f"{layer}.encoder_attn", y, memory),
                )
            x = block(f"{layer}.final_layer_norm", x, lambda y, layer=layer: self.feed(layer, y))
        return self.norm(f"{side}.layer_norm", x) if before else x

    def embed(self, side, tokens):
        scale = 1.0 if self.own["no_scale_embedding"] else math.sqrt(WIDTH)
        places = range(2, 2 + len(tokens))
        if self.own[f"{side}_learned_pos"]:
            positions = self.held[f"{side}.embed_positions.weight"][list(places)]
        else:
            positions = sinusoids(places)
        return scale * self.held[f"{side}.embed_tokens.weight"][tokens] + positions

    def graph(self, words):
        """(log P(y | v) ``[L, V]``, log P(v | u) ``[L, L]``) for source words without ``</s>``."""
        own, second = self.own, self.own["task"] == DAT
        reads = not second or own["prepend_bos"]
        source = [*([BOS] if reads else []), *words, EOS]
        memory = self.run("encoder", self.embed("encoder", source))
        if not second:
            size = max(int(len(source) * own["src_upsample_scale"]), 2)
        elif own["upsample_base"] == "source_old":
            size = max(int(len(source) * own["decode_upsample_scale"]), 2)
        elif own["upsample_base"] == "source":
            size = int(len(words) * own["decode_upsample_scale"]) + 1 + reads
        else:
            length = int((memory.mean(0) @ self.held["decoder.embed_length.weight"].T).argmax())
            if own["pred_length_offset"]:
                length += len(source) - 128
            size = int(max((length - 2) * own["decode_upsample_scale"], 0)) + 2
        size = min(size, own["max_target_positions"] - second)
        x = self.embed("decoder", [BOS, *[UNK] * (size - 2), EOS])
        if own.get("segment_embedding"):
            x = x + self.held["decoder.embed_seg.weight"][[1] * (size - 1) + [2]]
        features = self.run("decoder", x, memory)
        parts = []
        if "feature" in own["links_feature"]:
            parts.append(features)
        if "sinposition" in own["links_feature"]:
            parts.append(sinusoids(range(2, 2 + size)))
        elif "position" in own["links_feature"]:
            parts.append(self.held["decoder.link_positional.weight"][2 : 2 + size])
        described = np.concatenate(parts, 1)
        q, k = (
            self.heads(self.linear(f"decoder.{one}_linear", described)) for one in ("query", "key")
        )
        gates = log_softmax(self.linear("decoder.gate_linear", described)).T  # [H, L]
        ahead = np.arange(size) - np.arange(size)[:, None]
        reach = own["max_transition_length"]
        allowed = (ahead > 0) & (ahead <= (reach if reach > 0 else size))
        scores = np.where(allowed, q @ k.swapaxes(1, 2) / math.sqrt(WIDTH // HEADS), -np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.exp(log_softmax(scores)) * np.exp(gates)[:, :, None]
            links = np.log(np.where(allowed, each.sum(0), 0.0))
        return log_softmax(features @ self.held["decoder.output_projection.weight"].T), links

    def translate(self, words, strategy, beta):
        """The words that a strategy prints. Inner vertices write words or <unk>, the ends theirs."""
        scores, links = self.graph(words)
        size = len(links)
        inner = scores.copy()
        inner[:, :UNK] = -np.inf
        best, tokens = inner.max(1), inner.argmax(1)
        best[0], best[-1] = scores[0, BOS], scores[-1, EOS]
        if strategy == "joint-viterbi":
            path = best_path(best, links, beta, int(2 * size / self.scale))
        else:
            path = [0]
            while path[-1] != size - 1:
                path.append(int((links[path[-1]] + beta * best).argmax()))
        found, last = [], None
        for vertex in path[1:-1]:
            if tokens[vertex] != last:
                found.append(int(tokens[vertex]))
            last = tokens[vertex]
        return found

    @property
    def scale(self):
        return self.own.get("decode_upsample_scale") or self.own["src_upsample_scale"]


def log_softmax(x):
    x = x - np.max(x, -1, keepdims=True, initial=-1e30)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def sinusoids(places):
    half = WIDTH // 2
    rates = np.exp(np.arange(half) * -(math.log(10000) / (half - 1)))
    angles = np.array(list(places))[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], 1)


def best_path(best, links, beta, most):
    """The path with the highest score / number ** beta, over all numbers of inner vertices."""
    size = len(links)
    now, back, found = links[0] + best[0] + best, [], []
    now[-1] = -np.inf
    for number in range(1, most + 1):
        ends = now + links[:, -1]
        found.append((ends.max() / number**beta, number, int(ends.argmax())))
        steps = now[:, None] + links
        back.append(steps.argmax(0))
        now = steps.max(0) + best
        now[-1] = -np.inf
    _, number, vertex = max(found, key=lambda one: one[0])
    path = [size - 1, vertex]
    for choice in back[: number - 1][::-1]:
        path.append(int(choice[path[-1]]))
    return [*path, 0][::-1]


def write_dictionaries(folder, segments=0):
    words = [*(f"w{number}" for number in range(WORDS)), *(f"[P{n}]" for n in range(segments))]
    for language in ("de", "en"):
        (folder / f"dict.{language}.txt").write_text("".join(f"{word} 1\n" for word in words))


def loaded(path, folder):
    """The task and model of a converted checkpoint."""
    made = convert(read_checkpoint(path, for_decoding=False), path)
    state = checkpoint_of(
        made.model.architecture, made.model.options, made.model.parameters, ("de", "en"), folder,
        task="translation_dag")  # fmt: skip
    torch.save({**state, "extra_state": {}, "last_optimizer_state": None}, folder / "converted.pt")
    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(folder / "converted.pt")], arg_overrides={"data": str(folder)}
    )
    return task, models[0].double().eval()


def test_learned_positions_may_be_switched_off(tmp_path):
    """The options of an imported model are not checked for effect."""

    def without(own, held):
        for side in ("encoder", "decoder"):
            held.pop(f"{side}.embed_positions.weight", None)

    place = tmp_path / "checkpoint_best.pt"
    own, _ = checkpoint(place, edit=without, no_token_positional_embeddings=True)
    assert own["encoder_learned_pos"]
    write_dictionaries(tmp_path)
    _, model = loaded(place, tmp_path)
    assert model.encoder.embed_positions is None and model.decoder.embed_positions is None


STRATEGIES = (
    ("greedy", 0.0, {}),
    ("lookahead", 1.5, dict(dag_decode_beta=1.5, dag_repeats="collapsed")),
    ("joint-viterbi", 4.0, dict(dag_decode_length_beta=4.0, dag_repeats="collapsed")),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_translations_are_theirs(case, tmp_path):
    """By greedy, lookahead and joint-Viterbi search, of sources of 1 to 6 words."""
    path = tmp_path / "checkpoint_best.pt"
    own, held = checkpoint(path, CASES[case], seed=case[0])
    write_dictionaries(tmp_path, own.get("seg_tokens", 0))
    task, model = loaded(path, tmp_path)
    oracle, random = Oracle(own, held), np.random.default_rng(3)
    sources = [random.integers(4, 4 + WORDS, 1 + n % 6).tolist() for n in range(12)]
    rows = torch.tensor([[PAD] * (6 - len(row)) + [*row, EOS] for row in sources])
    sample = {
        "net_input": {
            "src_tokens": rows,
            "src_lengths": torch.tensor([len(row) + 1 for row in sources]),
        }
    }
    printed = set()
    for strategy, beta, options in STRATEGIES:
        chosen = DecodingOptions(
            dag_decode_strategy=strategy, dag_allow_unk=True, max_len_b=99,
            dag_decode_upsample_scale=oracle.scale, **options)  # fmt: skip
        found = DagGenerator([model], task.target_dictionary, chosen).generate([model], sample)
        for row, (best, source) in enumerate(zip(found, sources)):
            expected = oracle.translate(source, strategy, beta)
            assert best[0]["tokens"].tolist() == [*expected, EOS], (strategy, row)
            printed.add(tuple(expected))
    # Not the same few words everywhere.
    assert len(printed) >= 5
    assert task.cfg.dag_decode_beta == 0.7 and str(task.cfg.dag_repeats) == "collapsed"


def test_a_bundle_of_such_a_model(tmp_path, caplog):
    """Both engines, the dictionary's segment symbols, and decoding options; graphs end one vertex
    before the last position, as theirs."""
    source = tmp_path / "theirs"
    source.mkdir()
    (seed, _), case = list(CASES.items())[2]
    own, held = checkpoint(
        source / "checkpoint_best.pt", case, seed=seed, decode_strategy="jointviterbi",
        decode_no_repeated_ngram=2,
        edit=lambda _, held: held["decoder.output_projection.weight"][UNK].mul_(-3))  # fmt: skip
    write_dictionaries(source)
    wishes = Wishes(subwords="none", runtime="float32", tokenizer="space", lines=["w1 w2", "w3"])
    bundle = import_model(source, tmp_path / "bundle", wishes)
    assert "decode_no_repeated_ngram has no equivalent here and is ignored" in caplog.text
    assert bundle.task == "translation_dag" and (bundle.source_lang, bundle.target_lang) == (
        "de",
        "en",
    )
    assert bundle.options == {"max_len_b": "39", "unkpen": "0"}
    assert bundle.card["criterion"] == "nat_dag_loss" and bundle.card["updates"] == 7
    assert bundle.card["imported from"] == "DA-Transformer or FA-DAT: checkpoint_best.pt"
    words = (bundle.folder / "dict.en.txt").read_text().split("\n")
    assert [line.split()[0] for line in words[WORDS:-1]] == ["[P0]", "[P1]", "[P2]"]
    assert bundle.runtime_options == {
        "dag_decode_strategy": "joint-viterbi", "dag_repeats": "collapsed",
        "dag_allow_unk": "true", "dag_decode_length_beta": "1.3",
        "dag_decode_upsample_scale": "2.5",
    }  # fmt: skip
    # trace and graph decode as translate does, with the native engine's model and without.
    for same in (bundle, replace(bundle, runtime=None)):
        assert one_sentence._trained_options(same) == bundle.runtime_options
    oracle, symbols = Oracle(own, held), ["<s>", "<pad>", "</s>", "<unk>"]
    symbols += [f"w{n}" for n in range(WORDS)] + ["[P0]", "[P1]", "[P2]"]
    for engine in ("torch", "native"):
        translator = from_pretrained(bundle.folder, engine=engine, device="cpu")
        seen = set()
        for line in ("w1 w2 w3 w0", "w5 w4", "w2", "w0 w1 w1", "w3 w3 w5 w2 w4"):
            ids = [4 + int(word[1:]) for word in line.split()]
            expected = oracle.translate(ids, "joint-viterbi", 1.3)
            assert translator.translate(line) == " ".join(symbols[one] for one in expected)
            seen.update(expected)
            # A switch of the checkpoint can be switched off.
            known = translator.translate(line, dag_allow_unk=False)
            assert "<unk>" not in known.split()
        off = from_pretrained(bundle.folder, engine=engine, device="cpu", dag_allow_unk=False)
        assert off.translate("w1 w2 w3 w0") == translator.translate(
            "w1 w2 w3 w0", dag_allow_unk=False
        )
        # They print it, other bundles never do.
        assert UNK in seen


def test_graphs_end_where_theirs_do(tmp_path):
    """14 positions, of which their second release uses 13 and the first one all."""
    for number, changes in enumerate((SECOND, dict(task=FIRST, src_upsample_scale=3.0))):
        path = tmp_path / f"{number}.pt"
        checkpoint(path, changes, max_target_positions=14)
        made = convert(read_checkpoint(path, for_decoding=False), path)
        assert made.positions == made.model.options["max_target_positions"] == 13 + number
        assert len(made.model.parameters["decoder.embed_positions.weight"]) == 15 + number


def lightseq(own, held):
    """Packs the layers as LightSeq has them."""
    own["_name"] = "ls_glat_decomposed_link_base"

    def taken(prefix, *names):
        return [
            held.pop(f"{prefix}.{name}.{kind}").flatten()
            for name in names
            for kind in ("weight", "bias")
        ]

    for side in ("encoder", "decoder"):
        layers = [f"{side}.layers.{number}" for number in range(own[f"{side}_layers"])]
        flat = {}
        for layer in layers:
            q, k, v = (taken(layer, f"self_attn.{part}_proj") for part in "qkv")
            parts = [q[0], k[0], v[0], q[1], k[1], v[1]]
            parts += taken(layer, "self_attn.out_proj", "self_attn_layer_norm")
            if side == "decoder":
                parts += taken(layer, "encoder_attn.q_proj", "encoder_attn.out_proj")
                parts += taken(layer, "encoder_attn_layer_norm")
            flat[layer] = parts + taken(layer, "fc1", "fc2", "final_layer_norm")
        if side == "decoder":
            pairs = [taken(layer, f"encoder_attn.{part}_proj") for layer in layers for part in "kv"]
            flat[layers[0]] += [weight for weight, _ in pairs] + [bias for _, bias in pairs]
        held.update({f"{layer}.para": torch.cat(parts) for layer, parts in flat.items()})


def test_layers_of_lightseq(tmp_path):
    """Each is one vector; the first of the decoder also has what all read of the source."""
    found = []
    for edit in (None, lightseq):
        checkpoint(tmp_path / "checkpoint.pt", edit=edit)
        state = read_checkpoint(tmp_path / "checkpoint.pt", for_decoding=False)
        found.append(convert(state, tmp_path / "checkpoint.pt").model)
    assert found[0].options == found[1].options
    assert found[0].parameters.keys() == found[1].parameters.keys()
    for name, value in found[0].parameters.items():
        assert np.array_equal(value, found[1].parameters[name]), name


def without(name):
    return lambda own, held: held.pop(name)


def put(name, value):
    return lambda own, held: held.update({name: value})


REFUSED = {
    "translation_lev": (dict(task="translation_lev"), None),
    "'encoder.layers.0.para' has the shape '3'": (
        dict(_name="ls_glat_decomposed_link_base"),
        put("encoder.layers.0.para", torch.zeros(3))),
    "adaptive_input: True": (dict(adaptive_input=True), None),
    "layernorm_embedding: True": (dict(layernorm_embedding=True), None),
    "decoder_output_dim: 4": (dict(decoder_output_dim=4), None),
    "upsample_base: 'fixed'": (dict(upsample_base="fixed"), None),
    "the scale '9~2'": (dict(upsample_scale="9~2"), None),
    "no src_upsample_scale": (dict(task=FIRST, src_upsample_fixed=50), None),
    "links_feature: 'other'": (dict(links_feature="other"), None),
    "cannot be converted (AssertionError": (dict(encoder_attention_heads=3), None),
    "max_transition_length: 0": (dict(max_transition_length=0), None),
    "activation_fn: 'linear'": (dict(activation_fn="linear"), None),
    "segment_embedding and no_token": (
        dict(segment_embedding=True, seg_tokens=2, no_token_positional_embeddings=True,
             encoder_learned_pos=False, decoder_learned_pos=False), None),
    "has 1 rows": (
        dict(segment_embedding=True, seg_tokens=2),
        put("decoder.embed_seg.weight", torch.zeros(1, WIDTH))),
    "no 'decoder.query_linear.weight'": ({}, without("decoder.query_linear.weight")),
    "no 'encoder.layers.1.self_attn": ({}, lambda own, held: own.update(encoder_layers=500)),
    "the shape '8×9'": ({}, put("decoder.key_linear.weight", torch.zeros(8, 9))),
    "among them 'decoder.more.weight'": ({}, put("decoder.more.weight", torch.zeros(2))),
    "with and without link_predictor": ({}, put("decoder.link_predictor.key_linear.bias", torch.zeros(8))),
    "is not a tensor": ({}, put("decoder.more.weight", "text")),
    "max_target_positions: 1048576": (
        {}, lambda own, held: own.update(max_target_positions=1 << 20)),
    "decode_viterbibeta: inf": (
        dict(decode_strategy="jointviterbi", decode_viterbibeta=float("inf")), None),
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_refused(reason, tmp_path):
    """In one line, before a model is built."""
    changes, edit = REFUSED[reason]
    path = tmp_path / "checkpoint_best.pt"
    checkpoint(path, {**SECOND, **changes}, edit=edit)
    write_dictionaries(tmp_path)
    with pytest.raises(ValueError, match=re.escape(reason)) as refused:
        import_model(tmp_path, tmp_path / "bundle", Wishes(subwords="none"))
    assert "\n" not in str(refused.value) and str(path) in str(refused.value)


def test_other_commands_name_the_way(tmp_path):
    checkpoint(tmp_path / "checkpoint_best.pt")
    with pytest.raises(ValueError, match="fairseq-hrt import makes a bundle of such a model"):
        read_checkpoint(tmp_path / "checkpoint_best.pt")


class Hostile:
    def __reduce__(self):
        return print, ("run",)


def test_a_hostile_or_damaged_file(tmp_path, capfd):
    """Nothing in it is run, and no bundle is left."""
    write_dictionaries(tmp_path)
    path = tmp_path / "model.pt"
    checkpoint(path, more=Hostile())
    with pytest.raises(ValueError, match="none of the types that are known to be harmless"):
        import_model(path, tmp_path / "bundle", Wishes(subwords="none"))
    checkpoint(path)
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(ValueError, match="cut short, damaged"):
        import_model(path, tmp_path / "bundle", Wishes(subwords="none"))
    assert capfd.readouterr().out == "" and not (tmp_path / "bundle").exists()


def test_ensembles(tmp_path):
    """Of models of the same kind and dictionaries alone."""
    write_dictionaries(tmp_path)
    checkpoint(tmp_path / "model1.pt")
    checkpoint(tmp_path / "model2.pt", _name="transformer")
    with pytest.raises(
        ValueError, match="model1.pt is a model of DA-Transformer .* other checkpoints in"
    ):
        import_model(tmp_path, tmp_path / "bundle", Wishes(subwords="none"))
    checkpoint(tmp_path / "model2.pt", seg_tokens=2)
    with pytest.raises(ValueError, match="different seg_tokens"):
        import_model(tmp_path, tmp_path / "bundle", Wishes(subwords="none"))
    checkpoint(tmp_path / "model2.pt", seed=2)
    bundle = import_model(tmp_path, tmp_path / "bundle", Wishes(subwords="none"))
    assert len(bundle.models) == 2
    assert from_pretrained(bundle.folder, device="cpu").translate("w1 w2")
