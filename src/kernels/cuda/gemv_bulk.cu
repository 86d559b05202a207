/* cuda/gemv_bulk.cu: products of one row over constant B of a half type whose elements lie side by side along N, where
 * the GPU copies boxes of a matrix by itself; see gemv.cuh, bulk.cuh.
 *
 * A block takes COLUMNS columns and a share of K; boxes of BOX rows go into a ring of shared memory, the first ones
 * before the kernel in front has ended. Each warp meets tiles of 16 rows with x on tensor cores, where x is the first
 * row of the left operand, and of a normed x, which a half type does not hold, what is left of it the second. Shares of
 * K are a cluster; its first block joins them in their order. Accumulation: in f32. */
#if !defined STANDIN && __CUDA_ARCH__ >= 900
enum { COLUMNS = 64, BOX = 64, WARPS = 8, TILE = 16, TILES = BOX / TILE, LINE_BYTES = 128 };
enum { BYTES_RING = 96 << 10, BOX_BYTES = BOX * LINE_BYTES, STAGE = MATS * BOX_BYTES };
enum { STAGES = BYTES_RING / STAGE, MOST_SPLITS = 8, SUMS = MATS * COLUMNS + 4 * NORMS };
static_assert(STAGES % (WARPS / TILES) == 0, "a place of the ring is always met by the same warps");
enum { AHEAD = MATS > 1 ? 3 : 5 }; /* boxes that are asked for at once */
/* Of x as it is multiplied, so that scales do not bring it out of range. */
#define LESSENED (NORMS ? 1.0f / 256 : 1.0f)

struct alignas(128) tensor_map { uint64_t words[16]; };
/* Mirrors bulk_args in gemv.c. */
struct bulk_args {
    gemv_args g;
    tensor_map map[PARTS];
};

/* c (16,8) += a (16,16) * b (16,8), rows 8 on of a are 0. */
DEVICE void multiply(float (&c)[4], uint32_t a0, uint32_t a2, uint32_t b0, uint32_t b1, f16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%5}, {%7,%8}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(0), "r"(a2), "r"(b0), "r"(b1));
}
DEVICE void multiply(float (&c)[4], uint32_t a0, uint32_t a2, uint32_t b0, uint32_t b1, bf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%5}, {%7,%8}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(0), "r"(a2), "r"(b0), "r"(b1));
}
DEVICE void read_tiles(uint32_t at, uint32_t (&b)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(at) : "memory");
}

/* What this block works on. */
struct share {
    int part, block, first, range, n; /* part; columns block * COLUMNS on; rows first.., range of them; boxes */
    int places;                       /* of the ring that are used */
};
DEVICE share share_here(const gemv_args &g) {
    share s;
    int at = blockIdx.x, K = (int)g.K, n = (int)g.n_splits, per = ((K + BOX - 1) / BOX + n - 1) / n;
    s.part = 0;
    for (int i = 1; i < PARTS; i++)
        if (MATS == 1 && i < g.n_parts && at >= g.part[i].first) s.part = i;
    s.block = at - (int)g.part[s.part].first;
    s.first = min((int)blockIdx.y * per * BOX, K);
    s.range = min(per * BOX, K - s.first);
    s.n = (s.range + BOX - 1) / BOX;
    s.places = min(per, (int)STAGES);
    return s;
}

/* Box i, all B of it. */
DEVICE void ask_box(const bulk_args &a, const share &s, int i, uint32_t ring, uint32_t full) {
    int slot = i % STAGES;
    bar_expect(full + 8 * slot, STAGE);
#pragma unroll
    for (int m = 0; m < MATS; m++)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];"
                     : : "r"(ring + slot * STAGE + m * BOX_BYTES), "l"(&a.map[MATS > 1 ? m : s.part]),
                       "r"(s.block * COLUMNS), "r"(s.first + i * BOX), "r"(full + 8 * slot) : "memory");
}

/* Rows of x into shared memory, zeros up to whole boxes; returns what this thread adds to the sum of squares. A thread
 * takes 8 rows at once; what lies behind the end of K is not read. */
