/* ops/nn/col2im_cpu.c: what Col2Im's operands say, for every device, and Col2Im on the CPU, over
 * kernels/cpu/conv/conv_cols.h: one to three image dims. */
#include "kernels/cpu/conv/conv_cols.h"

#include "ops/nn/nn_cpu.h"
#include "ops/window.h"

/* How many image dims there are: by image_shape's own size. */
static int n_spatial(const nc_node *n) {
    const nc_type *t = n->in[1]->type;
    int64_t count;
    return t != NULL && t->rank == 1 && nc_dim_is_const(t->dims[0], &count) && count < NC_MAX_RANK ? (int)count : -1;
}

bool nc_col2im_fits(const nc_node *n, const char **why) {
    *why = "one to three image dims are supported";
    return n_spatial(n) >= 1 && n_spatial(n) <= NC_WINDOW_KERNEL_DIMS;
}

nc_code nc_col2im_prepare(nc_prep *p) {
    nc_window *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    p->state = s;
    return nc_window_read(p->w, p->node, n_spatial(p->node), s);
}

nc_code nc_col2im_window(const nc_window *s, const nc_call *c, nck_window *w) {
    const int64_t *block = c->in[2]->data;
    const nc_tensor *x = c->in[0], *y = c->out[0];
    int64_t out[NC_WINDOW_KERNEL_DIMS], places = 1, taps = 1;
    if (nc_tensor_numel(c->in[2]) != s->n_spatial)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "block_shape has %lld numbers, %d are expected",
                           (long long)nc_tensor_numel(c->in[2]), s->n_spatial);
    for (int i = 0; i < s->n_spatial; i++) {
        int64_t begin, end;
        if (block[i] < 1)
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "block_shape holds %lld", (long long)block[i]);
        nc_window_pads(s, i, y->dims[i + 2], block[i], &begin, &end);
        out[i] = nck_window_out(y->dims[i + 2], block[i], s->strides[i], s->dilations[i], begin + end);
        places *= out[i];
        taps *= block[i];
    }
    if (x->dims[1] != y->dims[1] * taps || x->dims[2] != places)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op,
                           "the input is %lld by %lld, expected a multiple of %lld by %lld", (long long)x->dims[1],
                           (long long)x->dims[2], (long long)taps, (long long)places);
    *w = nc_window_kernel(s, y->dims + 2, block, out);
    return NC_OK;
}

nc_code nc_col2im_run(const nc_call *c) {
    const nc_tensor *x = c->in[0], *y = c->out[0];
    nck_window w;
    NC_TRY(nc_col2im_window(c->state, c, &w));
    nck_cols_to_image(x->dtype, &w, y->dims[0] * y->dims[1], x->data, y->data, c->pool);
    return NC_OK;
}
