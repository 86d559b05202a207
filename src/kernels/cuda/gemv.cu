/* cuda/gemv.cu: products of one row, which are the reading of B; see gemv.cuh. Elements of B lie side by side along N
 * (gemv_columns, gemv_narrow) or along K (gemv_rows), in whole vectors of V, all aligned. A thread has several vectors
 * under way; the first ones, if B is a constant, before the kernel in front of this one has ended.
 *
 * Along N the rows of B are cut into splits, where there would be too few blocks; the last block of a group of columns
 * to be done joins them in their order. Accumulation: in A; over the threads of a block by a fixed tree. */
enum { V = 16 / sizeof(S), THREADS = 512, WARPS = THREADS / 32 };

typedef vec<uint32_t, 4> words;
enum { PER_WORD = 4 / sizeof(S) };
DEVICE A element_of(const words &x, int i) { return element(x.e[i / PER_WORD], i % PER_WORD, S()); }
DEVICE words words_at(const S *p) { return vec_at<4>((const uint32_t *)p); }

/* The part that this thread works on, `half` of a pair, and which of its blocks this is. */
DEVICE gemv_part part_here(const gemv_args &g, int half, int &block) {
    int at = blockIdx.x;
    gemv_part p = g.part[0];
#pragma unroll
    for (int i = 1; i < PARTS; i++)
        if (i < g.n_parts && (MATS > 1 ? half == i : at >= g.part[i].first)) p = g.part[i];
    block = at - (int)p.first;
    return p;
}

/* The sums of all splits in the block that comes last; false: another one has them. */
template <int SUMS> DEVICE bool join_splits(const gemv_args &g, A (&sums)[SUMS]) {
    __shared__ bool last;
    int64_t step = gridDim.x * (int64_t)SUMS;
    A *part = g.partial + (blockIdx.x * (int64_t)SUMS + threadIdx.x);
    if (threadIdx.x < SUMS) part[blockIdx.y * step] = sums[threadIdx.x];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicInc(g.counters + blockIdx.x, (uint32_t)g.n_splits - 1) == (uint32_t)g.n_splits - 1;
    __syncthreads();
    if (!last) return false;
    __threadfence();
    A sum = 0;
    for (int64_t s = 0; s < g.n_splits && threadIdx.x < SUMS; s++) sum += __ldcg(part + s * step);
    if (threadIdx.x < SUMS) sums[threadIdx.x] = sum;
    __syncthreads();
    return true;
}

/* The sums of the lanes LANES, 2 * LANES ... apart: each of these is left with some of the V, from the number that it
 * returns on. Each exchange halves what a lane has; with one left lanes add to the same. */
template <int LANES> DEVICE int scatter_sums(A (&sum)[V]) {
    int own = 0;
#pragma unroll
    for (int d = 16, n = V / 2; d >= LANES; d >>= 1, n >>= 1) {
        bool upper = threadIdx.x & d;
        if (n == 0) sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], d);
#pragma unroll
        for (int e = 0; e < n; e++) {
            A kept = upper ? sum[e + n] : sum[e], sent = upper ? sum[e] : sum[e + n];
            sum[e] = kept + __shfl_xor_sync(0xffffffffu, sent, d);
        }
        if (upper) own += n;
    }
    return own;
}

/* LANES lanes of a warp stand side by side over columns, V each; the others, and the warps, over rows; of a pair each
 * half of the warps over one B. */
template <int LANES> DEVICE void columns(const gemv_args &g) {
    enum { OF_HALF = THREADS / MATS, ROWS = OF_HALF / LANES, AT_ONCE = NORMS ? 5 : 6 };
    enum { LEFT = V * LANES > 32 ? V * LANES / 32 : 1 }; /* sums of a lane */
    enum { COLUMNS = LANES * V, SUMS = MATS * COLUMNS + NORMS }; /* columns, then squares */
    __shared__ A warps[WARPS][COLUMNS + NORMS], sums[SUMS];
    int block, K = (int)g.K, splits = (int)g.n_splits, per = (K + splits - 1) / splits;
    int k = min((int)blockIdx.y * per, K), end = min(k + per, K), lane = threadIdx.x % LANES, s = threadIdx.x;
    gemv_part p = part_here(g, threadIdx.x / OF_HALF, block);
    k += threadIdx.x % OF_HALF / LANES;
    const S *b = p.b + (k * p.step + min((block * (int64_t)LANES + lane) * V, p.N - V));
    const int64_t step = ROWS * p.step, n = block * (int64_t)COLUMNS + s;
    words held[AT_ONCE];
    S by[AT_ONCE], scaled[AT_ONCE];
    A sum[V], squares = 0, added = 0;
    if (!g.constant) wait_for_earlier();
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++, b += step)
        if (k + u * ROWS < end) held[u] = once_at(b);
    if (g.constant) wait_for_earlier();
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++)
        if (k + u * ROWS < end) {
            by[u] = g.x[k + u * ROWS];
            if (NORMS) scaled[u] = g.scale[k + u * ROWS];
        }
    if (MATS == 1 && s < COLUMNS && n < p.N) added = beside(p, n);
