/* cuda/attention.cu: attention in half types on tensor cores; see attention.cuh. COLS (a multiple of 16, not less than
 * the columns of q, k and v) and TILE (keys of a tile, a multiple of 16) are defined in front.
 *
 * A block of four warps takes 64 queries of a head, 16 a warp. Queries stay in registers; tiles of keys and values
 * come to shared memory by turns, the next one while this one is worked on. Products: f32 sums of m16n8k16; the
 * probabilities are rounded to S for the second one. Where there are no such instructions, attn_multiply does the same
 * by shuffles.
 *
 * In the 16 by 8 tiles of sums lane l has rows l/4 and l/4 + 8, columns 2*(l%4) and the next one. */
#define BEGINS_EARLY 1
#ifndef COLS
#define COLS 64
#endif
#ifndef TILE
#define TILE 64
#endif
#if __CUDA_ARCH__ >= 800 && !defined STANDIN
#define TENSOR_CORES 1
#endif
enum { QUERIES = 64, THREADS = 128, LINE = COLS + 8 }; /* LINE: elements between rows, spread over the banks */

DEVICE uint32_t pair_of(S lo, S hi) { return (uint32_t)hi.bits << 16 | lo.bits; }
DEVICE float low_of(uint32_t p) {
    S x;
    x.bits = (uint16_t)p;
    return get(x);
}
DEVICE float high_of(uint32_t p) { return low_of(p >> 16); }

#ifdef TENSOR_CORES
DEVICE uint32_t shared_at(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
DEVICE void move16(S *to, const S *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(shared_at(to)), "l"(from) : "memory");
}
DEVICE void moves_end(void) { asm volatile("cp.async.commit_group;" : : : "memory"); }
/* All but the group begun last are there. */
DEVICE void moves_wait(void) { asm volatile("cp.async.wait_group 1;" : : : "memory"); }
/* c (16,8) += a (16,16) * b (16,8) */
DEVICE void attn_multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, f16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE void attn_multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* K' as two right operands: columns are keys n..n+15, rows the elements k..k+15 of each. */
DEVICE void keys_of(const S (&tile)[TILE][LINE], int n, int k, uint32_t (&b)[4]) {
    int l = threadIdx.x % 32;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                 : "r"(shared_at(&tile[n + l / 16 * 8 + l % 8][k + l / 8 % 2 * 8])) : "memory");
}
/* V as two right operands: rows are keys k..k+15, columns the elements n..n+15 of each. */
DEVICE void values_of(const S (&tile)[TILE][LINE], int k, int n, uint32_t (&b)[4]) {
    int l = threadIdx.x % 32;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                 : "r"(shared_at(&tile[k + l / 8 % 2 * 8 + l % 8][n + l / 16 * 8])) : "memory");
}
DEVICE uint32_t pair_as(float lo, float hi, f16) {
    uint32_t p;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(p) : "f"(hi), "f"(lo));
    return p;
}
DEVICE uint32_t pair_as(float lo, float hi, bf16) {
    uint32_t p;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(p) : "f"(hi), "f"(lo));
    return p;
}
DEVICE float power_of_2(float x) {
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else
DEVICE void move16(S *to, const S *from) { *(vec<S, 8> *)to = vec_at<8>(from); }
DEVICE void moves_end(void) {}
DEVICE void moves_wait(void) {}
/* Lane r*4 + k/2 has a's elements (r, k) and the next one, and 8 rows and columns further; lane n*4 + k/2 has b's
 * (k, n) and the next row's. */
DEVICE void attn_multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, S) {
    int l = threadIdx.x % 32, row = l / 4, column = 2 * (l % 4);
    for (int k = 0; k < 8; k++) {
        uint32_t at[2], b[2];
        for (int i = 0; i < 2; i++) {
            at[i] = __shfl_sync(0xffffffffu, k < 4 ? a[i] : a[i + 2], row * 4 + k % 4);
            b[i] = __shfl_sync(0xffffffffu, k < 4 ? b0 : b1, (column + i) * 4 + k % 4);
        }
        for (int i = 0; i < 4; i++)
            c[i] += low_of(at[i / 2]) * low_of(b[i % 2]) + high_of(at[i / 2]) * high_of(b[i % 2]);
    }
}
DEVICE void keys_of(const S (&tile)[TILE][LINE], int n, int k, uint32_t (&b)[4]) {
    int l = threadIdx.x % 32;
    for (int i = 0; i < 4; i++) {
        const S *p = &tile[n + i / 2 * 8 + l / 4][k + i % 2 * 8 + 2 * (l % 4)];
        b[i] = pair_of(p[0], p[1]);
    }
}
DEVICE void values_of(const S (&tile)[TILE][LINE], int k, int n, uint32_t (&b)[4]) {
    int l = threadIdx.x % 32;
    for (int i = 0; i < 4; i++) {
        const S *p = &tile[k + i % 2 * 8 + 2 * (l % 4)][n + i / 2 * 8 + l / 4];
        b[i] = pair_of(p[0], p[LINE]);
    }
}
DEVICE uint32_t pair_as(float lo, float hi, S) { return pair_of(to<S>::put(lo), to<S>::put(hi)); }
DEVICE float power_of_2(float x) { return exp2(x); }
#endif
DEVICE uint32_t pair_of(float lo, float hi) { return pair_as(lo, hi, S()); }

