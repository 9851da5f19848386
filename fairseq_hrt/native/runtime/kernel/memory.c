#include "memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "operations.h"
#include "system.h"

int fh_fail(fh_error *error, int code, const char *format, ...) {
    if (error->code == FH_OK) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
        error->code = code;
    }
    return error->code;
}

int fh_out_of_memory(fh_error *error, size_t bytes) {
    return fh_fail(
        error, FH_MEMORY,
        "out of memory: %zu bytes were not to be had; decode smaller batches or shorter sentences",
        bytes);
}

int fh_report(const fh_error *error, char *message, size_t size) {
    if (message && size) snprintf(message, size, "%s", error->code ? error->text : "");
    return error->code;
}

void *fh_aligned(size_t bytes) {
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes = (bytes + FH_ALIGNMENT) / FH_ALIGNMENT * FH_ALIGNMENT;
    return fh_system_aligned(FH_ALIGNMENT, bytes);
}

void fh_aligned_free(void *data) { fh_system_free(data); }

static int grow(fh_buffer *buffer, size_t count, size_t width, int keep, fh_error *error) {
    if (width && count > SIZE_MAX / 4 / width) return fh_out_of_memory(error, SIZE_MAX);
    size_t bytes = count * width;
    if (bytes <= buffer->bytes && buffer->data) return FH_OK;
    /* A little more than is needed now: sentences of one batch get longer step by step. */
    size_t roomy = bytes + bytes / 2 + 64;
    void *data = fh_aligned(roomy);
    if (!data) data = fh_aligned(roomy = bytes);
    if (!data) return fh_out_of_memory(error, bytes);
    if (keep && buffer->data) memcpy(data, buffer->data, buffer->bytes);
    fh_aligned_free(buffer->data);
    buffer->data = data;
    buffer->bytes = roomy;
    return FH_OK;
}

int fh_reserve(fh_buffer *buffer, size_t count, size_t width, fh_error *error) {
    return grow(buffer, count, width, 0, error);
}
int fh_extend(fh_buffer *buffer, size_t count, size_t width, fh_error *error) {
    return grow(buffer, count, width, 1, error);
}

void fh_release(fh_buffer *buffer) {
    fh_aligned_free(buffer->data);
    buffer->data = NULL;
    buffer->bytes = 0;
}

/* Blocks double, so that few are needed; most searches of a sentence fit into the first one. */
enum { FIRST_BLOCK = 8192 };

struct fh_arena_block {
    struct fh_arena_block *before;
    size_t bytes; /* behind the head */
};

/* The head's share of a block: what follows is aligned. */
enum {
    BLOCK_HEAD = (sizeof(struct fh_arena_block) + FH_ALIGNMENT - 1) / FH_ALIGNMENT * FH_ALIGNMENT
};

void *fh_take(fh_arena *arena, size_t count, size_t size) {
    if (size && count > SIZE_MAX / 4 / size) {
        fh_out_of_memory(arena->error, SIZE_MAX);
        return NULL;
    }
    size_t bytes = (count * size + FH_ALIGNMENT - 1) / FH_ALIGNMENT * FH_ALIGNMENT;
    if (!arena->last || arena->left < bytes) {
        size_t room = arena->last ? 2 * arena->last->bytes : FIRST_BLOCK;
        if (room < bytes) room = bytes;
        struct fh_arena_block *block = fh_aligned(BLOCK_HEAD + room);
        if (!block && (block = fh_aligned(BLOCK_HEAD + bytes))) room = bytes;
        if (!block) {
            fh_out_of_memory(arena->error, bytes);
            return NULL;
        }
        *block = (struct fh_arena_block){arena->last, room};
        arena->last = block;
        arena->left = room;
    }
    char *data = (char *)arena->last + BLOCK_HEAD + (arena->last->bytes - arena->left);
    arena->left -= bytes;
    return data;
}

void fh_arena_free(fh_arena *arena) {
    for (struct fh_arena_block *block = arena->last, *before; block; block = before) {
        before = block->before;
        fh_aligned_free(block);
    }
    arena->last = NULL;
    arena->left = 0;
}
