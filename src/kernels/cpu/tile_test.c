/* cpu/tile_test.c: the tile machine against its reference: every lane, compute type and ISA on ordinary and special
 * values, then loads and stores: sizes, broadcasting, strides, storage types, alignment, in place, threads. */
#include "kernels/cpu/tile.h"

#include "kernels/cpu/isa_testing.h"
#include "kernels/cpu/tile_table.h"
#include "tests/check.h"

#include <float.h>
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#define MAX_BYTES (1 << 18)

static void run_tiles(const nck_tile_prog *p, const nc_tensor *in, const nc_tensor *out, nc_pool *pool) {
    nc_tensor *p_in[NCK_TILE_MAX_REG], *p_out[NCK_TILE_MAX_OUT];
    for (int i = 0; i < p->n_in; i++) p_in[i] = (nc_tensor *)(uintptr_t)&in[i];
    for (int i = 0; i < p->n_out; i++) p_out[i] = (nc_tensor *)(uintptr_t)&out[i];
    nck_tile_run(p, p_in, p_out, pool);
}

static char in_bytes[4][MAX_BYTES], got_bytes[2][MAX_BYTES], want_bytes[2][MAX_BYTES];
static uint64_t seed;

static uint64_t next_random(void) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return seed >> 11;
}

static nc_tensor tensor(void *data, nc_dtype dtype, int rank, const int64_t *dims) {
    nc_tensor t = {.data = data, .dtype = dtype, .rank = rank};
    for (int i = 0; i < rank; i++) t.dims[i] = dims[i];
    nc_dense_strides(t.dims, rank, t.strides);
    return t;
}

static void put(nc_dtype dtype, char *at, double x) { nck_tile_store_get(NC_DOUBLE, dtype)(at, 1, &x, 1); }

static double get(nc_dtype dtype, const char *at) {
    double x;
    nck_tile_load_get(NC_DOUBLE, dtype)(&x, at, 1, 1);
    return x;
}

static void fill_random(nc_dtype dtype, char *at, int64_t n) {
    size_t bytes = nc_dtype_bytes(dtype);
    for (int64_t i = 0; i < n; i++) {
        double x = (double)(next_random() % 4001) / 250.0 - 8.0;
        if (dtype == NC_UINT8 || dtype == NC_UINT16 || dtype == NC_UINT32 || dtype == NC_UINT64) x = fabs(x);
        put(dtype, at + (size_t)i * bytes, x);
    }
}

static nc_tolerance tolerance(nc_dtype compute, nc_dtype storage) {
    if (storage == NC_FLOAT16) return nc_tol_lane_f16;
    if (storage == NC_BFLOAT16) return nc_tol_lane_bf16;
    return compute == NC_FLOAT ? nc_tol_lane_f32 : compute == NC_DOUBLE ? nc_tol_lane_f64 : (nc_tolerance){0};
}

/* Runs p both ways on every ISA and compares whole buffers of out: what lies between the elements must stay
 * untouched. */
static void compare(const char *what, const nck_tile_prog *p, const nc_tensor *in, const nc_tensor *out,
                    size_t bytes_used) {
    REQUIRE(nck_tile_check(p));
    nc_tensor want[2];
    for (int o = 0; o < p->n_out; o++) {
        want[o] = out[o];
        want[o].data = want_bytes[o] + ((char *)out[o].data - got_bytes[o]);
    }
    for (int o = 0; o < p->n_out; o++) memset(want_bytes[o], 0x55, bytes_used);
    nck_tile_ref_run(p, in, want);
    for (int i = 0; nck_isa_at(i); i = NEXT_ISA(i, tile)) {
        REQUIRE(nck_isa_set_for_test(nck_isa_at(i)->name));
        for (int o = 0; o < p->n_out; o++) memset(got_bytes[o], 0x55, bytes_used);
        run_tiles(p, in, out, NULL);
        for (int o = 0; o < p->n_out; o++) {
            size_t bytes = nc_dtype_bytes(out[o].dtype), skew = (size_t)((char *)out[o].data - got_bytes[o]) % bytes;
            for (size_t at = skew; at + bytes <= bytes_used; at += bytes) {
                double g = get(out[o].dtype, got_bytes[o] + at), w = get(out[o].dtype, want_bytes[o] + at);
                if (nc_close(g, w, tolerance(p->compute, out[o].dtype))) continue;
                nc_test_failed(__FILE__, __LINE__, "%s on %s: output %d byte %zu is %.9g, expected %.9g", what,
                               nck_isa_at(i)->name, o, at, g, w);
                break;
            }
        }
    }
    CHECK(nck_isa_set_for_test(NULL));
}

static const double special[] = {0.0,   -0.0,   1,     -1,      0.5,     -0.5,     2,        -2,        3,     -3,
                                 1e-45, -1e-45, 1e-40, FLT_MIN, FLT_MAX, -FLT_MAX, INFINITY, -INFINITY, NAN,   7.25,
                                 -7.25, 88.5,   -88.5, 104,     -104,    1e-5,     -1e-5,    1e10,      -1e10, 0.9999};
enum { N_SPECIAL = sizeof special / sizeof special[0] };

