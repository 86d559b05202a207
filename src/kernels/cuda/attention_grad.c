/* cuda/attention_grad.c: launcher of attention_grad.cu, see attention_grad.h. */
#include "kernels/cuda/attention_grad.h"

#include "base/intmath.h"

#include <stdio.h>

enum { STEP = 32, TILE = 32, VECTOR_BYTES = 16, SHARED_BYTES = 48 << 10, ALIGNMENT = 256 };

/* Warps of a block and rows of each. */
typedef struct shape {
    int warps, rows;
} shape;

static int64_t room_for(int64_t cols) { return nc_max64(1, nc_ceil_div(cols, STEP)) * STEP; }

/* As many rows as fit beside a tile, in the type of sums; 0: none. */
static shape shape_for(nc_dtype t, int64_t cols) {
    static const shape shapes[] = {{8, 4}, {8, 2}, {8, 1}, {4, 1}};
    int64_t bytes = (int64_t)nc_dtype_bytes(nck_cuda_accumulator(t)), line = room_for(cols) * bytes + VECTOR_BYTES;
    for (int i = 0; i < 4; i++) {
        int64_t own = shapes[i].warps * shapes[i].rows;
        if ((2 * own + TILE) * line + own * TILE * bytes <= SHARED_BYTES) return shapes[i];
    }
    return (shape){0, 0};
}

bool nck_cuda_attn_grad_takes(nc_dtype t, int64_t cols) {
    return nck_cuda_attn_takes(t, cols) && shape_for(t, cols).warps > 0;
}

void nck_cuda_attn_grad_define(nc_dtype t, const nck_cuda_attn_form *f, char *out, size_t bytes) {
    shape s = shape_for(t, f->cols);
    int n = snprintf(out, bytes, "#define COLS %d\n#define WARPS %d\n#define ROWS %d\n", (int)room_for(f->cols),
                     s.warps, s.rows);
    nck_cuda_attn_define_form(f, out + n, bytes - (size_t)n);
}

nc_code nck_cuda_attn_grad_prepare(nc_device *d, nc_dtype t, const nck_cuda_attn_form *f, nck_cuda_attn_grad *out,
                                   nc_diag *diag) {
    char define[160];
    shape s = shape_for(t, f->cols);
    *out = (nck_cuda_attn_grad){.type = t, .own = s.warps * s.rows, .threads = (uint32_t)s.warps * 32};
    NC_TRY(nck_cuda_attn_prepare(d, t, f, &out->forward, diag));
    nck_cuda_attn_grad_define(t, f, define, sizeof define);
    const struct {
        const char *entry;
        nc_function **to;
    } all[] = {{"grad_queries", &out->queries}, {"grad_keys", &out->keys}, {"grad_deltas", &out->deltas}};
    for (int i = 0; i < 3; i++)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_attention_grad, t, define, all[i].entry, all[i].to, diag));
    return NC_OK;
}

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }
static size_t bytes_numbers(nc_dtype t, int64_t rows) {
    return aligned((size_t)rows * nc_dtype_bytes(nck_cuda_accumulator(t)));
}

size_t nck_cuda_attn_grad_workspace(nc_dtype t, int64_t rows, int64_t cols_v) {
    return aligned((size_t)(rows * cols_v) * nc_dtype_bytes(t)) + 2 * bytes_numbers(t, rows);
}

/* Blocks for rows of all heads, of which one takes `own`. */
static nc_code blocks_for(nck_cuda_at at, int64_t heads, int64_t rows, int64_t own, uint32_t *out) {
    int64_t n;
    if (!nc_mul_i64(heads, nc_ceil_div(rows, own), &n) || n > INT32_MAX)
        return nc_diag_set(at.diag, NC_E_LIMIT, NULL, NULL, "attention's gradient of %lld rows in %lld heads",
                           (long long)rows, (long long)heads);
    *out = (uint32_t)n;
    return NC_OK;
}

nc_code nck_cuda_attn_grad_run(const nck_cuda_attn_grad *k, nck_cuda_at at, const nck_cuda_attn_grad_args *args,
                               void *workspace) {
    nck_cuda_attn_grad_args g = *args;
    int64_t S = g.a.n_queries, H = g.a.q_heads, rows = g.a.n_batch * H * S;
    uint32_t of_queries = 0, of_keys = 0;
    NC_TRY(blocks_for(at, g.a.n_batch * H, S, k->own, &of_queries));
    NC_TRY(blocks_for(at, g.a.n_batch * g.a.kv_heads, g.a.n_keys, k->own, &of_keys));
    g.a.y = (nck_cuda_attn_operand){workspace, H * S * g.a.cols_v, S * g.a.cols_v, g.a.cols_v, 1};
    g.a.stats = (char *)workspace + aligned((size_t)(rows * g.a.cols_v) * nc_dtype_bytes(k->type));
    g.deltas = (char *)g.a.stats + bytes_numbers(k->type, rows);
    void *passed[] = {&g};
    if (rows > 0) {
        NC_TRY(nck_cuda_attn_run(&k->forward, at, &g.a));
        NC_TRY(nck_cuda_launch(at, k->deltas, nck_cuda_blocks(at.device, rows, k->threads / 32), k->threads, passed));
    }
    if (g.dq.data != NULL && of_queries > 0) NC_TRY(nck_cuda_launch(at, k->queries, of_queries, k->threads, passed));
    if ((g.dk.data == NULL && g.dv.data == NULL) || of_keys == 0) return NC_OK;
    return nck_cuda_launch(at, k->keys, of_keys, k->threads, passed);
}
