/* transform/common/fold_constants.c: a node all of whose inputs are constants is done once, now, and its results become
 * constants. Not where that would cost memory: results may be as large as the inputs, or small; large matrices are not
 * turned for products. Nor floats that training may still make variables: their gradient would end at the result. */
#include "base/mem.h"
#include "ir/edit.h"
#include "ops/host_eval.h"
#include "transform/rewrite.h"
#include "transform/transform.h"

#include <string.h>

enum { SMALL = 64 << 10, LARGE = 1 << 20, MAX_OPERANDS = NC_HOST_EVAL_MAX };

typedef NC_VEC(nc_buffer *) buffers;

/* A large matrix that is turned for products alone stays as it is: they pack it from where it lies, and the turned one
 * would be a second copy. */
static bool is_packed_turned(const nc_node *n) {
    const nc_value *y = n->out[0];
    if (!nc_rewrite_is(n, "Transpose") || n->in[0]->lit->rank != 2 || n->in[0]->lit->bytes < LARGE) return false;
    if (!nc_dtype_is_float(n->in[0]->lit->dtype) || y->n_outputs || !y->uses.n) return false;
    for (int i = 0; i < y->uses.n; i++)
        if (y->uses.v[i].i != 1 || !nc_rewrite_is(y->uses.v[i].node, "MatMul")) return false;
    return true;
}

static bool is_folding(const nc_node *n) {
    if (n->card->traits & (NC_RANDOM | NC_IN_PLACE | NC_CONTROL | NC_HOST_OBJECTS)) return false;
    if (n->recompute || n->n_subs || n->n_in < 1 || n->n_in > MAX_OPERANDS || n->n_out > MAX_OPERANDS) return false;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && (!nc_rewrite_fixed(n->in[i]) || n->in[i]->lit->dtype == NC_STRING)) return false;
    return !is_packed_turned(n);
}

static bool result_fits(const nc_node *n, nc_tensor *out) {
    size_t in_bytes = 0, out_bytes = 0;
    for (int i = 0; i < n->n_in; i++) in_bytes += n->in[i] ? n->in[i]->lit->bytes : 0;
    for (int k = 0; k < n->n_out; k++) {
        const nc_value *v = n->out[k];
        size_t bytes;
        if (!v) continue;
        if (!v->type || v->type->kind != NC_T_TENSOR || v->type->rank < 0 || v->type->elem == NC_STRING) return false;
        if (v->var || v->type->layout.block) return false;
        out[k].dtype = v->type->elem, out[k].rank = v->type->rank;
        for (int d = 0; d < v->type->rank; d++)
            if (!nc_dim_is_const(v->type->dims[d], &out[k].dims[d])) return false;
        if (!nc_tensor_bytes(out[k].dtype, out[k].dims, out[k].rank, &bytes)) return false;
        out_bytes += bytes;
    }
    return out_bytes <= SMALL || out_bytes <= in_bytes;
}

typedef struct folder {
    nc_work *w;
    nc_node *n;
    nc_tensor in[MAX_OPERANDS], out[MAX_OPERANDS];
    nc_buffer *held[MAX_OPERANDS];
    int *n_changes;
    buffers *made; /* by this pass, the large ones */
} folder;

static void read_inputs(folder *f) {
    for (int i = 0; i < f->n->n_in; i++) {
        const nc_literal *l = f->n->in[i] ? f->n->in[i]->lit : NULL;
        nc_tensor *t = &f->in[i];
        if (!l) continue;
        *t = (nc_tensor){.data = (void *)(uintptr_t)l->data, .dtype = l->dtype, .rank = l->rank};
        memcpy(t->dims, l->dims, (size_t)l->rank * sizeof *t->dims);
        nc_dense_strides(t->dims, t->rank, t->strides);
    }
}

/* Inference knows small integer constants as it knows sizes; what it did not know yet may tell it more now. */
static bool is_news(const nc_value *v) {
    for (int i = 0; i < v->uses.n && !v->elems; i++) {
        const nc_use *u = &v->uses.v[i];
        if (u->i < 32 && (u->node->card->host_in >> u->i & 1)) return true;
    }
    return false;
}

