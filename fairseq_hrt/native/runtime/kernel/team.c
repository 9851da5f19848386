/* Helpers look for work all the time, as a sentence is done in less time than waking a sleeping
 * thread takes. */
#include "team.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "system.h"

#define PARTS 16   /* bits of each half of a ticket */
#define LOOKS 4096 /* looks before the processor is offered to somebody else */

struct fh_team {
    int32_t members;
    void (*run)(void *context, int32_t part);
    void *context;
    /* parts << 16 | the next one. Whoever raises it has that part, and what `run` and `context` are
     * stays until all parts are done. */
    atomic_uint_fast32_t ticket;
    atomic_int done, ended;
};

static void rest_a_moment(int32_t *looks) {
    if (++*looks < LOOKS) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
        return;
    }
    *looks = 0;
    fh_thread_yield();
}

fh_team *fh_team_new(int32_t members) {
    fh_team *team = calloc(1, sizeof *team);
    if (team) team->members = members;
    return team;
}

void fh_team_free(fh_team *team) { free(team); }
int32_t fh_team_members(const fh_team *team) { return team ? team->members : 1; }

/* 1: did a part; 0: there was none. */
static int take_part(fh_team *team) {
    uint_fast32_t ticket = atomic_load_explicit(&team->ticket, memory_order_acquire);
    while ((ticket & ((1u << PARTS) - 1)) < ticket >> PARTS) {
        if (!atomic_compare_exchange_weak_explicit(&team->ticket, &ticket, ticket + 1,
                                                   memory_order_acq_rel, memory_order_acquire))
            continue;
        team->run(team->context, (int32_t)(ticket & ((1u << PARTS) - 1)));
        atomic_fetch_add_explicit(&team->done, 1, memory_order_release);
        return 1;
    }
    return 0;
}

void fh_team_run(fh_team *team, int32_t parts, void (*run)(void *context, int32_t part),
                 void *context) {
    if (!team || team->members < 2 || parts < 2) {
        for (int32_t part = 0; part < parts; part++) run(context, part);
        return;
    }
    team->run = run;
    team->context = context;
    atomic_store_explicit(&team->done, 0, memory_order_relaxed);
    atomic_store_explicit(&team->ticket, (uint_fast32_t)parts << PARTS, memory_order_release);
    while (take_part(team)) {
    }
    for (int32_t looks = 0; atomic_load_explicit(&team->done, memory_order_acquire) < parts;)
        rest_a_moment(&looks);
}

void fh_team_help(fh_team *team) {
    for (int32_t looks = 0; !atomic_load_explicit(&team->ended, memory_order_acquire);) {
        if (take_part(team))
            looks = 0;
        else
            rest_a_moment(&looks);
    }
}

void fh_team_end(fh_team *team) { atomic_store_explicit(&team->ended, 1, memory_order_release); }
