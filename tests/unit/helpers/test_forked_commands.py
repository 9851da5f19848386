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
@pytest.mark.parametrize("plugin, status", [([], 2), (["--user-dir", "fairseq_hrt"], 2)])
def test_a_command_sees_what_it_sees_alone(command, plugin, status):
    """Also the second time, when what the first one composed is remembered; without the plugin it
    has none of its tasks.
    """
    arguments = ["nowhere", *plugin, "--task", "translation_hrt", "--path", "nothing.pt"]
    ends = []
    for fresh in (True, False, False):
        found = command("fairseq-generate", *arguments, check=False, fresh=fresh)
        ends.append((found.returncode, found.stdout, found.stderr.splitlines()[-1]))
    assert ends == [ends[0]] * 3 and ends[0][0] == status
