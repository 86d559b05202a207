/* ops/arrange/arrange.c: see arrange.h. */
#include "ops/arrange/arrange.h"

#include "ops/card.h"

#include <string.h>

nc_code nc_arrange_wrong(const nc_call *c, const char *text) {
    return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "%s", text);
}

/* ---- Pad ---- */

static nc_code read_mode(nc_prep *p, nck_pad_mode *mode) {
    static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
    const char *name = nc_attr_str(p->node, "mode");
    for (int k = 0; k < 4; k++) {
        if (strcmp(name, names[k]) != 0) continue;
        *mode = (nck_pad_mode)k;
        return NC_OK;
    }
    NC_FAIL(p->w, NC_E_BAD_GRAPH, "mode is '%s', expected constant, reflect, edge or wrap", name);
}

static void read_value(const nc_node *n, nc_padding *s) {
    float f = (float)nc_attr_float(n, "value");
    double d = (double)f;
    uint16_t h = nc_f32_to_f16(f);
    nc_dtype t = n->in[0]->type->elem;
    if (t == NC_FLOAT)
        memcpy(s->value, &f, 4);
    else if (t == NC_DOUBLE)
        memcpy(s->value, &d, 8);
    else
        memcpy(s->value, &h, 2);
}

nc_code nc_padding_read(nc_prep *p, nc_padding *out) {
    *out = (nc_padding){0};
    NC_TRY(read_mode(p, &out->mode));
    const char *name = nc_attr_has(p->node, "paddings") ? "paddings" : "pads";
    out->by_attr = nc_attr_has(p->node, name);
    if (!out->by_attr) return NC_OK;
    const int64_t *v = nc_attr_ints(p->node, name, &out->n);
    if (out->n > 2 * NC_MAX_RANK) NC_FAIL(p->w, NC_E_BAD_GRAPH, "%s has %d elements", name, out->n);
    memcpy(out->pads, v, (size_t)out->n * sizeof *v);
    read_value(p->node, out);
    return NC_OK;
}

static int64_t int_at(const nc_tensor *t, int64_t i) {
    return t->dtype == NC_INT32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

nc_code nc_padding_begin_at(const nc_padding *s, const nc_call *c, int i_pads, int64_t *begin) {
    enum { AXES = 3 };
    int rank = c->in[0]->rank;
    const nc_tensor *pads = s->by_attr ? NULL : c->in[i_pads];
    const nc_tensor *axes = AXES < c->n_in && c->in[AXES]->data != NULL ? c->in[AXES] : NULL;
    int64_t n = axes != NULL ? nc_tensor_numel(axes) : rank;
    if ((pads != NULL ? nc_tensor_numel(pads) : s->n) != 2 * n)
        return nc_arrange_wrong(c, "pads has another length than axes ask");
    memset(begin, 0, NC_MAX_RANK * sizeof *begin);
    for (int64_t k = 0; k < n; k++) {
        int64_t axis = axes != NULL ? int_at(axes, k) : k;
        if (axis < 0) axis += rank;
        if (axis < 0 || axis >= rank) return nc_arrange_wrong(c, "an axis is out of range");
        begin[axis] = pads != NULL ? int_at(pads, k) : s->pads[k];
    }
    return NC_OK;
}

nc_code nc_padding_begin(const nc_padding *s, const nc_call *c, int64_t *begin) {
    NC_TRY(nc_padding_begin_at(s, c, 1, begin));
    bool repeats = s->mode != NCK_PAD_CONSTANT && nc_tensor_numel(c->out[0]) > 0;
    for (int k = 0; repeats && k < c->in[0]->rank; k++) {
        int64_t first;
        if (nck_pad_left(c->out[0]->dims[k], c->in[0]->dims[k], begin[k], &first) == 0)
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op,
                               "nothing is left to repeat of axis %d: %lld elements, pads begin with %lld", k,
                               (long long)c->in[0]->dims[k], (long long)begin[k]);
    }
    return NC_OK;
}

void *nc_padding_given(const nc_call *c) {
    return c->n_in > 2 && c->in[2]->data != NULL && nc_tensor_numel(c->in[2]) == 1 ? c->in[2]->data : NULL;
}

