"""The repair `late-help`: ``--help`` shows the options of what was chosen; a mistaken option ends
in one line."""

import pytest
from fairseq import options
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

PARSERS = {
    "generate": options.get_generation_parser,
    "interactive": options.get_interactive_generation_parser,
    "train": options.get_training_parser,
    "validate": options.get_validation_parser,
}
ARCHITECTURES = sorted(set(MODEL_REGISTRY) & set(ARCH_MODEL_REGISTRY))


def said(capsys, command, *arguments):
    """What a command writes, and its exit status."""
    with pytest.raises(SystemExit) as ended:
        options.parse_args_and_arch(PARSERS[command](), list(arguments))
    return *capsys.readouterr(), ended.value.code


@pytest.mark.parametrize(
    "command, arguments, shown",
    [
        ("generate", ("-h", "--task", "translation_hrt"), ["--hrt-decode-chunk", "--beam"]),
        ("interactive", ("--task", "translation_dag"), ["--dag-decode-strategy", "--buffer-size"]),
        ("train", ("--arch", "hrt_transformer"), ["--hrt-chunk-sizes", "--source-lang"]),
        ("train", ("--criterion", "dag_nll_loss"), ["--dag-glance-schedule", "--max-update"]),
        ("train", ("--optimizer", "adam"), ["--adam-betas"]),
        ("generate", ("--task", "translation_lev"), ["--noise"]),
        ("generate", (), ["--source-lang"]),
        ("train", (), ["--source-lang", "--arch"]),
        ("validate", (), ["--path"]),
        ("validate", ("--task", "translation_jacobi", "-h"), ["--path", "--jacobi-mode"]),
    ],
)
def test_help_shows_the_options_of_what_is_chosen(capsys, command, arguments, shown):
    flag = () if "-h" in arguments else ("--help",)
    out, _, status = said(capsys, command, *flag, *arguments)
    assert status == 0 and all(f"  {option} " in out for option in shown)


def test_what_is_misspelt_comes_before_help(capsys):
    _, error, status = said(capsys, "generate", "--task", "translation_hr", "--help")
    assert status == 2 and error.startswith("error: argument --task: invalid choice")
    assert error.count("\n") == 1 and len(error) < 400


@pytest.mark.slow
@pytest.mark.parametrize(
    "command, flag, names",
    [
        ("generate", "--task", sorted(TASK_REGISTRY)),
        ("train", "--arch", ARCHITECTURES),
        ("train", "--criterion", sorted(CRITERION_REGISTRY)),
    ],
)
def test_every_one_of_fairseq_has_help(capsys, command, flag, names):
    for name in names:
        out, _, status = said(capsys, command, flag, name, "--help")
        assert status == 0 and "usage:" in out, name


def test_a_mistaken_option_is_one_line(capsys):
    for arguments in (
        ("data", "--task", "translation_hrt", "--hrt-decode-chun", "3"),
        ("data", "--task", "translation_hrt", "--weights", "int4"),
        ("data", "--beam", "x\x1b[2J"),
    ):
        out, error, status = said(capsys, "generate", *arguments)
        assert (out, status) == ("", 2) and error.count("\n") == 1
        assert error.startswith("error: ") and arguments[-2] in error and "\x1b" not in error


def test_parsing_without_help_is_fairseqs(capsys):
    parser = options.get_generation_parser()
    found = options.parse_args_and_arch(parser, ["data", "--task", "translation_hrt", "--beam=3"])
    assert (found.beam, found.hrt_decode_chunk, found.data) == (3, None, "data")
