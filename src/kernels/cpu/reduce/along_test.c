/* kernels/cpu/reduce/along_test.c: places of extremes and running sums, line by line, against plain loops. */
#include "kernels/cpu/reduce/along.h"

#include "kernels/cpu/isa_testing.h"
#include "tests/check.h"

#include <math.h>
#include <string.h>

static nc_tensor tensor(void *data, nc_dtype t, int rank, const int64_t *dims) {
    nc_tensor x = {.data = data, .dtype = t, .rank = rank};
    memcpy(x.dims, dims, (size_t)rank * sizeof *dims);
    nc_dense_strides(x.dims, rank, x.strides);
    return x;
}

static void check_arg(int64_t outer, int64_t n, int64_t inner) {
    static float x[4000];
    static int64_t got[4000];
    for (int64_t i = 0; i < outer * n * inner; i++) x[i] = (float)(i * 7919 % 13);
    nc_tensor t = tensor(x, NC_FLOAT, 3, (int64_t[]){outer, n, inner});
    for (int way = 0; way < 4; way++) {
        REQUIRE(nck_arg(&t, 1, way & 1, way & 2, got, NULL) == NC_OK);
        for (int64_t l = 0; l < outer * inner; l++) {
            const float *p = x + l / inner * n * inner + l % inner;
            int64_t want = 0;
            for (int64_t k = 1; k < n; k++) {
                float v = p[k * inner], b = p[want * inner];
                if ((way & 1 ? v < b : v > b) || (v == b && (way & 2))) want = k;
            }
            CHECK_INT(got[l], want);
        }
    }
}

TEST(arg_of_lines) {
    check_arg(1, 1, 1);
    check_arg(3, 5, 1);
    check_arg(700, 5, 1);
    check_arg(2, 2000, 1);
    check_arg(5, 1, 1);
    check_arg(70, 24, 1); /* just walked */
    check_arg(70, 25, 1); /* by vectors */
    check_arg(2, 7, 67);
    check_arg(1, 13, 129);
    check_arg(0, 3, 2);
    check_arg(4, 3, 0);
}

/* Lines longer than a piece, and strips as wide as one, with NaN in some: the first of them, or the last. */
TEST(arg_of_long_lines_with_nan) {
    static float x[70 * 300];
    int64_t got[70];
    for (int isa = 0; nck_isa_at(isa); isa = NEXT_ISA(isa, reduce)) {
        REQUIRE(nck_isa_set_for_test(nck_isa_at(isa)->name));
        for (int form = 0; form < 2; form++) /* lines behind one another, side by side */
            for (int way = 0; way < 4; way++) {
                nc_tensor t = tensor(x, NC_FLOAT, 2, form ? (int64_t[]){300, 70} : (int64_t[]){70, 300});
                for (int64_t i = 0; i < 70 * 300; i++) x[i] = (float)(i * 7919 % 1009) - 500;
                for (int64_t l = 0; l < 70; l += 3) {
                    int64_t a = l * 37 % 300, b = l * 59 % 300;
                    x[form ? a * 70 + l : l * 300 + a] = x[form ? b * 70 + l : l * 300 + b] = NAN;
                }
                REQUIRE(nck_arg(&t, 1 - form, way & 1, way & 2, got, NULL) == NC_OK);
                for (int64_t l = 0; l < 70; l++) {
                    const float *p = form ? x + l : x + l * 300;
                    int64_t step = form ? 70 : 1, want = 0;
                    for (int64_t k = 1; k < 300; k++) {
                        float v = p[k * step], b = p[want * step];
                        bool equal = v == b || (isnan(v) && isnan(b)), beats = way & 1 ? v < b : v > b;
                        if (equal ? way & 2 : !isnan(b) && (isnan(v) || beats)) want = k;
                    }
                    CHECK_INT(got[l], want);
                }
            }
    }
    CHECK(nck_isa_set_for_test(NULL));
}

TEST(arg_with_nan) {
    float x[5] = {1, NAN, 3, NAN, 9}, many[30] = {[11] = NAN, [12] = 5, [25] = NAN};
    int64_t got;
    nc_tensor t = tensor(x, NC_FLOAT, 1, (int64_t[]){5}), long_line = tensor(many, NC_FLOAT, 1, (int64_t[]){30});
    CHECK(nck_arg(&long_line, 0, false, false, &got, NULL) == NC_OK && got == 11);
    CHECK(nck_arg(&long_line, 0, false, true, &got, NULL) == NC_OK && got == 25);
    for (int smallest = 0; smallest < 2; smallest++) {
        CHECK(nck_arg(&t, 0, smallest, false, &got, NULL) == NC_OK && got == 1);
        CHECK(nck_arg(&t, 0, smallest, true, &got, NULL) == NC_OK && got == 3);
    }
    t.dtype = NC_STRING;
    CHECK(nck_arg(&t, 0, false, false, &got, NULL) == NC_E_UNSUPPORTED);
}

static void check_running(int64_t outer, int64_t n, int64_t inner) {
    static int64_t x[12000], got[12000];
    for (int64_t i = 0; i < outer * n * inner; i++) x[i] = i % 11 - 5;
    nc_tensor t = tensor(x, NC_INT64, 3, (int64_t[]){outer, n, inner});
    for (int way = 0; way < 8; way++) {
        bool product = way & 1, exclusive = way & 2, reverse = way & 4;
        REQUIRE(nck_cumulate(&t, 1, product, exclusive, reverse, got, NULL) == NC_OK);
        for (int64_t l = 0; l < outer * inner; l++) {
            int64_t base = l / inner * n * inner + l % inner;
            uint64_t acc = product;
            for (int64_t k = 0; k < n; k++) {
                int64_t at = base + (reverse ? n - 1 - k : k) * inner;
                uint64_t before = acc;
                acc = product ? acc * (uint64_t)x[at] : acc + (uint64_t)x[at];
                CHECK_INT(got[at], (int64_t)(exclusive ? before : acc));
            }
        }
    }
}

TEST(running_sums_and_products) {
    int64_t x[1], got[1];
    check_running(2, 3, 70);
    check_running(1, 5, 1100); /* two wide strips and a part of one */
    check_running(4, 8, 1);
    check_running(1, 1, 1);
    check_running(3, 4000, 1); /* more than an item */
    check_running(5000, 2, 1);
    nc_tensor none = tensor(x, NC_INT64, 2, (int64_t[]){0, 3});
    CHECK(nck_cumulate(&none, 0, false, false, false, got, NULL) == NC_OK);
    CHECK(nck_cumulate(&none, 1, true, false, false, got, NULL) == NC_OK);
}
