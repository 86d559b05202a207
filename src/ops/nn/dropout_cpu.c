/* ops/nn/dropout_cpu.c: Dropout out of training, and its gradient, on the CPU. Training is ops/random/random_cpu.c. */
#include "kernels/cpu/move/move.h"
#include "kernels/cpu/random/philox.h"
#include "ops/nn/nn_cpu.h"
#include "ops/random/random.h"

#include <string.h>

bool nc_dropout_fits(const nc_node *n, const char **why) {
    *why = "training draws numbers: the planner makes it nacre.PhiloxDropout";
    return !n->card->is_random(n);
}

/* The mask is bool, or of the data's type in version 7. */
nc_code nc_dropout_run(const nc_call *c) {
    const nc_tensor *x = c->in[0], *y = c->out[0];
    nck_copy(x->rank, x->dims, nc_dtype_bytes(x->dtype), x->data, x->strides, y->data, y->strides, c->pool);
    if (c->n_out < 2 || c->out[1]->data == NULL) return NC_OK;
    const nc_tensor *mask = c->out[1];
    bool yes = true;
    float one_f32 = 1;
    double one_f64 = 1;
    uint16_t one_f16 = nc_f32_to_f16(1);
    const void *one = mask->dtype == NC_BOOL     ? (const void *)&yes
                      : mask->dtype == NC_FLOAT  ? (const void *)&one_f32
                      : mask->dtype == NC_DOUBLE ? (const void *)&one_f64
                                                 : (const void *)&one_f16;
    nck_fill(mask->rank, mask->dims, nc_dtype_bytes(mask->dtype), one, mask->data, mask->strides, c->pool);
    return NC_OK;
}

nc_code nc_dropout_grad_run(const nc_call *c) {
    const nc_tensor *dy = c->in[0], *dx = c->out[0];
    double ratio = 0;
    NC_TRY(nc_dropout_ratio(c, 2, 3, &ratio));
    nck_dropout_grad(dx->dtype, nc_tensor_numel(dx), ratio, dy->data, c->in[1]->data, dx->data, c->pool);
    return NC_OK;
}
