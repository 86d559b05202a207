/* cuda/pool_max.cu: the greatest element under each place of a window, and where it lies (kernels/cpu/pool/pool.h says
 * how NaN and equal elements count). LEAST, the type's least value, is defined in front. One thread per place. */
#ifndef LEAST
#define LEAST -INF
#endif

/* v takes the place of top: it is greater or NaN, and top is not NaN. */
DEVICE bool takes_over(A v, A top) { return !(top != top) && (v > top || v != v); }

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
            if (where >= 0 && !takes_over(v, top)) continue;
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

/* The last dim is not pooled (channels last): V elements of it a thread, whole vectors, all aligned; no places. */
enum { V = 16 / sizeof(S) };
extern "C" __global__ void pool_max_last(window w, int64_t planes, const S *__restrict__ x, S *y) {
    int n_vectors = w.out[2] / V, n_places = w.out[0] * w.out[1];
    for (int64_t i = first_item(); i < planes * n_places * n_vectors; i += item_step()) {
        int64_t place, plane;
        int c, o, a0, a1;
        split(i, n_vectors, &place, &c);
        split(place, n_places, &plane, &o);
        const S *from = x + plane * window_n_in(w) + c * V;
        vec<S, V> top = vec_of<V>(to<S>::put((A)LEAST));
        bool any = false;
        for (int t0 = 0; t0 < w.k[0]; t0++)
            for (int t1 = 0; t1 < w.k[1]; t1++) {
                if (!tap_at(w, 0, o / w.out[1], t0, &a0) || !tap_at(w, 1, o % w.out[1], t1, &a1)) continue;
                vec<S, V> v = vec_at<V>(from + (a0 * w.in[1] + a1) * w.in[2]);
#pragma unroll
                for (int e = 0; e < V; e++)
                    if (!any || takes_over((A)get(v.e[e]), (A)get(top.e[e]))) top.e[e] = v.e[e];
                any = true;
            }
        *(vec<S, V> *)(y + i * V) = top;
    }
}
