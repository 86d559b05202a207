/* cpu/isa_narrow.c: see isa_narrow.h. A table says how wide its vectors are. */
#include "kernels/cpu/isa_narrow.h"

enum { NARROW = 8 }; /* floats */

const nck_reduce_table *nck_narrow_reduce(void) {
    const nck_reduce_table *best = nck_isa_get()->reduce;
    if (best->width <= NARROW) return best;
    for (int i = 0; nck_isa_at(i) != NULL; i++)
        if (nck_isa_at(i)->reduce->width <= NARROW) best = nck_isa_at(i)->reduce;
    return best;
}

const nck_gemm_table *nck_narrow_gemm(void) {
    const nck_gemm_table *best = nck_isa_get()->gemm;
    if (best->width <= NARROW) return best;
    for (int i = 0; nck_isa_at(i) != NULL; i++)
        if (nck_isa_at(i)->gemm->width <= NARROW) best = nck_isa_at(i)->gemm;
    return best;
}
