/* Threads that have no sentences of their own help with the large products of the one sentence or
 * batch that is left. */
#ifndef FH_TEAM_H
#define FH_TEAM_H

#include <stdint.h>

typedef struct fh_team fh_team;

/* Multiplications from which on a product is worth sharing: below, telling the others takes longer.
 */
#define FH_WORTH_SHARING (1 << 19)

fh_team *fh_team_new(int32_t members);
void fh_team_free(fh_team *team);
int32_t fh_team_members(const fh_team *team);
/* Calls run(context, part) for parts 0 to parts - 1 (at most 32767), on whoever has time; returns
 * when all are done. One caller at a time; team NULL: the caller does all of them in turn. */
void fh_team_run(fh_team *team, int32_t parts, void (*run)(void *context, int32_t part),
                 void *context);
/* What a helper does until fh_team_end. */
void fh_team_help(fh_team *team);
/* Sends the helpers away, those that come later as well. */
void fh_team_end(fh_team *team);

#endif