DEVICE A put_x(const gemv_args &g, const share &s, S *x, S *rest) {
    enum { V = 8 };
    A squares = 0;
    const S *from = g.x + s.first, *scale = g.scale + s.first;
    bool whole = ((uint64_t)from | (NORMS ? (uint64_t)scale : 0)) % 16 == 0;
    for (int i = threadIdx.x * V; i < s.n * BOX; i += WARPS * 32 * V) {
        alignas(16) S v[V], by[V], low[V];
        if (whole && i + V <= s.range) {
            *(vec<uint32_t, 4> *)v = vec_at<4>((const uint32_t *)(from + i));
            if (NORMS) *(vec<uint32_t, 4> *)by = vec_at<4>((const uint32_t *)(scale + i));
        } else {
#pragma unroll
            for (int e = 0; e < V; e++) {
                v[e] = i + e < s.range ? from[i + e] : to<S>::put(0.0f);
                if (NORMS) by[e] = i + e < s.range ? scale[i + e] : to<S>::put(0.0f);
            }
        }
#pragma unroll
        for (int e = 0; e < V && NORMS; e++) {
            A y = (A)get(v[e]);
            squares = fma(y, y, squares);
            y *= (A)get(by[e]) * (A)LESSENED;
            v[e] = to<S>::put(y);
            low[e] = to<S>::put(y - (A)get(v[e]));
        }
        *(vec<uint32_t, 4> *)(x + i) = *(const vec<uint32_t, 4> *)v;
        if (NORMS) *(vec<uint32_t, 4> *)(rest + i) = *(const vec<uint32_t, 4> *)low;
    }
    return squares;
}

/* Boxes from i on, one when another has come: more under way than memory needs to be busy would keep what the kernel in
 * front reads waiting. By one thread. */
DEVICE void ask_on(const bulk_args &a, const share &own, int i, uint32_t ring, uint32_t full) {
    const uint32_t empty = full + 8 * STAGES;
#pragma unroll 1
    for (; i < own.n; i++) {
        bar_wait(full + 8 * ((i - AHEAD) % STAGES), (i - AHEAD) / STAGES & 1);
        if (i >= STAGES) bar_wait(empty + 8 * (i % STAGES), (i / STAGES - 1) & 1);
        ask_box(a, own, i, ring, full);
    }
}
/* Of all threads but the last warp's. */
DEVICE void sync_warps(void) { asm volatile("bar.sync 1, 256;" : : : "memory"); }

/* N boxes of this warp, i and those STEP behind it: what lies of them in its tile meets x. */
enum { STEP = WARPS / TILES, AT_ONCE = MATS > 1 ? 1 : 2 };
template <int N> DEVICE void meet_boxes(const share &own, int i, uint32_t ring, uint32_t full, const S *x,
                                        const S *rest, float (&acc)[MATS * 8][4]) {
    const int lane = threadIdx.x % 32, row = lane % TILE, tile = threadIdx.x / 32 % TILES;
    const uint32_t empty = full + 8 * STAGES;
    uint32_t a0[N], a2[N];
#pragma unroll
    for (int u = 0; u < N; u++) {
        const S *from = (lane / 4 ? rest : x) + (i + u * STEP) * BOX + tile * TILE + 2 * (lane % 4);
        bar_wait(full + 8 * ((i + u * STEP) % STAGES), (i + u * STEP) / STAGES & 1);
        a0[u] = a2[u] = 0;
        if (lane / 4 <= NORMS) a0[u] = *(const uint32_t *)from, a2[u] = *(const uint32_t *)(from + 8);
    }
#pragma unroll
    for (int u = 0; u < N; u++)
#pragma unroll
        for (int m = 0; m < MATS; m++)
#pragma unroll
            for (int c = 0; c < 8; c += 2) { /* 16 bytes c of a line lie at c ^ its number, by 8 */
                uint32_t at = ring + (i + u * STEP) % STAGES * STAGE + (tile * TILE + row) * LINE_BYTES, b[4];
                read_tiles(at + m * BOX_BYTES + ((c + lane / TILE) ^ (row & 7)) * 16, b);
                multiply(acc[m * 8 + c], a0[u], a2[u], b[0], b[1], S());
                multiply(acc[m * 8 + c + 1], a0[u], a2[u], b[2], b[3], S());
            }
#pragma unroll
    for (int u = 0; u < N; u++) {
        if (i + u * STEP + STAGES >= own.n) continue;
        __syncwarp();
        if (lane == 0) bar_arrive(empty + 8 * ((i + u * STEP) % STAGES));
    }
}

/* Grids of (groups of COLUMNS, splits), clusters of the splits, blocks of 288, whose last warp asks for boxes; a
 * split's boxes or BYTES_RING of shared memory, 1,024 to align it, and 2 or, NORMED, 4 bytes for each row of a
 * split's boxes. */
