/* ops/pool/pool_parts.c: AveragePoolGrad as what ONNX has, for models that others run: dY over the number of taps of
 * each window, spread by a ConvTranspose with ones, every channel as a row of the batch. The number of taps is a
 * product over dims, so that each dim has a constant of its own; sizes must be known. */
#include "ops/pool/pool_parts.h"

#include "ops/window.h"

typedef struct spread {
    nc_builder *b;
    nc_window a;
    int n;
    int64_t in[NC_WINDOW_MAX_SPATIAL], out[NC_WINDOW_MAX_SPATIAL], k[NC_WINDOW_MAX_SPATIAL];
    int64_t begin[NC_WINDOW_MAX_SPATIAL], end[NC_WINDOW_MAX_SPATIAL];
    bool pads_count;
} spread;

static bool known_dims(const nc_value *v, int n, int64_t *dims) {
    for (int i = 0; i < n; i++)
        if (!nc_dim_is_const(v->type->dims[i + 2], &dims[i])) return false;
    return true;
}

static nc_code read_spread(spread *s, const nc_node *n) {
    const nc_type *x = n->in[1]->type, *dy = n->in[0]->type;
    if (!x || !dy || x->rank < 3 || dy->rank != x->rank)
        NC_FAIL(s->b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    s->n = x->rank - 2;
    NC_TRY(nc_window_read(s->b->w, n, s->n, &s->a));
    NC_TRY(nc_window_ints(s->b->w, n, "kernel_shape", s->n, 1, 1, s->k));
    if (!known_dims(n->in[1], s->n, s->in) || !known_dims(n->in[0], s->n, s->out))
        NC_FAIL(s->b->w, NC_E_UNSUPPORTED, "its pieces need known sizes");
    for (int i = 0; i < s->n; i++) nc_window_pads(&s->a, i, s->in[i], s->k[i], &s->begin[i], &s->end[i]);
    s->pads_count = nc_attr_int(n, "count_include_pad") != 0;
    return NC_OK;
}

/* dy over the taps that its windows have along dim i. */
static nc_value *over_taps(spread *s, nc_value *dy, int i, nc_dtype t) {
    double *taps = nc_arena_array(&s->b->w->scratch, (size_t)s->out[i] + 1, sizeof *taps);
    int64_t dims[NC_MAX_RANK];
    if (!taps) {
        s->b->code = nc_fail(s->b->w, NC_E_MEMORY, "out of memory");
        return NULL;
    }
    int64_t low = s->pads_count ? 0 : s->begin[i];
    int64_t high = s->pads_count ? s->begin[i] + s->in[i] + s->end[i] : s->begin[i] + s->in[i];
    for (int64_t o = 0; o < s->out[i]; o++)
        for (int64_t k = 0; k < s->k[i]; k++) {
            int64_t at = o * s->a.strides[i] + k * s->a.dilations[i];
            taps[o] += at >= low && at < high;
        }
    for (int d = 0; d < s->n + 2; d++) dims[d] = d == i + 2 ? s->out[i] : 1;
    const nc_literal *lit = nc_edit_literal(s->b->graph->model, NC_DOUBLE, s->n + 2, dims, taps);
    nc_value *count = lit ? nc_edit_const(s->b->graph, NULL, lit) : NULL;
    if (!count) {
        s->b->code = nc_fail(s->b->w, NC_E_MEMORY, "out of memory");
        return NULL;
    }
    return nc_build1(s->b, "Div", 2, dy, nc_build_cast(s->b, count, t));
}

/* (N,C,...) as (N*C,1,...) */
static nc_value *as_rows(spread *s, nc_value *v, const int64_t *dims) {
    int64_t shape[NC_MAX_RANK] = {-1, 1};
    for (int i = 0; i < s->n; i++) shape[i + 2] = dims[i];
    return nc_build1(s->b, "Reshape", 2, v, nc_build_ints(s->b, shape, s->n + 2));
}

nc_code nc_average_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    spread s = {.b = b};
    NC_TRY(read_spread(&s, n));
    nc_value *dy = n->in[0], *x = n->in[1];
    nc_dtype t = dy->type->elem;
    for (int i = 0; nc_attr_int(n, "divide") && i < s.n; i++) dy = over_taps(&s, dy, i, t);
    int64_t window[NC_MAX_RANK] = {1, 1};
    for (int i = 0; i < s.n; i++) window[i + 2] = s.k[i];
    nc_value *ones = nc_build1(b, "Expand", 2, nc_build_scalar(b, t, 1), nc_build_ints(b, window, s.n + 2));
    nc_value *rows = as_rows(&s, dy, s.out);
    NC_TRY(b->code);
    s.a.group = 1;
    out[0] = nc_build_reshape_like(b, nc_window_spread(b, &s.a, rows, ones, as_rows(&s, x, s.in), s.begin), x);
    return b->code;
}
