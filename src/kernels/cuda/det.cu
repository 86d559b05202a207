/* cuda/det.cu: determinants (matrices) of x (matrices, n, n) by elimination with row pivots in double, a block of 32
 * threads for each matrix, which shares its rows out. a (matrices, n, n) is scratch. */
extern "C" __global__ __launch_bounds__(32) void det(int64_t matrices, int64_t n, const S *__restrict__ x, double *a,
                                                     S *y) {
    int lane = threadIdx.x;
    for (int64_t m = blockIdx.x; m < matrices; m += gridDim.x) {
        double *at = a + m * n * n, product = 1;
        for (int64_t i = lane; i < n * n; i += 32) at[i] = (double)get(x[m * n * n + i]);
        __syncthreads();
        for (int64_t k = 0; k < n && product != 0; k++) {
            int64_t top = k; /* every thread looks for it: columns are short, and all then agree */
            for (int64_t i = k + 1; i < n; i++)
                if (fabs(at[i * n + k]) > fabs(at[top * n + k]) || at[i * n + k] != at[i * n + k]) top = i;
            __syncthreads();
            for (int64_t j = k + lane; j < n && top != k; j += 32) {
                double t = at[k * n + j];
                at[k * n + j] = at[top * n + j];
                at[top * n + j] = t;
            }
            __syncthreads();
            double pivot = at[k * n + k];
            product = pivot == 0 ? 0 : top != k ? -product * pivot : product * pivot;
            for (int64_t i = k + 1 + lane; i < n && pivot != 0; i += 32) {
                double f = at[i * n + k] / pivot;
                for (int64_t j = k + 1; j < n; j++) at[i * n + j] -= f * at[k * n + j];
            }
            __syncthreads();
        }
        if (lane == 0) y[m] = to<S>::put(product);
        __syncthreads();
    }
}
