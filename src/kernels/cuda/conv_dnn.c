/* cuda/conv_dnn.c: graphs of convolutions for cuDNN, see conv_dnn.h. */
#include "kernels/cuda/conv_dnn.h"

#include "device/cuda_dnn.h"

#include <string.h>

enum { X = 1, W, Y, BIAS, ADD, VIRTUAL };

/* What a plan is kept by: whole numbers only, so that its bytes can be compared. */
typedef struct conv_key {
    int64_t kind, type, last, relu, bias, add;
    int64_t N, C, K, group, n_spatial;
    int64_t in[NCK_WINDOW_DIMS], k[NCK_WINDOW_DIMS], out[NCK_WINDOW_DIMS];
    int64_t stride[NCK_WINDOW_DIMS], dil[NCK_WINDOW_DIMS], pad[NCK_WINDOW_DIMS], pad_end[NCK_WINDOW_DIMS];
} conv_key;

/* ---- the key ---- */

/* What is padded behind, so that the window has its places and no more: as in front where that serves, since more
 * engines take that. False: the window is cut, which cuDNN does not know. */
static bool pad_behind(const nck_window *w, int d, int64_t *pad) {
    int64_t span = w->dil[d] * (w->k[d] - 1) + 1, least = (w->out[d] - 1) * w->stride[d] + span - w->in[d] - w->pad[d];
    *pad = w->pad[d];
    if (w->pad[d] < 0) return false;
    if (nck_window_out(w->in[d], w->k[d], w->stride[d], w->dil[d], 2 * w->pad[d]) == w->out[d]) return true;
    *pad = least > 0 ? least : 0;
    return nck_window_out(w->in[d], w->k[d], w->stride[d], w->dil[d], w->pad[d] + *pad) == w->out[d];
}

static bool is_flat(const nck_window *w) { return w->in[0] == 1 && w->k[0] == 1 && w->out[0] == 1 && w->pad[0] == 0; }

static bool key_of(const nck_conv_shape *s, const nck_cuda_conv_dnn *c, conv_key *key) {
    const int first = is_flat(&s->w) ? 1 : 0;
    memset(key, 0, sizeof *key);
    key->kind = c->kind, key->type = s->type, key->last = c->last;
    key->relu = c->relu, key->bias = c->bias != NULL, key->add = c->add != NULL;
    key->N = s->N, key->C = s->C, key->K = s->K, key->group = s->group, key->n_spatial = NCK_WINDOW_DIMS - first;
    for (int d = first; d < NCK_WINDOW_DIMS; d++) {
        int i = d - first;
        key->in[i] = s->w.in[d], key->k[i] = s->w.k[d], key->out[i] = s->w.out[d];
        key->stride[i] = s->w.stride[d], key->dil[i] = s->w.dil[d], key->pad[i] = s->w.pad[d];
        if (s->w.in[d] < 1 || s->w.k[d] < 1 || s->w.out[d] < 1 || !pad_behind(&s->w, d, &key->pad_end[i])) return false;
    }
    return s->N > 0 && s->C > 0 && s->K > 0 && (s->type == NC_FLOAT16 || s->type == NC_BFLOAT16 || s->type == NC_FLOAT);
}

/* ---- the graph ---- */

static int data_type(const conv_key *key) {
    return key->type == NC_FLOAT16    ? CUDNN_DATA_HALF
           : key->type == NC_BFLOAT16 ? CUDNN_DATA_BFLOAT16
                                      : CUDNN_DATA_FLOAT;
}

/* Dims (a, b, spatial...), dense in that order or with b innermost. */
static cudnnBackendDescriptor tensor(nc_cuda_graph *g, const conv_key *key, int64_t id, int64_t a, int64_t b,
                                     const int64_t *spatial, int type) {
    int n = (int)key->n_spatial;
    int64_t step = key->last ? b : 1;
    nc_cuda_dnn_tensor t = {.id = id, .type = type, .rank = 2 + n, .dims = {a, b}, .is_virtual = id >= VIRTUAL};
    for (int i = 0; i < n; i++) t.dims[2 + i] = spatial != NULL ? spatial[i] : 1;
    for (int i = n - 1; i >= 0; step *= t.dims[2 + i--]) t.strides[2 + i] = step;
    t.strides[1] = key->last ? 1 : step;
    t.strides[0] = key->last ? step : step * b;
    return nc_cuda_graph_tensor(g, &t);
}

