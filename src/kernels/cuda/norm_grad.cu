/* cuda/norm_grad.cu: the gradient of norms; see norm.cuh. */

/* Where a gradient of x goes: dx, to which other is added unless that is NULL (it may be dx), and a narrow copy of the
 * sum, of which some may be dropped, unless that is NULL. dx may be NULL: there is no such gradient. n_sums: how many
 * sums over rows norm_grad_sums leaves; with 3 the last is that of the narrow one. mean and inv_std (rows): of the
 * forward pass, for norm_grad_sums, or NULL: both are found anew. */
struct norm_dx {
    X *dx;
    const X *other;
    H *narrow;
    int64_t n_sums;
    const A *mean, *inv_std;
    norm_drop drop;
};
template <int N> DEVICE vec<X, N> other_at(const norm_dx &to_x, int64_t i) {
    return to_x.other ? vec_at<N>(to_x.other + i) : vec_of<N>(to<X>::put((A)0));
}
/* kept: of kept_of */
template <int N>
DEVICE vec<H, N> put_dx(const norm_dx &to_x, int64_t i, vec<X, N> d, const vec<X, N> &other, uint32_t kept,
                        const drawn &from) {
    vec<H, N> narrow;
#pragma unroll
    for (int k = 0; k < N; k++) {
        if (to_x.other) d.e[k] = to<X>::put((A)get(d.e[k]) + (A)get(other.e[k]));
        narrow.e[k] = dropped(to<H>::put((A)get(d.e[k])), kept >> k & 1, from);
    }
    *(vec<X, N> *)(to_x.dx + i) = d;
    if (to_x.narrow) *(vec<H, N> *)(to_x.narrow + i) = narrow;
    return narrow;
}

/* With g = dy * scale and h the normalized x: dx = (g - mean(g) - h * mean(g * h)) * inv_std, without the first mean
 * where x is not centred. stats (rows, 2): mean and inv_std, for norm_grad_columns. */
template <int N>
DEVICE void grad_all(const norm_args &a, const Y *dy, const S *x, const W *scale, const norm_dx &to_x, A *stats) {
    drawn draw = drawn_of(to_x.drop);
    for (int64_t row = first_row(); row < a.rows; row += row_step()) {
        row_held<N, S> hx;
        row_held<N, Y> hd;
        A mean, inv_std, along = 0, ahead = 0;
        const S *from = x + row * a.cols;
        const Y *d = dy + row * a.cols;
        hold<N>(from, a.cols, hx);
        hold<N>(d, a.cols, hd);
        row_stats<N>(a, from, hx, mean, inv_std);
        if (threadIdx.x == 0) stats[2 * row] = mean, stats[2 * row + 1] = inv_std;
        if (!to_x.dx) continue;
        each_pair<N, Y>(from, d, a.cols, hx, hd, [&](int64_t c, const vec<S, N> &v, const vec<Y, N> &e) {
            int64_t at[2];
            picked<N>(a, c, at);
            vec<W, N> by = vec_at<N>(scale + at[0]);
#pragma unroll
            for (int i = 0; i < N; i++) {
                A g = (A)get(e.e[i]) * (A)get(by.e[i]);
                ahead += g;
                along += g * (((A)get(v.e[i]) - mean) * inv_std);
            }
        });
        along = join_row<join_sum>(along) / (A)a.cols;
        ahead = a.center ? join_row<join_sum>(ahead) / (A)a.cols : (A)0;
        each_pair<N, Y>(from, d, a.cols, hx, hd, [&](int64_t c, const vec<S, N> &v, const vec<Y, N> &e) {
            int64_t at[2];
            picked<N>(a, c, at);
            vec<W, N> by = vec_at<N>(scale + at[0]);
            vec<X, N> to_dx;
#pragma unroll
            for (int i = 0; i < N; i++) {
                A g = (A)get(e.e[i]) * (A)get(by.e[i]), h = ((A)get(v.e[i]) - mean) * inv_std;
                to_dx.e[i] = to<X>::put((g - ahead - h * along) * inv_std);
            }
            int64_t i = row * a.cols + c;
            put_dx<N>(to_x, i, to_dx, other_at<N>(to_x, i), kept_of<N>(to_x.drop, draw, i), draw);
        });
    }
}
extern "C" __global__ __launch_bounds__(256) void norm_grad_rows(norm_args a, const Y *dy, const S *x,
                                                                 const W *scale, norm_dx to_x, A *stats) {
    wait_for_earlier();
    grad_all<1>(a, dy, x, scale, to_x, stats);
}
/* Rows of whole vectors, all aligned, scale side by side. */
extern "C" __global__ __launch_bounds__(256) void norm_grad_vectors(norm_args a, const Y *dy, const S *x,
                                                                    const W *scale, norm_dx to_x, A *stats) {
    wait_for_earlier();
    grad_all<V>(a, dy, x, scale, to_x, stats);
}

