/* device/cuda_dnn_graph.c: descriptions of tensors and operations for cuDNN's graphs, see cuda_dnn.h. */
#include "device/cuda_dnn.h"

#include <stddef.h>

static const int f32 = CUDNN_DATA_FLOAT;

static void link(nc_cuda_graph *g, cudnnBackendDescriptor d, int name, cudnnBackendDescriptor to) {
    if (to != NULL) nc_cuda_graph_set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &to);
}

cudnnBackendDescriptor nc_cuda_graph_tensor(nc_cuda_graph *g, const nc_cuda_dnn_tensor *t) {
    const int64_t alignment = NC_CUDA_DNN_ALIGNMENT;
    cudnnBackendDescriptor d = nc_cuda_graph_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    nc_cuda_graph_set(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &t->id);
    nc_cuda_graph_set(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t->type);
    nc_cuda_graph_set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, t->rank, t->dims);
    nc_cuda_graph_set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, t->rank, t->strides);
    nc_cuda_graph_set(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    nc_cuda_graph_set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &t->is_virtual);
    if (t->by_value) nc_cuda_graph_set(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &t->by_value);
    nc_cuda_graph_end(g, d);
    return d;
}

cudnnBackendDescriptor nc_cuda_graph_pointwise(nc_cuda_graph *g, const nc_cuda_dnn_formula *f) {
    const int nans = CUDNN_PROPAGATE_NAN;
    cudnnBackendDescriptor how = nc_cuda_graph_make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    nc_cuda_graph_set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &f->mode);
    nc_cuda_graph_set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &f->precision);
    if (f->mode == CUDNN_POINTWISE_RELU_FWD)
        nc_cuda_graph_set(g, how, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nans);
    if (f->mode == CUDNN_POINTWISE_GEN_INDEX)
        nc_cuda_graph_set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &f->axis);
    nc_cuda_graph_end(g, how);
    cudnnBackendDescriptor op = nc_cuda_graph_make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    link(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    link(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, f->x);
    link(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, f->b);
    link(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, f->t);
    link(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, f->y);
    nc_cuda_graph_end(g, op);
    return op;
}

cudnnBackendDescriptor nc_cuda_graph_product(nc_cuda_graph *g, const nc_cuda_dnn_product *p) {
    const double none = 0;
    cudnnBackendDescriptor how = nc_cuda_graph_make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    nc_cuda_graph_set(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32);
    if (p->pads) nc_cuda_graph_set(g, how, CUDNN_ATTR_MATMUL_PADDING_VALUE, CUDNN_TYPE_DOUBLE, 1, &none);
    nc_cuda_graph_end(g, how);
    cudnnBackendDescriptor op = nc_cuda_graph_make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    link(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, p->a);
    link(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, p->b);
    link(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, p->c);
    link(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    link(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, p->m);
    link(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, p->n);
    link(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, p->k);
    nc_cuda_graph_end(g, op);
    return op;
}

cudnnBackendDescriptor nc_cuda_graph_reduce(nc_cuda_graph *g, int reduction, cudnnBackendDescriptor x,
                                            cudnnBackendDescriptor y) {
    cudnnBackendDescriptor how = nc_cuda_graph_make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    nc_cuda_graph_set(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &reduction);
    nc_cuda_graph_set(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32);
    nc_cuda_graph_end(g, how);
    cudnnBackendDescriptor op = nc_cuda_graph_make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    link(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    link(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    link(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    nc_cuda_graph_end(g, op);
    return op;
}

cudnnBackendDescriptor nc_cuda_graph_reshape(nc_cuda_graph *g, cudnnBackendDescriptor x, cudnnBackendDescriptor y) {
    cudnnBackendDescriptor op = nc_cuda_graph_make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    link(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    link(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    nc_cuda_graph_end(g, op);
    return op;
}

cudnnBackendDescriptor nc_cuda_graph_draw(nc_cuda_graph *g, double probability, cudnnBackendDescriptor seed,
                                          cudnnBackendDescriptor offset, cudnnBackendDescriptor y) {
    const int bernoulli = CUDNN_RNG_DISTRIBUTION_BERNOULLI;
    cudnnBackendDescriptor how = nc_cuda_graph_make(g, CUDNN_BACKEND_RNG_DESCRIPTOR);
    nc_cuda_graph_set(g, how, CUDNN_ATTR_RNG_DISTRIBUTION, CUDNN_TYPE_RNG_DISTRIBUTION, 1, &bernoulli);
    nc_cuda_graph_set(g, how, CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, CUDNN_TYPE_DOUBLE, 1, &probability);
    nc_cuda_graph_end(g, how);
    cudnnBackendDescriptor op = nc_cuda_graph_make(g, CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR);
    link(g, op, CUDNN_ATTR_OPERATION_RNG_DESC, how);
    link(g, op, CUDNN_ATTR_OPERATION_RNG_YDESC, y);
    link(g, op, CUDNN_ATTR_OPERATION_RNG_SEED, seed);
    link(g, op, CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, offset);
    nc_cuda_graph_end(g, op);
    return op;
}

cudnnBackendDescriptor nc_cuda_graph_of(nc_cuda_graph *g, const cudnnBackendDescriptor *ops, int64_t n) {
    cudnnBackendDescriptor graph = nc_cuda_graph_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    nc_cuda_graph_set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, ops);
    nc_cuda_graph_set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle);
    nc_cuda_graph_end(g, graph);
    return g->status == 0 ? graph : NULL;
}
