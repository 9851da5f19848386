"""Hyper-parameters of a model file: written and read as they are, refused by the name of the
field."""

import dataclasses
import json

import pytest

from fairseq_hrt.native.runtime.engine import ModelFileError, read_model
from fairseq_hrt.native.runtime.header import Header

PLAIN = Header(
    family="autoregressive", weights="float32", source_vocabulary=20, target_vocabulary=18, bos=0,
    pad=1, eos=2, unk=3, encoder_width=8, decoder_width=12, encoder_layers=2, decoder_layers=1,
    encoder_heads=2, decoder_heads=3, encoder_inner=16, decoder_inner=24, encoder_pre_norm=False,
    decoder_pre_norm=True, encoder_final_norm=False, decoder_final_norm=True,
    encoder_embedding_norm=False, decoder_embedding_norm=False, activation="relu",
    encoder_scale=2.5, decoder_scale=1.0, encoder_positions=30, decoder_positions=41,
    longest_source=30, longest_target=40, shared_embedding=False, tied_output=True,
    output_bias=False,
)  # fmt: skip
CHUNKS = dataclasses.replace(
    PLAIN, family="hrt", chunk_sizes=(2, 5), special_symbols=3, relative_window=4
)
SLOTS = dataclasses.replace(
    PLAIN, family="bidirectional", directions=2, block=4, middle_to_side=True
)
RECURRENT = dataclasses.replace(PLAIN, cell="ssru", zero_start=True, activation="swish")
GRAPH = dataclasses.replace(
    PLAIN, family="dag", link_heads=3, link_rows=1, scale=4.0, length_classes=9
)
BLANKS = dataclasses.replace(
    PLAIN, family="ctc", upsample=2.5, position_inputs="soft-copy", copy_temperature=0.3,
    target_vocabulary=20,
)  # fmt: skip


@pytest.mark.parametrize("change, message", [
    (lambda values: values.pop("eos"), "'eos'"),
    (lambda values: values.update(colour=1), "'colour'"),
    (lambda values: values.update(format=2), "format is 2"),
    (lambda values: values.update(pad=2.0), "'pad'"),
    (lambda values: values.update(pad=True), "'pad'"),
    (lambda values: values.update(pad=2), "pad=2, eos=2"),
    (lambda values: values.update(decoder_heads=3), "decoder_heads=3"),
    (lambda values: values.update(family="x"), "family"),
    (lambda values: values.update(decoder_scale=float("nan")), "decoder_scale"),
    (lambda values: values.update(chunk_sizes=[2]), "chunk_sizes"),
    (lambda values: values.update(encoder_layers=10**9), "encoder_layers"),
    (lambda values: values.update(decoder_scale=10**400), "decoder_scale"),
    (lambda values: values.update(target_vocabulary=10**9), "target_vocabulary"),
    (lambda values: values.update(decoder_layers=3), "self.input is missing"),
    (lambda values: values.update(unk=10**6), "unk"),
])  # fmt: skip
def test_wrong_headers(files, tmp_path, change, message):
    from safetensors.numpy import save_file

    header, tensors = read_model(files[0])
    values = json.loads(header.to_json())
    change(values)
    path = tmp_path / "model"
    save_file(tensors, str(path), metadata={"fairseq_hrt.native.runtime": json.dumps(values)})
    with pytest.raises(ModelFileError, match=message) as caught:
        read_model(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "header",
    [PLAIN, RECURRENT, CHUNKS, SLOTS, GRAPH, BLANKS],
    ids=lambda header: f"{header.family} {header.cell}",
)
def test_what_is_written_is_read(header):
    again = Header.from_json(header.to_json())
    assert again == header and again.chunk_sizes == header.chunk_sizes
    assert {name: type(value) for name, value in vars(again).items()} == {
        name: type(value) for name, value in vars(header).items()
    }