/* Sums of K numbers over the threads of a block, by a fixed tree; warps: shared memory that nobody reads any more. */
enum { MOST_WARPS = 8 };
template <int K> DEVICE void join_sums(A (&v)[K], A (&warps)[MOST_WARPS][2]) {
#pragma unroll
    for (int d = 16; d > 0; d >>= 1)
        for (int k = 0; k < K; k++) v[k] += __shfl_xor_sync(0xffffffffu, v[k], d);
    if (blockDim.x == 32) return;
    if (threadIdx.x % 32 == 0)
        for (int k = 0; k < K; k++) warps[threadIdx.x / 32][k] = v[k];
    __syncthreads();
    for (int k = 0; k < K; k++) v[k] = warps[0][k];
    for (int i = 1; i < blockDim.x / 32; i++)
        for (int k = 0; k < K; k++) v[k] += warps[i][k];
}

/* The mean and the inverse deviation of a row, of which each thread has a vector. */
struct row_moments {
    A mean, inv_std;
};
template <int N>
DEVICE row_moments moments_of(const norm_args &a, bool mine, const vec<S, N> &v, A (&total_of)[MOST_WARPS][2],
                              A (&squares_of)[MOST_WARPS][2]) {
    A total[1] = {0}, squares[1] = {0};
#pragma unroll
    for (int i = 0; i < N; i++) total[0] += (A)get(v.e[i]);
    if (a.center) join_sums<1>(total, total_of);
    row_moments m = {a.center ? total[0] / (A)a.cols : (A)0, 0};
#pragma unroll
    for (int i = 0; i < N; i++) {
        A h = mine ? (A)get(v.e[i]) - m.mean : (A)0;
        squares[0] += h * h;
    }
    join_sums<1>(squares, squares_of);
    m.inv_std = (A)1 / sqrt(squares[0] / (A)a.cols + (A)a.epsilon);
    return m;
}
DEVICE row_moments moments_at(const norm_dx &to_x, int64_t row) {
    return to_x.mean ? row_moments{to_x.mean[row], to_x.inv_std[row]} : row_moments{0, 0};
}

/* The same of rows that a block holds, a vector a thread, with the sums of their columns on the way: partial (segments,
 * n_sums, cols), the sums of dy * h, of dy and of the narrow gradient over the rows of a segment, which is one block's.
 * The next row is under way while one is worked on. */
