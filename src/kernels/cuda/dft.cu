/* cuda/dft.cu: discrete Fourier transforms of lines. Powers of two by passes over memory that each do up to four steps
 * of radix 2 in registers, from one buffer to the other in the order of Stockham; other lengths as a convolution with a
 * chirp of three such (Bluestein), as kernels/cpu/signal/dft.c. T, defined in front, is what is computed in. */
#ifndef T
#define T double
#endif
struct complex { T re, im; };

/* Lines of x (outer, x_dim, inner, x_parts) to those of y (outer, y_dim, inner, y_parts), of length n; m: the power of
 * two that is transformed, n unless there is a chirp. Mirrors dft_args of dft.c. */
struct dft_args {
    int64_t outer, inner, x_dim, y_dim, n, m;
    int x_parts, y_parts, inverse, onesided, chirp, unused;
};

DEVICE complex times(complex a, complex b) { return complex{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
/* exp(i pi k / n), k below 2 n */
DEVICE complex turn(int64_t k, int64_t n) {
    double s, c;
    sincospi((double)k / (double)n, &s, &c);
    return complex{(T)c, (T)s};
}
/* exp(-i pi k^2 / n) forward, its conjugate back */
DEVICE complex chirp_of(const dft_args &a, int64_t k) {
    complex c = turn((int64_t)((uint64_t)k * (uint64_t)k % (uint64_t)(2 * a.n)), a.n);
    if (!a.inverse) c.im = -c.im;
    return c;
}

/* Element k of a line as the transform sees it: followed by zeros; a half goes on as its mirror. */
DEVICE complex element_of(const dft_args &a, const S *x, int64_t row, int64_t k) {
    int64_t o = quotient(row, a.inner), i = row - o * a.inner;
    bool mirrored = a.inverse && a.onesided && k > a.n / 2;
    if (mirrored) k = a.n - k;
    if (k >= a.x_dim) return complex{0, 0};
    const S *at = x + ((o * a.x_dim + k) * a.inner + i) * a.x_parts;
    complex v = {(T)get(at[0]), a.x_parts > 1 ? (T)get(at[1]) : (T)0};
    if (mirrored) v.im = -v.im;
    return v;
}

/* to (rows, m), with a chirp one row more: what is convolved with. */
extern "C" __global__ void dft_load(dft_args a, const S *__restrict__ x, complex *to) {
    int64_t rows = a.outer * a.inner + (a.chirp != 0);
    for (int64_t item = first_item(); item < rows * a.m; item += item_step()) {
        int64_t row = quotient(item, a.m), k = item - row * a.m;
        complex v = {0, 0};
        if (row < a.outer * a.inner) {
            if (k < a.n) v = element_of(a, x, row, k);
            if (k < a.n && a.chirp) v = times(v, chirp_of(a, k));
        } else if (k < a.n || a.m - k < a.n) {
            v = chirp_of(a, k < a.n ? k : a.m - k);
            v.im = -v.im;
        }
        to[item] = v;
    }
}

/* Row `rows` of the transformed ones times all the others. */
extern "C" __global__ void dft_multiply(int64_t rows, int64_t m, complex *v) {
    for (int64_t item = first_item(); item < rows * m; item += item_step())
        v[item] = times(v[item], v[rows * m + (item & (m - 1))]);
}

extern "C" __global__ void dft_store(dft_args a, const complex *__restrict__ from, S *y) {
    for (int64_t item = first_item(); item < a.outer * a.y_dim * a.inner; item += item_step()) {
        int64_t line = quotient(item, a.inner), i = item - line * a.inner, o = quotient(line, a.y_dim);
        int64_t k = line - o * a.y_dim;
        complex v = from[(o * a.inner + i) * a.m + k];
        T scale = (T)1 / (T)((a.chirp ? (double)a.m : 1.0) * (a.inverse ? (double)a.n : 1.0));
        if (a.chirp) v = times(v, chirp_of(a, k));
        y[item * a.y_parts] = to<S>::put((A)(v.re * scale));
        if (a.y_parts > 1) y[item * a.y_parts + 1] = to<S>::put((A)(v.im * scale));
    }
}

/* The transform of R numbers, which come out with the bits of their places turned round; sign: of the exponent. */
template <int R> DEVICE void transform(complex (&v)[R], T sign) {
    const T cosines[8] = {(T)1, (T)0.92387953251128674, (T)0.70710678118654752, (T)0.38268343236508977,
                          (T)0, (T)-0.38268343236508977, (T)-0.70710678118654752, (T)-0.92387953251128674};
#pragma unroll
    for (int half = R / 2; half > 0; half /= 2)
#pragma unroll
        for (int g = 0; g < R; g += 2 * half)
#pragma unroll
            for (int k = 0; k < half; k++) {
                complex a = v[g + k], b = v[g + k + half];
                int at = k * (8 / half); /* sixteenths of a turn */
                complex d = {a.re - b.re, a.im - b.im}, w = {cosines[at], sign * cosines[at < 4 ? 4 - at : at - 4]};
                v[g + k] = complex{a.re + b.re, a.im + b.im};
                v[g + k + half] = at == 0 ? d : times(d, w);
            }
}
template <int R> DEVICE int reversed(int k) {
    int y = 0;
    for (int b = 1; b < R; b *= 2) y = 2 * y + (k / b & 1);
    return y;
}

/* One pass over rows of m: done is the product of the radices of those before. */
template <int R>
DEVICE void pass(int64_t rows, int64_t m, int64_t done, int forward, const complex *from, complex *to) {
    T sign = forward ? (T)-1 : (T)1;
    int64_t each = m / R;
    for (int64_t item = first_item(); item < rows * each; item += item_step()) {
        int64_t row = quotient(item, each), j = item - row * each, k = j & (done - 1);
        const complex *in = from + row * m + j;
        complex *out = to + row * m + (j - k) * R + k, v[R];
#pragma unroll
        for (int r = 0; r < R; r++) v[r] = in[r * each];
        complex step = turn(2 * k, done * R), w = {1, 0};
        step.im *= sign;
#pragma unroll
        for (int r = 1; r < R; r++) {
            if (sizeof(T) == 8 || r % 4 == 0) { /* powers of w lose digits: floats begin anew */
                w = turn(2 * k * r, done * R);
                w.im *= sign;
            } else {
                w = times(w, step);
            }
            v[r] = times(v[r], w);
        }
        transform<R>(v, sign);
#pragma unroll
        for (int r = 0; r < R; r++) out[r * done] = v[reversed<R>(r)];
    }
}
extern "C" __global__ __launch_bounds__(128) void dft_pass_2(int64_t rows, int64_t m, int64_t done, int forward,
                                                             const complex *__restrict__ from, complex *to) {
    pass<2>(rows, m, done, forward, from, to);
}
extern "C" __global__ __launch_bounds__(128) void dft_pass_4(int64_t rows, int64_t m, int64_t done, int forward,
                                                             const complex *__restrict__ from, complex *to) {
    pass<4>(rows, m, done, forward, from, to);
}
extern "C" __global__ __launch_bounds__(128) void dft_pass_8(int64_t rows, int64_t m, int64_t done, int forward,
                                                             const complex *__restrict__ from, complex *to) {
    pass<8>(rows, m, done, forward, from, to);
}
extern "C" __global__ __launch_bounds__(128) void dft_pass_16(int64_t rows, int64_t m, int64_t done, int forward,
                                                              const complex *__restrict__ from, complex *to) {
    pass<16>(rows, m, done, forward, from, to);
}
