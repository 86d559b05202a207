/* onnx/flat_test.c: tables, strings and vectors there and back; offsets that lead outside are told with their field. */
#include "onnx/flat.h"

#include "tests/check.h"

static const nc_flat_field f_int = {0, "T.int"}, f_name = {1, "T.name"}, f_dims = {2, "T.dims"}, f_subs = {3, "T.subs"},
                           f_flag = {4, "T.flag"}, f_long = {5, "T.long"}, f_real = {6, "T.real"}, f_sub = {7, "T.sub"},
                           f_none = {9, "T.none"};

static void make(nc_text *out) {
    nc_flat_put f[] = {{0, 4, (uint64_t)-7, 0},
                       {1, 0, 0, 0},
                       {2, 0, 0, 0},
                       {3, 0, 0, 0},
                       {4, 1, 1, 0},
                       {5, 8, (uint64_t)INT64_MIN, 0},
                       {6, 4, nc_flat_bits(0.5f), 0},
                       {7, 0, 0, 0}};
    nc_flat_put_table(out, nc_flat_begin(out, "TEST"), f, 8);
    int64_t dims[] = {3, -1, INT64_MAX};
    nc_flat_put_string(out, f[1].at, "name", 4);
    nc_flat_put_vector(out, f[2].at, dims, 3, 8);
    size_t slot = nc_flat_put_offsets(out, f[3].at, 2);
    nc_flat_put_string(out, slot, "", 0);
    nc_flat_put_string(out, slot + 4, "two", 3);
    nc_flat_put sub[] = {{1, 0, 0, 0}};
    nc_flat_put_table(out, f[7].at, sub, 1);
    nc_flat_put_string(out, sub[0].at, "inner", 5);
}

TEST(flat_there_and_back) {
    nc_work w;
    nc_work_init(&w);
    nc_text out = {0};
    make(&out);
    nc_bytes file = {(const uint8_t *)out.s, out.n}, s;
    nc_flat_table t, sub;
    nc_flat_vector v;
    int32_t i = 0, same = 42;
    int64_t l = 0;
    float r = 0;
    bool flag = false, has = false;
    REQUIRE(nc_flat_root(&w, file, "TEST", &t) == NC_OK);
    CHECK(nc_flat_i32(&w, &t, f_int, &i) == NC_OK && i == -7);
    CHECK(nc_flat_i32(&w, &t, f_none, &same) == NC_OK && same == 42);
    CHECK(nc_flat_bool(&w, &t, f_flag, &flag) == NC_OK && flag);
    CHECK(nc_flat_i64(&w, &t, f_long, &l) == NC_OK && l == INT64_MIN);
    CHECK(nc_flat_f32(&w, &t, f_real, &r) == NC_OK && r == 0.5f);
    CHECK(nc_flat_string(&w, &t, f_name, &s) == NC_OK && s.n == 4 && memcmp(s.p, "name", 5) == 0);
    CHECK(nc_flat_string(&w, &t, f_none, &s) == NC_OK && s.p == NULL);
    REQUIRE(nc_flat_list(&w, &t, f_dims, 8, &v) == NC_OK && v.n == 3);
    CHECK(v.at % 8 == 0);
    CHECK(nc_flat_list_i64(&v, 1) == -1 && nc_flat_list_i64(&v, 2) == INT64_MAX);
    REQUIRE(nc_flat_list(&w, &t, f_subs, 4, &v) == NC_OK && v.n == 2);
    CHECK(nc_flat_list_string(&w, &v, 0, &s) == NC_OK && s.n == 0 && s.p);
    CHECK(nc_flat_list_string(&w, &v, 1, &s) == NC_OK && s.n == 3);
    REQUIRE(nc_flat_sub(&w, &t, f_sub, &has, &sub) == NC_OK && has);
    CHECK(nc_flat_string(&w, &sub, f_name, &s) == NC_OK && s.n == 5);
    CHECK(nc_flat_sub(&w, &t, f_none, &has, &sub) == NC_OK && !has);
    CHECK_INT(nc_flat_root(&w, file, "TESS", &t), NC_E_BAD_MODEL);
    nc_text_release(&out);
    nc_work_release(&w);
}

/* Reads all that can be read. */
static nc_code walk(nc_work *w, nc_bytes file) {
    nc_flat_table t, sub;
    nc_flat_vector v;
    nc_bytes s;
    bool has;
    int32_t i;
    int64_t l;
    NC_TRY(nc_flat_root(w, file, "TEST", &t));
    NC_TRY(nc_flat_i32(w, &t, f_int, &i));
    NC_TRY(nc_flat_i64(w, &t, f_long, &l));
    NC_TRY(nc_flat_string(w, &t, f_name, &s));
    NC_TRY(nc_flat_list(w, &t, f_dims, 8, &v));
    for (size_t k = 0; k < v.n; k++) (void)nc_flat_list_i64(&v, k);
    NC_TRY(nc_flat_list(w, &t, f_subs, 4, &v));
    for (size_t k = 0; k < v.n; k++) NC_TRY(nc_flat_list_string(w, &v, k, &s));
    NC_TRY(nc_flat_sub(w, &t, f_sub, &has, &sub));
    return has ? nc_flat_string(w, &sub, f_name, &s) : NC_OK;
}

/* Sanitizers see a read outside the block. */
TEST(flat_damaged_bytes_never_lead_outside) {
    nc_text out = {0};
    make(&out);
    int refused = 0;
    for (size_t n = 0; n < out.n; n++) {
        nc_work w;
        nc_work_init(&w);
        char *cut = nc_arena_copy(&w.scratch, out.s, n ? n : 1);
        nc_code code = walk(&w, (nc_bytes){(const uint8_t *)cut, n});
        refused += code != NC_OK;
        CHECK(code == NC_OK || w.diag.text[0]);
        nc_work_release(&w);
    }
    CHECK_INT(refused, out.n); /* the last string ends the file */
    for (size_t i = 0; i < out.n * 8; i++) {
        nc_work w;
        nc_work_init(&w);
        char *flipped = nc_arena_copy(&w.scratch, out.s, out.n);
        flipped[i / 8] ^= (char)(1 << i % 8);
        nc_code code = walk(&w, (nc_bytes){(const uint8_t *)flipped, out.n});
        CHECK(code == NC_OK || (code == NC_E_BAD_MODEL && strstr(w.diag.text, "flatbuffer: ")));
        nc_work_release(&w);
    }
    nc_text_release(&out);
}
