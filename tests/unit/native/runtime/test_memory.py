"""The kernel's memory: arrays taken from an arena are aligned, apart from each other, and
bounded."""

import subprocess

import pytest

from fairseq_hrt.native.runtime import build

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "memory.h"

int main(void) {
    fh_error error = {0};
    fh_arena arena = {.error = &error};
    enum { COUNT = 300 };
    unsigned char *taken[COUNT];
    size_t sizes[COUNT];
    srand(3);
    for (int i = 0; i < COUNT; i++) {
        size_t size = (size_t)(1 + rand() % 24);
        sizes[i] = (size_t)(rand() % (i % 50 ? 90 : 40000)) * size;
        taken[i] = fh_take(&arena, sizes[i] / size, size);
        if (!taken[i] || error.code) return 1;
        if ((size_t)taken[i] % 64) return 2;
        memset(taken[i], i % 251, sizes[i]);
    }
    /* What was written later has changed nothing before it. */
    for (int i = 0; i < COUNT; i++)
        for (size_t k = 0; k < sizes[i]; k++)
            if (taken[i][k] != i % 251) return 3;
    if (!fh_take(&arena, 0, 8) || error.code) return 4;
    if (fh_take(&arena, (size_t)-1 / 2, 8) || error.code != FH_MEMORY) return 5;
    memset(&error, 0, sizeof error);
    if (fh_take(&arena, (size_t)-1 / 8, 1) || error.code != FH_MEMORY) return 6;
    /* It can be used again, also after it was freed. */
    fh_arena_free(&arena);
    memset(&error, 0, sizeof error);
    unsigned char *again = fh_take(&arena, 5, 4);
    if (!again || error.code) return 7;
    again[19] = 1;
    fh_arena_free(&arena);
    fh_arena_free(&arena);
    puts("done");
    return 0;
}
"""


@pytest.mark.skipif(build.compiler() is None, reason="no C compiler")
def test_an_arena(tmp_path):
    (tmp_path / "arena.c").write_text(PROGRAM)
    program, flags = (
        tmp_path / "arena",
        ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"],
    )
    command = [
        *build.compiler(),
        *flags,
        "-I",
        build.KERNEL,
        tmp_path / "arena.c",
        build.KERNEL / "memory.c",
    ]
    subprocess.run([*command, "-o", program], check=True)
    finished = subprocess.run([program], capture_output=True, text=True)
    assert (finished.returncode, finished.stdout) == (0, "done\n")
