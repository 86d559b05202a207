/* cpu/isa.h: which instruction set the kernels use. The best one that the processor has is picked at first use; the
 * environment variable NACRE_ISA names another (NACRE_ISA=portable). A *.simd.c file exports one const table per ISA,
 * and each table has a field here. */
#ifndef NCK_CPU_ISA_H
#define NCK_CPU_ISA_H

#include <stdbool.h>

struct nck_tile_table;

typedef struct nck_isa {
    const char *name;
    const struct nck_tile_table *tile;
} nck_isa;

const nck_isa *nck_isa_get(void);
/* The usable ones in the order of isa.list; NULL past the last. */
const nck_isa *nck_isa_at(int i);
/* Forces one for tests; NULL goes back to the choice of nck_isa_get. False: unknown or not usable here, nothing
 * changes. Not while kernels run. */
bool nck_isa_set_for_test(const char *name);

#endif
