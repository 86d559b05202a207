/* ops/vision/resize_cpu.c: the CPU kernels of Resize, Upsample and nacre.ResizeGrad over kernels/cpu/vision/resize.h.
 * Linear and cubic work in float, or double for the wide types; integers are rounded to nearest and saturate. */
#include "ops/vision/vision.h"

#include "base/intmath.h"
#include "base/real.h"
#include "kernels/cpu/move/move.h"
#include "kernels/cpu/vision/resize.h"

#include <math.h>
#include <string.h>

typedef struct resizing {
    nck_resize_rule rule;
    nc_resize_inputs in;
    float scales[NC_MAX_RANK];  /* of old versions */
    int n_scales, n_axes, keep; /* n_axes -1: all */
    int axes[NC_MAX_RANK];
    double outside;
} resizing;

/* Which of the n names a string attribute says. */
static nc_code choose(nc_prep *p, const char *attr, const char *const *names, int n, int *out) {
    const char *s = nc_attr_str(p->node, attr);
    for (int k = 0; k < n; k++) {
        if (strcmp(s, names[k]) != 0) continue;
        *out = k;
        return NC_OK;
    }
    NC_FAIL(p->w, NC_E_UNSUPPORTED, "%s is '%s', which is not known", attr, s);
}

static nc_code read_rule(nc_prep *p, resizing *s) {
    static const char *const modes[] = {"nearest", "linear", "cubic", "bilinear"};
    static const char *const coords[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",  "align_corners",
                                         "asymmetric", "tf_crop_and_resize",   "tf_half_pixel_for_nn"};
    static const char *const rounds[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    int mode = 0, place = 0, round = 0;
    NC_TRY(choose(p, "mode", modes, 4, &mode));
    s->rule.mode = mode == 3 ? NCK_RESIZE_LINEAR : (nck_resize_mode)mode;
    if (nc_resize_is_old(p->node)) {
        s->rule.coords = NCK_COORDS_ASYMMETRIC;
        s->rule.round = NCK_ROUND_FLOOR;
        return NC_OK;
    }
    NC_TRY(choose(p, "coordinate_transformation_mode", coords, 7, &place));
    NC_TRY(choose(p, "nearest_mode", rounds, 4, &round));
    s->rule.coords = (nck_resize_coords)place;
    s->rule.round = (nck_resize_round)round;
    s->rule.whole = nc_resize_is_whole(p->node);
    s->rule.cubic_a = nc_attr_float(p->node, "cubic_coeff_a");
    s->rule.exclude_outside = nc_attr_int(p->node, "exclude_outside") != 0;
    s->rule.antialias = nc_attr_has(p->node, "antialias") && nc_attr_int(p->node, "antialias") != 0;
    s->outside = nc_attr_float(p->node, "extrapolation_value");
    return nc_resize_keep(p->w, p->node, &s->keep);
}

nc_code nc_resize_prepare(nc_prep *p) {
    const nc_node *n = p->node;
    resizing *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (resizing){.in = nc_resize_inputs_of(n), .n_axes = -1};
    NC_TRY(read_rule(p, s));
    int count, rank = n->in[0]->type->rank;
    const int64_t *axes = nc_attr_ints(n, "axes", &count);
    if (axes != NULL) {
        if (count > NC_MAX_RANK) NC_FAIL(p->w, NC_E_BAD_GRAPH, "axes has %d elements", count);
        s->n_axes = count;
        for (int k = 0; k < count; k++) s->axes[k] = (int)(axes[k] < 0 ? axes[k] + rank : axes[k]);
    }
    const nc_attr *scales = nc_node_attr(n, "scales");
    if (scales != NULL) {
        s->n_scales = scales->n < NC_MAX_RANK ? scales->n : NC_MAX_RANK;
        memcpy(s->scales, scales->floats, (size_t)s->n_scales * sizeof *s->scales);
    } else if (nc_attr_has(n, "height_scale")) {
        float v[4] = {1, 1, (float)nc_attr_float(n, "height_scale"), (float)nc_attr_float(n, "width_scale")};
        s->n_scales = 4;
        memcpy(s->scales, v, sizeof v);
    }
    p->state = s;
    return NC_OK;
}

static const nc_tensor *argument(const nc_call *c, int i) {
    bool there = i >= 0 && i < c->n_in && c->in[i]->data != NULL && nc_tensor_numel(c->in[i]) > 0;
    return there ? c->in[i] : NULL;
}

static nc_code resize_wrong(const nc_call *c, const char *what) {
    return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "%s", what);
}

