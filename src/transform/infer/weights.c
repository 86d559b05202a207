/* transform/infer/weights.c: what a channel is multiplied by and what is added to it behind a Conv, a ConvTranspose of
 * one group or a Gemm with constant weights goes into weights and bias: BatchNormalization with running statistics, and
 * Mul, Div, Add, Sub by a constant per channel. y = s * (w x + b) + t is (s w) x + (s b + t); products are taken in
 * double and rounded once. BatchNormalization of the rows of a MatMul goes into its weights and an Add. */
#include "transform/infer/affine.h"
#include "transform/rewrite.h"
#include "transform/transform.h"

#include <string.h>

/* The linear node in front: its output has `channels` along axis 1, weights lie as (outer, channels, inner). */
typedef struct linear {
    nc_node *node;
    int64_t channels, outer, inner;
} linear;

static bool bias_fits(const nc_node *p, int64_t channels) {
    const nc_value *b = p->n_in > 2 ? p->in[2] : NULL;
    return b == NULL || (nc_affine_may_use(b) && b->lit->n == channels && b->lit->rank > 0 &&
                         b->lit->dims[b->lit->rank - 1] == channels);
}

static bool find_linear(const nc_value *v, linear *l) {
    nc_node *conv = nc_rewrite_def(v, "Conv"), *gemm = nc_rewrite_def(v, "Gemm");
    nc_node *turned = nc_rewrite_def(v, "ConvTranspose"), *p = conv != NULL ? conv : gemm != NULL ? gemm : turned;
    if (p == NULL || !nc_rewrite_free(p) || !nc_rewrite_only(v) || !nc_rewrite_tensor(v) ||
        !nc_affine_may_use(p->in[1]))
        return false;
    const nc_literal *weights = p->in[1]->lit;
    if (weights->n == 0 || weights->rank < 2) return false;
    *l = (linear){.node = p, .outer = 1, .inner = 1};
    if (conv != NULL) {
        l->channels = weights->dims[0], l->inner = weights->n / l->channels;
    } else if (turned != NULL) {
        if (nc_attr_int(p, "group") != 1) return false;
        l->channels = weights->dims[1], l->outer = weights->dims[0];
        l->inner = weights->n / l->channels / l->outer;
    } else {
        if (weights->rank != 2 || nc_attr_float(p, "beta") != 1 || nc_attr_has(p, "broadcast")) return false;
        bool by_row = nc_attr_int(p, "transB") != 0;
        l->channels = weights->dims[by_row ? 0 : 1];
        *(by_row ? &l->inner : &l->outer) = weights->n / l->channels;
    }
    return bias_fits(p, l->channels);
}

/* A constant that is one number, or one per channel, seen from an output of that rank. */
static bool per_channel(const nc_value *v, const linear *l, int rank) {
    if (!nc_affine_may_use(v) || v->lit->rank > rank) return false;
    if (v->lit->n == 1) return true;
    int axis = v->lit->rank - rank + 1;
    return axis >= 0 && v->lit->n == l->channels && v->lit->dims[axis] == l->channels;
}

static bool read_arith(const nc_node *n, int i_const, const linear *l, nc_affine *a) {
    bool mul = nc_rewrite_is(n, "Mul"), div = nc_rewrite_is(n, "Div"), add = nc_rewrite_is(n, "Add");
    if (!mul && !div && !add && !nc_rewrite_is(n, "Sub")) return false;
    if (i_const == 0 && !mul && !add) return false;
    if (n->n_attrs > 0 || !per_channel(n->in[i_const], l, n->out[0]->type->rank)) return false;
    for (int64_t c = 0; c < l->channels; c++) {
        double v = nc_affine_number(n->in[i_const], c);
        a->scale[c] = mul ? v : div ? 1 / v : 1;
        a->shift[c] = mul || div ? 0 : add ? v : -v;
    }
    a->scales = mul || div;
    return true;
}

