/* ops/shape/squeeze.c: cards of Identity, Squeeze and Unsqueeze: nothing changes but dims of 1. Views that keep
 * whatever strides their input has. */
#include "ops/shape/shape.h"

#define KEEPS_STRIDES (NC_VIEW_STRIDED | NC_VIEW_DENSE)

static nc_code identity_infer(nc_infer *c) { return nc_out_like(c, 0, 0); }

static nc_code identity_grad(nc_grad *g) {
    nc_grad_set(g, 0, nc_grad_dy(g, 0));
    return nc_grad_end(g);
}

/* Tapes beside ONNX's types: files of gradients name one twice where graphs give on what they capture. */
#define IDENTITY(types) IN({"input", (types) | T_TAPE}), OUT({"output", SAME(0)}), NO_ATTR
static const nc_op_version identity_versions[] = {{.since = 25, IDENTITY(T_TENSOR_ALL | T_NARROW_25 | T_SEQ | T_OPT)},
                                                  {.since = 24, IDENTITY(T_TENSOR_ALL | T_NARROW_24 | T_SEQ | T_OPT)},
                                                  {.since = 23, IDENTITY(T_TENSOR_ALL | T_NARROW_23 | T_SEQ | T_OPT)},
                                                  {.since = 21, IDENTITY(T_TENSOR_ALL | T_NARROW_21 | T_SEQ | T_OPT)},
                                                  {.since = 19, IDENTITY(T_TENSOR_ALL | T_NARROW_19 | T_SEQ | T_OPT)},
                                                  {.since = 16, IDENTITY(T_TENSOR_ALL | T_SEQ | T_OPT)},
                                                  {.since = 14, IDENTITY(T_TENSOR_ALL | T_SEQ)},
                                                  {.since = 13, IDENTITY(T_TENSOR_ALL)},
                                                  {.since = 1, IDENTITY(T_TENSOR)},
                                                  {0}};

const nc_card nc_card_identity = {.name = "Identity",
                                  .doc = "Its input.",
                                  .versions = identity_versions,
                                  .traits = NC_IDENTITY | KEEPS_STRIDES,
                                  .infer = identity_infer,
                                  .fold = nc_shape_fold_same,
                                  .grad = identity_grad};

/* ---- Squeeze ---- */

/* All dims of 1 go: known only when every dim is. */
static nc_code squeeze_all(nc_infer *c, const nc_type *x) {
    const nc_dim *dims[NC_MAX_RANK];
    int rank = 0;
    for (int k = 0; k < x->rank; k++) {
        int64_t size;
        if (!nc_dim_is_const(x->dims[k], &size)) return nc_out_unknown(c, 0, x->elem, -1);
        if (size != 1) dims[rank++] = x->dims[k];
    }
    return nc_out(c, 0, x->elem, rank, dims);
}

static nc_code squeeze_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    int64_t axes[NC_MAX_RANK];
    bool gone[NC_MAX_RANK];
    const nc_dim *dims[NC_MAX_RANK];
    int n, rank = 0;
    if (x == NULL) return NC_OK;
    nc_shape_state state = nc_shape_ints(c, 1, "axes", axes, NC_MAX_RANK, &n);
    if (x->rank < 0 || (state == NC_SHAPE_UNKNOWN && n < 0)) return nc_out_unknown(c, 0, x->elem, -1);
    if (state == NC_SHAPE_ABSENT) return squeeze_all(c, x);
    if (n > x->rank) NC_FAIL(c->w, NC_E_SHAPE, "%d axes, but the input has %d dims", n, x->rank);
    if (state == NC_SHAPE_UNKNOWN) return nc_out_unknown(c, 0, x->elem, x->rank - n);
    NC_TRY(nc_shape_mark_axes(c, axes, n, x->rank, gone));
    for (int k = 0; k < x->rank; k++) {
        int64_t size;
        if (!gone[k]) {
            dims[rank++] = x->dims[k];
        } else if (nc_dim_is_const(x->dims[k], &size) && size != 1) {
            NC_FAIL(c->w, NC_E_SHAPE, "dim %d is %lld and cannot be squeezed, only 1 can", k, (long long)size);
        }
    }
    return nc_out(c, 0, x->elem, rank, dims);
}

