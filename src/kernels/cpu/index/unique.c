/* kernels/cpu/index/unique.c: which rows are new, see index.h: a stable merge sort of row numbers, then one walk.
 * Stability makes the first of equal rows the one with the lowest number.
 *
 * An example: 3 1 3 2. The sorted order of row numbers is 1 3 0 2; the walk finds three groups with first rows 1 3 0,
 * counts 1 1 2 and inverse 2 0 2 1. By first appearance the groups are 3 1 2: first rows 0 1 3, counts 2 1 1, inverse
 * 0 1 0 2. */
#include "kernels/cpu/index/index.h"

#include "kernels/cpu/index/order.h"

#include <string.h>

#define X_AT(T, i) ((const T *)u->x)[i]

static int compare_elements(const nck_unique *u, int64_t a, int64_t b) {
    switch (u->type) {
    case NC_FLOAT: return nck_order_f32(X_AT(float, a), X_AT(float, b));
    case NC_DOUBLE: return nck_order_f64(X_AT(double, a), X_AT(double, b));
    case NC_FLOAT16: return nck_order_f32(nc_f16_to_f32(X_AT(uint16_t, a)), nc_f16_to_f32(X_AT(uint16_t, b)));
    case NC_BFLOAT16: return nck_order_f32(nc_bf16_to_f32(X_AT(uint16_t, a)), nc_bf16_to_f32(X_AT(uint16_t, b)));
    case NC_INT8: return nck_order_i64(X_AT(int8_t, a), X_AT(int8_t, b));
    case NC_INT16: return nck_order_i64(X_AT(int16_t, a), X_AT(int16_t, b));
    case NC_INT32: return nck_order_i64(X_AT(int32_t, a), X_AT(int32_t, b));
    case NC_INT64: return nck_order_i64(X_AT(int64_t, a), X_AT(int64_t, b));
    case NC_UINT16: return nck_order_u64(X_AT(uint16_t, a), X_AT(uint16_t, b));
    case NC_UINT32: return nck_order_u64(X_AT(uint32_t, a), X_AT(uint32_t, b));
    case NC_UINT64: return nck_order_u64(X_AT(uint64_t, a), X_AT(uint64_t, b));
    default: return nck_order_u64(X_AT(uint8_t, a), X_AT(uint8_t, b));
    }
}

static int compare_rows(const nck_unique *u, int64_t a, int64_t b) {
    for (int64_t o = 0; o < u->outers; o++)
        for (int64_t i = 0; i < u->inners; i++) {
            int64_t at = o * u->outer_stride + i;
            int c = compare_elements(u, a * u->row_stride + at, b * u->row_stride + at);
            if (c != 0) return c;
        }
    return 0;
}

static void unique_merge(const nck_unique *u, const int64_t *from, int64_t *to, int64_t lo, int64_t mid, int64_t hi) {
    int64_t a = lo, b = mid;
    for (int64_t k = lo; k < hi; k++) {
        bool left = b == hi || (a < mid && compare_rows(u, from[a], from[b]) <= 0);
        to[k] = left ? from[a++] : from[b++];
    }
}

static void unique_sort(const nck_unique *u) {
    int64_t *from = u->order, *to = u->scratch, n = u->n;
    for (int64_t i = 0; i < n; i++) from[i] = i;
    for (int64_t w = 1; w < n; w *= 2) {
        for (int64_t lo = 0; lo < n; lo += 2 * w)
            unique_merge(u, from, to, lo, lo + w < n ? lo + w : n, lo + 2 * w < n ? lo + 2 * w : n);
        int64_t *t = from;
        from = to;
        to = t;
    }
    if (from != u->order) memcpy(u->order, from, (size_t)n * sizeof *from);
}

/* Numbers the groups of equal rows by where each was seen first: scratch maps a group of the sorted order to that. */
static void by_appearance(const nck_unique *u, int64_t n_groups) {
    for (int64_t i = 0; i < u->n; i++) u->order[i] = -1;
    for (int64_t g = 0; g < n_groups; g++) u->order[u->first[g]] = g;
    int64_t next = 0;
    for (int64_t i = 0; i < u->n; i++)
        if (u->order[i] >= 0) u->scratch[u->order[i]] = next++;
    for (int64_t i = 0; i < u->n; i++) u->inverse[i] = u->scratch[u->inverse[i]];
    for (int64_t g = 0; g < n_groups; g++) u->count[g] = 0;
    for (int64_t i = u->n - 1; i >= 0; i--) {
        u->count[u->inverse[i]]++;
        u->first[u->inverse[i]] = i;
    }
}

int64_t nck_unique_run(const nck_unique *u) {
    int64_t n_groups = 0;
    unique_sort(u);
    for (int64_t i = 0; i < u->n; i++) {
        bool is_new = i == 0 || compare_rows(u, u->order[i - 1], u->order[i]) != 0;
        if (is_new) {
            u->first[n_groups] = u->order[i];
            u->count[n_groups++] = 0;
        }
        u->count[n_groups - 1]++;
        u->inverse[u->order[i]] = n_groups - 1;
    }
    if (!u->sorted) by_appearance(u, n_groups);
    return n_groups;
}
