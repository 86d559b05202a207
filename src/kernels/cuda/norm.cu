/* cuda/norm.cu: rows brought to mean 0 and variance 1, or to mean square 1; see norm.cuh. */

template <int N>
DEVICE void norm_given(const norm_args &a, const S *x, const W *scale, const W *bias, Y *y, M *means, M *inv_stds) {
    norm_all<N, true>(a, x, scale, bias, y, means, inv_stds,
                [&](int64_t row, row_held<N, S> &held) { hold<N>(x + row * a.cols, a.cols, held); });
}
extern "C" __global__ __launch_bounds__(256) void norm_rows(norm_args a, const S *x, const W *scale,
                                                            const W *bias, Y *y, M *means, M *inv_stds) {
    wait_for_earlier();
    norm_given<1>(a, x, scale, bias, y, means, inv_stds);
}
/* Rows of whole vectors, all aligned, scale and bias side by side. */
extern "C" __global__ __launch_bounds__(256) void norm_vectors(norm_args a, const S *x, const W *scale,
                                                               const W *bias, Y *y, M *means,
                                                               M *inv_stds) {
    wait_for_earlier();
    norm_given<V>(a, x, scale, bias, y, means, inv_stds);
}
