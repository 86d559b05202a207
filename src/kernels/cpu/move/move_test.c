/* kernels/cpu/move/move_test.c: copies against the element-wise one over odd views, sizes and threads; fill, gather,
 * its gradient and nonzero against values worked out here. */
#include "base/mem.h"
#include "kernels/cpu/move/move.h"
#include "tests/check.h"

enum { POOL_BYTES = 1 << 21 };

typedef struct copy_case {
    int rank;
    int64_t dims[4], src[4], dst[4];
    int64_t src_at, dst_at; /* element offsets of the first element */
} copy_case;

static const copy_case cases[] = {
    {0, {0}, {0}, {0}, 0, 0},
    {1, {0}, {1}, {1}, 0, 0},
    {1, {30011}, {1}, {1}, 0, 0},
    {1, {30011}, {2}, {1}, 0, 0},
    {1, {4097}, {-1}, {1}, 4096, 0},
    {1, {777}, {0}, {1}, 3, 0},
    {2, {37, 53}, {60, 1}, {53, 1}, 0, 0},
    {2, {53, 37}, {1, 53}, {37, 1}, 0, 0},
    {2, {191, 130}, {1, 191}, {131, 1}, 0, 5},
    {2, {5, 3}, {1, 5}, {3, 1}, 0, 0},
    {2, {64, 64}, {1, 0}, {64, 1}, 0, 0},
    {3, {5, 0, 7}, {7, 7, 1}, {7, 7, 1}, 0, 0},
    {3, {2, 501, 3}, {1503, 1, 501}, {1503, 3, 1}, 0, 0},
    {2, {30013, 3}, {1, 30013}, {3, 1}, 0, 1}, /* planes become elements of two and three */
    {3, {3, 1003, 2}, {2006, 1, 1003}, {2006, 2, 1}, 0, 0},
    {3, {3, 9, 3}, {27, 1, 9}, {30, 3, 1}, 0, 0},
    {3, {7, 2, 9}, {1, 63, 7}, {2, 1, 14}, 0, 0},
    {3, {7, 33, 65}, {1, 7 * 65, 7}, {33 * 65, 65, 1}, 0, 0},
    {3, {11, 40, 41}, {40 * 41, 1, 40}, {40 * 41, 41, 1}, 0, 0},
    {4, {3, 5, 7, 9}, {315, 9, 45, 1}, {315, 63, 9, 1}, 0, 0},
    {4, {3, 5, 7, 2}, {70, 14, 2, 1}, {35, 7, 1, 105}, 0, 0}, /* short rows that only src has dense */
    {4, {3, 5, 7, 3}, {105, 21, 3, 1}, {35, 7, 1, 105}, 0, 0},
    {2, {301, 4}, {4, 1}, {12, 1}, 0, 8}, /* rows as long as an element of another type */
    {2, {301, 2}, {5, 1}, {6, 1}, 0, 0},
    {3, {5, 60, 4}, {4, 20, 1}, {240, 4, 1}, 0, 0},
    {3, {9, 6, 2}, {-12, 2, 1}, {12, 2, 1}, 96, 0},
    {3, {9, 6, 8}, {0, 8, 1}, {48, 8, 1}, 0, 0},
    {4, {3, 5, 7, 9}, {-315, 63, 9, 2}, {1, 3, 15, 105}, 640, 0},
};

static void check_copy(const copy_case *c, size_t es, int threads, size_t shift) {
    char *src = nc_alloc(POOL_BYTES + 16), *got = nc_alloc(POOL_BYTES + 16), *want = nc_alloc(POOL_BYTES + 16);
    REQUIRE(src && got && want);
    for (int i = 0; i < POOL_BYTES + 16; i++) src[i] = (char)((unsigned)i * 2654435761u >> 13);
    memset(got, 7, POOL_BYTES + 16);
    memset(want, 7, POOL_BYTES + 16);
    nc_pool *pool = nc_pool_create(threads);
    size_t s = shift + (size_t)c->src_at * es, d = shift + (size_t)c->dst_at * es;
    nck_copy_ref(c->rank, c->dims, es, src + s, c->src, want + d, c->dst);
    nck_copy(c->rank, c->dims, es, src + s, c->src, got + d, c->dst, pool);
    CHECK(memcmp(got, want, POOL_BYTES + 16) == 0);
    nc_pool_destroy(pool);
    nc_free(src), nc_free(got), nc_free(want);
}