static void compare_lane(int lane, nc_dtype compute) {
    const nck_lane_info *info = nck_lane_get(lane);
    int64_t dims[1] = {N_SPECIAL * N_SPECIAL};
    size_t bytes = nc_dtype_bytes(compute);
    for (int i = 0; i < dims[0]; i++) {
        put(compute, in_bytes[0] + (size_t)i * bytes, special[i % N_SPECIAL]);
        put(compute, in_bytes[1] + (size_t)i * bytes, special[i / N_SPECIAL]);
        put(compute, in_bytes[2] + (size_t)i * bytes, special[(i * 7) % N_SPECIAL]);
    }
    uint16_t out_reg[1] = {3};
    nck_tile_op op = {.lane = (uint16_t)lane, .dst = 3, .src = {0, 1, 2}, .param = {0.75, 0.25}};
    nck_tile_prog p = {.compute = compute, .n_in = 3, .n_out = 1, .n_reg = 4, .n_op = 1, .op = &op, .out_reg = out_reg};
    nc_tensor in[3], out = tensor(got_bytes[0], compute, 1, dims);
    for (int i = 0; i < 3; i++) in[i] = tensor(in_bytes[i], compute, 1, dims);
    compare(info->name, &p, in, &out, (size_t)dims[0] * bytes);
}

static bool allowed(int lane, nc_dtype compute) {
    char k = nck_lane_get(lane)->kinds;
    return k == 'N' || (k == 'F') == (compute == NC_FLOAT || compute == NC_DOUBLE);
}

TEST(every_lane_on_special_values) {
    static const nc_dtype types[] = {NC_FLOAT, NC_DOUBLE, NC_INT64, NC_UINT64};
    for (int t = 0; t < 4; t++)
        for (int lane = 0; lane < NCK_N_LANES; lane++)
            if (allowed(lane, types[t])) compare_lane(lane, types[t]);
}

/* y0 = tanh(a*b + c), y1 = max(a, c); the register of input 1 is overwritten on the way. */
static const nck_tile_op chain_ops[] = {
    {.lane = NCK_LANE_mul, .dst = 3, .src = {0, 1}},
    {.lane = NCK_LANE_add, .dst = 1, .src = {3, 2}},
    {.lane = NCK_LANE_max, .dst = 4, .src = {0, 2}},
    {.lane = NCK_LANE_tanh, .dst = 3, .src = {1}},
};
static const uint16_t chain_out[] = {3, 4};
static const nck_tile_prog chain = {
    .compute = NC_FLOAT, .n_in = 3, .n_out = 2, .n_reg = 5, .n_op = 4, .op = chain_ops, .out_reg = chain_out};

static void compare_chain(const char *what, int rank, const int64_t *dims, const nc_tensor *in) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    nc_tensor out[2] = {tensor(got_bytes[0], NC_FLOAT, rank, dims), tensor(got_bytes[1], NC_FLOAT, rank, dims)};
    compare(what, &chain, in, out, (size_t)n * 4 + 64);
}

TEST(sizes) {
    static const int64_t sizes[] = {0,   1,   2,   3,   7,    15,   16,    17,    31,    33,
                                    255, 511, 512, 513, 1023, 1024, 16383, 16384, 16385, 40001};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        nc_tensor in[3];
        for (int i = 0; i < 3; i++) {
            fill_random(NC_FLOAT, in_bytes[i], sizes[s]);
            in[i] = tensor(in_bytes[i], NC_FLOAT, 1, &sizes[s]);
        }
        compare_chain("size", 1, &sizes[s], in);
    }
}

/* One operation over memory that needs no register: whole chunks at once, and the rest behind the last whole vector.
 * The operands lie apart, or the result lies over the first. */
TEST(one_operation_of_any_size) {
    static const int64_t sizes[] = {1, 15, 16, 17, 513, 16383, 16384, 16385, 16401, 32001};
    static const nc_dtype types[] = {NC_FLOAT, NC_DOUBLE, NC_INT64};
    static const uint16_t out_reg[] = {2};
    for (int i = 0; i < 10 * 3 * 3; i++) {
        int64_t n = sizes[i % 10];
        nc_dtype type = types[i / 10 % 3];
        nck_tile_op op = {.lane = i / 30 == 1 ? NCK_LANE_neg : NCK_LANE_sub, .dst = 2, .src = {0, 1}};
        nck_tile_prog p = {.compute = type, .n_in = 2, .n_out = 1, .n_reg = 3, .n_op = 1, .op = &op};
        p.out_reg = out_reg;
        nc_tensor in[2], out = tensor(got_bytes[0], type, 1, &n);
        for (int k = 0; k < 2; k++) {
            fill_random(type, in_bytes[k], n);
            in[k] = tensor(in_bytes[k], type, 1, &n);
        }
        compare("one operation", &p, in, &out, (size_t)n * nc_dtype_bytes(type) + 64);
        if (i / 30 != 2) continue;
        memcpy(got_bytes[1], got_bytes[0], (size_t)n * nc_dtype_bytes(type));
        run_tiles(&p, in, &in[0], NULL);
        CHECK(memcmp(in_bytes[0], got_bytes[1], (size_t)n * nc_dtype_bytes(type)) == 0);
    }
}

TEST(scalars_and_empty_tensors) {
    nc_tensor in[3];
    for (int i = 0; i < 3; i++) {
        fill_random(NC_FLOAT, in_bytes[i], 64);
        in[i] = tensor(in_bytes[i], NC_FLOAT, 0, NULL);
    }
    compare_chain("rank 0", 0, NULL, in);
    compare_chain("scalars to a vector", 1, (int64_t[]){50}, in);
    compare_chain("no rows", 2, (int64_t[]){0, 5}, in);
    compare_chain("no columns", 3, (int64_t[]){3, 4, 0}, in);
}

