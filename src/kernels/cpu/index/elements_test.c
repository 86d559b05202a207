/* kernels/cpu/index/elements_test.c: elements gathered along every axis against the plain loop, over sizes of elements
 * and of indices, an index smaller than the data, and none. */
#include "kernels/cpu/index/index.h"
#include "tests/check.h"

#include <string.h>

enum { MOST = 4096 };

static void check_axis(const int64_t *dims, const int64_t *at, int axis, nc_dtype type, nc_dtype index_type) {
    static char data[MOST * 8], out[MOST * 8];
    static int64_t index[MOST];
    nc_tensor x = {.data = data, .dtype = type, .rank = 3, .dims = {dims[0], dims[1], dims[2]}};
    nc_tensor i = {.data = index, .dtype = index_type, .rank = 3, .dims = {at[0], at[1], at[2]}};
    nc_dense_strides(x.dims, 3, x.strides);
    nc_dense_strides(i.dims, 3, i.strides);
    int64_t n = nc_tensor_numel(&i), size = dims[axis], bytes = (int64_t)nc_dtype_bytes(type), chosen[MOST];
    for (size_t k = 0; k < sizeof data; k++) data[k] = (char)(k * 2654435761u >> 11);
    for (int64_t k = 0; k < n; k++) {
        chosen[k] = (k * 7 + 3) % (2 * size) - size;
        if (index_type == NC_INT64)
            index[k] = chosen[k];
        else
            ((int32_t *)(void *)index)[k] = (int32_t)chosen[k];
    }
    nck_bad_index bad;
    REQUIRE(nck_gather_elements(&x, &i, axis, out, &bad, NULL) == NC_OK);
    for (int64_t k = 0; k < n; k++) {
        int64_t place[3] = {k / (at[1] * at[2]), k / at[2] % at[1], k % at[2]};
        place[axis] = chosen[k] < 0 ? chosen[k] + size : chosen[k];
        int64_t from = (place[0] * dims[1] + place[1]) * dims[2] + place[2];
        CHECK(memcmp(out + k * bytes, data + from * bytes, (size_t)bytes) == 0);
    }
}

TEST(gather_elements_axes) {
    static const int64_t dims[][3] = {{3, 5, 7}, {1, 1, 9}, {4, 2, 65}}, at[][3] = {{2, 4, 6}, {1, 1, 1}, {4, 2, 0}};
    static const nc_dtype types[] = {NC_FLOAT, NC_INT64, NC_FLOAT16, NC_UINT8};
    for (int d = 0; d < 3; d++)
        for (int axis = 0; axis < 3; axis++)
            for (int t = 0; t < 8; t++) {
                check_axis(dims[d], dims[d], axis, types[t / 2], t % 2 ? NC_INT32 : NC_INT64);
                check_axis(dims[d], at[d], axis, types[t / 2], t % 2 ? NC_INT32 : NC_INT64);
            }
}
