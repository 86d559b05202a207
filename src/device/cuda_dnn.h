/* device/cuda_dnn.h: cuDNN 9's graphs: a handle per device, and the plans that were made of graphs, kept by their keys,
 * and by their descriptions on disk: a second start asks no heuristics and builds no plan.
 *
 * cuDNN is a way among others. What it refuses or fails at is remembered for the key and told in the log (a failure as
 * a WARNING with call and status, the lack of an engine as INFO), and the caller goes another way. Engines that are not
 * deterministic, or that round what they are not asked to round, are passed over. */
#ifndef NC_DEVICE_CUDA_DNN_H
#define NC_DEVICE_CUDA_DNN_H

#include "device/cuda_api.h"

enum { /* kinds of descriptors */
       CUDNN_BACKEND_POINTWISE_DESCRIPTOR = 0,
       CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR = 1,
       CUDNN_BACKEND_ENGINE_DESCRIPTOR = 2,
       CUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3,
       CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4,
       CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5,
       CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 10,
       CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR = 11,
       CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR = 12,
       CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR = 13,
       CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
       CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 16,
       CUDNN_BACKEND_TENSOR_DESCRIPTOR = 17,
       CUDNN_BACKEND_MATMUL_DESCRIPTOR = 18,
       CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR = 19,
       CUDNN_BACKEND_REDUCTION_DESCRIPTOR = 21,
       CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR = 22,
       CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR = 31,
       CUDNN_BACKEND_RNG_DESCRIPTOR = 32,
       CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR = 33
};

enum { /* types of attributes */
       CUDNN_TYPE_HANDLE = 0,
       CUDNN_TYPE_DATA_TYPE = 1,
       CUDNN_TYPE_BOOLEAN = 2,
       CUDNN_TYPE_INT64 = 3,
       CUDNN_TYPE_FLOAT = 4,
       CUDNN_TYPE_DOUBLE = 5,
       CUDNN_TYPE_VOID_PTR = 6,
       CUDNN_TYPE_CONVOLUTION_MODE = 7,
       CUDNN_TYPE_HEUR_MODE = 8,
       CUDNN_TYPE_NAN_PROPOGATION = 10,
       CUDNN_TYPE_NUMERICAL_NOTE = 11,
       CUDNN_TYPE_POINTWISE_MODE = 14,
       CUDNN_TYPE_BACKEND_DESCRIPTOR = 15,
       CUDNN_TYPE_REDUCTION_OPERATOR_TYPE = 18,
       CUDNN_TYPE_CHAR = 24,
       CUDNN_TYPE_RNG_DISTRIBUTION = 29
};

enum { /* attributes */
       CUDNN_ATTR_POINTWISE_MODE = 0,
       CUDNN_ATTR_POINTWISE_MATH_PREC = 1,
       CUDNN_ATTR_POINTWISE_NAN_PROPAGATION = 2,
       CUDNN_ATTR_POINTWISE_AXIS = 9,
       CUDNN_ATTR_CONVOLUTION_COMP_TYPE = 100,
       CUDNN_ATTR_CONVOLUTION_CONV_MODE = 101,
       CUDNN_ATTR_CONVOLUTION_DILATIONS = 102,
       CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES = 103,
       CUDNN_ATTR_CONVOLUTION_POST_PADDINGS = 104,
       CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS = 105,
       CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS = 106,
       CUDNN_ATTR_ENGINEHEUR_MODE = 200,
       CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201,
       CUDNN_ATTR_ENGINEHEUR_RESULTS = 202,
       CUDNN_ATTR_ENGINECFG_ENGINE = 300,
       CUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400,
       CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401,
       CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
       CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION = 405,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA = 700, /* then beta, description, w, x, y; so for the next two: */
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA = 706,   /* beta, description, w, dx, dy */
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA = 712, /* beta, description, dw, x, dy */
       CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR = 750,
       CUDNN_ATTR_OPERATION_POINTWISE_XDESC = 751,
       CUDNN_ATTR_OPERATION_POINTWISE_BDESC = 752,
       CUDNN_ATTR_OPERATION_POINTWISE_YDESC = 753,
       CUDNN_ATTR_OPERATION_POINTWISE_TDESC = 758,
       CUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800,
       CUDNN_ATTR_OPERATIONGRAPH_OPS = 801,
       CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,
       CUDNN_ATTR_TENSOR_DATA_TYPE = 901,
       CUDNN_ATTR_TENSOR_DIMENSIONS = 902,
       CUDNN_ATTR_TENSOR_STRIDES = 903,
       CUDNN_ATTR_TENSOR_UNIQUE_ID = 906,
       CUDNN_ATTR_TENSOR_IS_VIRTUAL = 907,
       CUDNN_ATTR_TENSOR_IS_BY_VALUE = 908,
       CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000,
       CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001,
       CUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003,
       CUDNN_ATTR_ENGINE_NUMERICAL_NOTE = 1303,
       CUDNN_ATTR_MATMUL_COMP_TYPE = 1500,
       CUDNN_ATTR_MATMUL_PADDING_VALUE = 1503,
       CUDNN_ATTR_OPERATION_MATMUL_ADESC = 1520,
       CUDNN_ATTR_OPERATION_MATMUL_BDESC = 1521,
       CUDNN_ATTR_OPERATION_MATMUL_CDESC = 1522,
       CUDNN_ATTR_OPERATION_MATMUL_DESC = 1523,
       CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC = 1525,
       CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC = 1526,
       CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC = 1527,
       CUDNN_ATTR_REDUCTION_OPERATOR = 1600,
       CUDNN_ATTR_REDUCTION_COMP_TYPE = 1601,
       CUDNN_ATTR_OPERATION_REDUCTION_XDESC = 1610,
       CUDNN_ATTR_OPERATION_REDUCTION_YDESC = 1611,
       CUDNN_ATTR_OPERATION_REDUCTION_DESC = 1612,
       CUDNN_ATTR_OPERATION_RESHAPE_XDESC = 2200,
       CUDNN_ATTR_OPERATION_RESHAPE_YDESC = 2201,
       CUDNN_ATTR_RNG_DISTRIBUTION = 2300,
       CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY = 2305,
       CUDNN_ATTR_OPERATION_RNG_YDESC = 2310,
       CUDNN_ATTR_OPERATION_RNG_SEED = 2311,
       CUDNN_ATTR_OPERATION_RNG_DESC = 2312,
       CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC = 2313
};

