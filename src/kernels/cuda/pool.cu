/* cuda/pool.cu: pools over planes (kernels/cpu/pool/pool.h says what they give) and the gradient of averages. One
 * thread per place. Sums: in double, in the order of the taps. */

/* Mirrors nck_pool_divide. */
enum { SUM, BY_TAPS, BY_PADDED };

DEVICE int count_along(const window &w, int d, int o, int by) {
    int first = o * w.stride[d] - w.pad[d], n = 0, at;
    if (by == BY_PADDED) { /* a window that ceil_mode lets hang over counts only what is padded */
        int count = (w.in[d] + w.pad_end[d] - first + w.dil[d] - 1) / w.dil[d];
        bool inside = first >= 0 && first + (w.k[d] - 1) * w.dil[d] < w.in[d];
        return inside || count > w.k[d] ? w.k[d] : count;
    }
    for (int t = 0; t < w.k[d]; t++) n += tap_at(w, d, o, t, &at);
    return n;
}
DEVICE double count_at(const window &w, const int *o, int by) {
    if (by == SUM) return 1;
    return (double)((int64_t)count_along(w, 0, o[0], by) * count_along(w, 1, o[1], by) * count_along(w, 2, o[2], by));
}

extern "C" __global__ void pool_average(window w, int64_t planes, int by, const S *__restrict__ x, S *y) {
    int n_out = window_n_out(w), n_in = window_n_in(w);
    for (int64_t i = first_item(); i < planes * n_out; i += item_step()) {
        int64_t plane;
        int place, o[3], at;
        split(i, n_out, &plane, &place);
        split3(place, w.out, o);
        const S *from = x + plane * n_in;
        double sum = 0;
        FOR_TAPS(w, o) if (taps_at(w, o, t0, t1, t2, &at)) sum += (double)get(from[at]);
        y[i] = to<S>::put((A)(sum / count_at(w, o, by)));
    }
}

/* dx (planes, in) from dy (planes, out). */
extern "C" __global__ void pool_average_grad(window w, int64_t planes, int by, const S *__restrict__ dy, S *dx) {
    int n_out = window_n_out(w), n_in = window_n_in(w);
    for (int64_t i = first_item(); i < planes * n_in; i += item_step()) {
        int64_t plane;
        int element, a[3], place, o[3];
        split(i, n_in, &plane, &element);
        split3(element, w.in, a);
        A sum = 0;
        FOR_TAPS(w, a) {
            if (!places_of(w, a, t0, t1, t2, &place)) continue;
            split3(place, w.out, o);
            sum += (A)((double)get(dy[plane * n_out + place]) / count_at(w, o, by));
        }
        dx[i] = to<S>::put(sum);
    }
}

extern "C" __global__ void pool_lp(window w, int64_t planes, double p, const S *__restrict__ x, S *y) {
    int n_out = window_n_out(w), n_in = window_n_in(w);
    for (int64_t i = first_item(); i < planes * n_out; i += item_step()) {
        int64_t plane;
        int place, o[3], at;
        split(i, n_out, &plane, &place);
        split3(place, w.out, o);
        double sum = 0;
        FOR_TAPS(w, o) {
            if (!taps_at(w, o, t0, t1, t2, &at)) continue;
            double v = fabs((double)get(x[plane * n_in + at]));
            sum += p == 2 ? v * v : p == 1 ? v : pow(v, p);
        }
        y[i] = to<S>::put((A)(p == 2 ? sqrt(sum) : p == 1 ? sum : pow(sum, 1 / p)));
    }
}
