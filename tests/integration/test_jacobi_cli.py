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
    "options",
    [
        "",
        "--jacobi-window 4 --batch-size 1",
        "--jacobi-mode pj --batch-size 3",
        "--jacobi-mode pgj --jacobi-block-size 5",
        "--jacobi-mode hgj --jacobi-prefix-length 6",
        "--jacobi-draft ngram --jacobi-window 5 --print-step --retain-iter-history",
    ],
)
def test_the_tokens_of_stock_greedy_decoding(command, toy_data, teacher, expected, options):
    """With either engine; PyTorch's reports what it took."""
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
    # The native engine has the frontier alone.
    if not any(other in options for other in ("--jacobi-mode", "ngram")):
        assert texts(command(*decode)) == expected
    output = command(*decode, "--engine", "torch")
    assert texts(output) == expected
    report = re.search(
        r"jacobi \w+: 20 sentences, (\d+) tokens in (\d+) passes", output.stdout + output.stderr
    )
    assert report and int(report[2]) <= int(report[1])
    for field in ("tokens pushed", "GFLOP", "tokens proved by a pass"):
        assert field in output.stdout + output.stderr


@pytest.fixture(params=["hrt", "bidirectional", "dag"])
def draft(request, student_of):
    """A student of each family; (family, checkpoint)."""
    return request.param, student_of(request.param)


def test_drafts_of_another_model(command, toy_data, teacher, expected, draft):
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
    output = command("fairseq-generate", toy_data, *arguments, "--batch-size", "7")
    assert texts(output) == expected and "for drafts" in output.stdout + output.stderr
    wrong = "dag" if family == "hrt" else "hrt"
    arguments[arguments.index("--jacobi-draft") + 1] = wrong
    message = refused(command, "fairseq-generate", toy_data, *arguments)
    assert f"--jacobi-draft {wrong}" in message and f"translation_{family}" in message


@pytest.mark.parametrize(
    "family, options",
    [("hrt", "{'hrt_decode_chunk': '1'}"), ("dag", "{'dag_decode_strategy': 'greedy'}")],
)
def test_options_of_the_draft(command, toy_data, teacher, expected, student_of, family, options):
    arguments = [
        *DECODE, "--path", teacher, "--jacobi-draft", family, "--jacobi-draft-path",
        student_of(family), "--jacobi-window", "3", "--jacobi-draft-options",
    ]  # fmt: skip
    assert texts(command("fairseq-generate", toy_data, *arguments, options)) == expected
    wrong, message = {
        "hrt": ("{", "is not a Python dictionary"),
        "dag": ("{'no_such': 1}", "has no option no_such"),
    }[family]
    assert message in refused(command, "fairseq-generate", toy_data, *arguments, wrong)


def test_checkpoints_of_other_families(command, toy_data, draft):
    """HRT's C_d=1 is autoregressive; what writes in another order is refused by name."""
    family, path = draft
    arguments = [*DECODE, "--path", path, "--jacobi-window", "3"]
    if family != "hrt":
        message = refused(command, "fairseq-generate", toy_data, *arguments)
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


@pytest.mark.parametrize(
    "options, message",
    [
        ("--beam 4", "--beam 4: parallel decoding is exact for greedy search only"),
        ("--sampling", "--sampling: not supported"),
        ("--jacobi-draft hrt", "--jacobi-draft hrt needs --jacobi-draft-path"),
        (
            "--jacobi-draft-path x.pt",
            (
                "--jacobi-draft-path x.pt has an effect only with --jacobi-draft hrt or"
                " bidirectional or dag"
            ),
        ),
        ("--jacobi-draft source", "one dictionary for both sides"),
        (
            "--jacobi-mode pgj --jacobi-draft ngram",
            "has an effect only with --jacobi-mode frontier",
        ),
        ("--jacobi-window 0", "--jacobi-window 0: give a number from 1"),
    ],
)
def test_what_is_refused(command, toy_data, teacher, options, message):
    assert message in refused(
        command, "fairseq-generate", toy_data, *DECODE, "--path", teacher, *options.split()
    )


def test_greedy_search_is_the_default_and_a_given_beam_is_refused(command, toy_data, teacher):
    """fairseq's own default is 5."""
    arguments = [option for option in DECODE if option not in ("--beam", "1")]
    base = ("fairseq-generate", toy_data, *arguments, "--path", teacher)
    assert texts(command(*base)) == texts(command(*base, "--beam", "1"))
    assert "give --beam 1" in refused(command, *base, "--beam", "5")


@pytest.mark.parametrize(
    "options",
    [
        ("--encoder-langtok", "src", "--decoder-langtok"),
        (
            "--encoder-langtok", "tgt", "--decoder-langtok", "--lang-tok-style", "mbart",
            "--lang-tok-replacing-bos-eos",
        ),
    ],
)  # fmt: skip
def test_models_of_several_languages(command, toy_data, tmp_path, options):
    """As fairseq's own task decodes them, greedily and with a beam, files and lines."""
    several = ("--task", "translation_multi_simple_epoch", "--langs", "de,en,fr",
               "--lang-pairs", "de-en", *options)  # fmt: skip
    command(
        "fairseq-train", toy_data, *several, "--arch", "transformer", *SIZES, *OPTIMIZER,
        "--criterion", "label_smoothed_cross_entropy", "--max-update", "8", "--save-dir", tmp_path,
    )  # fmt: skip
    path = tmp_path / "checkpoint_last.pt"
    shared = (
        toy_data, "--path", path, "--max-len-b", "12", "--cpu", "-s", "de", "-t", "en",
    )  # fmt: skip
    plugin = ("--user-dir", "fairseq_hrt")
    for beam, task in (("1", "translation_jacobi"), ("4", "translation_autoregressive")):
        stock = command("fairseq-generate", *shared, *several, "--beam", beam).stdout
        ours = command("fairseq-generate", *shared, *plugin, "--task", task, "--beam", beam).stdout
        assert lines(ours, "S") == lines(stock, "S")
        assert hypotheses(ours) == hypotheses(stock)
    given = dict(stdin="a b c\nj\n")
    stock = command("fairseq-interactive", *shared, *several, "--beam", "1", **given).stdout
    own = (*plugin, "--task", "translation_jacobi")
    ours = command("fairseq-interactive", *shared, *own, **given).stdout
    assert hypotheses(ours) == hypotheses(stock)
    for more, message in (
        (("--prefix-size", "1"), "--prefix-size 1: the translations of this model begin with"),
        (("--score-reference",), "--score-reference: the references of this model begin with"),
        (("--forced-start", "A"), "--forced-start A: the translations of this model begin with"),
    ):
        assert message in refused(command, "fairseq-generate", *shared, *own, *more)
    system = f"name=x,path={path},task=translation_jacobi"
    assert "is a model of several languages" in refused(
        command, "fairseq-hrt", "benchmark", toy_data, "--system", system
    )
