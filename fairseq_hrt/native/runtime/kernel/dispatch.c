/* See dispatch.h. The build defines FH_HAVE_<NAME> for every instruction set that its compiler
 * supports. */
#include "dispatch.h"

#include <stdio.h>
#include <string.h>

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
enum { REQUEST_STATE = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, its state component */
#endif

#if defined(__x86_64__) || defined(__i386__)
#define X86 1
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#ifndef HWCAP_ASIMDDP
#define HWCAP_ASIMDDP (1 << 20)
#endif
#endif

#ifdef FH_HAVE_AMX_INT8
extern const fh_operations fh_operations_amx_int8;
#define AMX_INT8 &fh_operations_amx_int8
#else
#define AMX_INT8 NULL
#endif
#ifdef FH_HAVE_AVX512_VNNI
extern const fh_operations fh_operations_avx512_vnni;
#define AVX512_VNNI &fh_operations_avx512_vnni
#else
#define AVX512_VNNI NULL
#endif
#ifdef FH_HAVE_AVX_VNNI
extern const fh_operations fh_operations_avx_vnni;
#define AVX_VNNI &fh_operations_avx_vnni
#else
#define AVX_VNNI NULL
#endif
#ifdef FH_HAVE_AVX2
extern const fh_operations fh_operations_avx2;
#define AVX2 &fh_operations_avx2
#else
#define AVX2 NULL
#endif
#ifdef FH_HAVE_NEON_DOTPROD
extern const fh_operations fh_operations_neon_dotprod;
#define NEON_DOTPROD &fh_operations_neon_dotprod
#else
#define NEON_DOTPROD NULL
#endif

/* ------------------------------------------------------------------ what is there */

#ifdef X86
typedef struct {
    uint32_t eax, ebx, ecx, edx;
} registers;

static registers cpuid(uint32_t leaf, uint32_t subleaf) {
    registers r = {0, 0, 0, 0};
    if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx))
        r = (registers){0, 0, 0, 0};
    return r;
}

/* Which registers the operating system saves (XCR0); 0 when it does not say. */
static uint64_t saved_state(void) {
    if (!(cpuid(1, 0).ecx >> 27 & 1)) return 0; /* OSXSAVE */
    uint32_t low, high;
    __asm__ volatile(".byte 0x0f, 0x01, 0xd0"
                     : "=a"(low), "=d"(high)
                     : "c"(0)); /* xgetbv, without flags of its own */
    return (uint64_t)high << 32 | low;
}

/* The first thing missing for AVX2 with FMA, or NULL. */
static const char *missing_avx2(void) {
    registers one = cpuid(1, 0);
    if (!(one.ecx >> 28 & 1) || !(cpuid(7, 0).ebx >> 5 & 1)) return "the processor has no AVX2";
    if (!(one.ecx >> 12 & 1)) return "the processor has no FMA";
    if ((saved_state() & 0x6) != 0x6) return "the operating system does not save the AVX registers";
    return NULL;
}

static const char *missing_avx_vnni(void) {
    const char *missing = missing_avx2();
    return missing                                            ? missing
           : cpuid(7, 0).eax >= 1 && cpuid(7, 1).eax >> 4 & 1 ? NULL
                                                              : "the processor has no AVX-VNNI";
}

static const char *missing_avx512_vnni(void) {
    const char *missing = missing_avx2();
    if (missing) return missing;
    registers seven = cpuid(7, 0);
    uint32_t needed = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* F, DQ, BW, VL */
    if ((seven.ebx & needed) != needed) return "the processor has no AVX-512 (F, DQ, BW, VL)";
    if (!(seven.ecx >> 11 & 1)) return "the processor has no AVX-512 VNNI";
    if ((saved_state() & 0xe6) != 0xe6)
        return "the operating system does not save the AVX-512 registers";
    return NULL;
}

/* Linux lets a process use the tiles once it has asked; all of its threads may then. */
static const char *missing_amx_int8(void) {
    const char *missing = missing_avx512_vnni();
    if (missing) return missing;
    uint32_t needed = 1u << 24 | 1u << 25; /* TILE, INT8 */
    if ((cpuid(7, 0).edx & needed) != needed) return "the processor has no AMX (TILE, INT8)";
#if defined(__linux__) && defined(__x86_64__)
    if ((saved_state() & 0x60000) == 0x60000 && !syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA))
        return NULL;
