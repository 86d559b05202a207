/* ops/nn/nn_cuda.c: CUDA bindings of the nn family: convolutions (conv_cuda.c), Col2Im and, over
 * kernels/cuda/softmax.h, softmax and log-softmax, softmax cross-entropy, negative log-likelihood, and their gradients.
 * Operands are dense. Labels out of range give NaN: only the CPU can name them. */
#include "kernels/cuda/conv.h"
#include "kernels/cuda/softmax.h"

#include "ops/binding.h"
#include "ops/card.h"
#include "ops/nn/loss.h"
#include "ops/nn/nn_cpu.h"
#include "ops/nn/nn_cuda.h"
#include "ops/window.h"

/* ---- softmax ---- */

typedef struct softmax {
    bool logs;
    bool flat; /* all dims from axis on are one */
    int64_t axis;
    nck_cuda_softmax kernel;
} softmax;

typedef struct softmax_row {
    bool logs, is_grad;
} softmax_row;

static nc_code softmax_prepare(nc_prep *p) {
    softmax *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const nc_node *n = p->node;
    const softmax_row *row = p->own;
    *s = (softmax){.logs = row->logs, .axis = nc_attr_int(n, "axis")};
    s->flat = row->is_grad ? nc_attr_int(n, "flat") != 0 : n->version->since < 13;
    NC_TRY(nck_cuda_softmax_prepare(p->device, n->in[0]->type->elem, &s->kernel, &p->w->diag));
    p->state = s;
    if (!row->is_grad) p->over[0] = 1;
    return NC_OK;
}

static nck_cuda_rows rows_of(const softmax *s, const nc_tensor *t) {
    int64_t axis = s->axis < 0 ? s->axis + t->rank : s->axis;
    nck_cuda_rows r = {1, 1, 1};
    for (int i = 0; i < t->rank; i++) *(i < axis ? &r.outer : i == axis || s->flat ? &r.C : &r.inner) *= t->dims[i];
    return r;
}

static nc_code softmax_run(const nc_call *c) {
    const softmax *s = c->state;
    return nck_cuda_softmax_run(&s->kernel, nck_cuda_at_call(c), rows_of(s, c->in[0]), s->logs, c->in[0]->data,
                                c->out[0]->data);
}

static nc_code softmax_grad_run(const nc_call *c) {
    const softmax *s = c->state;
    return nck_cuda_softmax_grad_run(&s->kernel, nck_cuda_at_call(c), rows_of(s, c->in[0]), s->logs, c->in[0]->data,
                                     c->in[1]->data, c->out[0]->data);
}

/* ---- loss ---- */

typedef struct loss {
    nc_loss how;
    nck_cuda_loss_from from; /* of a gradient; OF_LOGS: a loss of log-probabilities as they are */
    int64_t classes;         /* of lines that are longer; 0: lines have classes alone */
    nck_cuda_loss kernel;
} loss;

typedef struct loss_row {
    bool is_grad;
    nck_cuda_loss_from from;
} loss_row;

static nc_dtype elem_of(const nc_value *v) { return v != NULL && v->type != NULL ? v->type->elem : NC_UNDEFINED; }

static nc_code loss_prepare(nc_prep *p) {
    const nc_node *n = p->node;
    const loss_row *row = p->own;
    loss *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (loss){.how = nc_loss_read(n), .from = row->from};
    if (row->from == NCK_CUDA_LOSS_FROM_SCORES) s->classes = nc_attr_int(n, "classes");
    nc_dtype x = elem_of(n->in[row->is_grad]), wide = elem_of(row->is_grad ? n->in[0] : n->out[0]);
    NC_TRY(nck_cuda_loss_prepare(p->device, x, wide, row->is_grad ? elem_of(n->out[0]) : x, &s->kernel, &p->w->diag));
    p->state = s;
    if (row->is_grad) p->over[0] = 1u << 1;
    if (!row->is_grad && row->from == NCK_CUDA_LOSS_FROM_LOGS && n->in[0]->type->rank == 2) p->strided_in = 1;
    return NC_OK;
}

static size_t loss_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return nck_cuda_loss_workspace(nc_tensor_numel(&in[1]));
}

/* The gradient needs one number. */
static size_t loss_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)in, (void)n_in, (void)out, (void)n_out;
    return nck_cuda_loss_workspace(1);
}

static nc_code loss_run(const nc_call *c) {
    const loss *s = c->state;
    nck_loss_args a;
    NC_TRY(nc_loss_describe(&s->how, c, c->in[0], 1, &a));
    if (s->from == NCK_CUDA_LOSS_OF_LOGS)
        return nck_cuda_nll_run(&s->kernel, nck_cuda_at_call(c), &a, c->in[0]->data, c->out[0]->data, c->workspace);
    nck_cuda_lines lines = {c->in[0]->strides[0], c->in[0]->strides[1]};
    return nck_cuda_loss_run(&s->kernel, nck_cuda_at_call(c), &a, lines, c->in[0]->data, c->out[0]->data,
                             c->n_out > 1 ? c->out[1]->data : NULL, c->n_out > 2 ? c->out[2]->data : NULL,
                             c->workspace);
}

