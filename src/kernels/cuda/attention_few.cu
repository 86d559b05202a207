/* cuda/attention_few.cu: attention of few queries over many keys, as decoding has it; see attention.cuh. Defined in
 * front: LANES (a power of two; 8 * LANES is not less than the columns of q, k and v) and ROWS (rows of a block).
 *
 * A row is one query of one of the heads that share keys; all of them are met with each key that is read. The keys are
 * cut into splits, a block each; within a block LANES lanes share a key, 8 columns a lane. Each such slot keeps the
 * largest score, the sum and the result of its keys; slots are joined by a fixed tree, splits by attend_join.
 * Accumulation: in f32. */
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
    int64_t n_splits, group; /* group: heads that share keys */
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
    r.sum = fma(sum, other, r.sum * by);
#pragma unroll
    for (int e = 0; e < V; e++) r.y[e] = fma(y[e], other, r.y[e] * by);
}

/* Row i of the heads that share keys, of batch and head of keys blockIdx.y. */
struct row_place { uint32_t batch, head, keys, query; };
DEVICE row_place place_of_row(const few_args &f, uint32_t i) {
    uint32_t kv_heads = (uint32_t)f.a.kv_heads, n = (uint32_t)f.a.n_queries;
    row_place p;
    p.batch = blockIdx.y / kv_heads;
    p.keys = blockIdx.y - p.batch * kv_heads;
    p.head = p.keys * (uint32_t)f.group + i / n;
    p.query = i % n;
    return p;
}
DEVICE attn_head head_of_row(const few_args &f, const row_place &p) {
    return attn_head_at(f.a, p.batch, p.head, p.keys);
}

/* What all threads of a block read of its rows, put there by a few. */
struct few_shared {
    float q[ROWS][LANES * V];
    attn_seen seen[ROWS];
    const M *mask[ROWS]; /* of the query */
};
DEVICE void share_rows(const few_args &f, int first, few_shared &x) {
    const attn_args &a = f.a;
    int n_rows = (int)(f.group * a.n_queries);
#pragma unroll 1
    for (int r = threadIdx.x / 32; r < ROWS; r += WARPS) {
        row_place p = place_of_row(f, min(first + r, n_rows - 1));
        attn_head h = head_of_row(f, p);
        const S *line = h.q + p.query * a.q.row;
        x.mask[r] = h.mask ? h.mask + p.query * a.mask_strides[2] : h.mask;
        x.seen[r] = attn_seen_by(a, h, p.query);
#pragma unroll 1
        for (int c = threadIdx.x % 32; c < LANES * V; c += 32)
            x.q[r][c] = c < a.cols ? (float)get(line[c * a.q.column]) : 0.0f;
    }
    __syncthreads();
}

struct few_queries {
    float q[ROWS][V];
    attn_seen seen[ROWS];
    const M *mask[ROWS];
};
DEVICE void hold_queries(const few_shared &x, int c, few_queries &to) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        to.seen[r] = x.seen[r];
        to.mask[r] = x.mask[r];
#pragma unroll
        for (int e = 0; e < V; e++) to.q[r][e] = x.q[r][c + e];
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
DEVICE void put_row(const few_args &f, int i, int c, const few_row &r) {
    const attn_args &a = f.a;
    row_place p = place_of_row(f, i);
    float by = r.sum == 0 ? 0.0f : 1 / r.sum;
    int64_t line = (p.batch * a.q_heads + p.head) * a.n_queries + p.query;
    float *part = f.partial + (line * f.n_splits + blockIdx.x) * (a.cols_v + 2);
    attn_head h = head_of_row(f, p);
#pragma unroll
    for (int e = 0; e < V; e++) {
        if (c + e >= a.cols_v) break;
        if (f.partial)
            part[c + e] = r.y[e];
        else
            h.y[p.query * a.y.row + (c + e) * a.y.column] = to<S>::put(r.y[e] * by);
    }
    if (f.partial && c == 0) part[a.cols_v] = r.top, part[a.cols_v + 1] = r.sum;
}

