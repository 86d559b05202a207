/* ops/cases_run_test.c: the checks of ops/cases_testing.h over a small interpreter: values are dense host tensors
 * (views are copied), sizes come from nc_infer_run, symbols of the inputs get fixed odd sizes. An op without a kernel
 * runs as its decomposition. No dynamic kernels. */
#include "ops/cases_testing.h"

#include "base/intmath.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/move/move.h"
#include "tests/graph_testing.h"
#include "tests/parts_testing.h"
#include "ops/lane.h"

#include <stdlib.h>

enum { MAX_VALUES = 1 << 14, MAX_TEXT = 2048 };

typedef struct runner {
    const nc_case *row;
    nc_work w;
    nc_model *m;
    nc_arena arena;
    nc_dims *dims;
    nc_tensor *at; /* MAX_VALUES, by value id */
    bool have[MAX_VALUES];
    nc_node *pieces[MAX_VALUES]; /* by node id: the first of what it was decomposed into; they end before it */
    nc_value **made[MAX_VALUES]; /* their results */
    int o_grad;                  /* gradients: the output that is differentiated, the first of floats */
    uint64_t seed;
} runner;

static double uniform(runner *r, double lo, double hi) {
    r->seed = r->seed * 6364136223846793005u + 1442695040888963407u;
    return lo + (hi - lo) * (double)(r->seed >> 11) / 9007199254740992.0;
}

static void store(nc_dtype t, void *p, int64_t i, double v) {
    switch (t) {
    case NC_FLOAT: ((float *)p)[i] = (float)v; break;
    case NC_DOUBLE: ((double *)p)[i] = v; break;
    case NC_FLOAT16: ((uint16_t *)p)[i] = nc_f64_to_f16(v); break;
    case NC_BFLOAT16: ((uint16_t *)p)[i] = nc_f32_to_bf16((float)v); break;
    case NC_BOOL: ((bool *)p)[i] = v > 0; break;
    case NC_INT8: ((int8_t *)p)[i] = (int8_t)v; break;
    case NC_UINT8: ((uint8_t *)p)[i] = (uint8_t)v; break;
    case NC_INT16: ((int16_t *)p)[i] = (int16_t)v; break;
    case NC_UINT16: ((uint16_t *)p)[i] = (uint16_t)v; break;
    case NC_INT32: ((int32_t *)p)[i] = (int32_t)v; break;
    case NC_INT64: ((int64_t *)p)[i] = (int64_t)v; break;
    case NC_UINT64: ((uint64_t *)p)[i] = (uint64_t)v; break;
    default: nc_test_failed(__FILE__, __LINE__, "inputs of %s are not made here", nc_dtype_name(t));
    }
}

static double element(const nc_tensor *t, int64_t i) {
    const void *p = t->data;
    switch (t->dtype) {
    case NC_FLOAT: return (double)((const float *)p)[i];
    case NC_DOUBLE: return ((const double *)p)[i];
    case NC_FLOAT16: return (double)nc_f16_to_f32(((const uint16_t *)p)[i]);
    case NC_BFLOAT16: return (double)nc_bf16_to_f32(((const uint16_t *)p)[i]);
    case NC_BOOL: return ((const bool *)p)[i];
    case NC_INT8: return ((const int8_t *)p)[i];
    case NC_UINT8: return ((const uint8_t *)p)[i];
    case NC_INT16: return ((const int16_t *)p)[i];
    case NC_UINT16: return ((const uint16_t *)p)[i];
    case NC_INT32: return ((const int32_t *)p)[i];
    case NC_INT64: return (double)((const int64_t *)p)[i];
    case NC_UINT64: return (double)((const uint64_t *)p)[i];
    default: return NAN;
    }
}

static bool alloc_tensor(runner *r, nc_tensor *t) {
    size_t bytes;
    nc_dense_strides(t->dims, t->rank, t->strides);
    if (!nc_tensor_bytes(t->dtype, t->dims, t->rank, &bytes)) return false;
    t->data = nc_arena_alloc(&r->arena, bytes + 1);
    return t->data != NULL;
}

