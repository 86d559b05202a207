/* transform/common/sequences.c: a SplitToSequence into parts of one known size that is only read at known places, as
 * exporters write torch.split, becomes a Split: its parts are views, nothing runs on objects, and patterns that see
 * through a Split fit. Parts of several sizes stay: a sequence says nothing of the size of each. */
#include "transform/rewrite.h"
#include "transform/transform.h"

enum { MOST = 64 }; /* parts */

typedef struct parts {
    int64_t axis, n;
    int64_t size[MOST];
    const nc_type *type; /* of each */
} parts;

/* Sizes of the parts; false: not known, or not those of the dim. */
static bool read_sizes(const nc_value *split, int64_t dim, parts *p) {
    int n = 0;
    int64_t sum = 0;
    if (!nc_rewrite_tensor(split) || !nc_rewrite_ints(split, p->size, MOST, &n) || n < 1) return false;
    p->n = n;
    if (split->type->rank == 0) {
        if (p->size[0] <= 0 || dim / p->size[0] > MOST) return false;
        p->n = dim / p->size[0];
        for (int64_t k = 1; k < p->n; k++) p->size[k] = p->size[0];
    }
    for (int64_t k = 0; k < p->n; k++) {
        if (p->size[k] != p->size[0]) return false;
        sum += p->size[k];
    }
    return p->n > 0 && sum == dim;
}

static bool read_parts(const nc_node *n, parts *p) {
    const nc_type *held = n->out[0]->type;
    int64_t dim, size;
    if (n->n_in < 2 || !nc_rewrite_tensor(n->in[0]) || held == NULL || held->kind != NC_T_SEQUENCE) return false;
    const nc_type *x = n->in[0]->type;
    p->type = held->of;
    p->axis = nc_attr_int(n, "axis") + (nc_attr_int(n, "axis") < 0 ? x->rank : 0);
    if (p->axis < 0 || p->axis >= x->rank || !nc_dim_is_const(x->dims[p->axis], &dim)) return false;
    return read_sizes(n->in[1], dim, p) && p->type != NULL && p->type->rank == x->rank &&
           nc_dim_is_const(p->type->dims[p->axis], &size) && size == p->size[0];
}

/* The part that a use of the sequence reads; -1: another use. */
static int64_t place_read(const nc_use *u, const parts *p) {
    int64_t at;
    int n;
    const nc_node *node = u->node;
    if (!nc_rewrite_is(node, "SequenceAt") || u->i != 0 || node->recompute || !node->out[0]->type) return -1;
    if (!nc_rewrite_ints(node->in[1], &at, 1, &n) || n != 1 || !nc_type_equal(node->out[0]->type, p->type)) return -1;
    at += at < 0 ? p->n : 0;
    return at >= 0 && at < p->n ? at : -1;
}

static bool only_known_places(const nc_value *v, const parts *p) {
    if (v->n_outputs > 0 || v->var != NULL || v->uses.n == 0) return false;
    for (int i = 0; i < v->uses.n; i++)
        if (place_read(&v->uses.v[i], p) < 0) return false;
    return true;
}

/* The Split before n; *out stays NULL where the opset has none for the type. */
static nc_code put_split(nc_work *w, nc_node *n, const parts *p, nc_node **out) {
    const nc_op_version *version;
    const nc_card *card = nc_rewrite_card(n->graph->model, "Split", n->in[0]->type->elem, &version);
    if (card == NULL) return NC_OK;
    bool as_input = version->since >= 13;
    nc_value *in[2] = {n->in[0], as_input ? nc_edit_const_i64(n->graph, NULL, 1, p->n, p->size) : NULL};
    if (as_input) NC_NEED(w, in[1]);
    nc_node *made = nc_edit_node(n->graph, n, card, version, NULL, in, as_input ? 2 : 1, NULL, (int)p->n);
    NC_NEED(w, made);
    made->stage = n->stage;
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = p->axis};
    nc_attr sizes = {.name = "split", .kind = NC_A_INTS, .ints = p->size, .n = (int)p->n};
    if (nc_edit_set_attr(made, &axis) != NC_OK || (!as_input && nc_edit_set_attr(made, &sizes) != NC_OK))
        NC_FAIL(w, NC_E_MEMORY, "out of memory");
    for (int k = 0; k < made->n_out; k++) made->out[k]->type = p->type;
    *out = made;
    return NC_OK;
}

nc_code nc_pass_sequences(nc_work *w, nc_graph *g, int *n_changes) {
    for (nc_node *n = g->first, *next; n != NULL; n = next) {
        parts p;
        nc_node *split = NULL;
        next = n->next;
        if (!nc_rewrite_is(n, "SplitToSequence") || n->recompute || !read_parts(n, &p) ||
            !only_known_places(n->out[0], &p))
            continue;
        NC_TRY(put_split(w, n, &p, &split));
        if (split == NULL) continue;
        while (n->out[0]->uses.n > 0) {
            nc_use u = n->out[0]->uses.v[0];
            nc_rewrite_skip(u.node, split->out[place_read(&u, &p)]);
        }
        next = n->next;
        nc_edit_remove(n);
        ++*n_changes;
    }
    return NC_OK;
}
