/* ops/matmul/matmul.c: the card of MatMul: numpy's matrix product, with batches broadcast and vectors as rows or
 * columns. Kernels are in matmul_cpu.c. */
#include "ops/matmul/matmul.h"

#include "ops/build.h"
#include "ops/card.h"

static nc_code check_inner(nc_infer *c, const nc_dim *a, const nc_dim *b) {
    int64_t ka, kb;
    if (a == b) return NC_OK;
    if (!nc_dim_is_const(a, &ka) || !nc_dim_is_const(b, &kb))
        nc_leave_open(c);
    else if (ka != kb)
        NC_FAIL(c->w, NC_E_SHAPE, "A has %lld columns, B has %lld rows", (long long)ka, (long long)kb);
    return NC_OK;
}

/* The dims before the last two of each input, broadcast. */
static nc_code batch_dims(nc_infer *c, const nc_dim **dims, int *rank) {
    nc_infer_val heads[2] = {c->in[0], c->in[1]};
    nc_infer batch = *c;
    batch.in = heads;
    for (int i = 0; i < 2; i++) {
        const nc_type *t = c->in[i].type;
        heads[i].type = nc_type_tensor(c->arena, t->elem, t->rank > 2 ? t->rank - 2 : 0, t->dims);
        NC_NEED(c->w, heads[i].type);
    }
    return nc_broadcast_in(&batch, 0, 2, dims, rank);
}

nc_code nc_matmul_infer_as(nc_infer *c, nc_dtype elem) {
    int ra, rb, rank;
    if (!nc_in_rank(c, 0, &ra) || !nc_in_rank(c, 1, &rb)) return nc_out_unknown(c, 0, elem, -1);
    if (ra < 1 || rb < 1) NC_FAIL(c->w, NC_E_SHAPE, "input %d is a scalar, at least 1 dim is expected", ra < 1 ? 0 : 1);
    NC_TRY(check_inner(c, nc_in_dim(c, 0, ra - 1), nc_in_dim(c, 1, rb == 1 ? 0 : rb - 2)));
    const nc_dim *dims[NC_MAX_RANK + 2];
    NC_TRY(batch_dims(c, dims, &rank));
    if (ra > 1) dims[rank++] = nc_in_dim(c, 0, ra - 2);
    if (rb > 1) dims[rank++] = nc_in_dim(c, 1, rb - 1);
    return nc_out(c, 0, elem, rank, dims);
}

static nc_code matmul_infer(nc_infer *c) {
    const nc_type *a = nc_in(c, 0);
    return a != NULL ? nc_matmul_infer_as(c, a->elem) : NC_OK;
}

/* ---- gradient ---- */

static nc_value *matmul(nc_builder *b, nc_value *x, nc_value *y) { return nc_build1(b, "MatMul", 2, x, y); }

static nc_value *unsqueeze(nc_builder *b, nc_value *x, int64_t axis) {
    return nc_build1(b, "Unsqueeze", 2, x, nc_build_ints(b, &axis, 1));
}

/* x (...,K) or (...,K,1) summed to (K): every axis but `keep`. */
static nc_value *sum_to_vector(nc_builder *b, nc_value *x, int keep) {
    if (b->code != NC_OK || x == NULL) return NULL;
    int64_t axes[NC_MAX_RANK];
    int n = 0;
    for (int i = 0; i < x->type->rank; i++)
        if (i != (keep < 0 ? keep + x->type->rank : keep)) axes[n++] = i;
    return nc_build_reduce_sum(b, x, axes, n, false);
}

static nc_value *as_matrix(nc_builder *b, nc_value *x, int64_t columns) {
    int64_t shape[2] = {-1, columns};
    return nc_build1(b, "Reshape", 2, x, nc_build_ints(b, shape, 2));
}

/* Constant and not 0, so that Reshape to (-1, size) has one answer. */
static bool positive(const nc_dim *d, int64_t *size) { return nc_dim_is_const(d, size) && *size > 0; }