static const struct {
    int rank;
    int64_t dims[4], b[4], c[4]; /* a has dims; b and c broadcast to it */
} shapes[] = {
    {2, {5, 7}, {1, 7}, {5, 1}},
    {2, {130, 70}, {1, 70}, {130, 1}},
    {2, {3, 1000}, {1, 1000}, {3, 1}},
    {2, {300, 64}, {1, 1}, {1, 64}},
    {2, {300, 63}, {1, 63}, {300, 63}},
    {3, {4, 5, 6}, {1, 5, 1}, {4, 1, 6}},
    {3, {2, 33, 129}, {2, 1, 129}, {1, 33, 1}},
    {4, {2, 3, 5, 80}, {1, 3, 1, 1}, {2, 1, 1, 80}},
    {4, {3, 1, 1, 4}, {1, 1, 1, 4}, {3, 1, 1, 1}},
    {4, {2, 17, 31, 2}, {1, 17, 1, 2}, {2, 1, 31, 1}},
    {3, {5, 200, 16}, {5, 1, 16}, {5, 1, 16}}, /* short rows many times over, in tiles that end with them */
    {4, {2, 3, 49, 16}, {2, 3, 1, 16}, {1, 3, 1, 16}},
    {3, {4, 61, 13}, {4, 1, 13}, {4, 61, 13}},
    {4, {40, 3, 5, 13}, {40, 3, 1, 13}, {40, 3, 5, 13}}, /* and too few times for that */
    {3, {3, 131, 7}, {1, 1, 7}, {3, 1, 7}},
    {3, {3, 50, 112}, {1, 50, 1}, {3, 50, 1}}, /* some rows a tile */
    {3, {3, 50, 112}, {3, 1, 112}, {1, 50, 1}},
    {3, {3, 41, 100}, {3, 41, 1}, {1, 1, 100}},
    {2, {90, 130}, {90, 1}, {90, 130}},
};

TEST(broadcasting) {
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        for (int i = 0; i < 3; i++) fill_random(NC_FLOAT, in_bytes[i], MAX_BYTES / 4);
        nc_tensor in[3] = {tensor(in_bytes[0], NC_FLOAT, shapes[s].rank, shapes[s].dims),
                           tensor(in_bytes[1], NC_FLOAT, shapes[s].rank, shapes[s].b),
                           tensor(in_bytes[2], NC_FLOAT, shapes[s].rank, shapes[s].c)};
        compare_chain("broadcast", shapes[s].rank, shapes[s].dims, in);
    }
}

TEST(lower_rank_broadcasts) {
    int64_t dims[3] = {3, 4, 90};
    for (int i = 0; i < 3; i++) fill_random(NC_FLOAT, in_bytes[i], 1080);
    nc_tensor in[3] = {tensor(in_bytes[0], NC_FLOAT, 3, dims), tensor(in_bytes[1], NC_FLOAT, 1, dims + 2),
                       tensor(in_bytes[2], NC_FLOAT, 2, (int64_t[]){4, 1})};
    compare_chain("lower rank", 3, dims, in);
}

/* Input 0 transposed, input 1 with reversed rows, input 2 every third element; outputs with gaps and transposed. */
TEST(strides) {
    static const int64_t sizes[][2] = {{5, 9}, {40, 100}, {100, 3}, {1, 130}, {130, 1}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        int64_t r = sizes[s][0], c = sizes[s][1];
        nc_tensor in[3], out[2];
        for (int i = 0; i < 3; i++) {
            fill_random(NC_FLOAT, in_bytes[i], r * c * 3);
            in[i] = tensor(in_bytes[i], NC_FLOAT, 2, sizes[s]);
        }
        in[0].strides[0] = 1, in[0].strides[1] = r;
        in[1].data = in_bytes[1] + (r * c - 1) * 4, in[1].strides[0] = -c, in[1].strides[1] = -1;
        in[2].strides[0] = c * 3, in[2].strides[1] = 3;
        for (int o = 0; o < 2; o++) out[o] = tensor(got_bytes[o], NC_FLOAT, 2, sizes[s]);
        out[0].strides[0] = c * 2 + 1, out[0].strides[1] = 2;
        out[1].strides[0] = 1, out[1].strides[1] = r;
        compare("strides", &chain, in, out, (size_t)(r * (c * 2 + 1)) * 4 + 64);
    }
}

TEST(unaligned_pointers) {
    int64_t dims[2] = {3, 160};
    static const nc_dtype types[] = {NC_FLOAT, NC_DOUBLE, NC_INT64, NC_FLOAT16, NC_INT32};
    static const nck_tile_op op = {.lane = NCK_LANE_add, .dst = 2, .src = {0, 1}};
    static const uint16_t out_reg[] = {2};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        nck_tile_prog p = {.compute = nck_tile_compute(types[t]),
                           .n_in = 2,
                           .n_out = 1,
                           .n_reg = 3,
                           .n_op = 1,
                           .op = &op,
                           .out_reg = out_reg};
        nc_tensor in[2] = {tensor(in_bytes[0] + 1, types[t], 2, dims), tensor(in_bytes[1] + 3, types[t], 2, dims)};
        nc_tensor out = tensor(got_bytes[0] + 1, types[t], 2, dims);
        fill_random(types[t], in[0].data, 480);
        fill_random(types[t], in[1].data, 480);
        compare("unaligned", &p, in, &out, 480 * nc_dtype_bytes(types[t]) + 64);
    }
}

