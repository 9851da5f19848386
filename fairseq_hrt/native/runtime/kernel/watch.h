/* Whether a call is to end before it is done. The thread that made the call asks from time to time;
 * the others see what it was told. */
#ifndef FH_WATCH_H
#define FH_WATCH_H

#include <stdatomic.h>

#include "runtime.h"

/* Seconds between two questions: nobody notices that a call takes so long to end, or what a
 * question costs. */
#define FH_PATIENCE 0.05

typedef struct {
    fh_ask_caller ask; /* NULL: nobody is asked */
    double next;       /* when to ask again */
    atomic_int ended;
} fh_watch;

void fh_watch_start(fh_watch *watch, fh_ask_caller ask);
/* 1: the call is to end. caller: the thread that looks is the one that made the call. */
int fh_watch_look(fh_watch *watch, int caller);

#endif
