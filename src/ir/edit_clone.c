/* ir/edit_clone.c: copies: a node with its subgraphs inside one model, or a whole model.
 *
 * One copier serves both. Inside a model types, literals and names are shared and ids are new; into another model
 * everything is copied, dims are carried over, ids are kept, and buffers behind literals gain a reference. */
#include "base/mem.h"
#include "ir/edit_core.h"

#include <string.h>

typedef struct copier {
    nc_model *to;
    bool other;     /* another model than the source's */
    nc_value **map; /* by id of the source value; NULL entries: not copied */
} copier;

static bool copy_graph(copier *c, const nc_graph *from, nc_graph *to);

/* ---- parts ---- */

static bool carry_type(copier *c, const nc_type **t) {
    return !*t || !c->other || (*t = nc_type_copy(&c->to->arena, c->to->dims, *t)) != NULL;
}

static bool carry_str(copier *c, const char **s) {
    return !*s || !c->other || (*s = nc_arena_str(&c->to->arena, *s)) != NULL;
}

static bool carry_extra(copier *c, nc_str *s) {
    return !s->n || !c->other || (s->p = nc_arena_strn(&c->to->arena, s->p, s->n)) != NULL;
}

static bool carry_literal(copier *c, const nc_literal **l) {
    if (!*l || !c->other) return true;
    nc_literal all = **l;
    if (!all.keeps) {
        const nc_literal *data = nc_edit_literal(c->to, all.dtype, all.rank, all.dims, all.data);
        if (!data) return false;
        all.data = data->data;
    }
    *l = nc_edit_copy_literal(c->to, &all);
    return *l != NULL;
}

static bool carry_elems(copier *c, nc_value *v) {
    if (!v->elems || !c->other) return true;
    const nc_dim **e = nc_arena_array(&c->to->arena, (size_t)v->n_elems + 1, sizeof *e);
    for (int i = 0; e && i < v->n_elems; i++)
        if (v->elems[i] && !(e[i] = nc_dim_carry(c->to->dims, v->elems[i]))) return false;
    v->elems = e;
    return e != NULL;
}

/* Variables and uses are connected by who copies the graph and its nodes. */
static nc_value *copy_value(copier *c, nc_graph *g, const nc_value *from) {
    nc_value *v = nc_arena_copy(&c->to->arena, from, sizeof *from);
    if (!v) return NULL;
    v->graph = g;
    v->uses.v = NULL;
    v->uses.n = v->uses.cap = 0;
    v->n_outputs = 0;
    v->var = NULL;
    v->def = NULL;
    if (!c->other) v->id = c->to->next_id++;
    if (!carry_str(c, &v->name) || !carry_type(c, &v->type) || !carry_literal(c, &v->lit) ||
        !carry_literal(c, &v->initial) || !carry_elems(c, v) || !carry_extra(c, &v->extra))
        return NULL;
    if (c->map) c->map[from->id] = v;
    return v;
}

static bool copy_attrs(copier *c, nc_node *n) {
    if (!c->other || !n->n_attrs) return true;
    nc_attr *all = nc_arena_array(&c->to->arena, (size_t)n->n_attrs, sizeof *all);
    for (int i = 0; all && i < n->n_attrs; i++) {
        nc_attr a = n->attrs[i];
        if (a.kind == NC_A_TENSOR && !carry_literal(c, &a.tensor)) return false;
        if (a.kind == NC_A_TYPE && !carry_type(c, &a.type)) return false;
        if (!nc_edit_copy_attr(c->to, &a, &all[i])) return false;
    }
    n->attrs = all;
    return all != NULL;
}

/* ---- nodes ---- */

static bool copy_subs(copier *c, const nc_node *from, nc_node *n) {
    if (!n->n_subs) return true;
    nc_sub *subs = nc_arena_copy(&c->to->arena, from->subs, (size_t)n->n_subs * sizeof *subs);
    if (!subs) return false;
    n->subs = subs;
    for (int i = 0; i < n->n_subs; i++) {
        nc_graph *g = nc_edit_new_graph(c->to, n, from->subs[i].graph->name);
        if (!g || !carry_str(c, &subs[i].attr) || !copy_graph(c, from->subs[i].graph, g)) return false;
        subs[i].graph = g;
    }
    return true;
}

/* The copy, not yet in g's list, without operands. */
static nc_node *copy_shell(copier *c, nc_graph *g, const nc_node *from) {
    nc_arena *a = &c->to->arena;
    nc_node *n = nc_arena_copy(a, from, sizeof *from);
    if (!n) return NULL;
    n->graph = g;
    n->prev = n->next = NULL;
    n->lowered = NULL;
    if (!c->other) n->id = c->to->next_id++;
    n->in = nc_arena_array(a, (size_t)nc_edit_room(n->n_operands), sizeof *n->in);
    n->at_use = nc_arena_array(a, (size_t)nc_edit_room(n->n_operands), sizeof *n->at_use);
    n->out = nc_arena_array(a, (size_t)nc_edit_room(n->n_out), sizeof *n->out);
    if (!n->in || !n->at_use || !n->out || !carry_str(c, &n->name) || !copy_attrs(c, n) || !carry_extra(c, &n->extra))
        return NULL;
    for (int i = 0; i < n->n_out; i++) {
        if (!from->out[i]) continue;
        if (!(n->out[i] = copy_value(c, g, from->out[i]))) return NULL;
        n->out[i]->def = n;
    }
    return copy_subs(c, from, n) ? n : NULL;
}

