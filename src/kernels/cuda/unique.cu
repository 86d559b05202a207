/* cuda/unique.cu: which of n rows are new. Words whose lower halves are the places of the rows come in the order of the
 * rows, equal ones in that of their places: from sort.cu, one piece of the rows' elements after the other, or from one
 * block that compares whole rows. Then groups of equal rows are numbered, by value or by where each was seen first, as
 * compact.cu counts: blocks count in their own stretch, one adds up, blocks write. Blocks of 256. */
enum { UNIQUE_THREADS = 256 };

/* Rows lie row_stride elements apart, their elements at outer * outer_stride + inner. Mirrors that of unique.c. */
struct unique_args {
    int64_t n, row_stride, outers, outer_stride, inners;
    int64_t n_sorted; /* a power of two, at least n */
    int64_t sorted;   /* by value */
};

DEVICE int64_t place_of(uint64_t word) { return (int64_t)(word & 0xffffffffu); }

DEVICE int order_of_rows(const unique_args &u, const S *x, int64_t a, int64_t b) {
    for (int64_t o = 0; o < u.outers; o++)
        for (int64_t i = 0; i < u.inners; i++) {
            int64_t at = o * u.outer_stride + i;
            int c = order_of(to<A>::put(get(x[a * u.row_stride + at])), to<A>::put(get(x[b * u.row_stride + at])));
            if (c != 0) return c;
        }
    return 0;
}

/* words (n): 32 bits from `shift` on of element `at` of the rows in the order so far (NULL: as they lie), above their
 * places. */
extern "C" __global__ void unique_words(unique_args u, int64_t at, int shift, const S *__restrict__ x,
                                        const uint64_t *so_far, uint64_t *words) {
    int64_t outer = quotient(at, u.inners), element = outer * u.outer_stride + at - outer * u.inners;
    for (int64_t i = first_item(); i < u.n; i += item_step()) {
        int64_t place = so_far ? place_of(so_far[i]) : i;
        words[i] = rank_of(x[place * u.row_stride + element]) >> shift << 32 | (uint64_t)place;
    }
}

/* Places outside of the rows come last. */
DEVICE bool comes_before(const unique_args &u, const S *x, int64_t a, int64_t b) {
    int c = a < u.n && b < u.n ? order_of_rows(u, x, a, b) : 0;
    return c != 0 ? c < 0 : a < b;
}

/* words (n_sorted), by bitonic merging in one block */
extern "C" __global__ __launch_bounds__(256) void unique_sort(unique_args u, const S *__restrict__ x, uint64_t *words) {
    for (int64_t i = threadIdx.x; i < u.n_sorted; i += UNIQUE_THREADS) words[i] = (uint64_t)i;
    __syncthreads();
    for (int64_t run = 2; run <= u.n_sorted; run *= 2)
        for (int64_t step = run / 2; step > 0; step /= 2) {
            for (int64_t i = threadIdx.x; i < u.n_sorted / 2; i += UNIQUE_THREADS) {
                int64_t a = i / step * 2 * step + i % step;
                uint64_t p = words[a], q = words[a + step];
                if (comes_before(u, x, (int64_t)q, (int64_t)p) == ((a & run) == 0)) words[a] = q, words[a + step] = p;
            }
            __syncthreads();
        }
}

/* What a group is called: its number by value, or by where it was seen first; start (n + 1): of each in the order. */
struct unique_out {
    uint8_t *flags;                                    /* n: of what begins a group, of what is seen first */
    int64_t *counts;                                   /* of blocks, those before each, and of all */
    int64_t *start, *number, *first, *count, *inverse; /* each n or more; count and inverse may be NULL */
    int64_t *sizes;                                    /* (4, MAX_RANK): of the n_out results */
    int64_t n_out, rank, axis, dims[MAX_RANK];         /* of result 0, `axis` of them being the count */
};