/* With as_double, every "float[" of the text is "double[": the same graph in the wide type. */
static bool runner_init(runner *r, const nc_case *row, bool as_double) {
    char text[MAX_TEXT] = "";
    for (const char *s = row->graph; *s != '\0' && strlen(text) + 8 < sizeof text;) {
        if (as_double && strncmp(s, "float[", 6) == 0) {
            strcat(text, "double[");
            s += 6;
        } else {
            strncat(text, s++, 1);
        }
    }
    *r = (runner){.row = row, .seed = 42, .at = calloc(MAX_VALUES, sizeof *r->at)};
    nc_work_init(&r->w);
    r->dims = nc_dims_create();
    r->m = test_model(&r->w, nc_ops_registry(), text);
    if (r->m == NULL) nc_test_failed(__FILE__, __LINE__, "%s: %s", row->name, r->w.diag.text);
    return r->m != NULL && r->at != NULL;
}

static void runner_release(runner *r) {
    if (r->m != NULL) nc_model_destroy(r->m);
    if (r->dims != NULL) nc_dims_destroy(r->dims);
    nc_arena_release(&r->arena);
    nc_work_release(&r->w);
    free(r->at);
}

static nc_case_range range_of(const nc_case *row, int i) {
    nc_case_range range = {-2, 2};
    for (int k = 0; k <= i && k < 4; k++)
        if (row->in[k].lo != 0 || row->in[k].hi != 0) range = row->in[k];
    return range;
}

static void fill_input(runner *r, int i) {
    const nc_value *v = r->m->main->inputs.v[i];
    nc_tensor *t = &r->at[v->id];
    nc_case_range range = range_of(r->row, i);
    int64_t n = nc_tensor_numel(t);
    for (int64_t k = 0; k < n; k++) {
        double x = uniform(r, range.lo, range.hi);
        if ((r->row->flags & NC_CASE_KINK) && fabs(x) < 0.05) x += x < 0 ? -0.05 : 0.05;
        store(t->dtype, t->data, k, x);
    }
}

static bool make_inputs(runner *r) {
    int64_t values[64];
    bool known[64];
    for (int i = 0; i < 64; i++) {
        values[i] = 5 + 2 * i;
        known[i] = true;
    }
    for (int i = 0; i < r->m->main->inputs.n; i++) {
        const nc_value *v = r->m->main->inputs.v[i];
        nc_tensor *t = &r->at[v->id];
        *t = (nc_tensor){.dtype = v->type->elem, .rank = v->type->rank};
        for (int k = 0; k < t->rank; k++)
            if (!nc_dim_eval(v->type->dims[k], values, known, &t->dims[k])) return false;
        if (!alloc_tensor(r, t)) return false;
        r->have[v->id] = true;
        fill_input(r, i);
    }
    return true;
}

static nc_tensor *operand(runner *r, const nc_value *v) {
    nc_tensor *t = &r->at[v->id];
    if (v->lit != NULL && !r->have[v->id]) {
        *t = (nc_tensor){.dtype = v->lit->dtype, .rank = v->lit->rank};
        memcpy(t->dims, v->lit->dims, (size_t)v->lit->rank * sizeof *t->dims);
        if (alloc_tensor(r, t) && v->lit->bytes > 0) memcpy(t->data, v->lit->data, v->lit->bytes);
        r->have[v->id] = true;
    }
    return t;
}

/* Views are made dense, as the planner does for kernels that want it. */
static nc_code copy_views(runner *r, const nc_node *n, nc_tensor *out) {
    for (int i = 0; i < n->n_out; i++) {
        nc_tensor view = out[i];
        if (n->out[i] == NULL) continue;
        if (!alloc_tensor(r, &out[i])) NC_FAIL(&r->w, NC_E_MEMORY, "out of memory");
        nck_copy_ref(view.rank, view.dims, nc_dtype_bytes(view.dtype), view.data, view.strides, out[i].data,
                     out[i].strides);
    }
    return NC_OK;
}

static nc_code run_bounded(const nc_binding *b, nc_call *c) {
    int64_t sizes[16][NC_MAX_RANK];
    c->sizes = sizes[0];
    NC_TRY(b->run(c));
    for (int i = 0; i < c->n_out; i++) {
        memcpy(c->out[i]->dims, sizes[i], (size_t)c->out[i]->rank * sizeof sizes[i][0]);
        nc_dense_strides(c->out[i]->dims, c->out[i]->rank, c->out[i]->strides);
    }
    return NC_OK;
}

