/* cpu/isa.h: which instruction set the kernels use. The best one that the processor has is picked at first use; the
 * environment variable NACRE_ISA names another (NACRE_ISA=portable). A *.simd.c file exports one const table per ISA,
 * and NCK_ISA_TABLES names each. */
#ifndef NCK_CPU_ISA_H
#define NCK_CPU_ISA_H

#include <stdbool.h>

/* The tables there are: X(name, isa) for each. `name` gives struct nck_<name>_table, a field of nck_isa, and in each
 * ISA's copy of the *.simd.c file a constant nck_<name>_<isa>. */
#define NCK_ISA_TABLES(X, isa) X(conv, isa) X(gemm, isa) X(reduce, isa) X(tile, isa) X(window, isa)

#define NCK_ISA_STRUCT(name, isa) struct nck_##name##_table;
NCK_ISA_TABLES(NCK_ISA_STRUCT, )
#undef NCK_ISA_STRUCT

typedef struct nck_isa {
    const char *name;
#define NCK_ISA_FIELD(table, isa) const struct nck_##table##_table *table;
    NCK_ISA_TABLES(NCK_ISA_FIELD, )
#undef NCK_ISA_FIELD
} nck_isa;

const nck_isa *nck_isa_get(void);
/* The usable ones in the order of isa.list; NULL past the last. */
const nck_isa *nck_isa_at(int i);
/* Forces one for tests; NULL goes back to the choice of nck_isa_get. False: unknown or not usable here, nothing
 * changes. Not while kernels run. */
bool nck_isa_set_for_test(const char *name);

#endif
