/* Strings, and a sequence that grows in a Loop in O(1) a step; they stay on the host. */
#include "base/mem.h"
#include "base/object.h"
#include "tests/model.h"

static void strings(model *m) {
    static const char *const a[] = {"pearl", "", "n\303\244cre"}, *const b[] = {"-"};
    nacre_value *va, *vb;
    model_open(m, "<opset: \"\" 20>\ng (string[n] a, string[k] b) => (string[n] y)\n{ y = StringConcat(a, b) }\n");
    REQUIRE(nacre_value_strings(1, D(3), a, &va, &m->err) == NACRE_OK);
    REQUIRE(nacre_value_strings(1, D(1), b, &vb, &m->err) == NACRE_OK);
    model_value(m, "a", va);
    model_value(m, "b", vb);
    model_run(m);
    nacre_value *y = model_out(m, "y");
    REQUIRE(y && nacre_value_count(y) == 3);
    CHECK_STR(nacre_value_string(y, 0, NULL), "pearl-");
    CHECK_STR(nacre_value_string(y, 1, NULL), "-");
    CHECK_STR(nacre_value_string(y, 2, NULL), "n\303\244cre-");
    model_collect_all(m);
    CHECK_INT(model_dump_count(m, "program", "host to device"), 0);
}

TEST(strings_are_concatenated) { model_everywhere(strings); }

static const char sequence_text[] =
    "<opset: \"\" 17>\n"
    "g (float[k] x, int64[] n) => (int64[] length, float[t] all)\n"
    "{\n"
    "  empty = SequenceEmpty<dtype = 1>()\n"
    "  s = Loop(n, , empty)<body = { (int64[] i, bool[] c, seq(float[...]) q) => (c1, q1)\n"
    "  {\n"
    "    c1 = Identity(c)\n"
    "    f = Cast<to = 1>(i)\n"
    "    row = Mul(^x, f)\n"
    "    q1 = SequenceInsert(q, row)\n"
    "  } }>\n"
    "  length = SequenceLength(s)\n"
    "  all = ConcatFromSequence<axis = 0>(s)\n"
    "}\n";

static void run_sequence(model *m, int64_t n) {
    float x[3] = {1, 2, 3};
    model_input(m, "x", NACRE_FLOAT, 1, D(3), x);
    model_input(m, "n", NACRE_INT64, 0, D(0), &n);
    model_run(m);
    CHECK_INT(model_ints(m, "length", 1)[0], n);
    const float *all = model_floats(m, "all", 3 * n);
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) CHECK_NEAR(all[i * 3 + k], x[k] * (float)i, 0);
}

static void sequence(model *m) {
    model_open(m, sequence_text);
    run_sequence(m, 7);
    model_collect_all(m);
    if (strcmp(m->device, "guard") == 0) CHECK(model_dump_count(m, "program", "device to host") >= 1);
    CHECK(model_dump_count(m, "program", "!") >= 2); /* the sequence is moved in, and moved on in the body */
}

TEST(a_sequence_grows_in_a_loop) { model_everywhere(sequence); }

/* What O(1) means: the pointers of the items are not copied again. A copying insert makes n^2/2 of them. */
TEST(inserting_into_an_own_sequence_copies_nothing) {
    nc_object *seq = nc_object_list(NC_OBJ_SEQUENCE, NC_FLOAT);
    REQUIRE(seq != NULL);
    nc_object *same = nc_object_own(seq);
    CHECK(same == seq);
    nc_object *shared = nc_object_ref(seq), *copy = nc_object_own(seq);
    CHECK(copy != NULL && copy != shared);
    nc_object_unref(copy);
    nc_object_unref(shared);
}

static uint64_t bytes_of_sequence(model *m, int64_t n) {
    uint64_t before = nc_mem_bytes();
    run_sequence(m, n);
    return nc_mem_bytes() - before;
}

