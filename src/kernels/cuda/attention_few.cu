/* cuda/attention_few.cu: attention of few queries over many keys, as decoding has it; see attention.cuh. Defined in
 * front: LANES (a power of two; 8 * LANES is not less than the columns of q, k and v) and ROWS (rows of a block).
 *
 * A row is one query of one of the heads that share keys; all of them are met with each key that is read. The keys are
 * cut into splits, a block each; within a block LANES lanes share a key, 8 columns a lane. Each such slot keeps the
 * largest score, the sum and the result of its keys; slots are joined by a fixed tree, splits in their order by the
 * block of them that is done last. Rows that are new are read where they lie and put into the caches on the way.
 * Accumulation: in f32. */
#define BEGINS_EARLY 1
#ifndef LANES
#define LANES 8
#endif
#ifndef ROWS
#define ROWS 1
#endif
enum { WARPS = 4, SLOTS = 32 / LANES, V = 8, AT_ONCE = ROWS > 4 ? 2 : 4 };

/* Rows at[b] on of the caches, whose lines are dense: k, v (batch, head of keys, n, columns). Mirrors nck_cuda_attn_new
 * in attention_few.h. */
struct new_args {
    const S *k, *v;
    const int64_t *at; /* NULL: 0 */
    int64_t n, rows;   /* rows: of a cache */
    int64_t circular;  /* row numbers count around */
};
/* Mirrors nck_cuda_attn_few_args in attention_few.h. */
struct few_args {
    attn_args a;
    int64_t n_splits, group; /* group: heads that share keys */
    float *partial; /* (batch, head, query, split, cols_v + 2): result, largest score, sum; NULL: one split */
    uint32_t *counters; /* (batch, head of keys, rows / ROWS), all 0 */
    new_args fresh;     /* n 0: none */
    fault_site site;
};

