/* cpu/isa_narrow.c: see isa_narrow.h. A table says how wide its vectors are. */
#include "kernels/cpu/isa_narrow.h"

enum { NARROW = 8 }; /* floats */

const nck_reduce_table *nck_narrow_reduce(void) {
    const nck_reduce_table *best = nck_isa_get()->reduce;
    for (int i = 0; best->width > NARROW && nck_isa_at(i + 1) != NULL; i++)
        if (nck_isa_at(i + 1)->reduce->width > NARROW) best = nck_isa_at(i)->reduce;
    return best;
}

const nck_gemm_table *nck_narrow_gemm(void) {
    const nck_gemm_table *best = nck_isa_get()->gemm;
    for (int i = 0; best->width > NARROW && nck_isa_at(i + 1) != NULL; i++)
        if (nck_isa_at(i + 1)->gemm->width > NARROW) best = nck_isa_at(i)->gemm;
    return best;
}
