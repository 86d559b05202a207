/* transform/infer/products.c: a product with constant weights, and a constant added to it, in front of a Conv of one
 * tap that nothing but moves of axes lies between: both are linear, so the product goes into the Conv's weights, if
 * that leaves fewer multiplications. Conv(moves(x W + b), V) + c becomes Conv(moves(x), V W') + (V b + c), W' turned;
 * the new weights are summed as the product's own kernel sums.
 *
 * The moves are those of networks with rows of channels: Transpose [0,2,1] and Reshape to an image, or a Transpose that
 * brings the last axis of an image to the front. Decoders of such networks project each scale, then mix channels. */
#include "ops/host_eval.h"
#include "transform/rewrite.h"
#include "transform/transform.h"

#include <string.h>

enum { MOST = 1 << 25 }; /* multiplications for new weights: about a millisecond */

/* rows is x W + b, turned and image what the moves make of it; without a Reshape they are one. */
typedef struct site {
    nc_work *w;
    nc_node *conv, *product;
    nc_value *rows, *turned, *image;
    const nc_literal *V, *W, *b, *c; /* (K,M,1..), (I,M), (M) and (K) or NULL */
    int64_t I, M, K;
} site;

static bool is_plain(const nc_value *v) { return nc_rewrite_fixed(v) && v->lit->dtype == NC_FLOAT; }

static bool all_are(const nc_node *n, const char *attr, int64_t want) {
    int count = 0;
    const int64_t *v = nc_attr_ints(n, attr, &count);
    for (int i = 0; v != NULL && i < count; i++)
        if (v[i] != want) return false;
    return true;
}

static bool find_conv(nc_node *n, site *s) {
    if (!nc_rewrite_is(n, "Conv") || !nc_rewrite_free(n) || !is_plain(n->in[1])) return false;
    s->conv = n;
    s->V = n->in[1]->lit;
    if (s->V->rank < 3 || s->V->n != s->V->dims[0] * s->V->dims[1] || nc_attr_int(n, "group") != 1) return false;
    s->K = s->V->dims[0], s->M = s->V->dims[1];
    bool has_c = n->n_in > 2 && n->in[2] != NULL;
    if (has_c && (!is_plain(n->in[2]) || n->in[2]->lit->n != s->K)) return false;
    s->c = has_c ? n->in[2]->lit : NULL;
    return all_are(n, "pads", 0) && all_are(n, "strides", 1) && s->V->n > 0;
}

/* Is v alone what the node behind it makes, and that node used for nothing else? */
static bool is_link(const nc_value *v) {
    return v != NULL && v->origin == NC_FROM_NODE && nc_rewrite_only(v) && nc_rewrite_tensor(v) &&
           nc_rewrite_free(v->def) && nc_rewrite_tensor(v->def->in[0]);
}

/* Is n a Transpose that brings the last axis to place 1? */
static bool turns(const nc_node *n) {
    int count = 0;
    const int64_t *perm = nc_attr_ints(n, "perm", &count);
    int rank = n->in[0]->type->rank;
    if (perm == NULL || count != rank || rank < 3 || perm[0] != 0 || perm[1] != rank - 1) return false;
    for (int k = 2; k < rank; k++)
        if (perm[k] != k - 1) return false;
    return true;
}

/* The sizes of an image are numbers, but for the first: a Reshape can be told them anew. */
static bool sizes_are_known(const nc_type *t) {
    int64_t d;
    for (int i = 1; i < t->rank; i++)
        if (!nc_dim_is_const(t->dims[i], &d) || d < 1) return false;
    return true;
}

static bool find_moves(site *s) {
    nc_value *v = s->image = s->conv->in[0];
    if (!is_link(v)) return false;
    const nc_type *image = v->type;
    if (nc_rewrite_is(v->def, "Reshape")) {
        if (!sizes_are_known(image) || image->rank != s->V->rank) return false;
        v = v->def->in[0];
        if (!is_link(v) || v->type->rank != 3 || v->type->dims[0] != image->dims[0] ||
            v->type->dims[1] != image->dims[1])
            return false;
    }
    s->turned = v;
    if (!nc_rewrite_is(v->def, "Transpose") || !turns(v->def)) return false;
    s->rows = v->def->in[0];
    return s->rows->type->rank == (s->turned == s->image ? image->rank : 3);
}

