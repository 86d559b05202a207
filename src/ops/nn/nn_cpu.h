/* ops/nn/nn_cpu.h: kernel functions of the nn family, one file of them per topic, for the table in nn_cpu.c. */
#ifndef NC_OPS_NN_CPU_H
#define NC_OPS_NN_CPU_H

#include "kernels/cpu/conv/conv.h"
#include "ops/binding.h"
#include "ops/nn/conv.h"

/* Rows of nc_softmax_prepare. */
typedef struct nc_softmax_row {
    bool logs, is_grad;
} nc_softmax_row;
NC_MUST nc_code nc_softmax_prepare(nc_prep *p);
NC_MUST nc_code nc_softmax_run(const nc_call *c);
NC_MUST nc_code nc_softmax_grad_run(const nc_call *c);

bool nc_dropout_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_dropout_run(const nc_call *c);
NC_MUST nc_code nc_dropout_grad_run(const nc_call *c);

NC_MUST nc_code nc_loss_prepare(nc_prep *p);
NC_MUST nc_code nc_loss_grad_prepare(nc_prep *p);
size_t nc_loss_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_loss_run(const nc_call *c);
NC_MUST nc_code nc_loss_grad_run(const nc_call *c);
size_t nc_loss_both_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_loss_both_run(const nc_call *c);
NC_MUST nc_code nc_nll_run(const nc_call *c);
NC_MUST nc_code nc_nll_grad_run(const nc_call *c);

/* Rows of nc_conv_prepare. */
typedef struct nc_conv_row {
    int i_weight; /* the input that is the weight */
    bool transposed;
    uint32_t strided_in;
} nc_conv_row;
extern const nc_conv_row nc_conv_plain, nc_conv_grad, nc_conv_transposed, nc_conv_transposed_grad;
bool nc_conv_fits(const nc_node *n, const char **why);
bool nc_conv_grad_fits(const nc_node *n, const char **why);
/* What a row of nc_conv_prepare reads of its node; Conv fills only attrs. */
NC_MUST nc_code nc_conv_read(const nc_prep *p, nc_conv_transpose *out);
/* Of a convolution from x to y with w; of the one whose transpose leads from x to y. */
nck_conv_shape nc_conv_shape_of(const nc_conv_transpose *t, const nc_tensor *x, const nc_tensor *w, const nc_tensor *y);
nck_conv_shape nc_conv_transposed_shape(const nc_conv_transpose *t, const nc_tensor *x, const nc_tensor *w,
                                        const nc_tensor *y);
/* What inference could not check where sizes were symbols; `channels`: of the input. */
NC_MUST nc_code nc_conv_check(const nc_call *c, const nck_conv_shape *s, int64_t channels);
NC_MUST nc_code nc_conv_check_channels(const nc_call *c, const nck_conv_shape *s, int64_t channels, int64_t takes);
NC_MUST nc_code nc_conv_check_places(const nc_call *c, const nck_window *w);
NC_MUST nc_code nc_conv_check_bias(const nc_call *c, int64_t channels);
bool nc_conv_blocked_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_conv_prepare(nc_prep *p);
size_t nc_conv_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_conv_run(const nc_call *c);
size_t nc_conv_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_conv_grad_run(const nc_call *c);
size_t nc_conv_transpose_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_conv_transpose_run(const nc_call *c);
size_t nc_conv_transpose_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                        int n_out);
NC_MUST nc_code nc_conv_transpose_grad_run(const nc_call *c);
NC_MUST nc_code nc_conv_blocked_prepare(nc_prep *p);
size_t nc_conv_blocked_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_conv_blocked_run(const nc_call *c);

NC_MUST nc_code nc_conv_transpose_blocked_prepare(nc_prep *p);
size_t nc_conv_transpose_blocked_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                           int n_out);
NC_MUST nc_code nc_conv_transpose_blocked_run(const nc_call *c);
NC_MUST nc_code nc_conv_grad_blocked_prepare(nc_prep *p);
size_t nc_conv_grad_blocked_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                      int n_out);
NC_MUST nc_code nc_conv_grad_blocked_run(const nc_call *c);

bool nc_col2im_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_col2im_prepare(nc_prep *p);
NC_MUST nc_code nc_col2im_run(const nc_call *c);
/* The window that made the columns of c, checked. */
NC_MUST nc_code nc_col2im_window(const nc_window *s, const nc_call *c, nck_window *w);

NC_MUST nc_code nc_deform_prepare(nc_prep *p);
size_t nc_deform_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_deform_run(const nc_call *c);
size_t nc_deform_half_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_deform_half_run(const nc_call *c);
size_t nc_deform_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_deform_grad_run(const nc_call *c);
size_t nc_deform_grad_half_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_deform_grad_half_run(const nc_call *c);

#endif
