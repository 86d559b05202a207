/* cuda/conv_last.cu: what convolutions with channels last need beside matrix products: columns, and a direct kernel for
 * one channel per group, whose sums are in A, in the order of the taps. */
struct __align__(16) wide { uint64_t lo, hi; };

/* cols (group, images x places, taps, Cg) = what the window sees of x (images, in, group x Cg); zeros outside. Channels
 * are words of V, several elements where C/group and the addresses allow it. */
template <class V> DEVICE void put_columns(const window &w, int64_t images, int64_t groups, int64_t Cg, const V *x,
                                           V *cols) {
    int64_t n_out = window_n_out(w), n_in = window_n_in(w), n_k = window_n_k(w), C = groups * Cg;
    int64_t rows = images * n_out;
    for (int64_t i = first_item(); i < rows * n_k * C; i += item_step()) {
        int64_t r = quotient(i, C), c = i - r * C, row = quotient(r, n_k), image = quotient(row, n_out);
        int64_t g = groups == 1 ? 0 : quotient(c, Cg);
        int tap = (int)(r - row * n_k), t[3], o[3], at;
        split3(tap, w.k, t);
        split3((int)(row - image * n_out), w.out, o);
        V v = {};
        if (taps_at(w, o, t[0], t[1], t[2], &at)) v = x[(image * n_in + at) * C + c];
        cols[((g * rows + row) * n_k + tap) * Cg + c - g * Cg] = v;
    }
}
extern "C" __global__ void columns(window w, int64_t images, int64_t groups, int64_t Cg, const S *__restrict__ x,
                                   S *cols) {
    put_columns<S>(w, images, groups, Cg, x, cols);
}
extern "C" __global__ void columns_wide(window w, int64_t images, int64_t groups, int64_t Cg,
                                        const wide *__restrict__ x, wide *cols) {
    put_columns<wide>(w, images, groups, Cg, x, cols);
}

/* y (N, out, K) = x (N, in, C) under w (K, k): one channel per group, K / C outputs of each. */
extern "C" __global__ void depthwise(window w, int64_t N, int64_t K, int64_t C, const S *__restrict__ x,
                                     const S *__restrict__ weight, const S *__restrict__ bias, S *y) {
    int64_t n_out = window_n_out(w), n_in = window_n_in(w), n_k = window_n_k(w), each = K / C;
    for (int64_t i = first_item(); i < N * n_out * K; i += item_step()) {
        int64_t row = quotient(i, K), k = i - row * K, image = quotient(row, n_out);
        int o[3], at, t = 0;
        split3((int)(row - image * n_out), w.out, o);
        const S *from = x + image * n_in * C + (each == 1 ? k : quotient(k, each)), *taps = weight + k * n_k;
        A sum = bias ? (A)get(bias[k]) : (A)0;
        FOR_TAPS(w, o) {
            if (taps_at(w, o, t0, t1, t2, &at)) sum += (A)get(from[at * C]) * (A)get(taps[t]);
            t++;
        }
        y[i] = to<S>::put(sum);
    }
}
