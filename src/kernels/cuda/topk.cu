/* cuda/topk.cu: the first k of every line (outer, axis, inner) in order of value: a block for each line. Few of them
 * are picked one after the other, many by sorting the places of all. Equal values come in the order of their places;
 * NaN counts as larger than anything. Blocks of 256. */
enum { TOPK_THREADS = 256 };

struct topk_args { /* mirrors topk_args of topk.c */
    int64_t outer, axis, inner, k;
    int64_t n_sorted; /* a power of two, at least axis */
    int largest, unused;
};

/* Does place a of the line come before b? Places outside of the line come last. */
DEVICE bool comes_before(const topk_args &p, const S *line, int64_t a, int64_t b) {
    if (a >= p.axis || b >= p.axis) return a < b;
    int c = order_of(to<A>::put(get(line[a * p.inner])), to<A>::put(get(line[b * p.inner])));
    return c != 0 ? (c > 0) == (p.largest != 0) : a < b;
}

DEVICE const S *line_of(const topk_args &p, const S *x, int64_t line) {
    return x + line / p.inner * p.axis * p.inner + line % p.inner;
}

DEVICE void put_out(const topk_args &p, const S *from, int64_t line, int64_t i, int64_t place, S *values,
                    int64_t *indices) {
    int64_t at = (line / p.inner * p.k + i) * p.inner + line % p.inner;
    if (values) values[at] = from[place * p.inner];
    if (indices) indices[at] = place;
}

extern "C" __global__ __launch_bounds__(256) void topk_pick(topk_args p, const S *__restrict__ x, S *values,
                                                            int64_t *indices) {
    __shared__ int64_t best[TOPK_THREADS];
    for (int64_t line = blockIdx.x; line < p.outer * p.inner; line += gridDim.x) {
        const S *from = line_of(p, x, line);
        int64_t last = -1;
        for (int64_t i = 0; i < p.k; i++) {
            int64_t mine = p.axis;
            for (int64_t a = threadIdx.x; a < p.axis; a += TOPK_THREADS)
                if ((last < 0 || comes_before(p, from, last, a)) && comes_before(p, from, a, mine)) mine = a;
            best[threadIdx.x] = mine;
            __syncthreads();
            for (int d = TOPK_THREADS / 2; d > 0; d /= 2) {
                if ((int)threadIdx.x < d && comes_before(p, from, best[threadIdx.x + d], best[threadIdx.x]))
                    best[threadIdx.x] = best[threadIdx.x + d];
                __syncthreads();
            }
            last = best[0];
            __syncthreads();
            if (threadIdx.x == 0) put_out(p, from, line, i, last, values, indices);
        }
    }
}

/* places (lines in work at once, n_sorted): bitonic merging of the places of a line. */
extern "C" __global__ __launch_bounds__(256) void topk_sort(topk_args p, const S *__restrict__ x, S *values,
                                                            int64_t *indices, int64_t *places) {
    int64_t *mine = places + blockIdx.x * p.n_sorted;
    for (int64_t line = blockIdx.x; line < p.outer * p.inner; line += gridDim.x) {
        const S *from = line_of(p, x, line);
        for (int64_t i = threadIdx.x; i < p.n_sorted; i += TOPK_THREADS) mine[i] = i;
        __syncthreads();
        for (int64_t run = 2; run <= p.n_sorted; run *= 2)
            for (int64_t step = run / 2; step > 0; step /= 2) {
                for (int64_t i = threadIdx.x; i < p.n_sorted / 2; i += TOPK_THREADS) {
                    int64_t a = i / step * 2 * step + i % step, u = mine[a], v = mine[a + step];
                    if (comes_before(p, from, v, u) == ((a & run) == 0)) mine[a] = v, mine[a + step] = u;
                }
                __syncthreads();
            }
        for (int64_t i = threadIdx.x; i < p.k; i += TOPK_THREADS) put_out(p, from, line, i, mine[i], values, indices);
        __syncthreads();
    }
}
