/* cuda/linear_attention.c: launcher of linear_attention.cu, see linear_attention.h. */
#include "kernels/cuda/linear_attention.h"

#include <stdio.h>

enum { THREADS = 64 };

nc_code nck_cuda_linear_attention_prepare(nc_device *d, nc_dtype t, nc_dtype states, nc_function **out, nc_diag *diag) {
    char define[32];
    snprintf(define, sizeof define, "#define P %s\n", nck_cuda_type_name(states));
    return nck_cuda_find(d, NCK_CUDA_TEXT_linear_attention, t, define, "attend_linear", out, diag);
}

nc_code nck_cuda_linear_attention_run(nc_function *f, nck_cuda_at at, const nck_cuda_linear_attention *a,
                                      const nck_cuda_linear_attention_data *p) {
    nck_cuda_linear_attention how = *a;
    nck_cuda_linear_attention_data v = *p;
    void *args[] = {&how, &v.query, &v.key, &v.value, &v.past, &v.decay, &v.beta, &v.state, &v.present, &v.y};
    return nck_cuda_launch(at, f, nck_cuda_blocks(at.device, a->B * a->kv_heads * a->dv, THREADS), THREADS, args);
}