extern "C" __global__ __launch_bounds__(288, 2) void gemv_bulk(const __grid_constant__ bulk_args a) {
    extern __shared__ unsigned char memory[];
    __shared__ alignas(16) A warps[WARPS][SUMS], joined[MOST_SPLITS][SUMS];
    __shared__ uint64_t bars[2 * STAGES + 1];
    const gemv_args &g = a.g;
    const share own = share_here(g);
    const gemv_part &p = g.part[own.part];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, splits = (int)g.n_splits;
    const uint32_t ring = (shared_at(memory) + 1023) & ~1023u, full = shared_at(bars), empty = full + 8 * STAGES;
    const uint32_t there = empty + 8 * STAGES;
    S *x = (S *)(memory + (ring - shared_at(memory)) + own.places * STAGE), *rest = x + own.n * BOX;
    if (g.opens) open_next();
    if (t == WARPS * 32) {
#pragma unroll 1
        for (int i = 0; i < STAGES; i++) bar_init(full + 8 * i, 1), bar_init(empty + 8 * i, TILES);
        bar_init(there, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
        if (splits > 1) bar_expect(there, splits * SUMS * 4);
#pragma unroll 1
        for (int i = 0; i < min(own.n, (int)AHEAD); i++) ask_box(a, own, i, ring, full);
    }
    __syncthreads();
    if (splits > 1) {
        asm volatile("barrier.cluster.arrive.aligned;" : : : "memory");
        asm volatile("barrier.cluster.wait.aligned;" : : : "memory");
    }
    if (warp == WARPS) {
        if (lane == 0) ask_on(a, own, AHEAD, ring, full);
        return;
    }
    wait_for_earlier();
    A squares = put_x(g, own, x, rest);
    const int64_t n = own.block * (int64_t)COLUMNS + t;
    const bool puts = t < COLUMNS && n < p.N && blockIdx.y == 0;
#ifndef PAIRED
    A added = puts ? beside(p, n) : (A)0;
#endif
    sync_warps();
    float acc[MATS * 8][4] = {};
    int i = warp / TILES;
#pragma unroll 1
    for (; i + (AT_ONCE - 1) * STEP < own.n; i += AT_ONCE * STEP)
        meet_boxes<AT_ONCE>(own, i, ring, full, x, rest, acc);
    if (AT_ONCE > 1 && i < own.n) meet_boxes<1>(own, i, ring, full, x, rest, acc);
#pragma unroll
    for (int c = 0; c < MATS * 8; c++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            A v = acc[c][e];
            if (NORMS) v += __shfl_xor_sync(0xffffffffu, v, 4);
            if (lane < 4) warps[warp][c * 8 + 2 * lane + e] = v;
        }
    if (NORMS) {
        for (int d = 1; d < 32; d <<= 1) squares += __shfl_xor_sync(0xffffffffu, squares, d);
        if (lane < 4) warps[warp][SUMS - 4 + lane] = squares;
    }
    sync_warps();
    if (t < SUMS / 4) {
        A v[4] = {0, 0, 0, 0};
        for (int w = 0; w < WARPS; w++)
#pragma unroll
            for (int e = 0; e < 4; e++) v[e] += warps[w][t * 4 + e];
        if (splits == 1)
#pragma unroll
            for (int e = 0; e < 4; e++) joined[0][t * 4 + e] = v[e];
        else
            asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
                         : : "r"(in_first(shared_at(&joined[blockIdx.y][t * 4]))), "f"(v[0]), "f"(v[1]), "f"(v[2]),
                           "f"(v[3]), "r"(in_first(there)) : "memory");
    }
    if (blockIdx.y != 0) return;
    if (splits > 1)
        bar_wait(there, 0);
    else
        sync_warps();
    if (!puts) return;
    A sum = 0, second = 0, all = 0;
    for (int s = 0; s < splits; s++) {
        sum += joined[s][t];
        if (MATS > 1) second += joined[s][t + COLUMNS];
        if (NORMS) all += joined[s][SUMS - 1];
    }
    A by = NORMS ? norm_of(g, all) / (A)LESSENED : (A)1;
#ifdef PAIRED
    put_pair(g, n, sum * by, second * by);
#else
    p.y[n] = to<S>::put(g.alpha * (sum * by) + added);
#endif
}
#endif
