/* cuda/copy.cu: elements moved without computing: strided copy and fill. U, of the element's size, is defined in front.
 * dst and src do not overlap; written elements are distinct. */
#ifndef U
#define U uint32_t
#endif
struct alignas(16) word16 { uint64_t half[2]; }; /* several elements side by side */

extern "C" __global__ void copy(walk w, int64_t n, U *dst, const U *__restrict__ src) {
    for (int64_t i = first_item(); i < n; i += item_step()) {
        int64_t at[2];
        walk_at<2>(w, i, at);
        dst[at[0]] = src[at[1]];
    }
}

/* Strides and n count in words of 16 bytes. */
extern "C" __global__ void copy_words(walk w, int64_t n, word16 *dst, const word16 *__restrict__ src) {
    for (int64_t i = first_item(); i < n; i += item_step()) {
        int64_t at[2];
        walk_at<2>(w, i, at);
        dst[at[0]] = src[at[1]];
    }
}

/* For each of n_outer steps of the walk a matrix of R by C: columns lie side by side in dst, whose rows are dst_step
 * apart, rows in src, whose columns are src_step apart. Blocks of (32, 8), a tile of 32 by 32 a turn. */
extern "C" __global__ void turn(walk w, int64_t n_outer, int64_t R, int64_t C, int64_t dst_step, int64_t src_step,
                                U *dst, const U *__restrict__ src) {
    __shared__ U tile[32][33];
    int64_t n_down = (R + 31) / 32, n_along = (C + 31) / 32;
    int tx = threadIdx.x;
    for (int64_t item = blockIdx.x; item < n_outer * n_down * n_along; item += gridDim.x) {
        int64_t at[2], row = item / n_along % n_down * 32, col = item % n_along * 32;
        walk_at<2>(w, item / n_along / n_down, at);
        const U *from = src + at[1] + row + col * src_step;
        U *into = dst + at[0] + row * dst_step + col;
        for (int i = threadIdx.y; i < 32; i += 8)
            if (row + tx < R && col + i < C) tile[i][tx] = from[i * src_step + tx];
        __syncthreads();
        for (int i = threadIdx.y; i < 32; i += 8)
            if (row + i < R && col + tx < C) into[i * dst_step + tx] = tile[tx][i];
        __syncthreads();
    }
}

extern "C" __global__ void fill(walk w, int64_t n, U *dst, U value) {
    for (int64_t i = first_item(); i < n; i += item_step()) dst[walk_one(w, i)] = value;
}