/* What a pack is filled from: its input, or the constant that the input is a view of. */
static nc_tensor pack_source(const nc_pack *k, const nc_tensor *in) {
    if (!k->of) return in[k->input];
    const nc_literal *l = k->of->lit;
    nc_tensor t = {.data = (void *)(uintptr_t)l->data, .dtype = l->dtype, .rank = l->rank};
    memcpy(t.dims, l->dims, (size_t)l->rank * sizeof *t.dims);
    nc_dense_strides(t.dims, t.rank, t.strides);
    return t;
}

static nc_code run_bound(runner *r, const nc_binding *b, nc_prep *prep, nc_tensor *in, nc_tensor *out) {
    const nc_node *n = prep->node;
    NC_TRY(nc_binding_prepare(b, prep));
    const void *packed[NC_MAX_PACKS] = {NULL};
    for (int k = 0; k < prep->n_packs; k++) {
        void *block = nc_arena_alloc(&r->arena, prep->pack[k].bytes + 64);
        NC_NEED(&r->w, block);
        packed[k] = nc_align64_pointer(block);
        nc_tensor src = pack_source(&prep->pack[k], in);
        NC_TRY(prep->pack[k].fill(prep->state, &src, (void *)(uintptr_t)packed[k]));
    }
    nc_tensor **p = nc_arena_array(&r->arena, (size_t)(n->n_in + n->n_out) + 1, sizeof *p);
    NC_NEED(&r->w, p);
    nc_call c = {.state = prep->state,
                 .in = nc_tensor_pointers(p, in, n->n_in),
                 .out = nc_tensor_pointers(p + n->n_in, out, n->n_out),
                 .n_in = n->n_in,
                 .n_out = n->n_out,
                 .packed = packed,
                 .diag = &r->w.diag,
                 .node = n->name,
                 .op = n->card->name};
    if (b->workspace != NULL) c.bytes_workspace = b->workspace(prep->state, in, n->n_in, out, n->n_out);
    void *block = nc_arena_alloc(&r->arena, c.bytes_workspace + 64);
    NC_NEED(&r->w, block);
    c.workspace = nc_align64_pointer(block);
    if (b->kind == NC_K_VIEW) {
        NC_TRY(b->view(&c));
        return copy_views(r, n, out);
    }
    if (b->kind == NC_K_DYNAMIC) NC_FAIL(&r->w, NC_E_UNSUPPORTED, "dynamic kernels do not run here");
    if (b->kind == NC_K_BOUNDED) return run_bounded(b, &c);
    return b->run(&c);
}

static nc_code run_node(runner *r, nc_node *n);

static nc_code run_pieces(runner *r, nc_node *n) {
    if (r->pieces[n->id] == NULL) {
        nc_builder b = {.w = &r->w, .graph = n->graph, .before = n, .stage = n->stage, .infer = nc_infer_node};
        nc_node *prev = n->prev;
        NC_NEED(&r->w, r->made[n->id] = nc_arena_array(&r->arena, (size_t)n->n_out, sizeof(nc_value *)));
        NC_TRY(nc_grad_pieces(&b, n, r->made[n->id]));
        NC_TRY(b.code);
        r->pieces[n->id] = prev != NULL ? prev->next : n->graph->first;
        if (n->graph->model->next_id > MAX_VALUES) NC_FAIL(&r->w, NC_E_LIMIT, "too many values");
    }
    for (nc_node *k = r->pieces[n->id]; k != n; k = k->next) NC_TRY(run_node(r, k));
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] != NULL) {
            r->at[n->out[i]->id] = *operand(r, r->made[n->id][i]);
            r->have[n->out[i]->id] = true;
        }
    return NC_OK;
}

static nc_code run_node(runner *r, nc_node *n) {
    nc_tensor in[16] = {{0}}, out[16] = {{0}};
    bool readable[16];
    char why[128];
    if (n->n_in > 16 || n->n_out > 16) NC_FAIL(&r->w, NC_E_LIMIT, "too many operands");
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] != NULL) in[i] = *operand(r, n->in[i]);
        readable[i] = true;
    }
    const nc_binding *b = nc_binding_find(n, "cpu", why, sizeof why);
    if (b == NULL && n->card->decompose != NULL) return run_pieces(r, n);
    NC_TRY(nc_infer_run(&r->w, n, r->dims, &r->arena, in, readable, n->n_in, out, n->n_out));
    if (b == NULL) NC_FAIL(&r->w, NC_E_UNSUPPORTED, "%s: no kernel: %s", n->card->name, why);
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] != NULL && b->kind != NC_K_VIEW && !alloc_tensor(r, &out[i]))
            NC_FAIL(&r->w, NC_E_MEMORY, "out of memory");
    nc_prep prep = {.w = &r->w, .arena = &r->arena, .node = n};
    NC_TRY(run_bound(r, b, &prep, in, out));
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] != NULL) {
            r->at[n->out[i]->id] = out[i];
            r->have[n->out[i]->id] = true;
        }
    return NC_OK;
}