DEVICE float power_of_2(float x) {
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Columns c..c+7 of a line of n as words, zeros behind its end. */
enum { PER_WORD = 4 / sizeof(S), WORDS = V / PER_WORD };
struct alignas(16) line_held { uint32_t w[WORDS]; };
DEVICE uint32_t bits_of(f16 x) { return x.bits; }
DEVICE uint32_t bits_of(bf16 x) { return x.bits; }
DEVICE uint32_t bits_of(float x) { return __float_as_uint(x); }
DEVICE void hold_line(const S *line, int64_t column, int c, int n, int vectors, line_held &x) {
#pragma unroll
    for (int i = 0; i < WORDS; i++) x.w[i] = 0;
    if (vectors) {
        if (c < n)
#pragma unroll
            for (int i = 0; i < WORDS; i += 4)
                *(vec<uint32_t, 4> *)&x.w[i] = vec_at<4>((const uint32_t *)(line + c) + i);
        return;
    }
#pragma unroll
    for (int e = 0; e < V; e++)
        if (c + e < n) x.w[e / PER_WORD] |= bits_of(line[(c + e) * column]) << (e % PER_WORD * 16);
}
DEVICE void floats_of(const line_held &x, float (&y)[V]) {
#pragma unroll
    for (int e = 0; e < V; e++) y[e] = element(x.w[e / PER_WORD], e % PER_WORD, S());
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

/* The new rows of this block's keys, their first one at row `first`; n 0: none. */
struct new_rows {
    const S *k, *v;
    int first, n, rows;
};
DEVICE new_rows new_rows_here(const few_args &f, const row_place &p) {
    const new_args &x = f.fresh;
    int64_t first = x.n && x.at ? x.at[p.batch] : 0, line = (p.batch * f.a.kv_heads + p.keys) * x.n;
    new_rows y;
    if (x.circular && x.n) first = (first % x.rows + x.rows) % x.rows;
    bool fits = first >= 0 && first <= (x.circular ? x.rows - 1 : x.rows - x.n);
    if (x.n && !fits && p.keys == 0 && blockIdx.x == 0 && blockIdx.z == 0 && threadIdx.x == 0)
        report(f.site, first, x.rows - x.n + 1);
    y.k = x.k + line * f.a.cols, y.v = x.v + line * f.a.cols_v;
    y.first = fits ? (int)first : 0, y.n = fits ? (int)x.n : 0, y.rows = (int)x.rows;
    return y;
}
/* Which of them row j of the cache is; n or more: none. */
DEVICE int new_row_of(const new_rows &x, int j) { return j < x.first ? j - x.first + x.rows : j - x.first; }

/* One block of those that share keys puts the new rows down. */
DEVICE void put_new_rows(const attn_args &a, const attn_head &h, const new_rows &x) {
    if (blockIdx.x != 0 || blockIdx.z != 0) return;
#pragma unroll 1
    for (int i = 0; i < x.n; i++) {
        int64_t row = x.first + i < x.rows ? x.first + i : x.first + i - x.rows;
        for (int c = threadIdx.x; c < a.cols; c += blockDim.x) ((S *)h.k)[row * a.k.row + c] = x.k[i * a.cols + c];
        for (int c = threadIdx.x; c < a.cols_v; c += blockDim.x) ((S *)h.v)[row * a.v.row + c] = x.v[i * a.cols_v + c];
    }
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

/* Keys from j on, AT_ONCE of those that come to this slot. */
enum { KEYS_APART = WARPS * SLOTS };
struct keys_held { line_held k[AT_ONCE], v[AT_ONCE]; };
DEVICE void hold_keys(const attn_args &a, const attn_head &h, const new_rows &fresh, int j, int end, int c,
                      keys_held &x) {
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
        int64_t at = j + u * KEYS_APART, i = new_row_of(fresh, (int)at);
        if (at >= end) break;
        bool old = i >= fresh.n;
        hold_line(old ? h.k + at * a.k.row : fresh.k + i * a.cols, a.k.column, c, (int)a.cols, a.vectors, x.k[u]);
        hold_line(old ? h.v + at * a.v.row : fresh.v + i * a.cols_v, a.v.column, c, (int)a.cols_v, a.vectors, x.v[u]);
    }
}

/* The scores of held keys, -inf for those that are not seen. */
DEVICE void score_keys(const attn_args &a, const attn_head &h, const few_queries &x, const keys_held &held, int j,
                       int end, float (&s)[AT_ONCE][ROWS]) {
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
        int at = j + u * KEYS_APART;
        float k[V];
        floats_of(held.k[u], k);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float sum = 0;
#pragma unroll
            for (int e = 0; e < V; e++) sum = fma(x.q[r][e], k[e], sum);
            for (int d = 1; d < LANES; d <<= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
            s[u][r] = -INF;
            if (at < end && at >= x.seen[r].first && at < x.seen[r].end)
                s[u][r] = attn_score(a, h, x.seen[r], at, sum, bias_of(a, x.mask[r], at));
        }
    }
}

/* To a new largest score: what is known is less by a factor. */
DEVICE void bring_to(few_row &r, float most) {
    float by = power_of_2(r.top - attn_base(most));
    r.top = most;
    r.sum *= by;
#pragma unroll
    for (int e = 0; e < V; e++) r.y[e] *= by;
}

DEVICE void meet_keys(const attn_args &a, const attn_head &h, const few_queries &x, const keys_held &held, int j,
                      int end, few_row (&rows)[ROWS]) {
    float s[AT_ONCE][ROWS];
    score_keys(a, h, x, held, j, end, s);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float most = rows[r].top;
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) most = attn_larger(most, s[u][r]);
        bring_to(rows[r], most);
    }
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
        int at = j + u * KEYS_APART;
        float v[V];
        floats_of(held.v[u], v);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (at >= min(x.seen[r].end, end) || at < x.seen[r].first) continue;
            float share = power_of_2(s[u][r] - attn_base(rows[r].top));
            rows[r].sum += share;
#pragma unroll
            for (int e = 0; e < V; e++) rows[r].y[e] = fma(share, v[e], rows[r].y[e]);
        }
    }
}

/* All slots of a warp have what they know together. */
DEVICE void join_slots(few_row &r) {
    float most = r.top;
    for (int d = LANES; d < 32; d <<= 1) most = attn_larger(most, __shfl_xor_sync(0xffffffffu, most, d));
    bring_to(r, most);
    for (int d = LANES; d < 32; d <<= 1) {
        r.sum += __shfl_xor_sync(0xffffffffu, r.sum, d);
#pragma unroll
        for (int e = 0; e < V; e++) r.y[e] += __shfl_xor_sync(0xffffffffu, r.y[e], d);
    }
}

/* What the splits know of a row: a line for each. */
DEVICE float *lines_of(const few_args &f, const row_place &p) {
    int64_t row = (p.batch * f.a.q_heads + p.head) * f.a.n_queries + p.query;
    return f.partial + row * f.n_splits * (f.a.cols_v + 2);
}

