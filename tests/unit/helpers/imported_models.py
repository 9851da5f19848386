"""Tiny models as other toolkits write them, with random weights and a SentencePiece model trained
here."""

import json
import shutil
import struct
from types import SimpleNamespace

import numpy as np
import pytest

WORDS = (
    "a man in red shirt runs through the park two dogs play with ball on green grass woman reads"
    " book near water".split()
)
WIDTH, INNER, HEADS = 16, 24, 2
CONFIG = {
    "type": "transformer",
    "dim-emb": WIDTH,
    "transformer-dim-ffn": INNER,
    "transformer-heads": HEADS,
    "enc-depth": 2,
    "dec-depth": 1,
    "transformer-ffn-activation": "relu",
    "transformer-postprocess": "dan",
    "transformer-preprocess": '""',
    "transformer-postprocess-emb": "d",
    "tied-embeddings-all": "true",
    "transformer-decoder-autoreg": "rnn",
    "dec-cell": "ssru",
}


@pytest.fixture(scope="session")
def sentencepiece_model(tmp_path_factory):
    return train_pieces(tmp_path_factory.mktemp("spm"))


def train_pieces(folder, words=WORDS, **options):
    """Trains a SentencePiece model of lines of ``words``; returns its path."""
    import sentencepiece

    generator = np.random.default_rng(0)
    lines = [" ".join(generator.choice(words, 6)) for _ in range(200)]
    (folder / "text").write_text("\n".join(lines))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"),
        model_prefix=str(folder / "m"),
        minloglevel=2,
        hard_vocab_limit=False,
        **{"vocab_size": 60, **options},
    )
    return folder / "m.model"


def pieces(path):
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(number) for number in range(model.get_piece_size())]


def yaml(config):
    return "".join(f"{name}: {value}\n" for name, value in config.items())


class MarianTensors:
    """Random tensors by Marian's names; large enough that no two words are nearly equally
    likely."""

    def __init__(self, rows, config, seed):
        self.generator, self.held = np.random.default_rng(seed), {}
        self.before = "_pre" if "n" in config["transformer-preprocess"] else ""
        tied = config["tied-embeddings-all"] == "true"
        for name in ["Wemb"] if tied else ["encoder_Wemb", "decoder_Wemb"]:
            self.held[name] = self.generator.normal(0, 0.6, (rows, WIDTH)).astype(np.float32)
        if not tied:
            self.matrix("decoder_ff_logit_out_W", WIDTH, rows)
        self.held["decoder_ff_logit_out_b"] = self.generator.normal(0, 0.5, (1, rows)).astype(
            np.float32
        )
        for side, depth in (("encoder", config["enc-depth"]), ("decoder", config["dec-depth"])):
            for number in range(1, depth + 1):
                recurrent = side == "decoder" and config["transformer-decoder-autoreg"] == "rnn"
                self.layer(f"{side}_l{number}", side == "decoder", recurrent)
            if self.before:
                self.norm(f"{side}_top", "")

    def matrix(self, name, *shape):
        self.held[name] = self.generator.normal(0, 1.2 / np.sqrt(shape[0]), shape).astype(
            np.float32
        )

    def norm(self, name, suffix):
        self.held[f"{name}_ln_scale{suffix}"] = self.generator.uniform(0.8, 1.2, (1, WIDTH)).astype(
            np.float32
        )
        self.held[f"{name}_ln_bias{suffix}"] = self.generator.normal(0, 0.1, (1, WIDTH)).astype(
            np.float32
        )

    def attention(self, name):
        for kind in "qkvo":
            self.matrix(f"{name}_W{kind}", WIDTH, WIDTH)
            self.matrix(f"{name}_b{kind}", 1, WIDTH)
        self.norm(f"{name}_Wo", self.before)

    def layer(self, name, decoder, recurrent):
        if recurrent:
            self.matrix(f"{name}_rnn_W", WIDTH, WIDTH)
            self.matrix(f"{name}_rnn_Wf", WIDTH, WIDTH)
            self.matrix(f"{name}_rnn_bf", 1, WIDTH)
            self.norm(f"{name}_rnn" if self.before else f"{name}_rnn_ffn", self.before)
        else:
            self.attention(f"{name}_self")
        if decoder:
            self.attention(f"{name}_context")
        for number, sizes in ((1, (WIDTH, INNER)), (2, (INNER, WIDTH))):
            self.matrix(f"{name}_ffn_W{number}", *sizes)
            self.matrix(f"{name}_ffn_b{number}", 1, sizes[1])
        self.norm(f"{name}_ffn_ffn", self.before)


