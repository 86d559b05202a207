/* cuda/index.cu: elements picked by indices: Gather, GatherElements, GatherND. One description serves all: how the
 * output, the data and the indices are walked, and which axes of the data the indices step along. U, of the element's
 * size, is defined in front. An index out of range is reported and its element left as it is. */
#ifndef U
#define U uint32_t
#endif

/* Operand 0 is written, operand 1 is the data without the indexed axes, operand 2 the indices. Mirrors nck_cuda_pick in
 * index.h. */
struct pick {
    int64_t rank;
    int64_t dims[MAX_RANK], strides[3][MAX_RANK];
    int64_t n_axes, wide; /* indices of 64 bits, else 32 */
    int64_t sizes[MAX_RANK], steps[MAX_RANK];
};

/* Offsets of step i through the first n_dims dims. */
DEVICE void pick_at(const pick &p, int n_dims, int64_t i, int64_t (&at)[3]) {
    at[0] = at[1] = at[2] = 0;
#pragma unroll 1
    for (int d = n_dims - 1; d >= 0; d--) {
        int64_t q = d == 0 ? 0 : quotient(i, p.dims[d]), r = i - q * p.dims[d];
        for (int k = 0; k < 3; k++) at[k] += r * p.strides[k][d];
        i = q;
    }
}

DEVICE int64_t index_at(const pick &p, const void *index, int64_t at) {
    return p.wide ? ((const int64_t *)index)[at] : ((const int32_t *)index)[at];
}
/* Adds axis k at index v to *offset; false: it is out of range. */
DEVICE bool pick_axis(const pick &p, const fault_site &site, int k, int64_t v, int64_t *offset) {
    if (v < -p.sizes[k] || v >= p.sizes[k]) {
        report(site, v, p.sizes[k]);
        return false;
    }
    *offset += (v < 0 ? v + p.sizes[k] : v) * p.steps[k];
    return true;
}
/* Adds the indexed axes to *offset; false: an index is out of range. The indices of one element follow each other. */
DEVICE bool pick_axes(const pick &p, const fault_site &site, const void *index, int64_t at, int64_t *offset) {
    for (int k = 0; k < p.n_axes; k++)
        if (!pick_axis(p, site, k, index_at(p, index, at + k), offset)) return false;
    return true;
}

/* A row's elements from column c on: one index tuple for all of them. */
template <class T>
DEVICE void gather_slice(const pick &p, const fault_site &site, const int64_t (&at)[3], int64_t c, T *dst, const T *src,
                         const void *index) {
    int64_t last = p.rank - 1, columns = p.dims[last], from = at[1];
    T v[TURNS];
    if (!pick_axes(p, site, index, at[2], &from)) return;
#pragma unroll
    for (int u = 0; u < TURNS; u++)
        if (c + u * blockDim.x < columns) v[u] = src[from + (c + u * blockDim.x) * p.strides[1][last]];
#pragma unroll
    for (int u = 0; u < TURNS; u++)
        if (c + u * blockDim.x < columns) dst[at[0] + (c + u * blockDim.x) * p.strides[0][last]] = v[u];
}

/* The same with indices of their own; those of one axis are read side by side. */
template <class T>
DEVICE void gather_each(const pick &p, const fault_site &site, const int64_t (&at)[3], int64_t c, T *dst, const T *src,
                        const void *index) {
    int64_t last = p.rank - 1, columns = p.dims[last], from[TURNS], v[TURNS];
    bool good[TURNS];
    T picked[TURNS];
#pragma unroll
    for (int u = 0; u < TURNS; u++) {
        int64_t column = c + u * blockDim.x;
        good[u] = column < columns;
        if (good[u] && p.n_axes == 1) v[u] = index_at(p, index, at[2] + column * p.strides[2][last]);
    }
#pragma unroll
    for (int u = 0; u < TURNS; u++) {
        int64_t column = c + u * blockDim.x;
        from[u] = at[1] + column * p.strides[1][last];
        if (!good[u]) continue;
        good[u] = p.n_axes == 1 ? pick_axis(p, site, 0, v[u], &from[u])
                                : pick_axes(p, site, index, at[2] + column * p.strides[2][last], &from[u]);
        if (good[u]) picked[u] = src[from[u]];
    }
#pragma unroll
    for (int u = 0; u < TURNS; u++)
        if (good[u]) dst[at[0] + (c + u * blockDim.x) * p.strides[0][last]] = picked[u];
}

/* dst at the walk = src where the indices say. The last dim of p gives the columns, the others rows. */
template <class T>
DEVICE void gather_tiles(const pick &p, const fault_site &site, int64_t rows, int64_t tiles, int64_t across, T *dst,
                         const T *src, const void *index) {
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        tile_place to = tile_at(tile, across);
        int64_t at[3];
        if (to.row >= rows || to.column >= p.dims[p.rank - 1]) continue;
        pick_at(p, (int)p.rank - 1, to.row, at);
        if (p.strides[2][p.rank - 1] == 0)
            gather_slice(p, site, at, to.column, dst, src, index);
        else
            gather_each(p, site, at, to.column, dst, src, index);
    }
}
extern "C" __global__ void gather(pick p, const __grid_constant__ fault_site site, int64_t rows, int64_t tiles,
                                  int64_t across, U *dst, const U *__restrict__ src, const void *__restrict__ index) {
    gather_tiles(p, site, rows, tiles, across, dst, src, index);
}
/* Strides, steps and the last dim count in words of 16 bytes. */
struct alignas(16) word16 { uint64_t half[2]; };
extern "C" __global__ void gather_words(pick p, const __grid_constant__ fault_site site, int64_t rows, int64_t tiles,
                                        int64_t across, word16 *dst, const word16 *__restrict__ src,
                                        const void *__restrict__ index) {
    gather_tiles(p, site, rows, tiles, across, dst, src, index);
}