@pytest.mark.parametrize("header, changes, message", [
    (PLAIN, dict(weights="int4"), "weights='int4'"),
    (PLAIN, dict(activation="elu"), "activation='elu'"), (PLAIN, dict(unk=18), "unk=18"),
    (PLAIN, dict(encoder_heads=3), "encoder_width=8, encoder_heads=3"),
    (PLAIN, dict(encoder_positions=29), "encoder_positions=29, longest_source=30"),
    (PLAIN, dict(decoder_positions=39), "decoder_positions=39"),
    (PLAIN, dict(epsilon=0.0), "epsilon=0.0"), (PLAIN, dict(longest_target=0), "longest_target=0"),
    (PLAIN, dict(shared_embedding=True), "source_vocabulary=20, target_vocabulary=18"),
    (PLAIN, dict(decoder_layers=0), "decoder_layers=0"),
    (PLAIN, dict(encoder_scale=float("inf")), "encoder_scale=inf"),
    (PLAIN, dict(special_symbols=1), "special_symbols=1"),
    (PLAIN, dict(directions=2), "directions=2"), (PLAIN, dict(link_heads=1), "link_heads=1"),
    (PLAIN, dict(relative_window=1), "relative_window=1"),
    (CHUNKS, dict(chunk_sizes=(2, 2)), "chunk_sizes"),
    (CHUNKS, dict(chunk_sizes=(1, 2)), "chunk_sizes"),
    (CHUNKS, dict(special_symbols=2), "special_symbols=2"),
    (SLOTS, dict(directions=3, middle_to_side=False), "directions=3"),
    (SLOTS, dict(block=3), "block=3"), (SLOTS, dict(directions=4), "middle_to_side"),
    (GRAPH, dict(link_heads=5), "link_heads=5"), (GRAPH, dict(link_rows=7), "link_rows=7"),
    (GRAPH, dict(scale=0.0), "scale=0.0"),
    (PLAIN, dict(encoder_inner=65537), "encoder_inner=65537"),
    (PLAIN, dict(decoder_width=65544), "decoder_width=65544"),
    (GRAPH, dict(longest_target=1, decoder_positions=1), "longest_target=1"),
    (GRAPH, dict(length_classes=1), "length_classes=1"), (GRAPH, dict(block=2), "block=2"),
    (PLAIN, dict(cell="lstm"), "cell='lstm'"), (PLAIN, dict(input_bits=12), "input_bits=12"),
    (CHUNKS, dict(cell="ssru"), "family='hrt', cell='ssru'"),
    (GRAPH, dict(cell="ssru"), "family='dag', cell='ssru'"),
    (SLOTS, dict(zero_start=True), "family='bidirectional', zero_start=True"),
    (BLANKS, dict(upsample=0.0), "upsample=0.0"),
    (BLANKS, dict(upsample=float("nan")), "upsample=nan"),
    (BLANKS, dict(position_inputs="hard"), "position_inputs='hard'"),
    (BLANKS, dict(target_vocabulary=18), "source_vocabulary=20, target_vocabulary=18"),
    (BLANKS, dict(copy_temperature=0.0), "position_inputs='soft-copy', copy_temperature=0.0"),
    (BLANKS, dict(position_inputs="copy"), "position_inputs='copy', copy_temperature=0.3"),
    (GRAPH, dict(upsample=2.0), "family='dag', upsample=2.0"),
])  # fmt: skip
def test_values_that_no_model_has(header, changes, message):
    header.check()
    with pytest.raises(ModelFileError, match=f"its header holds .*{message}.*, which no model has"):
        dataclasses.replace(header, **changes).check()


def test_files_of_earlier_releases_are_read():
    """They lack the later fields; and what does not use these is written for earlier releases,
    too."""
    later = {"cell", "zero_start", "input_bits", "upsample", "position_inputs", "copy_temperature"}
    assert not later & set(json.loads(PLAIN.to_json()))
    values = json.loads(RECURRENT.to_json())
    assert (values.pop("cell"), values.pop("zero_start")) == ("ssru", True)
    assert Header.from_json(json.dumps(values)) == dataclasses.replace(
        RECURRENT, cell="attention", zero_start=False
    )
    for name, value in (("cell", 1), ("zero_start", "yes")):
        with pytest.raises(ModelFileError, match=f"the field '{name}' of the header holds"):
            Header.from_json(json.dumps({**values, name: value}))


@pytest.mark.parametrize("text, message", [
    ("{", "not JSON"), ("[" * 100_000, "not JSON"), ("[1]", "not a JSON object"),
    ("{}", "format is None"), ('{"format": true}', "format is True"),
])  # fmt: skip
def test_what_is_no_header(text, message):
    with pytest.raises(ModelFileError, match=message):
        Header.from_json(text)


@pytest.mark.parametrize("name, value", [
    ("tied_output", 1), ("eos", True), ("eos", 2.0), ("epsilon", "1e-5"), ("epsilon", False),
    ("family", 3), ("chunk_sizes", [2.0]), ("chunk_sizes", 2),
])  # fmt: skip
def test_every_field_has_its_type(name, value):
    values = {**json.loads(PLAIN.to_json()), name: value}
    with pytest.raises(ModelFileError, match=f"the field '{name}' of the header holds"):
        Header.from_json(json.dumps(values))
    # An integer is a number as well.
    assert (
        Header.from_json(
            json.dumps({**json.loads(PLAIN.to_json()), "decoder_scale": 3})
        ).decoder_scale
        == 3.0
    )
