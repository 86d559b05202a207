/* cuda/pool_max.cu: the greatest element under each place of a window, and where it lies (kernels/cpu/pool/pool.h says
 * how NaN and equal elements count). LEAST, the type's least value, is defined in front. One thread per place. */
#ifndef LEAST
#define LEAST -INF
#endif

extern "C" __global__ void pool_max(window w, int64_t planes, int column_major, const S *__restrict__ x, S *y,
                                    int64_t *index) {
    int n_out = window_n_out(w), n_in = window_n_in(w);
    for (int64_t i = first_item(); i < planes * n_out; i += item_step()) {
        int64_t plane;
        int place, o[3], at, where = -1;
        split(i, n_out, &plane, &place);
        split3(place, w.out, o);
        const S *from = x + plane * n_in;
        A top = LEAST;
        FOR_TAPS(w, o) {
            if (!taps_at(w, o, t0, t1, t2, &at)) continue;
            A v = (A)get(from[at]);
            if (where >= 0 && (top != top || !(v > top || v != v))) continue;
            top = v;
            where = at;
        }
        y[i] = to<S>::put(top);
        if (!index) continue;
        int a[3];
        split3(where < 0 ? 0 : where, w.in, a);
        int64_t by_columns = ((int64_t)a[2] * w.in[1] + a[1]) * w.in[0] + a[0];
        index[i] = where < 0 ? -1 : plane * n_in + (column_major ? by_columns : where);
    }
}
