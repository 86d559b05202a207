/* ir/type.h: what a value is. Types are immutable and live in an arena. An unknown dim is a fresh symbol, never NULL;
 * an unknown rank is -1. */
#ifndef NC_IR_TYPE_H
#define NC_IR_TYPE_H

#include "base/shape.h"
#include "base/status.h"
#include "ir/dim.h"

typedef enum nc_type_kind { NC_T_TENSOR, NC_T_SEQUENCE, NC_T_OPTIONAL, NC_T_MAP, NC_T_SPARSE, NC_T_TAPE } nc_type_kind;

/* Channel-blocked: the dims are [N, ceil(C/block), spatial..., block]; axis is the blocked one; block 0: plain. Only
 * *lowered* has it. */
typedef struct nc_layout {
    int axis, block;
    const nc_dim *logical;
} nc_layout;

typedef struct nc_type {
    nc_type_kind kind;
    nc_dtype elem; /* TENSOR, SPARSE; the key of a MAP */
    int rank;      /* -1: unknown */
    const nc_dim *const *dims;
    nc_layout layout;
    const struct nc_type *of; /* what a SEQUENCE, OPTIONAL or MAP holds; may be NULL: unknown */
} nc_type;

const nc_type *nc_type_tensor(nc_arena *a, nc_dtype elem, int rank, const nc_dim *const *dims); /* copies dims */
const nc_type *nc_type_holding(nc_arena *a, nc_type_kind kind, const nc_type *of);
/* A deep copy in a; its dims are carried into table `to` (nc_dim_carry), or shared when that is NULL. */
const nc_type *nc_type_copy(nc_arena *a, nc_dims *to, const nc_type *t);
bool nc_type_equal(const nc_type *a, const nc_type *b); /* dims by pointer, layout too */
void nc_type_print(nc_text *out,
                   const nc_type *t); /* float[batch,4]; float[?]-less unknown rank: float[...]; seq(float[n]); tape */

#endif
