/* cuda/attention_plain.cu: attention in f32 and f64 without tensor cores; see attention.cuh. COLS (a multiple of 32,
 * not less than the columns of q, k and v) and ROWS (queries of a warp) are defined in front.
 *
 * A block of eight warps takes 8 * ROWS queries of a head. Of a tile of 32 keys each lane has the scores of one, then
 * of 32 columns of values each lane has the sums of one. Keys and values come to the same shared memory by turns.
 * Accumulation: in A, in the order of elements and keys. */
#ifndef COLS
#define COLS 64
#endif
#ifndef ROWS
#define ROWS 4
#endif
enum { WARPS = 8, TILE = 32, LINE = COLS + 1 };

/* Keys or values first..first+31 of n, zeros behind their ends. */
DEVICE void fill_tile(S (&tile)[TILE][LINE], const S *from, const attn_operand &o, int first, int n, int64_t cols) {
    for (int i = threadIdx.x; i < TILE * COLS; i += WARPS * 32) {
        int row = i / COLS, c = i % COLS;
        tile[row][c] = first + row < n && c < cols ? from[(first + row) * o.row + c * o.column] : (S)0;
    }
}

DEVICE A product_of(const S (&q)[COLS], const S (&k)[LINE]) {
    A s = 0;
    for (int c = 0; c < COLS; c++) s = fma(q[c], k[c], s);
    return s;
}

/* What a warp knows of its queries: the largest score, the sum (both the same in all lanes), the result's columns
 * lane, lane + 32 and so on. */
struct attn_rows {
#ifdef DROPOUT
    attn_draw draw;
#endif
    int64_t row;
    A top[ROWS], sum[ROWS], weight[ROWS], y[ROWS][COLS / 32];
};

DEVICE void weigh_tile(const attn_args &a, const attn_head &x, const S (&q)[WARPS * ROWS][COLS],
                       const S (&tile)[TILE][LINE], int first, int64_t bh, attn_rows &r) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        attn_seen seen = attn_seen_by(a, x, r.row + i);
        if (r.row + i >= a.n_queries) seen.first = seen.end = 0;
        A bias = attn_bias_at(a, x, seen, r.row + i, first + lane);
        A s = attn_score(a, x, seen, first + lane, product_of(q[warp * ROWS + i], tile[lane]), bias);
        A top = attn_larger(-(A)INF, s);
        for (int d = 16; d > 0; d >>= 1) top = attn_larger(top, __shfl_xor_sync(0xffffffffu, top, d));
        top = attn_larger(r.top[i], top);
        A base = attn_base(top), by = exp2(r.top[i] - base);
        r.weight[i] = exp2(s - base);
        r.top[i] = top;
        A sum = r.weight[i];
        for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
        r.sum[i] = r.sum[i] * by + sum;
#ifdef DROPOUT
        if (!attn_stays(r.draw, (bh * a.n_queries + r.row + i) * a.n_keys + first + lane)) r.weight[i] = 0;
#endif
#pragma unroll
        for (int n = 0; n < COLS / 32; n++) r.y[i][n] *= by;
    }
}

DEVICE void add_values(const S (&tile)[TILE][LINE], attn_rows &r) {
    for (int k = 0; k < TILE; k++) {
        A w[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++) w[i] = __shfl_sync(0xffffffffu, r.weight[i], k);
#pragma unroll
        for (int n = 0; n < COLS / 32; n++)
#pragma unroll
            for (int i = 0; i < ROWS; i++) r.y[i][n] = fma(w[i], tile[k][threadIdx.x % 32 + 32 * n], r.y[i][n]);
    }
}

DEVICE void store_rows(const attn_args &a, const attn_head &x, int64_t bh, const attn_rows &r) {
#ifdef DROPOUT
    A kept = (A)a.drop.by;
#else
    A kept = 1;
#endif
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        if (a.stats && r.row + i < a.n_queries && threadIdx.x % 32 == 0)
            a.stats[bh * a.n_queries + r.row + i] = attn_stat(r.top[i], r.sum[i]);
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int n = 0; n < COLS / 32; n++) {
            int c = threadIdx.x % 32 + 32 * n;
            if (r.row + i < a.n_queries && c < a.cols_v)
                x.y[(r.row + i) * a.y.row + c * a.y.column] = r.sum[i] == 0 ? (S)0 : r.y[i][n] * kept / r.sum[i];
        }
}

/* One block for 8 * ROWS queries of a head, the last ones first. */
extern "C" __global__ __launch_bounds__(256) void attend(attn_args a) {
    __shared__ S q[WARPS * ROWS][COLS], tile[TILE][LINE];
    int64_t n_blocks = (a.n_queries + WARPS * ROWS - 1) / (WARPS * ROWS);
    int64_t start = (n_blocks - 1 - blockIdx.x % n_blocks) * (WARPS * ROWS);
    int64_t last = min(start + WARPS * ROWS, a.n_queries) - 1;
    attn_head x = attn_head_of(a, blockIdx.x / n_blocks);
    attn_rows r;
    r.row = start + threadIdx.x / 32 * ROWS;
#ifdef DROPOUT
    r.draw = attn_draw_of(a);
#endif
    for (int i = threadIdx.x; i < WARPS * ROWS * COLS; i += WARPS * 32) {
        int64_t row = start + i / COLS, c = i % COLS;
        q[i / COLS][c] = row < a.n_queries && c < a.cols ? x.q[row * a.q.row + c * a.q.column] : (S)0;
    }
    for (int i = 0; i < ROWS; i++) {
        r.top[i] = -(A)INF, r.sum[i] = 0, r.weight[i] = 0;
        for (int n = 0; n < COLS / 32; n++) r.y[i][n] = 0;
    }
    int first = attn_seen_by(a, x, start).first / TILE * TILE, end = attn_seen_by(a, x, last).end;
    for (; first < end; first += TILE) {
        fill_tile(tile, x.k, a.k, first, x.n_keys, a.cols);
        __syncthreads();
        weigh_tile(a, x, q, tile, first, blockIdx.x / n_blocks, r);
        __syncthreads();
        fill_tile(tile, x.v, a.v, first, x.n_keys, a.cols_v);
        __syncthreads();
        add_values(tile, r);
        __syncthreads();
    }
    store_rows(a, x, blockIdx.x / n_blocks, r);
}
