/* cuda/many.c: launcher of many.cu, see many.h. */
#include "kernels/cuda/many.h"

#include "base/intmath.h"

enum { THREADS = 256, TENSORS = 126, PIECE = 4096 };

/* Mirror many_tensor and many_tensors of many.cu. */
typedef struct many_tensor {
    void *y;
    const void *x;
    uint64_t n_types, end;
} many_tensor;
typedef struct many_tensors {
    many_tensor of[TENSORS];
} many_tensors;
_Static_assert(sizeof(many_tensors) + 16 <= 4096, "what a launch carries");

nc_code nck_cuda_many_prepare(nc_device *d, nc_function **out, nc_diag *diag) {
    return nck_cuda_find(d, NCK_CUDA_TEXT_many, NC_UNDEFINED, NULL, "many", out, diag);
}

static unsigned code_of(const nc_tensor *t) {
    return t->dtype == NC_DOUBLE ? 1 : t->dtype == NC_FLOAT16 ? 2 : t->dtype == NC_BFLOAT16 ? 3 : 0;
}

nc_code nck_cuda_many_run(nc_function *many, const nc_call *c, int n, nck_cuda_many_at at, const void *overwrite) {
    for (int first = 0; first < n; first += TENSORS) {
        many_tensors all = {.of = {{.y = NULL}}};
        int64_t pieces = 0, count = nc_min64(TENSORS, n - first);
        for (int i = 0; i < (int)count; i++) {
            nck_cuda_many t = at(c, first + i);
            int64_t size = nc_tensor_numel(t.y);
            pieces += nc_ceil_div(size, PIECE);
            all.of[i] = (many_tensor){.y = t.y->data,
                                      .x = t.x->data,
                                      .n_types = (uint64_t)size << 4 | code_of(t.x) << 2 | code_of(t.y),
                                      .end = (uint64_t)pieces};
        }
        void *args[] = {&count, &overwrite, &all};
        NC_TRY(nck_cuda_launch(nck_cuda_at_call(c), many, nck_cuda_blocks(c->device, pieces, 1), THREADS, args));
    }
    return NC_OK;
}