static const nc_dtype storages[] = {NC_FLOAT, NC_DOUBLE, NC_FLOAT16, NC_BFLOAT16, NC_BOOL,   NC_INT8,  NC_INT16,
                                    NC_INT32, NC_INT64,  NC_UINT8,   NC_UINT16,   NC_UINT32, NC_UINT64};
enum { N_STORAGES = sizeof storages / sizeof storages[0] };

/* Every storage type in, out, and in every compute type; dense and with strides. */
TEST(storage_types) {
    static const nc_dtype computes[] = {NC_FLOAT, NC_DOUBLE, NC_INT64, NC_UINT64};
    static const nck_tile_op op = {.lane = NCK_LANE_add, .dst = 0, .src = {0, 1}};
    static const uint16_t out_reg[] = {0};
    int64_t dims[2] = {3, 75};
    for (int n = 0; n < 4 * N_STORAGES * N_STORAGES; n++) {
        nc_dtype from = storages[n % N_STORAGES], to = storages[n / N_STORAGES % N_STORAGES];
        nck_tile_prog p = {.compute = computes[n / (N_STORAGES * N_STORAGES)],
                           .n_in = 2,
                           .n_out = 1,
                           .n_reg = 2,
                           .n_op = 1,
                           .op = &op,
                           .out_reg = out_reg};
        nc_tensor in[2] = {tensor(in_bytes[0], from, 2, dims), tensor(in_bytes[1], from, 2, dims)};
        nc_tensor out = tensor(got_bytes[0], to, 2, dims);
        in[1].strides[0] = 1, in[1].strides[1] = 3;
        fill_random(from, in_bytes[0], 225);
        fill_random(from, in_bytes[1], 225);
        compare(nc_dtype_name(to), &p, in, &out, 225 * nc_dtype_bytes(to) + 32);
        out.strides[0] = 1, out.strides[1] = 3;
        compare(nc_dtype_name(to), &p, in, &out, 225 * nc_dtype_bytes(to) + 32);
    }
}

/* Converts without operations and compares with numbers written here, not with the reference. */
static double convert(nc_dtype from, nc_dtype compute, nc_dtype to, const void *x) {
    static const uint16_t out_reg[] = {0};
    nck_tile_prog p = {.compute = compute, .n_in = 1, .n_out = 1, .n_reg = 1, .out_reg = out_reg};
    char y[8];
    nc_tensor in = tensor((void *)(uintptr_t)x, from, 0, NULL), out = tensor(y, to, 0, NULL);
    CHECK(nck_tile_check(&p));
    run_tiles(&p, &in, &out, NULL);
    return get(to, y);
}

TEST(conversions) {
    CHECK_NEAR(convert(NC_FLOAT, NC_FLOAT, NC_INT32, &(float){-2.9f}), -2, 0);
    CHECK_NEAR(convert(NC_FLOAT, NC_FLOAT, NC_INT64, &(float){NAN}), 0, 0);
    CHECK_NEAR(convert(NC_FLOAT, NC_FLOAT, NC_INT64, &(float){INFINITY}), 0x1p63, 0);
    CHECK_NEAR(convert(NC_DOUBLE, NC_DOUBLE, NC_INT64, &(double){-1e300}), -0x1p63, 0);
    CHECK_NEAR(convert(NC_DOUBLE, NC_DOUBLE, NC_UINT64, &(double){1.5e19}), 1.5e19, 0);
    CHECK_NEAR(convert(NC_DOUBLE, NC_UINT64, NC_UINT64, &(double){1e300}), 0x1p64, 0);
    CHECK_NEAR(convert(NC_FLOAT, NC_FLOAT, NC_BOOL, &(float){NAN}), 1, 0);
    CHECK_NEAR(convert(NC_FLOAT, NC_FLOAT, NC_BOOL, &(float){-0.0f}), 0, 0);
    CHECK_NEAR(convert(NC_FLOAT, NC_FLOAT, NC_BOOL, &(float){0.25f}), 1, 0);
    CHECK_NEAR(convert(NC_BOOL, NC_INT64, NC_INT32, &(uint8_t){7}), 1, 0);
    CHECK_NEAR(convert(NC_INT64, NC_INT64, NC_INT8, &(int64_t){300}), 44, 0);
    CHECK_NEAR(convert(NC_INT64, NC_INT64, NC_UINT8, &(int64_t){-1}), 255, 0);
    CHECK_NEAR(convert(NC_UINT64, NC_UINT64, NC_DOUBLE, &(uint64_t){UINT64_MAX}), 0x1p64, 0);
    CHECK_NEAR(convert(NC_FLOAT, NC_FLOAT, NC_FLOAT16, &(float){65520.0f}), INFINITY, 0);
    CHECK_NEAR(convert(NC_FLOAT, NC_FLOAT, NC_FLOAT16, &(float){2049.0f}), 2048, 0);
    CHECK_NEAR(convert(NC_FLOAT, NC_FLOAT, NC_BFLOAT16, &(float){257.0f}), 256, 0);
    CHECK(isnan(convert(NC_FLOAT, NC_FLOAT, NC_BFLOAT16, &(float){NAN})));
    CHECK(isnan(convert(NC_FLOAT16, NC_FLOAT, NC_FLOAT, &(uint16_t){0x7e00})));
    CHECK_NEAR(convert(NC_FLOAT16, NC_FLOAT, NC_FLOAT, &(uint16_t){1}), 0x1p-24, 0);
    /* Just above half way between two bf16 numbers, by less than a float can hold. */
    CHECK_NEAR(convert(NC_DOUBLE, NC_DOUBLE, NC_BFLOAT16, &(double){1 + 0x1p-8 + 0x1p-40}), 1 + 0x1p-7, 0);
    CHECK_NEAR(convert(NC_DOUBLE, NC_DOUBLE, NC_BFLOAT16, &(double){-(1 + 3 * 0x1p-8 - 0x1p-40)}), -(1 + 0x1p-7), 0);
}

