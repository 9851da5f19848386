"""The Jacobi family through the real command line: the tokens of greedy decoding, from any
checkpoint and with any draft."""

import re

import pytest
from command_line import OPTIMIZER, SIZES, hypotheses, lines, refused

pytestmark = pytest.mark.slow

TASK = "--user-dir fairseq_hrt --task translation_jacobi --beam 1".split()
DECODE = [*TASK, *"--cpu --max-len-b 20".split()]


def texts(output):
    return {number: found[0].split("\t")[1] for number, found in lines(output.stdout, "H").items()}


@pytest.fixture(scope="module")
def expected(command, toy_data, teacher):
    """What stock fairseq writes."""
    arguments = "--task translation --cpu --beam 1 --max-len-b 20 --batch-size 7".split()
    return texts(command("fairseq-generate", toy_data, *arguments, "--path", teacher))


@pytest.mark.parametrize(
    "options, native",
    [
        ("", True),
        ("--jacobi-window 4 --batch-size 1", False),
        ("--jacobi-mode hgj --jacobi-prefix-length 6", False),
        ("--jacobi-draft ngram --jacobi-window 5 --print-step --retain-iter-history", False),
    ],
)
def test_the_tokens_of_stock_greedy_decoding(command, toy_data, teacher, expected, options, native):
    """With either engine; PyTorch's reports what it took. All modes are compared where no command
    is started."""
    decode = [
        "fairseq-generate",
        toy_data,
        *DECODE,
        "--path",
        teacher,
        "--batch-size",
        "7",
        *options.split(),
    ]
    output = command(*decode, *([] if native else ["--engine", "torch"]))
    said = output.stdout + output.stderr
    assert texts(output) == expected and native == ("with the native engine" in said)
    if native:
        return
    report = re.search(r"jacobi \w+: 20 sentences, (\d+) tokens in (\d+) passes", said)
    assert report and int(report[2]) <= int(report[1])
    for field in ("tokens read", "GFLOP", "tokens verified by a pass"):
        assert field in said


@pytest.fixture(params=["hrt", "bidirectional", "dag"])
def draft(request, student_of):
    """A student of each family; (family, checkpoint)."""
    return request.param, student_of(request.param)


# A student's own options, and some that are refused.
DRAFT_OPTIONS = {
    "hrt": ("{'hrt_decode_chunk': '1'}", "{", "is not a Python dictionary"),
    "dag": (
        "{'dag_decode_strategy': 'greedy'}",
        "{'no_such': 1}",
        "has no decoding option no_such",
    ),
}


def test_drafts_of_another_model(command, toy_data, teacher, expected, draft):
    """With options of that model, too."""
    family, path = draft
    arguments = [
        *DECODE,
        "--path",
        teacher,
        "--jacobi-draft",
        family,
        "--jacobi-draft-path",
        path,
        "--jacobi-window",
        "6",
    ]
    chosen, wrong, message = DRAFT_OPTIONS.get(family, (None, None, None))
    more = ["--jacobi-draft-options", chosen] if chosen else []
    output = command("fairseq-generate", toy_data, *arguments, *more, "--batch-size", "7")
    assert texts(output) == expected and "for drafts" in output.stdout + output.stderr
    if wrong:
        options = [*arguments, "--jacobi-draft-options", wrong]
        assert message in refused("fairseq-generate", toy_data, *options)
        return
    arguments[arguments.index("--jacobi-draft") + 1] = "hrt"
    message = refused("fairseq-generate", toy_data, *arguments)
    assert "--jacobi-draft hrt" in message and f"translation_{family}" in message


def test_checkpoints_of_other_families(command, toy_data, draft):
    """HRT's C_d=1 is autoregressive; what writes in another order is refused by name."""
    family, path = draft
    arguments = [*DECODE, "--path", path, "--jacobi-window", "3"]
    if family != "hrt":
        message = refused("fairseq-generate", toy_data, *arguments)
        assert f"decode it with --task translation_{family}" in message
        return
    own = (
        "--user-dir fairseq_hrt --task translation_hrt --hrt-decode-chunk 1 --cpu --beam 1"
        " --max-len-b 20".split()
    )
    expected = texts(command("fairseq-generate", toy_data, *own, "--path", path))
    assert texts(command("fairseq-generate", toy_data, *arguments)) == expected


