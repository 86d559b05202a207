/* cuda/compact.cu: the places of what is not zero, in order, by three launches: blocks count in their own stretch, one
 * block adds the counts up, blocks write from where they now know to begin. How many there are is known on the device
 * alone. Blocks of 256. U, of the size of a slice's elements, is defined in front. */
#ifndef U
#define U uint32_t
#endif
enum { COMPACT_THREADS = 256 };

struct compact_sizes { /* mirrors nck_cuda_compact_sizes: the dims of the result, `axis` of them being the count */
    int64_t rank, axis, dims[MAX_RANK];
};

DEVICE bool is_set(const S *x, int64_t i) { return get(x[i]) != 0; }

/* The stretch of this block: whole tiles of 256. */
DEVICE int64_t stretch(int64_t n) {
    int64_t tiles = (n + COMPACT_THREADS - 1) / COMPACT_THREADS;
    return (tiles + gridDim.x - 1) / gridDim.x * COMPACT_THREADS;
}

extern "C" __global__ void compact_count(int64_t n, const S *__restrict__ x, int64_t *counts) {
    int64_t each = stretch(n), start = blockIdx.x * each, mine = 0;
    for (int64_t i = start + threadIdx.x; i < start + each && i < n; i += COMPACT_THREADS) mine += is_set(x, i);
    mine = join_row<join_sum>(mine);
    if (threadIdx.x == 0) counts[blockIdx.x] = mine;
}

/* One thread: there are few counts. counts[i] becomes the number before block i, counts[blocks] that of all. */
extern "C" __global__ void compact_add(int64_t blocks, int64_t *counts, compact_sizes s, int64_t *sizes) {
    int64_t sum = 0;
    for (int64_t i = 0; i < blocks; i++) {
        int64_t c = counts[i];
        counts[i] = sum;
        sum += c;
    }
    counts[blocks] = sum;
    for (int64_t d = 0; d < s.rank; d++) sizes[d] = d == s.axis ? sum : s.dims[d];
}

struct compact_shape { int64_t rank, dims[MAX_RANK]; };

/* places (rank, count) = the coordinates in x (shape) of what is set. */
extern "C" __global__ void compact_write(int64_t n, compact_shape shape, const S *__restrict__ x,
                                         const int64_t *__restrict__ counts, int64_t *places) {
    __shared__ int warps[COMPACT_THREADS / 32];
    int64_t each = stretch(n), start = blockIdx.x * each, total = counts[gridDim.x], at = counts[blockIdx.x];
    for (int64_t tile = start; tile < start + each && tile < n; tile += COMPACT_THREADS) {
        int64_t i = tile + threadIdx.x;
        int set = i < n && is_set(x, i), before = set;
        for (int d = 1; d < 32; d *= 2) {
            int u = __shfl_up_sync(0xffffffffu, before, d);
            if ((int)(threadIdx.x % 32) >= d) before += u;
        }
        if (threadIdx.x % 32 == 31) warps[threadIdx.x / 32] = before;
        __syncthreads();
        int all = 0, earlier = 0;
        for (int w = 0; w < COMPACT_THREADS / 32; w++) {
            if (w < (int)(threadIdx.x / 32)) earlier += warps[w];
            all += warps[w];
        }
        int64_t to_ = at + earlier + before - 1, rest = i;
        for (int64_t d = shape.rank - 1; set && d >= 0; rest /= shape.dims[d--])
            places[d * total + to_] = rest % shape.dims[d];
        at += all;
        __syncthreads();
    }
}

/* y (outer, count, inner) = x (outer, axis, inner) at the places. */
extern "C" __global__ void compact_take(int64_t outer, int64_t axis, int64_t inner, const int64_t *__restrict__ count,
                                        const int64_t *__restrict__ places, const U *__restrict__ x, U *y) {
    int64_t n = *count, all = outer * n * inner;
    for (int64_t i = first_item(); i < all; i += item_step()) {
        int64_t row = i / inner, o = row / n;
        y[i] = x[(o * axis + places[row - o * n]) * inner + i - row * inner];
    }
}
/* Flags behind the axis must not be set. */
extern "C" __global__ void compact_behind(fault_site site, int64_t axis, int64_t n, const uint8_t *__restrict__ flags) {
    for (int64_t i = axis + first_item(); i < n; i += item_step())
        if (flags[i]) report(site, i, axis);
}
