/* cuda/conv.c: convolutions over columns, see conv.h. */
#include "kernels/cuda/conv.h"

#include "base/intmath.h"
#include "kernels/cuda/conv_dnn.h"
#include "kernels/cuda/window.h"

enum { THREADS = 256 };

/* Mirrors column_steps of conv.cu. */
typedef struct column_steps {
    int64_t C, c, n, tap;
} column_steps;

/* The sizes that products are made of: of one group, and how many images go together. */
typedef struct sizes {
    int64_t P, I, T;   /* places, elements of a plane, taps */
    int64_t Cg, Kg;    /* channels of a group */
    int64_t n_images;  /* at a time */
    int64_t n_columns; /* elements of an image's columns */
    size_t elem;
} sizes;

static int64_t checked(int64_t a, int64_t b) {
    int64_t n;
    return nc_mul_i64(a, b, &n) ? n : INT64_MAX;
}

static sizes sizes_of(const nck_conv_shape *s) {
    sizes z = {.P = nck_window_n_out(&s->w),
               .I = nck_window_n_in(&s->w),
               .T = nck_window_n_k(&s->w),
               .Cg = s->C / s->group,
               .Kg = s->K / s->group,
               .elem = nc_dtype_bytes(s->type)};
    z.n_columns = checked(checked(s->C, z.T), z.P);
    int64_t bytes = checked(z.n_columns, (int64_t)z.elem), room = bytes > 0 ? NCK_CUDA_COLUMNS / bytes : s->N;
    z.n_images = room < 1 ? 1 : nc_min64(room, s->N);
    return z;
}

/* The window sees exactly what lies at its place: the input is its own columns. */
static bool sees_one(const nck_window *w) {
    for (int d = 0; d < NCK_WINDOW_DIMS; d++)
        if (w->k[d] != 1 || w->stride[d] != 1 || w->pad[d] != 0 || w->in[d] != w->out[d]) return false;
    return true;
}

nc_code nck_cuda_conv_prepare(nc_device *d, nc_dtype t, nck_cuda_gemm_cache *cache, nck_cuda_conv *out, nc_diag *diag) {
    const struct {
        const char *name;
        nc_function **to;
    } all[] = {{"columns", &out->columns},           {"back", &out->back},
               {"depthwise", &out->depthwise},       {"biases", &out->biases},
               {"side_by_side", &out->side_by_side}, {"apart", &out->apart},
               {"add_biases", &out->add_biases}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_conv, t, NULL, all[i].name, all[i].to, diag));
    nc_cuda_need_dnn(d);
    NC_TRY(nck_cuda_reduce_prepare(d, NCK_REDUCE_SUM, t, &out->sum, diag));
    return nck_cuda_gemm_prepare(d, t, cache, &out->gemm, diag);
}

static int64_t columns_bytes(const nck_conv_shape *s, const sizes *z) {
    int64_t image = checked(z->n_columns, (int64_t)z->elem);
    return nc_min64(checked(image, s->N), image > NCK_CUDA_COLUMNS ? image : NCK_CUDA_COLUMNS);
}

static bool is_depthwise(const nck_conv_shape *s) { return s->C == s->group && s->C > 0; }

/* Columns, and behind them y side by side. */
size_t nck_cuda_conv_workspace(const nck_conv_shape *s) {
    sizes z = sizes_of(s);
    int64_t beside = checked(checked(checked(s->K, z.P), s->N), (int64_t)z.elem), bytes;
    if (is_depthwise(s)) return 0;
    if (!nc_add_i64(columns_bytes(s, &z), 256, &bytes) || !nc_add_i64(bytes, beside, &bytes)) return SIZE_MAX;
    return (size_t)bytes;
}

/* The same with dy; or what sums over places need. Depthwise ones have columns here. */
size_t nck_cuda_conv_grad_workspace(const nck_conv_shape *s) {
    sizes z = sizes_of(s);
    int64_t beside = checked(checked(checked(s->K, z.P), s->N), (int64_t)z.elem), bytes;
    if (!nc_add_i64(columns_bytes(s, &z), 256, &bytes) || !nc_add_i64(bytes, beside, &bytes)) return SIZE_MAX;
    size_t sum = nck_cuda_reduce_workspace(s->K > s->C ? s->K : s->C, checked(s->N, z.P > z.I ? z.P : z.I));
    return (size_t)bytes > sum ? (size_t)bytes : sum;
}

