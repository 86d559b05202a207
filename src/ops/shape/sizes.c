/* ops/shape/sizes.c: cards of Shape and Size: dims as values. They look at no byte of their input. */
#include "ops/shape/shape.h"

/* Axes first <= k < end that Shape reports for a rank. */
static void shape_range(const nc_node *n, int rank, int64_t *first, int64_t *end) {
    *first = nc_attr_has(n, "start") ? nc_attr_int(n, "start") : 0;
    *end = nc_attr_has(n, "end") ? nc_attr_int(n, "end") : rank;
    if (*first < 0) *first += rank;
    if (*end < 0) *end += rank;
    *first = *first < 0 ? 0 : *first > rank ? rank : *first;
    *end = *end < *first ? *first : *end > rank ? rank : *end;
}

static nc_code shape_infer(nc_infer *c) {
    int rank;
    int64_t first, end;
    const nc_dim *n;
    if (!nc_in_rank(c, 0, &rank)) {
        n = nc_fresh(c, "rank");
        NC_NEED(c->w, n);
        nc_dim_set_bound(c->dims, n, nc_dim_const(c->dims, NC_MAX_RANK));
        return nc_out(c, 0, NC_INT64, 1, &n);
    }
    shape_range(c->node, rank, &first, &end);
    n = nc_dim_const(c->dims, end - first);
    NC_TRY(nc_out(c, 0, NC_INT64, 1, &n));
    return nc_out_elems(c, 0, (int)(end - first), c->in[0].type->dims + first);
}

#define SHAPE(types) IN({"data", types}), OUT({"shape", T_I64})
#define SHAPE_RANGE(narrow) SHAPE(T_TENSOR_ALL | (narrow)), ATTR(A_INT("start", 0), A_INT_OPT("end"))
static const nc_op_version shape_versions[] = {{.since = 25, SHAPE_RANGE(T_NARROW_25)},
                                               {.since = 24, SHAPE_RANGE(T_NARROW_24)},
                                               {.since = 23, SHAPE_RANGE(T_NARROW_23)},
                                               {.since = 21, SHAPE_RANGE(T_NARROW_21)},
                                               {.since = 19, SHAPE_RANGE(T_NARROW_19)},
                                               {.since = 15, SHAPE_RANGE(0)},
                                               {.since = 13, SHAPE(T_TENSOR_ALL), NO_ATTR},
                                               {.since = 1, SHAPE(T_TENSOR), NO_ATTR},
                                               {0}};

const nc_card nc_card_shape = {.name = "Shape",
                               .doc = "The dims of its input, or those from start to end.",
                               .versions = shape_versions,
                               .dims_only_in = 1,
                               .infer = shape_infer,
                               .zero_grad = true};

static nc_code size_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    NC_TRY(nc_out(c, 0, NC_INT64, 0, NULL));
    if (x == NULL || x->rank < 0) return NC_OK;
    const nc_dim *n = nc_dim_const(c->dims, 1);
    for (int k = 0; k < x->rank; k++) n = nc_dim_mul(c->dims, n, x->dims[k]);
    return nc_out_elems(c, 0, 1, &n);
}

#define SIZE(types) IN({"data", types}), OUT({"size", T_I64}), NO_ATTR
static const nc_op_version size_versions[] = {{.since = 25, SIZE(T_TENSOR_ALL | T_NARROW_25)},
                                              {.since = 24, SIZE(T_TENSOR_ALL | T_NARROW_24)},
                                              {.since = 23, SIZE(T_TENSOR_ALL | T_NARROW_23)},
                                              {.since = 21, SIZE(T_TENSOR_ALL | T_NARROW_21)},
                                              {.since = 19, SIZE(T_TENSOR_ALL | T_NARROW_19)},
                                              {.since = 13, SIZE(T_TENSOR_ALL)},
                                              {.since = 1, SIZE(T_TENSOR)},
                                              {0}};

const nc_card nc_card_size = {.name = "Size",
                              .doc = "How many elements its input has.",
                              .versions = size_versions,
                              .dims_only_in = 1,
                              .infer = size_infer,
                              .zero_grad = true};
