/* cuda/gemm.cu: what cuBLASLt does not do: products of matrices with any strides and of integers, and C spread over
 * the result. Accumulation: in A (text.h), in the order of k. */
struct matrix {
    int64_t rs, cs, batch; /* strides in elements; batch: from one matrix to the next */
};

/* y (batch,M,N) = alpha * a (batch,M,K) * b (batch,K,N) + beta * y; beta 0 does not read y. Blocks of (16, 16), one
 * tile of y each. */
extern "C" __global__ void multiply(int64_t M, int64_t N, int64_t K, A alpha, A beta, const S *__restrict__ a,
                                    matrix as, const S *__restrict__ b, matrix bs, S *y, matrix ys) {
    __shared__ A ta[16][17], tb[16][17];
    int tx = threadIdx.x, ty = threadIdx.y;
    int64_t n_columns = (N + 15) / 16, row = blockIdx.x / n_columns * 16 + ty, col = blockIdx.x % n_columns * 16 + tx;
    a += blockIdx.y * as.batch, b += blockIdx.y * bs.batch, y += blockIdx.y * ys.batch;
    A sum = 0;
    for (int64_t k = 0; k < K; k += 16) {
        ta[ty][tx] = row < M && k + tx < K ? (A)get(a[row * as.rs + (k + tx) * as.cs]) : (A)0;
        tb[ty][tx] = k + ty < K && col < N ? (A)get(b[(k + ty) * bs.rs + col * bs.cs]) : (A)0;
        __syncthreads();
        for (int i = 0; i < 16; i++) sum += ta[ty][i] * tb[i][tx];
        __syncthreads();
    }
    if (row >= M || col >= N) return;
    S *at = y + row * ys.rs + col * ys.cs;
    A v = alpha * sum;
    *at = to<S>::put(beta != 0 ? v + beta * (A)get(*at) : v);
}

/* y (M,N) = c, spread by strides of 0. */
extern "C" __global__ void spread(int64_t M, int64_t N, const S *__restrict__ c, matrix cs, S *y, matrix ys) {
    for (int64_t i = first_item(); i < M * N; i += item_step()) {
        int64_t row = i / N, col = i % N;
        y[row * ys.rs + col * ys.cs] = c[row * cs.rs + col * cs.cs];
    }
}