/* The result of row i, or its part of it. */
DEVICE void put_row(const few_args &f, int i, int c, const few_row &r) {
    const attn_args &a = f.a;
    row_place p = place_of_row(f, i);
    float by = r.sum == 0 ? 0.0f : 1 / r.sum, *part = lines_of(f, p) + blockIdx.x * (a.cols_v + 2);
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

/* Row i of all splits, by one warp. What the first AHEAD of them hold is under way while the weights are found. */
enum { MAX_SPLITS = 256, COLS_JOINED = (LANES * V + 31) / 32, AHEAD = COLS_JOINED > 2 ? 8 : 16 };
DEVICE void join_row_splits(const few_args &f, int i, float *weight) {
    const attn_args &a = f.a;
    row_place p = place_of_row(f, i);
    int line = (int)a.cols_v + 2, n = (int)f.n_splits, lane = threadIdx.x % 32;
    const float *part = lines_of(f, p), *tops = part + a.cols_v;
    float ahead[AHEAD][COLS_JOINED], y[COLS_JOINED] = {0}, top = -INF, sum = 0;
#pragma unroll
    for (int s = 0; s < AHEAD; s++)
#pragma unroll
        for (int c = 0; c < COLS_JOINED; c++)
            ahead[s][c] = s < n && lane + 32 * c < a.cols_v ? __ldcg(part + s * line + lane + 32 * c) : 0.0f;
    for (int s = lane; s < n; s += 32) top = attn_larger(top, __ldcg(tops + s * line));
    for (int d = 16; d > 0; d >>= 1) top = attn_larger(top, __shfl_xor_sync(0xffffffffu, top, d));
    for (int s = lane; s < n; s += 32) {
        weight[s] = power_of_2(__ldcg(tops + s * line) - attn_base(top));
        sum += weight[s] * __ldcg(tops + s * line + 1);
    }
    for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    __syncwarp();
#pragma unroll 1
    for (int first = 0; first < n; first += AHEAD)
#pragma unroll
        for (int s = 0; s < AHEAD; s++)
#pragma unroll
            for (int c = 0; c < COLS_JOINED; c++) {
                if (first + s < n) y[c] = fma(ahead[s][c], weight[first + s], y[c]);
                if (first + AHEAD + s < n && lane + 32 * c < a.cols_v)
                    ahead[s][c] = __ldcg(part + (first + AHEAD + s) * line + lane + 32 * c);
            }
    attn_head h = head_of_row(f, p);
#pragma unroll
    for (int c = 0; c < COLS_JOINED; c++)
        if (lane + 32 * c < a.cols_v)
            h.y[p.query * a.y.row + (lane + 32 * c) * a.y.column] = to<S>::put(sum == 0 ? 0.0f : y[c] / sum);
    __syncwarp();
}

/* Are all splits of this block's rows done? Of one block true: it is the last. */
DEVICE bool is_last_split(const few_args &f) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicInc(f.counters + (blockIdx.y * gridDim.z + blockIdx.z), (uint32_t)f.n_splits - 1) ==
               (uint32_t)f.n_splits - 1;
    __syncthreads();
    if (last) __threadfence();
    return last;
}

DEVICE few_row row_of_nothing(void) {
    few_row r;
    r.top = -INF, r.sum = 0;
#pragma unroll
    for (int e = 0; e < V; e++) r.y[e] = 0;
    return r;
}

/* Grids of (splits, batches * heads of keys, rows / ROWS), blocks of 128. */
extern "C" __global__ __launch_bounds__(128) void attend_few(const __grid_constant__ few_args f) {
    wait_for_earlier();
    __shared__ few_row others[WARPS][ROWS][LANES];
    __shared__ few_shared shared;
    __shared__ float weights[WARPS][MAX_SPLITS];
    int n_rows = (int)(f.group * f.a.n_queries), first = blockIdx.z * ROWS;
    int lane = threadIdx.x % LANES, slot = threadIdx.x % 32 / LANES, warp = threadIdx.x / 32, c = lane * V;
    few_queries x;
    few_row rows[ROWS];
    row_place place = place_of_row(f, 0);
    attn_head h = head_of_row(f, place);
    new_rows fresh = new_rows_here(f, place);
    int n = h.n_keys, per = (n + (int)f.n_splits - 1) / (int)f.n_splits;
    int from = min((int)blockIdx.x * per, n), end = min(from + per, n);
    keys_held held = {}, next = {};
    hold_keys(f.a, h, fresh, from + warp * SLOTS + slot, end, c, held);
    put_new_rows(f.a, h, fresh);
    share_rows(f, first, shared);
    hold_queries(shared, c, x);
#pragma unroll
    for (int r = 0; r < ROWS; r++) rows[r] = row_of_nothing();
    for (int j = from; j < end; j += AT_ONCE * KEYS_APART) {
        int own = j + warp * SLOTS + slot;
        hold_keys(f.a, h, fresh, own + AT_ONCE * KEYS_APART, end, c, next);
        meet_keys(f.a, h, x, held, own, end, rows);
        held = next;
    }
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
    if (f.partial == 0 || !is_last_split(f)) return;
#pragma unroll 1
    for (int r = warp; r < ROWS && first + r < n_rows; r += WARPS) join_row_splits(f, first + r, weights[warp]);
}
