/* train/gradient_rule.c: gradients of the user's own: a small model says the gradient of an operator, and a layer of
 * the environment's registry has it asked in the place of the card's. The model is read anew for each node that is
 * differentiated, in that node's opsets; its nodes then stand in the gradient's graph like any other. */
#include "train/gradient_rule.h"

#include "base/mem.h"
#include "ir/edit.h"
#include "onnx/load.h"
#include "onnx/wire.h"
#include "ops/build.h"

#include <stdlib.h>
#include <string.h>

typedef struct rule {
    nc_layer layer; /* first: its hooks get a pointer to it */
    nc_grad_rule rule;
    nc_arena arena;
    nc_env *env; /* whose layer it is */
    const char *domain, *op;
    nc_text model; /* without opsets where the caller gave none */
    bool has_opsets;
} rule;

static const rule *of_rule(const nc_grad_rule *r) {
    return (const rule *)(const void *)((const char *)r - offsetof(rule, rule));
}

/* ---- reading it ---- */

enum { FIELD_OPSET = 8, FIELD_DOMAIN = 1, FIELD_VERSION = 2 }; /* ModelProto.opset_import, OperatorSetIdProto */

static bool has_opsets(const nc_text *model) {
    nc_wire at;
    nc_field f;
    nc_wire_init(&at, (nc_bytes){(const uint8_t *)model->s, model->n});
    while (nc_wire_next(&at, &f))
        if (f.number == FIELD_OPSET) return true;
    return false;
}

/* Fields of a message may follow each other in any order: the opsets come last. */
static nc_code load(nc_work *w, const rule *r, const nc_model *into, nc_model **out) {
    nc_text all = {0}, opset = {0};
    nc_text_add_n(&all, r->model.s, r->model.n);
    for (int i = 0; !r->has_opsets && i < into->n_opsets; i++) {
        opset.n = 0;
        nc_wire_put_str(&opset, FIELD_DOMAIN, into->opsets[i].domain);
        nc_wire_put_int(&opset, FIELD_VERSION, into->opsets[i].version);
        nc_wire_put_bytes(&all, FIELD_OPSET, opset.s, opset.n);
    }
    nc_code code = all.failed || opset.failed ? nc_fail(w, NC_E_MEMORY, "out of memory")
                                              : nc_onnx_load(w, all.s, all.n, NULL, NULL, into->registry, out);
    nc_text_release(&all), nc_text_release(&opset);
    return code;
}

/* ---- emitting it ---- */

/* "I(3)" with prefix "I(": 3; -1: the name is another. */
static int index_of(const char *name, const char *prefix) {
    size_t n = strlen(prefix);
    char *end;
    if (!name || strncmp(name, prefix, n) != 0 || name[n] < '0' || name[n] > '9') return -1;
    long i = strtol(name + n, &end, 10);
    return strcmp(end, ")") == 0 && i < 1 << 20 ? (int)i : -1;
}

/* What an input of the rule stands for; NULL: an operand that the node does not have. */
static nc_code find_input(nc_grad *g, const char *name, nc_value **out) {
    const nc_node *n = g->node;
    int x = index_of(name, "I("), y = index_of(name, "O("), dy = index_of(name, "GO(");
    if (x < 0 && y < 0 && dy < 0)
        NC_FAIL(g->b->w, NC_E_ARGUMENT, "its registered gradient has the input '%s', expected I(i), O(i) or GO(i)",
                name);
    int at = y >= 0 ? y : dy;
    if (at >= 0 && (at >= n->n_out || !n->out[at]))
        NC_FAIL(g->b->w, NC_E_ARGUMENT, "its registered gradient asks for '%s', but there are %d outputs", name,
                n->n_out);
    *out = NULL;
    if (x >= 0 && x < n->n_in && n->in[x]) *out = nc_grad_x(g, x);
    if (y >= 0) *out = nc_grad_y(g, y);
    if (dy >= 0) *out = nc_grad_dy(g, dy);
    if (dy >= 0 && !*out) *out = nc_build_zeros_like(g->b, nc_grad_y(g, dy));
    return g->b->code;
}

static const nc_literal *carried(nc_model *to, const nc_literal *l) {
    return nc_edit_literal(to, l->dtype, l->rank, l->dims, l->data);
}