static nc_code launch(nck_cuda_at at, nc_function *f, int64_t n, void **args) {
    return nck_cuda_launch(at, f, nck_cuda_blocks(at.device, n, THREADS), THREADS, args);
}

static void *at_element(const void *p, int64_t i, const sizes *z) { return (char *)(uintptr_t)p + (size_t)i * z->elem; }

static nc_code make_columns(const nck_cuda_conv *k, nck_cuda_at at, const nck_conv_shape *s, const sizes *z,
                            column_steps steps, int64_t n, const void *x, void *cols) {
    nck_cuda_window w;
    NC_TRY(nck_cuda_window_of(&s->w, &w, at.diag));
    int64_t planes = n * s->C;
    void *args[] = {&w, &planes, &steps, &x, &cols};
    return launch(at, k->columns, planes * z->P, args);
}

/* Through cuDNN, and then the biases of the result's planes, if any; *done: it was. */
static nc_code run_dnn(const nck_cuda_conv *k, nck_cuda_at at, const nck_conv_shape *s, nck_cuda_conv_dnn c,
                       const void *bias, void *workspace, bool *done) {
    bool forward = c.kind == NCK_CONV_DNN_Y;
    int64_t channels = forward ? s->K : s->C, planes = s->N * channels;
    int64_t n = forward ? nck_window_n_out(&s->w) : nck_window_n_in(&s->w);
    const void *y = forward ? c.y : c.x;
    c.room = workspace, c.bytes_room = nck_cuda_conv_workspace(s); /* that of gradients is no smaller */
    *done = nck_cuda_conv_dnn_run(at, s, &c);
    if (!*done || bias == NULL) return NC_OK;
    void *args[] = {&planes, &n, &channels, &bias, &y};
    return launch(at, k->add_biases, planes * n, args);
}

static nc_code put_biases(const nck_cuda_conv *k, nck_cuda_at at, int64_t planes, int64_t n, int64_t channels,
                          const void *bias, void *y) {
    void *args[] = {&planes, &n, &channels, &bias, &y};
    return launch(at, k->biases, planes * n, args);
}

/* One product for each image and group: all images of a group, or all groups of an image, in one call. The fields
 * `batch` of g are the steps between images, `by_group` those between groups. */
static nc_code multiply(const nck_cuda_conv *k, nck_cuda_at at, const sizes *z, nck_cuda_gemm_args g, int64_t n_images,
                        int64_t n_groups, const int64_t by_group[3]) {
    nck_cuda_matrix *m[3] = {&g.a, &g.b, &g.c};
    bool groups_together = n_groups > n_images;
    int64_t calls = groups_together ? n_images : n_groups, step[3];
    for (int i = 0; i < 3; i++) {
        step[i] = groups_together ? m[i]->batch : by_group[i];
        if (groups_together) m[i]->batch = by_group[i];
    }
    g.n_batch = groups_together ? n_groups : n_images;
    for (int64_t call = 0; call < calls; call++) {
        NC_TRY(nck_cuda_gemm_run(&k->gemm, at, &g));
        for (int i = 0; i < 3; i++) m[i]->data = at_element(m[i]->data, step[i], z);
    }
    return NC_OK;
}

static nc_code run_depthwise(const nck_cuda_conv *k, nck_cuda_at at, const nck_conv_shape *s, const sizes *z,
                             const void *x, const void *w, const void *bias, void *y) {
    nck_cuda_window window;
    NC_TRY(nck_cuda_window_of(&s->w, &window, at.diag));
    int64_t planes = s->N * s->K, K = s->K, C = s->C;
    void *args[] = {&window, &planes, &K, &C, &x, &w, &bias, &y};
    return launch(at, k->depthwise, planes * z->P, args);
}

/* What lies behind the columns of so many images. */
static void *behind_columns(const sizes *z, int64_t images, void *workspace) {
    size_t bytes = (size_t)(z->n_columns * images) * z->elem;
    return (char *)workspace + (bytes + 255) / 256 * 256;
}

enum { SMALL_PLANE = 512, ROW_ALIGNMENT = 16 };
static bool goes_side_by_side(const nck_conv_shape *s, const sizes *z) {
    bool aligned = (size_t)z->P * z->elem % ROW_ALIGNMENT == 0;
    return s->N > 1 && (z->P < SMALL_PLANE || !aligned);
}

