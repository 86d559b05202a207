/* tests/cuda/dnn.h: descriptors of the stand-in for cuDNN, and what is read of them; graphs of products, reductions and
 * formulas (attention), by plain loops. */
#ifndef NC_TESTS_CUDA_DNN_H
#define NC_TESTS_CUDA_DNN_H

#include "device/cuda_dnn.h"
#include "tests/cuda/elements.h"

enum { MAX_ATTRS = 16, MAX_BYTES = 512, MAX_DIMS = NC_CUDA_DNN_MAX_DIMS, MAX_STEPS = 48 };

typedef struct attr {
    int name, type;
    int64_t n;
    char bytes[MAX_BYTES];
} attr;

typedef struct descriptor {
    int kind, n;
    bool ended;
    attr attrs[MAX_ATTRS];
    int engine;          /* of an engine, a configuration and a plan */
    struct graph *graph; /* of a configuration and a plan: a copy */
    char *text;          /* of a plan that was written down */
    size_t bytes_text;
} descriptor;

static inline const attr *find(const descriptor *d, int name, int type) {
    for (int i = 0; d != NULL && i < d->n; i++)
        if (d->attrs[i].name == name) return d->attrs[i].type == type ? &d->attrs[i] : NULL;
    return NULL;
}

static inline int64_t whole(const descriptor *d, int name, int i) {
    const attr *a = find(d, name, CUDNN_TYPE_INT64);
    int64_t v = 0;
    if (a != NULL && i < a->n) memcpy(&v, a->bytes + 8 * i, 8);
    return v;
}

static inline int number(const descriptor *d, int name, int type) {
    const attr *a = find(d, name, type);
    int v = -1;
    if (a != NULL) memcpy(&v, a->bytes, 4);
    return v;
}

static inline descriptor *part(const descriptor *d, int name, int i) {
    const attr *a = find(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR);
    descriptor *v = NULL;
    if (a != NULL && i < a->n) memcpy(&v, a->bytes + 8 * i, 8);
    return v;
}

/* ---- tensors ---- */

enum { OF_INTS = 1000, OF_BOOLS, OF_LONGS }; /* types beside CUDA's: of what stays inside, and of numbers by value */

typedef struct tensor {
    int64_t id, dims[MAX_DIMS], strides[MAX_DIMS];
    int rank, type; /* by CUDA's numbers */
    bool is_virtual, by_value;
} tensor;

static inline int cuda_type(int type) {
    return type == CUDNN_DATA_HALF       ? CUDA_R_16F
           : type == CUDNN_DATA_BFLOAT16 ? CUDA_R_16BF
           : type == CUDNN_DATA_INT32    ? OF_INTS
           : type == CUDNN_DATA_BOOLEAN  ? OF_BOOLS
           : type == CUDNN_DATA_INT64    ? OF_LONGS
                                         : CUDA_R_32F;
}

static inline bool read_tensor(const descriptor *d, tensor *t) {
    const attr *dims = find(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64);
    const attr *strides = find(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64);
    const attr *hidden = find(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN);
    const attr *value = find(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN);
    if (d == NULL || d->kind != CUDNN_BACKEND_TENSOR_DESCRIPTOR || dims == NULL || strides == NULL) return false;
    if (dims->n != strides->n || dims->n < 4 || dims->n > MAX_DIMS) return false;
    t->rank = (int)dims->n;
    memcpy(t->dims, dims->bytes, 8 * (size_t)dims->n);
    memcpy(t->strides, strides->bytes, 8 * (size_t)dims->n);
    t->id = whole(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
    t->type = cuda_type(number(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE));
    t->is_virtual = hidden != NULL && hidden->bytes[0];
    t->by_value = value != NULL && value->bytes[0];
    if (t->is_virtual && t->by_value) return false;
    return whole(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0) == 16;
}

static inline int64_t elements(const tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dims[i];
    return n;
}
/* Elements from the first to behind the last in memory. */
static inline int64_t extent(const tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n += (t->dims[i] - 1) * t->strides[i];
    return n;
}

/* ---- dnn_steps.c: operations one after another ---- */

typedef struct step {
    int kind, mode; /* mode: of a formula or a reduction */
    int64_t axis;
    double chance; /* of a draw: that it is 1 */
    int n_in;
    tensor in[5], out; /* a formula's x, b and who chooses; a product's a and b, then its sizes that are given: */
    int size_at[3];    /* of rows, columns, terms: where in `in`; 0: not given */
} step;

typedef struct steps {
    int n;
    step s[MAX_STEPS];
} steps;

/* Where the tensors that are not virtual lie; numbers by value were read when the plan was queued. */
typedef struct bound {
    int n;
    int64_t id[NC_CUDA_DNN_MAX_TENSORS];
    char *data[NC_CUDA_DNN_MAX_TENSORS];
    double value[NC_CUDA_DNN_MAX_TENSORS];
} bound;

bool dnn_read_step(const descriptor *d, step *s);
/* Every tensor inside is made before it is used; false: not so, or too large for the stand-in. */
bool dnn_steps_fit(const steps *s);
void dnn_steps_run(const steps *s, const bound *b);

#endif
