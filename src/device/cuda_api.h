/* device/cuda_api.h: the parts of NVIDIA's interfaces that Nacre uses, declared here, found at run time, never linked.
 *
 * Types and numbers are those of CUDA 12 and 13 and keep NVIDIA's names, less "_t", so that its manuals apply. The
 * functions stand in cuda_api.list. kernels/cuda reaches a device's handles through nc_device_cuda. */
#ifndef NC_DEVICE_CUDA_API_H
#define NC_DEVICE_CUDA_API_H

#include "device/device.h"

typedef int CUresult, CUdevice, nvrtcResult, cublasStatus, cudnnStatus; /* 0: success */
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct _nvrtcProgram *nvrtcProgram;
typedef struct cublasLtContext *cublasLtHandle;
typedef struct cublasLtMatmulDescOpaque *cublasLtMatmulDesc;
typedef struct cublasLtMatrixLayoutOpaque *cublasLtMatrixLayout;
typedef struct cublasLtMatmulPreferenceOpaque *cublasLtMatmulPreference;
typedef struct cudnnContext *cudnnHandle;
typedef void *cudnnBackendDescriptor;

typedef struct cublasLtMatmulAlgo {
    uint64_t data[8];
} cublasLtMatmulAlgo;

typedef struct cublasLtMatmulHeuristicResult {
    cublasLtMatmulAlgo algo;
    size_t workspaceSize;
    cublasStatus state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult;

enum {
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
    CU_STREAM_NON_BLOCKING = 1,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
    CU_GRAPH_NODE_TYPE_KERNEL = 0,
    CU_GRAPH_NODE_TYPE_MEMCPY = 1,
    CU_GRAPH_NODE_TYPE_MEMSET = 2,
    CU_MEMORYTYPE_HOST = 1,
    CU_MEMORYTYPE_DEVICE = 2
};

typedef struct CUgraphEdgeData {
    unsigned char from_port, to_port, type, reserved[5];
} CUgraphEdgeData;

typedef struct CUDA_KERNEL_NODE_PARAMS_v2 {
    CUfunction func;
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void **kernelParams, **extra;
    void *kern; /* where func is NULL: a kernel of a library */
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS_v2;

typedef struct CUDA_MEMCPY3D_end {
    size_t xInBytes, y, z, lod;
    int memoryType;
    const void *host;
    CUdeviceptr device;
    void *array, *reserved;
    size_t pitch, height;
} CUDA_MEMCPY3D_end;

typedef struct CUDA_MEMCPY3D {
    CUDA_MEMCPY3D_end src, dst;
    size_t widthInBytes, height, depth;
} CUDA_MEMCPY3D;

typedef struct CUDA_MEMSET_NODE_PARAMS {
    CUdeviceptr dst;
    size_t pitch;
    unsigned value, elementSize;
    size_t width, height;
} CUDA_MEMSET_NODE_PARAMS;

typedef union CUlaunchAttributeValue {
    char bytes[64];
    int programmaticStreamSerializationAllowed;
    unsigned clusterDim[3];
} CUlaunchAttributeValue;

typedef struct CUlaunchAttribute {
    int id, unused;
    CUlaunchAttributeValue value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;

enum { /* element and compute types of cuBLASLt */
       CUDA_R_32F = 0,
       CUDA_R_64F = 1,
       CUDA_R_16F = 2,
       CUDA_R_8I = 3,
       CUDA_R_32I = 10,
       CUDA_R_16BF = 14,
       CUBLAS_COMPUTE_16F = 64,
       CUBLAS_COMPUTE_32F = 68,
       CUBLAS_COMPUTE_64F = 70,
       CUBLAS_COMPUTE_32I = 72,
       CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
       CUBLAS_OP_N = 0,
       CUBLAS_OP_T = 1
};

enum { /* attributes of cuBLASLt's descriptions */
       CUBLASLT_MATMUL_DESC_POINTER_MODE = 2,
       CUBLASLT_MATMUL_DESC_TRANSA = 3,
       CUBLASLT_MATMUL_DESC_TRANSB = 4,
       CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
       CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
       CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,
       CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,
       CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26,
       CUBLASLT_MATRIX_LAYOUT_ORDER = 1,
       CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
       CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,
       CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
       CUBLASLT_ORDER_COL = 0,
       CUBLASLT_ORDER_ROW = 1,
       CUBLASLT_EPILOGUE_DEFAULT = 1,
       CUBLASLT_EPILOGUE_RELU = 2,
       CUBLASLT_EPILOGUE_BIAS = 4,
       CUBLASLT_EPILOGUE_RELU_BIAS = 6,
       CUBLASLT_EPILOGUE_GELU = 32,
       CUBLASLT_EPILOGUE_GELU_BIAS = 36,
       CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
       CUBLASLT_EPILOGUE_DGELU = 192
};

typedef struct nc_cuda_api {
#define X(library, returns, name, arguments) returns(*name) arguments;
#include "device/cuda_api.list"
#undef X
} nc_cuda_api;

/* The driver and NVRTC are needed; the others may be missing. */
typedef enum nc_cuda_library {
    NC_CUDA_cuda,
    NC_CUDA_nvrtc,
    NC_CUDA_lt,
    NC_CUDA_dnn,
    NC_CUDA_change, /* functions of the driver that change recorded graphs */
    NC_CUDA_boxes,  /* the one that describes boxes of a matrix */
    NC_CUDA_N_LIBRARIES
} nc_cuda_library;

/* The functions of the libraries. Those of the driver can be called; those of another library once nc_cuda_missing has
 * said that it is there. */
const nc_cuda_api *nc_cuda_api_get(void);
/* Looks for the library, the first time it is asked: why it cannot be used; NULL: it can. */
const char *nc_cuda_missing(nc_cuda_library l);

#define NC_CUDA_WORKSPACE ((size_t)32 << 20) /* bytes that a library's kernel may ask for: what decides its speed */
#define NC_CUDA_PARTIALS ((size_t)64 << 10)  /* bytes of a stream for sums of its own kernels: streams run together */
#define NC_CUDA_COUNTERS ((size_t)1024)      /* words behind them */

typedef struct nc_cuda_dnn nc_cuda_dnn; /* cuda_dnn.h */

/* What a launcher needs to know of its device. */
typedef struct nc_cuda {
    const nc_cuda_api *api;
    int ordinal;
    CUdevice device;
    CUcontext context;
    cublasLtHandle lt; /* NULL: there is no cuBLASLt, or no kernel has asked for it yet */
    nc_cuda_dnn *dnn;  /* so for cuDNN */
    int major, minor;  /* compute capability */
    int n_multiprocessors;
    int bytes_shared_max; /* dynamic shared memory a block may ask for */
    int driver_version;   /* 13000: CUDA 13.0 */
    char name[64];
} nc_cuda;

nc_cuda *nc_device_cuda(nc_device *d); /* NULL: d is no CUDA device */
/* Kernels that go through these libraries ask for them when they are prepared. One that is not there is no failure: who
 * finds none goes another way, and the log says so once. */
NC_MUST nc_code nc_cuda_need_lt(nc_device *d, nc_diag *diag);
void nc_cuda_need_dnn(nc_device *d);
/* The first bad index that kernels of a stream met; mirrors `fault` in kernels/cuda/common.cuh. Names are cut. */
typedef struct nc_cuda_fault {
    int set, unused;
    int64_t value, limit; /* an index and its axis; limit below 0: a zero point's code that is not 0, of type -limit */
    char node[96], op[32];
    atomic_int refs;   /* the host's alone: its stream, and events that were recorded there */
    atomic_int n_told; /* the host's alone: how many were found by a wait */
} nc_cuda_fault;

/* The record of a stream (NULL: of work without one), in memory that the GPU can write. */
nc_cuda_fault *nc_cuda_fault_of(nc_device *d, const nc_stream *s);
NC_MUST nc_code nc_cuda_fault_create(const nc_cuda *c, nc_cuda_fault **out, nc_diag *diag);
nc_cuda_fault *nc_cuda_fault_ref(nc_cuda_fault *f);
void nc_cuda_fault_unref(const nc_cuda *c, nc_cuda_fault *f); /* NULL is fine */
/* NC_E_DATA where something was recorded, which is forgotten then. */
NC_MUST nc_code nc_cuda_fault_check(nc_cuda_fault *f, nc_diag *diag);

CUstream nc_cuda_stream(const nc_stream *s); /* s NULL: CUDA's stream 0 */
bool nc_cuda_captures_itself(void);          /* what this thread queues is recorded, and not done yet */
/* NC_CUDA_PARTIALS bytes that kernels on s may use, made before the first of them. NULL: there was none. */
void *nc_cuda_partials(nc_device *d, nc_stream *s);
/* For a kernel of a library on s whose plan has no room for it: *out has so many bytes, until s is destroyed. It grows
 * when more is asked for than ever before, so never in a steady step; while s is captured it cannot: then *out is NULL,
 * and the capture fails at its end, as what it met must run once before. */
NC_MUST nc_code nc_cuda_scratch(nc_device *d, nc_stream *s, size_t bytes, void **out, nc_diag *diag);
/* launch_function with clusters of that many blocks along y, on GPUs of compute capability 9 on. */
NC_MUST nc_code nc_cuda_launch_clusters(nc_device *d, nc_stream *s, nc_function *f, nc_dim3 grid, nc_dim3 block,
                                        unsigned cluster, unsigned bytes_shared, void **args, nc_diag *diag);
/* NC_CUDA_COUNTERS words that are 0 between kernels of s: who counts with them leaves them so. NULL: there was none. */
void *nc_cuda_counters(nc_device *d, nc_stream *s);

/* NC_OK for 0; else DEVICE (MEMORY when the GPU's memory is full), naming the function, the error and its text. */
nc_code nc_cuda_check(CUresult r, const char *function, nc_diag *diag);
nc_code nc_cuda_check_nvrtc(nvrtcResult r, const char *function, nc_diag *diag);
nc_code nc_cuda_check_lt(cublasStatus r, const char *function, nc_diag *diag);
nc_code nc_cuda_check_dnn(cudnnStatus r, const char *function, nc_diag *diag);

/* cuda_compile.c. Text to machine code with NVRTC, without a GPU; *cubin is freed with nc_free. */
NC_MUST nc_code nc_cuda_compile_text(const char *source, int major, int minor, void **cubin, size_t *bytes,
                                     nc_diag *diag);

/* The same for c's GPU, driver and compiler, looked up in the cache on disk first. */
NC_MUST nc_code nc_cuda_find_code(const nc_cuda *c, const char *source, void **cubin, size_t *bytes, nc_diag *diag);

/* What was chosen for c's GPU and driver, kept in the same cache: *n bytes for `of`, in the words of `what`; *out is
 * freed with nc_free. */
bool nc_cuda_read_choice(const nc_cuda *c, const char *what, const void *of, size_t bytes, void **out, size_t *n);
void nc_cuda_write_choice(const nc_cuda *c, const char *what, const void *of, size_t bytes, const void *choice,
                          size_t n);

typedef struct nc_cuda_modules nc_cuda_modules; /* the device's compiled kernels, in memory and on disk; thread-safe */
nc_cuda_modules *nc_cuda_modules_create(const nc_cuda *borrows); /* NULL: out of memory */
void nc_cuda_modules_destroy(nc_cuda_modules *m);
/* The function lives as long as m; it is compiled by nc_cuda_modules_wait. */
NC_MUST nc_code nc_cuda_modules_find(nc_cuda_modules *m, const char *source, const char *entry, nc_function **out,
                                     nc_diag *diag);

/* Compiles what was asked for since, side by side, and loads it; the first failure is told, once. */
NC_MUST nc_code nc_cuda_modules_wait(nc_cuda_modules *m, nc_diag *diag);

/* The same for one function, which may have failed before: NC_OK says that it can be launched. */
NC_MUST nc_code nc_cuda_modules_need(nc_cuda_modules *m, const nc_function *f, nc_diag *diag);

/* What is not compiled yet, or failed, once more; nobody is told. */
void nc_cuda_modules_retry(nc_cuda_modules *m);

struct nc_function {
    _Atomic(CUfunction) handle; /* NULL: not compiled yet */
    bool early;                 /* its text says BEGINS_EARLY, see kernels/cuda/common.cuh */
};

#endif
