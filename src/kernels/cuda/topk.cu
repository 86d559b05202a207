/* cuda/topk.cu: the first k of every line (outer, axis, inner) in order of value. Equal values come in the order of
 * their places; NaN counts as larger than anything. Of short lines a block has each: few of its elements are picked one
 * after the other, many by sorting the places of all. Of long lines, where k are a part of them, the value of the last
 * one is found digit by digit, from counts of the elements that begin like it, and what comes before it, or is equal,
 * gathered; then all is sorted by sort.cu, by value and then by line. Blocks of 256. */
enum { TOPK_THREADS = 256 };

struct topk_args { /* mirrors topk_args of topk.c */
    int64_t outer, axis, inner, k;
    int64_t n_sorted; /* a power of two, at least axis */
    int largest, unused;
    int64_t first, lines; /* long lines: those of this launch */
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

/* ---- long lines ---- */

enum { DIGIT = 8, DIGITS = 256, TILE = 4096 };

/* Of a line: the value of the k-th so far, as a key, how many of those that begin like it come up to it, how many come
 * before them; then counts of its elements' next digit. Mirrors topk_line of topk.c. */
struct topk_line { uint64_t key; uint32_t need, before, digits[DIGITS]; };

/* Keys grow in the order that is asked for. */
DEVICE uint64_t key_at(const topk_args &p, const S *line, int64_t place) {
    uint64_t key = rank_of(line[place * p.inner]);
    if (p.largest) key = ~key;
    return sizeof(S) < 8 ? key & ((1ull << 8 * (sizeof(S) < 8 ? sizeof(S) : 4)) - 1) : key;
}

extern "C" __global__ void topk_begin(topk_args p, topk_line *of) {
    for (int64_t i = first_item(); i < p.lines * DIGITS; i += item_step()) {
        topk_line &l = of[i / DIGITS];
        l.digits[i % DIGITS] = 0;
        if (i % DIGITS == 0) l.key = 0, l.need = (uint32_t)p.k, l.before = 0;
    }
}

/* Elements whose digits above `shift` + 8 are those found, by their next. A block has a tile of a line. */
extern "C" __global__ __launch_bounds__(256) void topk_count(topk_args p, int64_t tiles, int shift,
                                                             const S *__restrict__ x, topk_line *of) {
    __shared__ uint32_t seen[DIGITS];
    for (int64_t b = blockIdx.x; b < p.lines * tiles; b += gridDim.x) {
        int64_t line = quotient(b, tiles), from = (b - line * tiles) * TILE;
        const S *elements = line_of(p, x, p.first + line);
        uint64_t key = of[line].key;
        seen[threadIdx.x] = 0;
        __syncthreads();
        for (int64_t a = from + threadIdx.x; a < from + TILE && a < p.axis; a += TOPK_THREADS) {
            uint64_t mine = key_at(p, elements, a);
            if (((mine ^ key) >> shift) < DIGITS) atomicAdd(&seen[mine >> shift & (DIGITS - 1)], 1u);
        }
        __syncthreads();
        if (seen[threadIdx.x]) atomicAdd(&of[line].digits[threadIdx.x], seen[threadIdx.x]);
        __syncthreads();
    }
}

/* The digit in which the k-th falls. A block has a line. */
extern "C" __global__ __launch_bounds__(256) void topk_choose(topk_args p, int shift, topk_line *of) {
    for (int64_t line = blockIdx.x; line < p.lines; line += gridDim.x) {
        topk_line &l = of[line];
        uint32_t own = l.digits[threadIdx.x], need = l.need, sum = sum_before_and(own);
        if (sum >= need && sum - own < need) {
            l.key |= (uint64_t)threadIdx.x << shift;
            l.need = need - (sum - own);
            l.before += sum - own;
        }
        l.digits[threadIdx.x] = 0;
        __syncthreads();
    }
}

/* counts (lines, tiles, 2): how many of a tile come before the k-th's value, how many are equal. */
extern "C" __global__ __launch_bounds__(256) void topk_tally(topk_args p, int64_t tiles, const S *__restrict__ x,
                                                             const topk_line *__restrict__ of, uint32_t *counts) {
    for (int64_t b = blockIdx.x; b < p.lines * tiles; b += gridDim.x) {
        int64_t line = quotient(b, tiles), from = (b - line * tiles) * TILE, less = 0, equal = 0;
        const S *elements = line_of(p, x, p.first + line);
        for (int64_t a = from + threadIdx.x; a < from + TILE && a < p.axis; a += TOPK_THREADS) {
            uint64_t mine = key_at(p, elements, a);
            less += mine < of[line].key, equal += mine == of[line].key;
        }
        less = join_row<join_sum>(less), equal = join_row<join_sum>(equal);
        if (threadIdx.x == 0) counts[2 * b] = (uint32_t)less, counts[2 * b + 1] = (uint32_t)equal;
    }
}
/* counts become those of the line's tiles before. A block has a line. */
extern "C" __global__ __launch_bounds__(256) void topk_add(topk_args p, int64_t tiles, uint32_t *counts) {
    __shared__ uint32_t all;
    for (int64_t b = blockIdx.x; b < 2 * p.lines; b += gridDim.x) {
        uint32_t *mine = counts + b / 2 * tiles * 2 + b % 2, total = 0;
        for (int64_t from = 0; from < tiles; from += TOPK_THREADS) {
            int64_t i = from + threadIdx.x;
            uint32_t own = i < tiles ? mine[2 * i] : 0, sum = sum_before_and(own);
            if (i < tiles) mine[2 * i] = total + sum - own;
            if (threadIdx.x == TOPK_THREADS - 1) all = sum;
            __syncthreads();
            total += all;
            __syncthreads();
        }
    }
}
/* chosen (lines, k): the places of what comes before the k-th's value, then of as many equal ones as are needed. */
extern "C" __global__ __launch_bounds__(256) void topk_gather(topk_args p, int64_t tiles, const S *__restrict__ x,
                                                              const topk_line *__restrict__ of,
                                                              const uint32_t *__restrict__ counts, uint32_t *chosen) {
    for (int64_t b = blockIdx.x; b < p.lines * tiles; b += gridDim.x) {
        int64_t line = quotient(b, tiles), from = (b - line * tiles) * TILE;
        const S *elements = line_of(p, x, p.first + line);
        uint32_t less = counts[2 * b], equal = counts[2 * b + 1], need = of[line].need, before = of[line].before;
        for (int64_t tile = from; tile < from + TILE && tile < p.axis; tile += TOPK_THREADS) {
            int64_t a = tile + threadIdx.x;
            uint64_t mine = a < p.axis ? key_at(p, elements, a) : 0, key = of[line].key;
            bool is_less = a < p.axis && mine < key, is_equal = a < p.axis && mine == key;
            /* both counts in one word: a tile has fewer than 2^16 elements */
            uint32_t sum = sum_before_and((uint32_t)is_less | (uint32_t)is_equal << 16);
            if (is_less) chosen[line * p.k + less + (sum & 0xffff) - 1] = (uint32_t)a;
            uint32_t at = equal + (sum >> 16) - 1;
            if (is_equal && at < need) chosen[line * p.k + before + at] = (uint32_t)a;
            __shared__ uint32_t last;
            if (threadIdx.x == TOPK_THREADS - 1) last = sum;
            __syncthreads();
            less += last & 0xffff, equal += last >> 16;
            __syncthreads();
        }
    }
}

/* words (lines, each) for sort.cu: 32 bits of the key from `shift` on, or with shift < 0 the line, above the number of
 * an element of chosen, or, where that is NULL, of all; in the order so far, NULL: as they lie. */
extern "C" __global__ void topk_words(topk_args p, int64_t each, int shift, const S *__restrict__ x,
                                      const uint32_t *__restrict__ chosen, const uint64_t *so_far, uint64_t *words) {
    for (int64_t i = first_item(); i < p.lines * each; i += item_step()) {
        int64_t at = so_far ? (int64_t)(so_far[i] & 0xffffffffu) : i, line = quotient(at, each);
        int64_t place = chosen ? (int64_t)chosen[at] : at - line * each;
        uint64_t key = shift < 0 ? (uint64_t)line : key_at(p, line_of(p, x, p.first + line), place) >> shift;
        words[i] = key << 32 | (uint64_t)at;
    }
}
extern "C" __global__ void topk_put(topk_args p, int64_t each, const S *__restrict__ x,
                                    const uint32_t *__restrict__ chosen, const uint64_t *__restrict__ words, S *values,
                                    int64_t *indices) {
    for (int64_t i = first_item(); i < p.lines * p.k; i += item_step()) {
        int64_t line = quotient(i, p.k), k = i - line * p.k, at = (int64_t)(words[line * each + k] & 0xffffffffu);
        int64_t place = chosen ? (int64_t)chosen[at] : at - line * each;
        put_out(p, line_of(p, x, p.first + line), p.first + line, k, place, values, indices);
    }
}