/* Keys or values first..first+TILE-1 of n, zeros behind their ends. */
DEVICE void fill_tile(S (&tile)[TILE][LINE], const S *from, const attn_operand &o, int first, int n, int cols,
                      int vectors) {
    for (int i = threadIdx.x; i < TILE * COLS / 8; i += THREADS) {
        int row = i / (COLS / 8), c = i % (COLS / 8) * 8;
        S *to_line = &tile[row][c];
        const S *line = from + (int64_t)(first + row) * o.row;
        if (vectors && first + row < n && c < cols) {
            move16(to_line, line + c);
            continue;
        }
        for (int e = 0; e < 8; e++)
            to_line[e] = first + row < n && c + e < cols ? line[(c + e) * o.column] : to<S>::put(0.0f);
    }
}

/* Queries of a warp as left operands, rows from `row` on. */
DEVICE void hold_queries(const attn_args &a, const S *q, int64_t row, uint32_t (&held)[COLS / 16][4]) {
    int l = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < COLS / 16; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int64_t r = row + l / 4 + i % 2 * 8;
            int c = k * 16 + i / 2 * 8 + 2 * (l % 4);
            if (a.q_pairs) {
                held[k][i] = r < a.n_queries && c < a.cols ? *(const uint32_t *)(q + r * a.q.row + c) : 0;
                continue;
            }
            S e[2];
            for (int j = 0; j < 2; j++)
                e[j] = r < a.n_queries && c + j < a.cols ? q[r * a.q.row + (c + j) * a.q.column] : to<S>::put(0.0f);
            held[k][i] = pair_of(e[0], e[1]);
        }
}

/* What a lane knows of its two rows: the largest score, its part of the sum, its columns of the result. */
struct attn_rows {
    int64_t row[2];
    attn_seen seen[2];
    float top[2], sum[2], y[COLS / 8][4];
#ifdef DROPOUT
    attn_draw draw;
#endif
};

/* The mask's elements for a tile of scores, loaded without a branch and long before they are used: what lies behind the
 * last key or query is that one's, and not looked at. */
struct attn_masks {
    vec<M, 2> m[TILE / 8][2];
};
DEVICE void hold_masks(const attn_args &a, const attn_head &x, const attn_rows &r, int first, attn_masks &held) {
#ifdef MASKED
    if (!x.mask) return;
    int last = x.n_keys - 1, j = first + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const M *line = x.mask + min(r.row[i], a.n_queries - 1) * a.mask_strides[2];
#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
            if (a.mask_pairs)
                held.m[n][i] = vec_at<2>(line + min(j + n * 8, last & ~1));
            else
                for (int e = 0; e < 2; e++) held.m[n][i].e[e] = line[min(j + n * 8 + e, last) * a.mask_strides[3]];
    }
#endif
}
DEVICE float held_bias(const attn_head &x, const attn_masks &held, int n, int i, int e) {
#ifdef MASKED
    if (x.mask) return attn_bias(held.m[n][i].e[e]);
#endif
    return 0;
}