static nc_code loss_grad_run(const nc_call *c) {
    const loss *s = c->state;
    nck_loss_args a;
    NC_TRY(nc_loss_describe(&s->how, c, c->in[1], 2, &a));
    nck_cuda_lines lines = {a.C * a.D, a.D};
    if (s->classes > 0) a.C = s->classes;
    return nck_cuda_loss_grad_run(&s->kernel, nck_cuda_at_call(c), &a, s->from, c->in[0]->data, lines, c->in[1]->data,
                                  c->n_in > 4 ? c->in[4]->data : NULL, c->out[0]->data, c->workspace);
}

/* ---- Col2Im ---- */

typedef struct image {
    const nc_window *window;
    nc_function *back;
} image;

static nc_code col2im_prepare(nc_prep *p) {
    image *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    NC_TRY(nc_col2im_prepare(p));
    *s = (image){.window = p->state};
    p->state = s;
    return nck_cuda_image_prepare(p->device, p->node->in[0]->type->elem, &s->back, &p->w->diag);
}

static nc_code col2im_run(const nc_call *c) {
    const image *s = c->state;
    const nc_tensor *y = c->out[0];
    nck_window w;
    NC_TRY(nc_col2im_window(s->window, c, &w));
    return nck_cuda_image_run(s->back, nck_cuda_at_call(c), &w, y->dims[0] * y->dims[1], c->in[0]->data, y->data);
}

static bool col2im_fits(const nc_node *n, const char **why) {
    if (!nc_col2im_fits(n, why)) return false;
    const nc_type *x = n->in[0]->type;
    *why = "a type that GPU kernels cannot add";
    return x != NULL && nck_cuda_type_name(x->elem) != NULL && x->elem != NC_BOOL;
}

#define SOFTMAX(...) \
    .types = T_FLOAT_ALL, .prepare = softmax_prepare, .own = &(const softmax_row) { __VA_ARGS__ }
#define LOSS(...) \
    .types = T_FLOAT_ALL, .prepare = loss_prepare, .own = &(const loss_row) { __VA_ARGS__ }
#define CONV(name, row, takes, function)                                                           \
    .op = name, .types = T_FLOAT_ALL, .fits = takes, .prepare = nc_conv_cuda_prepare, .own = &row, \
    .workspace = nc_conv_cuda_##function##workspace, .run = nc_conv_cuda_##function##run
const nc_binding nc_nn_cuda[] = {
    {CONV("Conv", nc_conv_plain, nc_conv_fits, )},
    {CONV("ConvGrad", nc_conv_grad, nc_conv_grad_fits, grad_), .domain = "nacre"},
    {CONV("ConvTranspose", nc_conv_transposed, nc_conv_fits, transpose_)},
    {CONV("ConvTransposeGrad", nc_conv_transposed_grad, nc_conv_grad_fits, transpose_grad_), .domain = "nacre"},
    {.op = "ConvBlocked",
     .domain = "nacre",
     .types = T_FLOAT_ALL & ~NC_BIT(NC_DOUBLE),
     .fits = nc_conv_last_fits,
     .prepare = nc_conv_last_prepare,
     .workspace = nc_conv_last_workspace,
     .run = nc_conv_last_run},
    {.op = "Col2Im", .fits = col2im_fits, .prepare = col2im_prepare, .run = col2im_run},
    {.op = "Softmax", SOFTMAX(false, false), .run = softmax_run},
    {.op = "LogSoftmax", SOFTMAX(true, false), .run = softmax_run},
    {.op = "SoftmaxGrad", .domain = "nacre", SOFTMAX(false, true), .run = softmax_grad_run},
    {.op = "LogSoftmaxGrad", .domain = "nacre", SOFTMAX(true, true), .run = softmax_grad_run},
    {.op = "SoftmaxCrossEntropyLoss",
     LOSS(false, NCK_CUDA_LOSS_FROM_LOGS),
     .workspace = loss_workspace,
     .run = loss_run,
     .half_in = 1},
    {.op = "SoftmaxCrossEntropyLossGrad",
     .domain = "nacre",
     LOSS(true, NCK_CUDA_LOSS_FROM_LOGS),
     .workspace = loss_grad_workspace,
     .run = loss_grad_run},
    {.op = "CrossEntropyGrad",
     .domain = "nacre",
     LOSS(true, NCK_CUDA_LOSS_FROM_SCORES),
     .workspace = loss_grad_workspace,
     .run = loss_grad_run,
     .half_in = 2,
     .half_out = 1},
    {.op = "NegativeLogLikelihoodLoss",
     LOSS(false, NCK_CUDA_LOSS_OF_LOGS),
     .workspace = loss_workspace,
     .run = loss_run},
    {.op = "NegativeLogLikelihoodLossGrad",
     .domain = "nacre",
     LOSS(true, NCK_CUDA_LOSS_OF_LOGS),
     .workspace = loss_grad_workspace,
     .run = loss_grad_run},
    {0}};
