/* tests/cuda/lt.c: libcublasLt.so.13 of the stand-ins: matrix products by plain loops, queued on the driver's streams.
 * Columns first, as the library thinks. Sums in the compute type, in the order of k. Descriptions that do not fit
 * together are refused, and so are algorithms that were asked for another product. Long sums want a workspace of a word
 * for each element of the result, and one more for each operand that is turned, where the preference allows it, and
 * leave rubbish there. */
#include "tests/cuda/elements.h"
#include "tests/cuda/standin.h"

#include <math.h>
#include <stdlib.h>

enum { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum { LONG_SUM = 24 };

struct cublasLtContext {
    int unused;
};
struct cublasLtMatmulDescOpaque {
    int compute, scale, transposed[2], epilogue, bias_type, pointer_mode;
    const void *bias;
    void *aux;
    int64_t aux_ld;
};
struct cublasLtMatrixLayoutOpaque {
    int type, n_batch, order;
    int64_t rows, cols, ld, batch_stride;
};
struct cublasLtMatmulPreferenceOpaque {
    uint64_t workspace;
    uint32_t aligned[4];
};

typedef struct layout {
    int type, transposed;
    int64_t ld, batch_stride;
} layout;

/* One product, as it is queued: D = act(alpha * op(A) * op(B) + beta * C + bias). */
typedef struct product {
    int64_t M, N, K;
    int n_batch, epilogue, bias_type;
    bool wide; /* sums in f64 */
    bool tf32; /* operands of f32 lose 13 bits */
    double alpha, beta;
    layout a, b, c, d;
    const char *A, *B, *C, *bias, *aux;
    char *kept;
    int64_t aux_ld;
    char *D, *workspace;
    size_t bytes_workspace;
} product;

#define X(library, returns, name, arguments) X_##library(returns, name, arguments)
#define X_lt(returns, name, arguments) __attribute__((visibility("default"))) returns name arguments;
#define X_cuda(returns, name, arguments)
#define X_nvrtc(returns, name, arguments)
#define X_dnn(returns, name, arguments)
#define X_change(returns, name, arguments)
#define X_boxes(returns, name, arguments)
#include "device/cuda_api.list"
#undef X

#define ENTER()                                         \
    do {                                                \
        const standin_control *c_ = standin_find();     \
        int code_ = c_ ? c_->enter(__func__) : SUCCESS; \
        if (code_ != SUCCESS) return code_;             \
    } while (0)

/* How many algorithms are offered, all of them the one there is; where its number stands among the alignments. */
enum { WAYS = 3, WAY = 60 };

/* ---- the product ---- */

static int64_t at(const layout *l, int64_t row, int64_t col) {
    return l->transposed ? col + row * l->ld : row + col * l->ld;
}

static double activated(int epilogue, double v) {
    if (epilogue == CUBLASLT_EPILOGUE_RELU || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS) return v > 0 ? v : 0;
    if (epilogue != CUBLASLT_EPILOGUE_GELU && epilogue != CUBLASLT_EPILOGUE_GELU_BIAS &&
        epilogue != CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
        return v;
    return 0.5 * v * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
}

/* The derivative of the tanh form of GELU. */
static double gelu_slope(double x) {
    double t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

/* x rounded to 10 bits of mantissa, as tensor cores read f32. */
static double as_tf32(double x) {
    float f = (float)x;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (isfinite(f)) u = (u + 0xfffu + (u >> 13 & 1)) & ~0x1fffu;
    memcpy(&f, &u, sizeof f);
    return (double)f;
}

static double dot(const product *p, int64_t batch, int64_t row, int64_t col) {
    const char *a = p->A + batch * p->a.batch_stride * (int64_t)bytes_of(p->a.type);
    const char *b = p->B + batch * p->b.batch_stride * (int64_t)bytes_of(p->b.type);
    double wide = 0;
    float narrow = 0;
    for (int64_t k = 0; k < p->K; k++) {
        double x = load(a, p->a.type, at(&p->a, row, k)), y = load(b, p->b.type, at(&p->b, k, col));
        if (p->tf32) x = as_tf32(x), y = as_tf32(y);
        wide += x * y;
        narrow += (float)x * (float)y;
    }
    return p->wide ? wide : (double)narrow;
}

static void run(const void *bytes) {
    const product *p = bytes;
    if (p->bytes_workspace > 0) memset(p->workspace, 0xA5, p->bytes_workspace);
    for (int64_t batch = 0; batch < p->n_batch; batch++)
        for (int64_t col = 0; col < p->N; col++)
            for (int64_t row = 0; row < p->M; row++) {
                double v = p->alpha * dot(p, batch, row, col);
                int64_t from = batch * p->c.batch_stride + at(&p->c, row, col);
                if (p->beta != 0) v += p->beta * load(p->C, p->c.type, from);
                if (p->aux != NULL) v *= gelu_slope(load(p->aux, p->d.type, row + col * p->aux_ld));
                if (p->bias != NULL) v += load(p->bias, p->bias_type, row);
                if (p->kept != NULL) store(p->kept, p->d.type, row + col * p->aux_ld, v);
                store(p->D, p->d.type, batch * p->d.batch_stride + at(&p->d, row, col), activated(p->epilogue, v));
            }
}

/* ---- descriptions ---- */

size_t cublasLtGetVersion(void) { return 130000; }

static const struct {
    int code;
    const char *name, *text;
} statuses[] = {{SUCCESS, "CUBLAS_STATUS_SUCCESS", "success"},
                {NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"},
                {INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE", "an unsupported value or parameter was passed"},
                {EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", "the GPU program failed to execute"},
                {NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED", "the functionality requested is not supported"}};

const char *cublasLtGetStatusName(cublasStatus r) {
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].code == r) return statuses[i].name;
    return "CUBLAS_STATUS_UNKNOWN";
}

const char *cublasLtGetStatusString(cublasStatus r) {
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].code == r) return statuses[i].text;
    return "unknown";
}

#define CREATE(out)                                 \
    do {                                            \
        ENTER();                                    \
        *(out) = calloc(1, sizeof **(out));         \
        if (*(out) == NULL) return NOT_INITIALIZED; \
    } while (0)
#define DESTROY(p) \
    do {           \
        ENTER();   \
        free(p);   \
    } while (0)

cublasStatus cublasLtCreate(cublasLtHandle *h) {
    CREATE(h);
    return SUCCESS;
}

cublasStatus cublasLtDestroy(cublasLtHandle h) {
    DESTROY(h);
    return SUCCESS;
}

cublasStatus cublasLtMatmulDescCreate(cublasLtMatmulDesc *d, int compute_type, int scale_type) {
    bool wide = compute_type == CUBLAS_COMPUTE_64F;
    if (!wide && compute_type != CUBLAS_COMPUTE_32F && compute_type != CUBLAS_COMPUTE_32F_FAST_TF32)
        return NOT_SUPPORTED;
    if (scale_type != (wide ? CUDA_R_64F : CUDA_R_32F)) return NOT_SUPPORTED;
    CREATE(d);
    (*d)->compute = compute_type, (*d)->scale = scale_type, (*d)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    (*d)->bias_type = -1;
    return SUCCESS;
}

/* Copies a value into its field if it has the field's size. */
static cublasStatus set(void *field, size_t bytes_field, const void *p, size_t bytes) {
    if (p == NULL || bytes != bytes_field) return INVALID_VALUE;
    memcpy(field, p, bytes);
    return SUCCESS;
}
#define SET(field) set(&(field), sizeof(field), p, bytes)

cublasStatus cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc d, int attribute, const void *p, size_t bytes) {
    ENTER();
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return SET(d->transposed[0]);
    case CUBLASLT_MATMUL_DESC_TRANSB: return SET(d->transposed[1]);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return SET(d->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return SET(d->bias);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return SET(d->bias_type);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return SET(d->aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return SET(d->aux_ld);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE: return SET(d->pointer_mode);
    default: return INVALID_VALUE;
    }
}

cublasStatus cublasLtMatmulDescDestroy(cublasLtMatmulDesc d) {
    DESTROY(d);
    return SUCCESS;
}

cublasStatus cublasLtMatrixLayoutCreate(cublasLtMatrixLayout *l, int type, uint64_t rows, uint64_t cols, int64_t ld) {
    CREATE(l);
    **l = (struct cublasLtMatrixLayoutOpaque){
        .type = type, .n_batch = 1, .rows = (int64_t)rows, .cols = (int64_t)cols, .ld = ld};
    return SUCCESS;
}

cublasStatus cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout l, int attribute, const void *p, size_t bytes) {
    ENTER();
    switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return SET(l->order);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return SET(l->n_batch);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return SET(l->batch_stride);
    default: return INVALID_VALUE;
    }
}

cublasStatus cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout l) {
    DESTROY(l);
    return SUCCESS;
}

cublasStatus cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference *p) {
    CREATE(p);
    for (int i = 0; i < 4; i++) (*p)->aligned[i] = 256;
    return SUCCESS;
}

