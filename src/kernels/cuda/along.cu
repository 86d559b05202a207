/* cuda/along.cu: walks along one axis of a dense tensor (outer, C, inner): the place of the largest or smallest
 * element, running sums and products. A short line of elements side by side belongs to one warp; the warps of a block
 * are its rows. Other lines are cut into parts: a block has a part of a line, or, where lines lie side by side, each of
 * its threads one. Running sums and products of floats are kept in double, those of integers wrap. */
struct line_args {
    int64_t outer, C, inner;
    int first, second; /* arg: smallest, last; cumulate: product, exclusive */
    int reverse, each; /* each: elements of a part */
};

DEVICE int64_t first_line(void) { return blockIdx.x * (int64_t)blockDim.y + threadIdx.y; }
DEVICE int64_t line_step(void) { return gridDim.x * (int64_t)blockDim.y; }

/* Is (a, i) to be taken rather than (b, j)? A NaN is the most extreme; j < 0: nothing yet. */
DEVICE bool beats(const line_args &p, A a, int64_t i, A b, int64_t j) {
    if (i < 0 || j < 0) return i >= 0;
    bool more = a != a ? b == b : p.first ? a < b : a > b, less = b != b ? a == a : p.first ? b < a : b > a;
    return more || (!less && (p.second ? i > j : i < j));
}

/* The place of the best that the threads of a row have found; rows as join_row has them. */
DEVICE int64_t best_of_row(const line_args &p, A best, int64_t place) {
    for (int d = 16; d > 0; d >>= 1) {
        A v = __shfl_xor_sync(0xffffffffu, best, d);
        int64_t c = __shfl_xor_sync(0xffffffffu, place, d);
        if (beats(p, v, c, best, place)) best = v, place = c;
    }
    if (blockDim.x == 32) return place;
    __shared__ A values[32];
    __shared__ int64_t places[32];
    if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = best, places[threadIdx.x / 32] = place;
    __syncthreads();
    for (int w = 0; w < (int)blockDim.x / 32; w++)
        if (beats(p, values[w], places[w], best, place)) best = values[w], place = places[w];
    __syncthreads();
    return place;
}

extern "C" __global__ void arg(line_args p, const S *__restrict__ x, int64_t *out) {
    for (int64_t line = first_line(); line < p.outer * p.inner; line += line_step()) {
        const S *at = x + line / p.inner * p.C * p.inner + line % p.inner;
        A best = 0;
        int64_t place = -1;
        for (int64_t c = threadIdx.x; c < p.C; c += 32) {
            A v = to<A>::put(get(at[c * p.inner]));
            if (beats(p, v, c, best, place)) best = v, place = c;
        }
        place = best_of_row(p, best, place);
        if (threadIdx.x == 0) out[line] = place;
    }
}

/* ---- parts ---- */

enum { PART_THREADS = 256, ITEMS = 16, AHEAD = 8 }; /* AHEAD: elements that are read before the first is compared */

/* Elements [from, to) of a line: those of one part. */
struct line_part { int64_t start, from, to; };
DEVICE line_part part_of(const line_args &p, int64_t parts, int64_t item) {
    int64_t row = quotient(item, p.inner), outer = quotient(row, parts), part = row - outer * parts;
    line_part q = {outer * p.C * p.inner + item - row * p.inner, part * p.each, part * p.each + p.each};
    if (q.to > p.C) q.to = p.C;
    return q;
}
DEVICE int64_t first_part(const line_args &p) { return p.inner == 1 ? (int64_t)blockIdx.x : first_item(); }
DEVICE int64_t part_step(const line_args &p) { return p.inner == 1 ? (int64_t)gridDim.x : item_step(); }

/* Where the best of each part stands: places (outer, parts, inner). Blocks of 256. */
extern "C" __global__ __launch_bounds__(256) void arg_parts(line_args p, int64_t parts, const S *__restrict__ x,
                                                            int64_t *places) {
    int64_t step = p.inner == 1 ? (int64_t)PART_THREADS : 1;
    for (int64_t item = first_part(p); item < p.outer * parts * p.inner; item += part_step(p)) {
        line_part q = part_of(p, parts, item);
        A best = 0;
        int64_t place = -1, c = q.from + (p.inner == 1 ? threadIdx.x : 0);
        for (; c + (AHEAD - 1) * step < q.to; c += AHEAD * step) {
            S ahead[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; k++) ahead[k] = x[q.start + (c + k * step) * p.inner];
#pragma unroll
            for (int k = 0; k < AHEAD; k++) {
                A v = to<A>::put(get(ahead[k]));
                if (beats(p, v, c + k * step, best, place)) best = v, place = c + k * step;
            }
        }
        for (; c < q.to; c += step) {
            A v = to<A>::put(get(x[q.start + c * p.inner]));
            if (beats(p, v, c, best, place)) best = v, place = c;
        }
        if (p.inner == 1) place = best_of_row(p, best, place);
        if (p.inner > 1 || threadIdx.x == 0) places[item] = place;
    }
}
/* A row of threads for a line. */
extern "C" __global__ void arg_join(line_args p, int64_t parts, const S *__restrict__ x,
                                    const int64_t *__restrict__ places, int64_t *out) {
    for (int64_t line = first_line(); line < p.outer * p.inner; line += line_step()) {
        int64_t outer = line / p.inner, column = line % p.inner, place = -1;
        A best = 0;
        for (int64_t k = threadIdx.x; k < parts; k += blockDim.x) {
            int64_t c = places[(outer * parts + k) * p.inner + column];
            A v = to<A>::put(get(x[(outer * p.C + c) * p.inner + column]));
            if (beats(p, v, c, best, place)) best = v, place = c;
        }
        place = best_of_row(p, best, place);
        if (threadIdx.x == 0) out[line] = place;
    }
}

