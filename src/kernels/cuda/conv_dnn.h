/* cuda/conv_dnn.h: convolutions and their gradients through cuDNN, where it is there and has an engine: f16, bf16 and
 * f32 (never by TF32), dense tensors in the plain layout or with channels last, and what may follow the sum in the same
 * kernel: an addition, a bias, Relu. Sums are f32. */
#ifndef NCK_CUDA_CONV_DNN_H
#define NCK_CUDA_CONV_DNN_H

#include "kernels/cpu/conv/conv.h"
#include "kernels/cuda/launch.h"

typedef enum nck_cuda_conv_dnn_kind { NCK_CONV_DNN_Y, NCK_CONV_DNN_DX, NCK_CONV_DNN_DW } nck_cuda_conv_dnn_kind;

typedef struct nck_cuda_conv_dnn {
    nck_cuda_conv_dnn_kind kind;
    bool last; /* channels last: x (N,in...,C), w (K,k...,C/group), y (N,out...,K) */
    bool relu;
    const void *x, *w, *y; /* operands, and among them the result */
    const void *bias;      /* (K) or NULL; with channels last */
    const void *add;       /* of y's dims, or NULL; with channels last */
    void *room;            /* for its workspace: what is booked for the columns of another way */
    size_t bytes_room;
} nck_cuda_conv_dnn;

/* False: nothing was queued. */
bool nck_cuda_conv_dnn_run(nck_cuda_at at, const nck_conv_shape *s, const nck_cuda_conv_dnn *c);

#endif
