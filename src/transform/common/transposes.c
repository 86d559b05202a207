/* transform/common/transposes.c: a Transpose of a Transpose is one; one that only moves dims of 1 is a Reshape, unless
 * its input is a view, which that would make dense; one of a matrix in front of Gemm becomes its transA or transB. Axes
 * in their own order are an identity (identity.c). */
#include "transform/shapes.h"
#include "transform/transform.h"

static bool read_perm(const nc_node *n, int rank, int64_t *perm) {
    int count = 0;
    const int64_t *attr = nc_attr_ints(n, "perm", &count);
    if (attr != NULL && count != rank) return false;
    for (int k = 0; k < rank; k++) perm[k] = attr != NULL ? attr[k] : rank - 1 - k;
    return true;
}

static nc_code compose(nc_work *w, nc_node *n, bool *done) {
    nc_value *between = n->in[0];
    const nc_node *p = nc_rewrite_def(between, "Transpose");
    int64_t last[NC_MAX_RANK], first[NC_MAX_RANK], both[NC_MAX_RANK];
    if (p == NULL || p->recompute || between->var != NULL || !nc_rewrite_tensor(p->in[0])) return NC_OK;
    int rank = p->in[0]->type->rank;
    if (!read_perm(n, rank, last) || !read_perm(p, rank, first)) return NC_OK;
    for (int k = 0; k < rank; k++) both[k] = first[last[k]];
    nc_attr attr = {.name = "perm", .kind = NC_A_INTS, .n = rank, .ints = both};
    if (nc_edit_set_attr(n, &attr) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    nc_edit_set_in(n, 0, p->in[0]);
    nc_rewrite_drop(between);
    *done = true;
    return NC_OK;
}

/* The axes that are longer than 1, or may be, stay in their order; and the order does change. */
static bool moves_ones(const nc_type *x, const int64_t *perm) {
    int64_t c, last = -1;
    bool moved = false;
    for (int k = 0; k < x->rank; k++) {
        moved |= perm[k] != k;
        if (nc_dim_is_const(x->dims[perm[k]], &c) && c == 1) continue;
        if (perm[k] < last) return false;
        last = perm[k];
    }
    return moved;
}

static bool is_view(const nc_value *x) { return x->origin == NC_FROM_NODE && (x->def->card->traits & NC_VIEW_STRIDED); }

static nc_code to_reshape(nc_work *w, nc_node *n, bool *done) {
    int64_t perm[NC_MAX_RANK];
    nc_value *x = n->in[0];
    if (is_view(x) || !read_perm(n, x->type->rank, perm) || !moves_ones(x->type, perm)) return NC_OK;
    return nc_shapes_reshape(w, n, x, false, done);
}

static nc_code into_gemm(nc_work *w, nc_node *n, int i, bool *done) {
    nc_value *t = n->in[i];
    const nc_node *p = nc_rewrite_def(t, "Transpose");
    int64_t perm[NC_MAX_RANK];
    const char *name = i == 0 ? "transA" : "transB";
    if (p == NULL || p->recompute || t->var != NULL || !nc_rewrite_tensor(p->in[0]) || p->in[0]->type->rank != 2)
        return NC_OK;
    if (!read_perm(p, 2, perm) || perm[0] != 1) return NC_OK;
    nc_attr attr = {.name = name, .kind = NC_A_INT, .i = nc_attr_int(n, name) == 0};
    if (nc_edit_set_attr(n, &attr) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    nc_edit_set_in(n, i, p->in[0]);
    nc_rewrite_drop(t);
    *done = true;
    return NC_OK;
}

nc_code nc_pass_transposes(nc_work *w, nc_graph *g, int *n_changes) {
    for (nc_node *n = g->first, *next; n != NULL; n = next) {
        next = n->next;
        bool transpose = nc_rewrite_is(n, "Transpose"), gemm = nc_rewrite_is(n, "Gemm"), done[2] = {false, false};
        if ((!transpose && !gemm) || !nc_rewrite_free(n)) continue;
        if (gemm) {
            for (int i = 0; i < 2; i++) NC_TRY(into_gemm(w, n, i, &done[i]));
        } else if (nc_rewrite_tensor(n->in[0]) && nc_rewrite_tensor(n->out[0])) {
            NC_TRY(compose(w, n, &done[0]));
            NC_TRY(to_reshape(w, n, &done[1]));
        }
        *n_changes += done[0] + done[1];
    }
    return NC_OK;
}