extern "C" __global__ void unique_begins(unique_args u, unique_out y, const S *__restrict__ x,
                                         const uint64_t *__restrict__ words) {
    for (int64_t i = first_item(); i < u.n; i += item_step())
        y.flags[i] = i == 0 || order_of_rows(u, x, place_of(words[i - 1]), place_of(words[i])) != 0;
}
/* Where inverse names groups by their value. */
extern "C" __global__ void unique_firsts(unique_args u, unique_out y, const uint64_t *__restrict__ words) {
    for (int64_t i = first_item(); i < u.n; i += item_step())
        y.flags[i] = place_of(words[y.start[y.inverse[i]]]) == i;
}

DEVICE int64_t stretch(int64_t n) {
    int64_t tiles = (n + UNIQUE_THREADS - 1) / UNIQUE_THREADS;
    return (tiles + gridDim.x - 1) / gridDim.x * UNIQUE_THREADS;
}
extern "C" __global__ __launch_bounds__(256) void unique_count(unique_args u, unique_out y) {
    int64_t each = stretch(u.n), start = blockIdx.x * each, mine = 0;
    for (int64_t i = start + threadIdx.x; i < start + each && i < u.n; i += UNIQUE_THREADS) mine += y.flags[i];
    mine = join_row<join_sum>(mine);
    if (threadIdx.x == 0) y.counts[blockIdx.x] = mine;
}

/* How many of the block's threads up to this one, and of the tiles before, have set; *before grows by the tile's. */
DEVICE int64_t count_set(int64_t set, int64_t *before) {
    __shared__ int64_t warps[UNIQUE_THREADS / 32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t own = set, earlier = 0, all = 0;
    for (int d = 1; d < 32; d *= 2) {
        int64_t up = __shfl_up_sync(0xffffffffu, own, d);
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

/* One block. */
extern "C" __global__ __launch_bounds__(256) void unique_add(unique_args u, unique_out y, int64_t blocks) {
    int64_t total = 0;
    for (int64_t tile = 0; tile < blocks; tile += UNIQUE_THREADS) {
        int64_t i = tile + threadIdx.x, own = i < blocks ? y.counts[i] : 0, sum = count_set(own, &total);
        if (i < blocks) y.counts[i] = sum - own;
    }
    if (threadIdx.x != 0) return;
    y.counts[blocks] = total;
    y.start[total] = u.n;
    for (int64_t d = 0; d < y.rank; d++) y.sizes[d] = d == y.axis ? total : y.dims[d];
    for (int64_t i = 1; i < y.n_out; i++) y.sizes[i * MAX_RANK] = i == 2 ? u.n : total;
}

/* seen: flags are of what is seen first, and numbered are groups by that; else by their value. */
extern "C" __global__ __launch_bounds__(256) void unique_number(unique_args u, unique_out y, int seen,
                                                                const uint64_t *__restrict__ words) {
    int64_t each = stretch(u.n), start = blockIdx.x * each, before = y.counts[blockIdx.x];
    for (int64_t tile = start; tile < start + each && tile < u.n; tile += UNIQUE_THREADS) {
        int64_t i = tile + threadIdx.x;
        bool there = i < u.n, set = there && y.flags[i];
        int64_t number = count_set(set, &before) - 1;
        if (seen && set) y.number[y.inverse[i]] = number;
        if (!seen && set) y.start[number] = i, y.number[number] = number;
        if (!seen && there && y.inverse) y.inverse[place_of(words[i])] = number;
    }
}

extern "C" __global__ void unique_name(unique_args u, unique_out y, int64_t blocks,
                                       const uint64_t *__restrict__ words) {
    int64_t total = y.counts[blocks];
    for (int64_t i = first_item(); i < u.n; i += item_step()) {
        if (!u.sorted) y.inverse[i] = y.number[y.inverse[i]];
        if (i >= total) continue;
        y.first[y.number[i]] = place_of(words[y.start[i]]);
        if (y.count) y.count[y.number[i]] = y.start[i + 1] - y.start[i];
    }
}
