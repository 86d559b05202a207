/* kernels/cpu/norm/norm_blocked_test.c: channels in blocks normalized, and the gradients, against those of the plain
 * layout, on every instruction set; NaN stays in its channel; the same bits for any threads. */
#include "base/mem.h"
#include "kernels/cpu/conv/conv_blocked.h"
#include "kernels/cpu/isa_testing.h"
#include "kernels/cpu/norm/norm.h"
#include "tests/check.h"

#include <math.h>
#include <string.h>

enum { MAX_C = 40, MAX = 3 * MAX_C * 600 };

static float x[MAX], dy[MAX], scale[MAX_C], bias[MAX_C], plain[MAX], got[2][MAX];

static void fill(float *p, int n, float base, uint32_t seed) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = base + ((float)(seed >> 8) - 8388608.0f) / 4194304.0f;
    }
}

typedef struct size {
    int64_t N, C, places;
} size;

static nck_channels channels_of(const size *s) {
    return (nck_channels){nck_channel_block(), s->N, s->C, s->places, false};
}

static float *in_blocks(const size *s, const float *from) {
    nck_channels k = channels_of(s);
    float *to = nc_alloc_aligned(nck_packed_channels_bytes(k.block, k.N, k.C, k.spatial) + 64, 64);
    nck_pack_channels(&k, from, to, NULL);
    return to;
}

static void *room_of(const size *s) {
    size_t bytes = nck_norm_blocked_workspace(s->N, s->C, nck_channel_block());
    void *room = nc_alloc_aligned(bytes + 64, 64);
    memset(room, 0xff, bytes);
    return room;
}

static void check_close(const float *a, const float *b, int64_t n) {
    for (int64_t i = 0; i < n; i++) CHECK_CLOSE(a[i], b[i], nc_tol_kernel_f32);
}

static void check_forward(const size *s, nc_pool *pool) {
    float *blocks = in_blocks(s, x), *y = in_blocks(s, x), mean[2][MAX_C], var[2][MAX_C];
    nck_channels k = channels_of(s);
    void *room = room_of(s);
    nck_norm_channels a = {NC_FLOAT, s->N, s->C, s->places, 1e-5, x, scale, bias, mean[0], var[0], plain};
    nck_channel_stats(NC_FLOAT, s->N, s->C, s->places, x, mean[0], var[0], NULL);
    nck_norm_by_channel(&a, NULL);
    a.x = blocks, a.y = y, a.mean = mean[1], a.var = var[1];
    for (int i = 0; i < 2; i++) {
        nck_channel_stats_blocked(&a, k.block, mean[1], var[1], room, i ? pool : NULL);
        nck_norm_by_channel_blocked(&a, k.block, room, i ? pool : NULL);
        nck_unpack_channels(&k, y, got[i], NULL);
    }
    int64_t n = s->N * s->C * s->places;
    if (n > 0) {
        check_close(mean[1], mean[0], s->C);
        check_close(var[1], var[0], s->C);
    }
    check_close(got[0], plain, n);
    CHECK(memcmp(got[0], got[1], (size_t)n * sizeof(float)) == 0);
    nc_free(blocks);
    nc_free(y);
    nc_free(room);
}

/* With statistics found anew, given, or given and constant. */
static void check_backward(const size *s, bool given, bool constant, nc_pool *pool) {
    float mean[MAX_C], inv[MAX_C], sums[3][2][MAX_C];
    float *blocks = in_blocks(s, x), *d_blocks = in_blocks(s, dy), *dx = in_blocks(s, x);
    nck_channels k = channels_of(s);
    void *room = room_of(s);
    for (int64_t c = 0; c < s->C; c++) mean[c] = 2.5f + (float)c / 16, inv[c] = 0.5f + (float)c / 32;
    nck_norm_channels_back a = {.type = NC_FLOAT, .N = s->N, .C = s->C, .size = s->places, .epsilon = 1e-5};
    a.dy = dy, a.x = x, a.scale = scale, a.constant = constant, a.dx = plain;
    a.mean = given ? mean : NULL, a.inv_std = given ? inv : NULL;
    a.dscale = sums[0][0], a.dbias = sums[0][1];
    nck_norm_channels_grad(&a, NULL);
    a.dy = d_blocks, a.x = blocks, a.dx = dx;
    for (int i = 0; i < 2; i++) {
        a.dscale = sums[1 + i][0], a.dbias = sums[1 + i][1];
        nck_norm_channels_grad_blocked(&a, k.block, room, i ? pool : NULL);
        nck_unpack_channels(&k, dx, got[i], NULL);
    }
    int64_t n = s->N * s->C * s->places;
    nc_tolerance of_sum = nc_tol_of_sum(nc_tol_kernel_f32, (double)(s->N * s->places) + 1);
    for (int64_t c = 0; c < s->C; c++)
        for (int j = 0; j < 2; j++) {
            CHECK_CLOSE(sums[1][j][c], sums[0][j][c], of_sum);
            CHECK(memcmp(&sums[1][j][c], &sums[2][j][c], sizeof(float)) == 0);
        }
    check_close(got[0], plain, n);
    CHECK(memcmp(got[0], got[1], (size_t)n * sizeof(float)) == 0);
    nc_free(blocks);
    nc_free(d_blocks);
    nc_free(dx);
    nc_free(room);
}

TEST(norm_blocked_against_the_plain_layout) {
    static const size sizes[] = {{1, 1, 1}, {2, 3, 5},  {3, 16, 1},  {2, 17, 7},  {3, 40, 600},
                                 {1, 8, 9}, {3, 32, 4}, {2, 5, 257}, {2, 33, 64}, {0, 5, 4}};
    nc_pool *pool = nc_pool_create(3);
    REQUIRE(pool != NULL);
    fill(x, MAX, 3, 1);
    fill(dy, MAX, 0.5f, 2);
    fill(scale, MAX_C, 0, 3);
    fill(bias, MAX_C, 0, 4);
    for (int isa = 0; nck_isa_at(isa); isa = NEXT_ISA(isa, lanes)) {
        CHECK(nck_isa_set_for_test(nck_isa_at(isa)->name));
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            check_forward(&sizes[i], pool);
            if (sizes[i].N * sizes[i].places > 1) check_backward(&sizes[i], false, false, pool);
            check_backward(&sizes[i], true, false, pool);
            check_backward(&sizes[i], true, true, pool);
        }
    }
    nck_isa_set_for_test(NULL);
    nc_pool_destroy(pool);
}

TEST(norm_blocked_nan_and_infinity_stay_in_their_channel) {
    const size s = {2, 4, 3};
    float y[2 * 4 * 3];
    fill(x, MAX, 0, 5);
    fill(scale, MAX_C, 2, 6);
    x[1] = NAN, x[3 * 3] = INFINITY;
    float *blocks = in_blocks(&s, x), mean[4], var[4];
    nck_channels k = channels_of(&s);
    void *room = room_of(&s);
    nck_norm_channels a = {NC_FLOAT, 2, 4, 3, 1e-5, blocks, scale, bias, mean, var, blocks};
    nck_channel_stats_blocked(&a, k.block, mean, var, room, NULL);
    nck_norm_by_channel_blocked(&a, k.block, room, NULL);
    nck_unpack_channels(&k, blocks, y, NULL);
    for (int i = 0; i < 24; i++) CHECK((i / 3 % 4 == 0 || i / 3 % 4 == 3) == (isnan(y[i]) != 0));
    nc_free(blocks);
    nc_free(room);
}