static nc_code replace(const folder *f, int k) {
    nc_value *v = f->n->out[k];
    v->graph->model->stale_sizes |= is_news(v);
    const nc_tensor *t = &f->out[k];
    const char *name = nc_arena_printf(&f->w->scratch, "%s_value", v->name);
    NC_NEED(f->w, name);
    nc_literal l = {.dtype = t->dtype, .rank = t->rank, .dims = t->dims, .data = t->data, .keeps = f->held[k]};
    if (!nc_numel(t->dims, t->rank, &l.n) || !nc_tensor_bytes(t->dtype, t->dims, t->rank, &l.bytes))
        NC_FAIL(f->w, NC_E_LIMIT, "its result is too large to address");
    nc_value *c = nc_edit_const(v->graph, name, &l);
    NC_NEED(f->w, c);
    c->type = v->type, c->elems = v->elems, c->n_elems = v->n_elems;
    nc_edit_replace(v, c);
    return NC_OK;
}

static nc_code evaluate(folder *f) {
    const nc_node *n = f->n;
    bool done = false;
    read_inputs(f);
    nc_buffer *held = n->in[0] ? n->in[0]->lit->keeps : NULL;
    NC_TRY(nc_host_eval(f->w, n, f->in, held, f->out, f->held, &done));
    for (int k = 0; done && k < n->n_out; k++) {
        if (!n->out[k] || (!n->out[k]->uses.n && !n->out[k]->n_outputs)) continue;
        NC_TRY(replace(f, k));
        if (f->held[k]->bytes > SMALL && f->held[k] != held && !NC_PUSH(&f->w->scratch, *f->made, f->held[k]))
            NC_FAIL(f->w, NC_E_MEMORY, "out of memory");
        ++*f->n_changes;
    }
    return NC_OK;
}

/* What was folded on the way to a result is not kept beside it: b goes if this pass made it and no constant that is
 * used lies in it. */
static void let_go(nc_graph *g, buffers *made, nc_buffer *b) {
    int i = 0;
    while (i < made->n && made->v[i] != b) i++;
    if (!b || i == made->n) return;
    for (int k = 0; k < g->consts.n; k++) {
        const nc_value *c = g->consts.v[k];
        if (c->lit->keeps == b && (c->uses.n || c->n_outputs)) return;
    }
    made->v[i] = made->v[--made->n];
    nc_edit_let_go(g->model, b);
}

/* A node whose results are constants now is of no use. */
static void remove_node(nc_node *n, buffers *made) {
    nc_graph *g = n->graph;
    nc_buffer *held[MAX_OPERANDS] = {NULL};
    int n_in = n->n_in;
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] && (n->out[k]->uses.n || n->out[k]->n_outputs)) return;
    for (int i = 0; i < n_in; i++) held[i] = n->in[i] ? n->in[i]->lit->keeps : NULL;
    nc_edit_remove(n);
    for (int i = 0; i < n_in; i++) let_go(g, made, held[i]);
}

static nc_code fold(nc_work *w, nc_node *n, buffers *made, int *n_changes) {
    folder *f = nc_arena_alloc(&w->scratch, sizeof *f);
    NC_NEED(w, f);
    f->w = w, f->n = n, f->n_changes = n_changes, f->made = made;
    if (!result_fits(n, f->out)) return NC_OK;
    nc_code code = evaluate(f);
    for (int i = 0; i < MAX_OPERANDS; i++) nc_buffer_unref(f->held[i]);
    if (code == NC_OK) remove_node(n, made);
    return code;
}

nc_code nc_pass_fold_constants(nc_work *w, nc_graph *g, int *n_changes) {
    buffers made = {0};
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        w->at_node = n->name, w->at_op = n->card->name;
        if (is_folding(n)) NC_TRY(fold(w, n, &made, n_changes));
    }
    w->at_node = w->at_op = NULL;
    return NC_OK;
}
