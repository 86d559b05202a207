/* api/graph.c: nacre_graph.h over ir/: graphs, nodes and values are the same pointers under public names. */
#include "api/api.h"
#include "nacre/nacre_graph.h"

#include "autodiff/autodiff.h"
#include "base/mem.h"
#include "infer/infer.h"
#include "ir/card.h"
#include "ir/edit.h"
#include "transform/rules.h"
#include "transform/transform.h"

#include <stdio.h>
#include <string.h>

static const nc_graph *graph_of(const nacre_graph *g) { return (const nc_graph *)(const void *)g; }
static const nc_node *node_of(const nacre_node *n) { return (const nc_node *)(const void *)n; }
static const nc_value *value_of(const nacre_graph_value *v) { return (const nc_value *)(const void *)v; }
static const nacre_graph *public_graph(const nc_graph *g) { return (const nacre_graph *)(const void *)g; }
static const nacre_node *public_node(const nc_node *n) { return (const nacre_node *)(const void *)n; }
static const nacre_graph_value *public_value(const nc_value *v) { return (const nacre_graph_value *)(const void *)v; }

/* ---- the model ---- */

const nacre_graph *nacre_model_graph(const nacre_model *m) { return public_graph(m->model->main); }
const char *nacre_model_producer(const nacre_model *m) {
    return m->model->producer_name ? m->model->producer_name : "";
}
int64_t nacre_model_ir_version(const nacre_model *m) { return m->model->ir_version; }
size_t nacre_model_n_opsets(const nacre_model *m) { return (size_t)m->model->n_opsets; }

const char *nacre_model_opset(const nacre_model *m, size_t i, int64_t *version) {
    if (i >= (size_t)m->model->n_opsets) return NULL;
    *version = m->model->opsets[i].version;
    return m->model->opsets[i].domain;
}

nacre_code nacre_model_clone(const nacre_model *m, nacre_model **out, nacre_error *err) {
    nacre_model *p = nc_alloc_zero(1, sizeof *p);
    if (p) p->model = nc_model_clone(m->model);
    if (!p || !p->model) {
        nc_free(p);
        return nc_api_error(err, NC_E_MEMORY, NULL);
    }
    p->env = nc_env_ref(m->env);
    *out = p;
    return NACRE_OK;
}

static nacre_code answer(nc_work *w, nc_code code, nacre_error *err) {
    if (code != NC_OK) nc_api_error(err, code, &w->diag);
    nc_work_release(w);
    return (nacre_code)code;
}

nacre_code nacre_model_infer(nacre_model *m, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    return answer(&w, nc_infer_model(&w, m->model), err);
}

static nc_code optimize(nc_work *w, nc_model *m, const nc_transform_options *o) {
    m->infers_only = true;
    NC_TRY(nc_infer_model(w, m));
    NC_TRY(nc_autodiff_expand(w, m));
    NC_TRY(nc_transform(w, m, o));
    if (!m->stale_sizes) return NC_OK;
    m->stale_sizes = false; /* as a session does: both save the same file */
    return nc_infer_model(w, m);
}

nacre_code nacre_model_optimize(nacre_model *m, const char *level, const char *const *disable, size_t n,
                                nacre_error *err) {
    int l = nc_api_level(level);
    if (l < 0) return nc_api_fail(err, NC_E_ARGUMENT, "level is '%s', expected off, basic, extended or all", level);
    nc_work w;
    nc_work_init(&w);
    return answer(&w, optimize(&w, m->model, &(nc_transform_options){.level = l, .off = disable, .n_off = (int)n}),
                  err);
}

nacre_code nacre_model_optimize_as(nacre_model *m, const nacre_options *options, nacre_error *err) {
    nc_session_options o;
    nc_rules rules;
    nc_work w;
    nc_api_options(options, &o);
    nc_work_init(&w);
    nc_transform_options how = {.level = o.level, .off = o.passes_off, .n_off = o.n_passes_off};
    nc_code code = o.patterns ? nc_rules_parse(&w, &m->model->arena, o.patterns, &rules) : NC_OK;
    if (o.patterns) how.rules = &rules;
    if (code == NC_OK) code = optimize(&w, m->model, &how);
    return answer(&w, code, err);
}

const char *nacre_pass_name(size_t i, const char **level, const char **doc) {
    static const char *const levels[] = {"off", "basic", "extended", "all"};
    int at = 0;
    const char *name = i < INT32_MAX ? nc_transform_name((int)i, &at, doc) : NULL;
    if (name && level) *level = levels[at];
    return name;
}

nacre_code nacre_model_add_output(nacre_model *m, const char *value, nacre_error *err) {
    nc_graph *g = m->model->main;
    nc_value *v = nc_graph_find(g, value);
    if (!v) return nc_api_fail(err, NC_E_ARGUMENT, "the model has no value '%s'", value);
    for (int i = 0; i < g->outputs.n; i++)
        if (g->outputs.v[i] == v) return NACRE_OK;
    return nc_edit_output(g, v, v->name) == NC_OK ? NACRE_OK : nc_api_error(err, NC_E_MEMORY, NULL);
}