template <class T> struct wide_of { typedef T type; };
template <> struct wide_of<float> { typedef double type; };
typedef wide_of<A>::type B;

/* Pieces of 32 elements by a scan of the warp, each from where the piece before ended. y may be x. */
extern "C" __global__ void cumulate(line_args p, const S *x, S *y) {
    B none = p.first ? (B)1 : (B)0;
    for (int64_t line = first_line(); line < p.outer * p.inner; line += line_step()) {
        int64_t start = line / p.inner * p.C * p.inner + line % p.inner;
        B before = none;
        for (int64_t k = 0; k < p.C; k += 32) {
            int64_t c = k + threadIdx.x, at = start + (p.reverse ? p.C - 1 - c : c) * p.inner;
            B v = c < p.C ? (B)to<A>::put(get(x[at])) : none;
            for (int d = 1; d < 32; d *= 2) {
                B u = __shfl_up_sync(0xffffffffu, v, d);
                if (threadIdx.x >= d) v = p.first ? u * v : u + v;
            }
            v = p.first ? before * v : before + v;
            B last = __shfl_up_sync(0xffffffffu, v, 1);
            if (c < p.C) y[at] = to<S>::put(p.second ? threadIdx.x == 0 ? before : last : v);
            before = __shfl_sync(0xffffffffu, v, 31);
        }
    }
}

DEVICE B both(const line_args &p, B u, B v) { return p.first ? u * v : u + v; }
DEVICE int64_t element_at(const line_args &p, const line_part &q, int64_t c) {
    return q.start + (p.reverse ? p.C - 1 - c : c) * p.inner;
}

/* A thread has WORDS words of a part, those of a warp's lanes side by side, WORD elements each. `at` is the lowest
 * element; those of a line that goes back are turned round. */
enum { WORD = sizeof(S) < 16 ? 16 / sizeof(S) : 1, WORDS = ITEMS / WORD };
struct word_place { int64_t at; int n; };
DEVICE word_place word_of(const line_args &p, const line_part &q, int k) {
    int64_t c = q.from + threadIdx.x / 32 * (32 * ITEMS) + (k * 32 + threadIdx.x % 32) * WORD;
    int64_t n = q.to - c < WORD ? q.to - c : (int64_t)WORD;
    if (n < 0) n = 0;
    return word_place{q.start + (p.reverse ? p.C - c - n : c), (int)n};
}
DEVICE bool is_whole(const S *x, const word_place &w) { return w.n == WORD && ((uint64_t)(x + w.at) & 15) == 0; }

/* `none` outside. */
DEVICE void hold(const line_args &p, const line_part &q, const S *x, B none, B (&held)[WORDS][WORD]) {
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        word_place w = word_of(p, q, k);
        if (is_whole(x, w)) {
            vec<S, WORD> e = vec_at<WORD>(x + w.at);
#pragma unroll
            for (int i = 0; i < WORD; i++) held[k][i] = (B)to<A>::put(get(p.reverse ? e.e[WORD - 1 - i] : e.e[i]));
        } else {
#pragma unroll
            for (int i = 0; i < WORD; i++)
                held[k][i] = i < w.n ? (B)to<A>::put(get(x[w.at + (p.reverse ? w.n - 1 - i : i)])) : none;
        }
    }
}
DEVICE void give(const line_args &p, const line_part &q, const B (&held)[WORDS][WORD], S *y) {
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        word_place w = word_of(p, q, k);
        if (is_whole(y, w)) {
            vec<S, WORD> e;
#pragma unroll
            for (int i = 0; i < WORD; i++) e.e[i] = to<S>::put(p.reverse ? held[k][WORD - 1 - i] : held[k][i]);
            *(vec<S, WORD> *)(y + w.at) = e;
        } else {
#pragma unroll
            for (int i = 0; i < WORD; i++)
                if (i < w.n) y[w.at + (p.reverse ? w.n - 1 - i : i)] = to<S>::put(held[k][i]);
        }
    }
}

