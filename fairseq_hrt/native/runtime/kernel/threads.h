/* A pool of threads for tasks that do not depend on each other. */
#ifndef FH_THREADS_H
#define FH_THREADS_H

#include "memory.h"

typedef struct fh_pool fh_pool;

/* threads: at least 1, the caller's included. NULL with an error. */
fh_pool *fh_pool_new(int32_t threads, fh_error *error);
void fh_pool_free(fh_pool *pool);
/* Calls run(context, task, thread) for tasks 0 to count - 1; thread is 0 to threads - 1, that of
 * the caller 0, who does task 0. Returns when all are done; meanwhile a caller without a task calls
 * wait(context) from time to time. */
void fh_pool_run(fh_pool *pool, int32_t count,
                 void (*run)(void *context, int32_t task, int32_t thread),
                 void (*wait)(void *context), void *context);

#endif
