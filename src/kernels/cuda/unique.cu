/* cuda/unique.cu: which of n rows are new: a block sorts their places by bitonic merging, then numbers the groups of
 * equal ones, by value or by where each was seen first. Equal rows come in the order of their places. Blocks of 256. */
enum { UNIQUE_THREADS = 256 };

/* Rows lie row_stride elements apart, their elements at outer * outer_stride + inner. Mirrors that of unique.c. */
struct unique_args {
    int64_t n, row_stride, outers, outer_stride, inners;
    int64_t n_sorted; /* a power of two, at least n */
    int64_t sorted;   /* by value */
};

DEVICE int order_of_rows(const unique_args &u, const S *x, int64_t a, int64_t b) {
    for (int64_t o = 0; o < u.outers; o++)
        for (int64_t i = 0; i < u.inners; i++) {
            int64_t at = o * u.outer_stride + i;
            int c = order_of(to<A>::put(get(x[a * u.row_stride + at])), to<A>::put(get(x[b * u.row_stride + at])));
            if (c != 0) return c;
        }
    return 0;
}

/* Places outside of the rows come last. */
DEVICE bool comes_before(const unique_args &u, const S *x, int64_t a, int64_t b) {
    int c = a < u.n && b < u.n ? order_of_rows(u, x, a, b) : 0;
    return c != 0 ? c < 0 : a < b;
}

/* order (n_sorted) */
extern "C" __global__ __launch_bounds__(256) void unique_sort(unique_args u, const S *__restrict__ x, int64_t *order) {
    for (int64_t i = threadIdx.x; i < u.n_sorted; i += UNIQUE_THREADS) order[i] = i;
    __syncthreads();
    for (int64_t run = 2; run <= u.n_sorted; run *= 2)
        for (int64_t step = run / 2; step > 0; step /= 2) {
            for (int64_t i = threadIdx.x; i < u.n_sorted / 2; i += UNIQUE_THREADS) {
                int64_t a = i / step * 2 * step + i % step, p = order[a], q = order[a + step];
                if (comes_before(u, x, q, p) == ((a & run) == 0)) order[a] = q, order[a + step] = p;
            }
            __syncthreads();
        }
}

/* How many of the block's threads up to this one, and of the tiles before, have set; *before grows by the tile's. */
DEVICE int64_t count_set(int set, int64_t *before) {
    __shared__ int warps[UNIQUE_THREADS / 32];
    int own = set, lane = threadIdx.x % 32, warp = threadIdx.x / 32, earlier = 0, all = 0;
    for (int d = 1; d < 32; d *= 2) {
        int up = __shfl_up_sync(0xffffffffu, own, d);
        if (lane >= d) own += up;
    }
    if (lane == 31) warps[warp] = own;
    __syncthreads();
    for (int w = 0; w < UNIQUE_THREADS / 32; w++) {
        if (w < warp) earlier += warps[w];
        all += warps[w];
    }
    __syncthreads();
    int64_t count = *before + earlier + own;
    *before += all;
    return count;
}

/* What a group is called: its number by value, or by where it was seen first; start (n + 1): of each in the order. */
struct unique_out {
    int64_t *start, *number, *first, *count, *inverse; /* each n or more */
    int64_t *total, *sizes;                            /* sizes (4, MAX_RANK): of the n_out results */
    int64_t n_out, rank, axis, dims[MAX_RANK];         /* of result 0, `axis` of them being the count */
};

extern "C" __global__ __launch_bounds__(256) void unique_groups(unique_args u, unique_out y, const S *__restrict__ x,
                                                                const int64_t *__restrict__ order) {
    int64_t total = 0, named = 0;
    for (int64_t tile = 0; tile < u.n; tile += UNIQUE_THREADS) {
        int64_t i = tile + threadIdx.x;
        int is_new = i < u.n && (i == 0 || order_of_rows(u, x, order[i - 1], order[i]) != 0);
        int64_t group = count_set(is_new, &total) - 1;
        if (is_new) y.start[group] = i, y.number[group] = group;
        if (i < u.n) y.inverse[order[i]] = group;
    }
    if (threadIdx.x == 0) y.start[total] = u.n;
    __syncthreads();
    for (int64_t tile = 0; tile < u.n && !u.sorted; tile += UNIQUE_THREADS) {
        int64_t i = tile + threadIdx.x;
        int is_first = i < u.n && order[y.start[y.inverse[i]]] == i;
        int64_t number = count_set(is_first, &named) - 1;
        if (is_first) y.number[y.inverse[i]] = number;
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < u.n; i += UNIQUE_THREADS) y.inverse[i] = y.number[y.inverse[i]];
    for (int64_t g = threadIdx.x; g < total; g += UNIQUE_THREADS) {
        y.first[y.number[g]] = order[y.start[g]];
        y.count[y.number[g]] = y.start[g + 1] - y.start[g];
    }
    if (threadIdx.x != 0) return;
    *y.total = total;
    for (int64_t d = 0; d < y.rank; d++) y.sizes[d] = d == y.axis ? total : y.dims[d];
    for (int64_t i = 1; i < y.n_out; i++) y.sizes[i * MAX_RANK] = i == 2 ? u.n : total;
}