/* own becomes what it and the lanes before it give. */
DEVICE B scan_lanes(const line_args &p, B own) {
    for (int d = 1; d < 32; d *= 2) {
        B u = __shfl_up_sync(0xffffffffu, own, d);
        if (threadIdx.x % 32 >= d) own = both(p, u, own);
    }
    return own;
}
/* What the warps before this one have, and all together; own: the last lane's counts. */
DEVICE B warps_before(const line_args &p, B own, B none, B &all) {
    __shared__ B warps[PART_THREADS / 32];
    B before = none;
    all = none;
    if (threadIdx.x % 32 == 31) warps[threadIdx.x / 32] = own;
    __syncthreads();
    for (int w = 0; w < PART_THREADS / 32; w++) {
        if (w == (int)threadIdx.x / 32) before = all;
        all = both(p, all, warps[w]);
    }
    __syncthreads();
    return before;
}
/* sums (outer, parts, inner) of the parts. Blocks of 256. */
extern "C" __global__ __launch_bounds__(256) void cumulate_parts(line_args p, int64_t parts, const S *__restrict__ x,
                                                                 B *sums) {
    B none = p.first ? (B)1 : (B)0;
    for (int64_t item = first_part(p); item < p.outer * parts * p.inner; item += part_step(p)) {
        line_part q = part_of(p, parts, item);
        B all = none, held[WORDS][WORD];
        if (p.inner == 1) {
            B own = none;
            hold(p, q, x, none, held);
#pragma unroll
            for (int i = 0; i < ITEMS; i++) own = both(p, own, held[i / WORD][i % WORD]);
            warps_before(p, scan_lanes(p, own), none, all);
        }
        for (int64_t c = q.from; p.inner > 1 && c < q.to; c++)
            all = both(p, all, (B)to<A>::put(get(x[element_at(p, q, c)])));
        if (p.inner > 1 || threadIdx.x == 0) sums[item] = all;
    }
}
/* The sums of a line become those of the parts before each. A block of 256 for a line. */
extern "C" __global__ __launch_bounds__(256) void cumulate_add(line_args p, int64_t parts, B *sums) {
    B none = p.first ? (B)1 : (B)0;
    for (int64_t line = blockIdx.x; line < p.outer * p.inner; line += gridDim.x) {
        int64_t start = line / p.inner * parts * p.inner + line % p.inner;
        int64_t each = (parts + PART_THREADS - 1) / PART_THREADS, from = threadIdx.x * each;
        int64_t end = from + each < parts ? from + each : parts;
        B own = none, all;
#pragma unroll 8
        for (int64_t k = from; k < end; k++) own = both(p, own, sums[start + k * p.inner]);
        B with = scan_lanes(p, own), lanes = __shfl_up_sync(0xffffffffu, with, 1);
        B before = warps_before(p, with, none, all);
        if (threadIdx.x % 32 > 0) before = both(p, before, lanes);
#pragma unroll 8
        for (int64_t k = from; k < end; k++) {
            B next = both(p, before, sums[start + k * p.inner]);
            sums[start + k * p.inner] = before;
            before = next;
        }
    }
}
/* before: of cumulate_add, or NULL: a line is one part. y may be x. */
extern "C" __global__ __launch_bounds__(256) void cumulate_within(line_args p, int64_t parts, const B *before,
                                                                  const S *x, S *y) {
    B none = p.first ? (B)1 : (B)0;
    for (int64_t item = first_part(p); item < p.outer * parts * p.inner; item += part_step(p)) {
        line_part q = part_of(p, parts, item);
        B sum = before ? before[item] : none, held[WORDS][WORD], word[WORDS], warp = none, all;
        for (int64_t c = q.from; p.inner > 1 && c < q.to; c++) {
            int64_t at = element_at(p, q, c);
            B next = both(p, sum, (B)to<A>::put(get(x[at])));
            y[at] = to<S>::put(p.second ? sum : next);
            sum = next;
        }
        if (p.inner > 1) continue;
        hold(p, q, x, none, held);
#pragma unroll
        for (int k = 0; k < WORDS; k++) {
            B own = none;
#pragma unroll
            for (int i = 0; i < WORD; i++) own = both(p, own, held[k][i]);
            own = scan_lanes(p, own);
            B lanes = __shfl_up_sync(0xffffffffu, own, 1);
            word[k] = threadIdx.x % 32 > 0 ? both(p, warp, lanes) : warp;
            warp = both(p, warp, __shfl_sync(0xffffffffu, own, 31));
        }
        sum = both(p, sum, warps_before(p, warp, none, all));
#pragma unroll
        for (int k = 0; k < WORDS; k++) {
            B run = both(p, sum, word[k]);
#pragma unroll
            for (int i = 0; i < WORD; i++) {
                B next = both(p, run, held[k][i]);
                held[k][i] = p.second ? run : next;
                run = next;
            }
        }
        give(p, q, held, y);
    }
}