static bool connect(nc_node *n, nc_value *const *in, nc_value *const *map) {
    for (int i = 0; i < n->n_operands; i++) {
        nc_value *v = in[i] && map ? map[in[i]->id] : in[i];
        if (in[i] && !v) return false;
        if (!nc_edit_add_use(v, n, i)) return false;
        n->in[i] = v;
    }
    return true;
}

static nc_node *copy_node(copier *c, nc_graph *g, nc_node *before, const nc_node *from, nc_value *const *map) {
    nc_node *n = copy_shell(c, g, from);
    if (!n) return NULL;
    nc_edit_link(g, before, n);
    if (connect(n, from->in, map)) return n;
    nc_edit_remove(n);
    return NULL;
}

nc_node *nc_edit_clone(nc_graph *g, nc_node *before, const nc_node *n) {
    copier c = {.to = g->model};
    if (n->n_subs && !(c.map = nc_alloc_zero((size_t)g->model->next_id + 1, sizeof *c.map))) return NULL;
    nc_node *copy = copy_node(&c, g, before, n, NULL);
    nc_free(c.map);
    return copy;
}

/* ---- graphs and models ---- */

#define COPY_LIST(list)                                               \
    for (int i = 0; i < from->list.n; i++) {                          \
        nc_value *v = copy_value(c, to, from->list.v[i]);             \
        if (!v || !NC_PUSH(&c->to->arena, to->list, v)) return false; \
    }

static bool copy_variable(copier *c, const nc_variable *from, nc_graph *to) {
    nc_variable *var = nc_arena_copy(&c->to->arena, from, sizeof *from);
    if (!var || !carry_str(c, &var->name) || !carry_literal(c, &var->initial)) return false;
    var->first = copy_value(c, to, from->first);
    return var->first && NC_PUSH(&c->to->arena, to->vars, var);
}

/* Versions are outputs of nodes: known once these are copied. */
static void connect_versions(copier *c, const nc_graph *from, const nc_graph *to) {
    for (const nc_node *n = from->first; n; n = n->next)
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i] && n->out[i]->var) c->map[n->out[i]->id]->var = to->vars.v[n->out[i]->var->id];
    for (int i = 0; i < to->vars.n; i++) {
        to->vars.v[i]->first->var = to->vars.v[i];
        to->vars.v[i]->last = c->map[from->vars.v[i]->last->id];
    }
}

static bool copy_graph(copier *c, const nc_graph *from, nc_graph *to) {
    to->extra = from->extra;
    if (!carry_extra(c, &to->extra)) return false;
    COPY_LIST(inputs)
    COPY_LIST(captures)
    COPY_LIST(consts)
    for (int i = 0; i < from->vars.n; i++)
        if (!copy_variable(c, from->vars.v[i], to)) return false;
    for (const nc_node *n = from->first; n; n = n->next)
        if (!copy_node(c, to, NULL, n, c->map)) return false;
    if (from->vars.n) connect_versions(c, from, to);
    for (int i = 0; i < from->outputs.n; i++)
        if (nc_edit_output(to, c->map[from->outputs.v[i]->id], from->output_names.v[i]) != NC_OK) return false;
    return true;
}

static bool copy_header(copier *c, const nc_model *from) {
    nc_model *m = c->to;
    m->ir_version = from->ir_version;
    m->model_version = from->model_version;
    m->producer_name = from->producer_name;
    m->producer_version = from->producer_version;
    m->domain = from->domain;
    m->doc = from->doc;
    m->graph_doc = from->graph_doc;
    m->next_id = from->next_id;
    m->next_random_id = from->next_random_id;
    m->infers_only = from->infers_only;
    m->strict = from->strict;
    for (int i = 0; i < NC_N_ASSUMPTIONS; i++) {
        m->assumed[i] = from->assumed[i];
        if (!carry_str(c, &m->assumed[i])) return false;
    }
    m->out_of_memory = from->out_of_memory;
    m->extra = from->extra;
    if (!carry_extra(c, &m->extra)) return false;
    if (!carry_str(c, &m->producer_name) || !carry_str(c, &m->producer_version) || !carry_str(c, &m->domain) ||
        !carry_str(c, &m->doc) || !carry_str(c, &m->graph_doc))
        return false;
    m->opsets = nc_arena_array(&m->arena, (size_t)from->n_opsets + 1, sizeof *m->opsets);
    if (!m->opsets) return false;
    for (int i = 0; i < from->n_opsets; i++, m->n_opsets++) {
        m->opsets[i] = from->opsets[i];
        if (!carry_str(c, &m->opsets[i].domain)) return false;
    }
    for (int i = 0; i < from->props.n; i++) {
        nc_prop p = from->props.v[i];
        if (!carry_str(c, &p.key) || !carry_str(c, &p.value) || !NC_PUSH(&m->arena, m->props, p)) return false;
    }
    return true;
}

nc_model *nc_model_clone_graph(const nc_graph *g) {
    const nc_model *m = g->model;
    copier c = {.to = nc_model_create(m->registry), .other = true};
    nc_dims *dims = nc_dims_clone(m->dims);
    c.map = nc_alloc_zero((size_t)m->next_id + 1, sizeof *c.map);
    bool ok = c.to && dims && c.map;
    if (ok) {
        nc_dims_destroy(c.to->dims);
        c.to->dims = dims;
        c.to->main->name = g->name;
        ok = carry_str(&c, &c.to->main->name) && copy_header(&c, m) && copy_graph(&c, g, c.to->main);
    } else {
        nc_dims_destroy(dims);
    }
    nc_free(c.map);
    if (ok) return c.to;
    nc_model_destroy(c.to);
    return NULL;
}

nc_model *nc_model_clone(const nc_model *m) { return nc_model_clone_graph(m->main); }