def marian_tensors(rows, config, seed=0):
    return MarianTensors(rows, config, seed).held


def write_bin(path, tensors, config_text, int8=False):
    """Marian's own format; with ``int8`` every matrix but the biases is intgemm8."""
    items = []
    for name, value in tensors.items():
        if int8 and (name == "Wemb" or name.split("_")[-1].startswith("W")):
            multiplier = np.float32(127 / np.abs(value).max())
            stored = value if "Wemb" in name else value.T
            data = np.rint(stored * multiplier).astype(np.int8).tobytes() + multiplier.tobytes()
            items.append((name, 0x4101, value.shape, data + b"\0" * (-len(data) % 256)))
            items.append((f"{name}_QuantMultA", 0x0404, (1, 1), np.float32(3).tobytes()))
        else:
            items.append((name, 0x0404, value.shape, value.astype("<f4").tobytes()))
    if config_text:
        text = config_text.encode() + b"\0"
        items.append(("special:model.yml", 0x0101, (len(text),), text))
    head = struct.pack("<QQ", 1, len(items))
    head += b"".join(
        struct.pack("<QQQQ", len(name) + 1, kind, len(shape), len(data))
        for name, kind, shape, data in items
    )
    head += b"".join(name.encode() + b"\0" for name, *_ in items)
    head += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in items)
    padding = -(len(head) + 8) % 256
    path.write_bytes(
        head + struct.pack("<Q", padding) + b"\0" * padding + b"".join(data for *_, data in items)
    )
    return path


def write_npz(path, tensors, config_text):
    text = np.frombuffer(config_text.encode() + b"\0", np.int8)
    np.savez(path, **tensors, **{"special:model.yml": text})
    return path


def write_shortlist(path, candidates, frequent=4):
    ends = np.cumsum([0, *map(len, candidates)]).astype("<u8")
    flat = np.array([word for own in candidates for word in own], "<u4")
    head = struct.pack("<6Q", 0xF11A48D5013417F5, 0, frequent, 50, len(ends), len(flat))
    path.write_bytes(head + ends.tobytes() + flat.tobytes())
    return path


@pytest.fixture
def marian_folder(tmp_path, sentencepiece_model):
    """Makes a folder as Firefox has it; ``changes`` to the model's configuration."""

    def make(name="marian", *, kind="bin", int8=False, decoder="", seed=0, **changes):
        folder = tmp_path / name
        folder.mkdir()
        config = {**CONFIG, **{key.replace("_", "-"): value for key, value in changes.items()}}
        rows = len(pieces(sentencepiece_model))
        tensors = marian_tensors(rows, config, seed)
        shutil.copy(sentencepiece_model, folder / "vocab.ende.spm")
        if kind == "bin":
            write_bin(folder / "model.ende.bin", tensors, yaml(config), int8)
        else:
            write_npz(folder / "model.ende.npz", tensors, yaml(config))
        if decoder:
            (folder / "config.yml").write_text(decoder)
        (folder / "model_info.json").write_text('{"shortName": "en-de-tiny", "type": "tiny"}')
        return SimpleNamespace(path=folder, tensors=tensors, config=config, rows=rows)

    return make


def hugging_face_tensors(sizes, *, positions, norms, learned, shared, seed=0):
    """Random tensors by Hugging Face's names."""
    generator = np.random.default_rng(seed)
    found = {}

    def module(name, *shape):
        norm = name.endswith("norm") or name.endswith("embedding")
        found[f"model.{name}.weight"] = (
            generator.uniform(0.8, 1.2, shape)
            if norm
            else generator.normal(0, 1.2 / np.sqrt(shape[-1]), shape)
        )
        found[f"model.{name}.bias"] = generator.normal(0, 0.1, shape[:1])

    if shared:
        found["model.shared.weight"] = generator.normal(0, 0.2, (sizes[0], WIDTH))
    for side, size in zip(("encoder", "decoder"), sizes):
        if not shared:
            found[f"model.{side}.embed_tokens.weight"] = generator.normal(0, 0.6, (size, WIDTH))
        for attention in ("self_attn", "encoder_attn")[: 1 + (side == "decoder")]:
            for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                module(f"{side}.layers.0.{attention}.{name}", WIDTH, WIDTH)
            module(f"{side}.layers.0.{attention}_layer_norm", WIDTH)
        module(f"{side}.layers.0.fc1", INNER, WIDTH)
        module(f"{side}.layers.0.fc2", WIDTH, INNER)
        module(f"{side}.layers.0.final_layer_norm", WIDTH)
        if norms:
            module(f"{side}.layer_norm", WIDTH)
        if learned:
            module(f"{side}.layernorm_embedding", WIDTH)
            found[f"model.{side}.embed_positions.weight"] = generator.normal(
                0, 0.5, (positions + 2, WIDTH)
            )
    return {name: value.astype(np.float32) for name, value in found.items()}


