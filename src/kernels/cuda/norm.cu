/* cuda/norm.cu: rows brought to mean 0 and variance 1, or to mean square 1, and the gradient of that.
 *
 * x (rows, cols), dense. A row belongs to one warp or one block (join_row). Its first elements stay in registers
 * between the passes for the mean, for the squares and for the result; longer rows are read again. W is the stored type
 * of scale, bias and y, M that of the statistics. Accumulation: in A by a fixed tree. */
#ifndef W
#define W S
#endif
#ifndef M
#define M S
#endif
/* Elements of one vector: 16 bytes of the larger type. */
enum { V = 16 / (sizeof(S) > sizeof(W) ? sizeof(S) : sizeof(W)) };
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

template <int N> struct row_held { vec<S, N> v[held_of<N>::n]; };

template <int N> DEVICE void hold(const S *x, int64_t cols, row_held<N> &held) {
#pragma unroll
    for (int k = 0; k < held_of<N>::n; k++)
        if (column<N>(k) < cols) held.v[k] = vec_at<N>(x + column<N>(k));
}

/* f(column, vector) for every vector of this thread; cols is a multiple of N. */
template <int N, class F> DEVICE void each(const S *x, int64_t cols, const row_held<N> &held, F f) {
#pragma unroll
    for (int k = 0; k < held_of<N>::n; k++)
        if (column<N>(k) < cols) f(column<N>(k), held.v[k]);
    for (int64_t k = held_of<N>::n; column<N>(k) < cols; k++) f(column<N>(k), vec_at<N>(x + column<N>(k)));
}

/* Where scale and bias of a column are: side by side for vectors. */
template <int N> DEVICE void picked(const norm_args &a, int64_t c, int64_t (&at)[2]) {
    if (N > 1) at[0] = at[1] = c;
    else walk_at<2>(a.pick, c, at);
}