/* Scales of the asked axes; x and y are the small and the resized one. */
static nc_code read_scales(const nc_call *c, const nc_tensor *x, int n, const int *axes, double *scale) {
    const resizing *s = c->state;
    const nc_tensor *scales = argument(c, s->in.scales), *sizes = argument(c, s->in.sizes);
    int64_t size[NC_MAX_RANK], want[NC_MAX_RANK], got[NC_MAX_RANK];
    if (s->n_scales > 0 || scales != NULL) {
        if ((scales != NULL ? nc_tensor_numel(scales) : s->n_scales) != n)
            return resize_wrong(c, "scales has another length than the axes");
        for (int k = 0; k < n; k++) scale[k] = scales != NULL ? nc_tensor_get_any(scales, k) : (double)s->scales[k];
        return NC_OK;
    }
    if (sizes == NULL || nc_tensor_numel(sizes) != n) return resize_wrong(c, "sizes has another length than the axes");
    for (int k = 0; k < n; k++) {
        size[k] = x->dims[axes[k]];
        want[k] = ((const int64_t *)sizes->data)[k];
    }
    nc_resize_fit(s->keep, n, size, want, scale, got);
    return NC_OK;
}

/* The axes that are really resized, with their tables at *memory; memory NULL: without. */
static nc_code read_axes(const nc_call *c, const nc_tensor *x, const nc_tensor *y, nck_resize_axis *out, int *n_out,
                         char **memory) {
    const resizing *s = c->state;
    int n = s->n_axes >= 0 ? s->n_axes : x->rank, axes[NC_MAX_RANK];
    double scale[NC_MAX_RANK];
    bool crops = s->rule.coords == NCK_COORDS_TF_CROP;
    const nc_tensor *roi = crops ? argument(c, s->in.roi) : NULL;
    *n_out = 0;
    for (int k = 0; k < n; k++) axes[k] = s->n_axes >= 0 ? s->axes[k] : k;
    NC_TRY(read_scales(c, x, n, axes, scale));
    if (crops && (roi == NULL || nc_tensor_numel(roi) != 2 * n))
        return resize_wrong(c, "roi has another length than the axes");
    bool taken[NC_MAX_RANK] = {false};
    for (int d = 0; d < x->rank; d++)
        for (int k = 0; k < n; k++) {
            if (axes[k] != d || taken[d]) continue;
            taken[d] = true;
            nck_resize_axis a = {.axis = d, .in = x->dims[d], .out = y->dims[d], .scale = scale[k], .roi = {0, 1}};
            if (roi != NULL) a.roi[0] = nc_tensor_get_any(roi, k), a.roi[1] = nc_tensor_get_any(roi, n + k);
            bool whole = a.roi[0] == 0 && a.roi[1] == 1;
            if (fabs(a.scale - 1) < 1e-9 && a.in == a.out && whole) continue;
            if (a.in == 0 && a.out > 0) return resize_wrong(c, "an empty axis cannot be resized");
            if (!(a.scale > 0) && a.out > 0) return resize_wrong(c, "a scale is not positive");
            a.taps = nck_resize_taps(&s->rule, &a);
            if (memory != NULL) {
                nck_resize_table(&s->rule, &a, *memory);
                *memory += nc_align64(nck_resize_table_bytes(a.in, a.out));
            }
            out[(*n_out)++] = a;
        }
    return NC_OK;
}

nc_code nc_resize_axes(const nc_call *c, const nc_tensor *x, const nc_tensor *y, nck_resize_axis *axes, int *n) {
    return read_axes(c, x, y, axes, n, NULL);
}

const nck_resize_rule *nc_resize_rule(const void *state) { return &((const resizing *)state)->rule; }

static nc_dtype work_type(nc_dtype t) {
    return t == NC_DOUBLE || t == NC_INT32 || t == NC_INT64 || t == NC_UINT32 || t == NC_UINT64 ? NC_DOUBLE : NC_FLOAT;
}

