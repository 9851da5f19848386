#include "threads.h"

#include <stdlib.h>

#include "system.h"

/* Milliseconds between two calls of wait(). */
#define PATIENCE 50

typedef struct {
    fh_pool *pool;
    int32_t number;
} member;

struct fh_pool {
    int32_t threads, started;
    fh_thread *handles;
    member *members;
    fh_lock lock;
    fh_condition work, done;
    void (*run)(void *context, int32_t task, int32_t thread);
    void *context;
    int32_t next, count, busy;
    int stop;
};

/* Takes tasks until there are none; the lock is held on entry and on return. */
static void take_tasks(fh_pool *p, int32_t thread) {
    while (p->next < p->count) {
        int32_t task = p->next++;
        p->busy++;
        fh_lock_give(&p->lock);
        p->run(p->context, task, thread);
        fh_lock_take(&p->lock);
        p->busy--;
    }
    if (p->busy == 0) fh_condition_wake_all(&p->done);
}

static void loop(void *data) {
    member *m = data;
    fh_pool *p = m->pool;
    fh_lock_take(&p->lock);
    while (!p->stop) {
        take_tasks(p, m->number);
        if (!p->stop && p->next >= p->count) fh_condition_wait(&p->work, &p->lock);
    }
    fh_lock_give(&p->lock);
}

fh_pool *fh_pool_new(int32_t threads, fh_error *error) {
    fh_pool *p = calloc(1, sizeof *p);
    if (!p) {
        fh_out_of_memory(error, sizeof *p);
        return NULL;
    }
    p->threads = threads;
    p->handles = calloc((size_t)threads, sizeof *p->handles);
    p->members = calloc((size_t)threads, sizeof *p->members);
    fh_lock_new(&p->lock);
    fh_condition_new(&p->work);
    fh_condition_new(&p->done);
    if (!p->handles || !p->members) fh_out_of_memory(error, (size_t)threads * sizeof *p->members);
    for (int32_t i = 1; i < threads && !error->code; i++) {
        p->members[i] = (member){p, i};
        if (fh_thread_start(&p->handles[i], loop, &p->members[i]))
            fh_fail(error, FH_MEMORY,
                    "the system gives no more threads: %d of %d were started; give fewer threads",
                    (int)i, (int)threads);
        else
            p->started = i;
    }
    if (!error->code) return p;
    fh_pool_free(p);
    return NULL;
}

void fh_pool_free(fh_pool *p) {
    if (!p) return;
    fh_lock_take(&p->lock);
    p->stop = 1;
    fh_condition_wake_all(&p->work);
    fh_lock_give(&p->lock);
    for (int32_t i = 1; i <= p->started; i++) fh_thread_join(p->handles[i]);
    fh_lock_free(&p->lock);
    fh_condition_free(&p->work);
    fh_condition_free(&p->done);
    free(p->handles);
    free(p->members);
    free(p);
}

void fh_pool_run(fh_pool *p, int32_t count,
                 void (*run)(void *context, int32_t task, int32_t thread),
                 void (*wait)(void *context), void *context) {
    fh_lock_take(&p->lock);
    p->run = run;
    p->context = context;
    p->next = 0;
    p->count = count;
    if (count > 1) fh_condition_wake_all(&p->work);
    take_tasks(p, 0);
    while (p->busy) {
        fh_condition_wait_for(&p->done, &p->lock, PATIENCE);
        if (!p->busy) break;
        /* It may take long, and the others need the lock. */
        fh_lock_give(&p->lock);
        wait(context);
        fh_lock_take(&p->lock);
    }
    fh_lock_give(&p->lock);
}
