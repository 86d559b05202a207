/* kernels/cpu/index/topk.c: the k first of every line, see index.h. A heap of the k best so far, the worst of them on
 * top: n log k steps, no order among the others. The order is total (equal values by index), so it does not matter in
 * which way the heap is built.
 *
 * An example: the largest 2 of 5 1 9 3. The heap begins with elements 0 and 1, the worse of them (1) on top. Element 2
 * (9) comes before it and takes its place, and 5 rises to the top; element 3 (3) does not come before 5. At last the
 * heap is taken apart from its worst end: 9 5, at 2 and 0. */
#include "kernels/cpu/index/index.h"

#include "kernels/cpu/index/order.h"

typedef struct topk_line {
    const nck_topk *t;
    int64_t base, step; /* of the line in x */
} topk_line;

#define X_AT(T, i) ((const T *)l->t->x)[l->base + (i)*l->step]

/* ---- elements of 8 bytes: the heap holds indices ---- */

/* By value, elements a and b of the line. */
static int topk_order(const topk_line *l, int64_t a, int64_t b) {
    switch (l->t->type) {
    case NC_FLOAT: return nck_order_f32(X_AT(float, a), X_AT(float, b));
    case NC_DOUBLE: return nck_order_f64(X_AT(double, a), X_AT(double, b));
    case NC_INT32: return nck_order_i64(X_AT(int32_t, a), X_AT(int32_t, b));
    case NC_INT64: return nck_order_i64(X_AT(int64_t, a), X_AT(int64_t, b));
    default: return nck_order_u64(X_AT(uint64_t, a), X_AT(uint64_t, b));
    }
}

/* Does element a come before b? */
static bool topk_before(const topk_line *l, int64_t a, int64_t b) {
    int c = topk_order(l, a, b);
    return c != 0 ? (c > 0) == l->t->largest : a < b;
}

/* heap[i] comes after both heap[2i+1] and heap[2i+2]. */
static void topk_sift(const topk_line *l, int64_t *heap, int64_t i, int64_t n) {
    int64_t moving = heap[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && topk_before(l, heap[child], heap[child + 1])) child++;
        if (!topk_before(l, moving, heap[child])) break;
        heap[i] = heap[child];
    }
    heap[i] = moving;
}

static void topk_select_line(const topk_line *l, int64_t *heap) {
    int64_t k = l->t->k;
    for (int64_t i = 0; i < k; i++) heap[i] = i;
    for (int64_t i = k / 2 - 1; i >= 0; i--) topk_sift(l, heap, i, k);
    for (int64_t i = k; i < l->t->axis; i++) {
        if (!topk_before(l, i, heap[0])) continue;
        heap[0] = i;
        topk_sift(l, heap, 0, k);
    }
    for (int64_t n = k - 1; n > 0; n--) {
        int64_t last = heap[n];
        heap[n] = heap[0];
        heap[0] = last;
        topk_sift(l, heap, 0, n);
    }
}

/* ---- elements of 4 bytes: the heap holds keys, which have the value above and the index below, so that one number is
 * larger than another where its element comes before ---- */

static uint64_t topk_key(const topk_line *l, int64_t i) {
    uint32_t u = X_AT(uint32_t, i);
    if (l->t->type == NC_FLOAT) { /* a NaN is the largest, zeros are alike */
        float x = X_AT(float, i);
        u = x != x ? UINT32_MAX : x == 0 ? 1u << 31 : u >> 31 ? ~u : u | 1u << 31;
    } else {
        u ^= 1u << 31;
    }
    if (!l->t->largest) u = ~u;
    return (uint64_t)u << 32 | (UINT32_MAX - (uint32_t)i);
}

static int64_t topk_index(uint64_t key) { return UINT32_MAX - (uint32_t)key; }

/* heap[i] is less than both heap[2i+1] and heap[2i+2]. */
static void topk_sift_keys(uint64_t *heap, int64_t i, int64_t n) {
    uint64_t moving = heap[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        child += child + 1 < n && heap[child + 1] < heap[child];
        if (moving < heap[child]) break;
        heap[i] = heap[child];
    }
    heap[i] = moving;
}

enum { BLOCK = 16 };

