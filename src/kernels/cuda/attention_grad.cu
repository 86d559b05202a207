/* cuda/attention_grad.cu: the gradient of attention by queries, keys and values, tile by tile; see attention.cuh. COLS
 * (a multiple of 32, not less than the columns of q, k and v), WARPS and ROWS (rows of a warp) are defined in front.
 *
 * The shares P = 2^(score - stat) of a query come anew from its stat, which the forward pass keeps. With delta, the sum
 * of dY * Y over a query's columns,
 *   dS = P * (M dY V' - delta) * slope of the cap,  dQ = scale dS K,  dK = scale dS' Q,  dV = (M P)' dY,
 * where M is 1, or with DROPOUT what a share is multiplied by: 0 if it is dropped.
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
/* VECTOR: elements that are read at once; lines are that much longer, which spreads them over the banks. */
enum { TILE = 32, VECTOR = 16 / sizeof(A), LINE = COLS + VECTOR, OWN = WARPS * ROWS };

struct grad_shared {
    A rows[OWN + TILE][LINE], second[OWN][LINE]; /* own rows of the first operand and a tile; own ones of the second */
    A weight[WARPS][ROWS][TILE];
};

/* Mirrors nck_cuda_attn_grad_args in attention_grad.h. */
struct grad_args {
    attn_args a; /* y and stats: as the forward pass left them */
    attn_operand dy, dq, dk, dv;
    A *deltas; /* (batch, head, query) */
};

/* N rows from `first` on of `limit`, zeros behind their ends. */
template <int N> DEVICE void fill_rows(A (*rows)[LINE], const S *from, const attn_operand &o, int64_t first,
                                       int64_t limit, int64_t cols) {
    for (int i = threadIdx.x; i < N * COLS; i += WARPS * 32) {
        int row = i / COLS, c = i % COLS;
        rows[row][c] = first + row < limit && c < cols ? (A)get(from[(first + row) * o.row + c * o.column]) : (A)0;
    }
}

/* Of ROWS rows with the lane's row of a tile. */
DEVICE void products_of(const A (*rows)[LINE], const A (&tile)[LINE], A (&s)[ROWS]) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) s[r] = 0;
    for (int c = 0; c < COLS; c += VECTOR) {
        vec<A, VECTOR> t = vec_at<VECTOR>(&tile[c]);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            vec<A, VECTOR> x = vec_at<VECTOR>(&rows[r][c]);
#pragma unroll
            for (int e = 0; e < VECTOR; e++) s[r] = fma(x.e[e], t.e[e], s[r]);
        }
    }
}

/* sums += weights, of which each lane has one row's, times the rows of the tile. */
DEVICE void add_rows(grad_shared &m, const A (&weight)[ROWS], A (&sums)[ROWS][COLS / 32]) {
    int lane = threadIdx.x % 32;
    A(&w)[ROWS][TILE] = m.weight[threadIdx.x / 32];
#pragma unroll
    for (int r = 0; r < ROWS; r++) w[r][lane] = weight[r];
    __syncwarp();
    for (int k = 0; k < TILE; k += VECTOR) {
        vec<A, VECTOR> by[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) by[r] = vec_at<VECTOR>(&w[r][k]);
#pragma unroll
        for (int e = 0; e < VECTOR; e++)
#pragma unroll
            for (int n = 0; n < COLS / 32; n++) {
                A x = m.rows[OWN + k + e][lane + 32 * n];
#pragma unroll
                for (int r = 0; r < ROWS; r++) sums[r][n] = fma(by[r].e[e], x, sums[r][n]);
            }
    }
    __syncwarp();
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

/* What share (i, j) of a head is multiplied by. */
struct grad_drop {
#ifdef DROPOUT
    attn_draw draw;
    A by;
    int64_t n_keys, first; /* first: of the head's shares among all */
    DEVICE grad_drop(const attn_args &a, int64_t bh)
        : draw(attn_draw_of(a)), by((A)a.drop.by), n_keys(a.n_keys), first(bh * a.n_queries * a.n_keys) {}
    DEVICE A of(int64_t i, int64_t j) { return attn_stays(draw, first + i * n_keys + j) ? by : (A)0; }
#else
    DEVICE grad_drop(const attn_args &, int64_t) {}
    DEVICE A of(int64_t, int64_t) { return 1; }
#endif
};

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
DEVICE void query_tile(const grad_args &g, const attn_head &x, int64_t bh, int64_t row, int first, grad_shared &m,
                       grad_sums &y) {
    const attn_args &a = g.a;
    int lane = threadIdx.x % 32, own = threadIdx.x / 32 * ROWS;
    A s[ROWS], d[ROWS];
    grad_drop drop(a, bh);
    fill_rows<TILE>(m.rows + OWN, x.v, a.v, first, x.n_keys, a.cols_v);
    __syncthreads();
    products_of(m.second + own, m.rows[OWN + lane], d);
    __syncthreads();
    fill_rows<TILE>(m.rows + OWN, x.k, a.k, first, x.n_keys, a.cols);
    __syncthreads();
    products_of(m.rows + own, m.rows[OWN + lane], s);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int64_t i = min(row + r, a.n_queries - 1), at = bh * a.n_queries + i;
        grad_share p = share_of(a, x, seen_by(a, x, row + r), i, first + lane, s[r], a.stats[at]);
        d[r] = p.p * (d[r] * drop.of(i, first + lane) - g.deltas[at]) * p.slope;
    }
    add_rows(m, d, y.first);
    __syncthreads();
}

