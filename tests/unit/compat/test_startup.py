"""The line that Python runs at start, in fresh interpreters."""

import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

import fairseq_hrt

LOADED = (
    "import sys, json; {statement}; "
    "print(json.dumps([name for name in ('fairseq', 'fairseq_hrt', 'torch', 'numpy')"
    " if name in sys.modules]))"
)


@pytest.fixture
def loaded(command, tmp_path):
    """Names that are imported after a statement in a fresh interpreter."""

    def run(statement):
        output = command("python", "-c", LOADED.format(statement=statement), cwd=tmp_path).stdout
        return json.loads(output.splitlines()[-1])

    return run


def test_costs_no_import(loaded):
    assert loaded("pass") == []


def test_other_imports_do_not_wake_it(loaded):
    assert loaded("import json, numpy") == ["numpy"]


def test_a_second_time_it_changes_nothing(monkeypatch):
    """Python's site runs the lines of a virtual environment twice."""
    source = Path(fairseq_hrt.__file__).with_name("compat").joinpath("startup.py").read_text()
    others = [one for one in sys.meta_path if getattr(one, "__name__", "") != "RepairFairseq"]
    monkeypatch.setattr(sys, "meta_path", others)
    count = len(others)
    for _ in range(2):
        exec(source, {})
    assert len(sys.meta_path) == count + 1


# Runs programs in forks: of what fairseq imports they find there what takes longest.
AFTER_PYTORCH = """
import json, os, sys, traceback
import hydra.experimental, omegaconf, sacrebleu, torch
assert not {"fairseq", "fairseq_hrt"} & set(sys.modules)
print(flush=True)
for line in sys.stdin:
    program, folder, *outputs = json.loads(line)
    if os.fork() == 0:
        os.chdir(folder)
        for number, path in enumerate(outputs, 1):
            os.dup2(os.open(path, os.O_WRONLY), number)
        status = 0
        try:
            exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
        except BaseException:
            traceback.print_exc()
            status = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
# To take all modules down takes a second.
os._exit(0)
"""


@pytest.fixture(scope="module")
def run_after_pytorch():
    """A function that runs a program in a folder, in an interpreter that has imported PyTorch, but
    not fairseq."""
    with subprocess.Popen(
        [sys.executable, "-c", AFTER_PYTORCH],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stdout.readline() == "\n"

        def run(program, cwd, check=True):
            with ExitStack() as stack:
                files = [stack.enter_context(tempfile.NamedTemporaryFile("r")) for _ in range(2)]
                request = [program, str(cwd), *(file.name for file in files)]
                print(json.dumps(request), file=server.stdin, flush=True)
                status = int(server.stdout.readline())
                output, error = (file.read() for file in files)
            assert not check or not status, error
            return SimpleNamespace(returncode=status, stdout=output, stderr=error)

        yield run
        server.stdin.close()


REGISTERED = (
    "from fairseq.tasks import TASK_REGISTRY as t; from fairseq.models import ARCH_MODEL_REGISTRY"
    " as a; from fairseq.criterions import CRITERION_REGISTRY as c;"
    " print(*(sum(x.__module__.startswith('fairseq_hrt.') for x in r.values()) > 2 for r in (t, a,"
    " c)))"
)


@pytest.mark.slow
def test_commands_are_repaired_from_their_start_and_the_plugin_can_come_later(
    run_after_pytorch, tmp_path
):
    """Commands are looked up before they import fairseq. The families need a fairseq that works,
    so the repairs are loaded without them; the plugin shares the repairs that are there."""
    program = (
        "import sys, fairseq_cli.score, fairseq_cli.generate, fairseq_cli.train, fairseq\n"
        "before = sys.modules['fairseq_hrt.compat']\n"
        "print(*map(str, before.statuses()), 'fairseq_hrt' in sys.modules, sep='\\n')\n"
        "import fairseq_hrt\n"
        "assert fairseq_hrt.compat is before\n"
        "assert all(s.applied for s in before.statuses() if s.reason)\n"
    )
    *told, loaded, registered = run_after_pytorch(program + REGISTERED, tmp_path).stdout.split(
        "\n"
    )[:-1]
    for name in ("scored-files", "generated-shards", "cpu-precision"):
        assert any(line.startswith(f"{name}: active") for line in told)
    assert (loaded, registered) == ("False", "True True True")


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "import fairseq_hrt, fairseq;"
        " assert 'FAILED' not in str([str(s) for s in fairseq_hrt.compat.statuses()])\n",
        # Run once, as a family: otherwise its classes would not be those that the registered ones
        # derive from.
        "import fairseq_hrt.decoding_task as first\nfrom fairseq.tasks import TASK_REGISTRY\n"
        "assert issubclass(TASK_REGISTRY['translation_hrt'], first.DecodingTask)\n",
    ],
    ids=["plugin", "task"],
)
def test_families_are_registered_when_the_plugin_comes_first(
    run_after_pytorch, tmp_path, statement
):
    found = run_after_pytorch(statement + REGISTERED, tmp_path)
    assert found.stdout.split()[-3:] == ["True"] * 3


