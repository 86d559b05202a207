/* transform/common/pairs.c: an op done twice in a row: two that undo each other go (Not, Neg), of two where the second
 * adds nothing the first stays (Relu, Abs, Floor, ...). */
#include "transform/rewrite.h"
#include "transform/transform.h"

static const struct {
    const char *op;
    bool undoes; /* twice is nothing; else: twice is once */
} rows[] = {
    {"Not", true},    {"Neg", true},   {"BitwiseNot", true}, {"Relu", false}, {"Abs", false},
    {"Floor", false}, {"Ceil", false}, {"Round", false},     {"Sign", false},
};

static nc_value *instead(const nc_node *n) {
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        if (!nc_rewrite_is(n, rows[r].op)) continue;
        const nc_node *p = nc_rewrite_def(n->in[0], rows[r].op);
        if (p == NULL || p->recompute || n->in[0]->var != NULL) return NULL;
        return rows[r].undoes ? p->in[0] : n->in[0];
    }
    return NULL;
}

nc_code nc_pass_pairs(nc_work *w, nc_graph *g, int *n_changes) {
    (void)w;
    for (nc_node *n = g->first, *next; n != NULL; n = next) {
        next = n->next;
        if (n->n_in != 1 || !(n->card->traits & NC_ELEMENTWISE) || !nc_rewrite_free(n)) continue;
        nc_value *between = n->in[0], *x = instead(n);
        if (x == NULL || !nc_rewrite_can_skip(n, x)) continue;
        nc_rewrite_skip(n, x);
        nc_rewrite_drop(between);
        ++*n_changes;
    }
    return NC_OK;
}
