/* cuda/gemv.cu: y (N) = alpha * x (K) B (+ bias) (+ other): a product of one row, which is the reading of B. Elements
 * of B lie side by side along N (gemv_columns) or along K (gemv_rows), in whole vectors of V, all aligned.
 * Accumulation: in A; over the threads of a block by a fixed tree. */
enum { V = 16 / sizeof(S), AT_ONCE = 8, THREADS = 512, WARPS = THREADS / 32 };

/* Mirrors nck_cuda_gemv_args in gemv.c. */
struct gemv_args {
    int64_t N, K, step; /* elements between rows of B, or between its columns */
    A alpha;
    const S *x, *b, *bias, *other; /* bias and other (N) or NULL */
    S *y;
};

DEVICE void put_sum(const gemv_args &g, int64_t n, A sum) {
    A v = g.alpha * sum;
    if (g.other) v += (A)get(g.other[n]);
    if (g.bias) v += (A)get(g.bias[n]);
    g.y[n] = to<S>::put(v);
}

/* LANES lanes of a warp stand side by side over columns, V each; the others, and the warps, over rows. */
template <int LANES> DEVICE void over_columns(const gemv_args &g) {
    __shared__ A part[WARPS][LANES * V];
    int lane = threadIdx.x % LANES;
    int64_t n = (blockIdx.x * (int64_t)LANES + lane) * V;
    const int64_t rows = THREADS / LANES;
    A sum[V];
#pragma unroll
    for (int e = 0; e < V; e++) sum[e] = 0;
    for (int64_t k = threadIdx.x / LANES; n < g.N && k < g.K; k += AT_ONCE * rows) {
        vec<S, V> held[AT_ONCE];
        A x[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            int64_t at = min(k + u * rows, g.K - 1);
            held[u] = vec_at<V>(g.b + at * g.step + n);
            x[u] = (A)get(g.x[at]);
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            if (k + u * rows < g.K)
#pragma unroll
                for (int e = 0; e < V; e++) sum[e] = fma(x[u], (A)get(held[u].e[e]), sum[e]);
    }
#pragma unroll
    for (int e = 0; e < V; e++) {
        for (int d = LANES; d < 32; d <<= 1) sum[e] += __shfl_xor_sync(0xffffffffu, sum[e], d);
        if (threadIdx.x % 32 < LANES) part[threadIdx.x / 32][lane * V + e] = sum[e];
    }
    __syncthreads();
    int64_t column = blockIdx.x * (int64_t)(LANES * V) + threadIdx.x;
    if (threadIdx.x >= LANES * V || column >= g.N) return;
    A all = 0;
    for (int w = 0; w < WARPS; w++) all += part[w][threadIdx.x];
    put_sum(g, column, all);
}
/* Grids of N / (LANES * V), blocks of THREADS. */
extern "C" __global__ __launch_bounds__(512) void gemv_columns_4(gemv_args g) { over_columns<4>(g); }
extern "C" __global__ __launch_bounds__(512) void gemv_columns_8(gemv_args g) { over_columns<8>(g); }

/* A warp for each column of B, grids of N / 4, blocks of 128. */
extern "C" __global__ __launch_bounds__(128) void gemv_rows(gemv_args g) {
    enum { TURN = 4 };
    int64_t n = blockIdx.x * (int64_t)4 + threadIdx.x / 32, step = 32 * V;
    A sum = 0;
    if (n >= g.N) return;
    const S *line = g.b + n * g.step;
    for (int64_t k = threadIdx.x % 32 * V; k < g.K; k += TURN * step) {
        vec<S, V> held[TURN], x[TURN];
#pragma unroll
        for (int u = 0; u < TURN; u++)
            if (k + u * step < g.K) held[u] = vec_at<V>(line + k + u * step), x[u] = vec_at<V>(g.x + k + u * step);
#pragma unroll
        for (int u = 0; u < TURN; u++)
            if (k + u * step < g.K)
#pragma unroll
                for (int e = 0; e < V; e++) sum = fma((A)get(x[u].e[e]), (A)get(held[u].e[e]), sum);
    }
    for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (threadIdx.x % 32 == 0) put_sum(g, n, sum);
}