static int64_t int_lane(int lane, int64_t a, int64_t b) {
    int64_t y;
    nck_tile_int64[lane](1, &y, (const void *[]){&a, &b, &b}, (const double[2]){0});
    return y;
}

TEST(integer_lanes) {
    CHECK_INT(int_lane(NCK_LANE_div, -7, 2), -3);
    CHECK_INT(int_lane(NCK_LANE_div, 5, 0), 0);
    CHECK(int_lane(NCK_LANE_div, INT64_MIN, -1) == INT64_MIN);
    CHECK_INT(int_lane(NCK_LANE_mod, -7, 3), 2);
    CHECK_INT(int_lane(NCK_LANE_mod, 7, -3), -2);
    CHECK_INT(int_lane(NCK_LANE_fmod, -7, 3), -1);
    CHECK_INT(int_lane(NCK_LANE_mod, INT64_MIN, -1), 0);
    CHECK_INT(int_lane(NCK_LANE_mod, 9, 0), 0);
    CHECK_INT(int_lane(NCK_LANE_pow, 3, 13), 1594323);
    CHECK_INT(int_lane(NCK_LANE_pow, 2, -1), 0);
    CHECK_INT(int_lane(NCK_LANE_pow, -1, -3), -1);
    CHECK_INT(int_lane(NCK_LANE_pow, 0, 0), 1);
    CHECK(int_lane(NCK_LANE_add, INT64_MAX, 1) == INT64_MIN);
    CHECK(int_lane(NCK_LANE_abs, INT64_MIN, 0) == INT64_MIN);
    CHECK_INT(int_lane(NCK_LANE_relu, -5, 0), 0);
    CHECK_INT(int_lane(NCK_LANE_max, -5, 3), 3);
    CHECK_INT(int_lane(NCK_LANE_less, -5, 3), 1);
    CHECK_INT(int_lane(NCK_LANE_not, 4, 0), 0);
    uint64_t a = UINT64_MAX, b = 1, y;
    nck_tile_uint64[NCK_LANE_less](1, &y, (const void *[]){&b, &a, &a}, (const double[2]){0});
    CHECK_INT(y, 1);
    nck_tile_uint64[NCK_LANE_div](1, &y, (const void *[]){&a, &b, &b}, (const double[2]){0});
    CHECK(y == UINT64_MAX);
    CHECK(nck_tile_int64[NCK_LANE_tanh] == NULL && nck_tile_int64[NCK_LANE_neg_grad] == NULL);
}

/* Both outputs over inputs: in[0] becomes y0, in[2] becomes y1, though y1 needs in[0] and both need in[2]. */
TEST(in_place) {
    static const int64_t sizes[] = {1, 16, 100, 512, 5000};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        int64_t n = sizes[s];
        for (int i = 0; i < 3; i++) fill_random(NC_FLOAT, in_bytes[i], n);
        nc_tensor in[3], want[2];
        for (int i = 0; i < 3; i++) in[i] = tensor(in_bytes[i], NC_FLOAT, 1, &n);
        for (int o = 0; o < 2; o++) want[o] = tensor(want_bytes[o], NC_FLOAT, 1, &n);
        nck_tile_ref_run(&chain, in, want);
        nc_tensor out[2] = {in[0], in[2]};
        run_tiles(&chain, in, out, NULL);
        for (int64_t i = 0; i < n; i++) {
            CHECK_CLOSE(get(NC_FLOAT, in_bytes[0] + 4 * i), get(NC_FLOAT, want_bytes[0] + 4 * i), nc_tol_lane_f32);
            CHECK_CLOSE(get(NC_FLOAT, in_bytes[2] + 4 * i), get(NC_FLOAT, want_bytes[1] + 4 * i), nc_tol_lane_f32);
        }
    }
}

/* The first output overwrites the input that the second passes through; and one operation directly onto its input. */
TEST(in_place_with_the_input_as_an_output) {
    static const nck_tile_op op = {.lane = NCK_LANE_square, .dst = 1, .src = {0}};
    static const uint16_t both[] = {1, 0};
    nck_tile_prog p = {.compute = NC_FLOAT, .n_in = 1, .n_out = 2, .n_reg = 2, .n_op = 1, .op = &op, .out_reg = both};
    int64_t n = 1024;
    for (int64_t i = 0; i < n; i++) put(NC_FLOAT, in_bytes[0] + 4 * i, (double)i);
    nc_tensor in = tensor(in_bytes[0], NC_FLOAT, 1, &n), out[2] = {in, tensor(got_bytes[0], NC_FLOAT, 1, &n)};
    run_tiles(&p, &in, out, NULL);
    for (int64_t i = 0; i < n; i++) {
        CHECK_NEAR(get(NC_FLOAT, in_bytes[0] + 4 * i), (double)(i * i), 0);
        CHECK_NEAR(get(NC_FLOAT, got_bytes[0] + 4 * i), (double)i, 0);
    }
    p.n_out = 1;
    in.data = out[0].data = got_bytes[0];
    run_tiles(&p, &in, out, NULL);
    for (int64_t i = 0; i < n; i++) CHECK_NEAR(get(NC_FLOAT, got_bytes[0] + 4 * i), (double)(i * i), 0);
}

