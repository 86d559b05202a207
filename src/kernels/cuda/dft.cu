/* cuda/dft.cu: discrete Fourier transforms of lines. Powers of two by passes over memory, from one buffer to the next
 * in the order of Stockham: a pass does a factor `radix` of the line in the shared memory of a block, up to four steps
 * of radix 2 at a time in registers. Other lengths as a convolution with a chirp of three such (Bluestein), as
 * kernels/cpu/signal/dft.c. The first pass reads x, the last one writes y: a line that fits a block is read and
 * written once. T, defined in front, is what is computed in. */
#ifndef T
#define T double
#endif
enum { THREADS = 256, EACH = sizeof(T) == 8 ? 8 : 16, TILE = THREADS * EACH };
struct alignas(2 * sizeof(T)) complex { T re, im; };

/* Lines of x (outer, x_dim, inner, x_parts) to those of y (outer, y_dim, inner, y_parts), of length n; m: the power of
 * two that is transformed, n unless there is a chirp. Mirrors dft_args of dft.c. */
struct dft_args {
    int64_t outer, inner, x_dim, y_dim, n, m;
    int x_parts, y_parts, inverse, onesided, chirp, pairs; /* pairs: parts may be read and written two at once */
};
enum { CHIRPS = sizeof(T) == 8 }; /* only there are chirps */

