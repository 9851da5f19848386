/* Threads, the clock and large memory, of POSIX systems and of Windows. No other file asks the
 * operating system for anything, except dispatch.c, which asks what the processor has. */
#ifndef FH_SYSTEM_H
#define FH_SYSTEM_H

#include <stddef.h>

#if defined(_WIN32)
/* windows.h defines common words as macros, so only system.c sees it. */
typedef void *fh_thread;
typedef struct {
    void *state; /* SRWLOCK */
} fh_lock;
typedef struct {
    void *state; /* CONDITION_VARIABLE */
} fh_condition;
#else
#include <pthread.h>
typedef pthread_t fh_thread;
typedef pthread_mutex_t fh_lock;
typedef pthread_cond_t fh_condition;
#endif

/* 0, or not 0 where the system gives no more threads. */
int fh_thread_start(fh_thread *thread, void (*run)(void *data), void *data);
void fh_thread_join(fh_thread thread);
/* Lets another thread have this one's processor. */
void fh_thread_yield(void);

void fh_lock_new(fh_lock *lock);
void fh_lock_free(fh_lock *lock);
void fh_lock_take(fh_lock *lock);
void fh_lock_give(fh_lock *lock);

void fh_condition_new(fh_condition *condition);
void fh_condition_free(fh_condition *condition);
/* The lock is held on entry and on return; either may return early. */
void fh_condition_wait(fh_condition *condition, fh_lock *lock);
void fh_condition_wait_for(fh_condition *condition, fh_lock *lock, int milliseconds);
void fh_condition_wake_all(fh_condition *condition);

/* Seconds since some moment. */
double fh_seconds(void);
/* The same to a few hundredths of a second, from the clock that the system keeps anyway: a few
 * nanoseconds. */
double fh_about_seconds(void);

/* bytes, a multiple of alignment; NULL when there are none left. */
void *fh_system_aligned(size_t alignment, size_t bytes);
void fh_system_free(void *data);

#endif