static nc_code set_const(nc_work *w, nc_node *p, int i, const nc_literal *l) {
    const char *name = nc_arena_printf(&w->scratch, "%s_%s", p->name, i == 1 ? "weight" : "bias");
    NC_NEED(w, name);
    nc_value *c = nc_edit_const(p->graph, name, l);
    NC_NEED(w, c);
    if (i < p->n_in)
        nc_edit_set_in(p, i, c);
    else if (nc_edit_add_in(p, c) != NC_OK)
        NC_FAIL(w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

/* n neighbours, of one channel or (step 1) of one each; what a file holds need not be aligned. */
static void scale_run(nc_dtype t, const char *from, char *to, int64_t n, const double *by, int step) {
    for (int64_t i = 0; t == NC_FLOAT && i < n; i++, by += step) {
        float x;
        memcpy(&x, from + (size_t)i * sizeof x, sizeof x);
        x = (float)(x * *by);
        memcpy(to + (size_t)i * sizeof x, &x, sizeof x);
    }
    for (int64_t i = 0; t == NC_DOUBLE && i < n; i++, by += step) {
        double x;
        memcpy(&x, from + (size_t)i * sizeof x, sizeof x);
        x *= *by;
        memcpy(to + (size_t)i * sizeof x, &x, sizeof x);
    }
}

/* In a buffer of their own, whose pages go when they are packed. */
static nc_code scale_weights(nc_work *w, const linear *l, const nc_affine *a) {
    const nc_literal *old = l->node->in[1]->lit;
    nc_buffer *b = nc_buffer_host(old->bytes);
    NC_NEED(w, b);
    b->private = true;
    bool columns = l->inner == 1; /* a row has one element of each channel */
    int64_t n = columns ? l->channels : l->inner, runs = columns ? l->outer : l->outer * l->channels;
    for (int64_t i = 0; i < runs; i++) {
        size_t at = (size_t)(i * n) * nc_dtype_bytes(old->dtype);
        const double *by = columns ? a->scale : a->scale + i % l->channels;
        scale_run(old->dtype, (const char *)old->data + at, (char *)b->ptr + at, n, by, columns);
    }
    nc_literal made = *old;
    made.data = b->ptr, made.keeps = b, made.extra = (nc_str){0};
    nc_code code = set_const(w, l->node, 1, &made);
    nc_buffer_unref(b);
    return code;
}

static nc_code shift_bias(nc_work *w, const linear *l, nc_affine *a) {
    const nc_value *old = l->node->n_in > 2 ? l->node->in[2] : NULL;
    for (int64_t c = 0; old != NULL && c < l->channels; c++) a->shift[c] += nc_affine_number(old, c) * a->scale[c];
    const nc_literal *made =
        nc_affine_literal(w, l->node->graph->model, l->node->in[1]->lit->dtype, 1, l->channels, a->shift);
    NC_NEED(w, made);
    return set_const(w, l->node, 2, made);
}

/* Behind a MatMul, which has no bias: Add, in front of who reads it. */
static nc_code shift_rows(nc_work *w, const linear *l, const nc_affine *a) {
    nc_node *p = l->node;
    const nc_use reader = p->out[0]->uses.v[0];
    const nc_literal *made = nc_affine_literal(w, p->graph->model, p->in[1]->lit->dtype, 1, l->channels, a->shift);
    const char *name = nc_arena_printf(&w->scratch, "%s_bias", p->name);
    NC_NEED(w, made);
    NC_NEED(w, name);
    nc_value *in[] = {p->out[0], nc_edit_const(p->graph, name, made)}, *sum = NULL;
    NC_NEED(w, in[1]);
    NC_TRY(nc_rewrite_insert(w, p->next, "Add", in, 2, NULL, 0, p->out[0]->type, &sum));
    nc_edit_set_in(reader.node, reader.i, sum);
    return NC_OK;
}

static const nc_dim *last_dim(const nc_value *v) {
    return nc_rewrite_tensor(v) && v->type->rank > 0 ? v->type->dims[v->type->rank - 1] : NULL;
}

/* The MatMul with constant weights whose rows v has, whatever the dims in front of the last. */
static bool find_rows(const nc_value *v, linear *l) {
    nc_node *p = NULL;
    for (; nc_rewrite_only(v) && !(p = nc_rewrite_def(v, "MatMul")); v = p->in[0]) {
        p = nc_rewrite_def(v, "Reshape") ? nc_rewrite_def(v, "Reshape") : nc_rewrite_def(v, "Flatten");
        if (p == NULL || !nc_rewrite_free(p) || !last_dim(v) || last_dim(v) != last_dim(p->in[0])) return false;
    }
    if (p == NULL || !nc_rewrite_only(v) || !nc_rewrite_free(p) || !nc_affine_may_use(p->in[1]) ||
        p->in[1]->lit->rank != 2)
        return false;
    const int64_t *dims = p->in[1]->lit->dims;
    *l = (linear){.node = p, .channels = dims[1], .outer = dims[0], .inner = 1};
    return last_dim(v) != NULL && dims[0] > 0 && dims[1] > 0 && nc_model_opset(p->graph->model, "") >= NC_AFFINE_OPSET;
}

static nc_code fold(nc_work *w, nc_node *n, int i, bool *done) {
    linear l;
    nc_affine a;
    *done = false;
    bool batch = nc_rewrite_is(n, "BatchNormalization"), bias = find_linear(n->in[i], &l);
    if (!nc_rewrite_can_skip(n, n->in[i])) return NC_OK;
    if (!bias && (!batch || !nc_rewrite_tensor(n->in[0]) || n->in[0]->type->rank != 2 || !find_rows(n->in[0], &l)))
        return NC_OK;
    NC_TRY(nc_affine_init(w, l.channels, &a));
    if (batch ? i != 0 || !nc_affine_of_batch(n, l.channels, &a) : !read_arith(n, 1 - i, &l, &a)) return NC_OK;
    if (!nc_affine_is_tame(&a, l.node->in[1]->lit->dtype, l.channels)) return NC_OK;
    if (a.scales) NC_TRY(scale_weights(w, &l, &a));
    NC_TRY(bias ? shift_bias(w, &l, &a) : shift_rows(w, &l, &a));
    nc_rewrite_skip(n, n->in[i]);
    *done = true;
    return NC_OK;
}

nc_code nc_pass_weights(nc_work *w, nc_graph *g, int *n_changes) {
    for (nc_node *n = g->first, *next; n != NULL; n = next) {
        next = n->next;
        bool batch = nc_rewrite_is(n, "BatchNormalization"), done = false;
        if (!nc_rewrite_free(n) || (!batch && (n->n_in != 2 || n->in[1] == NULL))) continue;
        if (!batch && !(n->card->traits & NC_ELEMENTWISE)) continue;
        for (int i = 0; i < (batch ? 1 : 2) && !done; i++) NC_TRY(fold(w, n, i, &done));
        *n_changes += done;
    }
    return NC_OK;
}
