/* What C11 has no words for, as GCC and clang spell it. */
#ifndef FH_COMPILER_H
#define FH_COMPILER_H

#define INLINE inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define ALIGNED __attribute__((aligned(64)))

/* What a shared library exports. */
#if defined(_WIN32)
#define FH_PUBLIC __declspec(dllexport)
#else
#define FH_PUBLIC __attribute__((visibility("default")))
#endif

#endif
