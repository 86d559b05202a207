/* cuda/conv.cu: what convolutions need beside matrix products: columns of what the window sees, their way back, a
 * direct kernel for one channel per group, biases. Sums of the direct kernel and of the way back: in A, in the order of
 * the taps. */

/* cols (plane, tap, place): element (plane, tap, place) goes to offset plane % C * step_c + plane / C * step_n + tap *
 * step_tap + place. A thread takes one place of one plane and all taps. */
struct column_steps { /* mirrors that of conv.c */
    int64_t C, c, n, tap;
};

extern "C" __global__ void columns(window w, int64_t planes, column_steps s, const S *__restrict__ x, S *cols) {
    int n_out = window_n_out(w), n_in = window_n_in(w);
    const S zero = to<S>::put((A)0);
    for (int64_t i = first_item(); i < planes * n_out; i += item_step()) {
        int64_t plane, image;
        int place, channel, o[3], at;
        split(i, n_out, &plane, &place);
        split(plane, (int)s.C, &image, &channel);
        split3(place, w.out, o);
        const S *from = x + plane * n_in;
        S *to_ = cols + image * s.n + channel * s.c + place;
        FOR_TAPS(w, o) {
            bool inside = taps_at(w, o, t0, t1, t2, &at);
            *to_ = inside ? from[at] : zero;
            to_ += s.tap;
        }
    }
}

/* x (planes, in) = the sum of what the columns (planes, taps, places) have for each element, plus bias (C) or NULL. */
extern "C" __global__ void back(window w, int64_t planes, int64_t C, const S *__restrict__ cols,
                                const S *__restrict__ bias, S *x) {
    int n_out = window_n_out(w), n_in = window_n_in(w), n_k = window_n_k(w);
    for (int64_t i = first_item(); i < planes * n_in; i += item_step()) {
        int64_t plane;
        int element, a[3], place, t = 0;
        split(i, n_in, &plane, &element);
        split3(element, w.in, a);
        const S *from = cols + plane * n_k * n_out;
        A sum = 0;
        FOR_TAPS(w, a) {
            if (places_of(w, a, t0, t1, t2, &place)) sum += (A)get(from[(int64_t)t * n_out + place]);
            t++;
        }
        if (bias) sum += (A)get(bias[plane % C]);
        x[i] = to<S>::put(sum);
    }
}

/* y (N, K, out) = x (N, C, in) under w (K, 1, k): one channel per group, K / C outputs of each. */
extern "C" __global__ void depthwise(window w, int64_t planes, int64_t K, int64_t C, const S *__restrict__ x,
                                     const S *__restrict__ weight, const S *__restrict__ bias, S *y) {
    int n_out = window_n_out(w), n_in = window_n_in(w), n_k = window_n_k(w);
    for (int64_t i = first_item(); i < planes * n_out; i += item_step()) {
        int64_t plane, image;
        int place, o[3], at, t = 0, channel;
        split(i, n_out, &plane, &place);
        split(plane, (int)K, &image, &channel);
        split3(place, w.out, o);
        const S *from = x + (image * C + channel / (K / C)) * n_in, *taps = weight + (int64_t)channel * n_k;
        A sum = bias ? (A)get(bias[channel]) : (A)0;
        FOR_TAPS(w, o) {
            if (taps_at(w, o, t0, t1, t2, &at)) sum += (A)get(from[at]) * (A)get(taps[t]);
            t++;
        }
        y[i] = to<S>::put(sum);
    }
}

/* y (planes, n) = bias of the plane, of which there are K; zeros without a bias. */
extern "C" __global__ void biases(int64_t planes, int64_t n, int64_t K, const S *__restrict__ bias, S *y) {
    for (int64_t i = first_item(); i < planes * n; i += item_step())
        y[i] = bias ? bias[i / n % K] : to<S>::put((A)0);
}

/* y (planes, n) plus the bias of the plane, of which there are K. */
extern "C" __global__ void add_biases(int64_t planes, int64_t n, int64_t K, const S *__restrict__ bias, S *y) {
    for (int64_t i = first_item(); i < planes * n; i += item_step()) {
        int64_t plane, image;
        int at, k;
        split(i, (int)n, &plane, &at);
        split(plane, (int)K, &image, &k);
        y[i] = to<S>::put((A)get(y[i]) + (A)get(bias[k]));
    }
}

/* y (N, K, n) = x (K, N, n), plus bias (K) or NULL. */
extern "C" __global__ void apart(int64_t N, int64_t K, int64_t n, const S *__restrict__ x, const S *__restrict__ bias,
                                 S *y) {
    for (int64_t i = first_item(); i < N * K * n; i += item_step()) {
        int64_t plane, image;
        int at, k;
        split(i, (int)n, &plane, &at);
        split(plane, (int)K, &image, &k);
        A v = (A)get(x[(k * N + image) * n + at]);
        y[i] = to<S>::put(bias ? v + (A)get(bias[k]) : v);
    }
}

/* y (K, N, n) = x (N, K, n). */
extern "C" __global__ void side_by_side(int64_t N, int64_t K, int64_t n, const S *__restrict__ x, S *y) {
    for (int64_t i = first_item(); i < N * K * n; i += item_step()) {
        int64_t plane = i / n, k = plane % K, image = plane / K;
        y[(k * N + image) * n + i % n] = x[i];
    }
}
