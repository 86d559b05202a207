/* ops/pool/pool_cases_test.c: the cases of the pool family (ops/cases.h), the tests that run them, sizes and refusals.
 */
#include "ops/cases_testing.h"

#include "kernels/cpu/pool/pool.h"
#include "ops/binding.h"
#include "tests/check.h"
#include "tests/graph_testing.h"

#include <math.h>

#define ONE(op, x) "<opset: \"\" 22, \"nacre\" 1> g (" x " x) => (y) { y = " op "(x) }"
#define BOTH(op, x) "<opset: \"\" 22> g (" x " x) => (y, i) { y, i = " op "(x) }"
#define VALUE {{0, 0}}, NC_CASE_NO_GRAD
#define POSITIVE   \
    {              \
        { 0.5, 2 } \
    }

extern const nc_case nc_pool_cases[];
const nc_case nc_pool_cases[] = {
    {"max_1d", ONE("MaxPool<kernel_shape = [2]>", "float[n,3,7]")},
    {"max_2d", ONE("MaxPool<kernel_shape = [3,2], strides = [2,1], pads = [1,0,1,1]>", "float[2,3,5,n]")},
    {"max_3d", ONE("MaxPool<kernel_shape = [2,2,2], dilations = [1,2,1]>", "float[1,2,3,5,4]")},
    {"max_ceil", ONE("MaxPool<kernel_shape = [3,3], strides = [2,2], ceil_mode = 1>", "float[1,2,6,4]")},
    {"max_same", ONE("MaxPool<kernel_shape = [2,2], auto_pad = \"SAME_LOWER\">", "float[1,2,5,4]")},
    {"max_indices", BOTH("MaxPool<kernel_shape = [2,2], strides = [2,2]>", "float[2,2,5,6]")},
    {"max_columns", BOTH("MaxPool<kernel_shape = [2,2], strides = [2,2], storage_order = 1>", "float[2,2,5,6]")},
    {"max_old", "<opset: \"\" 7> g (float[n,2,5] x) => (y) { y = MaxPool<kernel_shape = [2]>(x) }"},
    {"max_int8", ONE("MaxPool<kernel_shape = [2,2]>", "int8[1,2,5,5]"), {{-100, 100}}, NC_CASE_NO_GRAD | NC_CASE_EXACT},
    {"max_uint8", ONE("MaxPool<kernel_shape = [2,2]>", "uint8[1,2,5,5]"), {{0, 200}}, NC_CASE_NO_GRAD | NC_CASE_EXACT},
    {"max_half", ONE("MaxPool<kernel_shape = [2,2]>", "float16[1,2,5,5]"), VALUE},
    {"max_empty", ONE("MaxPool<kernel_shape = [2,2]>", "float[0,2,5,5]"), VALUE},
    {"average_1d", ONE("AveragePool<kernel_shape = [3], pads = [1,1]>", "float[n,3,7]")},
    {"average_2d", ONE("AveragePool<kernel_shape = [3,2], strides = [2,1], pads = [1,0,1,1]>", "float[2,3,5,4]")},
    {"average_3d", ONE("AveragePool<kernel_shape = [2,2,2], dilations = [1,2,1]>", "float[1,2,3,5,4]")},
    {"average_padded",
     ONE("AveragePool<kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1], count_include_pad = 1, ceil_mode = 1>",
         "float[1,2,6,5]")},
    {"average_bfloat16", ONE("AveragePool<kernel_shape = [2,2]>", "bfloat16[1,2,5,5]"), VALUE},
    {"average_empty", ONE("AveragePool<kernel_shape = [2,2]>", "float[2,0,5,5]"), VALUE},
    {"average_grad", "<opset: \"\" 22, \"nacre\" 1> g (float[1,2,3,2] d, float[1,2,4,3] x) => (y) "
                     "{ y = nacre.AveragePoolGrad<kernel_shape = [2,2]>(d, x) }"},
    {"sum_grad", "<opset: \"\" 22, \"nacre\" 1> g (float[1,2,3,2] d, float[1,2,4,3] x) => (y) "
                 "{ y = nacre.AveragePoolGrad<kernel_shape = [2,2], divide = 0>(d, x) }"},
    {"max_grad", "<opset: \"\" 22, \"nacre\" 1> g (float[1,2,2] d, float[1,2,4] x) => (y) "
                 "<const int64[1,2,2] i = {1, 1, 6, -1}> { y = nacre.MaxPoolGrad(d, i, x) }"},
    {"sum", ONE("nacre.SumPool<kernel_shape = [2,3], pads = [0,1,0,1]>", "float[1,2,4,5]")},
    {"lp_2", ONE("LpPool<kernel_shape = [2,2], strides = [1,2]>", "float[1,2,5,4]")},
    {"lp_1", ONE("LpPool<kernel_shape = [3], p = 1>", "float[1,2,5]"), {{0, 0}}, NC_CASE_KINK},
    {"lp_3", ONE("LpPool<kernel_shape = [2,2], p = 3>", "float[1,2,5,4]"), POSITIVE},
    {"lp_old", "<opset: \"\" 1> g (float[1,2,5] x) => (y) { y = LpPool<kernel_shape = [2], p = 2.0>(x) }"},
    {"global_average", ONE("GlobalAveragePool", "float[n,3,4,5]")},
    {"global_average_half", ONE("GlobalAveragePool", "float16[2,3,4,5]"), VALUE},
    {"global_max", ONE("GlobalMaxPool", "float[2,3,7]")},
    {"global_lp", ONE("GlobalLpPool", "float[2,3,4,2]")},
    {"global_lp_3", ONE("GlobalLpPool<p = 3>", "float[2,3,4]"), POSITIVE},
    {"unpool", "<opset: \"\" 22> g (float[1,2,2,2] x) => (y) <const int64[1,2,2,2] i = {0, 2, 9, 15, 16, 19, 24, 31}> "
               "{ y = MaxUnpool<kernel_shape = [2,2], strides = [2,2]>(x, i) }"},
    {"unpool_shape",
     "<opset: \"\" 22> g (float[1,1,2,2] x) => (y) <const int64[1,1,2,2] i = {5, 7, 13, 15}, "
     "const int64[4] s = {1, 1, 5, 6}> { y = MaxUnpool<kernel_shape = [2,2], strides = [2,2]>(x, i, s) }",
     VALUE},
    {0}};