DEVICE void score_tile(const attn_args &a, const attn_head &x, const attn_rows &r, const attn_masks &held, int first,
                       float (&s)[TILE / 8][4]) {
    int j = first + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int n = 0; n < TILE / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[n][e] = attn_score(a, x, r.seen[e / 2], j + n * 8 + e % 2, s[n][e], held_bias(x, held, n, e / 2, e % 2));
}

/* Scores to powers of 2; sum and result to the new scale. */
DEVICE void weigh_tile(attn_rows &r, float (&s)[TILE / 8][4]) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float top = r.top[i], sum = 0;
#pragma unroll
        for (int n = 0; n < TILE / 8; n++) top = attn_larger(attn_larger(top, s[n][2 * i]), s[n][2 * i + 1]);
        for (int d = 1; d < 4; d <<= 1) top = attn_larger(top, __shfl_xor_sync(0xffffffffu, top, d));
        float base = attn_base(top), by = power_of_2(r.top[i] - base);
        r.top[i] = top;
#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
#pragma unroll
            for (int e = 2 * i; e < 2 * i + 2; e++) {
                s[n][e] = power_of_2(s[n][e] - base);
                sum += s[n][e];
            }
        r.sum[i] = r.sum[i] * by + sum;
#pragma unroll
        for (int n = 0; n < COLS / 8; n++) r.y[n][2 * i] *= by, r.y[n][2 * i + 1] *= by;
    }
}

#ifdef DROPOUT
/* Powers of shares that do not stay to 0. Of four keys side by side two lanes have two rows each: where a block of four
 * numbers is theirs, the even lane draws the first row's, the odd one the second's, and they tell each other. */
