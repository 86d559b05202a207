/* cuda/attention.c: launcher of attention.cu and attention_plain.cu, see attention.h. */
#include "kernels/cuda/attention.h"

#include "base/intmath.h"
#include "device/cuda_api.h"

#include <stdio.h>

enum {
    MAX_COLS = 256,
    HALF_QUERIES = 64,
    HALF_THREADS = 128,
    PLAIN_WARPS = 8,
    PLAIN_TILE = 32,
    SHARED_BYTES = 48 << 10
};

static bool is_half(nc_dtype t) { return t == NC_FLOAT16 || t == NC_BFLOAT16; }
static int64_t room_for(nc_dtype t, int64_t cols) {
    int64_t step = is_half(t) ? 16 : 32;
    return nc_max64(1, nc_ceil_div(cols, step)) * step;
}

/* Keys of a tile: two tiles of keys and of values, rows 8 elements longer, fit into shared memory. */
static int64_t half_tile(int64_t room) { return room <= 64 ? 64 : room <= 128 ? 32 : 16; }

/* Queries of a warp, as many as fit beside a tile; 0: not even one. */
static int64_t plain_rows(nc_dtype t, int64_t room) {
    int64_t es = (int64_t)nc_dtype_bytes(t);
    for (int64_t rows = 4; rows > 0; rows /= 2)
        if ((PLAIN_WARPS * rows * room + PLAIN_TILE * (room + 1)) * es <= SHARED_BYTES) return rows;
    return 0;
}

bool nck_cuda_attn_takes(nc_dtype t, int64_t cols) {
    if (cols > MAX_COLS) return false;
    return is_half(t) || ((t == NC_FLOAT || t == NC_DOUBLE) && plain_rows(t, room_for(t, cols)) > 0);
}

void nck_cuda_attn_define_form(const nck_cuda_attn_form *f, char *out, size_t bytes) {
    bool masked = f->mask != NC_UNDEFINED;
    snprintf(out, bytes, "%s%s%s%s%s%s", masked ? "#define M " : "", masked ? nck_cuda_type_name(f->mask) : "",
             masked ? "\n" : "", f->mask == NC_BOOL ? "#define MASK_BOOL\n" : "", f->softcap ? "#define SOFTCAP\n" : "",
             f->drops ? "#define DROPOUT\n" : "");
}

void nck_cuda_attn_define(nc_dtype t, const nck_cuda_attn_form *f, char *out, size_t bytes) {
    int64_t room = room_for(t, f->cols);
    int n = snprintf(out, bytes, "#define COLS %d\n#define %s %d\n", (int)room, is_half(t) ? "TILE" : "ROWS",
                     (int)(is_half(t) ? half_tile(room) : plain_rows(t, room)));
    nck_cuda_attn_define_form(f, out + n, bytes - (size_t)n);
}

/* What stands around cuDNN's graphs. */
static nc_code prepare_seen(nc_device *d, nc_dtype t, const nck_cuda_attn_form *f, nck_cuda_attn *out, nc_diag *diag) {
    char define[160];
    nc_dtype mask = f->mask == NC_BOOL ? NC_BOOL : NC_UNDEFINED;
    if (mask != NC_BOOL && !f->lens && !f->left) return NC_OK;
    nck_cuda_attn_define_form(&(nck_cuda_attn_form){.mask = mask}, define, sizeof define);
    out->lens = f->lens;
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_attention_seen, t, define, "seen_lens", &out->seen_lens, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_attention_seen, t, define, "seen_bias", &out->seen_bias, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_attention_seen, t, define, "seen_mend", &out->seen_mend, diag);
}

nc_code nck_cuda_attn_prepare(nc_device *d, nc_dtype t, const nck_cuda_attn_form *f, nck_cuda_attn *out,
                              nc_diag *diag) {
    char define[160];
    int64_t cols = f->cols;
    nc_dtype mask = f->mask;
    if (!nck_cuda_attn_takes(t, cols) || (mask != NC_UNDEFINED && nck_cuda_type_name(mask) == NULL))
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "attention of %s over %lld columns", nc_dtype_name(t),
                           (long long)cols);
    *out = (nck_cuda_attn){
        .type = t, .mask = mask, .most_cols = room_for(t, cols), .queries = HALF_QUERIES, .threads = HALF_THREADS};
    if (is_half(t)) {
        nc_cuda_need_dnn(d);
        out->dnn_draws = f->dnn_draws;
        NC_TRY(prepare_seen(d, t, f, out, diag));
        if (f->drops)
            NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_dropout, t, NULL, f->dnn_draws ? "dropout_pair" : "dropout_keep",
                                 &out->draw, diag));
    } else {
        out->queries = PLAIN_WARPS * plain_rows(t, out->most_cols);
        out->threads = PLAIN_WARPS * 32;
    }
    nck_cuda_attn_define(t, f, define, sizeof define);
    return nck_cuda_find(d, is_half(t) ? NCK_CUDA_TEXT_attention : NCK_CUDA_TEXT_attention_plain, t, define, "attend",
                         &out->attend, diag);
}

/* Groups of n elements lie side by side and are aligned. */
static bool in_groups(const nck_cuda_attn_operand *o, nc_dtype t, int64_t cols, int64_t n) {
    return o->column == 1 && cols % n == 0 && o->row % n == 0 && o->head % n == 0 && o->batch % n == 0 &&
           (uintptr_t)o->data % ((size_t)n * nc_dtype_bytes(t)) == 0;
}

static bool masks_in_pairs(const nck_cuda_attn *k, const nck_cuda_attn_args *a) {
    const int64_t *s = a->mask_strides;
    return a->mask != NULL && s[3] == 1 && (s[0] | s[1] | s[2] | a->mask_cols) % 2 == 0 &&
           (uintptr_t)a->mask % (2 * nc_dtype_bytes(k->mask)) == 0;
}

nc_code nck_cuda_attn_run(const nck_cuda_attn *k, nck_cuda_at at, const nck_cuda_attn_args *a) {
    nck_cuda_attn_args v = *a;
    if (v.cols > k->most_cols || v.cols_v > k->most_cols)
        return nc_diag_set(at.diag, NC_E_SHAPE, NULL, NULL, "attention planned for %lld columns got %lld and %lld",
                           (long long)k->most_cols, (long long)v.cols, (long long)v.cols_v);
    int64_t blocks, tiles = nc_ceil_div(v.n_queries, k->queries);
    if (!nc_mul_i64(v.n_batch, v.q_heads, &blocks) || !nc_mul_i64(blocks, tiles, &blocks) || blocks > INT32_MAX ||
        v.n_keys > INT32_MAX - MAX_COLS)
        return nc_diag_set(at.diag, NC_E_LIMIT, NULL, NULL, "attention of %lld queries and %lld keys",
                           (long long)v.n_queries, (long long)v.n_keys);
    if (blocks == 0 || (v.cols_v == 0 && v.stats == NULL)) return NC_OK;
    v.vectors = in_groups(&v.k, k->type, v.cols, 8) && in_groups(&v.v, k->type, v.cols_v, 8);
    v.pairs = in_groups(&v.y, k->type, v.cols_v, 2);
    v.q_pairs = in_groups(&v.q, k->type, v.cols, 2);
    v.mask_pairs = masks_in_pairs(k, &v);
    void *args[] = {&v};
    return nck_cuda_launch(at, k->attend, (uint32_t)blocks, k->threads, args);
}
