/* ops/matmul/group_cuda.c: MatMulGroup on CUDA, see group_cuda.h. One row is one launch (kernels/cuda/gemv.h), with the
 * norm and the body in it; more rows, or such that do not lie in vectors, are normed in the workspace, multiplied one
 * matrix after another and, with a body, brought together from the workspace. */
#include "ops/matmul/group_cuda.h"

#include "kernels/cuda/gemv.h"
#include "kernels/cuda/norm.h"
#include "ops/lane_prog.h"

#include <string.h>

enum { FIRST_B = 2, MERGED_DIMS = 2, LINE = 256 }; /* LINE: bytes that parts of the workspace are multiples of */

typedef struct group {
    nck_cuda_gemm kernel;
    nck_cuda_gemm_cache cache;
    nck_cuda_gemv one_row; /* with norm and body */
    nck_cuda_norm norm;
    nck_cuda_chain chain;
    bool normed, paired, constant;
    double epsilon;
} group;

/* The kernels of the body, and of one row. */
static nc_code prepare_formulas(nc_prep *p, group *s, nc_dtype t) {
    nck_tile_prog prog;
    nc_text define = {0};
    if (s->paired) {
        const nc_dtype types[3] = {t, t, t};
        nc_lane_prog *lanes = nc_arena_alloc(&p->w->scratch, sizeof *lanes);
        NC_NEED(p->w, lanes);
        if (!nc_lane_prog_body(lanes, p->node->subs[0].graph))
            NC_FAIL(p->w, NC_E_UNSUPPORTED, "no tile program: %s", lanes->why);
        if (lanes->compute != NC_FLOAT || lanes->n_in != 2 || lanes->n_out != 1 || p->node->n_in != FIRST_B + 2)
            NC_FAIL(p->w, NC_E_BAD_GRAPH, "the body needs two inputs, one for each of two products, and one output");
        prog = nc_lane_prog_tile(lanes);
        NC_TRY(nck_cuda_chain_prepare(p->device, &prog, types, MERGED_DIMS, &s->chain, &p->w->diag));
    }
    nck_cuda_gemv_define(&define, s->normed, s->paired ? &prog : NULL);
    nc_code code = define.failed ? nc_diag_set(&p->w->diag, NC_E_MEMORY, NULL, NULL, "out of memory")
                                 : nck_cuda_gemv_prepare(p->device, t, define.s, &s->one_row, &p->w->diag);
    nc_text_release(&define);
    return code;
}

nc_code nc_matmul_group_prepare(nc_prep *p) {
    const nc_node *n = p->node;
    nc_dtype t = n->in[0]->type->elem;
    group *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    memset(s, 0, sizeof *s);
    s->normed = n->in[1] != NULL;
    s->paired = n->n_subs > 0;
    s->epsilon = nc_attr_float(n, "epsilon");
    s->constant = true;
    for (int i = FIRST_B; i < n->n_in; i++) s->constant &= n->in[i]->origin == NC_FROM_CONST && n->in[i]->var == NULL;
    NC_TRY(nck_cuda_gemm_prepare(p->device, t, &s->cache, &s->kernel, &p->w->diag));
    s->kernel.tf32 = p->tf32, s->kernel.tune = p->tune;
    const nck_cuda_norm_types types = {.x = t, .scale = t, .y = t, .dx = t, .stat = t};
    if (s->normed) NC_TRY(nck_cuda_norm_prepare(p->device, &types, &s->norm, &p->w->diag));
    p->state = s;
    return prepare_formulas(p, s, t);
}

static size_t bytes_part(int64_t rows, int64_t cols, nc_dtype t) {
    return ((size_t)(rows * cols) * nc_dtype_bytes(t) + LINE - 1) / LINE * LINE;
}

static int64_t rows_of(const nc_tensor *x) {
    int64_t rows = 1;
    for (int d = 0; d < x->rank - 1; d++) rows *= x->dims[d];
    return rows;
}

/* Of the workspace, before the room of cuBLASLt. */
static size_t bytes_own(const group *s, const nc_tensor *x, const nc_tensor *y) {
    int64_t rows = rows_of(x);
    size_t bytes = s->normed ? bytes_part(rows, x->dims[x->rank - 1], x->dtype) : 0;
    return bytes + (s->paired ? 2 * bytes_part(rows, y->dims[y->rank - 1], x->dtype) : 0);
}

