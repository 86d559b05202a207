/* cuda/norm_sum.cu: a sum, one part of which dropout may have thinned out, and its norm in one pass; see norm.cuh. */

/* x (rows, cols) = other + part, some of whose elements may be dropped. Mirrors nck_cuda_norm_sum. */
struct norm_sum {
    const X *part;
    const S *other;
    S *x;
    norm_drop drop;
};
template <int N>
DEVICE vec<S, N> sum_at(const norm_sum &s, const drawn &draw, int64_t i, const vec<X, N> &part, vec<S, N> v) {
    uint32_t kept = kept_of<N>(s.drop, draw, i);
#pragma unroll
    for (int k = 0; k < N; k++)
        v.e[k] = to<S>::put((A)get(v.e[k]) + (A)get(dropped(part.e[k], kept >> k & 1, draw)));
    *(vec<S, N> *)(s.x + i) = v;
    return v;
}
/* A row of x, all loads of what is held under way at once. */
template <int N>
DEVICE void sum_row(const norm_sum &s, const drawn &draw, int64_t start, int64_t cols, row_held<N, S> &held) {
    row_held<N, X> parts;
    hold<N>(s.part + start, cols, parts);
    hold<N>(s.other + start, cols, held);
#pragma unroll
    for (int k = 0; k < held_of<N>::n; k++)
        if (column<N>(k) < cols) held.v[k] = sum_at<N>(s, draw, start + column<N>(k), parts.v[k], held.v[k]);
    for (int64_t k = held_of<N>::n; column<N>(k) < cols; k++) {
        int64_t i = start + column<N>(k);
        sum_at<N>(s, draw, i, vec_at<N>(s.part + i), vec_at<N>(s.other + i));
    }
}
template <int N>
DEVICE void norm_summed(const norm_args &a, const norm_sum &s, const W *scale, const W *bias, Y *y, M *means,
                        M *inv_stds) {
    drawn draw = drawn_of(s.drop);
    norm_all<N, false>(a, s.x, scale, bias, y, means, inv_stds, [&](int64_t row, row_held<N, S> &held) {
        sum_row<N>(s, draw, row * a.cols, a.cols, held);
    });
}
extern "C" __global__ __launch_bounds__(256) void norm_sum_rows(norm_args a, norm_sum s, const W *scale, const W *bias,
                                                                Y *y, M *means, M *inv_stds) {
    wait_for_earlier();
    norm_summed<1>(a, s, scale, bias, y, means, inv_stds);
}
extern "C" __global__ __launch_bounds__(256) void norm_sum_vectors(norm_args a, norm_sum s, const W *scale,
                                                                   const W *bias, Y *y, M *means, M *inv_stds) {
    wait_for_earlier();
    norm_summed<V>(a, s, scale, bias, y, means, inv_stds);
}
