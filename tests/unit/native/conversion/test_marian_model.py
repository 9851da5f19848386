"""Marian's models translate as a naive oracle of Marian's formulas does."""

import numpy as np
import pytest
from imported_models import CONFIG, HEADS, marian_tensors

from fairseq_hrt.native.bundles.pretrained import from_pretrained
from fairseq_hrt.native.conversion import import_model
from fairseq_hrt.native.conversion.marian_model import convert_model, rows_of
from fairseq_hrt.native.conversion.plain_files import Settings
from fairseq_hrt.native.conversion.tensors import Tensors
from fairseq_hrt.native.conversion.vocabularies import make_vocabulary, specials_in


class Oracle:
    """Marian's transformer.h in NumPy, a word at a time and without caches but those of the
    recurrence."""

    def __init__(self, tensors, config):
        self.p, self.config = (
            {name: value.astype(np.float64) for name, value in tensors.items()},
            config,
        )
        self.before = "_pre" if "n" in config["transformer-preprocess"] else ""
        self.width = config["dim-emb"]

    def norm(self, x, name, suffix=""):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
        return x * self.p[f"{name}_ln_scale{suffix}"] + self.p[f"{name}_ln_bias{suffix}"]

    def sublayer(self, x, name, inner, pre=None):
        if self.before:
            return x + inner(self.norm(x, pre or name, "_pre"))
        return self.norm(x + inner(x), name)

    def positions(self, count):
        half = self.width // 2
        angles = np.arange(count)[:, None] * np.exp(-np.log(10000.0) / (half - 1) * np.arange(half))
        return np.concatenate([np.sin(angles), np.cos(angles)], 1)

    def attention(self, name, x, memory, mask):
        def heads(y, kind):
            y = y @ self.p[f"{name}_W{kind}"] + self.p[f"{name}_b{kind}"]
            return y.reshape(len(y), HEADS, -1).transpose(1, 0, 2)

        q, k, v = heads(x, "q"), heads(memory, "k"), heads(memory, "v")
        w = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]) + mask)
        y = (w / w.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(x), -1)
        return y @ self.p[f"{name}_Wo"] + self.p[f"{name}_bo"]

    def feed_forward(self, name, x):
        act = {"relu": lambda y: np.maximum(y, 0), "swish": lambda y: y / (1 + np.exp(-y))}
        y = act[self.config["transformer-ffn-activation"]](
            x @ self.p[f"{name}_W1"] + self.p[f"{name}_b1"]
        )
        return y @ self.p[f"{name}_W2"] + self.p[f"{name}_b2"]

    def cell(self, name, x):
        gate = 1 / (1 + np.exp(-(x @ self.p[f"{name}_Wf"] + self.p[f"{name}_bf"])))
        new, state, states = x @ self.p[f"{name}_W"], np.zeros(self.width), []
        for g, n in zip(gate, new):
            state = g * state + (1 - g) * n
            states.append(state)
        return np.maximum(np.array(states), 0)

    def stack(self, side, x, memory=None):
        mask = 0 if memory is None else np.triu(np.full((len(x), len(x)), -np.inf), 1)
        for number in range(1, self.config["enc-depth" if memory is None else "dec-depth"] + 1):
            layer = f"{side}_l{number}"
            if memory is not None and self.config["transformer-decoder-autoreg"] == "rnn":
                name = f"{layer}_rnn"
                x = self.sublayer(x, f"{name}_ffn", lambda y, name=name: self.cell(name, y), name)
            else:
                name = f"{layer}_self"
                x = self.sublayer(
                    x, f"{name}_Wo", lambda y, name=name: self.attention(name, y, y, mask)
                )
            if memory is not None:
                name = f"{layer}_context"
                x = self.sublayer(
                    x, f"{name}_Wo", lambda y, name=name: self.attention(name, y, memory, 0)
                )
            name = f"{layer}_ffn"
            x = self.sublayer(x, f"{name}_ffn", lambda y, name=name: self.feed_forward(name, y))
        return self.norm(x, f"{side}_top") if self.before else x

    def translate(self, source, longest, end=2, unknown=0):
        tied = self.config["tied-embeddings-all"] == "true"
        tables = [self.p["Wemb"]] * 2 if tied else [self.p["encoder_Wemb"], self.p["decoder_Wemb"]]
        scale, found, scores = np.sqrt(self.width), [], []
        memory = self.stack("encoder", tables[0][source] * scale + self.positions(len(source)))
        while len(found) <= longest:
            words = np.concatenate(
                [np.zeros((1, self.width)), tables[1][found] * scale]
            ) + self.positions(len(found) + 1)
            x = self.stack("decoder", words, memory)[-1]
            logits = (
                x @ (tables[1].T if tied else self.p["decoder_ff_logit_out_W"])
                + self.p["decoder_ff_logit_out_b"][0]
            )
            logs = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
            allowed = logs.copy()
            allowed[unknown] = -np.inf
            found.append(int(allowed.argmax()) if len(found) < longest else end)
            scores.append(logs[found[-1]])
            if found[-1] == end:
                return found, float(np.mean(scores))
        raise AssertionError("the last word is the end")


