/* base/shape.c: sizes, strides, broadcasting and merging of dims. Pure arithmetic: touches no tensor bytes. */
#include "base/shape.h"

/* A zero makes the product zero however large the other dims are. */
bool nc_numel(const int64_t *dims, int rank, int64_t *out) {
    int64_t n = 1;
    bool empty = false, fits = true;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0) return false;
        if (dims[i] == 0) empty = true;
        if (fits) fits = nc_mul_i64(n, dims[i], &n);
    }
    if (!fits && !empty) return false;
    *out = empty ? 0 : n;
    return true;
}

/* False also for types without a fixed size. */
bool nc_tensor_bytes(nc_dtype t, const int64_t *dims, int rank, size_t *out) {
    int64_t n;
    size_t bytes, bits = nc_dtype_bits(t);
    if (bits == 0 || !nc_numel(dims, rank, &n)) return false;
    /* Eight elements take `bits` bytes. */
    if (__builtin_mul_overflow((size_t)n / 8, bits, &bytes) ||
        __builtin_add_overflow(bytes, ((size_t)n % 8 * bits + 7) / 8, &bytes) || bytes > PTRDIFF_MAX)
        return false;
    *out = bytes;
    return true;
}

/* Zero dims count as one, as in numpy. An overflow can only happen in an empty tensor, whose strides nobody uses. */
void nc_dense_strides(const int64_t *dims, int rank, int64_t *strides) {
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = step;
        if (dims[i] > 1 && !nc_mul_i64(step, dims[i], &step)) step = 0;
    }
}

bool nc_is_dense(const nc_tensor *t) {
    int64_t step = 1;
    bool dense = true;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dims[i] == 0) return true;
        if (t->dims[i] == 1 || !dense) continue;
        dense = t->strides[i] == step && nc_mul_i64(step, t->dims[i], &step);
    }
    return dense;
}

int64_t nc_tensor_numel(const nc_tensor *t) {
    int64_t n = 0;
    return nc_numel(t->dims, t->rank, &n) ? n : 0;
}

bool nc_broadcast(const int64_t *a, int ra, const int64_t *b, int rb, int64_t *out, int *r_out) {
    int rank = ra > rb ? ra : rb;
    if (rank > NC_MAX_RANK) return false;
    int64_t dims[NC_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        int64_t da = i < rank - ra ? 1 : a[i - (rank - ra)], db = i < rank - rb ? 1 : b[i - (rank - rb)];
        if (da != db && da != 1 && db != 1) return false;
        dims[i] = da == 1 ? db : da;
    }
    for (int i = 0; i < rank; i++) out[i] = dims[i];
    *r_out = rank;
    return true;
}

void nc_spread_strides(int n_from, const int64_t *from_dims, const int64_t *from_strides, int rank, const int64_t *dims,
                       int64_t *strides) {
    for (int i = rank - 1; i >= 0; i--) {
        int at = i - (rank - n_from);
        strides[i] = at >= 0 && from_dims[at] == dims[i] ? from_strides[at] : 0;
    }
}

void nc_broadcast_strides(const nc_tensor *t, int rank, const int64_t *dims, int64_t *strides) {
    nc_spread_strides(t->rank, t->dims, t->strides, rank, dims, strides);
}

/* One dim of n elements that every operand steps through densely; for shapes of one element or none. */
static int single_dim(int64_t n_elements, int64_t *dims, int n, int64_t (*strides)[NC_MAX_RANK]) {
    dims[0] = n_elements;
    for (int k = 0; k < n; k++) strides[k][0] = 1;
    return 1;
}

static bool steps_as_one(int outer, int inner, const int64_t *dims, int n, int64_t (*strides)[NC_MAX_RANK]) {
    for (int k = 0; k < n; k++) {
        int64_t span;
        if (!nc_mul_i64(dims[inner], strides[k][inner], &span) || strides[k][outer] != span) return false;
    }
    return true;
}

int nc_coalesce(int rank, int64_t *dims, int n, int64_t (*strides)[NC_MAX_RANK]) {
    for (int i = 0; i < rank; i++) {
        if (dims[i] == 0) return single_dim(0, dims, n, strides);
    }
    int r = 0;
    for (int i = 0; i < rank; i++) {
        if (dims[i] == 1) continue;
        bool merges = r > 0 && steps_as_one(r - 1, i, dims, n, strides);
        int to = merges ? r - 1 : r;
        dims[to] = merges ? dims[to] * dims[i] : dims[i];
        for (int k = 0; k < n; k++) strides[k][to] = strides[k][i];
        if (!merges) r++;
    }
    return r > 0 ? r : single_dim(1, dims, n, strides);
}
