/* cuda/gemv.c: launchers of gemv.cu, see gemv.h. */
#include "kernels/cuda/gemv.h"

#include "base/intmath.h"
#include "device/cuda_api.h"

enum { THREADS = 512, ROW_THREADS = 128, ROWS = 4, VECTOR_BYTES = 16, LANES = 4, FEW_LANES = 2 };
/* Blocks that are enough, about one for each multiprocessor of today's GPUs: a second one there is for the next kernel.
 * Fewer are made narrow, and then splits. The fewest rows of B that are worth a block. */
enum { BLOCKS = 120, LEAST_ROWS = 256 };
/* Splits are doubled while there are fewer blocks; each leaves the sums of two matrices' columns, and of squares. */
_Static_assert(2 * BLOCKS * (2 * LANES * VECTOR_BYTES / 2 + 1) * sizeof(float) <= NC_CUDA_PARTIALS, "sums of splits");

/* Of gemv_bulk.cu: columns and rows of a box, blocks that are enough, the largest cluster, the ring. */
enum { BOX = 64, BULK_THREADS = 288, BYTES_RING = 96 << 10, ALIGNED = 1024 };
enum { BULK_ROWS = 512, BULK_ELEMENTS = 1 << 20, BULK_MAJOR = 9, MOST_SPLITS = 8, SPLIT_ROWS = 1024, TURN = 132 };

typedef struct gemv_part {
    int64_t N, step, first;
    const void *b, *bias, *other;
    void *y;
} gemv_part;

/* Mirrors gemv_args in gemv.cu. */
typedef struct gemv_args {
    int64_t K, n_parts, n_splits, constant, opens;
    float alpha, epsilon;
    const void *x, *scale;
    void *partial, *counters;
    gemv_part part[NCK_CUDA_GEMV_PARTS];
} gemv_args;

/* Mirrors bulk_args in gemv_bulk.cu. */
typedef struct bulk_args {
    gemv_args g;
    nck_cuda_map map[NCK_CUDA_GEMV_PARTS];
} bulk_args;

void nck_cuda_gemv_define(nc_text *out, bool normed, const nck_tile_prog *formulas) {
    nc_text_add(out, normed ? "#define NORMED\n" : "");
    if (formulas == NULL) return;
    nc_text_add(out, "#define PAIRED\n");
    nck_cuda_chain_formula(out, formulas);
}

nc_code nck_cuda_gemv_prepare(nc_device *d, nc_dtype t, const char *define, nck_cuda_gemv *out, nc_diag *diag) {
    *out = (nck_cuda_gemv){.vector = VECTOR_BYTES / (int64_t)nc_dtype_bytes(t)};
    if (nck_cuda_accumulator(t) != NC_FLOAT) return NC_OK;
    const nc_cuda *c = nc_device_cuda(d);
    if (t != NC_FLOAT && c != NULL && c->major >= BULK_MAJOR && nc_cuda_missing(NC_CUDA_boxes) == NULL)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_gemv_bulk, t, define, "gemv_bulk", &out->bulk, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_gemv, t, define, "gemv_columns", &out->columns, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_gemv, t, define, "gemv_narrow", &out->narrow, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_gemv, t, define, "gemv_rows", &out->rows, diag);
}

static bool aligned(const void *p) { return (uintptr_t)p % VECTOR_BYTES == 0; }

/* Elements lie side by side along N, lines of V whole vectors. */
static bool along_n(const nck_cuda_gemm_args *g, int64_t V) {
    return g->b.cs == 1 && g->N % V == 0 && g->b.rs % V == 0;
}
static bool along_k(const nck_cuda_gemm_args *g, int64_t V) {
    return g->b.rs == 1 && g->K % V == 0 && g->b.cs % V == 0 && aligned(g->a.data);
}

bool nck_cuda_gemv_takes(const nck_cuda_gemv *k, const nck_cuda_gemm_args *g) {
    if (k->rows == NULL || g->M != 1 || g->n_batch != 1 || g->K == 0 || g->beta != 0 || g->gelu) return false;
    if (g->c.cs != 1 || (g->a.cs != 1 && g->K != 1) || !aligned(g->b.data) || g->N > INT32_MAX || g->K > INT32_MAX / 2)
        return false;
    return along_n(g, k->vector) || along_k(g, k->vector);
}

bool nck_cuda_gemv_together(const nck_cuda_gemv *k, const nck_cuda_gemm_args *g, int n) {
    for (int i = 0; i < n; i++)
        if (!nck_cuda_gemv_takes(k, &g[i]) || g[i].a.data != g->a.data || g[i].K != g->K || g[i].alpha != g->alpha ||
            along_n(&g[i], k->vector) != along_n(g, k->vector))
            return false;
    return n <= NCK_CUDA_GEMV_PARTS;
}

/* A function of dims alone: it says in which order sums are joined. */
static int64_t splits_of(int64_t blocks, int64_t K) {
    int64_t n = 1;
    while (blocks * n < BLOCKS && K / (2 * n) >= LEAST_ROWS) n *= 2;
    return n;
}

