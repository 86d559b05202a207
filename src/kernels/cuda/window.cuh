/* cuda/window.cuh: a window that slides over up to three spatial dims, as in kernels/cpu/conv/window.h. Put in front of
 * conv.cu and pool.cu. Planes have fewer than 2^31 elements (the launchers see to it), so offsets in one are int. */
struct window { /* mirrors nck_cuda_window */
    int in[3], k[3], out[3], stride[3], dil[3], pad[3], pad_end[3];
};

DEVICE int window_n_in(const window &w) { return w.in[0] * w.in[1] * w.in[2]; }
DEVICE int window_n_out(const window &w) { return w.out[0] * w.out[1] * w.out[2]; }
DEVICE int window_n_k(const window &w) { return w.k[0] * w.k[1] * w.k[2]; }

/* i as plane and place in it; planes of n. */
DEVICE void split(int64_t i, int n, int64_t *plane, int *at) {
    *plane = i >> 32 == 0 ? (uint32_t)i / (uint32_t)n : i / n;
    *at = (int)(i - *plane * n);
}
DEVICE void split3(int at, const int *dims, int *o) {
    int rest = at / dims[2];
    o[2] = at - rest * dims[2];
    o[0] = rest / dims[1];
    o[1] = rest - o[0] * dims[1];
}

/* Where tap t of place o lies along dim d; false: outside the input. */
DEVICE bool tap_at(const window &w, int d, int o, int t, int *at) {
    *at = o * w.stride[d] - w.pad[d] + t * w.dil[d];
    return *at >= 0 && *at < w.in[d];
}
/* The place whose tap t reads element `at` along dim d; false: none does. */
DEVICE bool place_of(const window &w, int d, int at, int t, int *o) {
    int from = at + w.pad[d] - t * w.dil[d];
    *o = from;
    if (from < 0) return false;
    if (w.stride[d] != 1) {
        *o = from / w.stride[d];
        if (*o * w.stride[d] != from) return false;
    }
    return *o < w.out[d];
}

/* Goes over all taps of place o; inside: whether the tap lies in the plane, at: where. */
#define FOR_TAPS(w, o)                          \
    for (int t0 = 0; t0 < (w).k[0]; t0++)       \
        for (int t1 = 0; t1 < (w).k[1]; t1++)   \
            for (int t2 = 0; t2 < (w).k[2]; t2++)
DEVICE bool taps_at(const window &w, const int *o, int t0, int t1, int t2, int *at) {
    int a0, a1, a2;
    bool inside = tap_at(w, 0, o[0], t0, &a0);
    inside = tap_at(w, 1, o[1], t1, &a1) && inside;
    inside = tap_at(w, 2, o[2], t2, &a2) && inside;
    *at = (a0 * w.in[1] + a1) * w.in[2] + a2;
    return inside;
}
DEVICE bool places_of(const window &w, const int *a, int t0, int t1, int t2, int *place) {
    int o0, o1, o2;
    if (!place_of(w, 0, a[0], t0, &o0) || !place_of(w, 1, a[1], t1, &o1)) return false;
    if (!place_of(w, 2, a[2], t2, &o2)) return false;
    *place = (o0 * w.out[1] + o1) * w.out[2] + o2;
    return true;
}