TEST(move_copy) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t es = 1; es <= 16; es *= 2)
            for (int threads = 1; threads <= 5; threads += 2) check_copy(&cases[i], es, threads, threads == 3 ? 1 : 0);
}

TEST(move_copy_turns) {
    int32_t src[6] = {1, 2, 3, 4, 5, 6}, dst[6] = {0}, want[6] = {1, 4, 2, 5, 3, 6};
    nck_copy(2, (int64_t[]){3, 2}, 4, src, (int64_t[]){1, 3}, dst, (int64_t[]){2, 1}, NULL);
    CHECK(memcmp(dst, want, sizeof want) == 0);
}

TEST(move_concat_by_views) {
    int16_t a[4] = {1, 2, 3, 4}, b[6] = {5, 6, 7, 8, 9, 10}, out[10], want[10] = {1, 2, 5, 6, 7, 3, 4, 8, 9, 10};
    nck_copy(2, (int64_t[]){2, 2}, 2, a, (int64_t[]){2, 1}, out, (int64_t[]){5, 1}, NULL);
    nck_copy(2, (int64_t[]){2, 3}, 2, b, (int64_t[]){3, 1}, out + 2, (int64_t[]){5, 1}, NULL);
    CHECK(memcmp(out, want, sizeof want) == 0);
}

TEST(move_fill) {
    static double dst[3 * 50001];
    double v = NAN;
    memset(dst, 0, sizeof dst);
    nc_pool *pool = nc_pool_create(5);
    nck_fill(2, (int64_t[]){3, 16667}, 8, &v, dst, (int64_t[]){50001, 3}, pool);
    for (int i = 0; i < 3 * 50001; i++) CHECK((i % 50001 % 3 == 0) == (isnan(dst[i]) != 0));
    nck_fill(1, (int64_t[]){0}, 8, &v, NULL, (int64_t[]){1}, pool);
    uint8_t bytes[5] = {9, 9, 9, 9, 9}, one = 1;
    nck_fill(1, (int64_t[]){3}, 1, &one, bytes + 1, (int64_t[]){1}, NULL);
    CHECK(bytes[0] == 9 && bytes[1] == 1 && bytes[3] == 1 && bytes[4] == 9);
    nc_pool_destroy(pool);
}

/* One element over and over, of every size, by a fill and by a copy that stays where it is. */
TEST(move_fill_sizes) {
    static const char value[17] = "0123456789abcdef";
    char dst[2][80 * 16 + 1];
    for (size_t es = 1; es <= 16; es *= 2)
        for (int64_t n = 1; n < 80; n += 13) {
            memset(dst, 'x', sizeof dst);
            nck_fill(1, &n, es, value, dst[0], (int64_t[]){1}, NULL);
            nck_copy(1, &n, es, value, (int64_t[]){0}, dst[1], (int64_t[]){1}, NULL);
            for (size_t i = 0; i < (size_t)n * es; i++) CHECK(dst[0][i] == value[i % es] && dst[1][i] == value[i % es]);
            CHECK(dst[0][(size_t)n * es] == 'x' && dst[1][(size_t)n * es] == 'x');
        }
}

TEST(move_gather) {
    float data[2 * 3 * 2] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, out[2 * 4 * 2];
    int64_t i64[4] = {2, -1, 0, -3}, bad = 99;
    int32_t i32[4] = {2, -1, 0, -3};
    float want[16] = {4, 5, 4, 5, 0, 1, 0, 1, 10, 11, 10, 11, 6, 7, 6, 7};
    CHECK_INT(nck_gather(2, 3, 8, data, NC_INT64, 4, i64, out, &bad, NULL), NC_OK);
    CHECK(memcmp(out, want, sizeof want) == 0);
    memset(out, 0, sizeof out);
    CHECK_INT(nck_gather(2, 3, 8, data, NC_INT32, 4, i32, out, &bad, NULL), NC_OK);
    CHECK(memcmp(out, want, sizeof want) == 0);
    i64[2] = 3;
    memset(out, 0, sizeof out);
    CHECK_INT(nck_gather(2, 3, 8, data, NC_INT64, 4, i64, out, &bad, NULL), NC_E_DATA);
    CHECK_INT(bad, 3);
    CHECK(out[0] == 0);
    i64[2] = -4;
    CHECK_INT(nck_gather(2, 3, 8, data, NC_INT64, 4, i64, out, &bad, NULL), NC_E_DATA);
    CHECK_INT(bad, -4);
    CHECK_INT(nck_gather(0, 3, 8, data, NC_INT64, 4, i64, out, &bad, NULL), NC_OK);
    CHECK_INT(nck_gather(2, 0, 8, data, NC_INT64, 0, i64, out, &bad, NULL), NC_OK);
}

