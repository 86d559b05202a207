/* ops/nacre/nacre_cases_test.c: the cases of what the planner makes (ops/cases.h): copies, assignments, channel
 * blocks. */
#include "ops/cases_testing.h"

#include "tests/graph_testing.h"

extern const nc_case nc_nacre_cases[];

#define HEAD "<opset: \"\" 22, \"nacre\" 1> g "
#define SUM_TO(x, n, shape) \
    HEAD "(float[" x "] x) => (y) <const int64[" n "] s = {" shape "}> { y = nacre.SumTo(x, s) }"
#define G(body) "<opset: \"\" 22, \"nacre\" 1> g " body
const nc_case nc_nacre_cases[] = {
    {"copy", G("(float[3,n] x) => (y) { y = nacre.Copy(x) }")},
    {"copy_scalar", G("(float[] x) => (y) { y = nacre.Copy(x) }")},
    {"copy_empty", G("(float[0,3] x) => (y) { y = nacre.Copy(x) }"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"copy_int8", G("(int8[3,n] x) => (y) { y = nacre.Copy(x) }"), {{-99, 99}}, NC_CASE_NO_GRAD | NC_CASE_EXACT},
    {"assign", G("(float[3,n] v, float[3,n] x) => (y) { y = nacre.Assign(v, x) }"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"sum_to_bias", SUM_TO("n,3,7", "1", "7"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"sum_to_both", SUM_TO("n,3,7", "2", "1, 7"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"sum_to_scalar", SUM_TO("n,65", "0", ""), {{0, 0}}, NC_CASE_NO_GRAD},
    {"sum_to_itself", SUM_TO("4,5", "2", "4, 5"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"sum_to_of_nothing", SUM_TO("0,5", "2", "1, 5"), {{0, 0}}, NC_CASE_NO_GRAD},
    {"chain",
     HEAD "(float[n,9] x, float[9] b) => (y, c) { y, c = nacre.Chain<body = { (p, q) => (t, u) "
          "{ s = Add(p, q) e = Erf(s) t = Mul(e, p) u = Less(s, q) } }>(x, b) }",
     {{0, 0}},
     NC_CASE_NO_GRAD},
    {"tanh_grad", HEAD "(float[n,9] dy, float[n,9] s) => (y) { y = nacre.TanhGrad(dy, s) }", {{0, 0}}, NC_CASE_NO_GRAD},
    {0}};

TEST(nacre_values) { nc_cases_check_values(nc_nacre_cases); }
TEST(nacre_isas) { nc_cases_check_isas(nc_nacre_cases); }
TEST(nacre_gradients) { nc_cases_check_gradients(nc_nacre_cases); }

/* Through the binding, from and to any strides. */
TEST(nacre_copy_takes_any_strides) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(), G("(int16[2,3] x) => (y) { y = nacre.Copy(x) }"));
    REQUIRE(m != NULL);
    char why[128];
    const nc_binding *b = nc_binding_find(m->main->first, "cpu", why, sizeof why);
    REQUIRE(b != NULL && b->kind == NC_K_STATIC);
    nc_prep prep = {.w = &w, .arena = &w.scratch, .node = m->main->first};
    CHECK_INT(nc_binding_prepare(b, &prep), NC_OK);
    CHECK((prep.strided_in & 1) && (prep.strided_out & 1) && !prep.over[0]);
    int16_t x[6] = {1, 2, 3, 4, 5, 6}, y[8] = {0};
    nc_tensor in = {.data = x, .dtype = NC_INT16, .rank = 2, .dims = {2, 3}, .strides = {1, 2}};
    nc_tensor out = {.data = y, .dtype = NC_INT16, .rank = 2, .dims = {2, 3}, .strides = {4, 1}};
    nc_call c = {.in = NC_OPERANDS(&in, 1), .out = NC_OPERANDS(&out, 1), .n_in = 1, .n_out = 1, .diag = &w.diag};
    CHECK_INT(b->run(&c), NC_OK);
    static const int16_t want[8] = {1, 3, 5, 0, 2, 4, 6, 0};
    CHECK(memcmp(y, want, sizeof want) == 0);
    out.dims[1] = 2;
    CHECK_INT(b->run(&c), NC_E_SHAPE);
    nc_model_destroy(m);
    nc_work_release(&w);
}

TEST(nacre_strings_are_copied_as_objects) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(), G("(string[2] x) => (y) { y = nacre.Copy(x) }"));
    REQUIRE(m != NULL);
    char why[128];
    const nc_binding *b = nc_binding_find(m->main->first, "cpu", why, sizeof why);
    CHECK(b != NULL && b->kind == NC_K_DYNAMIC);
    nc_model_destroy(m);
    nc_work_release(&w);
}

TEST(nacre_assign_refuses_another_shape) {
    nc_work w;
    nc_work_init(&w);
    CHECK(test_model(&w, nc_ops_registry(), G("(float[2,3] v, float[2,4] x) => (y) { y = nacre.Assign(v, x) }")) ==
          NULL);
    CHECK_DIAG(&w, "dim 1 of the variable is 3");
    nc_work_release(&w);
}
