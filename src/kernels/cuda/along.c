/* cuda/along.c: launchers of along.cu, see along.h. */
#include "kernels/cuda/along.h"

/* Mirrors line_args of along.cu. */
typedef struct line_args {
    int64_t outer, C, inner;
    int first, second, reverse, unused;
} line_args;

nc_code nck_cuda_along_prepare(nc_device *d, nc_dtype t, nck_cuda_along *out, nc_diag *diag) {
    if (nck_cuda_type_name(t) == NULL)
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "%s is not walked along on a GPU", nc_dtype_name(t));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_along, t, NULL, "arg", &out->arg, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_along, t, NULL, "cumulate", &out->cumulate, diag);
}

static line_args lines_of(const nc_tensor *x, int axis, bool first, bool second, bool reverse) {
    line_args p = {.outer = 1, .C = x->dims[axis], .inner = 1, .first = first, .second = second, .reverse = reverse};
    for (int k = 0; k < x->rank; k++)
        if (k != axis) *(k < axis ? &p.outer : &p.inner) *= x->dims[k];
    return p;
}

static nc_code launch(nck_cuda_at at, nc_function *f, line_args p, const void *x, void *out) {
    void *args[] = {&p, &x, &out};
    nc_dim3 grid = {nck_cuda_blocks(at.device, p.outer * p.inner, 8), 1, 1};
    return at.device->table->launch_function(at.device, at.stream, f, grid, (nc_dim3){32, 8, 1}, 0, args, at.diag);
}

nc_code nck_cuda_arg_run(const nck_cuda_along *k, nck_cuda_at at, const nc_tensor *x, int axis, bool smallest,
                         bool last, void *out) {
    return launch(at, k->arg, lines_of(x, axis, smallest, last, false), x->data, out);
}

nc_code nck_cuda_cumulate_run(const nck_cuda_along *k, nck_cuda_at at, const nc_tensor *x, int axis, bool product,
                              bool exclusive, bool reverse, void *out) {
    return launch(at, k->cumulate, lines_of(x, axis, product, exclusive, reverse), x->data, out);
}
