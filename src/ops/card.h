/* ops/card.h: the words to write a card with. */
#ifndef NC_OPS_CARD_H
#define NC_OPS_CARD_H

#include "ir/card.h"
#include "kernels/lanes/lanes.h"

/* Rows of cards leave out what is zero. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define T_FLOAT (NC_BIT(NC_FLOAT16) | NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE))
#define T_FLOAT_ALL (T_FLOAT | NC_BIT(NC_BFLOAT16))
#define T_SIGNED (NC_BIT(NC_INT8) | NC_BIT(NC_INT16) | NC_BIT(NC_INT32) | NC_BIT(NC_INT64))
#define T_UNSIGNED (NC_BIT(NC_UINT8) | NC_BIT(NC_UINT16) | NC_BIT(NC_UINT32) | NC_BIT(NC_UINT64))
#define T_NUMBER (T_FLOAT | T_SIGNED | T_UNSIGNED)
#define T_NUMBER_ALL (T_NUMBER | NC_BIT(NC_BFLOAT16))
#define T_BIG_NUMBER                                                               \
    (NC_BIT(NC_UINT32) | NC_BIT(NC_UINT64) | NC_BIT(NC_INT32) | NC_BIT(NC_INT64) | \
     T_FLOAT) /* "high precision numeric" */
#define T_BIG_NUMBER_ALL (T_BIG_NUMBER | NC_BIT(NC_BFLOAT16))
#define T_BOOL NC_BIT(NC_BOOL)
#define T_STRING NC_BIT(NC_STRING)
#define T_COMPLEX (NC_BIT(NC_COMPLEX64) | NC_BIT(NC_COMPLEX128))
#define T_TENSOR (T_NUMBER | T_BOOL | T_STRING | T_COMPLEX)
#define T_TENSOR_ALL (T_TENSOR | NC_BIT(NC_BFLOAT16))
/* Types of base/narrow.h, as the opsets brought them. */
#define T_F8 (NC_BIT(NC_FLOAT8E4M3FN) | NC_BIT(NC_FLOAT8E4M3FNUZ) | NC_BIT(NC_FLOAT8E5M2) | NC_BIT(NC_FLOAT8E5M2FNUZ))
#define T_F6 (NC_BIT(NC_FLOAT6E2M3) | NC_BIT(NC_FLOAT6E3M2))
#define T_F4 NC_BIT(NC_FLOAT4E2M1)
#define T_INT4 (NC_BIT(NC_UINT4) | NC_BIT(NC_INT4))
#define T_INT2 (NC_BIT(NC_UINT2) | NC_BIT(NC_INT2))
#define T_NARROW_19 T_F8
#define T_NARROW_21 (T_NARROW_19 | T_INT4)
#define T_NARROW_23 (T_NARROW_21 | T_F4)
#define T_NARROW_24 (T_NARROW_23 | NC_BIT(NC_FLOAT8E8M0))
#define T_NARROW_25 (T_NARROW_24 | T_INT2)
#define T_NARROW_28 (T_NARROW_25 | T_F6)
#define T_WHOLE (T_TENSOR_ALL & ~T_STRING) /* elements of whole bytes in a buffer */
#define T_MOVABLE (T_WHOLE | T_NARROW_28)  /* and those that share bytes */
#define T_INDEX (NC_BIT(NC_INT32) | NC_BIT(NC_INT64))
#define T_I64 NC_BIT(NC_INT64)
#define T_SEQ NC_TYPES_SEQUENCE
#define T_OPT NC_TYPES_OPTIONAL
#define T_TAPE NC_TYPES_TAPE
#define T_ANYTHING NC_TYPES_ANYTHING

/* A parameter: {"X", T_FLOAT} or {"Y", SAME(0)}, with OPTIONAL, SINGLE, SINGLE_OPTIONAL, VARIADIC or MIXED behind. */
#define SAME(i) 0, i
#define OPTIONAL .flags = NC_P_OPTIONAL
#define VARIADIC .flags = NC_P_VARIADIC
#define SINGLE .flags = NC_P_ONE
#define SINGLE_OPTIONAL .flags = NC_P_ONE | NC_P_OPTIONAL
#define MIXED .flags = NC_P_VARIADIC | NC_P_HETEROGENEOUS

#define IN(...)                \
    .in = (const nc_param[]) { \
        __VA_ARGS__, { 0 }     \
    }
#define NO_IN                  \
    .in = (const nc_param[]) { \
        { 0 }                  \
    }
#define OUT(...)                \
    .out = (const nc_param[]) { \
        __VA_ARGS__, { 0 }      \
    }
#define ATTR(...)                    \
    .attr = (const nc_attr_spec[]) { \
        __VA_ARGS__, { 0 }           \
    }
#define NO_ATTR                      \
    .attr = (const nc_attr_spec[]) { \
        { 0 }                        \
    }

#define A_INT(n, v) \
    { .name = n, .kind = NC_A_INT, .flags = NC_ATTR_HAS_DEFAULT, .i = v }