static bool run_all(runner *r) {
    if (r->m->next_id > MAX_VALUES) return false;
    for (nc_node *n = r->m->main->first; n != NULL; n = n->next)
        if (run_node(r, n) != NC_OK) {
            nc_test_failed(__FILE__, __LINE__, "%s: %s: %s", r->row->name, n->card->name, r->w.diag.text);
            return false;
        }
    return true;
}

static void compare(const char *name, const nc_tensor *got, const nc_tensor *want, nc_tolerance tol) {
    int64_t n = nc_tensor_numel(got);
    if (n != nc_tensor_numel(want)) nc_test_failed(__FILE__, __LINE__, "%s: sizes differ", name);
    for (int64_t i = 0; i < n && n == nc_tensor_numel(want); i++) {
        double g = element(got, i), w = element(want, i);
        if (nc_close(g, w, tol)) continue;
        nc_test_failed(__FILE__, __LINE__, "%s: element %lld is %.9g, expected %.9g", name, (long long)i, g, w);
        return;
    }
}

static nc_tolerance tolerance(nc_dtype t) {
    if (t == NC_DOUBLE) return nc_tol_op_f64;
    return t == NC_FLOAT16 ? nc_tol_op_f16 : t == NC_BFLOAT16 ? nc_tol_op_bf16 : nc_tol_op_f32;
}

void nc_cases_check_values(const nc_case *cases) {
    for (const nc_case *row = cases; row->name != NULL; row++) {
        runner narrow, wide;
        bool ok = runner_init(&narrow, row, false);
        ok = runner_init(&wide, row, true) && ok;
        if (ok && make_inputs(&narrow) && make_inputs(&wide)) {
            for (int i = 0; i < narrow.m->main->inputs.n; i++) {
                nc_tensor *a = &narrow.at[narrow.m->main->inputs.v[i]->id],
                          *b = &wide.at[wide.m->main->inputs.v[i]->id];
                for (int64_t k = 0; k < nc_tensor_numel(a); k++) store(b->dtype, b->data, k, element(a, k));
            }
            if (run_all(&narrow) && run_all(&wide))
                for (int i = 0; i < narrow.m->main->outputs.n; i++) {
                    const nc_tensor *a = operand(&narrow, narrow.m->main->outputs.v[i]);
                    compare(row->name, a, operand(&wide, wide.m->main->outputs.v[i]), tolerance(a->dtype));
                }
        }
        runner_release(&narrow);
        runner_release(&wide);
    }
}

static void check_isa(const nc_case *row, const char *isa) {
    runner a, b;
    bool ok = runner_init(&a, row, false);
    ok = runner_init(&b, row, false) && ok;
    ok = ok && make_inputs(&a) && make_inputs(&b);
    ok = ok && nck_isa_set_for_test("portable") && run_all(&a);
    ok = ok && nck_isa_set_for_test(isa) && run_all(&b);
    nck_isa_set_for_test(NULL);
    for (int i = 0; ok && i < a.m->main->outputs.n; i++) {
        const nc_tensor *want = operand(&a, a.m->main->outputs.v[i]);
        compare(row->name, operand(&b, b.m->main->outputs.v[i]), want,
                row->flags & NC_CASE_EXACT ? (nc_tolerance){0} : tolerance(want->dtype));
    }
    runner_release(&a);
    runner_release(&b);
}

void nc_cases_check_isas(const nc_case *cases) {
    for (int i = 0; nck_isa_at(i) != NULL; i++)
        for (const nc_case *row = cases; row->name != NULL; row++) check_isa(row, nck_isa_at(i)->name);
}

/* ---- gradients ---- */

static nc_value *forward_itself(nc_grad *g, nc_value *v) {
    (void)g;
    return v;
}

