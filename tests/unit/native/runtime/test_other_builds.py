"""The kernel built otherwise: under sanitizers, and for ARM."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import runtime_driver

import fairseq_hrt
from fairseq_hrt.engine.torch_to_native import write_runtime_model
from fairseq_hrt.native.runtime import build, library

pytestmark = pytest.mark.slow

DRIVER = Path(__file__).with_name("operations_driver.c")


def run_driver(program, *arguments):
    finished = subprocess.run(
        [*map(str, program), *map(str, arguments)], capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout.split()


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    """A function that builds the kernel under sanitizers, once each: it returns (library, flags,
    what has to be loaded first)."""
    known = {}

    def make(sanitizers):
        if sanitizers not in known:
            command = build.compiler()
            if command is None:
                pytest.skip("no C compiler")
            name = {"address,undefined": "libasan.so", "thread": "libtsan.so"}[sanitizers]
            preload = subprocess.run(
                [*command, f"-print-file-name={name}"], capture_output=True, text=True
            ).stdout.strip()
            if not Path(preload).is_file():
                pytest.skip(f"the compiler has no {name}")
            flags = [f"-fsanitize={sanitizers}", "-O0", "-g1"]
            if "undefined" in sanitizers:
                flags.append("-fno-sanitize-recover=all")
            folder = tmp_path_factory.mktemp("sanitized")
            # Compiled once for all checks of the same sources: objects are named by all that they
            # depend on.
            objects = build.HERE.parents[2] / build.OBJECTS
            with pytest.MonkeyPatch.context() as patch:
                # Those that this machine can run; threads decode with the best of them alone.
                usable = library.instruction_sets(library.load_library()).usable
                chosen = usable[:1] if sanitizers == "thread" else usable
                chosen = [name for name in chosen if name != "plain"]
                patch.setattr(build, "instruction_sets", lambda machine: chosen)
                built = build.compile_library(folder / build.LIBRARY, objects=objects, extra=flags)
            known[sanitizers] = (built.library, flags, preload)
        return known[sanitizers]

    return make


def test_operations_under_sanitizers(tmp_path, kernel, sanitized):
    """Buffers of exactly the stated size, random sizes, every instruction set that this machine can
    run."""
    built, flags, _ = sanitized("address,undefined")
    program = tmp_path / "driver"
    subprocess.run(
        [
            *build.compiler(), *flags, "-D_GNU_SOURCE", "-I", str(build.KERNEL), str(DRIVER),
            str(built), f"-Wl,-rpath,{built.parent}", "-lm", "-o", str(program),
        ],
        check=True,
    )  # fmt: skip
    assert run_driver([program], 1, 150) == library.instruction_sets(kernel).usable


@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_decoding_under_sanitizers(runtime, files, tmp_path, sanitized, sanitizers):
    """Every way of decoding and damaged files; memory, undefined behaviour, and data races of
    threads."""
    built, _, preload = sanitized(sanitizers)
    environment = {**os.environ, "LD_PRELOAD": preload,
                   "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
                   "TSAN_OPTIONS": "exitcode=66", "OMP_NUM_THREADS": "1",
                   "OPENBLAS_NUM_THREADS": "1"}  # fmt: skip
    # One thread alone has nobody to race with.
    mutations, teams = ("15", "1,3") if "address" in sanitizers else ("0", "3")
    if sanitizers == "thread":
        # Its products are large enough for several threads.
        sizes = dict(
            encoder_embed_dim=64,
            decoder_embed_dim=64,
            encoder_layers=1,
            decoder_layers=1,
            max_source_positions=5,
            max_target_positions=4,
        )
        model = runtime.build(symbols=9000, share_all_embeddings=True, **sizes)
        files = [*files, tmp_path / "large.safetensors"]
        write_runtime_model(model, *model.dictionaries, files[-1])
    arguments = [
        runtime_driver.__file__,
        Path(fairseq_hrt.__file__).parent,
        mutations,
        "3",
        built,
        teams,
        *files,
    ]
    finished = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, env=environment
    )
    assert finished.returncode == 0 and "done" in finished.stdout, (
        finished.stdout[-2000:] + finished.stderr[-6000:]
    )


def arm_compiler():
    """A compiler for 64-bit ARM that links statically, so that an emulator needs no system of that
    kind; None if there is none."""
    if shutil.which("aarch64-linux-gnu-gcc"):
        return ["aarch64-linux-gnu-gcc"]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl"]
    return None


def test_operations_on_arm_under_an_emulator(tmp_path):
    compiler, emulator = (
        arm_compiler(),
        shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static"),
    )
    if not compiler or not emulator:
        pytest.skip("needs aarch64-linux-gnu-gcc or ziglang, and qemu-aarch64")
    objects = tmp_path / "objects"
    built = build.compile_library(tmp_path / build.LIBRARY, objects=objects, command=compiler)
    # Found from the compiler's own version text, whatever machine this is.
    assert (
        built.target.machine == "aarch64"
        and list(built.instruction_sets) == ["neon_dotprod", "plain"]
        and not built.left_out
    )
    program = tmp_path / "driver"
    subprocess.run(
        [
            *compiler,
            *build.FLAGS,
            "-static",
            "-I",
            build.KERNEL,
            DRIVER,
            *objects.glob("*.o"),
            "-lm",
            "-o",
            program,
        ],
        check=True,
    )
    assert run_driver([emulator, program], 1, 60) == ["neon_dotprod", "plain"]
    assert run_driver([emulator, "-cpu", "cortex-a53", program], 1, 5) == ["plain"], (
        "a processor without dot products"
    )
