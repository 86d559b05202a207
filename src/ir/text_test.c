/* ir/text_test.c: the text form: what prints parses back to the same text; errors say where. */
#include "ir/text.h"

#include "base/mem.h"
#include "ir/edit.h"
#include "ir/fake_cards.h"
#include "ir/verify.h"
#include "tests/check.h"

/* Everything the grammar can say, in the form it prints in. */
static const char *const full =
    "<opset: \"\" 17, \"my.domain\" 1>\n"
    "mlp (float[batch,4] x, bool[] c, float[...] any, seq(float[n]) s, optional(seq(?)) o, tape t, map(int64,float[]) "
    "m, "
    "sparse(float[3,n]) sp, float[n,2,h,w,8]{axis=1,c=8,C=12} blocked, untyped) => (float[batch,4] y, z, "
    "float[batch,4] x, float[batch,4] second = y, \"a b\" = mask.x)\n"
    "<const float[2,2] W = {1, -2.5, nan, inf},\n"
    " const int64[0] none = {},\n"
    " const string[2] words = {\"a\\n\\\"\\\\\", \"\\x01\"},\n"
    " const float16[2] half = {0.0999755859, -inf},\n"
    " const bfloat16[] brain = {1},\n"
    " const float8e4m3fn[3] eight = {448, -0.5, nan},\n"
    " const int4[3] four = {-8, 0, 7},\n"
    " const float6e3m2[3] six = {28, -0.0625, 0},\n"
    " const uint64[1] big = {18446744073709551615},\n"
    " const complex64[1] im = {1, -2},\n"
    " const double[1] d = {0.10000000000000001},\n"
    " const int8[3] \"odd name\" = {-128, 0, 127},\n"
    " const bool[2] flags = {1, 0},\n"
    " var float[batch,4] b -> b_2,\n"
    " var float[1,past] kv = float[1,2] {1, 2} grow 1 internal -> kv_1>\n"
    "{\n"
    "  h = LeakyRelu<alpha = 0.100000001, mode = \"slow\", k = 3>(x) @stage=1 @recompute @place=1 \"first\"\n"
    "  q, mask.x = my.domain.Noise(h, , x) @random=7\n"
    "  r = my.domain.Noise(h) @random=8\n"
    "  k = Constant<i = -1, f = 2.0, s = \"\", ints = [1, 2], floats = [0.5, nan], strings = [\"a\", \"\"], "
    "tensor = int32[2] {1, 2}, type = float[n,?]>()\n"
    "  l = Constant<ints = [], floats = [], strings = [], f = @outer>()\n"
    "  , p = Split(x)\n"
    "  b_1 = Update(b, q)\n"
    "  b_2 = Update(b_1, h)\n"
    "  kv_1 = Concat<axis = 1>(kv, p)\n"
    "  z = If<then_branch = { inner (float[n] i) => (a)\n"
    "  <const float[] one = {1}>\n"
    "  {\n"
    "    a = Add(^x, one)\n"
    "    deep = If<then_branch = { () => (e = ^h)\n"
    "    {\n"
    "      f = Add(^x, ^one)\n"
    "    } }>(^c)\n"
    "  } }, else_branch = { () => (a)\n"
    "  {\n"
    "    a = Neg(^q)\n"
    "  } }>(c) \"branch \\\"1\\\"\"\n"
    "  y = Neg(h)\n"
    "}\n";

/* The ? of a type is a fresh symbol: it prints under the name it got. */
TEST(text_round_trip) {
    static char want[4096];
    const char *at = strstr(full, "?]>");
    snprintf(want, sizeof want, "%.*sd]>%s", (int)(at - full), full, at + 3);
    nc_model *m = nc_fake_parse(full);
    REQUIRE(m);
    nc_fake_check_print(m, want);
    nc_model *again = nc_fake_parse(want);
    if (again) nc_fake_check_print(again, want);
    nc_model_destroy(again);
    CHECK_INT(m->next_random_id, 9);
    CHECK_INT(nc_model_opset(m, "my.domain"), 1);
    CHECK_INT(nc_model_opset(m, "other"), 0);
    nc_model_destroy(m);
}

TEST(text_typed_prints_and_parses) {
    nc_model *m = nc_fake_parse("(float[n] x) => (float[n] y) { float[n] h = Neg(x); float[n] y = Neg(h) }");
    REQUIRE(m);
    nc_text out = {0};
    nc_graph_print_typed(&out, m);
    CHECK_STR(out.s, "(float[n] x) => (float[n] y)\n{\n  float[n] h = Neg(x)\n  float[n] y = Neg(h)\n}\n");
    nc_model *again = nc_fake_parse(out.s);
    CHECK(again && nc_graph_find(again->main, "h")->type);
    nc_text_release(&out);
    nc_model_destroy(m);
    nc_model_destroy(again);
}

TEST(text_captures_through_levels) {
    nc_model *m = nc_fake_parse("(float[n] x, bool[] c) => (y) { y = If(c)<then_branch = { () => (a) { a = "
                                "If<then_branch = { () => (b) { b = Neg(^x) } }>(^c) } }> }");
    REQUIRE(m);
    nc_node *outer = nc_graph_find(m->main, "y")->def, *inner = outer->subs[0].graph->first;
    CHECK_INT(outer->n_in, 1);
    CHECK_INT(outer->n_operands, 3);
    CHECK(outer->in[1] == nc_graph_find(m->main, "x") && outer->in[2] == nc_graph_find(m->main, "c"));
    CHECK_INT(inner->n_operands, 2);
    CHECK(inner->in[1]->origin == NC_FROM_CAPTURE);
    nc_text out = {0};
    nc_node_print(&out, outer);
    CHECK_STR(out.s, "y = If<then_branch = {...}>(c)");
    nc_text_release(&out);
    nc_model_destroy(m);
}

