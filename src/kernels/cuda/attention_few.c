/* cuda/attention_few.c: launcher of attention_few.cu, attention_bulk.cu and attention_mma.cu, see attention_few.h. */
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
/* Of attention_mma.cu: the fewest rows that are worth it, of a tile; columns of a box, keys of a turn. */
enum { MMA_LEAST_ROWS = 4, MMA_ROWS = 8, MMA_BOX = 64, MMA_MOST_COLS = 128, MMA_TURN = 16 * WARPS, MMA_ALIGNED = 1024 };

/* Mirrors mma_args in attention_mma.cu. */
typedef struct mma_args {
    nck_cuda_attn_few_args f;
    nck_cuda_map k, v;
} mma_args;

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

/* 0: not on tensor cores. */
static int64_t mma_rows_of(nc_dtype t, const nck_cuda_attn_args *known, int64_t cols) {
    int64_t rows = rows_of(known);
    if (t == NC_FLOAT || known->n_queries != 1 || rows < MMA_LEAST_ROWS || rows > MOST_ROWS) return 0;
    if (cols != MMA_BOX && cols != MMA_MOST_COLS) return 0;
    rows = nc_ceil_div(rows, MMA_ROWS) * MMA_ROWS;
    return rows * cols <= MMA_ROWS * MMA_MOST_COLS ? rows : 0; /* what the warps know is in 48 KB */
}

static nc_code prepare_mma(nc_device *d, nc_dtype t, int64_t cols, nc_dtype mask, bool softcap,
                           const nck_cuda_attn_args *known, nck_cuda_attn_few *out, nc_diag *diag) {
    char define[160];
    out->mma_rows = mma_rows_of(t, known, cols), out->mma_cols = cols;
    if (out->mma_rows == 0) return NC_OK;
    nck_cuda_attn_few_define(cols, mask, softcap, out->mma_rows, define, sizeof define);
    return nck_cuda_find(d, NCK_CUDA_TEXT_attention_mma, t, define, "attend_mma", &out->mma, diag);
}

nc_code nck_cuda_attn_few_prepare(nc_device *d, nc_dtype t, int64_t cols, nc_dtype mask, bool softcap,
                                  const nck_cuda_attn_args *known, nck_cuda_attn_few *out, nc_diag *diag) {
    char define[160];
    *out = (nck_cuda_attn_few){.type = t, .rows = rows_together(known, cols)};
    nck_cuda_attn_few_define(cols, mask, softcap, out->rows, define, sizeof define);
    const nc_cuda *c = nc_device_cuda(d);
    if (c != NULL && c->major >= BULK_MAJOR && nc_cuda_missing(NC_CUDA_boxes) == NULL) {
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_attention_bulk, t, define, "attend_bulk", &out->bulk, diag));
        NC_TRY(prepare_mma(d, t, cols, mask, softcap, known, out, diag));
    }
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

/* Boxes of k and v can be described, pairs of q lie side by side. */
static bool is_mma(const nck_cuda_attn_few *k, const nck_cuda_attn_few_args *f) {
    const nck_cuda_attn_args *a = &f->a;
    bool halves = a->q.column == 1 && a->q.head % 2 == 0 && a->q.batch % 2 == 0 && (uintptr_t)a->q.data % 4 == 0;
    return k->mma != NULL && halves && a->n_queries == 1 && f->group <= k->mma_rows && a->cols == k->mma_cols &&
           a->cols_v == a->cols && f->fresh.n <= 1 && a->k.row > 0 && a->k.head > 0 && a->k.batch > 0 && a->v.row > 0 &&
           a->v.head > 0 && a->v.batch > 0;
}

static nc_code describe(const nck_cuda_attn_args *a, const nck_cuda_attn_operand *o, nck_cuda_map *map, nc_diag *diag) {
    const int64_t dims[] = {a->cols, a->n_keys, a->kv_heads, a->n_batch}, strides[] = {o->row, o->head, o->batch};
    const uint32_t box[] = {MMA_BOX, MMA_TURN, 1, 1};
    return nck_cuda_describe_boxes(o->data, 4, dims, strides, box, map, diag);
}

static nc_code run_mma(const nck_cuda_attn_few *k, nck_cuda_at at, const nck_cuda_attn_few_args *f) {
    mma_args m = {.f = *f};
    NC_TRY(describe(&f->a, &f->a.k, &m.k, at.diag));
    NC_TRY(describe(&f->a, &f->a.v, &m.v, at.diag));
    int64_t turns = nc_ceil_div(nc_ceil_div(f->a.n_keys, MMA_TURN), SPLITS), stage = 2 * MMA_TURN * f->a.cols * 2;
    m.f.stages = nc_min64(turns, f->a.cols > MMA_BOX ? MOST_STAGES - 1 : MOST_STAGES);
    nc_dim3 grid = {SPLITS, (uint32_t)(f->a.n_batch * f->a.kv_heads), 1};
    void *args[] = {&m};
    return at.device->table->launch_function(at.device, at.stream, k->mma, grid, (nc_dim3){THREADS, 1, 1},
                                             (unsigned)(m.f.stages * stage + MMA_ALIGNED), args, at.diag);
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
    bool splits = f.a.vectors && a->n_keys >= LEAST_KEYS;
    if (splits && heads < BLOCKS && is_mma(k, &f)) return run_mma(k, at, &f);
    if (splits && heads * grid.z < BLOCKS) f.n_splits = grid.x = SPLITS;
    if (grid.x > 1 && k->bulk != NULL && is_dense(a)) return run_bulk(k, at, &f, grid);
    void *args[] = {&f};
    return at.device->table->launch_function(at.device, at.stream, grid.x > 1 ? k->splits : k->attend, grid,
                                             (nc_dim3){THREADS, 1, 1}, 0, args, at.diag);
}
