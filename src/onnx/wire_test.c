/* onnx/wire_test.c: the wire format by itself: round trips, every truncation, overlong numbers, wrong wire types. */
#include "onnx/wire.h"

#include "onnx/proto.h"
#include "tests/check.h"

#include <string.h>

static nc_bytes bytes_of(const nc_text *t) { return (nc_bytes){(const uint8_t *)t->s, t->n}; }

static bool read_varint(const char *s, size_t n, uint64_t *u, size_t *used) {
    nc_wire r;
    nc_wire_init(&r, (nc_bytes){(const uint8_t *)s, n});
    bool ok = nc_wire_varint(&r, u);
    *used = (size_t)(r.p - r.start);
    CHECK(ok == (r.bad == NULL));
    return ok;
}

TEST(wire_varints_round_trip) {
    for (int bit = 0; bit <= 64; bit++)
        for (int d = -1; d <= 1; d++) {
            uint64_t want = (bit < 64 ? (uint64_t)1 << bit : 0) + (uint64_t)(int64_t)d, got = 0;
            nc_text t = {0};
            size_t used;
            nc_wire_put_varint(&t, want);
            CHECK(read_varint(t.s, t.n, &got, &used));
            CHECK(got == want && used == t.n);
            for (size_t n = 0; n < t.n; n++) CHECK(!read_varint(t.s, n, &got, &used) && used == 0);
            nc_text_release(&t);
        }
}

TEST(wire_refuses_overlong_varints) {
    uint64_t u;
    size_t used;
    static const char eleven[] = "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01";
    CHECK(!read_varint(eleven, 11, &u, &used));
    CHECK(read_varint("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 10, &u, &used) && u == (uint64_t)1 << 63);
    CHECK(!read_varint("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02", 10, &u, &used));
    CHECK(read_varint("\x85\x80\x00", 3, &u, &used) && u == 5 && used == 3);
}

TEST(wire_refuses_bad_tags) {
    static const struct {
        const char *s;
        size_t n;
    } bad[] = {{"\x00\x01", 2},
               {"\x07\x01", 2},
               {"\x0b", 1},
               {"\x0c", 1},
               {"\x0e\x01", 2},
               {"\x0f\x01", 2},
               {"\xff\xff\xff\xff\x7f\x01", 6},
               {"\x0d\x01\x02\x03", 4},
               {"\x09\x01\x02\x03\x04\x05\x06\x07", 8},
               {"\x0a\x02x", 3},
               {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        nc_wire r;
        nc_field f;
        nc_wire_init(&r, (nc_bytes){(const uint8_t *)bad[i].s, bad[i].n});
        CHECK(!nc_wire_next(&r, &f) && r.bad);
        CHECK(!nc_wire_next(&r, &f));
    }
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, (nc_bytes){NULL, 0});
    CHECK(!nc_wire_next(&r, &f) && !r.bad);
}

static void put_attribute(nc_text *t) {
    static const float floats[] = {1.5f, -0.0f, INFINITY};
    static const int64_t ints[] = {-1, 0, INT64_MAX};
    nc_wire_put_str(t, AttributeProto_name, "alpha");
    nc_wire_put_float(t, AttributeProto_f, 0.25f);
    nc_wire_put_int(t, AttributeProto_i, -7);
    nc_wire_put_floats(t, AttributeProto_floats, floats, 3);
    nc_wire_put_ints(t, AttributeProto_ints, ints, 3);
    nc_wire_put_int(t, AttributeProto_ints, 4);
    nc_wire_put_bytes(t, AttributeProto_strings, "", 0);
    nc_wire_put_bytes(t, 99, "unknown", 7);
    nc_wire_put_int(t, 100, 1);
}

TEST(wire_message_round_trip_and_truncations) {
    nc_text t = {0};
    nc_work w;
    nc_pb_attribute a;
    nc_work_init(&w);
    put_attribute(&t);
    REQUIRE(nc_pb_read_attribute(&w, bytes_of(&t), &a) == NC_OK);
    CHECK(a.name.n == 5 && memcmp(a.name.p, "alpha", 5) == 0);
    CHECK(a.f == 0.25f && a.i == -7);
    CHECK_INT(a.floats, 3);
    CHECK_INT(a.ints, 4);
    CHECK_INT(a.strings, 1);
    CHECK(NC_PB_HAS(a, AttributeProto_i) && !NC_PB_HAS(a, AttributeProto_g));
    int ok = 0;
    for (size_t n = 0; n < t.n; n++) {
        nc_work_release(&w);
        nc_work_init(&w);
        bool loaded = nc_pb_read_attribute(&w, (nc_bytes){(const uint8_t *)t.s, n}, &a) == NC_OK;
        CHECK(loaded == (w.diag.code == NC_OK));
        ok += loaded;
    }
    CHECK_INT(ok, 9); /* at the field borders only, the start included */
    nc_text_release(&t);
    nc_work_release(&w);
}

static nc_code read_attribute(nc_text *t, nc_work *w) {
    nc_pb_attribute a;
    nc_work_init(w);
    nc_code code = nc_pb_read_attribute(w, bytes_of(t), &a);
    nc_work_release(w);
    nc_text_release(t);
    return code;
}

TEST(wire_refuses_what_does_not_fit) {
    nc_work w;
    nc_text t = {0};
    nc_wire_put_int(&t, AttributeProto_name, 3);
    CHECK(read_attribute(&t, &w) == NC_E_BAD_MODEL);
    CHECK_STR(w.diag.text, "AttributeProto.name has wire type 0");
    t = (nc_text){0};
    nc_wire_put_int(&t, AttributeProto_i, 3);
    nc_wire_put_int(&t, AttributeProto_i, 3);
    CHECK(read_attribute(&t, &w) == NC_E_BAD_MODEL);
    CHECK_STR(w.diag.text, "AttributeProto.i is there twice");
    t = (nc_text){0};
    nc_wire_put_bytes(&t, AttributeProto_floats, "123456", 6);
    CHECK(read_attribute(&t, &w) == NC_E_BAD_MODEL);
    t = (nc_text){0};
    nc_wire_put_bytes(&t, AttributeProto_ints, "\x01\x80", 2);
    CHECK(read_attribute(&t, &w) == NC_E_BAD_MODEL);
}

TEST(wire_nested_lengths) {
    static const size_t sizes[] = {0, 1, 127, 128, 300, 16383, 16384, 70000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            nc_text t = {0};
            nc_wire r;
            nc_field f;
            nc_wire_mark mark = nc_wire_begin(&t, 3, sizes[j]);
            for (size_t k = 0; k < sizes[i]; k++) nc_text_add_n(&t, &"abcdefg"[k % 7], 1);
            nc_wire_end(&t, mark);
            nc_wire_put_int(&t, 4, 9);
            nc_wire_init(&r, bytes_of(&t));
            CHECK(nc_wire_next(&r, &f) && f.number == 3 && f.b.n == sizes[i]);
            size_t wrong = 0;
            for (size_t k = 0; k < f.b.n; k++) wrong += f.b.p[k] != (uint8_t) "abcdefg"[k % 7];
            CHECK_INT(wrong, 0);
            CHECK(nc_wire_next(&r, &f) && f.number == 4 && f.u == 9);
            CHECK(!nc_wire_next(&r, &f) && !r.bad);
            nc_text_release(&t);
        }
}