static double weighted_sum(runner *r, const nc_value *y, const nc_tensor *weights) {
    const nc_tensor *t = operand(r, y);
    double sum = 0;
    for (int64_t i = 0; i < nc_tensor_numel(t); i++) sum += element(t, i) * element(weights, i);
    return sum;
}

/* dx against (L(x + h) - L(x - h)) / 2h, L = sum of dy * y, for every element of graph input i. */
static void check_differences(runner *r, nc_node *n, int i, const nc_tensor *dy, const nc_tensor *dx) {
    const double h = 1e-6;
    nc_tensor *x = operand(r, n->in[i]);
    for (int64_t k = 0; k < nc_tensor_numel(x); k++) {
        double *at = &((double *)x->data)[k], was = *at;
        *at = was + h;
        if (run_node(r, n) != NC_OK) return;
        double up = weighted_sum(r, n->out[r->o_grad], dy);
        *at = was - h;
        if (run_node(r, n) != NC_OK) return;
        double slope = (up - weighted_sum(r, n->out[r->o_grad], dy)) / (2 * h);
        *at = was;
        if (nc_close(element(dx, k), slope, nc_tol_difference_f64)) continue;
        nc_test_failed(__FILE__, __LINE__, "%s: gradient of input %d at %lld is %.9g, differences say %.9g",
                       r->row->name, i, (long long)k, element(dx, k), slope);
        return;
    }
}

/* A gradient op gives what its decomposition gives. False: that needs an op that is not there. */
static bool check_decomposition(runner *r, nc_builder *b, const nc_value *dx) {
    const nc_node *n = dx->def;
    if (dx->origin != NC_FROM_NODE || n->card->domain == NULL || n->card->decompose == NULL) return true;
    nc_node *last = b->graph->last;
    nc_value *pieces[16] = {NULL};
    nc_code code = n->card->decompose(b, n, pieces);
    nc_value *again = pieces[dx->i_def];
    if (code == NC_E_UNSUPPORTED && strstr(r->w.diag.text, "needed here") != NULL) return false;
    if (code != NC_OK || again == NULL) {
        nc_test_failed(__FILE__, __LINE__, "%s: %s does not decompose: %s", r->row->name, n->card->name,
                       r->w.diag.text);
        return true;
    }
    if (b->graph->model->next_id > MAX_VALUES) {
        nc_test_failed(__FILE__, __LINE__, "%s: too many values", r->row->name);
        return true;
    }
    for (nc_node *k = last->next; k != NULL; k = k->next)
        if (run_node(r, k) != NC_OK) nc_test_failed(__FILE__, __LINE__, "%s: %s", r->row->name, r->w.diag.text);
    compare(r->row->name, operand(r, dx), operand(r, again), nc_tol_op_f64);
    return true;
}

static nc_code card_grad(nc_grad *g) { return g->node->card->grad ? g->node->card->grad(g) : nc_lane_card_grad(g); }

static bool has_pieces(const nc_node *n) {
    return n->card->grad == NULL && (n->card->decompose != NULL || n->card->grad_form != NULL);
}

/* The gradient of input i of n through the pieces it was decomposed into, last first. */
static nc_code grad_of_pieces(runner *r, nc_builder *b, const nc_node *n, int i, nc_value *dy, nc_value **out) {
    nc_value **d = nc_arena_array(&r->arena, MAX_VALUES, sizeof *d);
    NC_NEED(&r->w, d);
    d[r->made[n->id][r->o_grad]->id] = dy;
    const nc_node *first = r->pieces[n->id]; /* or the first of what that was decomposed into before */
    while (r->pieces[first->id] != NULL) first = r->pieces[first->id];
    const nc_node *end = first->prev;
    for (nc_node *k = n->prev; k != NULL && k != end; k = k->prev) {
        nc_value *dys[16] = {NULL}, *dx[16] = {NULL};
        bool wants[16] = {false}, any = false;
        for (int o = 0; o < k->n_out; o++) any |= k->out[o] != NULL && (dys[o] = d[k->out[o]->id]) != NULL;
        if (!any || k->card->zero_grad) continue;
        if (has_pieces(k)) { /* its pieces come before it, so next */
            NC_TRY(run_pieces(r, k));
            for (int o = 0; o < k->n_out; o++)
                if (dys[o] != NULL) d[r->made[k->id][o]->id] = dys[o];
            continue;
        }
        for (int x = 0; x < k->n_in; x++)
            wants[x] = k->in[x] != NULL && k->in[x]->type->elem == NC_DOUBLE && !(k->card->no_grad_in >> x & 1u);
        nc_grad g = {.b = b, .node = k, .dy = dys, .dx = dx, .wants = wants, .forward = forward_itself};
        NC_TRY(card_grad(&g));
        for (int x = 0; x < k->n_in; x++) {
            if (dx[x] == NULL || k->in[x]->id >= MAX_VALUES) continue;
            nc_value **sum = &d[k->in[x]->id];
            *sum = *sum != NULL ? nc_build1(b, "Add", 2, *sum, dx[x]) : dx[x];
        }
    }
    *out = d[n->in[i]->id];
    return b->code;
}