template <int N>
DEVICE void row_stats(const norm_args &a, const S *x, const row_held<N> &held, A &mean, A &inv_std) {
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

/* y = (x - mean) * inv_std * scale + bias. bias, means and inv_stds (rows) may be NULL; y may be x. */
template <int N>
DEVICE void norm_all(const norm_args &a, const S *x, const W *scale, const W *bias, W *y, M *means, M *inv_stds) {
    for (int64_t row = first_row(); row < a.rows; row += row_step()) {
        row_held<N> held;
        A mean, inv_std;
        const S *from = x + row * a.cols;
        W *to_row = y + row * a.cols;
        int64_t start = row % a.mod * a.row_step;
        hold<N>(from, a.cols, held);
        row_stats<N>(a, from, held, mean, inv_std);
        each<N>(from, a.cols, held, [&](int64_t c, const vec<S, N> &v) {
            int64_t at[2];
            picked<N>(a, c, at);
            vec<W, N> by = vec_at<N>(scale + start + at[0]), plus = vec_of<N>(to<W>::put((A)0)), to_y;
            if (bias) plus = vec_at<N>(bias + start + at[1]);
#pragma unroll
            for (int i = 0; i < N; i++) {
                A h = ((A)get(v.e[i]) - mean) * inv_std * (A)get(by.e[i]);
                to_y.e[i] = to<W>::put(bias ? h + (A)get(plus.e[i]) : h);
            }
            *(vec<W, N> *)(to_row + c) = to_y;
        });
        if (threadIdx.x == 0 && means) means[row] = to<M>::put(mean);
        if (threadIdx.x == 0 && inv_stds) inv_stds[row] = to<M>::put(inv_std);
    }
}
extern "C" __global__ __launch_bounds__(256) void norm_rows(norm_args a, const S *x, const W *__restrict__ scale,
                                                            const W *__restrict__ bias, W *y, M *means, M *inv_stds) {
    norm_all<1>(a, x, scale, bias, y, means, inv_stds);
}
/* Rows of whole vectors, all aligned, scale and bias side by side. */
extern "C" __global__ __launch_bounds__(256) void norm_vectors(norm_args a, const S *x, const W *__restrict__ scale,
                                                               const W *__restrict__ bias, W *y, M *means,
                                                               M *inv_stds) {
    norm_all<V>(a, x, scale, bias, y, means, inv_stds);
}

/* With g = dy * scale and h the normalized x: dx = (g - mean(g) - h * mean(g * h)) * inv_std, without the first mean
 * where x is not centred. stats (rows, 2): mean and inv_std, for norm_grad_columns. dx may be NULL. */
extern "C" __global__ __launch_bounds__(256) void norm_grad_rows(norm_args a, const S *dy, const S *x,
                                                                 const S *__restrict__ scale, S *dx, A *stats) {
    for (int64_t row = first_row(); row < a.rows; row += row_step()) {
        row_held<1> held;
        A mean, inv_std, along = 0, ahead = 0;
        const S *from = x + row * a.cols, *d = dy + row * a.cols;
        hold<1>(from, a.cols, held);
        row_stats<1>(a, from, held, mean, inv_std);
        if (threadIdx.x == 0) stats[2 * row] = mean, stats[2 * row + 1] = inv_std;
        if (!dx) continue;
        each<1>(from, a.cols, held, [&](int64_t c, const vec<S, 1> &v) {
            int64_t at[2];
            picked<1>(a, c, at);
            A g = (A)get(d[c]) * (A)get(scale[at[0]]);
            ahead += g;
            along += g * (((A)get(v.e[0]) - mean) * inv_std);
        });
        along = join_row<join_sum>(along) / (A)a.cols;
        ahead = join_row<join_sum>(ahead) / (A)a.cols;
        each<1>(from, a.cols, held, [&](int64_t c, const vec<S, 1> &v) {
            int64_t at[2];
            picked<1>(a, c, at);
            A g = (A)get(d[c]) * (A)get(scale[at[0]]), h = ((A)get(v.e[0]) - mean) * inv_std;
            dx[row * a.cols + c] = to<S>::put((g - (a.center ? ahead : (A)0) - h * along) * inv_std);
        });
    }
}

/* partial (segments, 2, cols): the sums of dy * h and of dy over the rows of a segment. Blocks of (32, 8): x over
 * columns, y over rows. */
extern "C" __global__ void norm_grad_columns(norm_args a, int64_t segment, const S *__restrict__ dy,
                                             const S *__restrict__ x, const A *__restrict__ stats, A *partial) {
    __shared__ A tile[2][8][32];
    int64_t n_groups = (a.cols + 31) / 32, n_segments = (a.rows + segment - 1) / segment;
    for (int64_t item = blockIdx.x; item < n_groups * n_segments; item += gridDim.x) {
        int64_t c = item % n_groups * 32 + threadIdx.x, s = item / n_groups;
        int64_t end = min(a.rows, (s + 1) * segment);
        A by_scale = 0, by_bias = 0;
        for (int64_t row = s * segment + threadIdx.y; c < a.cols && row < end; row += 8) {
            A d = get(dy[row * a.cols + c]), v = get(x[row * a.cols + c]);
            by_scale += d * ((v - stats[2 * row]) * stats[2 * row + 1]);
            by_bias += d;
        }
        tile[0][threadIdx.y][threadIdx.x] = by_scale;
        tile[1][threadIdx.y][threadIdx.x] = by_bias;
        __syncthreads();
        for (int d = 4; d > 0; d >>= 1) {
            if (threadIdx.y < d)
                for (int k = 0; k < 2; k++)
                    tile[k][threadIdx.y][threadIdx.x] += tile[k][threadIdx.y + d][threadIdx.x];
            __syncthreads();
        }
        if (threadIdx.y < 2 && c < a.cols)
            partial[(2 * s + threadIdx.y) * a.cols + c] = tile[threadIdx.y][0][threadIdx.x];
        __syncthreads();
    }
}

/* dscale and dbias (cols), either may be NULL. */
extern "C" __global__ void norm_grad_join(int64_t cols, int64_t n_segments, const A *__restrict__ partial, S *dscale,
                                          S *dbias) {
    for (int64_t c = first_item(); c < cols; c += item_step()) {
        A by_scale = 0, by_bias = 0;
        for (int64_t s = 0; s < n_segments; s++) {
            by_scale += partial[2 * s * cols + c];
            by_bias += partial[(2 * s + 1) * cols + c];
        }
        if (dscale) dscale[c] = to<S>::put(by_scale);
        if (dbias) dbias[c] = to<S>::put(by_bias);
    }
}
