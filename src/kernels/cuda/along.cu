/* cuda/along.cu: walks along one axis of a dense tensor (outer, C, inner): the place of the largest or smallest
 * element, running sums and products. A line belongs to one warp; the warps of a block are its rows. Running sums and
 * products of floats are kept in double, those of integers wrap. */
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

extern "C" __global__ void arg(line_args p, const S *__restrict__ x, int64_t *out) {
    for (int64_t line = first_line(); line < p.outer * p.inner; line += line_step()) {
        const S *at = x + line / p.inner * p.C * p.inner + line % p.inner;
        A best = 0;
        int64_t place = -1;
        for (int64_t c = threadIdx.x; c < p.C; c += 32) {
            A v = to<A>::put(get(at[c * p.inner]));
            if (beats(p, v, c, best, place)) best = v, place = c;
        }
        for (int d = 16; d > 0; d >>= 1) {
            A v = __shfl_xor_sync(0xffffffffu, best, d);
            int64_t c = __shfl_xor_sync(0xffffffffu, place, d);
            if (beats(p, v, c, best, place)) best = v, place = c;
        }
        if (threadIdx.x == 0) out[line] = place;
    }
}

template <class T> struct wide_of { typedef T type; };
template <> struct wide_of<float> { typedef double type; };

/* Pieces of 32 elements by a scan of the warp, each from where the piece before ended. y may be x. */
extern "C" __global__ void cumulate(line_args p, const S *x, S *y) {
    typedef wide_of<A>::type B;
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