#define SQUEEZE(types) IN({"data", types}, {"axes", T_I64, OPTIONAL}), OUT({"squeezed", SAME(0)}), NO_ATTR
#define SQUEEZE_ATTR(types) IN({"data", types}), OUT({"squeezed", SAME(0)}), ATTR(A_INTS_OPT("axes"))
static const nc_op_version squeeze_versions[] = {{.since = 25, SQUEEZE(T_TENSOR_ALL | T_NARROW_25)},
                                                 {.since = 24, SQUEEZE(T_TENSOR_ALL | T_NARROW_24)},
                                                 {.since = 23, SQUEEZE(T_TENSOR_ALL | T_NARROW_23)},
                                                 {.since = 21, SQUEEZE(T_TENSOR_ALL | T_NARROW_21)},
                                                 {.since = 13, SQUEEZE(T_TENSOR_ALL)},
                                                 {.since = 11, SQUEEZE_ATTR(T_TENSOR)},
                                                 {.since = 1, SQUEEZE_ATTR(T_TENSOR)},
                                                 {0}};

const nc_card nc_card_squeeze = {.name = "Squeeze",
                                 .doc = "Without dims of 1: those named, or all.",
                                 .versions = squeeze_versions,
                                 .traits = KEEPS_STRIDES | NC_FREE_RANK,
                                 .host_in = 1u << 1,
                                 .no_grad_in = 1u << 1,
                                 .infer = squeeze_infer,
                                 .fold = nc_shape_fold_same,
                                 .grad = nc_shape_grad_reshape,
                                 .is_identity = nc_shape_same_type};

/* ---- Unsqueeze ---- */

static nc_code unsqueeze_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    int64_t axes[NC_MAX_RANK];
    bool added[NC_MAX_RANK];
    const nc_dim *dims[NC_MAX_RANK];
    int n, from = 0;
    if (x == NULL) return NC_OK;
    nc_shape_state state = nc_shape_ints(c, 1, "axes", axes, NC_MAX_RANK, &n);
    if (x->rank < 0 || (state == NC_SHAPE_UNKNOWN && n < 0)) return nc_out_unknown(c, 0, x->elem, -1);
    int rank = x->rank + n;
    if (rank > NC_MAX_RANK) NC_FAIL(c->w, NC_E_SHAPE, "%d dims, at most %d are supported", rank, NC_MAX_RANK);
    if (state == NC_SHAPE_UNKNOWN) return nc_out_unknown(c, 0, x->elem, rank);
    NC_TRY(nc_shape_mark_axes(c, axes, n, rank, added));
    for (int k = 0; k < rank; k++) dims[k] = added[k] ? nc_dim_const(c->dims, 1) : x->dims[from++];
    return nc_out(c, 0, x->elem, rank, dims);
}

#define UNSQUEEZE(types) IN({"data", types}, {"axes", T_I64}), OUT({"expanded", SAME(0)}), NO_ATTR
#define UNSQUEEZE_ATTR(types) IN({"data", types}), OUT({"expanded", SAME(0)}), ATTR(A_INTS_REQ("axes"))
static const nc_op_version unsqueeze_versions[] = {{.since = 25, UNSQUEEZE(T_TENSOR_ALL | T_NARROW_25)},
                                                   {.since = 24, UNSQUEEZE(T_TENSOR_ALL | T_NARROW_24)},
                                                   {.since = 23, UNSQUEEZE(T_TENSOR_ALL | T_NARROW_23)},
                                                   {.since = 21, UNSQUEEZE(T_TENSOR_ALL | T_NARROW_21)},
                                                   {.since = 13, UNSQUEEZE(T_TENSOR_ALL)},
                                                   {.since = 11, UNSQUEEZE_ATTR(T_TENSOR)},
                                                   {.since = 1, UNSQUEEZE_ATTR(T_TENSOR)},
                                                   {0}};

const nc_card nc_card_unsqueeze = {.name = "Unsqueeze",
                                   .doc = "With dims of 1 put in at the named axes.",
                                   .versions = unsqueeze_versions,
                                   .traits = KEEPS_STRIDES,
                                   .host_in = 1u << 1,
                                   .no_grad_in = 1u << 1,
                                   .infer = unsqueeze_infer,
                                   .fold = nc_shape_fold_same,
                                   .grad = nc_shape_grad_reshape,
                                   .is_identity = nc_shape_same_type};