TEST(pool_values) { nc_cases_check_values(nc_pool_cases); }
TEST(pool_isas) { nc_cases_check_isas(nc_pool_cases); }
TEST(pool_gradients) { nc_cases_check_gradients(nc_pool_cases); }

TEST(pool_sizes) {
    CHECK_INFERS(ONE("MaxPool<kernel_shape = [3,3], strides = [2,2], ceil_mode = 1>", "float[n,2,4,4]"),
                 "float[n,2,2,2]");
    /* the last window would begin in the padding */
    CHECK_INFERS(ONE("MaxPool<kernel_shape = [1,1], strides = [2,2], ceil_mode = 1>", "float[1,1,2,2]"),
                 "float[1,1,1,1]");
    CHECK_INFERS(ONE("MaxPool<kernel_shape = [2], strides = [2]>", "float[n,2,h]"), "float[n,2,floor(h/2)]");
    CHECK_INFERS(ONE("MaxPool<kernel_shape = [2], strides = [2], auto_pad = \"SAME_UPPER\">", "float[n,2,h]"),
                 "float[n,2,ceil(h/2)]");
    CHECK_INFERS(ONE("GlobalMaxPool", "float[n,c,h,w]"), "float[n,c,1,1]");
}

TEST(pool_max_takes_nan_and_the_first_of_equals) {
    const float x[6] = {1, 3, 3, NAN, 2, -INFINITY};
    float y[5];
    int64_t index[5];
    nck_pool_args a = {.type = NC_FLOAT,
                       .w = {.in = {1, 1, 6}, .k = {1, 1, 2}, .out = {1, 1, 5}, .stride = {1, 1, 1}, .dil = {1, 1, 1}},
                       .planes = 1,
                       .x = x,
                       .y = y};
    nck_pool_max(&a, index, false, NULL);
    CHECK(y[0] == 3 && y[1] == 3 && isnan(y[2]) && isnan(y[3]) && y[4] == 2);
    CHECK(index[0] == 1 && index[1] == 1 && index[2] == 3 && index[3] == 3 && index[4] == 4);
}

TEST(pool_places_outside_their_plane_are_refused) {
    const float x[2] = {1, 2};
    const int64_t good[2] = {3, 4}, other[2] = {3, 1}, outside[2] = {3, 8};
    float y[8];
    int64_t bad = 0;
    CHECK_INT(nck_pool_place(NC_FLOAT, 2, 1, 8, x, good, false, y, &bad, NULL), NC_OK);
    CHECK(y[3] == 1 && y[4] == 2 && y[0] == 0 && y[7] == 0);
    CHECK_INT(nck_pool_place(NC_FLOAT, 2, 1, 8, x, other, false, y, &bad, NULL), NC_E_DATA);
    CHECK_INT(bad, 1);
    CHECK_INT(nck_pool_place(NC_FLOAT, 2, 1, 8, x, outside, false, y, &bad, NULL), NC_E_DATA);
    CHECK_INT(bad, 8);
}
