/* cuda/rnn.h: recurrent layers on the GPU, as kernels/cpu/rnn/rnn.h says: the inputs' part of all gates is one product
 * over all steps; a step is a product with the recurrent weights and one kernel (GRU without linear_before_reset: two
 * of each). f32 and f64; packed weights and cell programs are not looked at. Lengths lie in device memory, and those
 * out of range are told when the stream is next waited for. */
#ifndef NCK_CUDA_RNN_H
#define NCK_CUDA_RNN_H

#include "kernels/cpu/rnn/rnn.h"
#include "kernels/cuda/gemm.h"

typedef struct nck_cuda_rnn {
    nck_cuda_gemm gemm;
    nc_function *start, *store, *reset, *step;
    nc_function *back_step, *back_reset, *bias, *peepholes;
} nck_cuda_rnn;

/* cache: as nck_cuda_gemm_prepare's. */
NC_MUST nc_code nck_cuda_rnn_prepare(nc_device *d, nc_dtype t, nck_cuda_gemm_cache *cache, nck_cuda_rnn *out,
                                     nc_diag *diag);

/* Of one direction; both grow with each of T, B and H. */
size_t nck_cuda_rnn_workspace(nck_rnn_kind kind, nc_dtype t, int64_t T, int64_t B, int64_t H);
size_t nck_cuda_rnn_grad_workspace(nck_rnn_kind kind, nc_dtype t, int64_t T, int64_t B, int64_t H);

NC_MUST nc_code nck_cuda_rnn_run(const nck_cuda_rnn *k, const nc_call *c, const nck_rnn_args *a, void *workspace);
NC_MUST nc_code nck_cuda_rnn_grad_run(const nck_cuda_rnn *k, const nc_call *c, const nck_rnn_grad_args *g,
                                      void *workspace);

/* Half types go through f32: n elements of type t to floats, and back. */
typedef struct nck_cuda_widen {
    nc_function *widen, *narrow;
} nck_cuda_widen;
NC_MUST nc_code nck_cuda_widen_prepare(nc_device *d, nc_dtype t, nck_cuda_widen *out, nc_diag *diag);
NC_MUST nc_code nck_cuda_widen_run(nc_function *f, nck_cuda_at at, int64_t n, const void *x, void *y);

#endif
