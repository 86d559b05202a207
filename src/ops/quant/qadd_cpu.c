/* ops/quant/qadd_cpu.c: QLinearAdd on the CPU, of operands of one shape; others are taken apart. */
#include "ops/quant/quant.h"

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, C_SCALE, C_ZERO };

bool nc_qadd_fits(const nc_node *n, const char **why) {
    const nc_value *a = n->in[A], *b = n->in[B];
    *why = "the operands are not known to have one shape";
    return a->type != NULL && b->type != NULL && a->type->rank >= 0 && nc_type_equal(a->type, b->type);
}

nck_codes nc_quant_codes(const nc_call *c, nc_dtype type, int scale) {
    const void *zero = scale + 1 < c->n_in ? c->in[scale + 1]->data : NULL;
    nck_codes k = {.scale = *(const float *)c->in[scale]->data};
    if (zero != NULL) k.zero = type == NC_INT8 ? *(const int8_t *)zero : *(const uint8_t *)zero;
    return k;
}

nc_code nc_qadd_run(const nc_call *c) {
    const nc_tensor *a = c->in[A], *y = c->out[0];
    int64_t n = nc_tensor_numel(y);
    if (nc_tensor_numel(a) != n || nc_tensor_numel(c->in[B]) != n)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "A has %lld elements, B has %lld",
                           (long long)nc_tensor_numel(a), (long long)nc_tensor_numel(c->in[B]));
    nck_add_codes(a->dtype, n, a->data, nc_quant_codes(c, a->dtype, A_SCALE), c->in[B]->data,
                  nc_quant_codes(c, a->dtype, B_SCALE), y->data, nc_quant_codes(c, a->dtype, C_SCALE), c->pool);
    return NC_OK;
}
