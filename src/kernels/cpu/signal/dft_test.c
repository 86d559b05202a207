/* kernels/cpu/signal/dft_test.c: transforms of real and complex lines against the sum that defines them: odd and even
 * lengths, powers of two, lines that are cut or filled up, lines that lie apart; the same bits for every number of
 * threads. */
#include "kernels/cpu/signal/dft.h"

#include "base/mem.h"
#include "tests/check.h"

#include <math.h>
#include <string.h>

enum { MOST = 1024 };

static nc_tensor tensor(void *data, nc_dtype t, int64_t outer, int64_t n, int64_t inner, int64_t parts) {
    nc_tensor x = {.data = data, .dtype = t, .rank = 4, .dims = {outer, n, inner, parts}};
    nc_dense_strides(x.dims, x.rank, x.strides);
    return x;
}

static double at(const nc_tensor *t, int64_t i) {
    return t->dtype == NC_FLOAT ? (double)((const float *)t->data)[i] : ((const double *)t->data)[i];
}

/* Bin k of the line that begins at element `from` of x. */
static void check_bin(const nc_tensor *x, int64_t from, int64_t length, int64_t k, double re, double im) {
    int64_t inner = x->dims[2], parts = x->dims[3], n = length < x->dims[1] ? length : x->dims[1];
    double sum[2] = {0, 0};
    for (int64_t i = 0; i < n; i++) {
        double angle = -6.283185307179586 * (double)(i * k % length) / (double)length, c = cos(angle), s = sin(angle);
        double a = at(x, (from + i * inner) * parts), b = parts == 2 ? at(x, (from + i * inner) * parts + 1) : 0;
        sum[0] += a * c - b * s, sum[1] += a * s + b * c;
    }
    double most = x->dtype == NC_FLOAT ? 1e-6 : 1e-12;
    CHECK(fabs(sum[0] - re) <= most * (double)(n + 1));
    CHECK(fabs(sum[1] - im) <= most * (double)(n + 1));
}

static void check_dft(nc_dtype type, int64_t n_in, int64_t length, int64_t inner, int64_t parts, bool onesided) {
    static double in[3 * MOST * 2 * 2], out[2][3 * MOST * 2 * 2];
    int64_t outer = 3, bins = onesided ? length / 2 + 1 : length;
    nc_tensor x = tensor(in, type, outer, n_in, inner, parts), y = tensor(out[0], type, outer, bins, inner, 2);
    for (int64_t i = 0; i < nc_tensor_numel(&x); i++) {
        double v = (double)(i * 7919 % 101) / 50 - 1;
        if (type == NC_FLOAT)
            ((float *)x.data)[i] = (float)v;
        else
            ((double *)x.data)[i] = v;
    }
    void *work = nc_alloc(nck_dft_workspace(length));
    REQUIRE(work != NULL);
    nck_dft(&x, 1, length, false, onesided, &y, work, NULL);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t l = 0; l < inner; l++)
            for (int64_t k = 0; k < bins; k++) {
                int64_t to = ((o * bins + k) * inner + l) * 2;
                check_bin(&x, o * n_in * inner + l, length, k, at(&y, to), at(&y, to + 1));
            }
    nc_pool *pool = nc_pool_create(3);
    REQUIRE(pool != NULL);
    nc_tensor z = y;
    z.data = out[1];
    nck_dft(&x, 1, length, false, onesided, &z, work, pool);
    CHECK(memcmp(y.data, z.data, (size_t)nc_tensor_numel(&y) * nc_dtype_bytes(type)) == 0);
    nc_pool_destroy(pool);
    nc_free(work);
}

TEST(dft_of_lines) {
    static const int64_t lengths[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 30, 64, 100, 128};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int way = 0; way < 8; way++) {
            int64_t n = lengths[i], inner = way & 1 ? 2 : 1, parts = way & 2 ? 2 : 1;
            nc_dtype type = way & 4 ? NC_DOUBLE : NC_FLOAT;
            check_dft(type, n, n, inner, parts, false);
            check_dft(type, n, n, inner, 1, true);
            check_dft(type, n + 3, n, inner, parts, false);
            if (n > 2) check_dft(type, n - 1, n, inner, 1, true);
            if (n > 2) check_dft(type, n - 2, n, inner, parts, false);
        }
    check_dft(NC_FLOAT, 400, 400, 1, 1, true);
    check_dft(NC_FLOAT, 400, 512, 1, 1, true);
}
