/* cuda/along.cu: walks along one axis of a dense tensor (outer, C, inner): the place of the largest or smallest
 * element, running sums and products. A short line of elements side by side belongs to one warp; the warps of a block
 * are its rows. Other lines are cut into parts: a block has a part of a line, or, where lines lie side by side, each of
 * its threads one. Running sums and products of floats are kept in double, those of integers wrap. */
struct line_args {
    int64_t outer, C, inner;
    int first, second; /* arg: smallest, last; cumulate: product, exclusive */
    int reverse, unused;
};

DEVICE int64_t first_line(void) { return blockIdx.x * (int64_t)blockDim.y + threadIdx.y; }
DEVICE int64_t line_step(void) { return gridDim.x * (int64_t)blockDim.y; }

/* Is (a, i) to be taken rather than (b, j)? A NaN is the most extreme; j < 0: nothing yet. */
DEVICE bool beats(const line_args &p, A a, int64_t i, A b, int64_t j) {
    if (i < 0 || j < 0) return i >= 0;
    bool more = a != a ? b == b : p.first ? a < b : a > b, less = b != b ? a == a : p.first ? b < a : b > a;
    return more || (!less && (p.second ? i > j : i < j));
}

/* The place of the best that the lanes of a warp have found. */
DEVICE int64_t best_of_warp(const line_args &p, A best, int64_t place) {
    for (int d = 16; d > 0; d >>= 1) {
        A v = __shfl_xor_sync(0xffffffffu, best, d);
        int64_t c = __shfl_xor_sync(0xffffffffu, place, d);
        if (beats(p, v, c, best, place)) best = v, place = c;
    }
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
        place = best_of_warp(p, best, place);
        if (threadIdx.x == 0) out[line] = place;
    }
}

/* ---- parts ---- */

enum { PART_THREADS = 256, ITEMS = 8, PART = PART_THREADS * ITEMS, COLUMN = 256 };

/* Elements [from, to) of a line: those of one part. */
struct line_part { int64_t start, from, to; };
DEVICE line_part part_of(const line_args &p, int64_t parts, int64_t item) {
    int64_t each = p.inner == 1 ? (int64_t)PART : (int64_t)COLUMN, row = quotient(item, p.inner);
    int64_t outer = quotient(row, parts), part = row - outer * parts, column = item - row * p.inner;
    line_part q = {outer * p.C * p.inner + column, part * each, part * each + each};
    if (q.to > p.C) q.to = p.C;
    return q;
}
DEVICE int64_t first_part(const line_args &p) { return p.inner == 1 ? (int64_t)blockIdx.x : first_item(); }
DEVICE int64_t part_step(const line_args &p) { return p.inner == 1 ? (int64_t)gridDim.x : item_step(); }

