/* cpu/isa.h: which instruction sets the kernels use, table by table. A *.simd.c file exports one const table per row of
 * isa.list that compiles it, and NCK_ISA_TABLES names each. Extensions form no order (a processor may have VNNI without
 * AVX-512, or bf16 without i8mm), so every table is chosen alone: the last row of isa.list that has the table and that
 * the processor can run.
 *
 * The environment variable NACRE_ISA limits the choice. NACRE_ISA=avx2 leaves out the rows behind avx2;
 * NACRE_ISA=avx2,gemm=portable also takes one table from a row by name. */
#ifndef NCK_CPU_ISA_H
#define NCK_CPU_ISA_H

#include <stdbool.h>

/* The tables there are: X(name, isa) for each. `name` gives struct nck_<name>_table, a field of nck_isa, and in each
 * ISA's copy of <name>.simd.c a constant nck_<name>_<isa>. */
#define NCK_ISA_TABLES(X, isa) \
    X(conv, isa)               \
    X(gemm, isa)               \
    X(igemm, isa)              \
    X(lanes, isa)              \
    X(linear, isa)             \
    X(nbits, isa) X(optim, isa) X(outer, isa) X(reduce, isa) X(tile, isa) X(whole, isa) X(window, isa) X(wino, isa)

#define NCK_ISA_STRUCT(name, isa) struct nck_##name##_table;
NCK_ISA_TABLES(NCK_ISA_STRUCT, )
#undef NCK_ISA_STRUCT

/* A choice: a table of each kind, and the row that each one is of. */
typedef struct nck_isa {
    const char *name; /* the last row that takes part */
#define NCK_ISA_FIELD(table, isa) const struct nck_##table##_table *table;
    NCK_ISA_TABLES(NCK_ISA_FIELD, )
#undef NCK_ISA_FIELD
    struct {
#define NCK_ISA_FROM(table, isa) const char *table;
        NCK_ISA_TABLES(NCK_ISA_FROM, )
#undef NCK_ISA_FROM
    } from;
} nck_isa;

const nck_isa *nck_isa_get(void);
/* The choices that NACRE_ISA=<name> makes, one for each usable name in the order of isa.list; NULL past the last. */
const nck_isa *nck_isa_at(int i);
/* Makes the choice that NACRE_ISA=<spec> makes; NULL goes back to the environment's. False: a row or table is unknown
 * or not usable here, nothing changes. Not while kernels run. */
bool nck_isa_set_for_test(const char *spec);

/* For people: every table by its place in NCK_ISA_TABLES with the row it is of, and the rows of isa.list that this
 * processor cannot run with what it lacks. NULL past the last. */
typedef struct nck_isa_line {
    const char *what, *text;
} nck_isa_line;
bool nck_isa_table_line(int i, nck_isa_line *line);
bool nck_isa_missing_line(int i, nck_isa_line *line);

#endif