/* Columns (group, rows, images x places), y (K, images x places), which then goes apart to y (images, K, places). */
static nc_code run_side_by_side(const nck_cuda_conv *k, nck_cuda_at at, const nck_conv_shape *s, const sizes *z,
                                const void *x, const void *w, const void *bias, void *y, void *workspace) {
    const int64_t rows = z->Cg * z->T;
    int64_t K = s->K, P = z->P;
    for (int64_t n = 0; n < s->N; n += z->n_images) {
        int64_t images = nc_min64(z->n_images, s->N - n), together = images * P;
        void *beside = behind_columns(z, images, workspace), *to = at_element(y, n * K * P, z);
        NC_TRY(make_columns(k, at, s, z, (column_steps){s->C, z->T * together, P, together}, images,
                            at_element(x, n * s->C * z->I, z), workspace));
        nck_cuda_gemm_args g = {.n_batch = s->group,
                                .M = z->Kg,
                                .N = together,
                                .K = rows,
                                .alpha = 1,
                                .a = {(void *)(uintptr_t)w, rows, 1, z->Kg * rows},
                                .b = {workspace, together, 1, rows * together},
                                .c = {beside, together, 1, z->Kg * together}};
        NC_TRY(nck_cuda_gemm_run(&k->gemm, at, &g));
        void *args[] = {&images, &K, &P, &beside, &bias, &to};
        NC_TRY(launch(at, k->apart, images * K * P, args));
    }
    return NC_OK;
}

nc_code nck_cuda_conv_run(const nck_cuda_conv *k, nck_cuda_at at, const nck_conv_shape *s, const void *x, const void *w,
                          const void *bias, void *y, void *workspace) {
    const sizes z = sizes_of(s);
    const int64_t rows = z.Cg * z.T, by_group[3] = {z.Kg * rows, rows * z.P, z.Kg * z.P};
    bool direct = sees_one(&s->w), done;
    if (s->N == 0 || s->K == 0 || z.P == 0) return NC_OK;
    NC_TRY(
        run_dnn(k, at, s, (nck_cuda_conv_dnn){.kind = NCK_CONV_DNN_Y, .x = x, .w = w, .y = y}, bias, workspace, &done));
    if (done) return NC_OK;
    if (is_depthwise(s)) return run_depthwise(k, at, s, &z, x, w, bias, y);
    if (rows > 0 && goes_side_by_side(s, &z)) return run_side_by_side(k, at, s, &z, x, w, bias, y, workspace);
    if (bias != NULL || rows == 0) NC_TRY(put_biases(k, at, s->N * s->K, z.P, s->K, bias, y));
    if (rows == 0) return NC_OK;
    for (int64_t n = 0; n < s->N; n += direct ? s->N : z.n_images) {
        int64_t images = direct ? s->N : nc_min64(z.n_images, s->N - n);
        const void *from = at_element(x, n * s->C * z.I, &z);
        if (!direct)
            NC_TRY(
                make_columns(k, at, s, &z, (column_steps){s->C, z.T * z.P, z.n_columns, z.P}, images, from, workspace));
        nck_cuda_gemm_args g = {
            .M = z.Kg,
            .N = z.P,
            .K = rows,
            .alpha = 1,
            .beta = bias != NULL,
            .a = {(void *)(uintptr_t)w, rows, 1, 0},
            .b = {direct ? (void *)(uintptr_t)from : workspace, z.P, 1, direct ? s->C * z.I : z.n_columns},
            .c = {at_element(y, n * s->K * z.P, &z), z.P, 1, s->K * z.P}};
        NC_TRY(multiply(k, at, &z, g, images, s->group, by_group));
    }
    return NC_OK;
}