/* Few indices and many, rows of every width, in one item and in several. */
static void check_gather(int64_t outer, int64_t axis, int64_t n, int64_t inner) {
    char *data = nc_alloc((size_t)(outer * axis * inner)), *out = nc_alloc((size_t)(outer * n * inner));
    int64_t *index = nc_alloc((size_t)n * sizeof *index), bad;
    nc_pool *pool = nc_pool_create(3);
    REQUIRE(data && out && index && pool);
    for (int64_t i = 0; i < outer * axis * inner; i++) data[i] = (char)(i * 31 + i / 251);
    for (int64_t i = 0; i < n; i++) index[i] = i * 7 % (2 * axis) - axis;
    CHECK_INT(nck_gather(outer, axis, (size_t)inner, data, NC_INT64, n, index, out, &bad, pool), NC_OK);
    for (int64_t r = 0; r < outer * n; r++) {
        int64_t from = r / n * axis + (index[r % n] + axis) % axis;
        CHECK(memcmp(out + r * inner, data + from * inner, (size_t)inner) == 0);
    }
    nc_pool_destroy(pool);
    nc_free(data), nc_free(out), nc_free(index);
}

TEST(move_gather_widths) {
    for (int64_t inner = 1; inner <= 9; inner++) {
        check_gather(1, 5, 3, inner);
        check_gather(4, 8, 8, inner);
        check_gather(3, 5, 64, inner);
        check_gather(3, 5, 65, inner);
        check_gather(200, 5, 60, inner);
        check_gather(200, 5, 70, inner);
    }
}

/* outer, axis, inner; indices */
typedef struct grad_case {
    int64_t outer, axis, inner, n;
} grad_case;

static const grad_case grads[] = {{3, 5, 2053, 41}, {1, 3001, 257, 500}, {2, 700, 301, 1}, {1, 40000, 3, 90},
                                  {1, 2, 130, 77},  {2, 9, 1, 0},        {1, 1, 1, 3},     {2, 3, 0, 4}};

/* Of floats that were something else before, or onto what they are. */
static void gather_grad_all(const grad_case *g, bool onto, float *dst, const float *src, const int32_t *index,
                            int threads) {
    nc_pool *pool = nc_pool_create(threads);
    int64_t bad;
    for (int64_t i = 0; i < g->outer * g->axis * g->inner; i++) dst[i] = onto ? (float)(i % 31) : NAN;
    CHECK_INT(nck_gather_grad(NC_FLOAT, g->outer, g->axis, g->inner, dst, onto, NC_INT32, g->n, index, src, &bad, pool),
              NC_OK);
    nc_pool_destroy(pool);
}

static void check_gather_grad(const grad_case *g, bool onto) {
    int64_t D = g->outer * g->axis * g->inner, S = g->outer * g->n * g->inner;
    float *src = nc_alloc((size_t)S * 4), *got = nc_alloc((size_t)D * 4), *two = nc_alloc((size_t)D * 4),
          *want = nc_alloc_zero((size_t)D, 4);
    int32_t index[500];
    REQUIRE(src && got && two && want);
    for (int64_t i = 0; i < g->n; i++) index[i] = (int32_t)(i * 7 % (2 * g->axis) - g->axis);
    for (int64_t i = 0; i < S; i++) src[i] = (float)(i % 1013) * 0.37f;
    if (S > 17) src[17] = INFINITY;
    for (int64_t i = 0; onto && i < D; i++) want[i] = (float)(i % 31);
    for (int64_t o = 0; o < g->outer; o++)
        for (int64_t i = 0; i < g->n; i++)
            for (int64_t k = 0; k < g->inner; k++)
                want[(o * g->axis + (index[i] + g->axis) % g->axis) * g->inner + k] +=
                    src[(o * g->n + i) * g->inner + k];
    gather_grad_all(g, onto, got, src, index, 1);
    gather_grad_all(g, onto, two, src, index, 5);
    CHECK(memcmp(got, want, (size_t)D * 4) == 0 && memcmp(two, want, (size_t)D * 4) == 0);
    nc_free(src), nc_free(got), nc_free(two), nc_free(want);
}

