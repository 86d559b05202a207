/* transform/common/transposes.c: a Transpose of a Transpose is one; one that only moves dims of 1 is a Reshape, unless
 * its input is a view, which that would make dense; between Reshapes that join and part axes in front it does without
 * them; one of a matrix in front of Gemm becomes its transA or transB; one behind a product of matrices, as the
 * gradient by a turned weight has it, swaps its operands instead. Axes in their own order are an identity (identity.c).
 */
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

/* A Reshape that parts again what one before the Transpose joined: axes in front, which stay in front. Then the
 * Transpose alone does it, over all axes. */
static bool joins_in_front(const nc_node *n, const nc_node *t, const nc_node *first, int64_t *perm) {
    int64_t inner[NC_MAX_RANK];
    const nc_value *x = first->in[0], *mid = t->in[0], *y = n->out[0];
    int rank = x->type->rank, more = rank - mid->type->rank;
    if (more < 1 || mid->type->rank < 2 || y->type->rank != rank || !read_perm(t, mid->type->rank, inner)) return false;
    if (inner[0] != 0) return false;
    for (int k = 0; k < rank; k++) {
        perm[k] = k <= more ? k : inner[k - more] + more;
        bool joined = k <= more, same = joined || mid->type->dims[k - more] == x->type->dims[k];
        if (!same || y->type->dims[k] != x->type->dims[perm[k]]) return false;
    }
    return true;
}

static nc_code between_reshapes(nc_work *w, nc_node *n, bool *done) {
    nc_value *turned = n->in[0];
    const nc_node *t = nc_rewrite_def(turned, "Transpose");
    nc_node *first = t != NULL && nc_rewrite_tensor(t->in[0]) ? nc_rewrite_def(t->in[0], "Reshape") : NULL, *made;
    int64_t perm[NC_MAX_RANK];
    if (first == NULL || t->recompute || first->recompute || turned->var != NULL || t->in[0]->var != NULL) return NC_OK;
    if (!nc_rewrite_tensor(first->in[0]) || !joins_in_front(n, t, first, perm)) return NC_OK;
    nc_value *x = first->in[0], *mid = t->in[0];
    nc_attr attr = {.name = "perm", .kind = NC_A_INTS, .n = x->type->rank, .ints = perm};
    NC_TRY(nc_rewrite(w, n, "Transpose", &x, 1, &attr, 1, &made));
    *done = made != NULL;
    if (*done) nc_rewrite_drop(turned);
    if (*done) nc_rewrite_drop(mid);
    return NC_OK;
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

static bool is_factor(const nc_value *v) {
    return v != NULL && v->origin != NC_FROM_CONST && nc_rewrite_tensor(v) && v->type->rank == 2;
}

/* The product that v is, and nobody else's: of matrices of which none is a constant, whose turned form would not be
 * packed; without C. */
static nc_node *product_of(const nc_value *v) {
    nc_node *p = nc_rewrite_def(v, "Gemm");
    if (p == NULL) p = nc_rewrite_def(v, "MatMul");
    if (p == NULL || p->recompute || v->var != NULL || v->uses.n != 1 || v->n_outputs > 0) return NULL;
    if (p->n_in > 2 && p->in[2] != NULL) return NULL;
    return is_factor(p->in[0]) && is_factor(p->in[1]) ? p : NULL;
}

/* (A B)' = B' A' */
static nc_code behind_product(nc_work *w, nc_node *n, bool *done) {
    enum { C_OPTIONAL = 11 };
    nc_value *turned = n->in[0];
    nc_node *p = product_of(turned), *made;
    int64_t perm[NC_MAX_RANK];
    if (p == NULL || nc_model_opset(n->graph->model, "") < C_OPTIONAL) return NC_OK;
    if (!read_perm(n, 2, perm) || perm[0] != 1) return NC_OK;
    bool gemm = nc_rewrite_is(p, "Gemm"), ta = gemm && nc_attr_int(p, "transA") != 0;
    bool tb = gemm && nc_attr_int(p, "transB") != 0;
    nc_attr attrs[] = {{.name = "transA", .kind = NC_A_INT, .i = !tb},
                       {.name = "transB", .kind = NC_A_INT, .i = !ta},
                       {.name = "alpha", .kind = NC_A_FLOAT, .f = gemm ? (float)nc_attr_float(p, "alpha") : 1}};
    NC_TRY(nc_rewrite(w, n, "Gemm", (nc_value *const[]){p->in[1], p->in[0]}, 2, attrs, 3, &made));
    *done = made != NULL;
    if (*done) nc_rewrite_drop(turned);
    return NC_OK;
}

nc_code nc_pass_transposes(nc_work *w, nc_graph *g, int *n_changes) {
    for (nc_node *n = g->first, *next; n != NULL; n = next) {
        next = n->next;
        bool transpose = nc_rewrite_is(n, "Transpose"), gemm = nc_rewrite_is(n, "Gemm"), done[2] = {false, false};
        bool reshape = nc_rewrite_is(n, "Reshape");
        if ((!transpose && !gemm && !reshape) || !nc_rewrite_free(n)) continue;
        if (reshape) {
            if (nc_rewrite_tensor(n->out[0])) NC_TRY(between_reshapes(w, n, &done[0]));
        } else if (gemm) {
            for (int i = 0; i < 2; i++) NC_TRY(into_gemm(w, n, i, &done[i]));
        } else if (nc_rewrite_tensor(n->in[0]) && nc_rewrite_tensor(n->out[0])) {
            NC_TRY(behind_product(w, n, &done[0]));
            if (!done[0]) NC_TRY(compose(w, n, &done[0]));
            if (!done[0]) NC_TRY(to_reshape(w, n, &done[1]));
        }
        *n_changes += done[0] + done[1];
    }
    return NC_OK;
}
