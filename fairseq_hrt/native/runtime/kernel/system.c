#include "system.h"

#include <stdlib.h>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <malloc.h>
#include <windows.h>
#else
#include <sched.h>
#include <time.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

/* What systems call as a thread's function differs; they are given this. */
typedef struct {
    void (*run)(void *data);
    void *data;
} start;

static void run_started(void *data) {
    start own = *(start *)data;
    free(data);
    own.run(own.data);
}

static start *start_of(void (*run)(void *data), void *data) {
    start *own = malloc(sizeof *own);
    if (own) *own = (start){run, data};
    return own;
}

#if defined(_WIN32)

static DWORD WINAPI entry(void *data) {
    run_started(data);
    return 0;
}

int fh_thread_start(fh_thread *thread, void (*run)(void *data), void *data) {
    start *own = start_of(run, data);
    *thread = own ? CreateThread(NULL, 0, entry, own, 0, NULL) : NULL;
    if (!*thread) free(own);
    return !*thread;
}
void fh_thread_join(fh_thread thread) {
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
}
void fh_thread_yield(void) { SwitchToThread(); }

_Static_assert(sizeof(fh_lock) == sizeof(SRWLOCK), "a lock is an SRWLOCK");
_Static_assert(sizeof(fh_condition) == sizeof(CONDITION_VARIABLE), "and so is a condition");

void fh_lock_new(fh_lock *lock) { InitializeSRWLock((SRWLOCK *)lock); }
void fh_lock_free(fh_lock *lock) { (void)lock; }
void fh_lock_take(fh_lock *lock) { AcquireSRWLockExclusive((SRWLOCK *)lock); }
void fh_lock_give(fh_lock *lock) { ReleaseSRWLockExclusive((SRWLOCK *)lock); }

void fh_condition_new(fh_condition *condition) {
    InitializeConditionVariable((CONDITION_VARIABLE *)condition);
}
void fh_condition_free(fh_condition *condition) { (void)condition; }
void fh_condition_wait(fh_condition *condition, fh_lock *lock) {
    SleepConditionVariableSRW((CONDITION_VARIABLE *)condition, (SRWLOCK *)lock, INFINITE, 0);
}
void fh_condition_wait_for(fh_condition *condition, fh_lock *lock, int milliseconds) {
    SleepConditionVariableSRW((CONDITION_VARIABLE *)condition, (SRWLOCK *)lock, (DWORD)milliseconds,
                              0);
}
void fh_condition_wake_all(fh_condition *condition) {
    WakeAllConditionVariable((CONDITION_VARIABLE *)condition);
}

double fh_seconds(void) {
    LARGE_INTEGER ticks, each;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&each);
    return (double)ticks.QuadPart / (double)each.QuadPart;
}
double fh_about_seconds(void) { return 1e-3 * (double)GetTickCount64(); }

void *fh_system_aligned(size_t alignment, size_t bytes) {
    return _aligned_malloc(bytes, alignment);
}
void fh_system_free(void *data) { _aligned_free(data); }

#else

static void *entry(void *data) {
    run_started(data);
    return NULL;
}

int fh_thread_start(fh_thread *thread, void (*run)(void *data), void *data) {
    start *own = start_of(run, data);
    int failed = !own || pthread_create(thread, NULL, entry, own);
    if (failed) free(own);
    return failed;
}
void fh_thread_join(fh_thread thread) { pthread_join(thread, NULL); }
void fh_thread_yield(void) { sched_yield(); }

void fh_lock_new(fh_lock *lock) { pthread_mutex_init(lock, NULL); }
void fh_lock_free(fh_lock *lock) { pthread_mutex_destroy(lock); }
void fh_lock_take(fh_lock *lock) { pthread_mutex_lock(lock); }
void fh_lock_give(fh_lock *lock) { pthread_mutex_unlock(lock); }

void fh_condition_new(fh_condition *condition) { pthread_cond_init(condition, NULL); }
void fh_condition_free(fh_condition *condition) { pthread_cond_destroy(condition); }
void fh_condition_wait(fh_condition *condition, fh_lock *lock) {
    pthread_cond_wait(condition, lock);
}
void fh_condition_wait_for(fh_condition *condition, fh_lock *lock, int milliseconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += milliseconds % 1000 * 1000000L;
    until.tv_sec += milliseconds / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(condition, lock, &until);
}
void fh_condition_wake_all(fh_condition *condition) { pthread_cond_broadcast(condition); }

static double seconds_of(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}
double fh_seconds(void) { return seconds_of(CLOCK_MONOTONIC); }
#if defined(CLOCK_MONOTONIC_COARSE)
double fh_about_seconds(void) { return seconds_of(CLOCK_MONOTONIC_COARSE); }
#else
double fh_about_seconds(void) { return seconds_of(CLOCK_MONOTONIC); }
#endif

/* Huge pages are made for the weights, which are read from end to end for every word. In pages of
 * 4 KB that is a walk through the page tables every 64 cache lines, in a virtual machine a twofold
 * one, and the processor's prefetching stops at each page's end: products of 16 MB ran at 32 to
 * 91 GB/s from one start to the next, with pages of 2 MB at 69 to 97. */
#if defined(MADV_HUGEPAGE)
enum { HUGE_PAGE = 2 << 20 };
#endif

void *fh_system_aligned(size_t alignment, size_t bytes) {
#if defined(MADV_HUGEPAGE)
    if (bytes >= 2 * (size_t)HUGE_PAGE) {
        size_t whole = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        void *data = aligned_alloc(HUGE_PAGE, whole);
        /* Advice only: a kernel that does not take it leaves small pages, and everything works. */
        if (data) (void)madvise(data, whole, MADV_HUGEPAGE);
        return data;
    }
#endif
    return aligned_alloc(alignment, bytes);
}
void fh_system_free(void *data) { free(data); }

#endif
