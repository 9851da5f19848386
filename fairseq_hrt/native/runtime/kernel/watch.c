#include "watch.h"

#include "system.h"

void fh_watch_start(fh_watch *watch, fh_ask_caller ask) {
    watch->ask = ask;
    watch->next = fh_about_seconds() + FH_PATIENCE;
    atomic_init(&watch->ended, 0);
}

int fh_watch_look(fh_watch *watch, int caller) {
    if (atomic_load_explicit(&watch->ended, memory_order_relaxed)) return 1;
    /* Looked at for every product, so by the clock that costs least. */
    if (!caller || !watch->ask || fh_about_seconds() < watch->next) return 0;
    int32_t goes_on = 0;
    watch->ask(&goes_on);
    watch->next = fh_about_seconds() + FH_PATIENCE;
    if (!goes_on) atomic_store_explicit(&watch->ended, 1, memory_order_relaxed);
    return !goes_on;
}
