/* kernels/cpu/index/topk_test.c: the k first of every line against the definition: an element's place is the number of
 * those that come before it. Ties, zeros of both signs, NaN and the ends of integers; every k, lines side by side. */
#include "kernels/cpu/index/index.h"

#include "kernels/cpu/index/order.h"
#include "tests/check.h"

#include <math.h>
#include <string.h>

enum { AXIS = 37, INNER = 3, OUTER = 2, ALL = OUTER * AXIS * INNER };

static int order_of(nc_dtype type, const void *x, int64_t a, int64_t b) {
    if (type == NC_FLOAT) return nck_order_f32(((const float *)x)[a], ((const float *)x)[b]);
    if (type == NC_DOUBLE) return nck_order_f64(((const double *)x)[a], ((const double *)x)[b]);
    return nck_order_i64(((const int32_t *)x)[a], ((const int32_t *)x)[b]);
}

static int64_t place_of(const nck_topk *t, int64_t line, int64_t i) {
    int64_t base = line / INNER * AXIS * INNER + line % INNER, place = 0;
    for (int64_t k = 0; k < AXIS; k++) {
        int c = order_of(t->type, t->x, base + k * INNER, base + i * INNER);
        place += c != 0 ? (c > 0) == t->largest : k < i;
    }
    return place;
}

static void check_topk(nc_dtype type, const void *x, bool largest, int64_t k) {
    static int64_t indices[ALL], room[ALL];
    static char values[ALL * 8];
    size_t es = nc_dtype_bytes(type);
    nck_topk t = {.type = type, .outer = OUTER, .axis = AXIS, .inner = INNER, .k = k, .largest = largest, .x = x};
    t.values = values, t.indices = indices;
    REQUIRE(nck_topk_workspace(OUTER, k, INNER) <= sizeof room);
    nck_topk_run(&t, room, NULL);
    for (int64_t line = 0; line < OUTER * INNER; line++)
        for (int64_t i = 0; i < k; i++) {
            int64_t at = (line / INNER * k + i) * INNER + line % INNER, from = indices[at];
            REQUIRE(from >= 0 && from < AXIS);
            CHECK(place_of(&t, line, from) == i);
            from = (line / INNER * AXIS + from) * INNER + line % INNER;
            CHECK(memcmp(values + (size_t)at * es, (const char *)x + (size_t)from * es, es) == 0);
        }
}

TEST(topk_of_every_kind_of_value) {
    static float f[ALL];
    static double d[ALL];
    static int32_t w[ALL];
    static const float odd[] = {0.0f, -0.0f, NAN, -NAN, INFINITY, -INFINITY, 0x1p-149f, -0x1p-149f, -1.5f, 1.5f};
    static const int32_t ends[] = {INT32_MIN, INT32_MAX, 0, -1, 1, INT32_MIN + 1};
    for (int i = 0; i < ALL; i++) {
        f[i] = i * 7919 % 5 < 3 ? odd[i * 31 % 10] : (float)(i * 7919 % 23) - 11;
        d[i] = (double)f[i];
        w[i] = i * 7919 % 5 < 2 ? ends[i * 31 % 6] : i * 7919 % 19 - 9;
    }
    for (int64_t k = 0; k <= AXIS; k += k < 4 ? 1 : 11)
        for (int largest = 0; largest < 2; largest++) {
            check_topk(NC_FLOAT, f, largest, k);
            check_topk(NC_DOUBLE, d, largest, k);
            check_topk(NC_INT32, w, largest, k);
        }
}
