#include "threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* Nanoseconds between two calls of wait(). */
#define PATIENCE 50000000

typedef struct {
    fh_pool *pool;
    int32_t number;
} member;

struct fh_pool {
    int32_t threads, started;
    pthread_t *handles;
    member *members;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
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
        pthread_mutex_unlock(&p->lock);
        p->run(p->context, task, thread);
        pthread_mutex_lock(&p->lock);
        p->busy--;
    }
    if (p->busy == 0) pthread_cond_broadcast(&p->done);
}

static void *loop(void *data) {
    member *m = data;
    fh_pool *p = m->pool;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        take_tasks(p, m->number);
        if (!p->stop && p->next >= p->count) pthread_cond_wait(&p->work, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
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
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    if (!p->handles || !p->members) fh_out_of_memory(error, (size_t)threads * sizeof *p->members);
    for (int32_t i = 1; i < threads && !error->code; i++) {
        p->members[i] = (member){p, i};
        if (pthread_create(&p->handles[i], NULL, loop, &p->members[i]))
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
    pthread_mutex_lock(&p->lock);
    p->stop = 1;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int32_t i = 1; i <= p->started; i++) pthread_join(p->handles[i], NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->done);
    free(p->handles);
    free(p->members);
    free(p);
}

/* Until a moment later, or until all tasks are done; the lock is held on entry and on return. */
static void wait_a_moment(fh_pool *p) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PATIENCE;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&p->done, &p->lock, &until);
}

void fh_pool_run(fh_pool *p, int32_t count,
                 void (*run)(void *context, int32_t task, int32_t thread),
                 void (*wait)(void *context), void *context) {
    pthread_mutex_lock(&p->lock);
    p->run = run;
    p->context = context;
    p->next = 0;
    p->count = count;
    if (count > 1) pthread_cond_broadcast(&p->work);
    take_tasks(p, 0);
    while (p->busy) {
        wait_a_moment(p);
        if (!p->busy) break;
        /* It may take long, and the others need the lock. */
        pthread_mutex_unlock(&p->lock);
        wait(context);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
}
