/* ops/window.c: reads the attributes of sliding windows and says how many places a window has. Which ops have windows
 * is the cards' matter. */
#include "ops/window.h"

#include <string.h>

nc_code nc_window_ints(nc_work *w, const nc_node *n, const char *name, int count, int64_t low, int64_t absent,
                       int64_t *out) {
    int n_given;
    const int64_t *v = nc_attr_ints(n, name, &n_given);
    if (v != NULL && n_given != count)
        NC_FAIL(w, NC_E_SHAPE, "%s has %d numbers, %d are expected", name, n_given, count);
    for (int i = 0; i < count; i++) {
        out[i] = v != NULL ? v[i] : absent;
        if (out[i] < low)
            NC_FAIL(w, NC_E_BAD_GRAPH, "%s holds %lld, at least %lld is expected", name, (long long)out[i],
                    (long long)low);
    }
    return NC_OK;
}

nc_code nc_window_read(nc_work *w, const nc_node *n, int n_spatial, nc_window *a) {
    static const char *const names[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
    if (n_spatial < 1 || n_spatial > NC_WINDOW_MAX_SPATIAL)
        NC_FAIL(w, NC_E_SHAPE, "%d spatial dims are not supported", n_spatial);
    const char *mode = nc_attr_str(n, "auto_pad");
    int k = 0;
    while (mode != NULL && k < 4 && strcmp(names[k], mode) != 0) k++;
    if (k == 4) NC_FAIL(w, NC_E_BAD_GRAPH, "auto_pad is '%s'", mode);
    *a = (nc_window){.n_spatial = n_spatial,
                     .group = nc_attr_int(n, "group"),
                     .auto_pad = (nc_auto_pad)k,
                     .ceil = nc_attr_int(n, "ceil_mode") != 0};
    NC_TRY(nc_window_ints(w, n, "strides", n_spatial, 1, 1, a->strides));
    NC_TRY(nc_window_ints(w, n, "dilations", n_spatial, 1, 1, a->dilations));
    return a->auto_pad == NC_PAD_NOTSET ? nc_window_ints(w, n, "pads", 2 * n_spatial, 0, 0, a->pads) : NC_OK;
}

void nc_window_pads(const nc_window *a, int i, int64_t in, int64_t k, int64_t *begin, int64_t *end) {
    *begin = a->pads[i];
    *end = a->pads[a->n_spatial + i];
    if (a->auto_pad == NC_PAD_NOTSET || a->auto_pad == NC_PAD_VALID) return;
    int64_t out = (in + a->strides[i] - 1) / a->strides[i];
    int64_t total = (out - 1) * a->strides[i] + a->dilations[i] * (k - 1) + 1 - in;
    if (total < 0) total = 0;
    *begin = a->auto_pad == NC_PAD_SAME_UPPER ? total / 2 : total - total / 2;
    *end = total - *begin;
}

const nc_dim *nc_window_out(nc_dims *t, const nc_window *a, int i, const nc_dim *in, const nc_dim *k) {
    const nc_dim *stride = nc_dim_const(t, a->strides[i]), *one = nc_dim_const(t, 1);
    if (a->auto_pad == NC_PAD_SAME_UPPER || a->auto_pad == NC_PAD_SAME_LOWER) return nc_dim_ceildiv(t, in, stride);
    const nc_dim *pads = nc_dim_const(t, a->pads[i] + a->pads[a->n_spatial + i]);
    const nc_dim *reach = nc_dim_mul(t, nc_dim_const(t, a->dilations[i]), nc_dim_sub(t, k, one));
    const nc_dim *room = nc_dim_sub(t, nc_dim_sub(t, nc_dim_add(t, in, pads), reach), one);
    if (!a->ceil) return nc_dim_add(t, nc_dim_floordiv(t, room, stride), one);
    /* A last window that begins in the padding at the end is left out, but never more than that one. */
    const nc_dim *steps = nc_dim_ceildiv(t, room, stride);
    const nc_dim *begun = nc_dim_ceildiv(t, nc_dim_add(t, in, nc_dim_const(t, a->pads[i])), stride);
    return nc_dim_max(t, steps, nc_dim_min(t, nc_dim_add(t, steps, one), begun));
}

nck_window nc_window_kernel(const nc_window *a, const int64_t *in, const int64_t *k, const int64_t *out) {
    nck_window w;
    for (int i = 0; i < NCK_WINDOW_DIMS; i++) {
        int at = i - (NCK_WINDOW_DIMS - a->n_spatial);
        w.in[i] = w.k[i] = w.stride[i] = w.dil[i] = w.out[i] = 1;
        w.pad[i] = w.pad_end[i] = 0;
        if (at < 0) continue;
        w.in[i] = in[at];
        w.k[i] = k[at];
        w.out[i] = out[at];
        w.stride[i] = a->strides[at];
        w.dil[i] = a->dilations[at];
        nc_window_pads(a, at, in[at], k[at], &w.pad[i], &w.pad_end[i]);
    }
    return w;
}
