/* What C11 has no words for, as GCC and clang spell it. */
#ifndef FH_COMPILER_H
#define FH_COMPILER_H

#define INLINE inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define ALIGNED __attribute__((aligned(64)))

#endif
