/* cuda/attention_grad.cu: the gradient of attention by queries, keys and values, tile by tile; see attention.cuh. COLS
 * (a multiple of 32, not less than the columns of q, k and v), WARPS and ROWS (rows of a warp) are defined in front.
 *
 * The shares P = 2^(score - stat) of a query come anew from its stat, which the forward pass keeps. With delta, the sum
 * of dY * Y over a query's columns,
 *   dS = P * (dY V' - delta) * slope of the cap,  dQ = scale dS K,  dK = scale dS' Q,  dV = P' dY.
 * A block has WARPS * ROWS rows of its own and walks tiles of 32 rows of the other side: queries of a head and its
 * keys, or keys of a head and the queries of all heads that share it. Each side has two operands: q and dY, or k and
 * v. Of a tile each lane has the products of one row, then of 32 columns each lane has the sums of one. Tiles come to
 * the same shared memory by turns. Accumulation: in A, in the order of heads and rows. */
#ifndef COLS
#define COLS 64
#endif
#ifndef WARPS
#define WARPS 8
#endif
#ifndef ROWS
#define ROWS 4
#endif
enum { TILE = 32, LINE = COLS + 1, OWN = WARPS * ROWS };

/* Mirrors nck_cuda_attn_grad_args in attention_grad.h. */
struct grad_args {
    attn_args a; /* y and stats: as the forward pass left them */
    attn_operand dy, dq, dk, dv;
    A *deltas; /* (batch, head, query) */
};

/* Rows first..first+n-1 of `limit`, zeros behind their ends. */
template <int N> DEVICE void fill_rows(A (&to)[OWN + TILE][LINE], int at, const S *from, const attn_operand &o,
                                       int64_t first, int64_t limit, int64_t cols) {
    for (int i = threadIdx.x; i < N * COLS; i += WARPS * 32) {
        int row = i / COLS, c = i % COLS;
        to[at + row][c] = first + row < limit && c < cols ? (A)get(from[(first + row) * o.row + c * o.column]) : (A)0;
    }
}

DEVICE A product_of(const A (&a)[LINE], const A (&b)[LINE]) {
    A s = 0;
    for (int c = 0; c < COLS; c++) s = fma(a[c], b[c], s);
    return s;
}

/* sums += weights, of which each lane has one row's, times the rows of the tile. */
DEVICE void add_rows(const A (&to)[OWN + TILE][LINE], const A (&weight)[ROWS], A (&sums)[ROWS][COLS / 32]) {
    for (int k = 0; k < TILE; k++) {
        A w[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) w[r] = __shfl_sync(0xffffffffu, weight[r], k);
#pragma unroll
        for (int n = 0; n < COLS / 32; n++)
#pragma unroll
            for (int r = 0; r < ROWS; r++) sums[r][n] = fma(w[r], to[OWN + k][threadIdx.x % 32 + 32 * n], sums[r][n]);
    }
}

/* The share of key j in query i, whose product is s, and the slope of the cap there. */
struct grad_share {
    A p, slope;
};
DEVICE grad_share share_of(const attn_args &a, const attn_head &x, const attn_seen &seen, int64_t i, int j, A s,
                           A stat) {
    grad_share y = {0, 1};
    if (j < seen.first || j >= seen.end) return y;
    A bias = attn_bias_at(a, x, seen, i, j);
    s *= x.factor;
#ifdef SOFTCAP
    s = tanh(s);
    y.slope = 1 - s * s;
    s *= (A)(a.softcap * LOG2_E);
#endif
#ifdef MASK_BOOL
    if (bias == 0) y.p = exp2(s - stat);
#else
    y.p = exp2(s + bias - stat);
#endif
    return y;
}

DEVICE attn_seen seen_by(const attn_args &a, const attn_head &x, int64_t i) {
    attn_seen s = attn_seen_by(a, x, i);
    if (i >= a.n_queries) s.first = s.end = 0;
    return s;
}