static nck_cuda_gemm_args product_of(const group *s, const nc_tensor *x, const nc_tensor *b, void *from, void *to) {
    int64_t K = x->dims[x->rank - 1], N = b->dims[1];
    return (nck_cuda_gemm_args){.n_batch = 1,
                                .M = rows_of(x),
                                .N = N,
                                .K = K,
                                .alpha = 1,
                                .a = {.data = from, .rs = K, .cs = 1},
                                .b = {.data = b->data, .rs = N, .cs = 1},
                                .c = {.data = to, .rs = N, .cs = 1},
                                .b_constant = s->constant};
}

size_t nc_matmul_group_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const group *s = state;
    size_t most = 0, room;
    (void)n_out;
    for (int i = FIRST_B; i < n_in && rows_of(&in[0]) > 1; i++) {
        nck_cuda_gemm_args g = product_of(s, &in[0], &in[i], NCK_CUDA_SOMEWHERE, NCK_CUDA_SOMEWHERE);
        g.b.data = NCK_CUDA_SOMEWHERE;
        if (nck_cuda_gemm_room(&s->kernel, &g, &room) && room > most) most = room;
    }
    return bytes_own(s, &in[0], &out[0]) + most;
}

static nc_code norm_rows(const nc_call *c, void *to) {
    const group *s = c->state;
    const nc_tensor *x = c->in[0];
    const int64_t K = x->dims[x->rank - 1], one = 1;
    nck_cuda_norm_args a = {.rows = rows_of(x), .cols = K, .mod = 1, .epsilon = s->epsilon};
    a.pick = nck_cuda_walk_of(1, &K, &one, &one);
    return nck_cuda_norm_run(&s->norm, nck_cuda_at_call(c), &a, x->data, c->in[1]->data, NULL, to, NULL, NULL);
}

static nc_code describe_products(const nc_call *c, nck_cuda_gemm_args *g, int n) {
    const group *s = c->state;
    const nc_tensor *x = c->in[0];
    int64_t K = x->dims[x->rank - 1];
    for (int i = 0; i < n; i++) {
        const nc_tensor *b = c->in[FIRST_B + i];
        if (b->dims[0] != K)
            return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "A has %lld columns, B %d has %lld rows",
                               (long long)K, i, (long long)b->dims[0]);
        g[i] = product_of(s, x, b, x->data, c->out[s->paired ? 0 : i]->data);
    }
    return NC_OK;
}

/* One kernel after another, over the workspace. */
static nc_code run_apart(const nc_call *c, nck_cuda_gemm_args *g, int n) {
    const group *s = c->state;
    char *at = c->workspace;
    nck_cuda_at to = nck_cuda_at_room(c, bytes_own(s, c->in[0], c->out[0]));
    nc_tensor parts[2];
    if (s->normed) {
        NC_TRY(norm_rows(c, at));
        for (int i = 0; i < n; i++) g[i].a.data = at;
        at += bytes_part(g->M, g->K, c->in[0]->dtype);
    }
    for (int i = 0; i < n; i++) {
        if (s->paired) {
            nc_tensor_copy(&parts[i], c->out[0]);
            g[i].c.data = parts[i].data = at;
            at += bytes_part(g->M, g->N, c->in[0]->dtype);
        }
        NC_TRY(nck_cuda_gemm_run(&s->kernel, to, &g[i]));
    }
    nc_tensor *in[2] = {&parts[0], &parts[1]};
    return s->paired ? nck_cuda_chain_run(&s->chain, nck_cuda_at_call(c), in, c->out) : NC_OK;
}

nc_code nc_matmul_group_run(const nc_call *c) {
    const group *s = c->state;
    nck_cuda_gemm_args g[NCK_CUDA_GEMV_PARTS];
    int n = c->n_in - FIRST_B;
    NC_TRY(describe_products(c, g, n));
    if (g->M == 0) return NC_OK;
    if (!nck_cuda_gemv_together(&s->one_row, g, n)) return run_apart(c, g, n);
    nck_cuda_gemv_how how = {
        .scale = s->normed ? c->in[1]->data : NULL, .epsilon = (float)s->epsilon, .paired = s->paired};
    return nck_cuda_gemv_run(&s->one_row, nck_cuda_at_call(c), g, n, &how);
}
