/* base/shape_test.c: overflow, empty and rank-0 shapes, broadcasting, and merging checked by walking addresses. */
#include "base/shape.h"

#include "tests/check.h"

#define DIMS(...) \
    (const int64_t[]) { __VA_ARGS__ }

TEST(shape_numel) {
    int64_t n = -7;
    CHECK(nc_numel(NULL, 0, &n) && n == 1);
    CHECK(nc_numel(DIMS(3, 5, 7), 3, &n) && n == 105);
    CHECK(nc_numel(DIMS(INT64_MAX, 0, INT64_MAX), 3, &n) && n == 0);
    CHECK(nc_numel(DIMS(INT64_MAX, INT64_MAX, 0), 3, &n) && n == 0);
    CHECK(nc_numel(DIMS(INT64_MAX, 1), 2, &n) && n == INT64_MAX);
    n = -7;
    CHECK(!nc_numel(DIMS(INT64_MAX, 2), 2, &n));
    CHECK(!nc_numel(DIMS(0, -1), 2, &n));
    CHECK(!nc_numel(DIMS(-1, -1), 2, &n));
    CHECK_INT(n, -7);
}

TEST(shape_bytes) {
    size_t bytes = 9;
    CHECK(nc_tensor_bytes(NC_COMPLEX128, DIMS(3, 5), 2, &bytes) && bytes == 240);
    CHECK(nc_tensor_bytes(NC_FLOAT, DIMS(0), 1, &bytes) && bytes == 0);
    CHECK(nc_tensor_bytes(NC_INT8, DIMS(INT64_MAX), 1, &bytes) && bytes == INT64_MAX);
    bytes = 9;
    CHECK(!nc_tensor_bytes(NC_INT16, DIMS(INT64_MAX), 1, &bytes));
    CHECK(!nc_tensor_bytes(NC_STRING, DIMS(2), 1, &bytes));
    CHECK(!nc_tensor_bytes(NC_FLOAT, DIMS(-2), 1, &bytes));
    CHECK_INT(bytes, 9);
}

TEST(shape_dense) {
    nc_tensor t = {.dtype = NC_FLOAT, .rank = 3, .dims = {2, 3, 4}};
    nc_dense_strides(t.dims, 3, t.strides);
    CHECK(t.strides[0] == 12 && t.strides[1] == 4 && t.strides[2] == 1);
    CHECK(nc_is_dense(&t) && nc_tensor_numel(&t) == 24);
    t.strides[1] = 5;
    CHECK(!nc_is_dense(&t));
    t.dims[2] = 0;
    CHECK(nc_is_dense(&t) && nc_tensor_numel(&t) == 0);
    nc_tensor one = {.rank = 3, .dims = {1, 4, 1}, .strides = {-9, 1, 77}};
    CHECK(nc_is_dense(&one));
    one.strides[1] = -1;
    CHECK(!nc_is_dense(&one));
    nc_tensor scalar = {.rank = 0};
    CHECK(nc_is_dense(&scalar) && nc_tensor_numel(&scalar) == 1);
    int64_t strides[3];
    nc_dense_strides(DIMS(2, 0, 3), 3, strides);
    CHECK(strides[0] == 3 && strides[1] == 3 && strides[2] == 1);
    nc_dense_strides(DIMS(0, INT64_MAX, INT64_MAX), 3, strides); /* must not overflow */
}

TEST(shape_broadcast) {
    int64_t out[NC_MAX_RANK] = {-1};
    int rank = -1;
    CHECK(nc_broadcast(DIMS(2, 1, 4), 3, DIMS(3, 1), 2, out, &rank));
    CHECK(rank == 3 && out[0] == 2 && out[1] == 3 && out[2] == 4);
    CHECK(nc_broadcast(NULL, 0, NULL, 0, out, &rank) && rank == 0);
    CHECK(nc_broadcast(DIMS(0), 1, DIMS(1), 1, out, &rank) && out[0] == 0);
    CHECK(nc_broadcast(DIMS(1), 1, DIMS(0), 1, out, &rank) && out[0] == 0);
    out[0] = rank = -1;
    CHECK(!nc_broadcast(DIMS(0), 1, DIMS(2), 1, out, &rank));
    CHECK(!nc_broadcast(DIMS(2, 3), 2, DIMS(2), 1, out, &rank));
    int64_t ones[NC_MAX_RANK + 1] = {1};
    CHECK(!nc_broadcast(ones, NC_MAX_RANK + 1, DIMS(1), 1, out, &rank));
    CHECK(out[0] == -1 && rank == -1);
    int64_t in_place[NC_MAX_RANK] = {5};
    CHECK(nc_broadcast(in_place, 1, DIMS(2, 1), 2, in_place, &rank) && in_place[0] == 2 && in_place[1] == 5);
}