#define A_INT_OPT(n) \
    { .name = n, .kind = NC_A_INT }
#define A_INT_REQ(n) \
    { .name = n, .kind = NC_A_INT, .flags = NC_ATTR_REQUIRED }
#define A_FLOAT(n, v) \
    { .name = n, .kind = NC_A_FLOAT, .flags = NC_ATTR_HAS_DEFAULT, .f = v }
#define A_FLOAT_OPT(n) \
    { .name = n, .kind = NC_A_FLOAT }
#define A_STR(n, v) \
    { .name = n, .kind = NC_A_STRING, .flags = NC_ATTR_HAS_DEFAULT, .s = v }
#define A_STR_OPT(n) \
    { .name = n, .kind = NC_A_STRING }
#define A_STR_REQ(n) \
    { .name = n, .kind = NC_A_STRING, .flags = NC_ATTR_REQUIRED }
#define A_INTS_OPT(n) \
    { .name = n, .kind = NC_A_INTS }
#define A_INTS_REQ(n) \
    { .name = n, .kind = NC_A_INTS, .flags = NC_ATTR_REQUIRED }
#define A_FLOATS_OPT(n) \
    { .name = n, .kind = NC_A_FLOATS }
#define A_STRINGS_OPT(n) \
    { .name = n, .kind = NC_A_STRINGS }
#define A_TENSOR_OPT(n) \
    { .name = n, .kind = NC_A_TENSOR }
#define A_TYPE_OPT(n) \
    { .name = n, .kind = NC_A_TYPE }
#define A_GRAPH_REQ(n) \
    { .name = n, .kind = NC_A_GRAPH, .flags = NC_ATTR_REQUIRED }

#define NC_LANE(name) .lane = NCK_LANE_##name + 1, .traits = NC_ELEMENTWISE
#define NC_LANE_WITH(name, more) .lane = NCK_LANE_##name + 1, .traits = NC_ELEMENTWISE | (more)

/* Why an op that only lowering makes has no gradient. */
#define NC_LOWERED_NO_GRAD "lowering makes it, and gradients come before"

/* ---- words for infer hooks (ops/infer_words.c). All work on NULL by failing with a message, never by crashing. ----
 */

const nc_type *nc_in(nc_infer *c, int i);       /* type of input i; NULL: absent or unknown */
bool nc_in_rank(nc_infer *c, int i, int *rank); /* false: unknown or not a tensor */
const nc_dim *nc_in_dim(nc_infer *c, int i, int axis);
/* SHAPE when that dim is a constant other than `want`; want NULL: nothing to compare. Of dims that are no constants the
 * run asks again. */
nc_code nc_in_expect(nc_infer *c, int i, int axis, const nc_dim *want);
/* For hooks that compare dims themselves: what they expect is not known to hold; the run asks again. */
void nc_leave_open(const nc_infer *c);
/* SHAPE where it is known that input i has other dims than input `as`, or (single) not one element. */
nc_code nc_in_same(nc_infer *c, int i, int as);
nc_code nc_in_single(nc_infer *c, int i);
/* Known whole integer content of input i (a literal or all elems constant); false when unknown. n: how many; v holds
 * max. */
bool nc_in_ints(nc_infer *c, int i, int64_t *v, int max, int *n);
/* The one number of input i, floats cut to integers; *known is false when it is not known before the run. Fails where
 * int64 does not hold it. */
nc_code nc_in_number(nc_infer *c, int i, int64_t *v, bool *known);
/* Known elements of input i as dims (literal or elems); NULL when nothing is known. */
const nc_dim *const *nc_in_elems(nc_infer *c, int i, int *n);
nc_code nc_out(nc_infer *c, int i, nc_dtype elem, int rank, const nc_dim *const *dims);
nc_code nc_out_unknown(nc_infer *c, int i, nc_dtype elem, int rank); /* fresh dims; rank -1: unknown */
nc_code nc_out_like(nc_infer *c, int i, int i_in);                   /* same type as input i_in */
/* Output 0 with the dims that input i_shape holds; where they are not known, of as many dims as it has elements, else
 * of `rank`. */
nc_code nc_out_of_shape(nc_infer *c, nc_dtype elem, int i_shape, int rank);
nc_code nc_out_elems(nc_infer *c, int i, int n, const nc_dim *const *elems);
nc_code nc_out_layout(nc_infer *c, int i, nc_layout layout); /* gives the type of output i, already there, a layout */
const nc_dim *nc_fresh(nc_infer *c, const char *what);       /* a new symbol named after the node */
/* Axis attribute or value in [-rank, rank) made non-negative; fails with the node's name otherwise. */
nc_code nc_axis(nc_infer *c, int64_t axis, int rank, int *out);
/* Numpy broadcasting of input types lo..hi-1 into dims; *rank -1 when any rank is unknown. */
nc_code nc_broadcast_in(nc_infer *c, int lo, int hi, const nc_dim **dims, int *rank);

#endif
