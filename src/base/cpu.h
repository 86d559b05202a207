/* base/cpu.h: what this processor and its system can do, asked once. */
#ifndef NC_BASE_CPU_H
#define NC_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>

typedef struct nc_cpu {
    bool neon, dotprod, i8mm, bf16;                          /* AArch64 */
    bool avx2_fma, f16c, avx512, avx512_vnni, avx_vnni, amx; /* x86-64; the system saves the registers too */
    size_t l1d, l2; /* bytes, per core; a guess where the system does not tell */
    char name[64];
} nc_cpu;

const nc_cpu *nc_cpu_get(void);

#endif
