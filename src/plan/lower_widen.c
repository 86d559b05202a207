/* plan/lower_widen.c: convolutions in half precision are done in f32 where kernels keep channels in blocks of floats
 * alone (the CPU's), and so is what hangs together with them over nodes that could stand in such blocks: formulas,
 * pools, sums, Concat, Resize. Casts stand where that begins and ends; small constants are made floats here, of large
 * ones the pack is. Comes before lower_layout.c, which would leave halves in plain layout, where each kernel widens its
 * operands for itself.
 *
 * An example: c = Conv(x, w, b), r = Relu(c), y = Softmax(r) in float16 become c' = Conv(Cast(x), Cast(w), b'), r' =
 * Relu(c'), y = Softmax(Cast(r')). */
#include "infer/infer.h"
#include "ops/build.h"
#include "plan/plan.h"

#include <string.h>

enum { CONST_ELEMENTS = 1 << 12 };

typedef struct widening {
    nc_work *w;
    nc_graph *g;
    bool *marked; /* by node id */
    nc_node **stack;
    int n_stack;
    nc_builder b;
    nc_map wide; /* value -> the same as floats */
} widening;

static bool is_half(const nc_value *v) {
    return v && v->type && v->type->kind == NC_T_TENSOR && v->type->rank >= 0 &&
           (v->type->elem == NC_FLOAT16 || v->type->elem == NC_BFLOAT16);
}

static bool is_beside(const nc_value *v) { return !v || (v->type && !nc_dtype_is_float(v->type->elem)); }

/* Could n stand among blocks, and are all its floats halves of one kind? */
static bool may_widen(const nc_node *n, const nc_plan_options *o) {
    bool lanes = (n->card->traits & NC_ELEMENTWISE) != 0;
    if (!(n->card->blocks || lanes) || n->n_subs || n->recompute || !is_half(n->out[0])) return false;
    nc_dtype half = n->out[0]->type->elem;
    if (!(nc_channel_blocking(nc_kernels_at(o, n->place)).types & NC_BIT(NC_FLOAT))) return false;
    for (int i = 0; i < n->n_in; i++) {
        bool host = i < 32 && (n->card->host_in >> i & 1);
        if (!host && !is_beside(n->in[i]) && !(is_half(n->in[i]) && n->in[i]->type->elem == half)) return false;
    }
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] && (n->out[i]->var || (!is_beside(n->out[i]) && n->out[i]->type->elem != half))) return false;
    return is_half(n->in[0]);
}

/* Marks n, and puts it onto the stack, where it may be widened. */
static void push(widening *x, nc_node *n, const nc_plan_options *o) {
    if (!n || n->graph != x->g || x->marked[n->id] || !may_widen(n, o)) return;
    x->marked[n->id] = true;
    x->stack[x->n_stack++] = n;
}

/* Marks n and all that may be widened and hang together with it. */
static void mark(widening *x, nc_node *n, const nc_plan_options *o) {
    push(x, n, o);
    while (x->n_stack > 0) {
        const nc_node *at = x->stack[--x->n_stack];
        for (int i = 0; i < at->n_in; i++)
            if (is_half(at->in[i])) push(x, at->in[i]->def, o);
        for (int i = 0; i < at->n_out; i++)
            for (int k = 0; is_half(at->out[i]) && k < at->out[i]->uses.n; k++) push(x, at->out[i]->uses.v[k].node, o);
    }
}

static nc_value *wide_const(const widening *x, const nc_value *v) {
    const nc_literal *l = v->lit;
    float *numbers = nc_arena_array(&x->w->scratch, (size_t)l->n + 1, sizeof *numbers);
    for (int64_t i = 0; numbers && i < (int64_t)l->n; i++) {
        uint16_t half;
        memcpy(&half, (const char *)l->data + i * 2, sizeof half);
        numbers[i] = l->dtype == NC_FLOAT16 ? nc_f16_to_f32(half) : nc_bf16_to_f32(half);
    }
    const nc_literal *made = numbers ? nc_edit_literal(x->g->model, NC_FLOAT, l->rank, l->dims, numbers) : NULL;
    return made ? nc_edit_const(x->g, NULL, made) : NULL;
}