DEVICE const S *dy_of(const grad_args &g, int64_t bh) {
    return (const S *)g.dy.data + bh / g.a.q_heads * g.dy.batch + bh % g.a.q_heads * g.dy.head;
}

/* What a warp makes of its rows: columns lane, lane + 32 and so on. */
struct grad_sums {
    A first[ROWS][COLS / 32], second[ROWS][COLS / 32];
};

DEVICE void store_sums(const attn_operand &o, int64_t offset, int64_t row, int64_t limit, int64_t cols, A by,
                       const A (&sums)[ROWS][COLS / 32]) {
    if (!o.data) return;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int n = 0; n < COLS / 32; n++) {
            int c = threadIdx.x % 32 + 32 * n;
            if (row + r < limit && c < cols)
                ((S *)o.data)[offset + (row + r) * o.row + c * o.column] = to<S>::put(by * sums[r][n]);
        }
}

DEVICE void clear(grad_sums &y) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int n = 0; n < COLS / 32; n++) y.first[r][n] = y.second[r][n] = 0;
}

/* A tile of keys for the queries from `row` on. */
DEVICE void query_tile(const grad_args &g, const attn_head &x, int64_t bh, int64_t row, int first,
                       A (&q)[OWN + TILE][LINE], A (&dy)[OWN][LINE], grad_sums &y) {
    const attn_args &a = g.a;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    A d[ROWS];
    fill_rows<TILE>(q, OWN, x.v, a.v, first, x.n_keys, a.cols_v);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; r++) d[r] = product_of(dy[warp * ROWS + r], q[OWN + lane]);
    __syncthreads();
    fill_rows<TILE>(q, OWN, x.k, a.k, first, x.n_keys, a.cols);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int64_t i = min(row + r, a.n_queries - 1), at = bh * a.n_queries + i;
        A s = product_of(q[warp * ROWS + r], q[OWN + lane]);
        grad_share p = share_of(a, x, seen_by(a, x, row + r), i, first + lane, s, ((const A *)a.stats)[at]);
        d[r] = p.p * (d[r] - g.deltas[at]) * p.slope;
    }
    add_rows(q, d, y.first);
    __syncthreads();
}

extern "C" __global__ __launch_bounds__(WARPS * 32) void grad_queries(grad_args g) {
    __shared__ A q[OWN + TILE][LINE], dy[OWN][LINE];
    const attn_args &a = g.a;
    int64_t n_blocks = (a.n_queries + OWN - 1) / OWN, bh = blockIdx.x / n_blocks;
    int64_t start = (n_blocks - 1 - blockIdx.x % n_blocks) * OWN, last = min(start + OWN, a.n_queries) - 1;
    attn_head x = attn_head_of(a, bh);
    grad_sums y;
    clear(y);
    fill_rows<OWN>(q, 0, x.q, a.q, start, a.n_queries, a.cols);
    for (int i = threadIdx.x; i < OWN * COLS; i += WARPS * 32) {
        int64_t row = start + i / COLS, c = i % COLS;
        dy[i / COLS][c] =
            row < a.n_queries && c < a.cols_v ? (A)get(dy_of(g, bh)[row * g.dy.row + c * g.dy.column]) : (A)0;
    }
    int64_t row = start + threadIdx.x / 32 * ROWS;
    int first = attn_seen_by(a, x, start).first / TILE * TILE, end = attn_seen_by(a, x, last).end;
    for (; first < end; first += TILE) query_tile(g, x, bh, row, first, q, dy, y);
    store_sums(g.dq, bh / a.q_heads * g.dq.batch + bh % a.q_heads * g.dq.head, row, a.n_queries, a.cols, (A)a.scale,
               y.first);
}

