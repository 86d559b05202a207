/* cuda/attention_few.cu: attention of few queries over many keys, as decoding has it; see attention.cuh. Defined in
 * front: COLS (a multiple of 8, not less than the columns of q, k and v), LANES (a power of two, not less than COLS / 8)
 * and ROWS (rows of a block).
 *
 * A row is one query of one of the heads that share keys; all of them are met with each key that is read. The keys are
 * cut into splits, a block each; within a block LANES lanes share a key, 8 columns a lane. Each such slot keeps the
 * largest score, the sum and the result of its keys; slots are joined by a fixed tree, splits by attend_join.
 * Accumulation: in f32. */
#ifndef COLS
#define COLS 64
#endif
#ifndef LANES
#define LANES 8
#endif
#ifndef ROWS
#define ROWS 1
#endif
enum { WARPS = 4, SLOTS = 32 / LANES, V = 8, AT_ONCE = ROWS > 4 ? 2 : 4 };

/* Mirrors nck_cuda_attn_few_args in attention_few.h. */
struct few_args {
    attn_args a;
    int64_t n_splits;
    float *partial; /* (batch, head, query, split, cols_v + 2): result, largest score, sum; NULL: one split */
};

DEVICE float power_of_2(float x) {
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Columns c..c+7 of a line of n, zeros behind its end. */
DEVICE void hold_columns(const S *line, int64_t column, int c, int n, int vectors, float (&x)[V]) {
    enum { PER = 16 / sizeof(S) };
    if (vectors && c < n) {
#pragma unroll
        for (int i = 0; i < V; i += PER) {
            vec<S, PER> v = vec_at<PER>(line + c + i);
#pragma unroll
            for (int e = 0; e < PER; e++) x[i + e] = (float)get(v.e[e]);
        }
        return;
    }
#pragma unroll
    for (int e = 0; e < V; e++) x[e] = c + e < n ? (float)get(line[(c + e) * column]) : 0.0f;
}

/* What a slot knows of a row. */
struct few_row {
    float top, sum, y[V];
};
DEVICE void join_rows(few_row &r, float top, float sum, const float (&y)[V]) {
    float most = attn_larger(r.top, top), base = attn_base(most);
    float by = power_of_2(r.top - base), other = power_of_2(top - base);
    r.top = most;
    r.sum = r.sum * by + sum * other;
#pragma unroll
    for (int e = 0; e < V; e++) r.y[e] = r.y[e] * by + y[e] * other;
}

/* Row i of the group of heads that share keys: which head, which query. */
DEVICE int64_t head_of(const attn_args &a, int64_t bkv, int64_t i) {
    int64_t group = a.q_heads / a.kv_heads;
    return bkv / a.kv_heads * a.q_heads + bkv % a.kv_heads * group + i / a.n_queries;
}

struct few_queries {
    float q[ROWS][V];
    attn_seen seen[ROWS];
    const M *mask[ROWS]; /* of the query */
};

DEVICE void hold_queries(const attn_args &a, int64_t bkv, int64_t first, int64_t n_rows, int c, few_queries &x) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int64_t i = min(first + r, n_rows - 1), query = i % a.n_queries;
        attn_head h = attn_head_of(a, head_of(a, bkv, i));
        x.mask[r] = h.mask ? h.mask + query * a.mask_strides[2] : h.mask;
        x.seen[r] = attn_seen_by(a, h, query);
        hold_columns(h.q + query * a.q.row, a.q.column, c, (int)a.cols, 0, x.q[r]);
    }
}

DEVICE float bias_of(const attn_args &a, const M *line, int j) {
#ifdef MASKED
    if (line) return attn_bias(line[j * a.mask_strides[3]]);
#endif
    return 0;
}

/* Keys j and those AT_ONCE - 1 further ones that come next to this slot, as far as they lie before `end`. */
DEVICE void meet_keys(const attn_args &a, const attn_head &h, const few_queries &x, int j, int end, int c,
                      few_row (&rows)[ROWS]) {
    float k[AT_ONCE][V], v[AT_ONCE][V];
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
        int64_t at = min(j + u * WARPS * SLOTS, end - 1);
        hold_columns(h.k + at * a.k.row, a.k.column, c, (int)a.cols, a.vectors, k[u]);
        hold_columns(h.v + at * a.v.row, a.v.column, c, (int)a.cols_v, a.vectors, v[u]);
    }
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++)
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int at = j + u * WARPS * SLOTS;
            float s = 0;
#pragma unroll
            for (int e = 0; e < V; e++) s = fma(x.q[r][e], k[u][e], s);
            for (int d = 1; d < LANES; d <<= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
            if (at < x.seen[r].first || at >= min(x.seen[r].end, end)) continue;
            join_rows(rows[r], attn_score(a, h, x.seen[r], at, s, bias_of(a, x.mask[r], at)), 1.0f, v[u]);
        }
}