TEST(threads_do_not_change_bits) {
    int64_t dims[2] = {401, 103};
    nc_pool *pool = nc_pool_create(3);
    REQUIRE(pool != NULL);
    for (int i = 0; i < 3; i++) fill_random(NC_FLOAT, in_bytes[i], dims[0] * dims[1]);
    nc_tensor in[3] = {tensor(in_bytes[0], NC_FLOAT, 2, dims), tensor(in_bytes[1], NC_FLOAT, 1, dims + 1),
                       tensor(in_bytes[2], NC_FLOAT, 2, (int64_t[]){401, 1})};
    nc_tensor a[2], b[2];
    for (int o = 0; o < 2; o++) {
        a[o] = tensor(want_bytes[o], NC_FLOAT, 2, dims);
        b[o] = tensor(got_bytes[o], NC_FLOAT, 2, dims);
    }
    run_tiles(&chain, in, a, NULL);
    run_tiles(&chain, in, b, pool);
    for (int o = 0; o < 2; o++) CHECK(memcmp(want_bytes[o], got_bytes[o], 401 * 103 * 4) == 0);
    nc_pool_destroy(pool);
}

/* As many registers as there may be, all in use, on a thread with as little stack as some systems give. */
typedef struct small_stack {
    nck_tile_prog p;
    const nc_tensor *in, *out;
} small_stack;

static void *on_small_stack(void *ctx) {
    small_stack *s = ctx;
    run_tiles(&s->p, s->in, s->out, NULL);
    return NULL;
}

/* 64 KiB, or more where the system has no smaller stacks. */
static size_t stack_bytes(void) {
    long least = sysconf(_SC_THREAD_STACK_MIN);
    return least > 65536 ? (size_t)least : 65536;
}

TEST(small_stacks_are_enough) {
    nck_tile_op op[NCK_TILE_MAX_REG - 1];
    uint16_t last[1] = {NCK_TILE_MAX_REG - 1};
    for (int i = 0; i < NCK_TILE_MAX_REG - 1; i++)
        op[i] = (nck_tile_op){.lane = NCK_LANE_add, .dst = (uint16_t)(i + 1), .src = {(uint16_t)i, 0}};
    for (int wide = 0; wide < 2; wide++) {
        nc_dtype t = wide ? NC_DOUBLE : NC_FLOAT;
        int64_t n = 3001;
        fill_random(t, in_bytes[0], n);
        nc_tensor in = tensor(in_bytes[0], t, 1, &n), out = tensor(got_bytes[0], t, 1, &n);
        small_stack s = {{.compute = t,
                          .n_in = 1,
                          .n_out = 1,
                          .n_reg = NCK_TILE_MAX_REG,
                          .n_op = NCK_TILE_MAX_REG - 1,
                          .op = op,
                          .out_reg = last},
                         &in,
                         &out};
        REQUIRE(nck_tile_check(&s.p));
        pthread_attr_t attr;
        pthread_t thread;
        REQUIRE(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, stack_bytes()) == 0);
        REQUIRE(pthread_create(&thread, &attr, on_small_stack, &s) == 0);
        pthread_join(thread, NULL);
        pthread_attr_destroy(&attr);
        nc_tensor want = tensor(want_bytes[0], t, 1, &n);
        nck_tile_ref_run(&s.p, &in, &want);
        for (int64_t i = 0; i < n; i++) {
            size_t at = (size_t)i * nc_dtype_bytes(t);
            CHECK_CLOSE(get(t, got_bytes[0] + at), get(t, want_bytes[0] + at),
                        wide ? nc_tol_lane_f64 : nc_tol_lane_f32);
        }
    }
}

/* y = max(x * a + b, x) over (n0, n1), each operand dense or spread; the walked way has a gap behind each row of y. */
static void small_and_walked(nc_dtype compute, nc_dtype type, int64_t n0, int64_t n1, int form) {
    static const nck_tile_op ops[] = {{.lane = NCK_LANE_mul, .dst = 3, .src = {0, 1}},
                                      {.lane = NCK_LANE_add, .dst = 4, .src = {3, 2}},
                                      {.lane = NCK_LANE_max, .dst = 3, .src = {4, 0}}};
    nck_tile_prog p = {.compute = compute, .n_in = 3, .n_out = 1, .n_reg = 5, .n_op = 3, .op = ops};
    p.out_reg = (const uint16_t[]){3};
    nc_tensor in[3], y = tensor(got_bytes[0], type, 2, (int64_t[]){n0, n1}), gaps = y;
    int64_t lead = form & 4 ? 1 : n0;
    size_t bytes = nc_dtype_bytes(type);
    gaps.data = got_bytes[1], gaps.strides[0] = n1 + 3;
    in[0] = tensor(in_bytes[0], type, 2, (int64_t[]){n0, n1});
    in[1] =
        form & 1 ? tensor(in_bytes[1], type, 1, (int64_t[]){n1}) : tensor(in_bytes[1], type, 2, (int64_t[]){lead, 1});
    in[2] = form & 2 ? tensor(in_bytes[2], type, 0, NULL) : tensor(in_bytes[2], type, 2, (int64_t[]){1, n1});
    for (int i = 0; i < 3; i++) fill_random(type, in_bytes[i], n0 * n1);
    nc_tensor *p_in[3] = {&in[0], &in[1], &in[2]}, *p_out[1] = {&y};
    bool simple = lead == 1 || (form & 1) || n1 == 1; /* a column that is spread along the rows is walked */
    CHECK(nck_tile_run_small(&p, p_in, p_out, n0 * n1) == simple);
    p_out[0] = &gaps;
    CHECK(n0 == 1 || !nck_tile_run_small(&p, p_in, p_out, n0 * n1));
    run_tiles(&p, in, &y, NULL);
    run_tiles(&p, in, &gaps, NULL);
    for (int64_t r = 0; r < n0; r++)
        CHECK(memcmp(got_bytes[0] + (size_t)(r * n1) * bytes, got_bytes[1] + (size_t)(r * (n1 + 3)) * bytes,
                     (size_t)n1 * bytes) == 0);
}