VARIANTS = [
    {},
    {
        "kind": "npz",
        "transformer_decoder_autoreg": "self-attention",
        "transformer_ffn_activation": "swish",
    },
    {
        "transformer_preprocess": "n",
        "transformer_postprocess": "da",
        "transformer_postprocess_top": "n",
    },
    {"tied_embeddings_all": "false", "transformer_decoder_autoreg": "self-attention"},
]


@pytest.mark.parametrize("number", range(len(VARIANTS)))
def test_translations_are_those_of_marians_formulas(marian_folder, tmp_path, number):
    made = marian_folder(**VARIANTS[number])
    import_model(made.path, tmp_path / "bundle")
    model = from_pretrained(
        tmp_path / "bundle", device="cpu", engine="torch", max_len_a=0, max_len_b=8
    )
    oracle = Oracle(made.tensors, made.config)
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(made.path / "vocab.ende.spm"))
    lines = ["a man in red", "two dogs play with ball on green grass", "water", "woman reads zz"]
    for line, found in zip(lines, model.translate(lines, details=True)):
        expected, score = oracle.translate([*pieces.encode(line), 2], 8)
        assert found.tokens == [pieces.id_to_piece(word) for word in expected]
        assert found.score == pytest.approx(score, abs=2e-4)


@pytest.mark.parametrize(
    "change, message",
    [
        (
            {"type": "s2s"},
            "has type: 's2s', which cannot be imported; models with 'transformer' can",
        ),
        ({"dec-cell": "gru"}, "dec-cell: 'gru'"),
        ({"transformer-decoder-autoreg": "average-attention"}, "'average-attention'"),
        ({"transformer-ffn-activation": "prelu"}, "'prelu'"),
        (
            {"transformer-train-position-embeddings": "true"},
            "transformer-train-position-embeddings: 'true'",
        ),
        ({"transformer-postprocess": "dahn"}, "postprocess 'ahn'"),
        ({"transformer-preprocess": "n", "transformer-postprocess": "da"}, "postprocess-top ''"),
        ({"transformer-tied-layers": ["1", "1"]}, "transformer-tied-layers"),
        ({"lemma-dim-emb": "4"}, "lemma-dim-emb: '4'"),
        ({"transformer-heads": "3"}, "must be a multiple of twice"),
        ({"dim-emb": str(1 << 40)}, "must be an integer from 1 to"),
        (
            {"dim-emb": "32"},
            "'Wemb' has the shape '6×16', but the model's configuration gives '6×32'",
        ),
        ({"enc-depth": "3"}, "has no 'encoder_l3_self_Wq'"),
        ({"enc-depth": "1"}, "tensors that cannot be imported, among them 'encoder_l2"),
        ({"transformer-dim-ffn": None}, "transformer-dim-ffn: None"),
    ],
)
def test_what_cannot_be_represented_is_named(change, message):
    config = {name: str(value).strip('"') for name, value in CONFIG.items()}
    tensors = Tensors(marian_tensors(6, CONFIG), "m.bin")
    config.update(change)
    settings = Settings(config, "m.bin")
    rows = ["</s>", "<unk>", "a", "b", "c", "d"]
    words = make_vocabulary(rows, specials_in(rows), "v")
    assert rows_of(tensors, settings) == (6, 6)
    with pytest.raises(ValueError, match="m.bin") as caught:
        convert_model(tensors, settings, words, words)
    assert message in str(caught.value)