/* Neighbouring f32, `worst` is no NaN: blocks in which none comes before it are passed over. A NaN is the largest. */
static int64_t topk_next_largest(const float *x, int64_t i, int64_t n, float worst) {
    for (int32_t after = BLOCK; i + BLOCK <= n; i += BLOCK) {
        for (int k = 0; k < BLOCK; k++) after -= x[i + k] <= worst;
        if (after > 0) break;
        after = BLOCK;
    }
    while (i < n && x[i] <= worst) i++;
    return i;
}

static int64_t topk_next_smallest(const float *x, int64_t i, int64_t n, float worst) {
    for (int32_t after = BLOCK; i + BLOCK <= n; i += BLOCK) {
        for (int k = 0; k < BLOCK; k++) after -= !(x[i + k] < worst);
        if (after > 0) break;
        after = BLOCK;
    }
    while (i < n && !(x[i] < worst)) i++;
    return i;
}

/* The first element from i on that comes before that of `top`, which is one of those before i; the line's end: none. */
static int64_t topk_next(const topk_line *l, int64_t i, uint64_t top) {
    int64_t n = l->t->axis;
    const float *x = (const float *)l->t->x + l->base;
    if (l->t->type == NC_FLOAT && l->step == 1) {
        float worst = x[topk_index(top)];
        if (worst == worst)
            return l->t->largest ? topk_next_largest(x, i, n, worst) : topk_next_smallest(x, i, n, worst);
    }
    while (i < n && topk_key(l, i) < top) i++;
    return i;
}

/* heap[i] is an index at last. */
static void topk_select_keys(const topk_line *l, uint64_t *heap) {
    int64_t k = l->t->k;
    for (int64_t i = 0; i < k; i++) heap[i] = topk_key(l, i);
    for (int64_t i = k / 2 - 1; i >= 0; i--) topk_sift_keys(heap, i, k);
    for (int64_t i = k; (i = topk_next(l, i, heap[0])) < l->t->axis; i++) {
        heap[0] = topk_key(l, i);
        topk_sift_keys(heap, 0, k);
    }
    for (int64_t n = k - 1; n > 0; n--) {
        uint64_t last = heap[n];
        heap[n] = (uint64_t)topk_index(heap[0]);
        heap[0] = last;
        topk_sift_keys(heap, 0, n);
    }
    heap[0] = (uint64_t)topk_index(heap[0]);
}

static void topk_store(const topk_line *l, const int64_t *heap, int64_t to, int64_t step) {
    const nck_topk *t = l->t;
    for (int64_t i = 0; i < t->k; i++) {
        int64_t from = l->base + heap[i] * l->step, at = to + i * step;
        if (t->indices != NULL) t->indices[at] = heap[i];
        if (t->values == NULL) continue;
        if (nc_dtype_bytes(t->type) == 4)
            ((uint32_t *)t->values)[at] = ((const uint32_t *)t->x)[from];
        else
            ((uint64_t *)t->values)[at] = ((const uint64_t *)t->x)[from];
    }
}

typedef struct topk_job {
    const nck_topk *t;
    int64_t *heaps;
} topk_job;

static void topk_item(void *ctx, int64_t i) {
    const topk_job *j = ctx;
    const nck_topk *t = j->t;
    int64_t outer = i / t->inner, inner = i % t->inner;
    topk_line l = {.t = t, .base = outer * t->axis * t->inner + inner, .step = t->inner};
    int64_t *heap = j->heaps + i * t->k;
    if (nc_dtype_bytes(t->type) == 4 && t->axis < UINT32_MAX)
        topk_select_keys(&l, (uint64_t *)heap);
    else
        topk_select_line(&l, heap);
    topk_store(&l, heap, outer * t->k * t->inner + inner, t->inner);
}

size_t nck_topk_workspace(int64_t outer, int64_t k, int64_t inner) {
    return (size_t)outer * (size_t)k * (size_t)inner * sizeof(int64_t);
}

enum { STEPS = 4 }; /* elements of work that one of x costs */

void nck_topk_run(const nck_topk *t, void *workspace, nc_pool *pool) {
    topk_job j = {t, workspace};
    if (t->k > 0)
        nc_parallel(nc_pool_for(pool, t->outer * t->inner * t->axis * STEPS), t->outer * t->inner, topk_item, &j);
}