TEST(shape_broadcast_strides) {
    nc_tensor t = {.rank = 3, .dims = {3, 1, 4}, .strides = {4, 4, -1}};
    int64_t strides[5];
    nc_broadcast_strides(&t, 5, DIMS(7, 1, 3, 2, 4), strides);
    CHECK(strides[0] == 0 && strides[1] == 0 && strides[2] == 4 && strides[3] == 0 && strides[4] == -1);
    nc_tensor scalar = {.rank = 0};
    nc_broadcast_strides(&scalar, 2, DIMS(2, 3), strides);
    CHECK(strides[0] == 0 && strides[1] == 0);
}

TEST(sets_of_axes) {
    CHECK(nc_axes_below(0) == 0 && nc_axes_below(3) == 7 && nc_axes_below(NC_MAX_RANK) == UINT64_MAX);
    CHECK(nc_axes_of(0) == 1 && nc_axes_of(40) == (uint64_t)1 << 40);
}

TEST(tensors_are_copied_as_far_as_their_rank) {
    nc_tensor from = {.dtype = NC_INT8, .rank = 2, .dims = {4, 5, 6}, .strides = {7, 8, 9}}, to = {.dims = {0, 0, -3}};
    from.data = &from;
    nc_tensor_copy(&to, &from);
    CHECK(to.data == &from && to.dtype == NC_INT8 && to.rank == 2);
    CHECK(to.dims[1] == 5 && to.strides[0] == 7 && to.strides[1] == 8 && to.dims[2] == -3);
}

/* Offset of element i, counted row-major. */
static int64_t offset_of(int64_t i, int rank, const int64_t *dims, const int64_t *strides) {
    int64_t offset = 0;
    for (int d = rank - 1; d >= 0; d--) {
        offset += i % dims[d] * strides[d];
        i /= dims[d];
    }
    return offset;
}

typedef struct merge_case {
    int rank, n, want_rank;
    int64_t dims[NC_MAX_RANK];
    int64_t strides[2][NC_MAX_RANK];
} merge_case;

static const merge_case merge_cases[] = {
    {3, 2, 1, {2, 3, 4}, {{12, 4, 1}, {12, 4, 1}}},
    {3, 2, 2, {2, 3, 4}, {{12, 4, 1}, {0, 4, 1}}},
    {3, 2, 2, {2, 3, 4}, {{12, 4, 1}, {0, 0, 1}}},
    {3, 2, 1, {2, 3, 4}, {{12, 4, 1}, {0, 0, 0}}},
    {3, 2, 3, {2, 3, 4}, {{12, 4, 1}, {0, 1, 0}}},
    {3, 1, 1, {2, 3, 4}, {{-12, -4, -1}}},
    {3, 1, 2, {2, 3, 4}, {{1, 8, 2}}},
    {5, 2, 1, {1, 6, 1, 5, 1}, {{99, 5, -3, 1, 8}, {7, 10, 0, 2, 1}}},
    {4, 2, 2, {2, 1, 3, 5}, {{15, 7, 5, 1}, {16, 0, 5, 1}}},
    {2, 0, 1, {3, 4}, {{0}}},
};

TEST(shape_coalesce_keeps_every_address) {
    for (size_t c = 0; c < sizeof merge_cases / sizeof merge_cases[0]; c++) {
        const merge_case *m = &merge_cases[c];
        int64_t dims[NC_MAX_RANK], strides[2][NC_MAX_RANK], n = 0, merged = 0;
        memcpy(dims, m->dims, sizeof dims);
        memcpy(strides, m->strides, sizeof strides);
        int rank = nc_coalesce(m->rank, dims, m->n, strides);
        CHECK_INT(rank, m->want_rank);
        CHECK(nc_numel(m->dims, m->rank, &n) && nc_numel(dims, rank, &merged) && n == merged);
        for (int k = 0; k < m->n; k++) {
            for (int64_t i = 0; i < n; i++) {
                CHECK_INT(offset_of(i, rank, dims, strides[k]), offset_of(i, m->rank, m->dims, m->strides[k]));
            }
        }
    }
}

TEST(shape_coalesce_of_nothing) {
    int64_t dims[NC_MAX_RANK] = {0}, strides[1][NC_MAX_RANK] = {{3}};
    CHECK_INT(nc_coalesce(0, dims, 1, strides), 1);
    CHECK_INT(dims[0], 1);
    int64_t ones[NC_MAX_RANK] = {1, 1};
    CHECK_INT(nc_coalesce(2, ones, 1, strides), 1);
    CHECK_INT(ones[0], 1);
    int64_t empty[NC_MAX_RANK] = {INT64_MAX, 0, INT64_MAX};
    CHECK_INT(nc_coalesce(3, empty, 1, strides), 1);
    CHECK_INT(empty[0], 0);
}