/* dB of A (...,M,K) times B (K,N): rows of all batches are rows of one product where K and N are known. */
static nc_value *grad_of_matrix(nc_grad *g, nc_value *dy) {
    nc_value *a = nc_grad_x(g, 0);
    int64_t K, N;
    if (g->b->code != NC_OK) return NULL;
    if (a->type->rank > 2 && positive(g->node->in[1]->type->dims[0], &K) && positive(g->node->in[1]->type->dims[1], &N))
        return matmul(g->b, nc_build_swap_last(g->b, as_matrix(g->b, a, K)), as_matrix(g->b, dy, N));
    return nc_grad_sum_to(g, matmul(g->b, nc_build_swap_last(g->b, a), dy), 1);
}

static nc_code grad_of_vectors(nc_grad *g, nc_value *dy, int ra, int rb) {
    nc_builder *b = g->b;
    if (ra == 1 && rb == 1) {
        if (g->wants[0]) nc_grad_set(g, 0, nc_build1(b, "Mul", 2, nc_grad_x(g, 1), dy));
        if (g->wants[1]) nc_grad_set(g, 1, nc_build1(b, "Mul", 2, nc_grad_x(g, 0), dy));
    } else if (ra == 1) { /* dy (...,N) as (...,1,N) */
        dy = unsqueeze(b, dy, -2);
        if (g->wants[0]) nc_grad_set(g, 0, sum_to_vector(b, matmul(b, dy, nc_build_swap_last(b, nc_grad_x(g, 1))), -1));
        if (g->wants[1]) nc_grad_set(g, 1, matmul(b, unsqueeze(b, nc_grad_x(g, 0), 1), dy));
    } else { /* dy (...,M) as (...,M,1) */
        dy = unsqueeze(b, dy, -1);
        if (g->wants[0]) nc_grad_set(g, 0, matmul(b, dy, unsqueeze(b, nc_grad_x(g, 1), 0)));
        if (g->wants[1]) nc_grad_set(g, 1, sum_to_vector(b, matmul(b, nc_build_swap_last(b, nc_grad_x(g, 0)), dy), -2));
    }
    return nc_grad_end(g);
}

static nc_code matmul_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    const nc_type *a = g->node->in[0]->type, *b = g->node->in[1]->type;
    if (dy == NULL) return NC_OK;
    if (a == NULL || b == NULL || a->rank < 1 || b->rank < 1)
        NC_FAIL(g->b->w, NC_E_UNSUPPORTED, "the gradient needs known ranks");
    if (a->rank == 1 || b->rank == 1) return grad_of_vectors(g, dy, a->rank, b->rank);
    if (g->wants[0]) {
        nc_value *bt = nc_build_swap_last(g->b, nc_grad_x(g, 1));
        nc_grad_set(g, 0, nc_grad_sum_to(g, matmul(g->b, dy, bt), 0));
    }
    if (g->wants[1]) {
        bool matrix = b->rank == 2;
        nc_value *db = matrix ? grad_of_matrix(g, dy)
                              : nc_grad_sum_to(g, matmul(g->b, nc_build_swap_last(g->b, nc_grad_x(g, 0)), dy), 1);
        nc_grad_set(g, 1, db);
    }
    return nc_grad_end(g);
}

double nc_matmul_cost(const nc_node *n, const int64_t *const *in_dims) {
    int ra = n->in[0]->type->rank, rb = n->in[1]->type->rank;
    double a = 2, batch = 1;
    for (int i = 0; i < ra; i++) a *= (double)in_dims[0][i];
    for (int i = 0; i < rb - 2; i++)
        if (ra - rb + i < 0 || in_dims[0][ra - rb + i] == 1) batch *= (double)in_dims[1][i];
    return a * batch * (rb > 1 ? (double)in_dims[1][rb - 1] : 1);
}

#define AB(types) IN({"A", types}, {"B", SAME(0)}), OUT({"Y", SAME(0)}), NO_ATTR
static const nc_op_version versions[] = {
    {.since = 13, AB(T_BIG_NUMBER_ALL)}, {.since = 9, AB(T_BIG_NUMBER)}, {.since = 1, AB(T_FLOAT)}, {0}};

const nc_card nc_card_matmul = {.name = "MatMul",
                                .doc = "The matrix product A B, batches broadcast.",
                                .versions = versions,
                                .traits = NC_NARROWS,
                                .infer = matmul_infer,
                                .grad = matmul_grad,
                                .with_body = &nc_card_matmul_chain,
                                .group = &nc_card_matmul_group,
                                .cost = nc_matmul_cost};
