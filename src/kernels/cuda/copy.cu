/* cuda/copy.cu: elements moved without computing: strided copy and fill. U, of the element's size, is defined in front.
 * dst and src do not overlap; written elements are distinct. */
#ifndef U
#define U uint32_t
#endif
struct alignas(16) word16 { uint64_t half[2]; };

extern "C" __global__ void copy(walk w, int64_t n, U *dst, const U *__restrict__ src) {
    for (int64_t i = first_item(); i < n; i += item_step()) {
        int64_t at[2];
        walk_at<2>(w, i, at);
        dst[at[0]] = src[at[1]];
    }
}

/* ---- rows whose elements lie side by side on both sides ---- */

/* A word of dst that is wholly written, from src at any alignment: `apart` is how far behind a word of 16 bytes the
 * sources of dst's words begin. WAY 0: at one; 1: at a word of 4; 2: between two such, read whole and shifted. */
template <int WAY> DEVICE word16 word_from(const char *p, int apart) {
    if (WAY == 0) return *(const word16 *)p;
    const uint32_t *w = (const uint32_t *)(p - (WAY == 2 ? apart % 4 : 0));
    uint32_t v[5];
#pragma unroll
    for (int i = 0; i < 4 + (WAY == 2); i++) v[i] = w[i];
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (WAY == 2) v[i] = __funnelshift_r(v[i], v[i + 1], 8 * (apart % 4));
    word16 r;
    for (int i = 0; i < 2; i++) r.half[i] = (uint64_t)v[2 * i + 1] << 32 | v[2 * i];
    return r;
}

/* TURNS words of a row of `bytes`, from the one that begins at byte `at` on (before 0 for the first), `step` apart. */
template <int WAY>
DEVICE void copy_turns(char *dst, const char *src, int64_t bytes, int64_t at, int64_t step, int apart) {
    int64_t before = WAY == 2 ? apart % 4 : 0, behind = WAY == 2 ? 4 - before : 0;
    word16 v[TURNS];
#pragma unroll
    for (int u = 0; u < TURNS; u++) {
        int64_t i = at + u * step;
        if (i >= before && i + 16 + behind <= bytes) v[u] = word_from<WAY>(src + i, apart);
    }
#pragma unroll
    for (int u = 0; u < TURNS; u++) {
        int64_t i = at + u * step;
        if (i >= before && i + 16 + behind <= bytes)
            *(word16 *)(dst + i) = v[u];
        else
            for (int64_t e = max(i, (int64_t)0); e < min(i + 16, bytes); e += sizeof(U))
                *(U *)(dst + e) = *(const U *)(src + e);
    }
}

/* The walk goes over rows; its strides count in bytes. */
extern "C" __global__ void copy_rows(walk w, int64_t rows, int64_t bytes, int64_t tiles, int64_t across, char *dst,
                                     const char *__restrict__ src) {
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        tile_place p = tile_at(tile, across);
        if (p.row >= rows) continue;
        int64_t o[2], step = blockDim.x * (int64_t)sizeof(word16);
        walk_at<2>(w, p.row, o);
        int lead = (int)((uint64_t)(dst + o[0]) % 16), apart = (int)(((uint64_t)(src + o[1]) - lead) % 16);
        int64_t at = p.column * (int64_t)sizeof(word16) - lead;
        if (apart == 0)
            copy_turns<0>(dst + o[0], src + o[1], bytes, at, step, apart);
        else if (apart % 4 == 0)
            copy_turns<1>(dst + o[0], src + o[1], bytes, at, step, apart);
        else
            copy_turns<2>(dst + o[0], src + o[1], bytes, at, step, apart);
    }
}

/* Rows of `words` words of 16 bytes, aligned on both sides, too short for a tile: threads go on from row to row. */
extern "C" __global__ void copy_words(walk w, int64_t n, int64_t words, char *dst, const char *__restrict__ src) {
    int64_t first = blockIdx.x * (int64_t)(blockDim.x * TURNS) + threadIdx.x, to_dst[TURNS];
    word16 v[TURNS];
#pragma unroll
    for (int u = 0; u < TURNS; u++) {
        int64_t i = first + u * blockDim.x, row = quotient(i, words), o[2], at = (i - row * words) * sizeof(word16);
        if (i >= n) continue;
        walk_at<2>(w, row, o);
        to_dst[u] = o[0] + at;
        v[u] = *(const word16 *)(src + o[1] + at);
    }
#pragma unroll
    for (int u = 0; u < TURNS; u++)
        if (first + u * blockDim.x < n) *(word16 *)(dst + to_dst[u]) = v[u];
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

/* y = x, both n; zeros (n): codes of `type` that must be 0, or the bit of `minus`. */
extern "C" __global__ void copy_at_zero(int64_t n, const U *__restrict__ x, const uint8_t *__restrict__ zeros, U *y,
                                        int minus, int64_t type, fault_site site) {
    for (int64_t i = first_item(); i < n; i += item_step()) {
        if (zeros[i] & ~minus) report(site, zeros[i], -type);
        y[i] = x[i];
    }
}

extern "C" __global__ void fill(walk w, int64_t n, U *dst, U value) {
    for (int64_t i = first_item(); i < n; i += item_step()) dst[walk_one(w, i)] = value;
}
