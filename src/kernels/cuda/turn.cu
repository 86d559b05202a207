/* cuda/turn.cu: matrices turned over tiles in shared memory, so that both sides are read and written along their rows.
 * Blocks of (32, 8); U, of the element's size, is defined in front. */
#ifndef U
#define U uint16_t
#endif
enum { TILE = 32 };

/* y (n, cols, rows) = x (n, rows, cols). */
extern "C" __global__ void turn(int64_t n, int64_t rows, int64_t cols, const U *__restrict__ x, U *y) {
    __shared__ U tile[TILE][TILE + 1];
    int64_t across = (cols + TILE - 1) / TILE, down = (rows + TILE - 1) / TILE;
    for (int64_t b = blockIdx.x; b < n * across * down; b += gridDim.x) {
        int64_t matrix = b / (across * down), at = b - matrix * across * down;
        int64_t row = at / across * TILE, col = at % across * TILE;
        const U *from = x + matrix * rows * cols;
        U *to_ = y + matrix * rows * cols;
        for (int i = threadIdx.y; i < TILE; i += blockDim.y)
            if (row + i < rows && col + threadIdx.x < cols)
                tile[i][threadIdx.x] = from[(row + i) * cols + col + threadIdx.x];
        __syncthreads();
        for (int i = threadIdx.y; i < TILE; i += blockDim.y)
            if (col + i < cols && row + threadIdx.x < rows)
                to_[(col + i) * rows + row + threadIdx.x] = tile[threadIdx.x][i];
        __syncthreads();
    }
}