TEST(move_gather_grad) {
    for (size_t i = 0; i < sizeof grads / sizeof grads[0]; i++) {
        check_gather_grad(&grads[i], false);
        check_gather_grad(&grads[i], true);
    }
    float x[5] = {1, 2, 3, 4, 5};
    int64_t bad = 0, far = 9;
    CHECK_INT(nck_gather_grad(NC_FLOAT, 1, 5, 1, x, false, NC_INT64, 1, &far, x, &bad, NULL), NC_E_DATA);
    CHECK_INT(bad, 9);
    CHECK(x[0] == 1 && x[4] == 5);
    CHECK_INT(nck_gather_grad(NC_FLOAT16, 1, 5, 1, x, false, NC_INT64, 1, &far, x, &bad, NULL), NC_E_UNSUPPORTED);
    int32_t wraps = 7, two[2] = {INT32_MAX, 1}, zero[2] = {0, 0};
    CHECK_INT(nck_gather_grad(NC_INT32, 1, 1, 1, &wraps, false, NC_INT32, 2, zero, two, &bad, NULL), NC_OK);
    CHECK_INT(wraps, INT32_MIN);
}

TEST(move_nonzero) {
    float x[6] = {0, NAN, -0.0f, 3, 0, INFINITY};
    int64_t out[12], want[6] = {0, 1, 1, 1, 0, 2}, work[1];
    nc_tensor t = {.data = x, .dtype = NC_FLOAT, .rank = 2, .dims = {2, 3}, .strides = {3, 1}};
    CHECK_INT(nck_nonzero(&t, out, work, NULL), 3);
    CHECK(memcmp(out, want, sizeof want) == 0);
    t.dims[0] = 0;
    CHECK_INT(nck_nonzero(&t, out, work, NULL), 0);
    uint16_t h[3] = {0x8000, 1, 0};
    t = (nc_tensor){.data = h, .dtype = NC_FLOAT16, .rank = 1, .dims = {3}, .strides = {1}};
    CHECK_INT(nck_nonzero(&t, out, work, NULL), 1);
    CHECK_INT(out[0], 1);
    t = (nc_tensor){.data = x + 3, .dtype = NC_FLOAT, .rank = 0};
    CHECK_INT(nck_nonzero(&t, NULL, work, NULL), 1);
}

TEST(move_nonzero_blocks) {
    enum { R = 251, C = 313 };
    uint8_t *x = nc_alloc(R * C);
    int64_t *a = nc_alloc(2 * R * C * 8), *b = nc_alloc(2 * R * C * 8), *work = nc_alloc(nck_nonzero_workspace(R * C));
    REQUIRE(x && a && b && work);
    for (int i = 0; i < R * C; i++) x[i] = (unsigned)i * 2654435761u >> 24 & 1;
    nc_tensor t = {.data = x, .dtype = NC_BOOL, .rank = 2, .dims = {C, R}, .strides = {1, C}};
    nc_pool *pool = nc_pool_create(5);
    int64_t n = nck_nonzero(&t, a, work, NULL), m = nck_nonzero(&t, b, work, pool), at = 0;
    CHECK_INT(n, m);
    CHECK(memcmp(a, b, (size_t)n * 16) == 0);
    for (int i = 0; i < C; i++)
        for (int j = 0; j < R; j++)
            if (x[i + j * C]) {
                CHECK(at < n && a[at] == i && a[n + at] == j);
                at++;
            }
    CHECK_INT(at, n);
    nc_pool_destroy(pool);
    nc_free(x), nc_free(a), nc_free(b), nc_free(work);
}