TEST(text_long_constants_are_left_out) {
    nc_model *m = nc_fake_parse("(float[n] x) => (y) { y = Neg(x) }");
    REQUIRE(m);
    static float data[300];
    const int64_t dims[] = {300};
    const nc_literal *l = nc_edit_literal(m, NC_FLOAT, 1, dims, data);
    REQUIRE(l && nc_edit_const(m->main, "w", l));
    nc_fake_check_print(m, "(float[n] x) => (y)\n<const float[300] w = { ... 1200 bytes }>\n{\n  y = Neg(x)\n}\n");
    nc_model_destroy(m);
}

TEST(text_errors_say_where) {
    static const char *const bad[][2] = {
        {"(float[n] x) => (y) {\n  y = Neg(z)\n}", "line 2, column 12: no value 'z' is known here"},
        {"(x) => (y) { y = Nag(x) }", "line 1, column 21: unknown operator 'Nag'"},
        {"(x) => (y) { y = Neg(x) ", "line 1, column 25: expected a name"},
        {"(x) => (q) { y = Neg(x) }", "line 1, column 10: no value 'q' is known here"},
        {"(x) => (y) { y = Neg(x); y = Neg(x) }", "line 1, column 37: 'y' is defined twice"},
        {"(x) => (y) { y = Neg(^x) }", "line 1, column 24: no outer graph has a value 'x'"},
        {"(x) => (y) <const float[2] c = {1}> { y = Neg(x) }", "line 1, column 34: expected ',', got '}'"},
        {"(x) => (y) <const int8[1] c = {128}> { y = Neg(x) }", "line 1, column 35: 128 does not fit int8"},
        {"(x) => (y) <const float[n] c = {1}> { y = Neg(x) }", "line 1, column 31: constant data need constant dims"},
        {"(x) => (y) <const float[2] c = { ... 8 bytes }> { y = Neg(x) }",
         "line 1, column 33: the data were left out of this dump"},
        {"(x) => (y) { y = Neg(x, x) }", "takes at most 1 inputs, got 2"},
        {"(x) => (y) { y = Neg() }", "input 0 ('X') is missing"},
        {"(x) => (y) { y = Concat(x) }", "attribute 'axis' is missing"},
        {"(x) => (y) { y = Concat<axis = 1.5>(x) }", "attribute 'axis' must be an int, got a float"},
        {"(x) => (y) { y = Neg<k = 1>(x) }", "Unrecognized attribute: k for operator Neg in version 1"},
        {"<opset: \"\" 5> (x) => (y) { y = LeakyRelu(x) }", "line 1, column 41: 'LeakyRelu' is not in opset 5"},
        {"<opset: \"\" 12> (x) => (y) { y = Gone(x) }", "line 1, column 37: 'Gone' is not in opset 12"},
        {"(flaot[2] x) => () { }", "line 1, column 7: unknown element type 'flaot'"},
        {"(float[2*] x) => () { }", "line 1, column 8: bad dim"},
        {"(x) => (y) { y = Neg(x) @stage=9 }", "line 1, column 33: mark out of range"},
        {"(x) => () <var float[] v -> w> { }", "line 1, column 28: no value 'w' to be the newest version of 'v'"},
        {"(x) => () { } }", "line 1, column 15: more text behind the graph"},
        {"(\"x) => () { }", "line 1, column 15: the string does not end"},
        {"(\"\\q\") => () { }", "line 1, column 5: bad escape in a string"},
        {"", "line 1, column 1: expected a name"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        nc_work w;
        nc_model *m = NULL;
        nc_work_init(&w);
        CHECK(nc_graph_parse(&w, bad[i][0], &nc_fake_registry, &m) != NC_OK && !m);
        CHECK_STR(w.diag.text, bad[i][1]);
        nc_work_release(&w);
        nc_model_destroy(m);
    }
}

/* Every prefix and every single deleted character of the full text: no crash, no leak. */
TEST(text_survives_damage) {
    uint64_t live = nc_mem_live();
    static char text[4096];
    size_t n = strlen(full);
    for (size_t cut = 0; cut < n; cut++)
        for (int mode = 0; mode < 2; mode++) {
            memcpy(text, full, n + 1);
            if (mode)
                memmove(text + cut, text + cut + 1, n - cut);
            else
                text[cut] = 0;
            nc_work w;
            nc_model *m = NULL;
            nc_work_init(&w);
            nc_code code = nc_graph_parse(&w, text, &nc_fake_registry, &m);
            CHECK((code == NC_OK) == (m != NULL));
            if (m) CHECK(nc_verify(&w, m) == NC_OK || w.diag.code != NC_E_FAIL);
            nc_model_destroy(m);
            nc_work_release(&w);
        }
    CHECK_INT(nc_mem_live(), live);
}

TEST(text_out_of_memory) {
    uint64_t live = nc_mem_live();
    for (uint64_t k = 1;; k++) {
        nc_work w;
        nc_model *m = NULL;
        nc_text out = {0};
        nc_work_init(&w);
        nc_mem_fail_at(k);
        nc_code code = nc_graph_parse(&w, full, &nc_fake_registry, &m);
        if (m) nc_graph_print(&out, m);
        nc_model *copy = m ? nc_model_clone(m) : NULL;
        bool hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
        CHECK(hit || (code == NC_OK && copy && !out.failed));
        nc_text_release(&out);
        nc_model_destroy(m);
        nc_model_destroy(copy);
        nc_work_release(&w);
        CHECK_INT(nc_mem_live(), live);
        if (!hit || nc_test_has_failed()) break;
    }
}
