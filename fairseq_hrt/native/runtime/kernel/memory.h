/* Growing aligned memory, and errors with a message. */
#ifndef FH_MEMORY_H
#define FH_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "runtime.h"

/* The first error of a call; later ones are dropped. */
typedef struct {
    int code;
    char text[320];
} fh_error;

/* Books an error and returns its code. */
int fh_fail(fh_error *error, int code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
int fh_out_of_memory(fh_error *error, size_t bytes);
/* Writes an error, or an empty text, where the caller wants it; returns its code. */
int fh_report(const fh_error *error, char *message, size_t size);

/* bytes aligned to FH_ALIGNMENT; NULL when there are none left. */
void *fh_aligned(size_t bytes);
void fh_aligned_free(void *data);

/* A buffer that grows when more is needed; the content is lost then. */
typedef struct {
    void *data;
    size_t bytes;
} fh_buffer;

/* At least count * width bytes. Returns 0 or FH_MEMORY. */
int fh_reserve(fh_buffer *buffer, size_t count, size_t width, fh_error *error);
/* The same, the first bytes that were there kept. */
int fh_extend(fh_buffer *buffer, size_t count, size_t width, fh_error *error);
void fh_release(fh_buffer *buffer);

/* Arrays of different sizes that are needed together and freed together. Start with {.error =
 * &error}. */
typedef struct {
    fh_error *error;
    struct fh_arena_block *last;
    size_t left; /* bytes behind what was taken of the last block */
} fh_arena;

/* `count` items of `size` bytes, aligned to FH_ALIGNMENT and not set to anything; they stay where
 * they are. NULL and an error when there is no memory, so that a caller asks for all that it needs
 * and then looks at the error once. */
void *fh_take(fh_arena *arena, size_t count, size_t size);
void fh_arena_free(fh_arena *arena);

#endif
