/* ops/matmul/after.c: the body of a product, see after.h. */
#include "ops/matmul/after.h"

nc_code nc_product_body_read(nc_prep *p, int first, const nc_product_body **out) {
    const nc_node *n = p->node;
    *out = NULL;
    if (n->n_subs == 0) return NC_OK;
    nc_product_body *b = nc_arena_alloc(p->arena, sizeof *b);
    NC_NEED(p->w, b);
    if (!nc_lane_prog_body(&b->lanes, n->subs[0].graph))
        NC_FAIL(p->w, NC_E_UNSUPPORTED, "no tile program: %s", b->lanes.why);
    if (b->lanes.compute != NC_FLOAT || b->lanes.n_out != 1 || b->lanes.n_in != n->n_in - first + 1)
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "the body needs one output and an input per input of the node from %d on", first);
    if (b->lanes.n_in > NCK_GEMM_AFTER_IN)
        NC_FAIL(p->w, NC_E_UNSUPPORTED, "the body has %d inputs, at most %d are possible", b->lanes.n_in,
                NCK_GEMM_AFTER_IN);
    b->prog = nc_lane_prog_tile(&b->lanes);
    b->first = first;
    *out = b;
    return NC_OK;
}

const nck_gemm_after *nc_product_after(const nc_product_body *b, const nc_call *c, int64_t N, nck_gemm_after *out) {
    if (b == NULL) return NULL;
    out->prog = &b->prog;
    for (int i = 1; i < b->prog.n_in; i++) {
        const nc_tensor *t = c->in[b->first + i - 1];
        int64_t n = nc_tensor_numel(t);
        out->in[i] =
            (nck_gemm_operand){.data = t->data, .rs = n == nc_tensor_numel(c->out[0]) ? N : 0, .cs = n == 1 ? 0 : 1};
    }
    return out;
}