TEST(small_tensors_have_the_bits_of_walked_ones) {
    static const nc_dtype types[][2] = {{NC_FLOAT, NC_FLOAT},   {NC_DOUBLE, NC_DOUBLE}, {NC_FLOAT, NC_FLOAT16},
                                        {NC_INT64, NC_INT64},   {NC_INT64, NC_INT32},   {NC_FLOAT, NC_BFLOAT16},
                                        {NC_UINT64, NC_UINT64}, {NC_INT64, NC_UINT8}};
    static const int64_t dims[][2] = {{1, 1}, {4, 8}, {5, 7}, {1, 16}, {16, 1}, {3, 33}, {2, 64}};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            for (int form = 0; form < 8; form++)
                small_and_walked(types[t][0], types[t][1], dims[d][0], dims[d][1], form);
}

/* y = lane(a, b) of n elements each, or of one where `form` says so, beside the same with gaps behind rows of y. */
static void own_and_walked(int lane, nc_dtype from, nc_dtype to, int64_t rows, int64_t n, int form) {
    nck_tile_op op = {.lane = (uint16_t)lane, .dst = 2, .src = {0, 1}};
    nck_tile_prog p = {.compute = nck_tile_compute(from), .n_in = 2, .n_out = 1, .n_reg = 3, .n_op = 1, .op = &op};
    p.out_reg = (const uint16_t[]){2};
    nc_tensor in[2], y = tensor(got_bytes[0], to, 2, (int64_t[]){rows, n}), gaps = y;
    size_t bytes = nc_dtype_bytes(to);
    gaps.data = got_bytes[1], gaps.strides[0] = n + 3;
    for (int i = 0; i < 2; i++) {
        bool one = form & (1 << i);
        in[i] = tensor(in_bytes[i], from, 2, one ? (int64_t[]){1, 1} : (int64_t[]){rows, n});
        fill_random(from, in_bytes[i], rows * n);
        for (int64_t k = 0; k < rows * n && from != NC_BOOL; k += 3) /* some are equal */
            memset((char *)in_bytes[i] + (size_t)k * nc_dtype_bytes(from), 0, nc_dtype_bytes(from));
    }
    for (int64_t k = 0; k < rows * n; k++) { /* counts around those that shift everything out; what is no number */
        if (from == NC_UINT32) ((uint32_t *)(void *)in_bytes[1])[k] %= 40;
        if (lane == NCK_LANE_is_nan && k % 5 == 1) ((float *)(void *)in_bytes[0])[k] = NAN;
    }
    nc_tensor *p_in[2] = {&in[0], &in[1]}, *p_out[1] = {&gaps};
    CHECK(!nck_tile_run_own(&p, p_in, p_out, rows * n, NULL));
    p_out[0] = &y;
    CHECK(nck_tile_run_own(&p, p_in, p_out, rows * n, NULL));
    run_tiles(&p, in, &gaps, NULL);
    for (int64_t r = 0; r < rows; r++)
        CHECK(memcmp(got_bytes[0] + (size_t)(r * n) * bytes, got_bytes[1] + (size_t)(r * (n + 3)) * bytes,
                     (size_t)n * bytes) == 0);
}

TEST(words_in_their_own_type_have_the_bits_of_tiles) {
    static const struct {
        int lane;
        nc_dtype from, to;
    } words[] = {{NCK_LANE_and, NC_BOOL, NC_BOOL},           {NCK_LANE_or, NC_BOOL, NC_BOOL},
                 {NCK_LANE_xor, NC_BOOL, NC_BOOL},           {NCK_LANE_not, NC_BOOL, NC_BOOL},
                 {NCK_LANE_add, NC_INT32, NC_INT32},         {NCK_LANE_sub, NC_UINT32, NC_UINT32},
                 {NCK_LANE_mul, NC_INT32, NC_INT32},         {NCK_LANE_mul, NC_UINT32, NC_UINT32},
                 {NCK_LANE_shift_left, NC_UINT32, NC_UINT32}, {NCK_LANE_shift_right, NC_UINT32, NC_UINT32},
                 {NCK_LANE_equal, NC_INT64, NC_BOOL},        {NCK_LANE_equal, NC_INT32, NC_BOOL},
                 {NCK_LANE_less, NC_INT32, NC_BOOL},         {NCK_LANE_less_or_equal, NC_INT32, NC_BOOL},
                 {NCK_LANE_greater, NC_INT32, NC_BOOL},      {NCK_LANE_greater_or_equal, NC_INT32, NC_BOOL},
                 {NCK_LANE_equal, NC_FLOAT, NC_BOOL},        {NCK_LANE_less, NC_FLOAT, NC_BOOL},
                 {NCK_LANE_less_or_equal, NC_FLOAT, NC_BOOL}, {NCK_LANE_greater, NC_FLOAT, NC_BOOL},
                 {NCK_LANE_greater_or_equal, NC_FLOAT, NC_BOOL}, {NCK_LANE_is_nan, NC_FLOAT, NC_BOOL}};
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        for (int form = 0; form < (words[w].lane == NCK_LANE_not || words[w].lane == NCK_LANE_is_nan ? 1 : 3); form++)
            for (int64_t n = 1; n < 140; n += 21)
                own_and_walked(words[w].lane, words[w].from, words[w].to, 3, n, form);
}