static bool check_input_gradient(runner *r, nc_node *n, int i, nc_value *dy) {
    nc_value *dx[16] = {NULL}, *dys[16] = {NULL};
    bool wants[16] = {false};
    dys[r->o_grad] = dy;
    nc_node *last = r->m->main->last;
    nc_builder b = test_parts_builder(&r->w, r->m->main, nc_infer_node);
    nc_grad g = {.b = &b, .node = n, .dy = dys, .dx = dx, .wants = wants, .forward = forward_itself};
    wants[i] = true;
    bool through_pieces = has_pieces(n);
    int n_out = n->n_out;
    nc_code code = through_pieces ? run_pieces(r, n) : NC_OK;
    if (code == NC_OK) code = through_pieces ? grad_of_pieces(r, &b, n, i, dy, &dx[i]) : card_grad(&g);
    if (code == NC_E_UNSUPPORTED && strstr(r->w.diag.text, "needed here") != NULL) return false;
    if (code == NC_OK && n->n_out > n_out) code = run_node(r, n); /* the gradient asked for another output */
    if (code == NC_OK && dx[i] == NULL) dx[i] = nc_build_zeros_like(&b, n->in[i]);
    if (code != NC_OK || dx[i] == NULL) {
        nc_test_failed(__FILE__, __LINE__, "%s: no gradient of input %d: %s", r->row->name, i, r->w.diag.text);
        return true;
    }
    for (nc_node *k = last->next; k != NULL; k = k->next)
        if (run_node(r, k) != NC_OK) {
            nc_test_failed(__FILE__, __LINE__, "%s: %s", r->row->name, r->w.diag.text);
            return true;
        }
    bool complete = check_decomposition(r, &b, dx[i]);
    nc_tensor got = *operand(r, dx[i]);
    check_differences(r, n, i, operand(r, dy), &got);
    return complete;
}

/* False: a gradient needs an op that is not there. */
static bool check_gradient(const nc_case *row) {
    runner r;
    bool complete = true;
    if (runner_init(&r, row, true) && make_inputs(&r) && r.m->main->n_nodes == 1 && run_all(&r)) {
        nc_node *n = r.m->main->last;
        while (r.o_grad < n->n_out - 1 && (!n->out[r.o_grad] || n->out[r.o_grad]->type->elem != NC_DOUBLE)) r.o_grad++;
        nc_value *dy = nc_edit_input(r.m->main, "dy", n->out[r.o_grad]->type);
        r.at[dy->id] = *operand(&r, n->out[r.o_grad]);
        if (!alloc_tensor(&r, &r.at[dy->id])) return complete;
        r.have[dy->id] = true;
        for (int64_t k = 0; k < nc_tensor_numel(&r.at[dy->id]); k++)
            store(NC_DOUBLE, r.at[dy->id].data, k, uniform(&r, -1, 1));
        for (int i = 0; i < n->n_in && complete; i++)
            if (n->in[i] != NULL && n->in[i]->type->elem == NC_DOUBLE && !(n->card->no_grad_in >> i & 1u))
                complete = check_input_gradient(&r, n, i, dy);
    }
    runner_release(&r);
    return complete;
}

void nc_cases_check_gradients(const nc_case *cases) {
    bool complete = true;
    for (const nc_case *row = cases; row->name != NULL; row++)
        if (!(row->flags & NC_CASE_NO_GRAD)) complete &= check_gradient(row);
    if (!complete) nc_test_not_run("some gradients need ops that are not in the registry");
}
