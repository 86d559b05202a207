/* cuda/norm.cuh: what the kernels of norms and of their gradients share: a row in registers, and its statistics.
 *
 * x (rows, cols), dense. A row belongs to one warp or one block (join_row). Its first elements stay in registers
 * between the passes for the mean, for the squares and for the result; longer rows are read again. W is the stored type
 * of scale, bias and their gradients, Y that of y and its gradient, X that of the gradient of x, M that of the
 * statistics, H that of a narrow copy. Accumulation: in A by a fixed tree. */
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
