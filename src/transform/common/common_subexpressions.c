/* transform/common/common_subexpressions.c: of several nodes with the same op, version, attributes, inputs and stage
 * the first stays. Small constants are compared by content. Not merged: random nodes, updates, nodes with subgraphs,
 * nodes marked to be recomputed, and results whose sizes are found in the run (each has its own symbol). */
#include "ir/edit.h"
#include "transform/transform.h"

#include <string.h>

enum { MAX_CONST = 256 };

static void add(nc_text *key, const void *p, size_t n) {
    nc_text_add_n(key, (const char *)&n, sizeof n);
    if (n > 0) nc_text_add_n(key, p, n);
}

static void add_literal(nc_text *key, const nc_literal *l) {
    if (l->dtype == NC_STRING || l->bytes > MAX_CONST) {
        add(key, &l->data, sizeof l->data);
    } else {
        add(key, &l->dtype, sizeof l->dtype);
        add(key, l->dims, (size_t)l->rank * sizeof *l->dims);
        add(key, l->data, l->bytes);
    }
}

static void add_attr(nc_text *key, const nc_attr *a) {
    size_t n = (size_t)a->n;
    add(key, &a->kind, sizeof a->kind);
    switch (a->kind) {
    case NC_A_INT: add(key, &a->i, sizeof a->i); break;
    case NC_A_FLOAT: add(key, &a->f, sizeof a->f); break;
    case NC_A_OTHER:
    case NC_A_STRING: add(key, a->s.p, a->s.n); break;
    case NC_A_INTS: add(key, a->ints, n * sizeof *a->ints); break;
    case NC_A_FLOATS: add(key, a->floats, n * sizeof *a->floats); break;
    case NC_A_STRINGS:
        for (size_t k = 0; k < n; k++) add(key, a->strings[k].p, a->strings[k].n);
        break;
    case NC_A_TENSOR: add_literal(key, a->tensor); break;
    case NC_A_REF: add(key, a->ref, strlen(a->ref)); break;
    default: add(key, &a->type, sizeof a->type); break;
    }
}

static void add_value(nc_text *key, const nc_value *v) {
    if (v != NULL && v->origin == NC_FROM_CONST && v->var == NULL && v->lit != NULL) {
        nc_text_add_n(key, "c", 1);
        add_literal(key, v->lit);
    } else {
        nc_text_add_n(key, "v", 1);
        add(key, &v, sizeof v);
    }
}

static void add_inputs(nc_text *key, const nc_node *n) {
    bool swapped = (n->card->traits & NC_COMMUTES) && n->n_in == 2 && n->in[0] != NULL && n->in[1] != NULL &&
                   n->in[1]->id < n->in[0]->id;
    for (int i = 0; i < n->n_in; i++) add_value(key, n->in[swapped ? 1 - i : i]);
}

static void make_key(nc_text *key, const nc_node *n) {
    add(key, &n->card, sizeof n->card);
    add(key, &n->version, sizeof n->version);
    add(key, &n->stage, sizeof n->stage);
    add(key, &n->n_out, sizeof n->n_out);
    add_inputs(key, n);
    for (const nc_attr_spec *s = n->version->attr; s != NULL && s->name != NULL; s++) {
        const nc_attr *a = nc_node_attr(n, s->name);
        nc_text_add_n(key, a != NULL ? "a" : "-", 1);
        if (a != NULL) add_attr(key, a);
    }
}

static bool can_merge(const nc_node *n) {
    if ((n->card->traits & (NC_RANDOM | NC_IN_PLACE | NC_CONTROL)) || n->n_subs > 0 || n->recompute) return false;
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] != NULL && n->out[k]->var != NULL) return false;
    return true;
}

/* n's outputs by those of `first`, all or none. */
static bool merge(nc_node *first, nc_node *n) {
    bool used = false;
    for (int k = 0; k < n->n_out; k++) {
        const nc_value *a = first->out[k], *b = n->out[k];
        if (b == NULL) continue;
        if (a == NULL ||
            (a->type != b->type && (a->type == NULL || b->type == NULL || !nc_type_equal(a->type, b->type))))
            return false;
        used |= b->uses.n > 0 || b->n_outputs > 0;
    }
    for (int k = 0; used && k < n->n_out; k++)
        if (n->out[k] != NULL) nc_edit_replace(n->out[k], first->out[k]);
    return used;
}

/* n's outputs by those of an earlier node with the same key, or n is the first. */
static nc_code merge_or_note(nc_work *w, nc_map *seen, const nc_text *key, nc_node *n, int *n_changes) {
    nc_node *first = key->failed ? NULL : nc_map_get_bytes(seen, key->s, key->n);
    if (first != NULL) {
        *n_changes += merge(first, n);
        return NC_OK;
    }
    char *kept = key->failed ? NULL : nc_arena_copy(&w->scratch, key->s, key->n);
    if (kept == NULL || !nc_map_put_bytes(seen, kept, key->n, n)) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

nc_code nc_pass_common_subexpressions(nc_work *w, nc_graph *g, int *n_changes) {
    nc_map seen;
    nc_text key = {0};
    nc_code code = NC_OK;
    nc_map_init(&seen, &w->scratch);
    for (nc_node *n = g->first; n != NULL && code == NC_OK; n = n->next) {
        if (!can_merge(n)) continue;
        key.n = 0;
        make_key(&key, n);
        code = merge_or_note(w, &seen, &key, n, n_changes);
    }
    nc_text_release(&key);
    return code;
}
