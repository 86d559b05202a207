/* cuda/window.h: a sliding window as kernels on the GPU take it; mirrors `window` in window.cuh. */
#ifndef NCK_CUDA_WINDOW_H
#define NCK_CUDA_WINDOW_H

#include "base/status.h"
#include "kernels/cpu/conv/window.h"

typedef struct nck_cuda_window {
    int in[NCK_WINDOW_DIMS], k[NCK_WINDOW_DIMS], out[NCK_WINDOW_DIMS];
    int stride[NCK_WINDOW_DIMS], dil[NCK_WINDOW_DIMS], pad[NCK_WINDOW_DIMS], pad_end[NCK_WINDOW_DIMS];
} nck_cuda_window;

/* LIMIT where a plane, the window or a place of it has a number of more than 31 bits. */
NC_MUST nc_code nck_cuda_window_of(const nck_window *w, nck_cuda_window *out, nc_diag *diag);

#endif