static cudnnBackendDescriptor window(nc_cuda_graph *g, const conv_key *key) {
    const int compute = CUDNN_DATA_FLOAT, mode = CUDNN_CROSS_CORRELATION;
    int64_t n = key->n_spatial;
    cudnnBackendDescriptor c = nc_cuda_graph_make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    nc_cuda_graph_set(g, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n);
    nc_cuda_graph_set(g, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    nc_cuda_graph_set(g, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    nc_cuda_graph_set(g, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, n, key->pad);
    nc_cuda_graph_set(g, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, n, key->pad_end);
    nc_cuda_graph_set(g, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, n, key->dil);
    nc_cuda_graph_set(g, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, n, key->stride);
    nc_cuda_graph_end(g, c);
    return c;
}

/* The six attributes of a convolution and of either gradient follow each other in one order. */
static cudnnBackendDescriptor convolution(nc_cuda_graph *g, const conv_key *key, cudnnBackendDescriptor x,
                                          cudnnBackendDescriptor w, cudnnBackendDescriptor y) {
    static const struct {
        int op, first;
    } of[] = {[NCK_CONV_DNN_Y] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA},
              [NCK_CONV_DNN_DX] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA},
              [NCK_CONV_DNN_DW] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA}};
    const float alpha = 1, beta = 0;
    int first = of[key->kind].first;
    cudnnBackendDescriptor c = window(g, key), op = nc_cuda_graph_make(g, of[key->kind].op);
    nc_cuda_graph_set(g, op, first, CUDNN_TYPE_FLOAT, 1, &alpha);
    nc_cuda_graph_set(g, op, first + 1, CUDNN_TYPE_FLOAT, 1, &beta);
    nc_cuda_graph_set(g, op, first + 2, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c);
    nc_cuda_graph_set(g, op, first + 3, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &w);
    nc_cuda_graph_set(g, op, first + 4, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
    nc_cuda_graph_set(g, op, first + 5, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
    nc_cuda_graph_end(g, op);
    return op;
}

/* to = from, with b or, without one, Relu. */
static cudnnBackendDescriptor pointwise(nc_cuda_graph *g, cudnnBackendDescriptor from, cudnnBackendDescriptor b,
                                        cudnnBackendDescriptor to) {
    return nc_cuda_graph_pointwise(
        g, &(nc_cuda_dnn_formula){.mode = b != NULL ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_RELU_FWD,
                                  .precision = CUDNN_DATA_FLOAT,
                                  .x = from,
                                  .b = b,
                                  .y = to});
}

/* The sum goes through its additions, that of the tensor first, and Relu; all but the last result stay inside. */
static cudnnBackendDescriptor describe(nc_cuda_graph *g, const void *bytes) {
    const conv_key *key = bytes;
    const int type = data_type(key);
    int64_t left = key->add + key->bias + key->relu, n_ops = 0;
    cudnnBackendDescriptor ops[4];
    cudnnBackendDescriptor x = tensor(g, key, X, key->N, key->C, key->in, type);
    cudnnBackendDescriptor w = tensor(g, key, W, key->K, key->C / key->group, key->k, type);
    cudnnBackendDescriptor sum =
        tensor(g, key, left > 0 ? VIRTUAL : Y, key->N, key->K, key->out, left > 0 ? CUDNN_DATA_FLOAT : type);
    ops[n_ops++] = convolution(g, key, x, w, sum);
    for (int step = 0; step < 3; step++) {
        if (!(step == 0 ? key->add : step == 1 ? key->bias : key->relu)) continue;
        left--;
        cudnnBackendDescriptor to = tensor(g, key, left > 0 ? VIRTUAL + n_ops : Y, key->N, key->K, key->out,
                                           left > 0 ? CUDNN_DATA_FLOAT : type);
        cudnnBackendDescriptor b = step == 0   ? tensor(g, key, ADD, key->N, key->K, key->out, type)
                                   : step == 1 ? tensor(g, key, BIAS, 1, key->K, NULL, type)
                                               : NULL;
        ops[n_ops++] = pointwise(g, sum, b, to);
        sum = to;
    }
    return nc_cuda_graph_of(g, ops, n_ops);
}

/* ---- the run ---- */

static const char *name_of(const nck_cuda_conv_dnn *c) {
    if (c->kind == NCK_CONV_DNN_DX) return "a convolution's gradient by its input";
    if (c->kind == NCK_CONV_DNN_DW) return "a convolution's gradient by its weight";
    if (c->add != NULL || c->relu || c->bias != NULL) return "a convolution and what follows it";
    return "a convolution";
}

static bool put(nc_cuda_dnn_call *call, int64_t id, const void *p) {
    call->id[call->n] = id;
    call->data[call->n++] = (void *)(uintptr_t)p;
    return (uintptr_t)p % NC_CUDA_DNN_ALIGNMENT == 0;
}

bool nck_cuda_conv_dnn_run(nck_cuda_at at, const nck_conv_shape *s, const nck_cuda_conv_dnn *c) {
    nc_cuda *cuda = nc_device_cuda(at.device);
    conv_key key;
    if (cuda == NULL || cuda->dnn == NULL || !key_of(s, c, &key)) return false;
    nc_cuda_dnn_call call = {.key = &key,
                             .bytes_key = sizeof key,
                             .what = name_of(c),
                             .describe = describe,
                             .most = NC_CUDA_WORKSPACE,
                             .room = c->room,
                             .bytes_room = c->bytes_room,
                             .no_tensor_cores = s->type == NC_FLOAT};
    bool aligned = put(&call, X, c->x);
    aligned = put(&call, W, c->w) && aligned;
    aligned = put(&call, Y, c->y) && aligned;
    if (c->bias != NULL) aligned = put(&call, BIAS, c->bias) && aligned;
    if (c->add != NULL) aligned = put(&call, ADD, c->add) && aligned;
    return aligned && nc_cuda_dnn_run(at.device, &call, at.stream);
}