enum {                                    /* values */
       CUDNN_STATUS_NOT_SUPPORTED = 3000, /* and what is finer, below 4000 */
       CUDNN_DATA_FLOAT = 0,
       CUDNN_DATA_HALF = 2,
       CUDNN_DATA_INT32 = 4,
       CUDNN_DATA_BFLOAT16 = 9,
       CUDNN_DATA_INT64 = 10,
       CUDNN_DATA_BOOLEAN = 11,
       CUDNN_CROSS_CORRELATION = 1,
       CUDNN_PROPAGATE_NAN = 1,
       CUDNN_HEUR_MODE_FALLBACK = 2,
       CUDNN_HEUR_MODE_A = 3,
       CUDNN_REDUCE_ADD = 0,
       CUDNN_REDUCE_MAX = 3,
       CUDNN_POINTWISE_ADD = 0,
       CUDNN_POINTWISE_MUL = 1,
       CUDNN_POINTWISE_DIV = 6,
       CUDNN_POINTWISE_SUB = 9,
       CUDNN_POINTWISE_EXP = 13,
       CUDNN_POINTWISE_LOG = 15,
       CUDNN_POINTWISE_RELU_FWD = 100,
       CUDNN_POINTWISE_TANH_FWD = 101,
       CUDNN_POINTWISE_CMP_GT = 302,
       CUDNN_POINTWISE_CMP_GE = 303,
       CUDNN_POINTWISE_CMP_LT = 304,
       CUDNN_POINTWISE_LOGICAL_AND = 400,
       CUDNN_POINTWISE_GEN_INDEX = 501,
       CUDNN_POINTWISE_BINARY_SELECT = 601,
       CUDNN_RNG_DISTRIBUTION_BERNOULLI = 0,
       CUDNN_NUMERICAL_NOTE_TENSOR_CORE = 0,
       CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS = 1,
       CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP = 9
};

#define NC_CUDA_DNN_MAX_TENSORS 20
#define NC_CUDA_DNN_MAX_DIMS 5
#define NC_CUDA_DNN_MAX_MADE 192 /* descriptors that a graph is made of */
#define NC_CUDA_DNN_ALIGNMENT 16 /* of every tensor */

/* A graph while it is described. Functions below do nothing once one has failed: then code and diag say what. */
typedef struct nc_cuda_graph {
    const nc_cuda *cuda;
    cudnnHandle handle;
    struct nc_text *note; /* not NULL: cuDNN is not asked, what would be said to it is added here */
    cudnnStatus status;   /* of the call that failed */
    nc_diag diag;
    int n_made;
    cudnnBackendDescriptor made[NC_CUDA_DNN_MAX_MADE];
} nc_cuda_graph;

