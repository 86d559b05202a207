/* kernels/cpu/index/elements_test.c: elements gathered and put along every axis against the plain loop, over sizes of
 * elements and of indices, strides of indices, an index smaller than the data, and none; with threads the same bits. */
#include "kernels/cpu/index/index.h"

#include "base/intmath.h"
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

/* Where element k of index lies; strides of 0 stand for what was expanded. */
static int64_t at_strides(const nc_tensor *t, int64_t k) {
    int64_t at = 0;
    for (int d = t->rank - 1; d >= 0; k /= t->dims[d--]) at += k % t->dims[d] * t->strides[d];
    return at;
}

static nc_tensor strided_index(const int64_t *dims, int expanded, nc_dtype type, int64_t size, void *room) {
    nc_tensor i = {.data = room, .dtype = type, .rank = 3, .dims = {dims[0], dims[1], dims[2]}};
    int64_t n = 1;
    for (int d = 0; d < 3; d++) { /* the first dim lies closest together */
        i.strides[d] = expanded >> d & 1 ? 0 : n;
        if (i.strides[d] != 0) n *= dims[d];
    }
    for (int64_t k = 0; k < n; k++) {
        int64_t v = (k * 7 + 3) % (2 * size) - size;
        if (type == NC_INT64)
            ((int64_t *)room)[k] = v;
        else
            ((int32_t *)room)[k] = (int32_t)v;
    }
    return i;
}

static void check_put(const int64_t *dims, int expanded, int axis, nck_combine how, nc_dtype type, nc_pool *pool) {
    static float data[MOST], want[MOST], src[MOST], out[MOST];
    static int64_t room[MOST];
    nc_tensor x = {.data = data, .dtype = NC_FLOAT, .rank = 3, .dims = {dims[0], dims[1], dims[2]}};
    nc_dense_strides(x.dims, 3, x.strides);
    nc_tensor i = strided_index(dims, expanded, type, dims[axis], room);
    int64_t n = nc_tensor_numel(&x);
    for (int64_t k = 0; k < n; k++) want[k] = data[k] = (float)(k % 13) / 3, src[k] = (float)(k % 17) / 7 - 1;
    nck_bad_index bad;
    REQUIRE(nck_gather_elements(&x, &i, axis, out, &bad, pool) == NC_OK);
    for (int64_t k = 0; k < n; k++) {
        int64_t place[3] = {k / (dims[1] * dims[2]), k / dims[2] % dims[1], k % dims[2]};
        int64_t v = nck_index_at(&i, at_strides(&i, k));
        place[axis] = v < 0 ? v + dims[axis] : v;
        int64_t to = (place[0] * dims[1] + place[1]) * dims[2] + place[2];
        CHECK(out[k] == data[to]);
        want[to] = how == NCK_SET ? src[k] : how == NCK_ADD ? want[to] + src[k] : src[k] > want[to] ? src[k] : want[to];
    }
    REQUIRE(nck_scatter_elements(how, &x, &i, axis, src, &bad, pool) == NC_OK);
    CHECK(memcmp(data, want, (size_t)n * sizeof *data) == 0);
}

TEST(elements_by_strided_indices) {
    static const int64_t dims[][3] = {{3, 5, 7}, {1, 1, 9}, {4, 9, 65}, {40, 2, 40}};
    static const nck_combine hows[] = {NCK_SET, NCK_ADD, NCK_MAX};
    nc_pool *pool = nc_pool_create(3);
    REQUIRE(pool != NULL);
    for (int k = 0; k < 4 * 3 * 8 * 3 * 2 * 2; k++)
        check_put(dims[k % 4], k / 12 % 8, k / 4 % 3, hows[k / 96 % 3], k / 288 % 2 ? NC_INT32 : NC_INT64,
                  k / 576 ? pool : NULL);
    nc_pool_destroy(pool);
}

/* The first one out of range is named, also at the ends of what integers hold. */
TEST(elements_out_of_range) {
    static const int64_t wrong[] = {5, -6, INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN};
    float data[5] = {0}, src[9] = {0};
    int64_t index[9];
    int32_t small[9];
    for (int k = 0; k < 2 * 6 * 9; k++) {
        int64_t v = wrong[k / 9 % 6];
        bool narrow = k / 54 && v >= INT32_MIN && v <= INT32_MAX;
        for (int i = 0; i < 9; i++) index[i] = i % 5, small[i] = i % 5;
        index[k % 9] = v, small[k % 9] = narrow ? (int32_t)v : 0;
        nc_tensor x = {.data = data, .dtype = NC_FLOAT, .rank = 1, .dims = {5}, .strides = {1}};
        nc_tensor i = {.data = narrow ? (void *)small : index, .dtype = narrow ? NC_INT32 : NC_INT64, .rank = 1};
        i.dims[0] = 9, i.strides[0] = 1;
        nck_bad_index bad = {0};
        CHECK(nck_scatter_elements(NCK_ADD, &x, &i, 0, src, &bad, NULL) == NC_E_DATA);
        CHECK(bad.index == v && bad.size == 5);
    }
}
