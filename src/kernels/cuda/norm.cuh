/* cuda/norm.cuh: what the kernels of norms and of their gradients share: a row in registers, and its statistics.
 *
 * x (rows, cols), dense. A row belongs to one warp or one block (join_row). Its first elements stay in registers
 * between the passes for the mean, for the squares and for the result; longer rows are read again. W is the stored type
 * of scale, bias and their gradients, Y that of y and its gradient, X that of the gradient of x, M that of the
 * statistics, H that of a narrow copy. Accumulation: in A by a fixed tree. With DROPOUT dropout is on the way. */
#define BEGINS_EARLY 1
#ifndef W
#define W S
#define Y S
#define X S
#define M S
#define H S
#endif
/* Elements of one vector: 16 bytes of the smallest type of x, y and their gradients. */
template <class T, class U> struct smaller_of { enum { n = sizeof(T) < sizeof(U) ? sizeof(T) : sizeof(U) }; };
enum { V = 16 / ((int)smaller_of<S, Y>::n < (int)sizeof(X) ? (int)smaller_of<S, Y>::n : (int)sizeof(X)) };
/* Vectors of N that a thread holds. */
template <int N> struct held_of { enum { n = N == 1 ? 8 : 32 / N }; };

/* Scale and bias of (row, col): row % mod * row_step, and further by the walk through a row's columns. Mirrors
 * nck_cuda_norm_args in norm.h. */
struct norm_args {
    int64_t rows, cols, mod, row_step;
    walk pick;
    double epsilon;
    int64_t center;
};

/* Which elements are dropped, as in dropout.cu: state (2) = {seed, step}, in device memory. Mirrors nck_cuda_norm_drop
 * of norm.h. */
struct norm_drop {
    const int64_t *state;
    uint32_t node, limit;
    double scale;
};
struct drawn {
    uint64_t key;
    uint32_t step;
    A factor;
};
#ifdef DROPOUT
DEVICE drawn drawn_of(const norm_drop &d) { return {(uint64_t)d.state[0], (uint32_t)d.state[1], (A)d.scale}; }
/* Bit k: element i + k stays. i is a multiple of N. */
template <int N> DEVICE uint32_t kept_of(const norm_drop &d, const drawn &from, int64_t i) {
    uint32_t kept = 0;
#pragma unroll
    for (int k = 0; k < N; k += 4) {
        uint32_t words[4];
        nck_philox4(from.key, d.node, from.step, (uint64_t)(i + k) / 4, words);
#pragma unroll
        for (int j = 0; j < 4 && k + j < N; j++)
            kept |= (uint32_t)(words[N < 4 ? (i + j) % 4 : j] >> 8 >= d.limit) << (k + j);
    }
    return kept;
}
template <class T> DEVICE T dropped(T x, bool stays, const drawn &from) {
    return to<T>::put(stays ? (A)get(x) * from.factor : (A)0);
}
#else
DEVICE drawn drawn_of(const norm_drop &) { return {}; }
template <int N> DEVICE uint32_t kept_of(const norm_drop &, const drawn &, int64_t) { return 0; }
template <class T> DEVICE T dropped(T x, bool, const drawn &) { return x; }
#endif

DEVICE int64_t first_row(void) { return blockIdx.x * (int64_t)blockDim.y + threadIdx.y; }
DEVICE int64_t row_step(void) { return gridDim.x * (int64_t)blockDim.y; }

/* Column k * N of this thread's turn. */
template <int N> DEVICE int64_t column(int64_t k) { return (threadIdx.x + k * blockDim.x) * N; }

template <int N, class T> struct row_held { vec<T, N> v[held_of<N>::n]; };

template <int N, class T> DEVICE void hold(const T *x, int64_t cols, row_held<N, T> &held) {
#pragma unroll
    for (int k = 0; k < held_of<N>::n; k++)
        if (column<N>(k) < cols) held.v[k] = vec_at<N>(x + column<N>(k));
}

/* f(column, vector of x, vector of d) for every vector of this thread; cols is a multiple of N. */
template <int N, class T, class F>
DEVICE void each_pair(const S *x, const T *d, int64_t cols, const row_held<N, S> &hx, const row_held<N, T> &hd, F f) {
#pragma unroll
    for (int k = 0; k < held_of<N>::n; k++)
        if (column<N>(k) < cols) f(column<N>(k), hx.v[k], hd.v[k]);
    for (int64_t k = held_of<N>::n; column<N>(k) < cols; k++)
        f(column<N>(k), vec_at<N>(x + column<N>(k)), vec_at<N>(d + column<N>(k)));
}
template <int N, class F> DEVICE void each(const S *x, int64_t cols, const row_held<N, S> &held, F f) {
    each_pair<N, S>(x, x, cols, held, held, [&](int64_t c, const vec<S, N> &v, const vec<S, N> &) { f(c, v); });
}

/* Where scale and bias of a column are: side by side for vectors. */
template <int N> DEVICE void picked(const norm_args &a, int64_t c, int64_t (&at)[2]) {
    if (N > 1) at[0] = at[1] = c;
    else walk_at<2>(a.pick, c, at);
}

template <int N>
DEVICE void row_stats(const norm_args &a, const S *x, const row_held<N, S> &held, A &mean, A &inv_std) {
    A sum = 0, squares = 0;
    if (a.center)
        each<N>(x, a.cols, held, [&](int64_t, const vec<S, N> &v) {
#pragma unroll
            for (int i = 0; i < N; i++) sum += (A)get(v.e[i]);
        });
    mean = a.center ? join_row<join_sum>(sum) / (A)a.cols : (A)0;
    A middle = mean;
    each<N>(x, a.cols, held, [&](int64_t, const vec<S, N> &v) {
#pragma unroll
        for (int i = 0; i < N; i++) squares += ((A)get(v.e[i]) - middle) * ((A)get(v.e[i]) - middle);
    });
    squares = join_row<join_sum>(squares);
    inv_std = (A)1 / sqrt(squares / (A)a.cols + (A)a.epsilon);
}

/* y = (x - mean) * inv_std * scale + bias. bias, means and inv_stds (rows) may be NULL; y may be x. hold_row gets a row
 * of x. EARLY: scales are under way while the statistics are found, where they are vectors; it takes registers. */
template <int N, bool EARLY, class F>
DEVICE void norm_all(const norm_args &a, const S *x, const W *scale, const W *bias, Y *y, M *means, M *inv_stds,
                     F hold_row) {
    for (int64_t row = first_row(); row < a.rows; row += row_step()) {
        row_held<N, S> held;
        A mean, inv_std;
        const S *from = x + row * a.cols;
        Y *to_row = y + row * a.cols;
        int64_t start = row % a.mod * a.row_step;
        vec<W, N> scales[held_of<N>::n];
        hold_row(row, held);
#pragma unroll
        for (int k = 0; k < held_of<N>::n; k++)
            if (EARLY && N > 1 && column<N>(k) < a.cols) scales[k] = vec_at<N>(scale + start + column<N>(k));
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
            if (column<N>(k) < a.cols) put(column<N>(k), held.v[k], EARLY && N > 1 ? &scales[k] : (vec<W, N> *)0);
        for (int64_t k = held_of<N>::n; column<N>(k) < a.cols; k++)
            put(column<N>(k), vec_at<N>(from + column<N>(k)), (vec<W, N> *)0);
        if (threadIdx.x == 0 && means) means[row] = to<M>::put(mean);
        if (threadIdx.x == 0 && inv_stds) inv_stds[row] = to<M>::put(inv_std);
    }
}
