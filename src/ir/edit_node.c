/* ir/edit_node.c: nodes of a graph: adding, operands, attributes, subgraphs and their captures, moving, removing.
 *
 * Operands are inputs, then captures of the first subgraph, then of the second, ...; putting one in or taking one
 * out moves those behind it, and their uses are renumbered. Calls that cannot return a failure set
 * model->out_of_memory and leave the operand as it was. */
#include "ir/card.h"

#include "base/steps.h"
#include "ir/edit_core.h"

#include <string.h>

int nc_edit_room(int n) {
    int room = 4;
    while (room < n) room *= 2;
    return room;
}

/* Makes place for one more pointer behind n. */
static bool grow_pointers(nc_arena *a, void *array, int n) {
    void ***v = array;
    if (*v && n < nc_edit_room(n)) return true;
    void **more = nc_arena_array(a, (size_t)nc_edit_room(n + 1), sizeof *more);
    if (!more) return false;
    if (n) memcpy(more, *v, (size_t)n * sizeof *more);
    *v = more;
    return true;
}

static bool grow_operands(nc_node *n) {
    nc_arena *a = &n->graph->model->arena;
    int count = n->n_operands;
    if (count == nc_edit_room(count)) {
        int *more = nc_arena_array(a, (size_t)nc_edit_room(count + 1), sizeof *more);
        if (!more) return false;
        memcpy(more, n->at_use, (size_t)count * sizeof *more);
        n->at_use = more;
    }
    return grow_pointers(a, &n->in, count);
}

/* ---- the list ---- */

void nc_edit_link(nc_graph *g, nc_node *before, nc_node *n) {
    n->graph = g;
    n->next = before;
    n->prev = before ? before->prev : g->last;
    if (n->prev)
        n->prev->next = n;
    else
        g->first = n;
    if (before)
        before->prev = n;
    else
        g->last = n;
    g->n_nodes++;
}

void nc_edit_unlink(nc_node *n) {
    nc_graph *g = n->graph;
    if (n->prev)
        n->prev->next = n->next;
    else
        g->first = n->next;
    if (n->next)
        n->next->prev = n->prev;
    else
        g->last = n->prev;
    n->prev = n->next = NULL;
    g->n_nodes--;
}

void nc_edit_move_before(nc_node *n, nc_node *before) {
    if (n == before || n->next == before) {
        if (before || n->graph->last == n) return;
    }
    nc_graph *g = n->graph;
    nc_edit_unlink(n);
    nc_edit_link(g, before, n);
}

void nc_edit_remove(nc_node *n) {
    for (int i = 0; i < n->n_operands; i++) nc_edit_drop_use(n->in[i], n, i);
    nc_edit_unlink(n);
}

/* ---- a new node ---- */

static nc_value *new_output(nc_node *n, int i, const char *name) {
    nc_value *v;
    if (name) {
        v = nc_edit_new_value(n->graph, NC_FROM_NODE, name, NULL);
    } else {
        const char *made = nc_arena_printf(&n->graph->model->arena, i ? "%s_out%d" : "%s_out", n->name, i);
        v = made ? nc_edit_new_value(n->graph, NC_FROM_NODE, made, NULL) : NULL;
    }
    if (!v) return NULL;
    v->def = n;
    v->i_def = i;
    return v;
}

static nc_node *new_node(nc_graph *g, const nc_card *card, const nc_op_version *version, const char *name, int n_in,
                         int n_out) {
    nc_arena *a = &g->model->arena;
    nc_node *n = nc_arena_alloc(a, sizeof *n);
    if (!n) return NULL;
    n->id = g->model->next_id;
    n->name = name && *name ? nc_arena_str(a, name) : nc_arena_printf(a, "%s_%d", card->name, n->id);
    n->in = nc_arena_array(a, (size_t)nc_edit_room(n_in), sizeof(nc_value *));
    n->at_use = nc_arena_array(a, (size_t)nc_edit_room(n_in), sizeof *n->at_use);
    n->out = nc_arena_array(a, (size_t)nc_edit_room(n_out), sizeof(nc_value *));
    if (!n->name || !n->in || !n->at_use || !n->out) return NULL;
    g->model->next_id++;
    n->graph = g;
    n->card = card;
    n->version = version;
    n->n_in = n->n_operands = n_in;
    n->n_out = n_out;
    return n;
}