/* All slots of a warp have what they know together. */
DEVICE void join_slots(few_row &r) {
    for (int d = LANES; d < 32; d <<= 1) {
        float y[V], top = __shfl_xor_sync(0xffffffffu, r.top, d), sum = __shfl_xor_sync(0xffffffffu, r.sum, d);
#pragma unroll
        for (int e = 0; e < V; e++) y[e] = __shfl_xor_sync(0xffffffffu, r.y[e], d);
        join_rows(r, top, sum, y);
    }
}

/* The result of row i, or its part of it. */
DEVICE void put_row(const few_args &f, int64_t i, int c, const few_row &r) {
    const attn_args &a = f.a;
    int64_t bh = head_of(a, blockIdx.y, i), query = i % a.n_queries;
    attn_head h = attn_head_of(a, bh);
    float by = r.sum == 0 ? 0.0f : 1 / r.sum;
    float *part = f.partial + ((bh * a.n_queries + query) * f.n_splits + blockIdx.x) * (a.cols_v + 2);
#pragma unroll
    for (int e = 0; e < V; e++) {
        if (c + e >= a.cols_v) break;
        if (f.partial)
            part[c + e] = r.y[e];
        else
            h.y[query * a.y.row + (c + e) * a.y.column] = to<S>::put(r.y[e] * by);
    }
    if (f.partial && c == 0) part[a.cols_v] = r.top, part[a.cols_v + 1] = r.sum;
}

/* Grids of (splits, batches * heads of keys, rows / ROWS), blocks of 128. */
extern "C" __global__ __launch_bounds__(128) void attend_few(few_args f) {
    __shared__ float others[WARPS][ROWS][LANES][V + 2];
    const attn_args &a = f.a;
    int64_t n_rows = a.q_heads / a.kv_heads * a.n_queries, first = blockIdx.z * (int64_t)ROWS;
    int lane = threadIdx.x % LANES, slot = threadIdx.x % 32 / LANES, warp = threadIdx.x / 32, c = lane * V;
    few_queries x;
    few_row rows[ROWS];
    attn_head h = attn_head_of(a, head_of(a, blockIdx.y, 0));
    hold_queries(a, blockIdx.y, first, n_rows, c, x);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        rows[r].top = -INF, rows[r].sum = 0;
        for (int e = 0; e < V; e++) rows[r].y[e] = 0;
    }
    int n = h.n_keys, per = (int)((n + f.n_splits - 1) / f.n_splits);
    int from = min((int)blockIdx.x * per, n), end = min(from + per, n);
    for (int j = from; j < end; j += AT_ONCE * WARPS * SLOTS) meet_keys(a, h, x, j + warp * SLOTS + slot, end, c, rows);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        join_slots(rows[r]);
        if (slot != 0) continue;
        float *to_others = others[warp][r][lane];
        for (int e = 0; e < V; e++) to_others[e] = rows[r].y[e];
        to_others[V] = rows[r].top, to_others[V + 1] = rows[r].sum;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (r % WARPS != warp || slot != 0 || first + r >= n_rows) continue;
        few_row all;
        all.top = -INF, all.sum = 0;
        for (int e = 0; e < V; e++) all.y[e] = 0;
        for (int w = 0; w < WARPS; w++) {
            float y[V], *of = others[w][r][lane];
            for (int e = 0; e < V; e++) y[e] = of[e];
            join_rows(all, of[V], of[V + 1], y);
        }
        put_row(f, first + r, c, all);
    }
}

/* One block for each batch, head and query: its splits together, a column a thread. */
extern "C" __global__ void attend_join(few_args f) {
    const attn_args &a = f.a;
    int64_t bh = blockIdx.x / a.n_queries, query = blockIdx.x % a.n_queries, line = a.cols_v + 2;
    const float *part = f.partial + blockIdx.x * f.n_splits * line;
    attn_head x = attn_head_of(a, bh);
    float top = -INF;
    for (int64_t s = 0; s < f.n_splits; s++) top = attn_larger(top, part[s * line + a.cols_v]);
    float base = attn_base(top);
    for (int64_t c = threadIdx.x; c < a.cols_v; c += blockDim.x) {
        float sum = 0, y = 0;
        for (int64_t s = 0; s < f.n_splits; s++) {
            float by = power_of_2(part[s * line + a.cols_v] - base);
            sum += part[s * line + a.cols_v + 1] * by;
            y += part[s * line + c] * by;
        }
        x.y[query * a.y.row + c * a.y.column] = to<S>::put(sum == 0 ? 0.0f : y / sum);
    }
}
