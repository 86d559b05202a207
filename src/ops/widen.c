/* ops/widen.c: narrow operands of a kernel call as wide ones in the workspace, see widen.h. The workspace holds the
 * converted inputs, the results, then the kernel's own; the layout follows from the actual dims at each run. */
#include "ops/widen.h"

#include "base/intmath.h"
#include "kernels/cpu/move/move.h"

enum { MAX_OPERANDS = 20 }; /* in and out together, as LSTMGrad has them: they lie on the stack */

static nc_dtype wide_of(nc_types which, nc_dtype t) {
    if (t <= NC_UNDEFINED || t >= NC_N_DTYPES || !(which & NC_BIT(t))) return t;
    if (nc_dtype_is_float(t)) return NC_FLOAT;
    return t == NC_UINT32 ? NC_INT64 : NC_INT32;
}

static size_t wide_bytes(nc_dtype wide, const nc_tensor *t) {
    return nc_align64((size_t)nc_tensor_numel(t) * nc_dtype_bytes(wide));
}

/* The tensor as the kernel sees it, dense at *at, which moves on. */
static void widened(nc_types which, const nc_tensor *t, char **at, size_t *bytes, nc_tensor *w) {
    nc_tensor_copy(w, t);
    w->dtype = wide_of(which, t->dtype);
    if (w->dtype == t->dtype) return;
    size_t n = wide_bytes(w->dtype, t);
    nc_dense_strides(w->dims, w->rank, w->strides);
    if (*at != NULL) {
        w->data = t->data != NULL ? *at : NULL;
        *at += n;
    }
    *bytes += n;
}

size_t nc_widen_workspace(nc_types which, uint32_t left, nc_workspace_fn inner, const void *state, const nc_tensor *in,
                          int n_in, const nc_tensor *out, int n_out) {
    nc_tensor wide[MAX_OPERANDS];
    size_t bytes = 0;
    char *nowhere = NULL;
    /* More operands than that are refused by run, which then needs no workspace. */
    if (n_in + n_out > MAX_OPERANDS) return 0;
    for (int i = 0; i < n_in; i++) widened(left >> i & 1 ? 0 : which, &in[i], &nowhere, &bytes, &wide[i]);
    for (int i = 0; i < n_out; i++) widened(which, &out[i], &nowhere, &bytes, &wide[n_in + i]);
    return bytes + (inner != NULL ? inner(state, wide, n_in, wide + n_in, n_out) : 0);
}

nc_code nc_widen_run(nc_types which, uint32_t left, nc_kernel inner, const nc_call *c) {
    nc_tensor wide_tensors[MAX_OPERANDS], *pointers[MAX_OPERANDS], *in = wide_tensors, *out = in + c->n_in;
    if (c->n_in + c->n_out > MAX_OPERANDS)
        return nc_diag_set(c->diag, NC_E_LIMIT, c->node, c->op, "%d operands, at most %d can be converted",
                           c->n_in + c->n_out, (int)MAX_OPERANDS);
    size_t bytes = 0;
    char *at = c->workspace;
    for (int i = 0; i < c->n_in; i++) {
        widened(left >> i & 1 ? 0 : which, c->in[i], &at, &bytes, &in[i]);
        if (in[i].dtype != c->in[i]->dtype && in[i].data != NULL) NC_TRY(nck_convert(c->in[i], &in[i], c->pool));
    }
    for (int i = 0; i < c->n_out; i++) widened(which, c->out[i], &at, &bytes, &out[i]);
    nc_call wide = *c;
    wide.in = nc_tensor_pointers(pointers, in, c->n_in);
    wide.out = nc_tensor_pointers(pointers + c->n_in, out, c->n_out);
    wide.workspace = at;
    wide.bytes_workspace = c->bytes_workspace - bytes;
    NC_TRY(inner(&wide));
    for (int i = 0; i < c->n_out; i++)
        if (out[i].dtype != c->out[i]->dtype && out[i].data != NULL) NC_TRY(nck_convert(&out[i], c->out[i], c->pool));
    return NC_OK;
}
