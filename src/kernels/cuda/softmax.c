/* cuda/softmax.c: launchers of softmax_loss.cu, see softmax.h. Short rows take a warp each, eight to a block; long ones
 * a block each. */
#include "kernels/cuda/softmax.h"

#include <stdio.h>

enum { LONG_ROW = 512, HELD = 32, VECTOR_BYTES = 16, THREADS = 256, JOIN_THREADS = 1024 };

/* Mirrors loss_args of softmax_loss.cu. */
typedef struct device_loss {
    nck_cuda_rows rows;
    nck_cuda_lines lines;
    const void *labels, *weights;
    int64_t ignore_index;
    int wide_labels, has_ignore, reduction;
} device_loss;

typedef struct entry {
    const char *name;
    nc_function **f;
} entry;

static nc_code find(nc_device *d, nc_dtype t, const char *define, const entry *wanted, int n, nc_diag *diag) {
    for (int i = 0; i < n; i++)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_softmax, t, define, wanted[i].name, wanted[i].f, diag));
    return NC_OK;
}

static bool is_known(nc_dtype t) { return nc_dtype_is_float(t) && nck_cuda_type_name(t) != NULL; }

nc_code nck_cuda_softmax_prepare(nc_device *d, nc_dtype t, nck_cuda_softmax *out, nc_diag *diag) {
    if (!is_known(t)) return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "softmax of %s", nc_dtype_name(t));
    *out = (nck_cuda_softmax){.type = t};
    const entry wanted[] = {{"softmax", &out->all}, {"softmax_vectors", &out->vectors}, {"softmax_grad", &out->grad}};
    return find(d, t, NULL, wanted, 3, diag);
}

nc_code nck_cuda_loss_prepare(nc_device *d, nc_dtype scores, nc_dtype loss, nc_dtype dx, nck_cuda_loss *out,
                              nc_diag *diag) {
    char define[64];
    nc_dtype wide = nck_cuda_accumulator(scores);
    if (!is_known(scores) || nck_cuda_accumulator(loss) != wide || nck_cuda_accumulator(dx) != wide)
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "a loss of %s over scores of %s", nc_dtype_name(loss),
                           nc_dtype_name(scores));
    snprintf(define, sizeof define, "#define W %s\n#define X %s\n", nck_cuda_type_name(loss), nck_cuda_type_name(dx));
    *out = (nck_cuda_loss){0};
    const entry wanted[] = {{"loss_rows", &out->rows},          {"loss_join", &out->join},
                            {"loss_norm", &out->norm},          {"loss_grad", &out->grad},
                            {"scores_grad", &out->scores_grad}, {"loss_picked", &out->picked}};
    return find(d, scores, define, wanted, 6, diag);
}

static nc_code launch_rows(nck_cuda_at at, nc_function *f, nck_cuda_rows r, void **args) {
    bool is_long = r.C >= LONG_ROW;
    nc_dim3 block = is_long ? (nc_dim3){THREADS, 1, 1} : (nc_dim3){32, 8, 1};
    if (r.outer * r.inner == 0) return NC_OK;
    nc_dim3 grid = {nck_cuda_blocks(at.device, r.outer * r.inner, block.y), 1, 1};
    return at.device->table->launch_function(at.device, at.stream, f, grid, block, 0, args, at.diag);
}

/* Rows are whole vectors, all aligned, such that a warp or a block holds: HELD elements a thread. */
static bool takes_vectors(const nck_cuda_softmax *k, nck_cuda_rows r, const void *x, const void *y) {
    int64_t per_vector = VECTOR_BYTES / (int64_t)nc_dtype_bytes(k->type);
    return r.C <= HELD * THREADS && r.inner == 1 && r.C > 0 && r.C % per_vector == 0 &&
           ((uintptr_t)x | (uintptr_t)y) % VECTOR_BYTES == 0;
}

static nc_code launch_vectors(nck_cuda_at at, nc_function *f, nck_cuda_rows r, void **args) {
    nc_dim3 block = r.C > HELD * 32 ? (nc_dim3){THREADS, 1, 1} : (nc_dim3){32, 8, 1};
    if (r.outer == 0) return NC_OK;
    nc_dim3 grid = {nck_cuda_blocks(at.device, r.outer, block.y), 1, 1};
    return at.device->table->launch_function(at.device, at.stream, f, grid, block, 0, args, at.diag);
}