/* A tile of queries for the keys from `row` on. */
DEVICE void key_tile(const grad_args &g, const attn_head &x, int64_t bh, int64_t row, int64_t first,
                     A (&k)[OWN + TILE][LINE], A (&v)[OWN][LINE], grad_sums &y) {
    const attn_args &a = g.a;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t i = min(first + lane, a.n_queries - 1), at = bh * a.n_queries + i;
    attn_seen seen = seen_by(a, x, first + lane);
    grad_share p[ROWS];
    A share[ROWS], d[ROWS], stat = ((const A *)a.stats)[at], delta = g.deltas[at];
    fill_rows<TILE>(k, OWN, x.q, a.q, first, a.n_queries, a.cols);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        A s = product_of(k[warp * ROWS + r], k[OWN + lane]);
        p[r] = share_of(a, x, seen, i, (int)(row + r), s, stat);
        share[r] = p[r].p;
    }
    __syncthreads();
    fill_rows<TILE>(k, OWN, dy_of(g, bh), g.dy, first, a.n_queries, a.cols_v);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        d[r] = p[r].p * (product_of(v[warp * ROWS + r], k[OWN + lane]) - delta) * p[r].slope;
    add_rows(k, share, y.second);
    __syncthreads();
    fill_rows<TILE>(k, OWN, x.q, a.q, first, a.n_queries, a.cols);
    __syncthreads();
    add_rows(k, d, y.first);
    __syncthreads();
}

extern "C" __global__ __launch_bounds__(WARPS * 32) void grad_keys(grad_args g) {
    __shared__ A k[OWN + TILE][LINE], v[OWN][LINE];
    const attn_args &a = g.a;
    int64_t n_blocks = (a.n_keys + OWN - 1) / OWN, b = blockIdx.x / n_blocks / a.kv_heads;
    int64_t head = blockIdx.x / n_blocks % a.kv_heads, start = blockIdx.x % n_blocks * OWN;
    int64_t group = a.q_heads / a.kv_heads, bh = b * a.q_heads + head * group;
    attn_head x = attn_head_of(a, bh);
    grad_sums y;
    clear(y);
    fill_rows<OWN>(k, 0, x.k, a.k, start, a.n_keys, a.cols);
    for (int i = threadIdx.x; i < OWN * COLS; i += WARPS * 32) {
        int64_t row = start + i / COLS, c = i % COLS;
        v[i / COLS][c] = row < a.n_keys && c < a.cols_v ? (A)get(x.v[row * a.v.row + c * a.v.column]) : (A)0;
    }
    int64_t row = start + threadIdx.x / 32 * ROWS;
    for (int64_t h = 0; h < group; h++) {
        x = attn_head_of(a, bh + h);
        for (int64_t first = 0; first < a.n_queries; first += TILE) {
            attn_seen least = attn_seen_by(a, x, first), most = attn_seen_by(a, x, min(first + TILE, a.n_queries) - 1);
            if (most.end <= start || least.first >= start + OWN) continue;
            key_tile(g, x, bh + h, row, first, k, v, y);
        }
    }
    store_sums(g.dk, b * g.dk.batch + head * g.dk.head, row, a.n_keys, a.cols, (A)a.scale, y.first);
    store_sums(g.dv, b * g.dv.batch + head * g.dv.head, row, a.n_keys, a.cols_v, (A)1, y.second);
}

/* The sum of dY * Y of each query, a warp for one. */
extern "C" __global__ __launch_bounds__(WARPS * 32) void grad_deltas(grad_args g) {
    const attn_args &a = g.a;
    int64_t n = a.n_batch * a.q_heads * a.n_queries;
    for (int64_t at = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32; at < n; at += gridDim.x * (int64_t)WARPS) {
        int64_t bh = at / a.n_queries, i = at % a.n_queries;
        const S *y = attn_head_of(a, bh).y + i * a.y.row, *dy = dy_of(g, bh) + i * g.dy.row;
        A sum = 0;
        for (int64_t c = threadIdx.x % 32; c < a.cols_v; c += 32)
            sum = fma((A)get(y[c * a.y.column]), (A)get(dy[c * g.dy.column]), sum);
        for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
        if (threadIdx.x % 32 == 0) g.deltas[at] = sum;
    }
}