nc_node *nc_edit_node(nc_graph *g, nc_node *before, const nc_card *card, const nc_op_version *version, const char *name,
                      nc_value *const *in, int n_in, const char *const *out_names, int n_out) {
    nc_node *n = new_node(g, card, version, name, n_in, n_out);
    if (!n) return NULL;
    for (int i = 0; i < n_out; i++) {
        const char *out = out_names ? out_names[i] : NULL;
        if (out && !*out) continue;
        if (!(n->out[i] = new_output(n, i, out))) return NULL;
    }
    nc_edit_link(g, before, n);
    for (int i = 0; i < n_in; i++) {
        if (!nc_edit_add_use(in[i], n, i)) {
            nc_edit_remove(n);
            return NULL;
        }
        n->in[i] = in[i];
    }
    return n;
}

nc_value *nc_edit_add_out(nc_node *n, const char *name) {
    if (!grow_pointers(&n->graph->model->arena, &n->out, n->n_out)) return NULL;
    nc_value *v = new_output(n, n->n_out, name);
    if (v) n->out[n->n_out++] = v;
    return v;
}

/* ---- operands ---- */

void nc_edit_set_in(nc_node *n, int i, nc_value *v) {
    if (n->in[i] == v) return;
    int before = n->at_use[i];
    if (!nc_edit_add_use(v, n, i)) {
        n->graph->model->out_of_memory = true;
        return;
    }
    int now = n->at_use[i];
    n->at_use[i] = before;
    nc_edit_drop_use(n->in[i], n, i);
    n->at_use[i] = now;
    n->in[i] = v;
}

static void move_operand(nc_node *n, int from, int to) {
    nc_steps_add(1);
    n->in[to] = n->in[from];
    n->at_use[to] = n->at_use[from];
    if (n->in[to]) n->in[to]->uses.v[n->at_use[to]].i = to;
}

static bool insert_operand(nc_node *n, int at, nc_value *v) {
    if (!grow_operands(n)) return false;
    int last = n->n_operands;
    if (!nc_edit_add_use(v, n, last)) return false;
    int k = n->at_use[last];
    for (int j = last; j > at; j--) move_operand(n, j - 1, j);
    n->in[at] = v;
    n->at_use[at] = k;
    if (v) v->uses.v[k].i = at;
    n->n_operands++;
    return true;
}

static void remove_operand(nc_node *n, int at) {
    nc_edit_drop_use(n->in[at], n, at);
    for (int j = at; j + 1 < n->n_operands; j++) move_operand(n, j + 1, j);
    n->n_operands--;
}

nc_code nc_edit_add_in(nc_node *n, nc_value *v) {
    if (!insert_operand(n, n->n_in, v)) return NC_E_MEMORY;
    n->n_in++;
    for (int i = 0; i < n->n_subs; i++) n->subs[i].first_capture++;
    return NC_OK;
}

/* ---- attributes ---- */

static const nc_str *copy_strs(nc_arena *a, const nc_str *from, int n) {
    nc_str *to = nc_arena_array(a, (size_t)n + 1, sizeof *to);
    for (int i = 0; to && i < n; i++) {
        to[i].n = from[i].n;
        if (!(to[i].p = nc_arena_strn(a, from[i].p ? from[i].p : "", from[i].n))) return NULL;
    }
    return to;
}

static const void *copy_array(nc_arena *a, const void *from, int n, size_t size) {
    void *to = nc_arena_array(a, (size_t)n + 1, size);
    if (to && n) memcpy(to, from, (size_t)n * size);
    return to;
}

bool nc_edit_copy_attr(nc_model *m, const nc_attr *from, nc_attr *to) {
    nc_arena *a = &m->arena;
    *to = *from;
    if (!(to->name = nc_arena_str(a, from->name))) return false;
    switch (from->kind) {
    case NC_A_OTHER:
    case NC_A_STRING: return (to->s.p = nc_arena_strn(a, from->s.p ? from->s.p : "", from->s.n)) != NULL;
    case NC_A_INTS: return (to->ints = copy_array(a, from->ints, from->n, sizeof *from->ints)) != NULL;
    case NC_A_FLOATS: return (to->floats = copy_array(a, from->floats, from->n, sizeof *from->floats)) != NULL;
    case NC_A_STRINGS: return (to->strings = copy_strs(a, from->strings, from->n)) != NULL;
    case NC_A_TENSOR: return (to->tensor = nc_edit_copy_literal(m, from->tensor)) != NULL;
    case NC_A_TYPE: return (to->type = nc_type_copy(a, NULL, from->type)) != NULL;
    case NC_A_REF: return (to->ref = nc_arena_str(a, from->ref)) != NULL;
    default: return true;
    }
}

