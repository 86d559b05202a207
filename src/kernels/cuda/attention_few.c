/* cuda/attention_few.c: launcher of attention_few.cu, see attention_few.h. */
#include "kernels/cuda/attention_few.h"

#include "base/intmath.h"
#include "device/cuda_api.h"

#include <stdio.h>

enum {
    MAX_COLS = 256,
    COLS_OF_LANE = 8,
    MOST_ROWS = 16, /* of a call; more are worth tensor cores */
    BLOCK_ROWS = 4, /* of a block: more take too long one after another */
    BLOCK_LANES = 32, /* that the rows of a block take together: its shared memory */
    SPLITS = 8,       /* OF_CLUSTER of attention_few.cu */
    LEAST_KEYS = 128, /* that are worth splits */
    BLOCKS = 160,     /* that are enough, some more than there are multiprocessors */
    MAX_GRID_Y = 65535,
    THREADS = 256
};
/* Of attention_bulk.cu: the GPUs that have it, places of its ring, keys of a turn, what aligns the ring. */
enum { BULK_MAJOR = 9, MOST_STAGES = 3, WARPS = THREADS / 32, ALIGNED = 128 };

static int lanes_of(int64_t cols) {
    int lanes = 1;
    while (lanes * COLS_OF_LANE < cols) lanes *= 2;
    return lanes;
}

void nck_cuda_attn_few_define(int64_t cols, nc_dtype mask, bool softcap, int64_t rows, char *out, size_t bytes) {
    int n = snprintf(out, bytes, "#define LANES %d\n#define ROWS %d\n", lanes_of(cols), (int)rows);
    nck_cuda_attn_define_form(&(nck_cuda_attn_form){.mask = mask, .softcap = softcap}, out + n, bytes - (size_t)n);
}

static int64_t rows_of(const nck_cuda_attn_args *a) {
    int64_t rows;
    return a->kv_heads > 0 && nc_mul_i64(a->q_heads / a->kv_heads, a->n_queries, &rows) ? rows : INT64_MAX;
}

/* Rows of a block, a power of two: more where there are blocks enough, since they share what they read. */
static int64_t rows_together(const nck_cuda_attn_args *a, int64_t cols) {
    int64_t n = 1, rows = rows_of(a);
    while (n < rows && n < BLOCK_ROWS && 2 * n * lanes_of(cols) <= BLOCK_LANES &&
           a->kv_heads * nc_ceil_div(rows, n) * SPLITS > BLOCKS)
        n *= 2;
    return n;
}

nc_code nck_cuda_attn_few_prepare(nc_device *d, nc_dtype t, int64_t cols, nc_dtype mask, bool softcap,
                                  const nck_cuda_attn_args *known, nck_cuda_attn_few *out, nc_diag *diag) {
    char define[160];
    *out = (nck_cuda_attn_few){.type = t, .rows = rows_together(known, cols)};
    nck_cuda_attn_few_define(cols, mask, softcap, out->rows, define, sizeof define);
    const nc_cuda *c = nc_device_cuda(d);
    if (c != NULL && c->major >= BULK_MAJOR && nc_cuda_missing(NC_CUDA_boxes) == NULL)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_attention_bulk, t, define, "attend_bulk", &out->bulk, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_attention_few, t, define, "attend_splits", &out->splits, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_attention_few, t, define, "attend_few", &out->attend, diag);
}

bool nck_cuda_attn_is_few(nc_dtype t, const nck_cuda_attn_args *a) {
    int64_t heads;
    if (t != NC_FLOAT16 && t != NC_BFLOAT16 && t != NC_FLOAT) return false;
    if (a->stats != NULL) return false;
    return rows_of(a) <= MOST_ROWS && a->cols <= MAX_COLS && a->cols_v <= MAX_COLS && a->n_keys <= INT32_MAX / 2 &&
           nc_mul_i64(a->n_batch, a->kv_heads, &heads) && heads <= MAX_GRID_Y;
}