nc_code nck_cuda_conv_dx(const nck_cuda_conv *k, nck_cuda_at at, const nck_conv_shape *s, const void *dy, const void *w,
                         const void *bias, void *dx, void *workspace) {
    const sizes z = sizes_of(s);
    const int64_t rows = z.Cg * z.T, by_group[3] = {z.Kg * rows, z.Kg * z.P, rows * z.P};
    nck_cuda_window window;
    int64_t C = s->C;
    NC_TRY(nck_cuda_window_of(&s->w, &window, at.diag));
    if (s->N == 0 || C == 0 || z.I == 0) return NC_OK;
    bool done;
    NC_TRY(run_dnn(k, at, s, (nck_cuda_conv_dnn){.kind = NCK_CONV_DNN_DX, .x = dx, .w = w, .y = dy}, bias, workspace,
                   &done));
    if (done) return NC_OK;
    if (z.Kg == 0 || z.P == 0 || z.T == 0) return put_biases(k, at, s->N * C, z.I, C, bias, dx);
    for (int64_t n = 0; n < s->N; n += z.n_images) {
        int64_t images = nc_min64(z.n_images, s->N - n), planes = images * C;
        void *to = at_element(dx, n * C * z.I, &z);
        nck_cuda_gemm_args g = {.M = rows,
                                .N = z.P,
                                .K = z.Kg,
                                .alpha = 1,
                                .a = {(void *)(uintptr_t)w, 1, rows, 0},
                                .b = {at_element(dy, n * s->K * z.P, &z), z.P, 1, s->K * z.P},
                                .c = {workspace, z.P, 1, z.n_columns}};
        NC_TRY(multiply(k, at, &z, g, images, s->group, by_group));
        void *args[] = {&window, &planes, &C, &workspace, &bias, &to};
        NC_TRY(launch(at, k->back, planes * z.I, args));
    }
    return NC_OK;
}

nc_code nck_cuda_conv_dw(const nck_cuda_conv *k, nck_cuda_at at, const nck_conv_shape *s, const void *x, const void *dy,
                         void *dw, void *workspace) {
    const sizes z = sizes_of(s);
    const int64_t rows = z.Cg * z.T;
    int64_t K = s->K, P = z.P;
    if (K == 0 || rows == 0) return NC_OK;
    if (s->N == 0 || P == 0) return put_biases(k, at, K, rows, 1, NULL, dw);
    bool done;
    NC_TRY(run_dnn(k, at, s, (nck_cuda_conv_dnn){.kind = NCK_CONV_DNN_DW, .x = x, .w = dw, .y = dy}, NULL, workspace,
                   &done));
    if (done) return NC_OK;
    for (int64_t n = 0; n < s->N; n += z.n_images) {
        int64_t images = nc_min64(z.n_images, s->N - n), together = images * P;
        const void *from = at_element(dy, n * K * P, &z);
        void *beside = behind_columns(&z, images, workspace);
        NC_TRY(make_columns(k, at, s, &z, (column_steps){s->C, z.T * together, P, together}, images,
                            at_element(x, n * s->C * z.I, &z), workspace));
        void *args[] = {&images, &K, &P, &from, &beside};
        NC_TRY(launch(at, k->side_by_side, images * K * P, args));
        nck_cuda_gemm_args g = {.n_batch = s->group,
                                .M = z.Kg,
                                .N = rows,
                                .K = together,
                                .alpha = 1,
                                .beta = n > 0,
                                .a = {beside, together, 1, z.Kg * together},
                                .b = {workspace, 1, together, rows * together},
                                .c = {dw, rows, 1, z.Kg * rows}};
        NC_TRY(nck_cuda_gemm_run(&k->gemm, at, &g));
    }
    return NC_OK;
}

nc_code nck_cuda_conv_db(const nck_cuda_conv *k, nck_cuda_at at, const nck_conv_shape *s, int64_t channels,
                         int64_t places, const void *y, void *db, void *workspace) {
    nc_tensor t = {.data = (void *)(uintptr_t)y, .dtype = s->type, .rank = 3, .dims = {s->N, channels, places}};
    nc_dense_strides(t.dims, t.rank, t.strides);
    return nck_cuda_reduce_run(&k->sum, at, &t, nc_axes_of(0) | nc_axes_of(2), db, workspace);
}

nc_code nck_cuda_image_prepare(nc_device *d, nc_dtype t, nc_function **out, nc_diag *diag) {
    return nck_cuda_find(d, NCK_CUDA_TEXT_conv, t, NULL, "back", out, diag);
}

nc_code nck_cuda_image_run(nc_function *back, nck_cuda_at at, const nck_window *window, int64_t planes,
                           const void *cols, void *x) {
    nck_cuda_window w;
    int64_t channels = 1;
    const void *bias = NULL;
    NC_TRY(nck_cuda_window_of(window, &w, at.diag));
    void *args[] = {&w, &planes, &channels, &cols, &bias, &x};
    return launch(at, back, planes * nck_window_n_in(window), args);
}