#endif
    return "the operating system does not let processes use AMX tiles";
}
#endif

#if defined(__aarch64__)
static const char *missing_dotprod(void) {
#if defined(__ARM_FEATURE_DOTPROD)
    return NULL; /* the whole library was compiled for it */
#elif defined(__linux__)
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP
               ? NULL
               : "the processor has no dot product instructions (asimddp)";
#elif defined(__APPLE__)
    return NULL; /* every Mac with an ARM processor */
#else
    return "this operating system does not say whether there are dot product instructions";
#endif
}
#endif

/* ------------------------------------------------------------------ choosing */

#ifndef FH_FINGERPRINT
#define FH_FINGERPRINT ""
#endif
/* Found in the file before it is loaded: what a process has loaded once it keeps, whatever the file
 * becomes. */
static const char STAMP[] = "fh_fingerprint=" FH_FINGERPRINT;
const char *fh_fingerprint(void) { return STAMP + sizeof "fh_fingerprint=" - 1; }

typedef struct {
    const char *name;
    const fh_operations *table;
    const char *(*missing)(void);
} instruction_set;

static const instruction_set INSTRUCTION_SETS[] = {
#ifdef X86
    {"amx_int8", AMX_INT8, missing_amx_int8},
    {"avx512_vnni", AVX512_VNNI, missing_avx512_vnni},
    {"avx_vnni", AVX_VNNI, missing_avx_vnni},
    {"avx2", AVX2, missing_avx2},
#endif
#if defined(__aarch64__)
    {"neon_dotprod", NEON_DOTPROD, missing_dotprod},
#endif
    {"plain", &fh_operations_plain, NULL},
};
enum { COUNT = sizeof INSTRUCTION_SETS / sizeof *INSTRUCTION_SETS };

static const instruction_set *named(const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (!strcmp(INSTRUCTION_SETS[i].name, name)) return INSTRUCTION_SETS + i;
    return NULL;
}

const char *fh_instruction_set(int place) {
    return place >= 0 && place < COUNT ? INSTRUCTION_SETS[place].name : NULL;
}

int fh_compiled(const char *name) {
    const instruction_set *set = named(name);
    return set && set->table;
}

/* Why it cannot be chosen, or NULL. */
static const char *obstacle(const instruction_set *set) {
    const char *missing = set->missing ? set->missing() : NULL;
    return missing      ? missing
           : set->table ? NULL
                        : "the compiler that built this library does not know it";
}

int fh_usable(const char *name, char *why, size_t size) {
    const instruction_set *set = named(name);
    const char *missing = !set           ? "not an instruction set of this architecture"
                          : set->missing ? set->missing()
                                         : NULL;
    if (why && size) snprintf(why, size, "%s", missing ? missing : "");
    return !missing;
}

const fh_operations *fh_choose(const char *forced, char *why, size_t size) {
    if (why && size) *why = 0;
    if (forced && *forced) {
        const instruction_set *set = named(forced);
        const char *reason =
            set ? obstacle(set) : "there is no such instruction set on this architecture";
        if (!reason) return set->table;
        if (why && size) {
            int used = snprintf(why, size, "%s: %s; give one of:", forced, reason);
            for (int i = 0; i < COUNT; i++)
                if (!obstacle(INSTRUCTION_SETS + i) && used >= 0 && (size_t)used < size)
                    used +=
                        snprintf(why + used, size - (size_t)used, " %s", INSTRUCTION_SETS[i].name);
        }
        return NULL;
    }
    for (int i = 0; i < COUNT; i++) {
        const char *reason = obstacle(INSTRUCTION_SETS + i);
        if (!reason) return INSTRUCTION_SETS[i].table;
        if (why && size && !*why) snprintf(why, size, "%s: %s", INSTRUCTION_SETS[i].name, reason);
    }
    return &fh_operations_plain;
}