size_t nck_cuda_attn_few_workspace(const nck_cuda_attn_args *a) {
    int64_t heads, rows = nc_min64(rows_of(a), MOST_ROWS) + BLOCK_ROWS;
    if (!nc_mul_i64(a->n_batch, a->kv_heads, &heads) || a->n_keys < LEAST_KEYS) return 0;
    return (size_t)(nc_min64(heads * rows, BLOCKS * BLOCK_ROWS) * SPLITS * (MAX_COLS + 2)) * sizeof(float);
}

/* 16 bytes of elements lie side by side and are aligned, columns in whole turns of a lane. */
static bool in_vectors(const nck_cuda_attn_operand *o, nc_dtype t, int64_t cols) {
    int64_t n = 16 / (int64_t)nc_dtype_bytes(t);
    return o->column == 1 && cols % COLS_OF_LANE == 0 && o->row % n == 0 && o->head % n == 0 && o->batch % n == 0 &&
           (uintptr_t)o->data % 16 == 0;
}

/* Rows of k and v lie one behind another. */
static bool is_dense(const nck_cuda_attn_args *a) { return a->k.row == a->cols && a->v.row == a->cols_v; }

static nc_code run_bulk(const nck_cuda_attn_few *k, nck_cuda_at at, nck_cuda_attn_few_args *f, nc_dim3 grid) {
    int lanes = lanes_of(nc_max64(f->a.cols, f->a.cols_v));
    size_t bytes = nc_dtype_bytes(k->type);
    int64_t at_once = k->rows > 2 || bytes > 2 ? 2 : 4, turn = WARPS * (32 / lanes) * at_once;
    int64_t turns = nc_ceil_div(nc_ceil_div(f->a.n_keys, turn), SPLITS);
    f->stages = nc_min64(turns, MOST_STAGES);
    void *args[] = {f};
    size_t stage = (size_t)(2 * turn * lanes * COLS_OF_LANE) * bytes;
    return at.device->table->launch_function(at.device, at.stream, k->bulk, grid, (nc_dim3){THREADS, 1, 1},
                                             (unsigned)((size_t)f->stages * stage + ALIGNED), args, at.diag);
}

nc_code nck_cuda_attn_few_run(const nck_cuda_attn_few *k, const nc_call *c, const nck_cuda_attn_args *a,
                              const nck_cuda_attn_new *fresh, bool ahead, void *workspace) {
    nck_cuda_at at = nck_cuda_at_call(c);
    nck_cuda_attn_few_args f = {.a = *a, .n_splits = 1, .group = a->q_heads / a->kv_heads, .partial = workspace};
    int64_t heads = a->n_batch * a->kv_heads, lines = a->n_batch * a->q_heads * a->n_queries;
    if (lines == 0 || a->cols_v == 0) return NC_OK;
    nc_dim3 grid = {1, (uint32_t)heads, (uint32_t)nc_ceil_div(rows_of(a), k->rows)};
    f.counters = nc_cuda_counters(at.device, at.stream);
    f.a.vectors = in_vectors(&a->k, k->type, a->cols) && in_vectors(&a->v, k->type, a->cols_v);
    if (fresh != NULL) {
        f.fresh = *fresh;
        f.site = nck_cuda_site_of(c);
        f.a.vectors = f.a.vectors && (uintptr_t)fresh->k % 16 == 0 && (uintptr_t)fresh->v % 16 == 0;
    }
    f.ahead = ahead && f.a.vectors;
    if (f.a.vectors && a->n_keys >= LEAST_KEYS && heads * grid.z < BLOCKS) f.n_splits = grid.x = SPLITS;
    if (grid.x > 1 && k->bulk != NULL && is_dense(a)) return run_bulk(k, at, &f, grid);
    void *args[] = {&f};
    return at.device->table->launch_function(at.device, at.stream, grid.x > 1 ? k->splits : k->attend, grid,
                                             (nc_dim3){THREADS, 1, 1}, 0, args, at.diag);
}