static nc_code set_attrs(nc_work *w, nc_node *made, const nc_node *from) {
    for (int i = 0; i < from->n_attrs; i++) {
        nc_attr a = from->attrs[i];
        if (a.kind == NC_A_TENSOR) NC_NEED(w, a.tensor = carried(made->graph->model, a.tensor));
        if (nc_edit_set_attr(made, &a) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

/* n, of the rule's graph, as a node of the gradient's. map: from the rule's values, by id. */
static nc_code emit_node(nc_builder *b, const nc_node *n, nc_value **map) {
    nc_value **in = nc_arena_array(&b->w->scratch, (size_t)n->n_in + 1, sizeof *in);
    const char **names = nc_arena_array(&b->w->scratch, (size_t)n->n_out + 1, sizeof *names);
    NC_NEED(b->w, in);
    NC_NEED(b->w, names);
    if (n->n_subs)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its registered gradient has a %s with graphs of its own, which is not taken",
                n->card->name);
    for (int i = 0; i < n->n_in; i++) in[i] = n->in[i] ? map[n->in[i]->id] : NULL;
    for (int i = 0; i < n->n_out; i++) names[i] = n->out[i] ? NULL : "";
    nc_node *made = nc_edit_node(b->graph, b->before, n->card, n->version, NULL, in, n->n_in, names, n->n_out);
    NC_NEED(b->w, made);
    made->stage = b->stage, made->place = b->place;
    NC_TRY(set_attrs(b->w, made, n));
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) map[n->out[i]->id] = made->out[i];
    return b->infer(b->w, made);
}

static nc_code emit(nc_grad *g, const nc_model *m) {
    nc_builder *b = g->b;
    const nc_graph *from = m->main;
    nc_value **map = nc_arena_array(&b->w->scratch, (size_t)m->next_id + 1, sizeof(nc_value *));
    NC_NEED(b->w, map);
    for (int i = 0; i < from->inputs.n; i++)
        NC_TRY(find_input(g, from->inputs.v[i]->name, &map[from->inputs.v[i]->id]));
    for (int i = 0; i < from->consts.n; i++) {
        const nc_literal *l = carried(b->graph->model, from->consts.v[i]->lit);
        NC_NEED(b->w, l);
        NC_NEED(b->w, map[from->consts.v[i]->id] = nc_edit_const(b->graph, NULL, l));
    }
    for (const nc_node *n = from->first; n; n = n->next) NC_TRY(emit_node(b, n, map));
    for (int i = 0; i < from->outputs.n; i++) {
        int x = index_of(from->output_names.v[i], "GI(");
        if (x < 0)
            NC_FAIL(b->w, NC_E_ARGUMENT, "its registered gradient has the output '%s', expected GI(i)",
                    from->output_names.v[i]);
        if (x < g->node->n_in && g->wants[x]) nc_grad_set(g, x, map[from->outputs.v[i]->id]);
    }
    return nc_grad_end(g);
}

static nc_code by_rule(nc_grad *g, const nc_grad_rule *r) {
    nc_model *m;
    NC_TRY(load(g->b->w, of_rule(r), g->b->graph->model, &m));
    nc_code code = emit(g, m);
    nc_model_destroy(m);
    return code;
}

/* ---- the layer ---- */

static const nc_card *find(const nc_registry *r, const char *domain, const char *op) {
    return r->base->find(r->base, domain, op);
}

static const nc_grad_rule *find_rule(const nc_registry *r, const nc_card *card) {
    const rule *own = (const rule *)r;
    const nc_registry *all = nc_env_registry(own->env); /* libraries may come after the rule */
    return all->find(all, own->domain, own->op) == card ? &own->rule : NULL;
}

static void release(nc_layer *l) {
    rule *r = (rule *)l;
    nc_text_release(&r->model);
    nc_arena_release(&r->arena);
    nc_free(r);
}

static nc_code fill(nc_work *w, rule *r, const nc_rule_params *p) {
    const char *domain = p->domain && strcmp(p->domain, "ai.onnx") != 0 ? p->domain : "";
    if (!p->op || !*p->op) NC_FAIL(w, NC_E_ARGUMENT, "a gradient rule needs the name of an operator");
    if (!p->model && !p->stops) NC_FAIL(w, NC_E_ARGUMENT, "a gradient rule needs a model or stops");
    NC_NEED(w, r->domain = nc_arena_str(&r->arena, domain));
    NC_NEED(w, r->op = nc_arena_str(&r->arena, p->op));
    if (p->model) nc_text_add_n(&r->model, p->model, p->n_model);
    if (r->model.failed) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    r->has_opsets = p->model && has_opsets(&r->model);
    r->rule = (nc_grad_rule){.grad = p->model ? by_rule : NULL, .stops = p->stops};
    r->layer = (nc_layer){.registry = {.find = find, .rule = find_rule}, .release = release};
    return NC_OK;
}

nc_code nc_train_add_rule(nc_work *w, nc_env *env, const nc_rule_params *p) {
    rule *r = nc_alloc_zero(1, sizeof *r);
    NC_NEED(w, r);
    r->env = env;
    nc_code code = fill(w, r, p);
    if (code == NC_OK)
        nc_env_add_layer(env, &r->layer);
    else
        release(&r->layer);
    return code;
}