def test_interactive_keeps_every_line(command, toy_data, teacher):
    text = "a b c\n\n" + "d " * 500 + "\nä ö 你好 \u200b x\na\n"
    output = command(
        "fairseq-interactive", toy_data, *DECODE, "--path", teacher, "--buffer-size", "3",
        "--batch-size", "2", stdin=text,
    )  # fmt: skip
    assert sorted(lines(output.stdout, "H")) == list(range(5))
    assert "Traceback" not in output.stderr


# Whatever else is refused is so where no command is started.
@pytest.mark.parametrize(
    "options, message",
    [
        ("--sampling", "--sampling: not supported"),
        (
            "--jacobi-draft-path x.pt",
            (
                "--jacobi-draft-path x.pt has an effect only with --jacobi-draft hrt or"
                " bidirectional or dag"
            ),
        ),
    ],
)
def test_what_is_refused(toy_data, teacher, options, message):
    assert message in refused(
        "fairseq-generate", toy_data, *DECODE, "--path", teacher, *options.split()
    )


def test_greedy_search_is_the_default_and_a_given_beam_is_refused(
    command, toy_data, teacher, expected
):
    """fairseq's own default is 5."""
    arguments = [option for option in DECODE if option not in ("--beam", "1")]
    base = ("fairseq-generate", toy_data, *arguments, "--path", teacher)
    assert texts(command(*base)) == expected
    assert "give --beam 1" in refused(*base, "--beam", "5")


@pytest.mark.parametrize(
    "options, beam, task",
    [
        (("--encoder-langtok", "src", "--decoder-langtok"), "4", "translation_autoregressive"),
        (
            (
                "--encoder-langtok", "tgt", "--decoder-langtok", "--lang-tok-style", "mbart",
                "--lang-tok-replacing-bos-eos",
            ),
            "1",
            "translation_jacobi",
        ),
    ],
)  # fmt: skip
def test_models_of_several_languages(command, toy_data, tmp_path, options, beam, task):
    """As fairseq's own task decodes them, greedily or with a beam, files and lines."""
    several = ("--task", "translation_multi_simple_epoch", "--langs", "de,en,fr",
               "--lang-pairs", "de-en", *options)  # fmt: skip
    command(
        "fairseq-train", toy_data, *several, "--arch", "transformer", *SIZES, *OPTIMIZER,
        "--criterion", "label_smoothed_cross_entropy", "--max-update", "3", "--save-dir", tmp_path,
    )  # fmt: skip
    path = tmp_path / "checkpoint_last.pt"
    shared = (
        toy_data, "--path", path, "--max-len-b", "12", "--cpu", "-s", "de", "-t", "en",
    )  # fmt: skip
    plugin = ("--user-dir", "fairseq_hrt")
    stock = command("fairseq-generate", *shared, *several, "--beam", beam).stdout
    ours = command("fairseq-generate", *shared, *plugin, "--task", task, "--beam", beam).stdout
    assert lines(ours, "S") == lines(stock, "S")
    assert hypotheses(ours) == hypotheses(stock)
    own = (*plugin, "--task", "translation_jacobi")
    given = dict(stdin="a b c\nj\n")
    stock = command("fairseq-interactive", *shared, *several, "--beam", "1", **given).stdout
    ours = command("fairseq-interactive", *shared, *own, **given).stdout
    assert hypotheses(ours) == hypotheses(stock)
    if beam == "1":
        return
    for more, message in (
        (("--prefix-size", "1"), "--prefix-size 1: the translations of this model begin with"),
        (("--score-reference",), "--score-reference: the references of this model begin with"),
        (("--forced-start", "A"), "--forced-start A: the translations of this model begin with"),
    ):
        assert message in refused("fairseq-generate", *shared, *own, *more)
    system = f"name=x,path={path},task=translation_jacobi"
    assert "is a model of several languages" in refused(
        "fairseq-hrt", "benchmark", toy_data, "--system", system
    )