nc_code nck_cuda_softmax_run(const nck_cuda_softmax *k, nck_cuda_at at, nck_cuda_rows rows, bool logs, const void *x,
                             void *y) {
    int flag = logs;
    void *args[] = {&rows, &flag, &x, &y};
    if (takes_vectors(k, rows, x, y)) return launch_vectors(at, k->vectors, rows, args);
    return rows.C == 0 ? NC_OK : launch_rows(at, k->all, rows, args);
}

nc_code nck_cuda_softmax_grad_run(const nck_cuda_softmax *k, nck_cuda_at at, nck_cuda_rows rows, bool logs,
                                  const void *dy, const void *y, void *dx) {
    int flag = logs;
    void *args[] = {&rows, &flag, &dy, &y, &dx};
    return rows.C == 0 ? NC_OK : launch_rows(at, k->grad, rows, args);
}

static device_loss device_loss_of(const nck_loss_args *a, nck_cuda_lines lines) {
    return (device_loss){.rows = {a->N, a->C, a->D},
                         .lines = lines,
                         .labels = a->labels,
                         .weights = a->weights,
                         .ignore_index = a->ignore_index,
                         .wide_labels = a->label_type == NC_INT64,
                         .has_ignore = a->has_ignore,
                         .reduction = a->reduction == NCK_LOSS_NONE  ? 0
                                      : a->reduction == NCK_LOSS_SUM ? 1
                                                                     : 2};
}

size_t nck_cuda_loss_workspace(int64_t positions) {
    int64_t bytes;
    if (!nc_mul_i64(positions, (int64_t)sizeof(double), &bytes)) return SIZE_MAX;
    return bytes > 64 ? (size_t)bytes : 64;
}

nc_code nck_cuda_loss_run(const nck_cuda_loss *k, nck_cuda_at at, const nck_loss_args *a, nck_cuda_lines lines,
                          const void *logits, void *loss, void *log_prob, void *log_sums, void *workspace) {
    device_loss l = device_loss_of(a, lines);
    bool joins = l.reduction != 0;
    void *each = joins ? NULL : loss, *each_wide = joins ? workspace : NULL;
    void *args[] = {&l, &logits, &log_prob, &each, &each_wide, &log_sums};
    NC_TRY(launch_rows(at, k->rows, l.rows, args));
    void *join_args[] = {&l, &workspace, &loss};
    return joins ? nck_cuda_launch(at, k->join, 1, JOIN_THREADS, join_args) : NC_OK;
}

nc_code nck_cuda_nll_run(const nck_cuda_loss *k, nck_cuda_at at, const nck_loss_args *a, const void *log_prob,
                         void *loss, void *workspace) {
    device_loss l = device_loss_of(a, (nck_cuda_lines){a->C * a->D, a->D});
    bool joins = l.reduction != 0;
    void *each = joins ? NULL : loss, *each_wide = joins ? workspace : NULL;
    void *args[] = {&l, &log_prob, &each, &each_wide}, *join_args[] = {&l, &workspace, &loss};
    NC_TRY(nck_cuda_launch(at, k->picked, nck_cuda_blocks(at.device, a->N * a->D, THREADS), THREADS, args));
    return joins ? nck_cuda_launch(at, k->join, 1, JOIN_THREADS, join_args) : NC_OK;
}

nc_code nck_cuda_loss_grad_run(const nck_cuda_loss *k, nck_cuda_at at, const nck_loss_args *a, nck_cuda_loss_from from,
                               const void *dloss, nck_cuda_lines lines, const void *x, const void *log_sums, void *dx,
                               void *workspace) {
    int picks = from == NCK_CUDA_LOSS_OF_LOGS;
    device_loss l = device_loss_of(a, lines);
    int64_t n = a->N * a->C * a->D;
    if (n == 0) return NC_OK;
    void *norm_args[] = {&l, &workspace};
    if (l.reduction == 2) NC_TRY(nck_cuda_launch(at, k->norm, 1, JOIN_THREADS, norm_args));
    void *args[] = {&l, &dloss, &x, &log_sums, &workspace, &dx};
    void *log_args[] = {&l, &picks, &dloss, &x, &workspace, &dx};
    if (from == NCK_CUDA_LOSS_FROM_SCORES) return launch_rows(at, k->scores_grad, l.rows, args);
    return nck_cuda_launch(at, k->grad, nck_cuda_blocks(at.device, n, THREADS), THREADS, log_args);
}