static size_t tables_bytes(const nc_tensor *x, const nc_tensor *y) {
    size_t n = 0;
    for (int k = 0; k < x->rank; k++) n += nc_align64(nck_resize_table_bytes(x->dims[k], y->dims[k]));
    return n;
}

/* Tables; x and y in the working type where they have another; two buffers for the passes. */
static size_t bytes_needed(const nc_tensor *x, const nc_tensor *y) {
    nc_dtype t = work_type(x->dtype);
    size_t elem = nc_dtype_bytes(t), bytes = tables_bytes(x, y);
    if (t != x->dtype)
        bytes += nc_align64((size_t)nc_tensor_numel(x) * elem) + nc_align64((size_t)nc_tensor_numel(y) * elem);
    return bytes + 2 * (size_t)nck_resize_buffer(x, y) * elem;
}

size_t nc_resize_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const resizing *s = state;
    (void)n_in, (void)n_out;
    return s->rule.mode == NCK_RESIZE_NEAREST ? tables_bytes(&in[0], &out[0]) : bytes_needed(&in[0], &out[0]);
}

size_t nc_resize_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)n_out;
    return bytes_needed(&out[0], &in[0]);
}

static void round_all(const nc_tensor *t) {
    int64_t n = nc_tensor_numel(t);
    for (int64_t i = 0; i < n; i++) {
        if (t->dtype == NC_FLOAT)
            ((float *)t->data)[i] = rintf(((float *)t->data)[i]);
        else
            ((double *)t->data)[i] = rint(((double *)t->data)[i]);
    }
}

nc_code nc_resize_outside(const void *state, nc_dtype t, char value[16]) {
    double v = ((const resizing *)state)->outside;
    nc_tensor from = {.data = &v, .dtype = NC_DOUBLE}, to = {.data = value, .dtype = t};
    return nck_convert(&from, &to, NULL);
}

static nc_code fill_outside(const nc_call *c, const nck_resize_axis *axes, int n) {
    const resizing *s = c->state;
    char value[16];
    if (s->rule.coords != NCK_COORDS_TF_CROP) return NC_OK;
    NC_TRY(nc_resize_outside(s, c->out[0]->dtype, value));
    nck_resize_fill_outside(axes, n, c->out[0], value);
    return NC_OK;
}

/* t in the working type: itself, or with memory of the workspace. */
static nc_tensor working(const nc_tensor *t, char **memory) {
    nc_tensor w = *t;
    w.dtype = work_type(t->dtype);
    if (w.dtype == t->dtype) return w;
    w.data = *memory;
    *memory += nc_align64((size_t)nc_tensor_numel(t) * nc_dtype_bytes(w.dtype));
    return w;
}

nc_code nc_resize_run(const nc_call *c) {
    const resizing *s = c->state;
    const nc_tensor *x = c->in[0], *y = c->out[0];
    nck_resize_axis axes[NC_MAX_RANK];
    char *memory = c->workspace;
    int n;
    NC_TRY(read_axes(c, x, y, axes, &n, &memory));
    if (s->rule.mode == NCK_RESIZE_NEAREST) {
        nck_resize_nearest(x, axes, n, y, c->pool);
        return fill_outside(c, axes, n);
    }
    nc_tensor wx = working(x, &memory), wy = working(y, &memory);
    if (wx.data != x->data) NC_TRY(nck_convert(x, &wx, c->pool));
    nck_resize(&wx, axes, n, &wy, memory, c->pool);
    if (wy.data != y->data) {
        if (!nc_dtype_is_float(y->dtype)) round_all(&wy);
        NC_TRY(nck_convert(&wy, y, c->pool));
    }
    return fill_outside(c, axes, n);
}

nc_code nc_resize_grad_run(const nc_call *c) {
    const nc_tensor *dy = c->in[0], *dx = c->out[0];
    nck_resize_axis axes[NC_MAX_RANK];
    char *memory = c->workspace;
    int n;
    NC_TRY(read_axes(c, dx, dy, axes, &n, &memory));
    nc_tensor wdy = working(dy, &memory), wdx = working(dx, &memory);
    if (wdy.data != dy->data) NC_TRY(nck_convert(dy, &wdy, c->pool));
    nck_resize_grad(&wdy, axes, n, &wdx, memory, c->pool);
    return wdx.data != dx->data ? nck_convert(&wdx, dx, c->pool) : NC_OK;
}