static nc_code widened(widening *x, nc_value *v, nc_value **out) {
    if ((*out = nc_map_get_bytes(&x->wide, &v->id, sizeof v->id))) return NC_OK;
    bool small = v->origin == NC_FROM_CONST && v->lit && v->lit->n <= CONST_ELEMENTS;
    *out = small ? wide_const(x, v) : nc_build_cast(&x->b, v, NC_FLOAT);
    if (x->b.code) return x->b.code;
    NC_NEED(x->w, *out);
    if (!nc_map_put_bytes(&x->wide, &v->id, sizeof v->id, *out)) NC_FAIL(x->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

/* Output i of n becomes f32; who wants it as it was gets a Cast of it. */
static nc_code widen_output(widening *x, nc_node *n, int i) {
    nc_value *y = n->out[i];
    nc_dtype half = y->type->elem;
    const nc_type *t = nc_type_tensor(&x->g->model->arena, NC_FLOAT, y->type->rank, y->type->dims);
    NC_NEED(x->w, t);
    x->b.before = n->next;
    y->type = t;
    nc_value *back = nc_build_cast(&x->b, y, half);
    if (x->b.code) return x->b.code;
    NC_NEED(x->w, back);
    nc_edit_replace(y, back);
    nc_edit_set_in(back->def, 0, y);
    if (!nc_map_put_bytes(&x->wide, &back->id, sizeof back->id, y)) NC_FAIL(x->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code widen(widening *x, nc_node *n) {
    x->b.before = n, x->b.stage = n->stage, x->b.place = n->place;
    for (int i = 0; i < n->n_in; i++) {
        nc_value *wide;
        if (!is_half(n->in[i])) continue;
        NC_TRY(widened(x, n->in[i], &wide));
        nc_edit_set_in(n, i, wide);
    }
    for (int i = 0; i < n->n_out; i++)
        if (is_half(n->out[i])) NC_TRY(widen_output(x, n, i));
    return NC_OK;
}

static void drop_unused(nc_graph *g, int first_id) {
    for (nc_node *n = g->last, *before; n; n = before) {
        before = n->prev;
        if (n->id >= first_id && n->n_out == 1 && !n->out[0]->uses.n && !n->out[0]->n_outputs) nc_edit_remove(n);
    }
}

static nc_code widen_graph(nc_work *w, nc_graph *g, const nc_plan_options *o) {
    widening x = {.w = w, .g = g, .b = {.w = w, .graph = g, .infer = nc_infer_node}};
    int first_id = g->model->next_id;
    bool any = false;
    NC_NEED(w, x.marked = nc_arena_array(&w->scratch, (size_t)first_id, sizeof *x.marked));
    NC_NEED(w, x.stack = nc_arena_array(&w->scratch, (size_t)first_id, sizeof(nc_node *)));
    nc_map_init(&x.wide, &w->scratch);
    for (nc_node *n = g->first; n; n = n->next) {
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++)
            NC_TRY(widen_graph(w, n->subs[i].graph, o));
        if (!(n->card->traits & NC_NARROWS) || !n->card->blocks) continue;
        mark(&x, n, o);
        any = any || x.marked[n->id];
    }
    for (nc_node *n = g->first, *next; any && n; n = next) {
        next = n->next;
        if (n->id < first_id && x.marked[n->id]) NC_TRY(widen(&x, n));
    }
    drop_unused(g, first_id);
    return NC_OK;
}

nc_code nc_lower_widen(nc_work *w, nc_model *m, const nc_plan_options *o) {
    return o->no_fusion ? NC_OK : widen_graph(w, m->main, o);
}