LANGUAGE_TOKENS = {
    "mbart": ["en_XX", "de_DE", "fr_XX"], "m2m_100": ["__en__", "__de__", "__fr__"],
    "nllb": ["eng_Latn", "deu_Latn", "fra_Latn"]
}  # fmt: skip


@pytest.fixture
def hugging_face_folder(tmp_path, sentencepiece_model):
    """Makes a folder of Hugging Face's, ``nllb`` one of ``m2m_100`` with another tokenizer;
    ``start`` scales the vector that Marian's decoder starts from, ``changes`` are those to
    ``config.json``."""
    from safetensors.numpy import save_file

    def make(kind, name=None, *, multilingual=False, start=0.0, **changes):
        folder = tmp_path / (name or kind)
        folder.mkdir()
        own, positions = pieces(sentencepiece_model), 24
        config = {
            "model_type": "m2m_100" if kind == "nllb" else kind, "d_model": WIDTH,
            "max_position_embeddings": positions, "scale_embedding": True,
            "activation_function": "swish" if kind == "marian" else "relu", "max_length": 16,
            "num_beams": 2,
            **{f"{side}_{key}": value for side in ("encoder", "decoder")
               for key, value in (("layers", 1), ("ffn_dim", INNER), ("attention_heads", HEADS))},
        }  # fmt: skip
        if kind == "marian":
            words = [
                "</s>",
                "<unk>",
                *([">>deu<<", ">>fra<<"] if multilingual else []),
                *own[3:],
                "<pad>",
            ]
            (folder / "vocab.json").write_text(
                json.dumps({word: number for number, word in enumerate(words)})
            )
            for side in ("source.spm", "target.spm"):
                shutil.copy(sentencepiece_model, folder / side)
            config.update(
                eos_token_id=0, decoder_start_token_id=len(words) - 1, pad_token_id=len(words) - 1
            )
            tensors = hugging_face_tensors(
                (len(words),) * 2, positions=positions, norms=False, learned=False, shared=True
            )
            tensors["model.shared.weight"][-1] = start * np.random.default_rng(4).normal(
                0, 1, WIDTH
            )
            tensors["final_logits_bias"] = (
                np.random.default_rng(3).normal(0, 0.3, (1, len(words))).astype(np.float32)
            )
            (folder / "tokenizer_config.json").write_text(
                json.dumps({"source_lang": "en", "target_lang": "de"})
            )
        else:
            tokens = LANGUAGE_TOKENS[kind]
            # M2M-100 has its own order of the pieces.
            order = own[:2:-1] if kind == "m2m_100" else own[3:]
            words = ["<s>", "<pad>", "</s>", "<unk>", *order, *tokens, "<mask>"]
            if kind == "m2m_100":
                (folder / "vocab.json").write_text(
                    json.dumps({word: row for row, word in enumerate(words[: -len(tokens) - 1])})
                )
            shutil.copy(sentencepiece_model, folder / "sentencepiece.bpe.model")
            (folder / "special_tokens_map.json").write_text(
                json.dumps({"additional_special_tokens": tokens})
            )
            config.update(decoder_start_token_id=2, eos_token_id=2, pad_token_id=1, bos_token_id=0)
            learned = kind == "mbart"
            tensors = hugging_face_tensors(
                (len(words),) * 2, positions=positions, norms=True, learned=learned, shared=True
            )
        # Some translations end before the longest one.
        last = "layers.0.final_layer_norm" if kind == "marian" else "layer_norm"
        tensors[f"model.decoder.{last}.bias"] += (
            4 * tensors["model.shared.weight"][words.index("</s>")]
        )
        config.update(vocab_size=len(words), **changes)
        (folder / "config.json").write_text(json.dumps(config))
        save_file(tensors, str(folder / "model.safetensors"))
        return SimpleNamespace(path=folder, tensors=tensors, config=config, words=words)

    return make
