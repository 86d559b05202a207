/* cuda/attention_few.cuh: what the kernels of attention of few queries over many keys share, as decoding has it; see
 * attention.cuh. Defined in front: LANES (a power of two; 8 * LANES is not less than the columns of q, k and v) and
 * ROWS (rows of a block; ROWS * LANES is at most 32).
 *
 * A row is one query of one of the heads that share keys; all of them are met with each key that is read. The keys are
 * dealt to splits, a block each; within a block LANES lanes share a key, 8 columns a lane. Each such slot keeps the
 * largest score, the sum and the result of its keys; slots are joined by a fixed tree, splits in their order. Rows that
 * are new are read where they lie and put into the caches on the way. Accumulation: in f32. */
#define BEGINS_EARLY 1
#if !defined STANDIN && __CUDA_ARCH__ >= 900
#define CLUSTERS 1
#endif
#ifndef LANES
#define LANES 8
#endif
#ifndef ROWS
#define ROWS 1
#endif
enum { WARPS = 8, SLOTS = 32 / LANES, V = 8, AT_ONCE = ROWS > 2 || sizeof(S) > 2 ? 2 : 4, OF_CLUSTER = 8 };

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
    float *partial; /* lines of the splits */
    uint32_t *counters; /* (batch, head of keys, rows / ROWS), all 0 */
    new_args fresh;     /* n 0: none */
    int64_t ahead;      /* k and v lie in vectors, and the kernel in front does not write them */
    int64_t stages;     /* of attention_bulk.cu: places of the ring */
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
                *(vec<uint32_t, 4> *)&x.w[i] = far_at((const uint32_t *)(line + c) + i);
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
    if (x.circular && x.n && (first < 0 || first >= x.rows)) first = (first % x.rows + x.rows) % x.rows;
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

/* What all threads of a block read of its rows. */
enum { COLS = LANES * V };
struct few_shared {
    float q[ROWS][COLS];
    attn_seen seen[ROWS];
    const M *mask[ROWS]; /* of the query */
};
/* Where the element of q lies that this thread brings for all, NULL: nowhere. No more than one, so that all are asked
 * for at once. */
DEVICE const S *query_here(const few_args &f, int first) {
    const attn_args &a = f.a;
    int r = threadIdx.x / COLS, c = threadIdx.x % COLS, n_rows = (int)(f.group * a.n_queries);
    if (r >= ROWS || c >= a.cols) return 0;
    row_place p = place_of_row(f, min(first + r, n_rows - 1));
    return (const S *)a.q.data + (p.batch * a.q.batch + p.head * a.q.head + p.query * a.q.row + c * a.q.column);
}
/* h: that of any of the rows. */
DEVICE void share_rows(const few_args &f, int first, S q, const attn_head &h, few_shared &x) {
    const attn_args &a = f.a;
    int r = threadIdx.x, n_rows = (int)(f.group * a.n_queries);
    if (r < ROWS) {
        row_place p = place_of_row(f, min(first + r, n_rows - 1));
        const M *mask = head_of_row(f, p).mask;
        x.mask[r] = mask ? mask + p.query * a.mask_strides[2] : mask;
        x.seen[r] = attn_seen_by(a, h, p.query);
    }
    if (r < ROWS * COLS) x.q[r / COLS][r % COLS] = (float)get(q);
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

/* Keys j, j + apart ..., AT_ONCE of them. */
struct keys_held { line_held k[AT_ONCE], v[AT_ONCE]; };
/* Those of them below end that are new, from where they lie. */
DEVICE void hold_new(const attn_args &a, const new_rows &fresh, int j, int apart, int end, int c, int vectors,
                     keys_held &x) {
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
        int at = j + u * apart, i = new_row_of(fresh, at);
        if (at >= end || i >= fresh.n) continue;
        hold_line(fresh.k + i * a.cols, a.k.column, c, (int)a.cols, vectors, x.k[u]);
        hold_line(fresh.v + i * a.cols_v, a.v.column, c, (int)a.cols_v, vectors, x.v[u]);
    }
}

/* The scores of held keys, -inf for those that are not seen. */
DEVICE void score_keys(const attn_args &a, const attn_head &h, const few_queries &x, const keys_held &held, int j,
                       int apart, int end, float (&s)[AT_ONCE][ROWS]) {
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
        int at = j + u * apart;
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
                      int apart, int end, few_row (&rows)[ROWS]) {
    float s[AT_ONCE][ROWS];
    score_keys(a, h, x, held, j, apart, end, s);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float most = rows[r].top;
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) most = attn_larger(most, s[u][r]);
        bring_to(rows[r], most);
    }
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
        int at = j + u * apart;
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

/* What a split knows of a row: its result, the largest score, the sum. Lines of all splits are (split, row). */
enum { LINE = COLS + 2, LINES = ROWS * LINE };
DEVICE void put_result(const few_args &f, int i, int c, float y, float sum) {
    const attn_args &a = f.a;
    if (i >= f.group * a.n_queries || c >= a.cols_v) return;
    row_place p = place_of_row(f, i);
    head_of_row(f, p).y[p.query * a.y.row + c * a.y.column] = to<S>::put(sum == 0 ? 0.0f : y / sum);
}

/* Rows first.. of all splits. */
DEVICE void join_splits(const few_args &f, int first, const float *lines) {
    for (int i = threadIdx.x; i < ROWS * COLS; i += WARPS * 32) {
        const float *line = lines + i / COLS * LINE;
        float top = -INF, y = 0, sum = 0;
#pragma unroll
        for (int s = 0; s < OF_CLUSTER; s++) top = attn_larger(top, line[s * LINES + COLS]);
#pragma unroll
        for (int s = 0; s < OF_CLUSTER; s++) {
            float by = power_of_2(line[s * LINES + COLS] - attn_base(top));
            y = fma(line[s * LINES + i % COLS], by, y), sum = fma(line[s * LINES + COLS + 1], by, sum);
        }
        put_result(f, first + i / COLS, i % COLS, y, sum);
    }
}

DEVICE few_row row_of_nothing(void) {
    few_row r;
    r.top = -INF, r.sum = 0;
#pragma unroll
    for (int e = 0; e < V; e++) r.y[e] = 0;
    return r;
}
