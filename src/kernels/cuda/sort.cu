/* cuda/sort.cu: words of 64 bits sorted by some of their bits, eight at a time from the lowest on; words that are alike
 * there keep their order. A pass counts the digits of every tile, adds the counts up, and moves each tile's words to
 * where its digits begin; what fits into one tile takes one launch. Blocks of 256. */
enum { SORT_THREADS = 256, SORT_ITEMS = 16, SORT_TILE = SORT_THREADS * SORT_ITEMS, SORT_WARPS = SORT_THREADS / 32 };
enum { DIGITS = 256 };

DEVICE int digit_of(uint64_t word, int shift, uint64_t mask) { return (int)(word >> shift & mask); }

/* counts (DIGITS, tiles) */
extern "C" __global__ __launch_bounds__(256) void sort_count(int64_t n, int64_t tiles, int shift, uint64_t mask,
                                                             const uint64_t *__restrict__ words, uint32_t *counts) {
    __shared__ uint32_t seen[DIGITS];
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        seen[threadIdx.x] = 0;
        __syncthreads();
        for (int k = 0; k < SORT_ITEMS; k++) {
            int64_t i = tile * SORT_TILE + k * SORT_THREADS + threadIdx.x;
            if (i < n) atomicAdd(&seen[digit_of(words[i], shift, mask)], 1u);
        }
        __syncthreads();
        counts[threadIdx.x * tiles + tile] = seen[threadIdx.x];
    }
}

/* Block d has digit d: its counts become those of the tiles before; totals (DIGITS). */
extern "C" __global__ __launch_bounds__(256) void sort_add(int64_t tiles, uint32_t *counts, uint32_t *totals) {
    uint32_t *mine = counts + blockIdx.x * tiles, total = 0;
    __shared__ uint32_t all;
    for (int64_t from = 0; from < tiles; from += SORT_THREADS) {
        int64_t i = from + threadIdx.x;
        uint32_t own = i < tiles ? mine[i] : 0, sum = sum_before_and(own);
        if (i < tiles) mine[i] = total + sum - own;
        if (threadIdx.x == SORT_THREADS - 1) all = sum;
        __syncthreads();
        total += all;
        __syncthreads();
    }
    if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

/* The words of a tile of which `count` are there, ordered by their digits; thread d keeps where digit d begins. */
struct sort_room {
    uint64_t words[SORT_TILE];
    uint32_t warps[SORT_WARPS][DIGITS], begin[DIGITS];
};
DEVICE uint32_t lanes_alike(int digit) {
    uint32_t alike = 0xffffffffu;
#pragma unroll
    for (int b = 1; b < DIGITS; b *= 2) {
        uint32_t set = __ballot_sync(0xffffffffu, digit & b);
        alike &= digit & b ? set : ~set;
    }
    return alike;
}
DEVICE void sort_tile(sort_room &room, const uint64_t *from, int count, int shift, uint64_t mask) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = warp * 32 * SORT_ITEMS;
    uint64_t held[SORT_ITEMS];
    uint32_t rank[SORT_ITEMS], sum = 0;
    for (int w = 0; w < SORT_WARPS; w++) room.warps[w][threadIdx.x] = 0;
#pragma unroll
    for (int k = 0; k < SORT_ITEMS; k++)
        if (first + k * 32 + lane < count) held[k] = from[first + k * 32 + lane];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SORT_ITEMS; k++) {
        if (first + k * 32 >= count) break;
        int digit = first + k * 32 + lane < count ? digit_of(held[k], shift, mask) : DIGITS - 1;
        uint32_t alike = lanes_alike(digit), before = room.warps[warp][digit];
        rank[k] = before + __popc(alike & ((1u << lane) - 1));
        __syncwarp();
        if (lane == __ffs(alike) - 1) room.warps[warp][digit] = before + __popc(alike);
        __syncwarp();
    }
    __syncthreads();
    for (int w = 0; w < SORT_WARPS; w++) {
        uint32_t own = room.warps[w][threadIdx.x];
        room.warps[w][threadIdx.x] = sum;
        sum += own;
    }
    room.begin[threadIdx.x] = sum_before_and(sum) - sum;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SORT_ITEMS; k++) {
        if (first + k * 32 + lane >= count) break;
        int digit = digit_of(held[k], shift, mask);
        room.words[room.begin[digit] + room.warps[warp][digit] + rank[k]] = held[k];
    }
    __syncthreads();
}

extern "C" __global__ __launch_bounds__(256) void sort_move(int64_t n, int64_t tiles, int shift, uint64_t mask,
                                                            const uint32_t *__restrict__ counts,
                                                            const uint32_t *__restrict__ totals,
                                                            const uint64_t *__restrict__ from, uint64_t *to) {
    __shared__ sort_room room;
    __shared__ int64_t goes[DIGITS];
    uint32_t total = totals[threadIdx.x], begin = sum_before_and(total) - total;
    bool alike = totals[digit_of(from[0], shift, mask)] == n; /* upper digits of small numbers: all stay */
    for (int64_t i = first_item(); alike && i < n; i += item_step()) to[i] = from[i];
    for (int64_t tile = alike ? tiles : blockIdx.x; tile < tiles; tile += gridDim.x) {
        int count = n - tile * SORT_TILE < SORT_TILE ? (int)(n - tile * SORT_TILE) : (int)SORT_TILE;
        sort_tile(room, from + tile * SORT_TILE, count, shift, mask);
        goes[threadIdx.x] = (int64_t)begin + counts[threadIdx.x * tiles + tile] - room.begin[threadIdx.x];
        __syncthreads();
        for (int i = threadIdx.x; i < count; i += SORT_THREADS)
            to[goes[digit_of(room.words[i], shift, mask)] + i] = room.words[i];
        __syncthreads();
    }
}

/* All passes over what one tile holds. */
extern "C" __global__ __launch_bounds__(256) void sort_one(int count, int lo, int hi, uint64_t *words) {
    __shared__ sort_room room;
    for (int shift = lo; shift < hi; shift += 8) {
        uint64_t mask = hi - shift < 8 ? (1ull << (hi - shift)) - 1 : DIGITS - 1;
        sort_tile(room, shift == lo ? words : room.words, count, shift, mask);
    }
    for (int i = threadIdx.x; i < count; i += SORT_THREADS) words[i] = room.words[i];
}
