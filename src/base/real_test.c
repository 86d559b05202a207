/* base/real_test.c: elements of every float type as double and back. */
#include "base/real.h"

#include "tests/check.h"

TEST(real_reads_every_float_type) {
    const float f[] = {1.5f, -2.25f};
    const double d[] = {0.1, -3};
    const uint16_t h[] = {0x3e00, 0xc080}, b[] = {0x3fc0, 0xc010};
    CHECK(nc_real_get(NC_FLOAT, f, 1) == -2.25 && nc_real_get(NC_DOUBLE, d, 0) == 0.1);
    CHECK(nc_real_get_any(NC_FLOAT, f, 0) == 1.5 && nc_real_get_any(NC_DOUBLE, d, 1) == -3);
    CHECK(nc_real_get_any(NC_FLOAT16, h, 0) == 1.5 && nc_real_get_any(NC_FLOAT16, h, 1) == -2.25);
    CHECK(nc_real_get_any(NC_BFLOAT16, b, 0) == 1.5 && nc_real_get_any(NC_BFLOAT16, b, 1) == -2.25);
}

TEST(real_puts_only_the_element) {
    float f[] = {7, 7, 7};
    double d[] = {7, 7, 7};
    nc_tensor tf = {.data = f, .dtype = NC_FLOAT, .rank = 1, .dims = {3}, .strides = {1}}, td = tf;
    td.data = d, td.dtype = NC_DOUBLE;
    nc_tensor_put(&tf, 1, 0.1);
    nc_tensor_put(&td, 1, 0.1);
    CHECK(f[0] == 7 && f[1] == 0.1f && f[2] == 7 && d[0] == 7 && d[1] == 0.1 && d[2] == 7);
    CHECK(nc_tensor_get(&tf, 1) == (double)0.1f && nc_tensor_get_any(&td, 1) == 0.1);
}
