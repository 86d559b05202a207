/* ops/scatter/picking.c: see picking.h. */
#include "ops/scatter/picking.h"

#include "ops/card.h"

#include <string.h>

static nc_code read_how(nc_prep *p, nck_combine *how) {
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    const char *name = nc_node_attr(p->node, "reduction") != NULL ? nc_attr_str(p->node, "reduction") : "none";
    for (int k = 0; k < 5; k++) {
        if (strcmp(name, names[k]) != 0) continue;
        *how = (nck_combine)k;
        return NC_OK;
    }
    NC_FAIL(p->w, NC_E_UNSUPPORTED, "reduction is '%s', expected none, add, mul, max or min", name);
}

nc_code nc_picking_read(nc_prep *p, nc_picking *out) {
    const nc_attr *batch = nc_node_attr(p->node, "batch_dims"), *axis = nc_node_attr(p->node, "axis");
    *out = (nc_picking){.axis = axis != NULL ? axis->i : 0, .batch = batch != NULL ? batch->i : 0};
    return read_how(p, &out->how);
}

int nc_picking_axis(const nc_picking *s, const nc_tensor *x) {
    return (int)(s->axis < 0 ? s->axis + x->rank : s->axis);
}

bool nc_picking_only_puts(const nc_node *n, const char **why) {
    *why = "updates are combined with data";
    const nc_attr *a = nc_node_attr(n, "reduction");
    return a == NULL || strcmp(nc_attr_str(n, "reduction"), "none") == 0;
}

nc_code nc_picking_check_elements(const nc_call *c, int axis) {
    const nc_tensor *x = c->in[0], *at = c->in[1];
    for (int k = 0; k < x->rank; k++)
        if (k != axis && at->dims[k] > x->dims[k])
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op,
                               "dim %d of indices is %lld, of data %lld: expected no more", k, (long long)at->dims[k],
                               (long long)x->dims[k]);
    return c->n_in > 2 ? nc_call_expect(c, 2, at->dims, at->rank) : NC_OK;
}

nc_code nc_picking_check_rows(const nc_call *c, const nc_tensor *x, int64_t batch) {
    const nc_tensor *at = c->in[1];
    int64_t dims[2 * NC_MAX_RANK], m = at->dims[at->rank - 1];
    int n = 0;
    if (batch + m > x->rank)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op,
                           "indices pick along %lld dims behind %lld batch dims, data has %d", (long long)m,
                           (long long)batch, x->rank);
    for (int k = 0; k < at->rank - 1; k++) dims[n++] = at->dims[k];
    for (int64_t k = batch + m; k < x->rank; k++) dims[n++] = x->dims[k];
    return nc_call_expect(c, 2, dims, n);
}

nc_code nc_picking_check_batch(const nc_call *c, const nc_tensor *x, const nc_tensor *at, int64_t batch) {
    for (int k = 0; k < batch; k++)
        if (x->dims[k] != at->dims[k])
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "batch dim %d is %lld in data, %lld in indices", k,
                               (long long)x->dims[k], (long long)at->dims[k]);
    return NC_OK;
}
