/* ops/matmul/after_cuda.c: the body of a product on CUDA, see after_cuda.h. */
#include "ops/matmul/after_cuda.h"

#include "ops/lane_prog.h"

#include <string.h>

enum { MERGED_DIMS = 2 }; /* rows and columns: operands are of one element, of the columns, or whole */

/* What a register of the body holds: an input of it, or the product with what was added to it. */
typedef struct term {
    int input; /* 0: the product and what follows; -1: nothing of that kind */
    int n_added, added[NC_CUDA_BODY_SUMMANDS];
    bool gelu;
    int gelu_at; /* the input at which GELU's derivative is taken, times the product; 0: it is not */
} term;

static const term no_term = {.input = -1};

static term sum_of(const term *a, const term *b) {
    const term *p = a->input == 0 ? a : b, *x = a->input == 0 ? b : a;
    if (p->input != 0 || x->input < 1 || p->gelu || p->gelu_at || p->n_added == NC_CUDA_BODY_SUMMANDS) return no_term;
    term t = *p;
    t.added[t.n_added++] = x->input;
    return t;
}

/* The product alone, times GELU's derivative at an input. */
static term derived(const term *p, const term *x) {
    if (p->input != 0 || p->n_added || p->gelu || p->gelu_at || x->input < 1) return no_term;
    return (term){.gelu_at = x->input};
}

static term term_of(const nck_tile_op *op, const term *regs, nc_dtype elem) {
    const term *a = &regs[op->src[0]];
    if (op->lane == NCK_LANE_gelu_tanh_grad && elem != NC_FLOAT) return derived(a, &regs[op->src[1]]);
    if (op->lane == NCK_LANE_add) return sum_of(a, &regs[op->src[1]]);
    if (op->lane != NCK_LANE_gelu_tanh || a->input != 0 || a->gelu || a->gelu_at || elem == NC_FLOAT) return no_term;
    term t = *a;
    t.gelu = true;
    return t;
}

/* The program as a sum and what is done to it; n_added -1 where it is another one. */
static void read_sum(const nck_tile_prog *p, nc_dtype elem, nc_cuda_body *b) {
    term regs[NCK_TILE_MAX_REG];
    for (int i = 0; i < p->n_reg; i++) regs[i] = (term){.input = i < p->n_in ? i : -1};
    for (int i = 0; i < p->n_op; i++) regs[p->op[i].dst] = term_of(&p->op[i], regs, elem);
    const term *t = &regs[p->out_reg[0]];
    b->n_added = t->input == 0 ? t->n_added : -1;
    b->gelu = t->gelu;
    b->gelu_at = t->gelu_at ? b->first + t->gelu_at - 1 : 0;
    for (int i = 0; i < t->n_added; i++) b->added[i] = b->first + t->added[i] - 1;
}

nc_code nc_cuda_body_read(nc_prep *p, int first, const nc_cuda_body **out) {
    const nc_node *n = p->node;
    *out = NULL;
    if (n->n_subs == 0) return NC_OK;
    nc_cuda_body *b = nc_arena_alloc(p->arena, sizeof *b);
    nc_lane_prog *lanes = nc_arena_alloc(&p->w->scratch, sizeof *lanes);
    NC_NEED(p->w, b);
    NC_NEED(p->w, lanes);
    if (!nc_lane_prog_body(lanes, n->subs[0].graph)) NC_FAIL(p->w, NC_E_UNSUPPORTED, "no tile program: %s", lanes->why);
    if (lanes->compute != NC_FLOAT || lanes->n_out != 1 || lanes->n_in != n->n_in - first + 1)
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "the body needs one output and an input per input of the node from %d on", first);
    nck_tile_prog prog = nc_lane_prog_tile(lanes);
    nc_dtype elem = n->out[0]->type->elem, types[NCK_CUDA_CHAIN_MAX_ARGS];
    for (int i = 0; i <= lanes->n_in; i++) types[i] = elem;
    *b = (nc_cuda_body){.first = first};
    read_sum(&prog, elem, b);
    NC_TRY(nck_cuda_chain_prepare(p->device, &prog, types, MERGED_DIMS, &b->chain, &p->w->diag));
    *out = b;
    return NC_OK;
}

/* A summand of the result's own size is read beside the product, one for each column is a bias. */
bool nc_cuda_body_join(const nc_cuda_body *b, const nc_call *c, nck_cuda_gemm_args *g) {
    if (b->n_added < 0 || g->beta != 0) return false;
    for (int i = 0; i < b->n_added; i++) {
        const nc_tensor *t = c->in[b->added[i]];
        int64_t n = nc_tensor_numel(t);
        bool whole = n == nc_tensor_numel(c->out[0]);
        if (whole && g->other == NULL)
            g->other = t->data;
        else if (n == g->N && g->bias == NULL)
            g->bias = t->data;
        else
            return false;
    }
    g->gelu = b->gelu;
    if (b->gelu_at && nc_tensor_numel(c->in[b->gelu_at]) != nc_tensor_numel(c->out[0])) return false;
    g->gelu_at = b->gelu_at ? c->in[b->gelu_at]->data : NULL;
    return true;
}

nc_code nc_cuda_body_run(const nc_cuda_body *b, const nc_call *c) {
    nc_tensor *in[NCK_CUDA_CHAIN_MAX_ARGS] = {c->out[0]};
    for (int i = 1; i < b->chain.n_in; i++) in[i] = c->in[b->first + i - 1];
    return nck_cuda_chain_run(&b->chain, nck_cuda_at_call(c), in, c->out);
}
