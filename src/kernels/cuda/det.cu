/* cuda/det.cu: determinants, their gradients and inverses of x (matrices, n, n) by elimination with row pivots in
 * double, a block for each matrix. */

/* The row of the largest element of column k from row k on; NaN counts as largest. Every thread looks for it: columns
 * are short, and all then agree. */
DEVICE int64_t pivot_row(const double *a, int64_t n, int64_t wide, int64_t k) {
    int64_t top = k;
    for (int64_t i = k + 1; i < n; i++)
        if (fabs(a[i * wide + k]) > fabs(a[top * wide + k]) || a[i * wide + k] != a[i * wide + k]) top = i;
    return top;
}
DEVICE void swap_rows(double *a, int64_t wide, int64_t from, int64_t r, int64_t s) {
    for (int64_t j = from + threadIdx.x; j < wide && r != s; j += blockDim.x) {
        double t = a[r * wide + j];
        a[r * wide + j] = a[s * wide + j];
        a[s * wide + j] = t;
    }
}

/* The determinant of at (n, n), which is overwritten, by a block of 32, which share the rows out. */
DEVICE double eliminated(double *at, int64_t n) {
    double product = 1;
    __syncthreads();
    for (int64_t k = 0; k < n && product != 0; k++) {
        int64_t top = pivot_row(at, n, n, k);
        __syncthreads();
        swap_rows(at, n, k, k, top);
        __syncthreads();
        double pivot = at[k * n + k];
        product = pivot == 0 ? 0 : top != k ? -product * pivot : product * pivot;
        for (int64_t i = k + 1 + threadIdx.x; i < n && pivot != 0; i += 32) {
            double f = at[i * n + k] / pivot;
            for (int64_t j = k + 1; j < n; j++) at[i * n + j] -= f * at[k * n + j];
        }
        __syncthreads();
    }
    return product;
}

/* y (matrices); a (matrices, n, n) is scratch. */
extern "C" __global__ __launch_bounds__(32) void det(int64_t matrices, int64_t n, const S *__restrict__ x, double *a,
                                                     S *y) {
    for (int64_t m = blockIdx.x; m < matrices; m += gridDim.x) {
        double *at = a + m * n * n;
        for (int64_t i = threadIdx.x; i < n * n; i += 32) at[i] = (double)get(x[m * n * n + i]);
        double product = eliminated(at, n);
        if (threadIdx.x == 0) y[m] = to<S>::put(product);
        __syncthreads();
    }
}

/* dx (matrices, n, n) = dy (matrices) times the cofactors of x: signed determinants without an element's row and
 * column, which need no inverse. a (blocks, n, n) is scratch. */
extern "C" __global__ __launch_bounds__(32) void det_grad(int64_t matrices, int64_t n, const S *__restrict__ dy,
                                                          const S *__restrict__ x, double *a, S *dx) {
    double *at = a + blockIdx.x * n * n;
    for (int64_t e = blockIdx.x; e < matrices * n * n; e += gridDim.x) {
        int64_t m = e / (n * n), r = e / n % n, s = e % n, rest = n - 1;
        for (int64_t i = threadIdx.x; i < rest * rest; i += 32) {
            int64_t row = i / rest, column = i % rest;
            at[i] = (double)get(x[(m * n + row + (row >= r)) * n + column + (column >= s)]);
        }
        double product = eliminated(at, rest) * (double)get(dy[m]);
        if (threadIdx.x == 0) dx[e] = to<S>::put((r + s) % 2 == 0 ? product : -product);
        __syncthreads();
    }
}

/* y (matrices, n, n); blocks of 256, a warp for a row; a (matrices, n, 2n) is scratch: the matrix, and what becomes its
 * inverse. */
extern "C" __global__ __launch_bounds__(256) void inverse(int64_t matrices, int64_t n, const S *__restrict__ x,
                                                          double *a, S *y) {
    int64_t wide = 2 * n;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int64_t m = blockIdx.x; m < matrices; m += gridDim.x) {
        double *at = a + m * n * wide;
        for (int64_t i = threadIdx.x; i < n * n; i += blockDim.x) {
            int64_t r = i / n, c = i % n;
            at[r * wide + c] = (double)get(x[m * n * n + i]);
            at[r * wide + n + c] = r == c;
        }
        __syncthreads();
        for (int64_t k = 0; k < n; k++) {
            int64_t top = pivot_row(at, n, wide, k);
            __syncthreads();
            swap_rows(at, wide, 0, k, top);
            __syncthreads();
            double pivot = at[k * wide + k];
            __syncthreads();
            for (int64_t j = k + threadIdx.x; j < wide; j += blockDim.x) at[k * wide + j] /= pivot;
            __syncthreads();
            for (int64_t i = warp; i < n; i += warps) {
                double f = at[i * wide + k];
                __syncwarp();
                for (int64_t j = k + lane; j < wide && i != k; j += 32) at[i * wide + j] -= f * at[k * wide + j];
            }
            __syncthreads();
        }
        for (int64_t i = threadIdx.x; i < n * n; i += blockDim.x)
            y[m * n * n + i] = to<S>::put(at[i / n * wide + n + i % n]);
        __syncthreads();
    }
}