/* ---- graphs ---- */

const char *nacre_graph_name(const nacre_graph *g) { return graph_of(g)->name ? graph_of(g)->name : ""; }
size_t nacre_graph_n_nodes(const nacre_graph *g) { return (size_t)graph_of(g)->n_nodes; }
const nacre_node *nacre_graph_first(const nacre_graph *g) { return public_node(graph_of(g)->first); }
size_t nacre_graph_n_inputs(const nacre_graph *g) { return (size_t)graph_of(g)->inputs.n; }
size_t nacre_graph_n_outputs(const nacre_graph *g) { return (size_t)graph_of(g)->outputs.n; }
size_t nacre_graph_n_constants(const nacre_graph *g) { return (size_t)graph_of(g)->consts.n; }

const nacre_graph_value *nacre_graph_input(const nacre_graph *g, size_t i) {
    return i < (size_t)graph_of(g)->inputs.n ? public_value(graph_of(g)->inputs.v[i]) : NULL;
}

const nacre_graph_value *nacre_graph_output(const nacre_graph *g, size_t i) {
    return i < (size_t)graph_of(g)->outputs.n ? public_value(graph_of(g)->outputs.v[i]) : NULL;
}

const char *nacre_graph_output_name(const nacre_graph *g, size_t i) {
    return i < (size_t)graph_of(g)->output_names.n ? graph_of(g)->output_names.v[i] : NULL;
}

const nacre_graph_value *nacre_graph_constant(const nacre_graph *g, size_t i) {
    return i < (size_t)graph_of(g)->consts.n ? public_value(graph_of(g)->consts.v[i]) : NULL;
}

/* ---- nodes ---- */

const nacre_node *nacre_node_next(const nacre_node *n) { return public_node(node_of(n)->next); }
const char *nacre_node_name(const nacre_node *n) { return node_of(n)->name; }
const char *nacre_node_op(const nacre_node *n) { return node_of(n)->card->name; }
const char *nacre_node_domain(const nacre_node *n) { return node_of(n)->card->domain ? node_of(n)->card->domain : ""; }
int nacre_node_since(const nacre_node *n) { return node_of(n)->version->since; }
size_t nacre_node_n_inputs(const nacre_node *n) { return (size_t)node_of(n)->n_in; }
size_t nacre_node_n_outputs(const nacre_node *n) { return (size_t)node_of(n)->n_out; }

const nacre_graph_value *nacre_node_input(const nacre_node *n, size_t i) {
    return i < (size_t)node_of(n)->n_in ? public_value(node_of(n)->in[i]) : NULL;
}

const nacre_graph_value *nacre_node_output(const nacre_node *n, size_t i) {
    return i < (size_t)node_of(n)->n_out ? public_value(node_of(n)->out[i]) : NULL;
}

size_t nacre_node_n_graphs(const nacre_node *n) { return (size_t)node_of(n)->n_subs; }

const nacre_graph *nacre_node_graph(const nacre_node *n, size_t i) {
    return i < (size_t)node_of(n)->n_subs ? public_graph(node_of(n)->subs[i].graph) : NULL;
}

/* ---- values ---- */

const char *nacre_graph_value_name(const nacre_graph_value *v) { return value_of(v)->name; }
int nacre_graph_value_is_constant(const nacre_graph_value *v) { return value_of(v)->origin == NC_FROM_CONST; }

static void print_literal(nc_text *t, const nc_literal *l) {
    nc_text_addf(t, "%s[", nc_dtype_name(l->dtype));
    for (int d = 0; d < l->rank; d++) nc_text_addf(t, "%s%lld", d ? "," : "", (long long)l->dims[d]);
    nc_text_add(t, "]");
}

void nacre_graph_value_type(const nacre_graph_value *pv, char *text, size_t bytes) {
    const nc_value *v = value_of(pv);
    nc_text t = {0};
    if (v->type)
        nc_type_print(&t, v->type);
    else if (v->lit)
        print_literal(&t, v->lit);
    if (bytes) snprintf(text, bytes, "%s", t.s ? t.s : "?");
    nc_text_release(&t);
}

int64_t nacre_graph_value_count(const nacre_graph_value *pv) {
    const nc_value *v = value_of(pv);
    int64_t n = 1, d;
    if (v->lit) return v->lit->n;
    if (!v->type || v->type->kind != NC_T_TENSOR || v->type->rank < 0) return -1;
    for (int i = 0; i < v->type->rank; i++)
        if (!nc_dim_is_const(v->type->dims[i], &d) || __builtin_mul_overflow(n, d, &n)) return -1;
    return n;
}

int64_t nacre_graph_value_bytes(const nacre_graph_value *pv) {
    const nc_value *v = value_of(pv);
    if (v->lit) return v->lit->dtype == NC_STRING ? -1 : (int64_t)v->lit->bytes;
    int64_t n = nacre_graph_value_count(pv);
    size_t bytes;
    if (n < 0 || v->type->elem == NC_STRING || !nc_tensor_bytes(v->type->elem, &n, 1, &bytes)) return -1;
    return (int64_t)bytes;
}
