/* Which instruction set the operations run on. */
#ifndef FH_DISPATCH_H
#define FH_DISPATCH_H

#include "operations.h"

/* The best table that this processor and operating system can run, or the one named by `forced`
 * (NULL or "": choose). Returns NULL when the forced one is unknown, not compiled into this
 * library, or cannot run here; `why` (may be NULL) then holds the reason as one line. Otherwise
 * `why` tells why no better one was chosen ("" for the best of this architecture). */
FH_PUBLIC const fh_operations *fh_choose(const char *forced, char *why, size_t size);

/* The instruction sets of this architecture, best first: place 0, 1, …; NULL behind the last. */
FH_PUBLIC const char *fh_instruction_set(int place);
/* 1: the instruction set was compiled into this library. */
FH_PUBLIC int fh_compiled(const char *name);
/* 1: it can run here, compiled or not; otherwise 0 and the reason in `why` (may be NULL). */
FH_PUBLIC int fh_usable(const char *name, char *why, size_t size);

/* Fingerprint of the sources that this library was built from; "" when the build did not say. */
FH_PUBLIC const char *fh_fingerprint(void);

#endif