cublasStatus cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference preference, int attribute, const void *p,
                                                  size_t bytes) {
    ENTER();
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return SET(preference->workspace);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return SET(preference->aligned[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return SET(preference->aligned[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return SET(preference->aligned[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return SET(preference->aligned[3]);
    default: return INVALID_VALUE;
    }
}

cublasStatus cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference p) {
    DESTROY(p);
    return SUCCESS;
}

/* ---- what fits together ---- */

static bool is_layout(cublasLtMatrixLayout l) {
    return l->rows > 0 && l->cols > 0 && l->ld >= l->rows && l->n_batch > 0 && l->order == CUBLASLT_ORDER_COL;
}

static bool has_bias(int epilogue) { return epilogue & CUBLASLT_EPILOGUE_BIAS; }

static bool known_types(const struct cublasLtMatmulDescOpaque *d, const cublasLtMatrixLayout l[4]) {
    int t = l[0]->type;
    bool wide = d->compute == CUBLAS_COMPUTE_64F;
    if (t != CUDA_R_32F && t != CUDA_R_64F && t != CUDA_R_16F && t != CUDA_R_16BF) return false;
    if (wide != (t == CUDA_R_64F) || l[1]->type != t || l[2]->type != l[3]->type) return false;
    if (l[3]->type != t && !(l[3]->type == CUDA_R_32F && !wide)) return false;
    return !(wide && d->epilogue != CUBLASLT_EPILOGUE_DEFAULT);
}

static bool has_aux(int e) { return e == CUBLASLT_EPILOGUE_DGELU || e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS; }

static bool known_epilogue(int e) {
    return e == CUBLASLT_EPILOGUE_DEFAULT || e == CUBLASLT_EPILOGUE_RELU || e == CUBLASLT_EPILOGUE_BIAS ||
           e == CUBLASLT_EPILOGUE_RELU_BIAS || e == CUBLASLT_EPILOGUE_GELU || e == CUBLASLT_EPILOGUE_GELU_BIAS ||
           has_aux(e);
}

/* a, b, c, d; fills the sizes of the product. */
static cublasStatus fit(const struct cublasLtMatmulDescOpaque *d, const cublasLtMatrixLayout l[4], product *p) {
    for (int i = 0; i < 4; i++)
        if (l[i] == NULL || !is_layout(l[i]) || l[i]->n_batch != l[0]->n_batch) return INVALID_VALUE;
    for (int i = 0; i < 2; i++)
        if (d->transposed[i] != CUBLAS_OP_N && d->transposed[i] != CUBLAS_OP_T) return INVALID_VALUE;
    bool ta = d->transposed[0], tb = d->transposed[1];
    p->M = ta ? l[0]->cols : l[0]->rows, p->K = ta ? l[0]->rows : l[0]->cols, p->N = tb ? l[1]->rows : l[1]->cols;
    if ((tb ? l[1]->cols : l[1]->rows) != p->K) return INVALID_VALUE;
    for (int i = 2; i < 4; i++)
        if (l[i]->rows != p->M || l[i]->cols != p->N) return INVALID_VALUE;
    if (!known_types(d, l) || !known_epilogue(d->epilogue)) return NOT_SUPPORTED;
    bool aux = has_aux(d->epilogue);
    if (aux && (d->aux == NULL || (uintptr_t)d->aux % 16 || d->aux_ld % 8 || d->aux_ld < p->M || l[3]->n_batch > 1))
        return NOT_SUPPORTED;
    return d->pointer_mode == 0 ? SUCCESS : NOT_SUPPORTED;
}

static size_t wanted_workspace(const product *p, const struct cublasLtMatmulDescOpaque *d, cublasLtMatrixLayout out) {
    size_t each = sizeof(float) * (1 + (d->transposed[0] == CUBLAS_OP_T) + (d->transposed[1] == CUBLAS_OP_T));
    return p->K >= LONG_SUM ? (size_t)(p->M * p->N * out->n_batch) * each : 0;
}

/* An algorithm is good for the product it was asked for. */
static void name_algo(const product *p, const struct cublasLtMatmulDescOpaque *d, const cublasLtMatrixLayout l[4],
                      cublasLtMatmulAlgo *algo) {
    *algo = (cublasLtMatmulAlgo){{0x57A9D1, (uint64_t)p->M, (uint64_t)p->N, (uint64_t)p->K, (uint64_t)l[0]->type,
                                  (uint64_t)(d->transposed[0] + 2 * d->transposed[1] + 4 * d->epilogue),
                                  (uint64_t)l[0]->n_batch, 0}};
}

cublasStatus cublasLtMatmulAlgoGetHeuristic(cublasLtHandle h, cublasLtMatmulDesc d, cublasLtMatrixLayout a,
                                            cublasLtMatrixLayout b, cublasLtMatrixLayout c, cublasLtMatrixLayout out,
                                            cublasLtMatmulPreference p, int n_wanted,
                                            cublasLtMatmulHeuristicResult *results, int *n_found) {
    ENTER();
    const cublasLtMatrixLayout l[4] = {a, b, c, out};
    product made = {0};
    *n_found = 0;
    if (h == NULL || p == NULL || n_wanted < 1) return INVALID_VALUE;
    cublasStatus r = fit(d, l, &made);
    if (r != SUCCESS) return r;
    uint64_t aligned = 0;
    for (int i = 0; i < 4; i++) {
        if (p->aligned[i] < bytes_of(l[i]->type)) return NOT_SUPPORTED;
        aligned = aligned << 16 | p->aligned[i];
    }
    for (int i = 0; i < WAYS && i < n_wanted; i++) {
        size_t wanted = wanted_workspace(&made, d, out);
        results[i] = (cublasLtMatmulHeuristicResult){.workspaceSize = wanted, .wavesCount = 1};
        if (wanted > p->workspace) return SUCCESS;
        name_algo(&made, d, l, &results[i].algo);
        results[i].algo.data[7] = aligned | (uint64_t)i << WAY;
        *n_found = i + 1;
    }
    return SUCCESS;
}

static bool is_aligned(const void *const address[4], uint64_t aligned) {
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)address[i] % (aligned >> (48 - 16 * i) & 0xfff) != 0) return false;
    return true;
}

static layout layout_of(cublasLtMatrixLayout l, int transposed) {
    return (layout){l->type, transposed, l->ld, l->batch_stride};
}

static double number(int type, const void *p) { return load(p, type, 0); }

/* The elements that a matrix reaches over. */
static size_t reach(cublasLtMatrixLayout l) {
    int64_t n = (l->cols - 1) * l->ld + l->rows + (l->n_batch - 1) * l->batch_stride;
    return (size_t)n * bytes_of(l->type);
}

static bool in_device(const standin_control *s, const product *p, const cublasLtMatrixLayout l[4]) {
    bool ok = s->is_device(p->A, reach(l[0])) && s->is_device(p->B, reach(l[1])) && s->is_device(p->D, reach(l[3]));
    const char *beside = p->aux != NULL ? p->aux : p->kept;
    if (beside != NULL) ok = ok && s->is_device(beside, (size_t)((p->N - 1) * p->aux_ld + p->M) * bytes_of(p->d.type));
    if (p->beta != 0) ok = ok && s->is_device(p->C, reach(l[2]));
    return ok && (p->bias == NULL || s->is_device(p->bias, (size_t)p->M * bytes_of(p->bias_type)));
}

cublasStatus cublasLtMatmul(cublasLtHandle h, cublasLtMatmulDesc d, const void *alpha, const void *A,
                            cublasLtMatrixLayout a, const void *B, cublasLtMatrixLayout b, const void *beta,
                            const void *C, cublasLtMatrixLayout c, void *D, cublasLtMatrixLayout out,
                            const cublasLtMatmulAlgo *algo, void *workspace, size_t bytes_workspace, CUstream s) {
    ENTER();
    const standin_control *driver = standin_find();
    const cublasLtMatrixLayout l[4] = {a, b, c, out};
    const void *const addresses[4] = {A, B, C, D};
    product p = {.n_batch = a->n_batch, .epilogue = d->epilogue, .wide = d->compute == CUBLAS_COMPUTE_64F};
    p.tf32 = d->compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a->type == CUDA_R_32F;
    if (h == NULL || driver == NULL || alpha == NULL || beta == NULL || algo == NULL) return INVALID_VALUE;
    cublasStatus r = fit(d, l, &p);
    if (r != SUCCESS) return r;
    cublasLtMatmulAlgo own;
    name_algo(&p, d, l, &own);
    if (memcmp(own.data, algo->data, 7 * sizeof own.data[0]) != 0) return INVALID_VALUE;
    if (!is_aligned(addresses, algo->data[7])) return INVALID_VALUE;
    p.alpha = number(d->scale, alpha), p.beta = number(d->scale, beta);
    p.a = layout_of(a, d->transposed[0]), p.b = layout_of(b, d->transposed[1]);
    p.c = layout_of(c, 0), p.d = layout_of(out, 0);
    p.A = A, p.B = B, p.C = C, p.D = D;
    if (d->epilogue == CUBLASLT_EPILOGUE_DGELU) p.aux = d->aux;
    if (d->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) p.kept = d->aux;
    p.aux_ld = d->aux_ld;
    p.bias = has_bias(d->epilogue) ? d->bias : NULL;
    p.bias_type = d->bias_type < 0 ? out->type : d->bias_type;
    if (has_bias(d->epilogue) && p.bias == NULL) return INVALID_VALUE;
    p.workspace = workspace, p.bytes_workspace = wanted_workspace(&p, d, out);
    if (!in_device(driver, &p, l) || bytes_workspace < p.bytes_workspace ||
        (bytes_workspace && (!driver->is_device(workspace, bytes_workspace) || (uintptr_t)workspace % 256 != 0)))
        return INVALID_VALUE;
    return driver->enqueue(s, "cublasLtMatmul", run, &p, sizeof p) == 0 ? SUCCESS : EXECUTION_FAILED;
}