DEVICE void drop_tile(const attn_args &a, attn_rows &r, int64_t bh, int first, float (&s)[TILE / 8][4]) {
    int odd = threadIdx.x & 1, j = first + (threadIdx.x & 2) * 2;
    if (a.n_keys % 4 != 0) {
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int n = 0; n < TILE / 8; n++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    if (!attn_stays(r.draw, (bh * a.n_queries + r.row[i]) * a.n_keys + j + n * 8 + 2 * odd + e))
                        s[n][2 * i + e] = 0;
        return;
    }
    int64_t block = ((bh * a.n_queries + (odd ? r.row[1] : r.row[0])) * a.n_keys + j) / 4;
    uint32_t own = 0;
#pragma unroll
    for (int n = 0; n < TILE / 8; n++) {
        nck_philox4(r.draw.seed, r.draw.node, r.draw.step, (uint64_t)(block + 2 * n), r.draw.words);
#pragma unroll
        for (int k = 0; k < 4; k++) own |= (uint32_t)(r.draw.words[k] >> 8 >= r.draw.limit) << (4 * n + k);
    }
    uint32_t other = __shfl_xor_sync(0xffffffffu, own, 1), stay[2] = {odd ? other : own, odd ? own : other};
#pragma unroll
    for (int n = 0; n < TILE / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (!(stay[e / 2] >> (4 * n + 2 * odd + e % 2) & 1)) s[n][e] = 0;
}
#endif

DEVICE void attend_tile(const attn_args &a, const attn_head &x, int64_t bh, const uint32_t (&q)[COLS / 16][4],
                        const S (&keys)[TILE][LINE], const S (&values)[TILE][LINE], int first, attn_rows &r) {
    float s[TILE / 8][4] = {{0}};
    uint32_t b[4];
    attn_masks held;
    hold_masks(a, x, r, first, held);
#pragma unroll
    for (int k = 0; k < COLS / 16; k++)
#pragma unroll
        for (int n = 0; n < TILE / 16; n++) {
            keys_of(keys, n * 16, k * 16, b);
            attn_multiply(s[2 * n], q[k], b[0], b[1], S());
            attn_multiply(s[2 * n + 1], q[k], b[2], b[3], S());
        }
    score_tile(a, x, r, held, first, s);
    weigh_tile(r, s);
#ifdef DROPOUT
    drop_tile(a, r, bh, first, s);
#endif
#pragma unroll
    for (int k = 0; k < TILE / 16; k++) {
        uint32_t p[4] = {pair_of(s[2 * k][0], s[2 * k][1]), pair_of(s[2 * k][2], s[2 * k][3]),
                         pair_of(s[2 * k + 1][0], s[2 * k + 1][1]), pair_of(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
        for (int n = 0; n < COLS / 16; n++) {
            values_of(values, k * 16, n * 16, b);
            attn_multiply(r.y[2 * n], p, b[0], b[1], S());
            attn_multiply(r.y[2 * n + 1], p, b[2], b[3], S());
        }
    }
}

DEVICE int64_t n_blocks_of(const attn_args &a) { return (a.n_queries + QUERIES - 1) / QUERIES; }

DEVICE void store_rows(const attn_args &a, const attn_head &x, attn_rows &r) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float sum = r.sum[i];
        for (int d = 1; d < 4; d <<= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
        float by = sum == 0 ? 0.0f : 1 / sum;
#ifdef DROPOUT
        by *= (float)a.drop.by;
#endif
        if (r.row[i] >= a.n_queries) continue;
        if (a.stats && threadIdx.x % 4 == 0)
            a.stats[blockIdx.x / n_blocks_of(a) * a.n_queries + r.row[i]] = attn_stat(r.top[i], sum);
        S *y = x.y + r.row[i] * a.y.row;
#pragma unroll
        for (int n = 0; n < COLS / 8; n++) {
            int c = n * 8 + 2 * (threadIdx.x % 4);
            float lo = r.y[n][2 * i] * by, hi = r.y[n][2 * i + 1] * by;
            if (a.pairs && c < a.cols_v) *(uint32_t *)(y + c) = pair_of(lo, hi);
            if (!a.pairs && c < a.cols_v) y[c * a.y.column] = to<S>::put(lo);
            if (!a.pairs && c + 1 < a.cols_v) y[(c + 1) * a.y.column] = to<S>::put(hi);
        }
    }
}

/* One block for 64 queries of a head, the last ones first: under a causal mask they take longest. */
extern "C" __global__ __launch_bounds__(THREADS) void attend(attn_args a) {
    wait_for_earlier();
    __shared__ __align__(16) S keys[2][TILE][LINE], values[2][TILE][LINE];
    int64_t n_blocks = n_blocks_of(a), start = (n_blocks - 1 - blockIdx.x % n_blocks) * QUERIES;
    attn_head x = attn_head_of(a, blockIdx.x / n_blocks);
    attn_rows r;
    uint32_t q[COLS / 16][4];
    int64_t row = start + threadIdx.x / 32 * 16, last = min(start + QUERIES, a.n_queries) - 1;
    for (int i = 0; i < 2; i++) {
        r.row[i] = row + threadIdx.x % 32 / 4 + i * 8;
        r.seen[i] = attn_seen_by(a, x, r.row[i]);
        if (r.row[i] >= a.n_queries) r.seen[i].end = r.seen[i].first = 0;
        r.top[i] = -INF, r.sum[i] = 0;
    }
#ifdef DROPOUT
    r.draw = attn_draw_of(a);
#endif
    for (int n = 0; n < COLS / 8; n++)
        for (int e = 0; e < 4; e++) r.y[n][e] = 0;
    int first = attn_seen_by(a, x, start).first / TILE * TILE, end = attn_seen_by(a, x, last).end, now = 0;
    if (first < end) {
        fill_tile(keys[0], x.k, a.k, first, x.n_keys, (int)a.cols, a.vectors);
        fill_tile(values[0], x.v, a.v, first, x.n_keys, (int)a.cols_v, a.vectors);
    }
    moves_end();
    hold_queries(a, x.q, row, q);
    for (; first < end; first += TILE, now ^= 1) {
        if (first + TILE < end) {
            fill_tile(keys[now ^ 1], x.k, a.k, first + TILE, x.n_keys, (int)a.cols, a.vectors);
            fill_tile(values[now ^ 1], x.v, a.v, first + TILE, x.n_keys, (int)a.cols_v, a.vectors);
        }
        moves_end();
        moves_wait();
        __syncthreads();
        attend_tile(a, x, blockIdx.x / n_blocks, q, keys[now], values[now], first, r);
        __syncthreads();
    }
    store_rows(a, x, r);
}