extern "C" __global__ __launch_bounds__(WARPS * 32) void grad_queries(grad_args g) {
    __shared__ __align__(16) grad_shared m;
    const attn_args &a = g.a;
    int64_t n_blocks = (a.n_queries + OWN - 1) / OWN, bh = blockIdx.x / n_blocks;
    int64_t start = (n_blocks - 1 - blockIdx.x % n_blocks) * OWN, last = min(start + OWN, a.n_queries) - 1;
    attn_head x = attn_head_of(a, bh);
    grad_sums y;
    clear(y);
    fill_rows<OWN>(m.rows, x.q, a.q, start, a.n_queries, a.cols);
    fill_rows<OWN>(m.second, dy_of(g, bh), g.dy, start, a.n_queries, a.cols_v);
    int64_t row = start + threadIdx.x / 32 * ROWS;
    int first = attn_seen_by(a, x, start).first / TILE * TILE, end = attn_seen_by(a, x, last).end;
    for (; first < end; first += TILE) query_tile(g, x, bh, row, first, m, y);
    store_sums(g.dq, bh / a.q_heads * g.dq.batch + bh % a.q_heads * g.dq.head, row, a.n_queries, a.cols, (A)a.scale,
               y.first);
}

/* A tile of queries for the keys from `row` on. */
DEVICE void key_tile(const grad_args &g, const attn_head &x, int64_t bh, int64_t row, int64_t first, grad_shared &m,
                     grad_sums &y) {
    const attn_args &a = g.a;
    int lane = threadIdx.x % 32, own = threadIdx.x / 32 * ROWS;
    int64_t i = min(first + lane, a.n_queries - 1), at = bh * a.n_queries + i;
    attn_seen seen = seen_by(a, x, first + lane);
    A share[ROWS], slope[ROWS], d[ROWS], stat = a.stats[at], delta = g.deltas[at];
    grad_drop drop(a, bh);
    fill_rows<TILE>(m.rows + OWN, x.q, a.q, first, a.n_queries, a.cols);
    __syncthreads();
    products_of(m.rows + own, m.rows[OWN + lane], d);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        grad_share p = share_of(a, x, seen, i, (int)(row + r), d[r], stat);
        share[r] = p.p, slope[r] = p.slope;
    }
    __syncthreads();
    fill_rows<TILE>(m.rows + OWN, dy_of(g, bh), g.dy, first, a.n_queries, a.cols_v);
    __syncthreads();
    products_of(m.second + own, m.rows[OWN + lane], d);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        A by = drop.of(i, row + r);
        d[r] = share[r] * (d[r] * by - delta) * slope[r];
        share[r] *= by;
    }
    add_rows(m, share, y.second);
    __syncthreads();
    fill_rows<TILE>(m.rows + OWN, x.q, a.q, first, a.n_queries, a.cols);
    __syncthreads();
    add_rows(m, d, y.first);
    __syncthreads();
}

extern "C" __global__ __launch_bounds__(WARPS * 32) void grad_keys(grad_args g) {
    __shared__ __align__(16) grad_shared m;
    const attn_args &a = g.a;
    int64_t n_blocks = (a.n_keys + OWN - 1) / OWN, b = blockIdx.x / n_blocks / a.kv_heads;
    int64_t head = blockIdx.x / n_blocks % a.kv_heads, start = blockIdx.x % n_blocks * OWN;
    int64_t group = a.q_heads / a.kv_heads, bh = b * a.q_heads + head * group;
    attn_head x = attn_head_of(a, bh);
    grad_sums y;
    clear(y);
    fill_rows<OWN>(m.rows, x.k, a.k, start, a.n_keys, a.cols);
    fill_rows<OWN>(m.second, x.v, a.v, start, a.n_keys, a.cols_v);
    int64_t row = start + threadIdx.x / 32 * ROWS;
    for (int64_t h = 0; h < group; h++) {
        x = attn_head_of(a, bh + h);
        for (int64_t first = 0; first < a.n_queries; first += TILE) {
            attn_seen least = attn_seen_by(a, x, first), most = attn_seen_by(a, x, min(first + TILE, a.n_queries) - 1);
            if (most.end <= start || least.first >= start + OWN) continue;
            key_tile(g, x, bh + h, row, first, m, y);
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