TEST(compute_types) {
    CHECK(nck_tile_compute(NC_FLOAT16) == NC_FLOAT && nck_tile_compute(NC_BFLOAT16) == NC_FLOAT);
    CHECK(nck_tile_compute(NC_DOUBLE) == NC_DOUBLE && nck_tile_compute(NC_UINT64) == NC_UINT64);
    CHECK(nck_tile_compute(NC_BOOL) == NC_INT64 && nck_tile_compute(NC_UINT32) == NC_INT64);
    CHECK(nck_tile_compute(NC_STRING) == NC_UNDEFINED && nck_tile_compute(NC_COMPLEX64) == NC_UNDEFINED);
    for (int i = 0; i < N_STORAGES; i++) CHECK(nck_tile_compute(storages[i]) != NC_UNDEFINED);
    CHECK(nck_tile_load_get(NC_FLOAT, NC_STRING) == NULL && nck_tile_store_get(NC_INT32, NC_FLOAT) == NULL);
}

/* (x * a + b) over a run: a of 8 numbers over and over, b of one; odd lengths, in place, every ISA. */
TEST(runs_in_the_cache) {
    static const nck_tile_op ops[] = {{.lane = NCK_LANE_mul, .dst = 3, .src = {0, 1}},
                                      {.lane = NCK_LANE_add, .dst = 4, .src = {3, 2}}};
    static const uint16_t out = 4;
    static const int64_t lengths[] = {0, 1, 8, 16, 24, 511, 512, 2000};
    const nck_tile_prog p = {
        .compute = NC_FLOAT, .n_in = 3, .n_out = 1, .n_reg = 5, .n_op = 2, .op = ops, .out_reg = &out};
    float a[8], b = 0.5f, x[2001], y[2001];
    for (int i = 0; i < 8; i++) a[i] = (float)i - 3;
    for (int isa = 0; nck_isa_at(isa); isa = NEXT_ISA(isa, tile))
        for (int k = 0; k < (int)(sizeof lengths / sizeof *lengths); k++) {
            int64_t n = lengths[k];
            CHECK(nck_isa_set_for_test(nck_isa_at(isa)->name));
            for (int i = 0; i < 2001; i++) x[i] = i % 97 == 5 ? NAN : (float)(i % 31) - 7;
            memcpy(y, x, sizeof y);
            nck_tile_run_flat(&p, (const nck_tile_run_in[]){{y, 0}, {a, 8}, {&b, 1}}, y, n);
            for (int64_t i = 0; i < 2001; i++) {
                float want = i < n ? x[i] * a[i % 8] + b : x[i];
                CHECK(y[i] == want || (isnan(y[i]) && isnan(want)));
            }
        }
    CHECK(nck_isa_set_for_test(NULL));
}

TEST(bad_programs_are_refused) {
    nck_tile_op op = {.lane = NCK_LANE_add, .dst = 2, .src = {0, 1}};
    uint16_t out_reg[1] = {2};
    const nck_tile_prog good = {
        .compute = NC_FLOAT, .n_in = 2, .n_out = 1, .n_reg = 3, .n_op = 1, .op = &op, .out_reg = out_reg};
    nck_tile_prog p = good;
    CHECK(nck_tile_check(&p));
    p.compute = NC_FLOAT16;
    CHECK(!nck_tile_check(&p));
    p = good, p.n_reg = NCK_TILE_MAX_REG + 1;
    CHECK(!nck_tile_check(&p));
    p = good, p.n_reg = 1;
    CHECK(!nck_tile_check(&p));
    p = good, p.n_out = 0;
    CHECK(!nck_tile_check(&p));
    p = good, p.n_in = 1; /* register 1 is read before it is written */
    CHECK(!nck_tile_check(&p));
    p = good, p.n_op = 0; /* register 2 is never written */
    CHECK(!nck_tile_check(&p));
    op.dst = 3;
    CHECK(!nck_tile_check(&good));
    op.dst = 2, op.src[1] = 3;
    CHECK(!nck_tile_check(&good));
    op.src[1] = 1, op.lane = NCK_N_LANES;
    CHECK(!nck_tile_check(&good));
    op.lane = NCK_LANE_tanh;
    CHECK(nck_tile_check(&good));
    p = good, p.compute = NC_INT64;
    CHECK(!nck_tile_check(&p));
    out_reg[0] = 3;
    CHECK(!nck_tile_check(&good));
}
