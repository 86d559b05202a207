/* cuda/norm.cu: rows brought to mean 0 and variance 1, or to mean square 1; see norm.cuh. */

/* y = (x - mean) * inv_std * scale + bias. bias, means and inv_stds (rows) may be NULL; y may be x. */
template <int N>
DEVICE void norm_all(const norm_args &a, const S *x, const W *scale, const W *bias, Y *y, M *means, M *inv_stds) {
    for (int64_t row = first_row(); row < a.rows; row += row_step()) {
        row_held<N, S> held;
        A mean, inv_std;
        const S *from = x + row * a.cols;
        Y *to_row = y + row * a.cols;
        int64_t start = row % a.mod * a.row_step;
        vec<W, N> scales[held_of<N>::n]; /* under way while the statistics are found, where they are vectors */
        hold<N>(from, a.cols, held);
#pragma unroll
        for (int k = 0; k < held_of<N>::n; k++)
            if (N > 1 && column<N>(k) < a.cols) scales[k] = vec_at<N>(scale + start + column<N>(k));
        row_stats<N>(a, from, held, mean, inv_std);
        auto put = [&](int64_t c, const vec<S, N> &v, const vec<W, N> *held_scale) {
            int64_t at[2];
            picked<N>(a, c, at);
            vec<W, N> by = held_scale ? *held_scale : vec_at<N>(scale + start + at[0]);
            vec<W, N> plus = bias ? vec_at<N>(bias + start + at[1]) : vec_of<N>(to<W>::put((A)0));
            vec<Y, N> to_y;
#pragma unroll
            for (int i = 0; i < N; i++) {
                A h = ((A)get(v.e[i]) - mean) * inv_std * (A)get(by.e[i]);
                to_y.e[i] = to<Y>::put(bias ? h + (A)get(plus.e[i]) : h);
            }
            *(vec<Y, N> *)(to_row + c) = to_y;
        };
#pragma unroll
        for (int k = 0; k < held_of<N>::n; k++)
            if (column<N>(k) < a.cols) put(column<N>(k), held.v[k], N > 1 ? &scales[k] : (vec<W, N> *)0);
        for (int64_t k = held_of<N>::n; column<N>(k) < a.cols; k++)
            put(column<N>(k), vec_at<N>(from + column<N>(k)), (vec<W, N> *)0);
        if (threadIdx.x == 0 && means) means[row] = to<M>::put(mean);
        if (threadIdx.x == 0 && inv_stds) inv_stds[row] = to<M>::put(inv_std);
    }
}
extern "C" __global__ __launch_bounds__(256) void norm_rows(norm_args a, const S *x, const W *scale,
                                                            const W *bias, Y *y, M *means, M *inv_stds) {
    wait_for_earlier();
    norm_all<1>(a, x, scale, bias, y, means, inv_stds);
}
/* Rows of whole vectors, all aligned, scale and bias side by side. */
extern "C" __global__ __launch_bounds__(256) void norm_vectors(norm_args a, const S *x, const W *scale,
                                                               const W *bias, Y *y, M *means,
                                                               M *inv_stds) {
    wait_for_earlier();
    norm_all<V>(a, x, scale, bias, y, means, inv_stds);
}
