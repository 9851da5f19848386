"""Commands in forks do what they do in processes of their own."""

import pytest
from fork_client import names_plugin


@pytest.mark.parametrize(
    "line, plugin",
    [
        ("fairseq-hrt translate", True),
        ("python -m fairseq_hrt", True),
        ("python -m fairseq_cli.train data", False),
        ("python examples/common/tokenize_text.py train.en", True),
        ("fairseq-train data --user-dir fairseq_hrt --cpu", True),
        ("fairseq-train data --user-dir /a/b/fairseq_hrt", True),
        ("fairseq-train data --user-dir other", False),
        ("fairseq-train fairseq_hrt --user-dir", False),
        ("fairseq-generate data", False),
    ],
)
def test_the_plugin_is_there_for_those_that_name_it(line, plugin):
    name, *arguments = line.split()
    assert names_plugin(name, arguments) == plugin


@pytest.mark.slow
def test_a_command_sees_what_it_sees_alone(command):
    """Also the second time, when what the first one composed is remembered; without the plugin it
    has none of its tasks.
    """
    arguments = ["--task", "translation_hrt", "--path", "nothing.pt"]

    def end(*more, **options):
        found = command("fairseq-generate", "nowhere", *more, *arguments, check=False, **options)
        return found.returncode, found.stdout, found.stderr.splitlines()[-1]

    ends = [end("--user-dir", "fairseq_hrt", fresh=fresh) for fresh in (True, False, False)]
    assert ends == [ends[0]] * 3 and ends[0][0] == 2
    assert "translation_hrt" not in ends[0][2]
    for _ in range(2):
        status, output, error = end()
        assert (status, output) == (2, "")
        assert "argument --task: invalid choice: 'translation_hrt'" in error