/* x W + b, or x W. */
static bool find_product(site *s) {
    nc_value *v = s->rows;
    if (!is_link(v)) return false;
    if (nc_rewrite_is(v->def, "Add") && v->def->n_in == 2 && v->def->n_attrs == 0) {
        int i = is_plain(v->def->in[1]) ? 1 : 0;
        const nc_value *b = v->def->in[i];
        if (!is_plain(b) || b->lit->n != s->M || b->lit->rank < 1 || b->lit->dims[b->lit->rank - 1] != s->M)
            return false;
        s->b = b->lit;
        v = v->def->in[1 - i];
        if (!is_link(v) || v->type->rank != s->rows->type->rank) return false;
    }
    s->product = nc_rewrite_def(v, "MatMul");
    if (s->product == NULL || !is_plain(s->product->in[1]) || s->product->in[1]->lit->rank != 2) return false;
    s->W = s->product->in[1]->lit;
    s->I = s->W->dims[0];
    return s->W->dims[1] == s->M && s->I > 0 && s->product->in[0]->type->rank == s->rows->type->rank;
}

static bool pays(const site *s) {
    double made = (double)s->I * (double)s->K, left = (double)s->M * (double)(s->I + s->K);
    return made < left && made * (double)s->M <= MOST;
}

/* ---- the new weights ---- */

static float at(const nc_literal *l, int64_t i) {
    float v;
    memcpy(&v, (const char *)l->data + i * (int64_t)sizeof v, sizeof v);
    return v;
}

static nc_tensor matrix(const nc_literal *l, int64_t rows, int64_t columns, int64_t rs, int64_t cs) {
    return (nc_tensor){.data = l != NULL ? (void *)(uintptr_t)l->data : NULL,
                       .dtype = NC_FLOAT,
                       .rank = 2,
                       .dims = {rows, columns},
                       .strides = {rs, cs}};
}

/* V W' (K,I), by the product's own kernel: rounded as its results would have been. *held stays NULL where that cannot
 * be run here. */
static nc_code multiply(const site *s, nc_buffer **held) {
    nc_tensor *t = nc_arena_array(&s->w->scratch, 3, sizeof *t);
    bool done;
    NC_NEED(s->w, t);
    t[0] = matrix(s->V, s->K, s->M, s->M, 1);
    t[1] = matrix(s->W, s->M, s->I, 1, s->M);
    t[2] = matrix(NULL, s->K, s->I, s->I, 1);
    nc_code code = nc_host_eval(s->w, s->product, t, NULL, &t[2], held, &done);
    if (code == NC_OK && done) return code;
    nc_buffer_unref(*held);
    *held = NULL;
    return code;
}

static nc_value *new_weights(const site *s, nc_buffer *product) {
    int64_t dims[NC_MAX_RANK];
    for (int i = 0; i < s->V->rank; i++) dims[i] = i == 0 ? s->K : i == 1 ? s->I : 1;
    const char *name = nc_arena_printf(&s->w->scratch, "%s_product", s->conv->in[1]->name);
    nc_literal l = {.dtype = NC_FLOAT, .rank = s->V->rank, .dims = dims, .data = product->ptr, .keeps = product};
    l.n = s->K * s->I, l.bytes = (size_t)l.n * sizeof(float);
    return name != NULL ? nc_edit_const(s->conv->graph, name, &l) : NULL;
}