def test_broken_plugin_leaves_fairseq_as_it_is(command, tmp_path):
    package = tmp_path / "fairseq_hrt" / "compat"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text("raise RuntimeError('half an installation')")
    (tmp_path / "fairseq").mkdir()
    (tmp_path / "fairseq" / "__init__.py").write_text("stock = True")
    script = "import fairseq; print(fairseq.stock)"
    finished = command("python", "-c", script, cwd=tmp_path)
    assert finished.stdout.strip() == "True"
    assert "half an installation" in finished.stderr


def test_spawned_workers_are_repaired(command, tmp_path):
    """Whatever the parent has imported: they start as the parent did."""
    (tmp_path / "fairseq").mkdir()
    (tmp_path / "fairseq" / "__init__.py").touch()
    script = tmp_path / "spawn.py"
    script.write_text(
        "import multiprocessing\n"
        "def work():\n"
        "    import fairseq, sys\n"
        "    assert 'fairseq_hrt.compat' in sys.modules\n"
        "if __name__ == '__main__':\n"
        "    worker = multiprocessing.get_context('spawn').Process(target=work)\n"
        "    worker.start()\n"
        "    worker.join()\n"
        "    print(worker.exitcode)\n"
    )
    assert command("python", script, cwd=tmp_path, fresh=True).stdout.strip() == "0"


@pytest.mark.slow
def test_two_copies_are_one_or_refused(run_after_pytorch, tmp_path):
    """The installed copy repairs fairseq when it is imported; --user-dir names another one, as the
    stock commands do it: fairseq first, then the folder by its path."""
    other = tmp_path / "clone" / "fairseq_hrt"
    # With its bytecode.
    shutil.copytree(Path(fairseq_hrt.__file__).parent, other)
    program = (
        "import sys, fairseq\nfrom argparse import Namespace\nfrom pathlib import Path\n"
        "from fairseq.utils import import_user_module\n"
        f"startup = Path({str(other / 'compat' / 'startup.py')!r})\n"
        f"named = Namespace(user_dir={str(other)!r})\n"
        "own = startup.read_bytes()\n"
        "startup.write_bytes(own + b'# another release\\n')\n"
        "try:\n"
        "    import_user_module(named)\n"
        "except ImportError as error:\n"
        "    print(error)\n"
        "startup.write_bytes(own)\n"
        "import_user_module.memo.clear()\n"
        "import_user_module(named)\n"
        "print(sys.modules['fairseq_hrt'].__file__)\n"
    )  # fmt: skip
    refusal, *last = run_after_pytorch(program + REGISTERED, tmp_path).stdout.splitlines()
    assert "two different copies of fairseq_hrt" in refusal and str(other) in refusal
    assert last == [str(other / "__init__.py"), "True True True"]