/* 8 times the items ask for about 8 times the memory; an insert that copies the list would ask for 64 times. */
TEST(a_long_sequence_takes_linear_memory) {
    model m;
    model_init(&m, "cpu", 1);
    model_open(&m, sequence_text);
    run_sequence(&m, 100);
    uint64_t small = bytes_of_sequence(&m, 1000), large = bytes_of_sequence(&m, 8000);
    CHECK(small > 1000 && large < small * 10);
    model_close(&m);
}

/* ---- strings and optionals from the caller ---- */

static void compare_strings(model *m) {
    static const char *const a[] = {"one", "", "two", "one", "three", "on"}, *const b[] = {"one", "", "two"};
    static const bool want[] = {true, true, true, true, false, false};
    nacre_value *x, *y;
    model_open(m, "<opset: \"\" 19> g (string[n,3] a, string[3] b) => (y) { y = Equal(a, b) }");
    REQUIRE(nacre_value_strings(2, D(2, 3), a, &x, &m->err) == NACRE_OK);
    REQUIRE(nacre_value_strings(1, D(3), b, &y, &m->err) == NACRE_OK);
    model_value(m, "a", x);
    model_value(m, "b", y);
    model_run(m);
    nacre_value *out = model_out(m, "y");
    REQUIRE(out != NULL && nacre_value_type(out) == NACRE_BOOL && nacre_value_count(out) == 6);
    CHECK(memcmp(nacre_value_data(out), want, sizeof want) == 0);
}

TEST(strings_are_compared) { model_everywhere(compare_strings); }

static void feed_optional(model *m, nacre_value *item, bool there) {
    nacre_value *opt;
    REQUIRE(nacre_value_optional(NACRE_FLOAT, item, &opt, &m->err) == NACRE_OK);
    CHECK_INT(nacre_value_kind(opt), NACRE_KIND_OPTIONAL);
    CHECK_INT(nacre_value_count(opt), there);
    model_value(m, "o", opt);
    model_run(m);
    nacre_value *out = model_out(m, "y");
    CHECK(out != NULL && *(const bool *)nacre_value_data(out) == there);
}

static void optionals(model *m) {
    nacre_value *item;
    model_open(m, "<opset: \"\" 18> g (optional(float[4]) o) => (y) { y = OptionalHasElement(o) }");
    REQUIRE(nacre_value_new_tensor(NACRE_FLOAT, 1, D(4), &item, &m->err) == NACRE_OK);
    feed_optional(m, item, true);
    nacre_value_release(item);
    feed_optional(m, NULL, false);
}

TEST(optionals_are_fed_with_and_without_an_item) { model_everywhere(optionals); }

/* The result of a dynamic kernel goes into the memory that the caller gives for it. */
static void bound(model *m) {
    float x[2] = {1, 2}, y[4] = {0};
    nacre_value *in, *out, *small;
    model_open(m, "<opset: \"\" 17>\ng (float[n] x) => (float[k] y)\n"
                  "{ s = SequenceConstruct(x, x)\n y = ConcatFromSequence<axis = 0>(s) }\n");
    REQUIRE(nacre_value_tensor(NACRE_FLOAT, 1, D(2), x, &in, &m->err) == NACRE_OK);
    REQUIRE(nacre_value_tensor(NACRE_FLOAT, 1, D(4), y, &out, &m->err) == NACRE_OK);
    REQUIRE(nacre_value_tensor(NACRE_FLOAT, 1, D(3), y, &small, &m->err) == NACRE_OK);
    const char *x_name = "x", *y_name = "y";
    CHECK_INT(nacre_run(m->session, NULL, &x_name, &in, 1, &y_name, 1, &out, &m->err), NACRE_OK);
    CHECK(y[0] == 1 && y[1] == 2 && y[2] == 1 && y[3] == 2);
    CHECK_INT(nacre_run(m->session, NULL, &x_name, &in, 1, &y_name, 1, &small, &m->err), NACRE_SHAPE);
    nacre_value_release(in);
    nacre_value_release(out);
    nacre_value_release(small);
}

TEST(results_of_dynamic_kernels_are_written_into_bound_memory) { model_everywhere(bound); }