/* Where the best of each part stands: places (outer, parts, inner). Blocks of 256. */
extern "C" __global__ __launch_bounds__(256) void arg_parts(line_args p, int64_t parts, const S *__restrict__ x,
                                                            int64_t *places) {
    __shared__ A values[PART_THREADS];
    __shared__ int64_t at[PART_THREADS];
    for (int64_t item = first_part(p); item < p.outer * parts * p.inner; item += part_step(p)) {
        line_part q = part_of(p, parts, item);
        A best = 0;
        int64_t place = -1, step = p.inner == 1 ? (int64_t)PART_THREADS : 1;
        for (int64_t c = q.from + (p.inner == 1 ? threadIdx.x : 0); c < q.to; c += step) {
            A v = to<A>::put(get(x[q.start + c * p.inner]));
            if (beats(p, v, c, best, place)) best = v, place = c;
        }
        if (p.inner > 1) {
            places[item] = place;
            continue;
        }
        values[threadIdx.x] = best, at[threadIdx.x] = place;
        __syncthreads();
        for (int d = PART_THREADS / 2; d > 0; d /= 2) {
            int other = threadIdx.x + d;
            if ((int)threadIdx.x < d && beats(p, values[other], at[other], values[threadIdx.x], at[threadIdx.x]))
                values[threadIdx.x] = values[other], at[threadIdx.x] = at[other];
            __syncthreads();
        }
        if (threadIdx.x == 0) places[item] = at[0];
        __syncthreads();
    }
}
/* A warp for a line. */
extern "C" __global__ void arg_join(line_args p, int64_t parts, const S *__restrict__ x,
                                    const int64_t *__restrict__ places, int64_t *out) {
    for (int64_t line = first_line(); line < p.outer * p.inner; line += line_step()) {
        int64_t outer = line / p.inner, column = line % p.inner, place = -1;
        A best = 0;
        for (int64_t k = threadIdx.x; k < parts; k += 32) {
            int64_t c = places[(outer * parts + k) * p.inner + column];
            A v = to<A>::put(get(x[(outer * p.C + c) * p.inner + column]));
            if (beats(p, v, c, best, place)) best = v, place = c;
        }
        place = best_of_warp(p, best, place);
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

/* The elements of a warp's stretch of a part, 32 side by side at a time; `none` outside. */
DEVICE void hold(const line_args &p, const line_part &q, const S *x, B none, B (&held)[ITEMS]) {
    int64_t c = q.from + threadIdx.x / 32 * (32 * ITEMS) + threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
        held[k] = c + k * 32 < q.to ? (B)to<A>::put(get(x[element_at(p, q, c + k * 32)])) : none;
}
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
/* held becomes what it and the warp's elements before it give; the last lane has the warp's. */
DEVICE B scan_warp(const line_args &p, B none, B (&held)[ITEMS]) {
    B before = none;
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
        for (int d = 1; d < 32; d *= 2) {
            B u = __shfl_up_sync(0xffffffffu, held[k], d);
            if (threadIdx.x % 32 >= d) held[k] = both(p, u, held[k]);
        }
        held[k] = both(p, before, held[k]);
        before = __shfl_sync(0xffffffffu, held[k], 31);
    }
    return before;
}

/* sums (outer, parts, inner) of the parts. Blocks of 256. */
extern "C" __global__ __launch_bounds__(256) void cumulate_parts(line_args p, int64_t parts, const S *__restrict__ x,
                                                                 B *sums) {
    B none = p.first ? (B)1 : (B)0;
    for (int64_t item = first_part(p); item < p.outer * parts * p.inner; item += part_step(p)) {
        line_part q = part_of(p, parts, item);
        B all = none, held[ITEMS];
        if (p.inner == 1) {
            hold(p, q, x, none, held);
            warps_before(p, scan_warp(p, none, held), none, all);
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
        B before = none, all;
        for (int64_t k = 0; k < parts; k += PART_THREADS) {
            int64_t part = k + threadIdx.x;
            B v = part < parts ? sums[start + part * p.inner] : none;
            for (int d = 1; d < 32; d *= 2) {
                B u = __shfl_up_sync(0xffffffffu, v, d);
                if (threadIdx.x % 32 >= d) v = both(p, u, v);
            }
            B last = __shfl_up_sync(0xffffffffu, v, 1), warps = both(p, before, warps_before(p, v, none, all));
            if (part < parts) sums[start + part * p.inner] = threadIdx.x % 32 == 0 ? warps : both(p, warps, last);
            before = both(p, before, all);
        }
    }
}
/* before: of cumulate_add, or NULL: a line is one part. y may be x. */
extern "C" __global__ __launch_bounds__(256) void cumulate_within(line_args p, int64_t parts, const B *before,
                                                                  const S *x, S *y) {
    B none = p.first ? (B)1 : (B)0;
    for (int64_t item = first_part(p); item < p.outer * parts * p.inner; item += part_step(p)) {
        line_part q = part_of(p, parts, item);
        B sum = before ? before[item] : none, held[ITEMS], all;
        for (int64_t c = q.from; p.inner > 1 && c < q.to; c++) {
            int64_t at = element_at(p, q, c);
            B next = both(p, sum, (B)to<A>::put(get(x[at])));
            y[at] = to<S>::put(p.second ? sum : next);
            sum = next;
        }
        if (p.inner > 1) continue;
        hold(p, q, x, none, held);
        sum = both(p, sum, warps_before(p, scan_warp(p, none, held), none, all));
        int64_t c = q.from + threadIdx.x / 32 * (32 * ITEMS) + threadIdx.x % 32;
        B last = none;
#pragma unroll
        for (int k = 0; k < ITEMS; k++) {
            B up = __shfl_up_sync(0xffffffffu, held[k], 1);
            B given = !p.second ? held[k] : threadIdx.x % 32 == 0 ? last : up;
            if (c + k * 32 < q.to) y[element_at(p, q, c + k * 32)] = to<S>::put(both(p, sum, given));
            last = __shfl_sync(0xffffffffu, held[k], 31);
        }
    }
}
