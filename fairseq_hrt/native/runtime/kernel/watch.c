#include "watch.h"

#include <time.h>

/* Read at every product: the clock that the system keeps anyway costs a few nanoseconds, and is
 * exact enough. */
static double about_now(void) {
    struct timespec time;
#if defined(CLOCK_MONOTONIC_COARSE)
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
#else
    clock_gettime(CLOCK_MONOTONIC, &time);
#endif
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void fh_watch_start(fh_watch *watch, fh_ask_caller ask) {
    watch->ask = ask;
    watch->next = about_now() + FH_PATIENCE;
    atomic_init(&watch->ended, 0);
}

int fh_watch_look(fh_watch *watch, int caller) {
    if (atomic_load_explicit(&watch->ended, memory_order_relaxed)) return 1;
    if (!caller || !watch->ask || about_now() < watch->next) return 0;
    int32_t goes_on = 0;
    watch->ask(&goes_on);
    watch->next = about_now() + FH_PATIENCE;
    if (!goes_on) atomic_store_explicit(&watch->ended, 1, memory_order_relaxed);
    return !goes_on;
}