/* ---- Tile ---- */

nc_code nc_arrange_tile(const nc_call *c, nc_arranged *out) {
    const nc_tensor *x = c->in[0], *y = c->out[0];
    int64_t dims[2 * NC_MAX_RANK], from[2 * NC_MAX_RANK], to[2 * NC_MAX_RANK], sx[NC_MAX_RANK], sy[NC_MAX_RANK];
    int n = 0;
    *out = (nc_arranged){.rank = 1};
    if (nc_tensor_numel(y) == 0) return NC_OK;
    nc_dense_strides(x->dims, x->rank, sx);
    nc_dense_strides(y->dims, y->rank, sy);
    for (int k = 0; k < x->rank; k++) {
        int64_t repeats = y->dims[k] / x->dims[k];
        if (repeats != 1) dims[n] = repeats, from[n] = 0, to[n++] = x->dims[k] * sy[k];
        if (x->dims[k] != 1) dims[n] = x->dims[k], from[n] = sx[k], to[n++] = sy[k];
    }
    if (n > NC_MAX_RANK) return nc_arrange_wrong(c, "too many dims are tiled");
    out->rank = n;
    memcpy(out->dims, dims, (size_t)n * sizeof *dims);
    memcpy(out->from, from, (size_t)n * sizeof *from);
    memcpy(out->to, to, (size_t)n * sizeof *to);
    return NC_OK;
}

/* ---- DepthToSpace, SpaceToDepth ---- */

nc_depth nc_depth_read(const nc_node *n) {
    return (nc_depth){.size = nc_attr_int(n, "blocksize"),
                      .crd = nc_attr_has(n, "mode") && strcmp(nc_attr_str(n, "mode"), "CRD") == 0};
}

/* Between `deep` (N, C*b*b, H, W) and `wide` (N, C, H*b, W*b): strides of both over (n, c, h, i, w, j). */
nc_code nc_arrange_depth(const nc_depth *s, const nc_call *c, bool widens, nc_arranged *out) {
    const nc_tensor *deep = widens ? c->in[0] : c->out[0], *wide = widens ? c->out[0] : c->in[0];
    int64_t b = s->size, n_c = wide->dims[1], h = deep->dims[2], w = deep->dims[3], plane = h * w;
    if (deep->dims[1] != n_c * b * b || wide->dims[2] != h * b || wide->dims[3] != w * b)
        return nc_arrange_wrong(c, "a dim is no multiple of the block");
    int64_t dims[6] = {deep->dims[0], n_c, h, b, w, b}, of_c = s->crd ? b * b : 1, of_i = s->crd ? 1 : n_c;
    int64_t in_deep[6] = {n_c * b * b * plane, of_c * plane, w, b * of_i * plane, 1, of_i * plane};
    int64_t in_wide[6] = {n_c * b * b * plane, b * b * plane, b * w * b, w * b, b, 1};
    *out = (nc_arranged){.rank = 6};
    memcpy(out->dims, dims, sizeof dims);
    memcpy(out->from, widens ? in_deep : in_wide, sizeof in_deep);
    memcpy(out->to, widens ? in_wide : in_deep, sizeof in_wide);
    return NC_OK;
}

/* ---- CenterCropPad ---- */

nc_code nc_arrange_center(const nc_call *c, nc_arranged *out) {
    const nc_tensor *x = c->in[0], *y = c->out[0];
    int64_t n = 1;
    *out = (nc_arranged){.rank = x->rank};
    nc_dense_strides(x->dims, x->rank, out->from);
    nc_dense_strides(y->dims, y->rank, out->to);
    for (int k = 0; k < x->rank; k++) {
        bool crops = x->dims[k] > y->dims[k];
        out->dims[k] = crops ? y->dims[k] : x->dims[k];
        out->at_from += crops ? (x->dims[k] - y->dims[k]) / 2 * out->from[k] : 0;
        out->at_to += crops ? 0 : (y->dims[k] - x->dims[k]) / 2 * out->to[k];
        n *= out->dims[k];
    }
    out->fills = nc_tensor_numel(y) > n;
    return NC_OK;
}