DEVICE few_row row_of_nothing(void) {
    few_row r;
    r.top = -INF, r.sum = 0;
#pragma unroll
    for (int e = 0; e < V; e++) r.y[e] = 0;
    return r;
}

/* Grids of (splits, batches * heads of keys, rows / ROWS), blocks of 128. */
extern "C" __global__ __launch_bounds__(128) void attend_few(few_args f) {
    __shared__ few_row others[WARPS][ROWS][LANES];
    __shared__ few_shared shared;
    int n_rows = (int)(f.group * f.a.n_queries), first = blockIdx.z * ROWS;
    int lane = threadIdx.x % LANES, slot = threadIdx.x % 32 / LANES, warp = threadIdx.x / 32, c = lane * V;
    few_queries x;
    few_row rows[ROWS];
    attn_head h = head_of_row(f, place_of_row(f, 0));
    share_rows(f, first, shared);
    hold_queries(shared, c, x);
#pragma unroll
    for (int r = 0; r < ROWS; r++) rows[r] = row_of_nothing();
    int n = h.n_keys, per = (n + (int)f.n_splits - 1) / (int)f.n_splits;
    int from = min((int)blockIdx.x * per, n), end = min(from + per, n);
    for (int j = from; j < end; j += AT_ONCE * WARPS * SLOTS)
        meet_keys(f.a, h, x, j + warp * SLOTS + slot, end, c, rows);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        join_slots(rows[r]);
        if (slot == 0) others[warp][r][lane] = rows[r];
    }
    __syncthreads();
#pragma unroll 1
    for (int r = warp; r < ROWS && first + r < n_rows; r += WARPS) {
        if (slot != 0) continue;
        few_row all = others[0][r][lane];
#pragma unroll 1
        for (int w = 1; w < WARPS; w++) {
            few_row other = others[w][r][lane];
            join_rows(all, other.top, other.sum, other.y);
        }
        put_row(f, first + r, c, all);
    }
}

/* One block of 128 for each batch, head and query: its splits together. The weights of the splits first, then 128 /
 * COLS_JOINED threads a column, each over every so many splits. */
enum { COLS_JOINED = LANES * V > 64 ? 128 : LANES * V, PARTS = 128 / COLS_JOINED, MAX_SPLITS = 512 };
extern "C" __global__ __launch_bounds__(128) void attend_join(few_args f) {
    __shared__ float weight[MAX_SPLITS], parts[PARTS][COLS_JOINED];
    const attn_args &a = f.a;
    int line = (int)a.cols_v + 2, n = (int)f.n_splits, column = threadIdx.x % COLS_JOINED;
    const float *part = f.partial + blockIdx.x * f.n_splits * line, *tops = part + a.cols_v;
    float top = -INF, sum = 0;
    for (int s = threadIdx.x; s < n; s += 128) top = attn_larger(top, tops[s * line]);
    top = join_row<join_max>(top);
    float base = attn_base(top);
    for (int s = threadIdx.x; s < n; s += 128) {
        weight[s] = power_of_2(tops[s * line] - base);
        sum += weight[s] * tops[s * line + 1];
    }
    sum = join_row<join_sum>(sum);
    uint32_t bh = blockIdx.x / (uint32_t)a.n_queries, b = bh / (uint32_t)a.q_heads, head = bh - b * (uint32_t)a.q_heads;
    attn_head h = attn_head_at(a, b, head, head / (uint32_t)f.group);
    S *y = h.y + blockIdx.x % (uint32_t)a.n_queries * a.y.row;
#pragma unroll 1
    for (int first = 0; first < a.cols_v; first += COLS_JOINED) {
        int c = first + column;
        float v = 0;
#pragma unroll 8
        for (int s = threadIdx.x / COLS_JOINED; s < n; s += PARTS)
            if (c < a.cols_v) v = fma(part[s * line + c], weight[s], v);
        parts[threadIdx.x / COLS_JOINED][column] = v;
        __syncthreads();
        for (int p = 1; p < PARTS; p++) v += parts[p][column];
        if (threadIdx.x < COLS_JOINED && c < a.cols_v) y[c * a.y.column] = to<S>::put(sum == 0 ? 0.0f : v / sum);
        __syncthreads();
    }
}
