/* kernels/cpu/whole_test.c: integer lanes and dense conversions by vectors beside those of tile_int.c and tile_io.c,
 * bit by bit, for every instruction set of this machine: ends of the types, any length, any alignment. */
#include "base/mem.h"
#include "kernels/cpu/isa_testing.h"
#include "kernels/cpu/tile_table.h"
#include "tests/check.h"

#include <string.h>

enum { MANY = 96 };

static const int64_t ends[] = {0,   1,   -1,        2,         -2,        127,       128,
                               255, 256, INT32_MIN, INT32_MAX, 1ll << 31, INT64_MIN, INT64_MAX};

static void fill_ints(int64_t *x, int step) {
    const int n = sizeof ends / sizeof *ends;
    for (int i = 0; i < MANY; i++) x[i] = ends[(i * step + i / n) % n];
}

TEST(whole_lanes_equal_plain_ones) {
    int64_t a[MANY], b[MANY], c[MANY], want[MANY], got[MANY];
    const void *const src[3] = {a, b, c};
    const double none[2] = {0, 0};
    fill_ints(a, 1);
    fill_ints(b, 3);
    fill_ints(c, 5);
    for (int i = 0; nck_isa_at(i); i = NEXT_ISA(i, whole)) {
        const nck_lane_fn *lanes = nck_isa_at(i)->whole->i64;
        for (int l = 0; lanes != NULL && l < NCK_N_LANES; l++) {
            CHECK((lanes[l] != NULL) == (nck_tile_int64[l] != NULL));
            if (lanes[l] == NULL) continue;
            nck_tile_int64[l](MANY, want, src, none);
            lanes[l](MANY, got, src, none);
            CHECK(memcmp(got, want, sizeof got) == 0);
            memcpy(got, a, sizeof got); /* over an operand */
            lanes[l](MANY, got, (const void *const[]){got, b, c}, none);
            CHECK(memcmp(got, want, sizeof got) == 0);
        }
    }
}

/* Numbers that the type has, from bytes that floats do not take for NaN. */
static void fill(nc_dtype t, void *x) {
    int64_t ints[MANY];
    float *f = x;
    double *d = x;
    fill_ints(ints, 1);
    for (int i = 0; i < MANY; i++) {
        if (t == NC_FLOAT)
            f[i] = i == 5 ? NAN : i == 6 ? -0.0f : (float)ints[i] / 3;
        else if (t == NC_DOUBLE)
            d[i] = i == 5 ? INFINITY : i == 6 ? 1e300 : (double)ints[i] / 3;
        else
            memcpy((char *)x + i * (int)nc_dtype_bytes(t), &ints[i], nc_dtype_bytes(t));
    }
}

static bool is_compute(nc_dtype t) { return t == NC_FLOAT || t == NC_DOUBLE || t == NC_INT64; }

static void plain(const nck_dense_row *r, void *dst, const void *src, int64_t n) {
    nck_tile_load_fn load = is_compute(r->to) ? nck_tile_load_get(r->to, r->from) : NULL;
    if (load != NULL)
        load(dst, src, 1, n);
    else
        nck_tile_store_get(r->from, r->to)(dst, 1, src, n);
}

TEST(whole_conversions_equal_plain_ones) {
    static const int lengths[] = {0, 1, 7, 16, 31, 32, 33, 65, MANY - 1};
    _Alignas(8) char x[MANY * 8], want[MANY * 8], got[MANY * 8 + 1];
    for (int i = 0; nck_isa_at(i); i = NEXT_ISA(i, whole)) {
        const nck_whole_table *t = nck_isa_at(i)->whole;
        for (int k = 0; k < t->n_rows * (int)(sizeof lengths / sizeof *lengths); k++) {
            const nck_dense_row *r = &t->rows[k % t->n_rows];
            int n = lengths[k / t->n_rows];
            size_t bytes = (size_t)n * nc_dtype_bytes(r->to);
            fill(r->from, x);
            memset(got, 0x55, sizeof got);
            plain(r, want, x, n);
            r->fn(got + 1, x, n);
            CHECK(memcmp(got + 1, want, bytes) == 0 && got[bytes + 1] == 0x55);
        }
    }
}

TEST(whole_casts_of_floats_clamp) {
    const float x[] = {NAN, INFINITY, -INFINITY, 0x1p31f, -0x1p31f, 0x1.fffffep30f, 300.9f, -1.9f, -0.0f, 3e9f};
    const int32_t want[] = {0, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 2147483520, 300, -1, 0, INT32_MAX};
    enum { N = 70, KINDS = sizeof x / sizeof *x };
    float from[N];
    int32_t y[N];
    uint8_t y8[N];
    for (int i = 0; i < N; i++) from[i] = x[i % KINDS];
    for (int i = 0; nck_isa_at(i); i = NEXT_ISA(i, whole)) {
        const nck_whole_table *t = nck_isa_at(i)->whole;
        if (t->i32_of_f32 == NULL) continue;
        t->i32_of_f32(y, from, N);
        t->i8_of_f32(y8, from, N);
        for (int k = 0; k < N; k++) CHECK(y[k] == want[k % KINDS] && y8[k] == (uint8_t)want[k % KINDS]);
    }
}

/* Bytes that are no 0 are true; a second operand of one element is another path. */
static void check_logic(nck_lane lane, int64_t n, int64_t n_b, const uint8_t *a, const uint8_t *b) {
    uint8_t *got = nc_alloc((size_t)n), *want = nc_alloc((size_t)n);
    const nck_tile_op op = {.lane = (uint16_t)lane, .dst = 2, .src = {0, 1}};
    const uint16_t out_reg = 2;
    const nck_tile_prog p = {NC_INT64, 2, 1, 3, 1, &op, &out_reg};
    nc_tensor x = {.data = (void *)(uintptr_t)a, .dtype = NC_BOOL, .rank = 1, .dims = {n}, .strides = {1}}, z = x,
              y = x;
    z.data = (void *)(uintptr_t)b, z.dims[0] = n_b;
    REQUIRE(got != NULL && want != NULL);
    y.data = want;
    nck_tile_ref_run(&p, (nc_tensor[]){x, z}, &y);
    y.data = got;
    nck_tile_run(&p, (nc_tensor *[]){&x, &z}, (nc_tensor *[]){&y}, NULL);
    CHECK(memcmp(got, want, (size_t)n) == 0);
    memcpy(got, a, (size_t)n);
    x.data = got; /* over an operand */
    nck_tile_run(&p, (nc_tensor *[]){&x, &z}, (nc_tensor *[]){&y}, NULL);
    CHECK(memcmp(got, want, (size_t)n) == 0);
    nc_free(got);
    nc_free(want);
}

TEST(whole_logic_of_bools) {
    static const nck_lane lanes[] = {NCK_LANE_and, NCK_LANE_or, NCK_LANE_xor, NCK_LANE_not, NCK_LANE_equal};
    static uint8_t a[70003], b[70003];
    for (int i = 0; i < 70003; i++) a[i] = (uint8_t)(i % 5 & ~1), b[i] = (uint8_t)(i % 3 << 6);
    for (int l = 0; l < 5; l++)
        for (int k = 0; k < 4; k++) {
            int64_t n = (int64_t[]){1, 63, 600, 70003}[k];
            check_logic(lanes[l], n, n, a, b);
            check_logic(lanes[l], n, 1, a, b);
        }
}