cudnnBackendDescriptor nc_cuda_graph_make(nc_cuda_graph *g, int kind); /* gone with the graph */
void nc_cuda_graph_set(nc_cuda_graph *g, cudnnBackendDescriptor d, int name, int type, int64_t n, const void *p);
void nc_cuda_graph_end(nc_cuda_graph *g, cudnnBackendDescriptor d); /* d is complete */

/* ---- cuda_dnn_graph.c: what graphs are put together from ---- */

typedef struct nc_cuda_dnn_tensor {
    int64_t id;
    int type, rank;
    int64_t dims[NC_CUDA_DNN_MAX_DIMS], strides[NC_CUDA_DNN_MAX_DIMS];
    bool is_virtual; /* stays inside */
    bool by_value;   /* one element, read from the host's memory when the plan is queued */
} nc_cuda_dnn_tensor;
cudnnBackendDescriptor nc_cuda_graph_tensor(nc_cuda_graph *g, const nc_cuda_dnn_tensor *t);

typedef struct nc_cuda_dnn_formula {
    int mode, precision;
    int64_t axis;                      /* of GEN_INDEX */
    cudnnBackendDescriptor x, b, t, y; /* b and t (who chooses): NULL: none */
} nc_cuda_dnn_formula;
cudnnBackendDescriptor nc_cuda_graph_pointwise(nc_cuda_graph *g, const nc_cuda_dnn_formula *f);

/* c = a b, sums are f32. m, n, k: tensors of an int32 per batch, how many rows and columns of c and terms of its sums
 * there are; NULL: all. pads: what is not there is 0. */
typedef struct nc_cuda_dnn_product {
    cudnnBackendDescriptor a, b, c, m, n, k;
    bool pads;
} nc_cuda_dnn_product;
cudnnBackendDescriptor nc_cuda_graph_product(nc_cuda_graph *g, const nc_cuda_dnn_product *p);
/* y = the sum or largest of x where y has dims of 1; y = x by y's dims and strides. Sums are f32. */
cudnnBackendDescriptor nc_cuda_graph_reduce(nc_cuda_graph *g, int reduction, cudnnBackendDescriptor x,
                                            cudnnBackendDescriptor y);
cudnnBackendDescriptor nc_cuda_graph_reshape(nc_cuda_graph *g, cudnnBackendDescriptor x, cudnnBackendDescriptor y);
/* y = 1 with that probability, else 0, drawn from a seed and an offset, both tensors of one int64. */
cudnnBackendDescriptor nc_cuda_graph_draw(nc_cuda_graph *g, double probability, cudnnBackendDescriptor seed,
                                          cudnnBackendDescriptor offset, cudnnBackendDescriptor y);
/* The whole, ended; NULL after a failure. */
cudnnBackendDescriptor nc_cuda_graph_of(nc_cuda_graph *g, const cudnnBackendDescriptor *ops, int64_t n);

/* ---- plans ---- */

/* What a plan is kept by, and what it is made of. */
typedef struct nc_cuda_dnn_call {
    const void *key; /* equal bytes: the same graph */
    size_t bytes_key;
    const char *what;                                                      /* for the log */
    cudnnBackendDescriptor (*describe)(nc_cuda_graph *g, const void *key); /* the whole operation graph, ended */
    bool no_tensor_cores;                                                  /* they would round f32 */
    size_t most;     /* bytes of workspace that an engine may need */
    bool any_engine; /* the graph itself fixes the order of sums: what engines note of themselves does not matter */
    int n;           /* tensors */
    int64_t id[NC_CUDA_DNN_MAX_TENSORS];
    void *data[NC_CUDA_DNN_MAX_TENSORS]; /* aligned as the descriptions say */
    void *room;                          /* for the workspace; an engine that needs more has the stream's */
    size_t bytes_room;
} nc_cuda_dnn_call;

nc_cuda_dnn *nc_cuda_dnn_create(const nc_cuda *borrows); /* NULL: no cuDNN, or it does not start (a WARNING says why) */
void nc_cuda_dnn_destroy(nc_cuda_dnn *d);                /* NULL is fine */

/* Queues the plan for c's key on a stream, making it first where it is not known. False: nothing was queued; go another
 * way. While the stream is captured no plan can be made: a new key makes the capture fail. */
bool nc_cuda_dnn_run(nc_device *d, const nc_cuda_dnn_call *c, nc_stream *s);
/* A run with c's key would go through cuDNN, and the last one did. */
bool nc_cuda_dnn_knows(nc_cuda_dnn *d, const nc_cuda_dnn_call *c);

#endif
