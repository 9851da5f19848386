"""Decodes model files in every way and tries damaged ones, with NumPy and the standard library
alone: also under sanitizers.

python runtime_driver.py PACKAGE_FOLDER MUTATIONS SEED LIBRARY THREADS,... MODEL...
"""

import ctypes
import dataclasses
import random
import sys
import types
from pathlib import Path


def without_torch(package):
    """Makes ``fairseq_hrt.native.runtime`` importable without the package's own start, which needs
    PyTorch."""
    module = types.ModuleType("fairseq_hrt")
    module.__path__ = [package]
    sys.modules["fairseq_hrt"] = module


WAYS = {
    "autoregressive": [
        dict(beam=1),
        dict(beam=1, scores=False),
        dict(beam=4, nbest=4, alignments=True),
        dict(beam=1, jacobi_mode="frontier"),
        dict(beam=1, jacobi_mode="frontier", jacobi_window=90),
        dict(
            beam=1, jacobi_mode="frontier", jacobi_window=5, jacobi_draft="source", alignments=True
        ),
    ],
    "hrt": [
        dict(beam=1, hrt_decode_chunk="auto", alignments=True),
        dict(beam=3, nbest=2),
        dict(beam=1, hrt_decode_chunk="1", hrt_draft_chunk=2),
    ],
    "bidirectional": [dict(beam=1), dict(beam=4, nbest=3, bidirectional_deduplicate=True)],
    "dag": [
        *(
            dict(beam=1, dag_decode_strategy=name)
            for name in ("greedy", "lookahead", "viterbi", "joint-viterbi")
        ),
        dict(beam=1, dag_decode_strategy="greedy", graphs=True),
    ],
    "ctc": [dict(beam=1), dict(beam=1, scores=False), dict(beam=4, nbest=3)],
}


def decode_all(engine, generator, *, damaged=True):
    """Random tokens through every way of the family; what is refused of a damaged model is passed
    over."""
    from fairseq_hrt.native.runtime.engine import DecodingOptions, NumericalError

    header = engine.header
    allowed = [token for token in range(header.source_vocabulary) if token != header.pad]
    if not damaged:
        refuse_what_is_no_translation(engine, allowed[:1])
    rows = [
        generator.choices(allowed, k=generator.randint(1, header.longest_source)) for _ in range(6)
    ]
    for way in WAYS[header.family]:
        limit = generator.choice((0, 1, 7, 10**6))
        options = DecodingOptions(
            max_len_b=limit,
            min_len=generator.randint(0, min(limit, 1)),
            batch_size=generator.randint(1, 6),
            **way,
        )
        try:
            found = engine.decode(rows, options)
            begin_with(engine, generator, rows, options)
            # All threads on one sentence, where the model is large enough.
            found += engine.decode(rows[:1], options)
        except NumericalError:
            continue
        except ValueError:
            # Of a whole model every way is one.
            assert damaged
            continue
        judge(engine, rows, found[: len(rows)], damaged=damaged)
        for best in found:
            for result in best:
                assert result.tokens[-1] == header.eos and all(
                    0 <= token < header.target_vocabulary for token in result.tokens
                )


def begin_with(engine, generator, rows, options):
    """Random first words, padding among them; models that do not write from left to right refuse
    them."""
    from fairseq_hrt.native.runtime.engine import NumericalError, UnsupportedOption

    header, limit = engine.header, options.max_len_b
    given = [
        generator.choices(range(header.target_vocabulary), k=generator.choice((0, 1, 3, 40)))
        for _ in rows
    ]
    try:
        found = engine.decode(rows, options, first_words=given)
    except (NumericalError, UnsupportedOption):
        return
    for words, best in zip(given, found):
        for result in best:
            assert all(
                own in (word, header.pad) for own, word in zip(words[:limit], result.tokens[:-1])
            ), (words, result)


def choose_among_few(engine, generator):
    """With a shortlist: each sentence alone, and many that share an output layer."""
    import numpy as np

    from fairseq_hrt.native.runtime.engine import DecodingOptions, Shortlist

    header = engine.header
    allowed = [token for token in range(header.source_vocabulary) if token != header.pad]
    rows = [
        generator.choices(allowed, k=generator.randint(1, header.longest_source)) for _ in range(12)
    ]
    words = generator.choices(range(header.target_vocabulary), k=2 * header.source_vocabulary)
    engine.set_shortlist(
        Shortlist(
            np.arange(header.source_vocabulary + 1) * 2,
            np.array(words, np.int32),
            np.array(words[:5], np.int32),
        )
    )
    for way in WAYS[header.family]:
        options = DecodingOptions(max_len_b=7, batch_size=12, **way)
        found = engine.decode(rows, options)
        alone = [engine.decode([row], options)[0] for row in rows]
        assert [[one.tokens for one in best] for best in found] == [
            [one.tokens for one in best] for best in alone
        ]
    engine.set_shortlist(None)


