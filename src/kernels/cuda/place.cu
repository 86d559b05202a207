/* cuda/place.cu: elements that follow from where they stand: triangles and diagonals of matrices, one-hot rows, ranges,
 * triangles over columns. U, of the element's size, is defined in front; S and A are the type of indices and of ranges.
 */
#ifndef U
#define U uint32_t
#endif

/* y (n) = x where column - row >= *k (upper) or <= *k, else 0; matrices (rows, cols), dense. k NULL: 0. y may be x. */
extern "C" __global__ void trilu(int64_t n, int64_t rows, int64_t cols, int upper, const int64_t *k, const U *x, U *y) {
    int64_t limit = k ? *k : 0;
    for (int64_t i = first_item(); i < n; i += item_step()) {
        int64_t ahead = i % cols - i / cols % rows;
        y[i] = (upper ? ahead >= limit : ahead <= limit) ? x[i] : (U)0;
    }
}

/* y (n) = one where column - row == k, else 0; of a matrix with that many columns. */
extern "C" __global__ void eye(int64_t n, int64_t cols, int64_t k, uint64_t one, U *y) {
    for (int64_t i = first_item(); i < n; i += item_step()) y[i] = i % cols - i / cols == k ? (U)one : (U)0;
}

/* Floats are cut towards zero; what 64 bits do not hold is no index from either end. */
DEVICE int64_t place_of(double v) { return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : -0x7fffffffffffffffll - 1; }
DEVICE int64_t place_of(float v) { return place_of((double)v); }
DEVICE int64_t place_of(uint64_t v) { return v >> 63 ? -0x7fffffffffffffffll - 1 : (int64_t)v; }
template <class T> DEVICE int64_t place_of(T v) { return (int64_t)v; }

/* y (outer, depth, inner) = values[1] where indices (outer, inner) say, from the end below 0, else values[0]. */
extern "C" __global__ void one_hot(int64_t outer, int64_t depth, int64_t inner, const S *__restrict__ index,
                                   const U *__restrict__ values, U *y) {
    for (int64_t i = first_item(); i < outer * depth * inner; i += item_step()) {
        int64_t at = place_of(get(index[i / inner / depth * inner + i % inner]));
        if (at < 0) at += depth;
        y[i] = values[at == i / inner % depth];
    }
}

extern "C" __global__ void range(int64_t n, A start, A delta, S *y) {
    for (int64_t i = first_item(); i < n; i += item_step()) y[i] = to<S>::put(start + (A)i * delta);
}

/* y (rows, cols); see place.h, nck_cuda_triangles. */
struct triangle_edges { int64_t first, n, edge[128 + 2]; };
extern "C" __global__ void triangles(int64_t rows, int64_t cols, triangle_edges t, double *y) {
    for (int64_t i = first_item(); i < rows * t.n; i += item_step()) {
        int64_t j = i / t.n, c = i - j * t.n, left = t.edge[c], top = t.edge[c + 1], right = t.edge[c + 2];
        double v = j == top ? 1 : 0;
        if (left <= j && j < top) v = (double)(j - left) / (double)(top - left);
        if (top < j && j < right) v = (double)(right - j) / (double)(right - top);
        y[j * cols + t.first + c] = v;
    }
}