/* The products of a launch; *blocks of per_block columns each. */
static gemv_args args_of(const nck_cuda_gemm_args *g, int n, bool paired, bool columns, int64_t per_block,
                         int64_t *blocks) {
    gemv_args v = {.K = g->K, .n_parts = n, .n_splits = 1, .constant = true, .alpha = (float)g->alpha, .x = g->a.data};
    *blocks = 0;
    for (int i = 0; i < n; i++) {
        v.part[i] = (gemv_part){.N = g[i].N,
                                .step = columns ? g[i].b.rs : g[i].b.cs,
                                .first = *blocks,
                                .b = g[i].b.data,
                                .bias = g[i].bias,
                                .other = g[i].other,
                                .y = g[i].c.data};
        v.constant &= g[i].b_constant;
        if (!paired || i + 1 == n) *blocks += nc_ceil_div(g[i].N, per_block);
    }
    return v;
}

/* Blocks of lanes vectors of columns. */
static int64_t blocks_of(const nck_cuda_gemm_args *g, int n, bool paired, int64_t per_block) {
    int64_t blocks = 0;
    for (int i = 0; i < (paired ? 1 : n); i++) blocks += nc_ceil_div(g[i].N, per_block);
    return blocks;
}

/* Large constants: their reading is what counts. */
static bool is_bulk(const nck_cuda_gemv *k, const nck_cuda_gemm_args *g, int n) {
    if (k->bulk == NULL || g->K < BULK_ROWS || g->K * g->N < BULK_ELEMENTS) return false;
    for (int i = 0; i < n; i++)
        if (!g[i].b_constant) return false;
    return true;
}

/* Shares of K, a function of dims alone: as few as leave less than a tenth of the multiprocessors of today's GPUs
 * without work in the last turn, or the best; several turns only of long shares. */
static int64_t bulk_splits(int64_t blocks, int64_t K) {
    int64_t best = 1;
    double most = 0;
    for (int64_t n = 1; n <= MOST_SPLITS && K / n >= SPLIT_ROWS / 4 && most < 0.9; n++) {
        double busy = (double)(blocks * n) / (double)(nc_ceil_div(blocks * n, TURN) * TURN);
        if ((blocks * n <= TURN || K / n >= SPLIT_ROWS) && busy >= most) best = n, most = busy;
    }
    return best;
}

static nc_code run_bulk(const nck_cuda_gemv *k, nck_cuda_at at, const nck_cuda_gemm_args *g, int n,
                        const nck_cuda_gemv_how *how) {
    bool paired = how != NULL && how->paired, normed = how != NULL && how->scale != NULL;
    int64_t blocks, boxes = nc_ceil_div(g->K, BOX), rows;
    bulk_args a = {.g = args_of(g, n, paired, true, BOX, &blocks)};
    if (how != NULL) a.g.scale = how->scale, a.g.epsilon = how->epsilon;
    for (int i = 0; i < n; i++)
        NC_TRY(nck_cuda_describe_boxes(g[i].b.data, 2, (int64_t[]){g[i].N, g->K}, &g[i].b.rs, (uint32_t[]){BOX, BOX},
                                       &a.map[i], at.diag));
    a.g.n_splits = bulk_splits(blocks, g->K);
    a.g.opens = nc_cuda_captures_itself();
    rows = nc_ceil_div(boxes, a.g.n_splits) * BOX;
    int64_t ring = nc_min64(rows * (paired ? 2 : 1) * BOX * 2, BYTES_RING);
    void *args[] = {&a};
    nc_dim3 grid = {(uint32_t)blocks, (uint32_t)a.g.n_splits, 1};
    return nc_cuda_launch_clusters(at.device, at.stream, k->bulk, grid, (nc_dim3){BULK_THREADS, 1, 1}, grid.y,
                                   (unsigned)(ring + ALIGNED + rows * (normed ? 4 : 2)), args, at.diag);
}

nc_code nck_cuda_gemv_run(const nck_cuda_gemv *k, nck_cuda_at at, const nck_cuda_gemm_args *g, int n,
                          const nck_cuda_gemv_how *how) {
    bool columns = along_n(g, k->vector), paired = how != NULL && how->paired;
    if (columns && is_bulk(k, g, n)) return run_bulk(k, at, g, n, how);
    bool narrow = columns && blocks_of(g, n, paired, LANES * k->vector) < BLOCKS;
    int64_t lanes = narrow ? FEW_LANES : LANES, blocks;
    gemv_args v = args_of(g, n, paired, columns, columns ? lanes * k->vector : paired ? ROWS / 2 : ROWS, &blocks);
    if (how != NULL) v.scale = how->scale, v.epsilon = how->epsilon;
    void *args[] = {&v};
    if (!columns) return nck_cuda_launch(at, k->rows, (uint32_t)blocks, ROW_THREADS, args);
    v.n_splits = splits_of(blocks, g->K);
    v.partial = nc_cuda_partials(at.device, at.stream);
    v.counters = nc_cuda_counters(at.device, at.stream);
    nc_dim3 grid = {(uint32_t)blocks, (uint32_t)v.n_splits, 1};
    return at.device->table->launch_function(at.device, at.stream, narrow ? k->narrow : k->columns, grid,
                                             (nc_dim3){THREADS, 1, 1}, 0, args, at.diag);
}