#pragma unroll
    for (int e = 0; e < V; e++) sum[e] = 0;
    for (; k < end; k += AT_ONCE * ROWS)
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++, b += step) {
            int next = k + (AT_ONCE + u) * ROWS;
            if (k + u * ROWS < end) {
                A x = (A)get(by[u]);
                squares = fma(x, x, squares);
                if (NORMS) x *= (A)get(scaled[u]);
#pragma unroll
                for (int e = 0; e < V; e++) sum[e] = fma(x, element_of(held[u], e), sum[e]);
            }
            if (next < end) {
                held[u] = once_at(b), by[u] = g.x[next];
                if (NORMS) scaled[u] = g.scale[next];
            }
        }
    int own = scatter_sums<LANES>(sum);
#pragma unroll
    for (int e = 0; e < LEFT; e++) warps[s / 32][lane * V + own + e] = sum[e];
    if (NORMS) {
        for (int d = LANES; d < 32; d <<= 1) squares += __shfl_xor_sync(0xffffffffu, squares, d);
        if (s % 32 == 0) warps[s / 32][COLUMNS] = squares;
    }
    __syncthreads();
    if (s < SUMS) {
        int half = s < MATS * COLUMNS ? s / COLUMNS : 0;
        A all = 0;
#pragma unroll
        for (int w = 0; w < WARPS / MATS; w++)
            all += warps[half * (WARPS / MATS) + w][s < MATS * COLUMNS ? s % COLUMNS : COLUMNS];
        sums[s] = all;
    }
    __syncthreads();
    if (splits > 1 && !join_splits<SUMS>(g, sums)) return;
    A by_norm = NORMS ? norm_of(g, sums[SUMS - 1]) : (A)1;
    if (s >= COLUMNS || n >= p.N) return;
#ifdef PAIRED
    put_pair(g, n, sums[s] * by_norm, sums[s + COLUMNS] * by_norm);
#else
    p.y[n] = to<S>::put(g.alpha * (sums[s] * by_norm) + added);
#endif
}

/* Grids of (blocks of 4 or 2 vectors of columns, splits), blocks of THREADS. */
extern "C" __global__ __launch_bounds__(512, 2) void gemv_columns(gemv_args g) { columns<4>(g); }
extern "C" __global__ __launch_bounds__(512, 2) void gemv_narrow(gemv_args g) { columns<2>(g); }

/* A warp for each column of each B, grids of N * MATS / 4, blocks of 128. */
extern "C" __global__ __launch_bounds__(128) void gemv_rows(gemv_args g) {
    enum { STEP = 32 * V, AT_ONCE = 8, OF_BLOCK = 4 / MATS };
    int block, K = (int)g.K, k = threadIdx.x % 32 * V, warp = threadIdx.x / 32;
    gemv_part p = part_here(g, warp / OF_BLOCK, block);
    int64_t n = block * (int64_t)OF_BLOCK + warp % OF_BLOCK;
    const S *b = p.b + (min(n, p.N - 1) * p.step + k), *x = g.x + k;
    words held[AT_ONCE];
    A sum = 0, squares = 0;
    if (!g.constant) wait_for_earlier();
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++, b += STEP)
        if (k + u * STEP < K) held[u] = once_at(b);
    if (g.constant) wait_for_earlier();
    for (; k < K; k += AT_ONCE * STEP)
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++, b += STEP, x += STEP) {
            if (k + u * STEP < K) {
                words by = words_at(x);
#pragma unroll
                for (int e = 0; e < V; e++) {
                    A v = element_of(by, e);
                    if (NORMS) squares = fma(v, v, squares), v *= (A)get(g.scale[k + u * STEP + e]);
                    sum = fma(v, element_of(held[u], e), sum);
                }
            }
            if (k + (AT_ONCE + u) * STEP < K) held[u] = once_at(b);
        }
    for (int d = 16; d > 0; d >>= 1) {
        sum += __shfl_xor_sync(0xffffffffu, sum, d);
        if (NORMS) squares += __shfl_xor_sync(0xffffffffu, squares, d);
    }
    if (NORMS) sum *= norm_of(g, squares);
#ifdef PAIRED
    __shared__ A pair[4];
    if (threadIdx.x % 32 == 0) pair[warp] = sum;
    __syncthreads();
    if (threadIdx.x % 32 == 0 && warp < OF_BLOCK && n < p.N) put_pair(g, n, pair[warp], pair[warp + OF_BLOCK]);
#else
    if (threadIdx.x % 32 == 0 && n < p.N) p.y[n] = to<S>::put(g.alpha * sum + beside(p, n));
#endif
}
