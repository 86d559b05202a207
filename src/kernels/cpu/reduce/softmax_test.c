/* kernels/cpu/reduce/softmax_test.c: softmax, log-softmax and gradients against double, over axes, views, infinities
 * and NaN; equal bits for threads. */
#include "base/mem.h"
#include "kernels/cpu/reduce/softmax.h"
#include "tests/check.h"

enum { MOST = 3 * 1100 * 17 };

static void put(nc_dtype type, void *p, int64_t i, double v) {
    if (type == NC_FLOAT)
        ((float *)p)[i] = (float)v;
    else
        ((double *)p)[i] = v;
}
static double get(nc_dtype type, const void *p, int64_t i) {
    return type == NC_FLOAT ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

static void *random_data(nc_dtype type, uint32_t seed) {
    void *p = nc_alloc(MOST * 8);
    for (int64_t i = 0; p && i < MOST; i++) {
        seed = seed * 1664525u + 1013904223u;
        put(type, p, i, ((double)(seed >> 8) - 8388608.0) / 1048576.0);
    }
    return p;
}

static nc_tensor view(nc_dtype type, void *data, const int64_t *dims, bool turned) {
    nc_tensor t = {.data = data, .dtype = type, .rank = 3};
    memcpy(t.dims, dims, 3 * sizeof *dims);
    nc_dense_strides(t.dims, 3, t.strides);
    if (turned) t.strides[0] = 1, t.strides[1] = dims[0], t.strides[2] = dims[0] * dims[1];
    return t;
}

static void check_near(nc_dtype type, const void *got, const void *want, int64_t n, nc_tolerance tol) {
    for (int64_t i = 0; i < n; i++) CHECK_CLOSE(get(type, got, i), get(type, want, i), tol);
}

static void check(nc_dtype type, const int64_t *dims, int axis, nck_softmax_kind kind, bool turned) {
    void *data[6];
    nc_tensor t[6]; /* x, y, y of the reference, dy, dx, dx of the reference */
    int64_t n = dims[0] * dims[1] * dims[2];
    nc_tolerance tol = type == NC_FLOAT ? nc_tol_kernel_f32 : nc_tol_kernel_f64;
    for (int i = 0; i < 6; i++) {
        REQUIRE((data[i] = random_data(type, (uint32_t)(i + 1))));
        t[i] = view(type, data[i], dims, turned && i % 3 != 1);
    }
    t[2].strides[0] = t[1].strides[0], t[2].strides[1] = t[1].strides[1], t[2].strides[2] = t[1].strides[2];
    memcpy(t[5].strides, t[4].strides, sizeof t[4].strides);
    nck_softmax(kind, &t[0], &t[1], axis, NULL);
    nck_softmax_ref(kind, &t[0], &t[2], axis);
    check_near(type, data[1], data[2], n, tol);
    nck_softmax_grad(kind, &t[1], &t[3], &t[4], axis, NULL);
    nck_softmax_grad_ref(kind, &t[1], &t[3], &t[5], axis);
    check_near(type, data[4], data[5], n, kind == NCK_SOFTMAX ? tol : nc_tol_of_sum(tol, (double)dims[axis]));
    for (int threads = 2; threads <= 5; threads += 3) {
        nc_pool *pool = nc_pool_create(threads);
        t[2].data = data[2];
        nck_softmax(kind, &t[0], &t[2], axis, pool);
        nck_softmax_grad(kind, &t[1], &t[3], &t[5], axis, pool);
        CHECK(memcmp(data[1], data[2], (size_t)n * nc_dtype_bytes(type)) == 0);
        CHECK(memcmp(data[4], data[5], (size_t)n * nc_dtype_bytes(type)) == 0);
        nc_pool_destroy(pool);
    }
    for (int i = 0; i < 6; i++) nc_free(data[i]);
}

TEST(softmax_axes_and_views) {
    static const int64_t shapes[][3] = {{3, 1100, 17}, {2, 5, 1025}, {1, 1, 1}, {4, 0, 3}, {0, 3, 3}, {7, 3, 513}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int axis = 0; axis < 3; axis++)
            for (int kind = 0; kind < 2; kind++)
                for (int turned = 0; turned < 2; turned++) {
                    check(NC_FLOAT, shapes[s], axis, (nck_softmax_kind)kind, turned);
                    check(NC_DOUBLE, shapes[s], axis, (nck_softmax_kind)kind, turned);
                }
}

TEST(softmax_limits) {
    float x[4][3] = {{-INFINITY, -INFINITY, -INFINITY}, {INFINITY, 0, 1}, {-INFINITY, 0, 0}, {1e30f, -1e30f, NAN}};
    float y[4][3];
    nc_tensor t = {.data = x, .dtype = NC_FLOAT, .rank = 2, .dims = {4, 3}, .strides = {3, 1}}, u = t;
    u.data = y;
    nck_softmax(NCK_SOFTMAX, &t, &u, 1, NULL);
    CHECK(isnan(y[0][0]) && isnan(y[0][2]) && isnan(y[1][0]));
    CHECK(y[2][0] == 0 && y[2][1] == 0.5f && y[2][2] == 0.5f);
    CHECK(isnan(y[3][0]) && isnan(y[3][2]));
    nck_softmax(NCK_LOG_SOFTMAX, &t, &u, 1, NULL);
    CHECK(isnan(y[0][1]) && y[2][0] == -INFINITY);
    CHECK_CLOSE(y[2][1], -log(2), nc_tol_kernel_f32);
}

TEST(softmax_in_place) {
    float x[2][700], y[2][700];
    for (int i = 0; i < 1400; i++) x[i / 700][i % 700] = (float)(i % 13);
    nc_tensor t = {.data = x, .dtype = NC_FLOAT, .rank = 2, .dims = {2, 700}, .strides = {700, 1}}, u = t;
    u.data = y;
    for (int kind = 0; kind < 2; kind++) {
        nck_softmax((nck_softmax_kind)kind, &t, &u, 1, NULL);
        nck_softmax((nck_softmax_kind)kind, &t, &t, 1, NULL);
        CHECK(memcmp(x, y, sizeof x) == 0);
    }
}

/* Dense rows go together; with a gap behind each they are walked. */
TEST(softmax_dense_rows_have_the_bits_of_walked_ones) {
    enum { ROWS = 5, GAP = 3, WIDEST = 600 };
    static float dense[ROWS * WIDEST], apart[ROWS * (WIDEST + GAP)], y[ROWS * WIDEST], z[ROWS * (WIDEST + GAP)];
    static const int64_t widths[] = {1, 3, 8, 15, 16, 17, 100, 512, 513, WIDEST};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int kind = 0; kind < 2; kind++) {
            int64_t n = widths[w];
            for (int64_t i = 0; i < ROWS * n; i++)
                apart[i / n * (n + GAP) + i % n] = dense[i] = (float)(i * 7919 % 101) * 0.37f - 11;
            nc_tensor x = {.data = dense, .dtype = NC_FLOAT, .rank = 2, .dims = {ROWS, n}, .strides = {n, 1}}, u = x;
            u.data = y;
            nck_softmax((nck_softmax_kind)kind, &x, &u, 1, NULL);
            x.data = apart, u.data = z;
            x.strides[0] = u.strides[0] = n + GAP;
            nck_softmax((nck_softmax_kind)kind, &x, &u, 1, NULL);
            for (int64_t r = 0; r < ROWS; r++) CHECK(memcmp(y + r * n, z + r * (n + GAP), (size_t)n * sizeof *y) == 0);
        }
}