/* Columns of dst picked within lines of the data that lie dense and aligned, of at most LINE_BYTES: a block brings a
 * line to shared memory, and picks there. Indices and columns of dst lie side by side; sizes[0] is the line's. PER
 * indices, as I, are read and as many columns written at once; the first ones are under way beside the line. */
enum { LINE_BYTES = 32768, LINE_THREADS = 256, AT_ONCE = 8 };
template <int PER, class I> struct line_picks { vec<I, PER> v[AT_ONCE]; };

template <int PER, class I> DEVICE void hold_picks(line_picks<PER, I> &h, const I *index, int c, int columns) {
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++)
        if (c + u * (PER * LINE_THREADS) < columns) h.v[u] = vec_at<PER>(index + (c + u * (PER * LINE_THREADS)));
}
template <int PER, class I>
DEVICE void put_picks(const line_picks<PER, I> &h, const fault_site &site, int64_t size, int c, int columns, U *dst,
                      const U *line) {
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
        int at = c + u * (PER * LINE_THREADS);
        vec<U, PER> picked;
        bool good[PER], all = true;
        if (at >= columns) return;
#pragma unroll
        for (int e = 0; e < PER; e++) {
            int64_t i = h.v[u].e[e];
            if (i < 0) i += size;
            good[e] = i >= 0 && i < size, all = all && good[e];
            if (good[e]) picked.e[e] = line[i];
            else report(site, h.v[u].e[e], size);
        }
        if (all) *(vec<U, PER> *)(dst + at) = picked;
#pragma unroll
        for (int e = 0; e < PER; e++)
            if (!all && good[e]) dst[at + e] = picked.e[e];
    }
}
template <int PER, class I>
DEVICE void pick_lines(const pick &p, const fault_site &site, int64_t rows, U *dst, const U *src, const I *index,
                       word16 *line) {
    int columns = (int)p.dims[p.rank - 1], words = (int)(p.sizes[0] * sizeof(U) / sizeof(word16));
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        int64_t at[3];
        line_picks<PER, I> held;
        int c = threadIdx.x * PER;
        pick_at(p, (int)p.rank - 1, row, at);
        hold_picks<PER, I>(held, index + at[2], c, columns);
        for (int i = threadIdx.x; i < words; i += LINE_THREADS) line[i] = ((const word16 *)(src + at[1]))[i];
        __syncthreads();
        while (c < columns) {
            put_picks<PER, I>(held, site, p.sizes[0], c, columns, dst + at[0], (const U *)line);
            c += AT_ONCE * PER * LINE_THREADS;
            hold_picks<PER, I>(held, index + at[2], c, columns);
        }
        __syncthreads();
    }
}
/* pairs: rows of indices and of dst begin at whole pairs, and have an even number of columns. */
extern "C" __global__ __launch_bounds__(256) void gather_lines(pick p, const __grid_constant__ fault_site site,
                                                               int64_t rows, int pairs, U *dst,
                                                               const U *__restrict__ src,
                                                               const void *__restrict__ index) {
    __shared__ word16 line[LINE_BYTES / sizeof(word16)];
    if (pairs && p.wide) pick_lines<2, int64_t>(p, site, rows, dst, src, (const int64_t *)index, line);
    else if (pairs) pick_lines<2, int32_t>(p, site, rows, dst, src, (const int32_t *)index, line);
    else if (p.wide) pick_lines<1, int64_t>(p, site, rows, dst, src, (const int64_t *)index, line);
    else pick_lines<1, int32_t>(p, site, rows, dst, src, (const int32_t *)index, line);
}

/* ---- combining with what lies where the indices say, in the order of the updates ---- */

/* Words destination << bits | update, for sort.cu; that of an update without a place has the destination `axis`.
 * Operand 0 of p is not used: a walk's dims are those of the index tuples. */
extern "C" __global__ void scatter_keys(pick p, const __grid_constant__ fault_site site, int64_t n, int64_t axis,
                                        int64_t unit, int bits, const void *__restrict__ index, uint64_t *keys) {
    for (int64_t i = first_item(); i < n; i += item_step()) {
        int64_t at[3];
        pick_at(p, (int)p.rank, i, at);
        bool there = pick_axes(p, site, index, at[2], &at[1]);
        keys[i] = (uint64_t)(there ? quotient(at[1], unit) : axis) << bits | (uint64_t)i;
    }
}

/* Where the last update of a place stays, nothing is sorted: claims (axis) has the number of the last one, counted from
 * 1. */
extern "C" __global__ void scatter_clear(int64_t axis, uint32_t *claims) {
    for (int64_t i = first_item(); i < axis; i += item_step()) claims[i] = 0;
}
extern "C" __global__ void scatter_claim(int64_t n, int64_t axis, int bits, const uint64_t *__restrict__ keys,
                                         uint32_t *claims) {
    for (int64_t i = first_item(); i < n; i += item_step()) {
        int64_t place = (int64_t)(keys[i] >> bits);
        if (place < axis) atomicMax(&claims[place], (uint32_t)i + 1);
    }
}