DEVICE complex times(complex a, complex b) { return complex{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
/* exp(i pi k by), by being 1 / 2^n: exact in T, which has digits enough for every k below 2^(n + 1). */
DEVICE complex turn(int64_t k, float by) {
    float s, c;
    sincospif((float)(int)k * by, &s, &c);
    return complex{(T)c, (T)s};
}
DEVICE complex turn(int64_t k, double by) {
    double s, c;
    sincospi((double)k * by, &s, &c);
    return complex{(T)c, (T)s};
}
/* exp(-i pi k^2 / n) forward, its conjugate back */
DEVICE complex chirp_of(const dft_args &a, int64_t k) {
    double s, c;
    sincospi((double)((uint64_t)k * (uint64_t)k % (uint64_t)(2 * a.n)) / (double)a.n, &s, &c);
    return complex{(T)c, (T)(a.inverse ? s : -s)};
}

/* Where a row begins in a tensor of `dim` elements of so many parts along the axis. */
DEVICE int64_t begin_of(const dft_args &a, int64_t row, int64_t dim, int parts) {
    int64_t o = quotient(row, a.inner);
    return (o * dim * a.inner + row - o * a.inner) * parts;
}

/* Element k of a line as the transform sees it: followed by zeros; a half goes on as its mirror. */
DEVICE complex element_of(const dft_args &a, const S *line, int64_t k) {
    bool mirrored = a.inverse && a.onesided && k > a.n / 2;
    if (mirrored) k = a.n - k;
    if (k >= a.x_dim) return complex{0, 0};
    const S *at = line + k * a.inner * a.x_parts;
    complex v = {0, 0};
    if (a.x_parts == 1) {
        v.re = (T)get(at[0]);
    } else if (a.pairs) {
        vec<S, 2> both = vec_at<2>(at);
        v.re = (T)get(both.e[0]), v.im = (T)get(both.e[1]);
    } else {
        v.re = (T)get(at[0]), v.im = (T)get(at[1]);
    }
    if (mirrored) v.im = -v.im;
    return v;
}

/* Element k of what is transformed: m long. line: NULL for the row behind all others, what is convolved with. */
DEVICE complex loaded(const dft_args &a, const S *line, int64_t k) {
    if (!CHIRPS || !a.chirp) return k < a.n ? element_of(a, line, k) : complex{0, 0};
    if (line != nullptr) return k < a.n ? times(element_of(a, line, k), chirp_of(a, k)) : complex{0, 0};
    if (k >= a.n && a.m - k >= a.n) return complex{0, 0};
    complex v = chirp_of(a, k < a.n ? k : a.m - k);
    v.im = -v.im;
    return v;
}

DEVICE void store(const dft_args &a, S *line, int64_t k, T scale, complex v) {
    if (k >= a.y_dim) return;
    if (CHIRPS && a.chirp) v = times(v, chirp_of(a, k));
    S *at = line + k * a.inner * a.y_parts;
    S re = to<S>::put((A)(v.re * scale)), im = to<S>::put((A)(v.im * scale));
    if (a.y_parts > 1 && a.pairs) {
        *(vec<S, 2> *)at = vec<S, 2>{{re, im}};
        return;
    }
    at[0] = re;
    if (a.y_parts > 1) at[1] = im;
}

/* The transform of R numbers, which come out with the bits of their places turned round; sign: of the exponent. One
 * loop a step: nested ones would not be unrolled, and v not kept in registers. */
template <int R, int HALF> struct steps_of {
    static DEVICE void run(complex (&v)[R], T sign) {
        constexpr T cosines[8] = {(T)1, (T)0.92387953251128674, (T)0.70710678118654752, (T)0.38268343236508977,
                                  (T)0, (T)-0.38268343236508977, (T)-0.70710678118654752, (T)-0.92387953251128674};
#pragma unroll
        for (int j = 0; j < R / 2; j++) {
            int k = j % HALF, low = j / HALF * (2 * HALF) + k, at = k * (8 / HALF); /* sixteenths of a turn */
            complex a = v[low], b = v[low + HALF], d = {a.re - b.re, a.im - b.im};
            complex w = {cosines[at], sign * cosines[at < 4 ? 4 - at : at - 4]};
            v[low] = complex{a.re + b.re, a.im + b.im};
            v[low + HALF] = at == 0 ? d : at == 4 ? complex{-d.im * sign, d.re * sign} : times(d, w);
        }
        steps_of<R, HALF / 2>::run(v, sign);
    }
};
template <int R> struct steps_of<R, 0> {
    static DEVICE void run(complex (&)[R], T) {}
};
template <int R> DEVICE void transform(complex (&v)[R], T sign) { steps_of<R, R / 2>::run(v, sign); }
template <int R> DEVICE constexpr int reversed(int k) {
    return ((k & 1) << 3 | (k & 2) << 1 | (k & 4) >> 1 | (k & 8) >> 3) / (16 / R);
}

/* One pass over rows of m, done being the product of the radices of those before. A column is `radix` elements, m/radix
 * apart; a block has TILE/radix columns side by side. Mirrors dft_pass of dft.c. */
struct dft_pass {
    int64_t rows, m, done;
    int radix, forward, first, last; /* first: of all passes, it reads x; last: it writes y */
    int by_chirp, side_by_side;      /* elements are multiplied by those of row `rows`; neighbours are columns */
    int apart_bits, unused;          /* of m / radix */
};

/* The steps of one factor R of a tile. `within`: the product of the factors of the pass before it. */
template <int R> struct tile_steps {
    complex v[EACH / R][R];
    int column[EACH / R], at[EACH / R]; /* at: the first element's place in its column */

    DEVICE tile_steps(const dft_pass &p) {
        int columns = TILE / p.radix, each = p.radix / R;
#pragma unroll
        for (int u = 0; u < EACH / R; u++) {
            int b = threadIdx.x + u * THREADS;
            column[u] = p.side_by_side ? b & (columns - 1) : b / each;
            at[u] = p.side_by_side ? b / columns : b & (each - 1);
        }
    }

    /* v[r] *= exp(2 pi i k (first + r by) / of); powers of a root lose digits, every fourth begins anew. */
    DEVICE void turn_by(complex (&v)[R], int64_t k, int64_t first, int64_t by, int64_t of, T sign) {
        T part = (T)2 / (T)of;
        complex step = turn(k * by, part), w = {1, 0};
        step.im *= sign;
#pragma unroll
        for (int r = 0; r < R; r++) {
            if (r % 4 == 0) {
                w = turn(k * (first + r * by), part);
                w.im *= sign;
            } else {
                w = times(w, step);
            }
            v[r] = times(v[r], w);
        }
    }

    DEVICE void read(const dft_args &a, const dft_pass &p, int64_t tile, const S *x, const complex *from) {
        T sign = p.forward ? (T)-1 : (T)1;
        int step = p.radix / R;
#pragma unroll
        for (int u = 0; u < EACH / R; u++) {
            int64_t g = tile * (TILE / p.radix) + column[u], row = g >> p.apart_bits, j = g - (row << p.apart_bits);
            bool there = row < p.rows;
            const S *line = row < a.outer * a.inner ? x + begin_of(a, row, a.x_dim, a.x_parts) : nullptr;
            const complex *in = from + row * p.m;
#pragma unroll
            for (int r = 0; r < R; r++) {
                int64_t k = j + ((int64_t)(at[u] + r * step) << p.apart_bits);
                v[u][r] = !there ? complex{0, 0} : p.first ? loaded(a, line, k) : in[k];
                if (CHIRPS && p.by_chirp && there) v[u][r] = times(v[u][r], from[p.rows * p.m + k]);
            }
            if (p.done > 1) turn_by(v[u], j & (p.done - 1), at[u], step, p.done * p.radix, sign);
        }
    }

    DEVICE void write(const dft_args &a, const dft_pass &p, int64_t tile, complex *to, S *y) {
        T scale = (T)1 / (T)((a.chirp ? (double)a.m : 1.0) * (a.inverse ? (double)a.n : 1.0));
        int step = p.radix / R;
#pragma unroll
        for (int u = 0; u < EACH / R; u++) {
            int64_t g = tile * (TILE / p.radix) + column[u], row = g >> p.apart_bits, j = g - (row << p.apart_bits);
            int64_t begin = j & (p.done - 1);
            if (row >= p.rows) continue;
            begin += (j - begin) * p.radix + at[u] * p.done;
            S *line = p.last ? y + begin_of(a, row, a.y_dim, a.y_parts) : nullptr;
            complex *out = to + row * p.m;
#pragma unroll
            for (int r = 0; r < R; r++) {
                int64_t k = begin + r * step * p.done;
                if (p.last)
                    store(a, line, k, scale, v[u][reversed<R>(r)]);
                else
                    out[k] = v[u][reversed<R>(r)];
            }
        }
    }

    /* Columns lie apart so that neighbours of either kind are in different banks. */
    DEVICE int shared_at(const dft_pass &p, int column, int k) {
        return column * (p.radix + p.radix / EACH + (p.radix >= 64 ? EACH / 2 : 0)) + k + k / EACH;
    }
    DEVICE void take(const dft_pass &p, int within, const complex *tile) {
        T sign = p.forward ? (T)-1 : (T)1;
#pragma unroll
        for (int u = 0; u < EACH / R; u++) {
#pragma unroll
            for (int r = 0; r < R; r++) v[u][r] = tile[shared_at(p, column[u], at[u] + r * (p.radix / R))];
            turn_by(v[u], at[u] & (within - 1), 0, 1, (int64_t)within * R, sign);
        }
        __syncthreads();
    }
    DEVICE void give(const dft_pass &p, int within, complex *tile) {
#pragma unroll
        for (int u = 0; u < EACH / R; u++) {
            int begin = at[u] & (within - 1);
            begin += (at[u] - begin) * R;
#pragma unroll
            for (int r = 0; r < R; r++) tile[shared_at(p, column[u], begin + r * within)] = v[u][reversed<R>(r)];
        }
        __syncthreads();
    }

    DEVICE void run(const dft_args &a, const dft_pass &p, int64_t at_tile, int within, const S *x, const complex *from,
                    complex *to, S *y, complex *tile) {
        if (within == 1)
            read(a, p, at_tile, x, from);
        else
            take(p, within, tile);
#pragma unroll
        for (int u = 0; u < EACH / R; u++) transform<R>(v[u], p.forward ? (T)-1 : (T)1);
        if (within * R == p.radix)
            write(a, p, at_tile, to, y);
        else
            give(p, within, tile);
    }
};

extern "C" __global__ __launch_bounds__(256) void dft_pass_run(dft_args a, dft_pass p, const S *__restrict__ x,
                                                               const complex *__restrict__ from, complex *to, S *y) {
    __shared__ complex tile[TILE + TILE / EACH + TILE / 64 * (EACH / 2)];
    int64_t tiles = (p.rows * (p.m / p.radix) + TILE / p.radix - 1) / (TILE / p.radix);
    for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x)
        for (int within = 1, next; within < p.radix; within = next) {
            int left = p.radix / within;
            next = within * (left < EACH ? left : (int)EACH);
            switch (next / within) {
            case 2: tile_steps<2>(p).run(a, p, t, within, x, from, to, y, tile); break;
            case 4: tile_steps<4>(p).run(a, p, t, within, x, from, to, y, tile); break;
            case 8:
                if (EACH > 8) {
                    tile_steps<8>(p).run(a, p, t, within, x, from, to, y, tile);
                    break;
                } /* fall through */
            default: tile_steps<EACH>(p).run(a, p, t, within, x, from, to, y, tile); break;
            }
        }
}