template <int N>
DEVICE void sums_all(const norm_args &a, int64_t segment, const Y *dy, const S *x, const W *scale, const norm_dx &to_x,
                     A *partial) {
    __shared__ A warps[3][2][MOST_WARPS][2]; /* of each sum, of rows in turn: one barrier parts them */
    int64_t c = threadIdx.x * (int64_t)N, row = blockIdx.x * segment, end = min(a.rows, row + segment);
    bool mine = c < a.cols;
    drawn draw = drawn_of(to_x.drop);
    vec<W, N> by = vec_of<N>(to<W>::put((A)0));
    vec<S, N> next_v = vec_of<N>(to<S>::put((A)0));
    vec<Y, N> next_d = vec_of<N>(to<Y>::put((A)0));
    if (mine) {
        by = vec_at<N>(scale + c);
        next_v = vec_at<N>(x + row * a.cols + c);
        next_d = vec_at<N>(dy + row * a.cols + c);
    }
    row_moments next_m = moments_at(to_x, row);
    A sum[3][N];
#pragma unroll
    for (int i = 0; i < N; i++) sum[0][i] = sum[1][i] = sum[2][i] = 0;
    for (; row < end; row++) {
        vec<S, N> v = next_v;
        vec<Y, N> d = next_d;
        row_moments m = next_m;
        if (row + 1 < end) next_m = moments_at(to_x, row + 1);
        if (mine && row + 1 < end)
            next_v = vec_at<N>(x + (row + 1) * a.cols + c), next_d = vec_at<N>(dy + (row + 1) * a.cols + c);
        vec<X, N> other = vec_of<N>(to<X>::put((A)0));
        if (mine && to_x.dx) other = other_at<N>(to_x, row * a.cols + c);
        uint32_t kept = kept_of<N>(to_x.drop, draw, row * a.cols + c);
        A means[2] = {0, 0}, h[N], g[N];
        if (!to_x.mean) m = moments_of<N>(a, mine, v, warps[0][row & 1], warps[1][row & 1]);
#pragma unroll
        for (int i = 0; i < N; i++) {
            A e = get(d.e[i]);
            h[i] = mine ? ((A)get(v.e[i]) - m.mean) * m.inv_std : (A)0;
            g[i] = e * (A)get(by.e[i]);
            sum[0][i] += e * h[i];
            sum[1][i] += e;
            means[0] += g[i] * h[i];
            means[1] += g[i];
        }
        if (!to_x.dx) continue;
        join_sums<2>(means, warps[2][row & 1]);
        A along = means[0] / (A)a.cols, ahead = a.center ? means[1] / (A)a.cols : (A)0;
        vec<X, N> to_dx;
#pragma unroll
        for (int i = 0; i < N; i++) to_dx.e[i] = to<X>::put((g[i] - ahead - h[i] * along) * m.inv_std);
        if (!mine) continue;
        vec<H, N> narrow = put_dx<N>(to_x, row * a.cols + c, to_dx, other, kept, draw);
#pragma unroll
        for (int i = 0; i < N; i++) sum[2][i] += (A)get(narrow.e[i]);
    }
    if (!mine) return;
#pragma unroll
    for (int k = 0; k < 3 * N; k++)
        if (k / N < to_x.n_sums)
            partial[(to_x.n_sums * blockIdx.x + k / N) * a.cols + c + k % N] = sum[k / N][k % N];
}
extern "C" __global__ __launch_bounds__(256) void norm_grad_sums(norm_args a, int64_t segment, const Y *dy,
                                                                 const S *x, const W *scale, norm_dx to_x,
                                                                 A *partial) {
    wait_for_earlier();
    sums_all<V>(a, segment, dy, x, scale, to_x, partial);
}

/* The sums of a column over the 8 rows of a block of (32, 8), N columns and two sums a thread. */
template <int N> DEVICE void join_tile(A (&tile)[8][32][2 * N + 1], A (&sum)[2 * N]) {
    for (int k = 0; k < 2 * N; k++) tile[threadIdx.y][threadIdx.x][k] = sum[k];
    __syncthreads();
    for (int d = 4; d > 0; d >>= 1) {
        for (int k = 0; threadIdx.y < d && k < 2 * N; k++)
            tile[threadIdx.y][threadIdx.x][k] += tile[threadIdx.y + d][threadIdx.x][k];
        __syncthreads();
    }
    for (int k = 0; k < 2 * N; k++) sum[k] = tile[0][threadIdx.x][k];
    __syncthreads();
}

/* partial (segments, 2, cols): the sums of dy * h and of dy over the rows of a segment. Blocks of (32, 8): x over
 * N columns each, y over rows. */
