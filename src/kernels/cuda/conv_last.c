/* cuda/conv_last.c: convolutions with channels last, see conv_last.h. */
#include "kernels/cuda/conv_last.h"

#include "base/intmath.h"
#include "device/cuda_api.h"
#include "kernels/cuda/conv.h"
#include "kernels/cuda/conv_dnn.h"
#include "kernels/cuda/move.h"
#include "kernels/cuda/window.h"

enum { THREADS = 256, WIDE = 16 };

nc_code nck_cuda_conv_last_prepare(nc_device *d, nc_dtype t, nck_cuda_gemm_cache *cache, nck_cuda_conv_last *out,
                                   nc_diag *diag) {
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_conv_last, t, NULL, "columns", &out->columns, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_conv_last, t, NULL, "columns_wide", &out->columns_wide, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_conv_last, t, NULL, "depthwise", &out->depthwise, diag));
    nc_cuda_need_dnn(d);
    return nck_cuda_gemm_prepare(d, t, cache, &out->gemm, diag);
}

static int64_t checked(int64_t a, int64_t b) {
    int64_t n;
    return nc_mul_i64(a, b, &n) ? n : INT64_MAX;
}

static bool is_depthwise(const nck_conv_shape *s) { return s->C == s->group; }

/* The bytes of an image's columns. */
static int64_t image_bytes(const nck_conv_shape *s) {
    int64_t n = checked(checked(s->C, nck_window_n_k(&s->w)), nck_window_n_out(&s->w));
    return checked(n, (int64_t)nc_dtype_bytes(s->type));
}

size_t nck_cuda_conv_last_workspace(const nck_conv_shape *s) {
    int64_t image = image_bytes(s);
    if (is_depthwise(s)) return 0;
    return (size_t)nc_min64(checked(image, s->N), nc_max64(image, NCK_CUDA_COLUMNS));
}

static bool sees_one(const nck_window *w) {
    for (int d = 0; d < NCK_WINDOW_DIMS; d++)
        if (w->k[d] != 1 || w->stride[d] != 1 || w->pad[d] != 0 || w->in[d] != w->out[d]) return false;
    return true;
}

static nc_code run_depthwise(const nck_cuda_conv_last *k, nck_cuda_at at, const nck_cuda_conv_last_args *a) {
    nck_cuda_window w;
    NC_TRY(nck_cuda_window_of(&a->shape.w, &w, at.diag));
    int64_t N = a->shape.N, K = a->shape.K, C = a->shape.C, n = N * nck_window_n_out(&a->shape.w) * K;
    const void *x = a->x, *weight = a->w, *bias = a->bias;
    void *y = a->y, *args[] = {&w, &N, &K, &C, &x, &weight, &bias, &y};
    return nck_cuda_launch(at, k->depthwise, nck_cuda_blocks(at.device, n, THREADS), THREADS, args);
}

static nc_code make_columns(const nck_cuda_conv_last *k, nck_cuda_at at, const nck_conv_shape *s, int64_t images,
                            const void *x, void *cols) {
    nck_cuda_window w;
    NC_TRY(nck_cuda_window_of(&s->w, &w, at.diag));
    int64_t each = WIDE / (int64_t)nc_dtype_bytes(s->type), groups = s->group, Cg = s->C / s->group;
    bool wide = Cg % each == 0 && (uintptr_t)x % WIDE == 0 && (uintptr_t)cols % WIDE == 0;
    if (wide) Cg /= each;
    int64_t n = images * nck_window_n_out(&s->w) * nck_window_n_k(&s->w) * groups * Cg;
    void *args[] = {&w, &images, &groups, &Cg, &x, &cols};
    return nck_cuda_launch(at, wide ? k->columns_wide : k->columns, nck_cuda_blocks(at.device, n, THREADS), THREADS,
                           args);
}

/* y of some images as the product of their columns, or of x itself, with the weights of each group. */
static nc_code multiply(const nck_cuda_conv_last *k, nck_cuda_at at, const nck_conv_shape *s, int64_t rows,
                        const void *from, bool direct, const nck_cuda_conv_last_args *a, void *y) {
    int64_t Kg = s->K / s->group, depth = s->C / s->group * nck_window_n_k(&s->w);
    nck_cuda_matrix bias = {.data = (void *)(uintptr_t)a->bias, .cs = 1}, all = {.data = y, .rs = s->K, .cs = 1};
    bool apart = a->bias != NULL && s->group > 1;
    nck_cuda_gemm_args g = {.n_batch = s->group,
                            .M = rows,
                            .N = Kg,
                            .K = depth,
                            .alpha = 1,
                            .beta = apart,
                            .bias = apart ? NULL : a->bias,
                            .a = {(void *)(uintptr_t)from, direct ? s->C : depth, 1, direct ? depth : rows * depth},
                            .b = {(void *)(uintptr_t)a->w, 1, depth, Kg * depth},
                            .c = {y, s->K, 1, Kg}};
    if (apart) NC_TRY(nck_cuda_gemm_spread(&k->gemm, at, rows, s->K, bias, all));
    return nck_cuda_gemm_run(&k->gemm, at, &g);
}

static nc_code run_products(const nck_cuda_conv_last *k, nck_cuda_at at, const nck_cuda_conv_last_args *a,
                            void *workspace) {
    const nck_conv_shape *s = &a->shape;
    int64_t P = nck_window_n_out(&s->w), I = nck_window_n_in(&s->w), elem = (int64_t)nc_dtype_bytes(s->type);
    bool direct = sees_one(&s->w);
    int64_t room = direct ? s->N : nc_max64(1, NCK_CUDA_COLUMNS / image_bytes(s));
    for (int64_t n = 0; n < s->N; n += room) {
        int64_t images = nc_min64(room, s->N - n);
        const char *from = (const char *)a->x + n * I * s->C * elem;
        if (!direct) NC_TRY(make_columns(k, at, s, images, from, workspace));
        NC_TRY(multiply(k, at, s, images * P, direct ? (const void *)from : workspace, direct, a,
                        (char *)a->y + n * P * s->K * elem));
    }
    return NC_OK;
}

/* With all that follows, or alone with its bias. */
static bool run_dnn(nck_cuda_at at, const nck_cuda_conv_last_args *a, void *workspace, bool *whole) {
    nck_cuda_conv_dnn c = {.kind = NCK_CONV_DNN_Y,
                           .last = true,
                           .relu = a->relu,
                           .x = a->x,
                           .w = a->w,
                           .y = a->y,
                           .bias = a->bias,
                           .add = a->add,
                           .room = workspace,
                           .bytes_room = nck_cuda_conv_last_workspace(&a->shape)};
    *whole = true;
    if (nck_cuda_conv_dnn_run(at, &a->shape, &c)) return true;
    *whole = a->add == NULL && !a->relu;
    if (*whole) return false;
    c.add = NULL, c.relu = false;
    return nck_cuda_conv_dnn_run(at, &a->shape, &c);
}

nc_code nck_cuda_conv_last_run(const nck_cuda_conv_last *k, nck_cuda_at at, const nck_cuda_conv_last_args *a,
                               void *workspace, bool *whole) {
    const nck_conv_shape *s = &a->shape;
    *whole = true;
    if (s->N == 0 || s->K == 0 || nck_window_n_out(&s->w) == 0) return NC_OK;
    if (run_dnn(at, a, workspace, whole)) return NC_OK;
    *whole = a->add == NULL && !a->relu;
    return is_depthwise(s) ? run_depthwise(k, at, a) : run_products(k, at, a, workspace);
}
