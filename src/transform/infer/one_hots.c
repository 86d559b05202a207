/* transform/infer/one_hots.c: a product of rows that hold a single 1 is a choice of rows. What jax and TensorFlow write
 * for an embedding, MatMul(Cast(Equal(x, 0 1 .. n-1)), W) with x (..,1), W (n,d), becomes Gather(W', Clip(x, -1, n)):
 * W' (n+1,d) has a row of zeros behind W's, which all x that are no row's number are given. W is finite: 0 times an
 * infinity would be NaN in every row. */
#include "transform/pattern.h"
#include "transform/transform.h"

#include <math.h>
#include <string.h>

enum { AXES_BY_INPUT = 13 }; /* of Squeeze; Clip of integers is older */

static bool is_index(nc_dtype t) { return t == NC_INT32 || t == NC_INT64; }

/* Is it (1,..,1,n) with the numbers of its places? */
static bool counts(const nc_literal *k) {
    double v;
    if (k->rank < 1 || k->dims[k->rank - 1] != k->n) return false;
    for (int64_t i = 0; i < k->n; i++)
        if (!nc_rewrite_number(k, i, &v) || v != (double)i) return false;
    return true;
}

static bool is_finite(const nc_literal *W) {
    for (int64_t i = 0; i < W->n; i++) {
        float v;
        memcpy(&v, (const char *)W->data + i * (int64_t)sizeof v, sizeof v);
        if (!isfinite(v)) return false;
    }
    return true;
}

static bool fits_rows(const nc_value *x, const nc_value *k, const nc_value *W) {
    int64_t last;
    if (!nc_rewrite_tensor(x) || !is_index(x->type->elem) || !nc_rewrite_only(W)) return false;
    int rank = x->type->rank;
    return rank > 1 && nc_dim_is_const(x->type->dims[rank - 1], &last) && last == 1 && k->lit->rank <= rank &&
           counts(k->lit) && W->lit->dtype == NC_FLOAT && W->lit->rank == 2 && W->lit->dims[0] == k->lit->n &&
           k->lit->n > 0 && is_finite(W->lit);
}

/* W with a row of zeros behind it. */
static nc_value *padded(nc_work *w, nc_graph *g, const nc_value *W) {
    const nc_literal *l = W->lit;
    int64_t dims[2] = {l->dims[0] + 1, l->dims[1]};
    nc_buffer *b = nc_buffer_host(l->bytes + (size_t)dims[1] * sizeof(float));
    const char *name = nc_arena_printf(&w->scratch, "%s_rows", W->name);
    if (b == NULL || name == NULL) {
        nc_buffer_unref(b);
        return NULL;
    }
    memcpy(b->ptr, l->data, l->bytes);
    memset((char *)b->ptr + l->bytes, 0, (size_t)dims[1] * sizeof(float));
    nc_literal made = {.dtype = NC_FLOAT, .rank = 2, .dims = dims, .data = b->ptr, .keeps = b};
    made.n = dims[0] * dims[1], made.bytes = (size_t)made.n * sizeof(float);
    nc_value *v = nc_edit_const(g, name, &made);
    nc_buffer_unref(b);
    return v;
}

/* x without its last dim, kept between -1, which is the last row, and n, which is that row too. */
static nc_code row_numbers(nc_work *w, nc_node *before, nc_value *x, int64_t n, nc_value **out) {
    nc_graph *g = before->graph;
    int64_t axis = -1;
    const nc_type *t = nc_type_tensor(&g->model->arena, x->type->elem, x->type->rank - 1, x->type->dims);
    nc_value *squeeze[2] = {x, nc_edit_const_i64(g, NULL, 1, 1, &axis)}, *flat = NULL;
    nc_value *clip[3] = {NULL, nc_edit_const_scalar(g, NULL, x->type->elem, -1),
                         nc_edit_const_scalar(g, NULL, x->type->elem, (double)n)};
    *out = NULL;
    if (t == NULL || squeeze[1] == NULL || clip[1] == NULL || clip[2] == NULL)
        NC_FAIL(w, NC_E_MEMORY, "out of memory");
    NC_TRY(nc_rewrite_insert(w, before, "Squeeze", squeeze, 2, NULL, 0, t, &flat));
    if (flat == NULL) return NC_OK;
    clip[0] = flat;
    return nc_rewrite_insert(w, before, "Clip", clip, 3, NULL, 0, t, out);
}

static nc_code chosen(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    nc_value *x = nc_match_value(m, "x"), *k = nc_match_value(m, "k"), *W = nc_match_value(m, "W");
    nc_graph *g = m->root->graph;
    *fits = nc_model_opset(g->model, "") >= AXES_BY_INPUT && nc_rewrite_tensor(m->root->out[0]) && fits_rows(x, k, W);
    if (!*fits) return NC_OK;
    NC_TRY(row_numbers(w, m->root, x, k->lit->n, &made->in[1]));
    *fits = made->in[1] != NULL;
    if (!*fits) return NC_OK;
    made->in[0] = padded(w, g, W);
    made->n_in = 2;
    NC_NEED(w, made->in[0]);
    return NC_OK;
}

static const nc_pattern rows[] = {
    {.text = "MatMul(Cast<to = 1>(Equal(x, #k)), #W)", .op = "Gather", .inputs = "W x", .where = chosen},
};

nc_code nc_pass_one_hots(nc_work *w, nc_graph *g, int *n_changes) {
    return nc_pattern_apply(w, g, rows, sizeof rows / sizeof rows[0], n_changes);
}
