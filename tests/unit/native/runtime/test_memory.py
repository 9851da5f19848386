"""The kernel's memory: arrays taken from an arena are aligned, apart from each other, and bounded;
large ones change nothing."""

import subprocess
from dataclasses import replace

import numpy as np
import pytest
from runtime_models import convert, sources

from fairseq_hrt.native.runtime import build
from fairseq_hrt.native.runtime.engine import DecodingOptions, Engine

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
        build.KERNEL / "system.c",
        "-pthread",
    ]
    subprocess.run([*command, "-o", program], check=True)
    finished = subprocess.run([program], capture_output=True, text=True)
    assert (finished.returncode, finished.stdout) == (0, "done\n")


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_weights_of_several_large_pages(runtime, weights):
    """A vocabulary of more than 4 MB, which the kernel keeps in pages of 2 MB, and the same
    sentences: of its equal words the first is written."""
    model = runtime.build("hrt_transformer", share_all_embeddings=True)
    header, tensors = convert(model, *model.dictionaries, weights=weights)
    words = (9 << 20) // 2 // header.decoder_width
    larger = {
        name: np.concatenate([tensor, np.repeat(tensor[-1:], words - len(tensor), axis=0)])
        if ".embedding" in name
        else tensor
        for name, tensor in tensors.items()
    }
    assert larger["decoder.embedding"].nbytes > 4 << 20
    large = replace(header, source_vocabulary=words, target_vocabulary=words)
    options = DecodingOptions(max_len_a=1.0, max_len_b=6, beam=1, hrt_decode_chunk="2")
    found = []
    for own in ((header, tensors), (large, larger)):
        with Engine(*own) as engine:
            lines = engine.decode(sources((1, 4, 9, 13)), options)
        found.append([best.tokens for line in lines for best in line])
    assert found[0] == found[1]