template <int N>
DEVICE void columns_all(const norm_args &a, int64_t segment, const Y *dy, const S *x, const A *stats, A *partial) {
    __shared__ A tile[8][32][2 * N + 1];
    int64_t n_groups = (a.cols + 32 * N - 1) / (32 * N), n_segments = (a.rows + segment - 1) / segment;
    for (int64_t item = blockIdx.x; item < n_groups * n_segments; item += gridDim.x) {
        int64_t c = (item % n_groups * 32 + threadIdx.x) * N, s = item / n_groups;
        int64_t end = min(a.rows, (s + 1) * segment);
        A sum[2 * N];
        for (int k = 0; k < 2 * N; k++) sum[k] = 0;
#pragma unroll 4
        for (int64_t row = c < a.cols ? s * segment + threadIdx.y : end; row < end; row += 8) {
            vec<Y, N> d = vec_at<N>(dy + row * a.cols + c);
            vec<S, N> v = vec_at<N>(x + row * a.cols + c);
            A mean = stats[2 * row], inv_std = stats[2 * row + 1];
#pragma unroll
            for (int i = 0; i < N; i++) {
                sum[i] += (A)get(d.e[i]) * (((A)get(v.e[i]) - mean) * inv_std);
                sum[N + i] += (A)get(d.e[i]);
            }
        }
        join_tile<N>(tile, sum);
        for (int k = 0; threadIdx.y == 0 && c < a.cols && k < 2 * N; k++)
            partial[(2 * s + k / N) * a.cols + c + k % N] = sum[k];
    }
}
extern "C" __global__ void norm_grad_columns(norm_args a, int64_t segment, const Y *dy,
                                             const S *x, const A *stats, A *partial) {
    wait_for_earlier();
    columns_all<1>(a, segment, dy, x, stats, partial);
}
/* Four columns a thread, whole and aligned. */
extern "C" __global__ void norm_grad_columns_4(norm_args a, int64_t segment, const Y *dy,
                                               const S *x, const A *stats, A *partial) {
    wait_for_earlier();
    columns_all<4>(a, segment, dy, x, stats, partial);
}

/* The gradient of x, as norm_grad_rows left it, made narrow and added up over the rows: a column a thread. */
extern "C" __global__ __launch_bounds__(256) void norm_grad_narrow(int64_t rows, int64_t cols, norm_dx to_x, H *sums) {
    wait_for_earlier();
    drawn draw = drawn_of(to_x.drop);
    for (int64_t c = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; c < cols; c += gridDim.x * (int64_t)blockDim.x) {
        A sum = 0;
        for (int64_t i = c; i < rows * cols; i += cols)
            sum += (A)get(dropped(to<H>::put((A)get(to_x.dx[i])), kept_of<1>(to_x.drop, draw, i), draw));
        sums[c] = to<H>::put(sum);
    }
}

/* dscale (y 0), dbias (y 1) and the sums of the narrow gradient (y 2), (cols), each may be NULL. Blocks of (32, 32): x
 * over columns, y over segments. */
extern "C" __global__ __launch_bounds__(1024) void norm_grad_join(int64_t cols, int64_t n_segments, int64_t n_sums,
                                                                  const A *partial, W *dscale, W *dbias, H *narrow) {
    wait_for_earlier();
    __shared__ A tile[32][33];
    int64_t c = blockIdx.x * (int64_t)32 + threadIdx.x;
    if (!(blockIdx.y == 2 ? (void *)narrow : blockIdx.y ? (void *)dbias : (void *)dscale)) return;
    A sum = 0;
#pragma unroll 8
    for (int64_t s = threadIdx.y; c < cols && s < n_segments; s += 32)
        sum += partial[(n_sums * s + blockIdx.y) * cols + c];
    tile[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    /* A warp per column: one tree of its lanes. */
    sum = join_row<join_sum>(tile[threadIdx.x][threadIdx.y]);
    c = blockIdx.x * (int64_t)32 + threadIdx.y;
    if (threadIdx.x != 0 || c >= cols) return;
    if (blockIdx.y == 2)
        narrow[c] = to<H>::put(sum);
    else
        (blockIdx.y ? dbias : dscale)[c] = to<W>::put(sum);
}