static nc_value *new_bias(const site *s) {
    float *out = nc_arena_array(&s->w->scratch, (size_t)s->K, sizeof *out);
    for (int64_t k = 0; out != NULL && k < s->K; k++) {
        double sum = s->c != NULL ? (double)at(s->c, k) : 0;
        for (int64_t m = 0; s->b != NULL && m < s->M; m++) sum += (double)at(s->V, k * s->M + m) * (double)at(s->b, m);
        out[k] = (float)sum;
    }
    const nc_literal *l = out != NULL ? nc_edit_literal(s->conv->graph->model, NC_FLOAT, 1, &s->K, out) : NULL;
    const char *name = nc_arena_printf(&s->w->scratch, "%s_product_bias", s->conv->in[1]->name);
    return l != NULL && name != NULL ? nc_edit_const(s->conv->graph, name, l) : NULL;
}

/* ---- the new moves ---- */

/* A copy of the node behind `made`, over x; its output has I channels along axis 1. */
static nc_value *moved(const site *s, const nc_value *made, nc_value *x) {
    nc_model *m = s->conv->graph->model;
    const nc_type *t = made->type;
    const nc_dim *dims[NC_MAX_RANK];
    int64_t shape[NC_MAX_RANK];
    nc_value *in[2] = {x, NULL};
    for (int i = 0; i < t->rank; i++) dims[i] = i == 1 ? nc_dim_const(m->dims, s->I) : t->dims[i];
    for (int i = 0; i < t->rank; i++)
        if (i == 0 || !nc_dim_is_const(dims[i], &shape[i])) shape[i] = 0;
    bool reshapes = made->def->n_in > 1;
    if (reshapes) in[1] = nc_edit_const_i64(s->conv->graph, NULL, 1, t->rank, shape);
    if (reshapes && in[1] == NULL) return NULL;
    nc_node *n =
        nc_edit_node(s->conv->graph, s->conv, made->def->card, made->def->version, NULL, in, reshapes ? 2 : 1, NULL, 1);
    if (n == NULL) return NULL;
    for (int i = 0; !reshapes && i < made->def->n_attrs; i++)
        if (nc_edit_set_attr(n, &made->def->attrs[i]) != NC_OK) return NULL;
    n->stage = s->conv->stage;
    n->out[0]->type = nc_type_tensor(&m->arena, t->elem, t->rank, dims);
    return n->out[0]->type != NULL ? n->out[0] : NULL;
}

static nc_code fold(const site *s, nc_buffer *product) {
    nc_value *x = moved(s, s->turned, s->product->in[0]), *old = s->conv->in[0];
    if (x != NULL && s->image != s->turned) x = moved(s, s->image, x);
    nc_value *V = new_weights(s, product), *c = s->b != NULL || s->c != NULL ? new_bias(s) : NULL;
    if (x == NULL || V == NULL || (c == NULL && (s->b != NULL || s->c != NULL)))
        NC_FAIL(s->w, NC_E_MEMORY, "out of memory");
    nc_edit_set_in(s->conv, 0, x);
    nc_edit_set_in(s->conv, 1, V);
    if (c != NULL && s->conv->n_in > 2)
        nc_edit_set_in(s->conv, 2, c);
    else if (c != NULL)
        NC_TRY(nc_edit_add_in(s->conv, c));
    for (nc_value *v = old; v != NULL && nc_rewrite_unused(v);) { /* the old moves, the sum, the product */
        nc_node *n = v->def;
        nc_value *next = n == s->product ? NULL : n->in[0]->origin == NC_FROM_NODE ? n->in[0] : n->in[1];
        nc_rewrite_drop(v);
        v = next;
    }
    return NC_OK;
}

nc_code nc_pass_products(nc_work *w, nc_graph *g, int *n_changes) {
    for (nc_node *n = g->first, *next; n != NULL; n = next) {
        next = n->next;
        site s = {.w = w};
        if (!find_conv(n, &s) || !find_moves(&s) || !find_product(&s) || !pays(&s)) continue;
        nc_buffer *product = NULL;
        NC_TRY(multiply(&s, &product));
        if (product == NULL) continue;
        nc_code code = fold(&s, product);
        nc_buffer_unref(product);
        if (code != NC_OK) return code;
        (*n_changes)++;
    }
    return NC_OK;
}