def end_early(engine, generator):
    """Calls that end where the kernel asks for the first time, in the middle of their work."""
    from fairseq_hrt.native.runtime.engine import Cancelled, DecodingOptions, NumericalError

    header, ended = engine.header, 0
    allowed = [token for token in range(header.source_vocabulary) if token != header.pad]
    # Each takes as long as the kernel works before it asks.
    for way in WAYS[header.family][::2]:
        options = DecodingOptions(max_len_b=10**6, **way)
        few = [generator.choices(allowed, k=header.longest_source) for _ in range(2)]
        many = [row for row in few for _ in range(800)]
        try:
            before = engine.decode(few, options)
            engine.decode(many, options, cancelled=lambda: True)
        except NumericalError:
            continue
        except Cancelled:
            ended += 1
        after = engine.decode(few, options)
        assert [[one.tokens for one in best] for best in after] == [
            [one.tokens for one in best] for best in before
        ]
    assert ended


def judge(engine, rows, found, *, damaged):
    """Scores what was written; models that write several words at once refuse everything."""
    from fairseq_hrt.native.runtime.engine import NumericalError, UnsupportedOption

    targets = [[result.tokens for result in best] for best in found]
    try:
        scored = engine.score(rows, targets)
    except UnsupportedOption:
        assert engine.header.family not in ("autoregressive", "hrt")
        return
    except NumericalError:
        return
    except ValueError as error:
        # Where the header calls another word the padding.
        assert damaged and "which is padding" in str(error)
        return
    assert [[result.tokens for result in best] for best in scored] == targets


def refuse_what_is_no_translation(engine, row):
    header = engine.header
    for target in (
        [header.target_vocabulary, header.eos],
        [header.pad, header.eos],
        [],
        [header.eos] * (1 << 15),
    ):
        try:
            engine.score([row], [[target]])
        except ValueError:
            continue
        raise AssertionError(f"{target} was taken for a translation")


def damaged(content, generator):
    """The bytes of a file with some damage: in the header's text, its numbers, the tensors, or the
    length."""
    data = bytearray(content)
    length = int.from_bytes(data[:8], "little")
    kind = generator.randrange(5)
    if kind == 0:
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(8, 8 + length)] = generator.randrange(256)
    elif kind == 1:
        digits = [place for place in range(8, 8 + length) if chr(data[place]).isdigit()]
        for _ in range(generator.randint(1, 3)):
            data[generator.choice(digits)] = ord(generator.choice("0123456789-.e"))
    elif kind == 2:
        for _ in range(generator.randint(1, 200)):
            data[generator.randrange(8 + length, len(data))] = generator.choice(
                (0, 0x7F, 0x80, 0xFF, generator.randrange(256))
            )
    elif kind == 3:
        del data[generator.randrange(len(data)) :]
    else:
        data[generator.randrange(8)] = generator.randrange(256)
    return bytes(data)


def try_damaged(path, folder, count, generator):
    """Damaged files are refused with the reason, or are models and decode; returns how many were
    refused."""
    from fairseq_hrt.native.runtime.engine import Engine, ModelFileError

    content, refused = Path(path).read_bytes(), 0
    for number in range(count):
        file = Path(folder) / f"damaged{number % 4}"
        file.write_bytes(damaged(content, generator))
        try:
            engine = Engine.open(file)
        except ModelFileError as error:
            assert str(file) in str(error) and "\n" not in str(error)
            refused += 1
            continue
        with engine:
            decode_all(engine, generator)
    return refused


def try_wrong_sizes(path, generator, count):
    """The kernel refuses sizes that Python did not check."""
    from fairseq_hrt.native.runtime.engine import Engine, read_model

    header, tensors = read_model(path)
    names = [
        item.name
        for item in dataclasses.fields(header)
        if isinstance(getattr(header, item.name), (int, bool)) and item.name != "count_bos"
    ]
    for _ in range(count):
        own, changed = dict(tensors), header
        if generator.random() < 0.7:
            name = generator.choice(names)
            value = getattr(header, name)
            changed = dataclasses.replace(
                header,
                **{
                    name: generator.choice(
                        (value + 1, value - 1, -1, 0, 2 * value, 2**31 - 1, -(2**31))
                    )
                },
            )
        else:
            name = generator.choice(sorted(own))
            own[name] = (
                own[name][generator.randint(0, 1) :]
                if generator.random() < 0.7
                else own.pop(name).astype("float32")
            )
        try:
            engine = Engine(changed, own)
        except (ValueError, MemoryError):
            continue
        with engine:
            decode_all(engine, generator)


def main():
    package, mutations, seed, library, teams, *models = sys.argv[1:]
    without_torch(package)
    from fairseq_hrt.native.runtime import binding

    binding.load_library = lambda: ctypes.CDLL(library)
    from fairseq_hrt.native.runtime.engine import Engine

    generator = random.Random(int(seed))
    threads = [int(number) for number in teams.split(",")]
    for path in models:
        for number in threads:
            with Engine.open(path, threads=number) as engine:
                decode_all(engine, generator, damaged=False)
                if number == threads[-1]:
                    choose_among_few(engine, generator)
                    end_early(engine, generator)
        try_damaged(path, Path(path).parent, int(mutations), generator)
        try_wrong_sizes(path, generator, int(mutations))
    assert not {"torch", "fairseq"} & set(sys.modules)
    print("done")


if __name__ == "__main__":
    main()
