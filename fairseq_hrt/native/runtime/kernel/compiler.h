/* What compilers call differently. */
#ifndef FH_COMPILER_H
#define FH_COMPILER_H

#ifdef _MSC_VER
#define INLINE __forceinline
#define NOINLINE __declspec(noinline)
#define ALIGNED __declspec(align(64))
#else
#define INLINE inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define ALIGNED __attribute__((aligned(64)))
#endif

#endif