nc_code nc_edit_set_attr(nc_node *n, const nc_attr *attr) {
    nc_model *m = n->graph->model;
    int at = 0;
    while (at < n->n_attrs && strcmp(n->attrs[at].name, attr->name) != 0) at++;
    nc_attr *all = nc_arena_array(&m->arena, (size_t)n->n_attrs + 1, sizeof *all);
    if (!all) return NC_E_MEMORY;
    if (n->n_attrs) memcpy(all, n->attrs, (size_t)n->n_attrs * sizeof *all);
    if (!nc_edit_copy_attr(m, attr, &all[at])) return NC_E_MEMORY;
    n->attrs = all;
    if (at == n->n_attrs) n->n_attrs++;
    return NC_OK;
}

/* ---- subgraphs ---- */

nc_graph *nc_edit_subgraph(nc_node *n, const char *attr) {
    nc_model *m = n->graph->model;
    nc_sub *subs = nc_arena_array(&m->arena, (size_t)n->n_subs + 1, sizeof *subs);
    nc_graph *g = subs ? nc_edit_new_graph(m, n, "") : NULL;
    if (!g) return NULL;
    if (n->n_subs) memcpy(subs, n->subs, (size_t)n->n_subs * sizeof *subs);
    nc_attr a = {.name = attr, .kind = NC_A_GRAPH, .sub = n->n_subs};
    if (nc_edit_set_attr(n, &a) != NC_OK) return NULL;
    subs[n->n_subs] = (nc_sub){.attr = nc_node_attr(n, attr)->name, .graph = g, .first_capture = n->n_operands};
    n->subs = subs;
    n->n_subs++;
    return g;
}

/* What sub s of n has captured of outer, or NULL. A weight has few users, a small body few captures: the shorter of the
 * two lists is searched. */
static nc_value *find_capture(const nc_node *n, const nc_sub *s, const nc_value *outer) {
    bool by_use = outer->uses.n < s->n_captures;
    int n_list = by_use ? outer->uses.n : s->n_captures;
    for (int k = 0; k < n_list; k++) {
        nc_steps_add(1);
        int at = by_use ? outer->uses.v[k].i - s->first_capture : k;
        bool here =
            by_use ? outer->uses.v[k].node == n && at >= 0 && at < s->n_captures : n->in[s->first_capture + k] == outer;
        if (here) return s->graph->captures.v[at];
    }
    return NULL;
}

nc_value *nc_edit_capture(nc_node *n, int i_sub, nc_value *outer) {
    nc_sub *s = &n->subs[i_sub];
    nc_value *found = find_capture(n, s, outer);
    if (found) return found;
    nc_value *inner = nc_edit_new_value(s->graph, NC_FROM_CAPTURE, outer->name, outer->type);
    if (!inner || !NC_PUSH(&n->graph->model->arena, s->graph->captures, inner)) return NULL;
    if (!insert_operand(n, s->first_capture + s->n_captures, outer)) {
        s->graph->captures.n--;
        return NULL;
    }
    s->n_captures++;
    for (int i = i_sub + 1; i < n->n_subs; i++) n->subs[i].first_capture++;
    inner->place = outer->place;
    return inner;
}

nc_value *nc_edit_reach(nc_graph *g, nc_value *v) {
    if (v->graph == g) return v;
    if (!g->parent) return NULL;
    nc_value *outer = nc_edit_reach(g->parent, v);
    if (!outer) return NULL;
    for (int i = 0; i < g->owner->n_subs; i++)
        if (g->owner->subs[i].graph == g) return nc_edit_capture(g->owner, i, outer);
    return NULL;
}

void nc_edit_remove_capture(nc_node *n, int i_sub, int i_capture) {
    nc_sub *s = &n->subs[i_sub];
    remove_operand(n, s->first_capture + i_capture);
    for (int k = i_capture; k + 1 < s->n_captures; k++) s->graph->captures.v[k] = s->graph->captures.v[k + 1];
    s->n_captures--;
    s->graph->captures.n--;
    for (int i = i_sub + 1; i < n->n_subs; i++) n->subs[i].first_capture--;
}
