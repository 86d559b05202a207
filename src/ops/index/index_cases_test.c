/* ops/index/index_cases_test.c: the cases of the index family (ops/cases.h), the tests that run them, and tests of
 * what a case cannot say: inferred types, strided data, bad indices. */
#include "ops/cases_testing.h"

#include "tests/graph_testing.h"

extern const nc_case nc_index_cases[];

#define G "<opset: \"\" 22, \"nacre\" 1> g "
#define FIXED NC_CASE_NO_GRAD | NC_CASE_EXACT

const nc_case nc_index_cases[] = {
    {"gather_rows",
     G "(float[7,n] x) => (y) <const int64[4] i = {2, -1, 0, 2}> { y = Gather(x, i) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"gather_columns",
     G "(float[n,7,2] x) => (y) <const int32[2,2] i = {6, 0, -7, 3}> { y = Gather<axis = -2>(x, i) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"gather_one",
     G "(float[n,3] x) => (y) <const int64[] i = {-1}> { y = Gather<axis = 1>(x, i) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"gather_none", G "(float[n,3] x) => (y) <const int64[0] i = {}> { y = Gather(x, i) }", {{0, 0}}, NC_CASE_EXACT},
    {"gather_of_empty", G "(float[3,0] x) => (y) <const int64[2] i = {1, 1}> { y = Gather(x, i) }", {{0, 0}}, FIXED},
    {"gather_bool", G "(bool[5,n] x) => (y) <const int64[2] i = {4, 0}> { y = Gather(x, i) }", {{-1, 1}}, FIXED},
    {"gather_view",
     G "(float[n,4] x) => (y) <const int64[3] i = {3, 0, -2}> { t = Transpose(x) y = Gather(t, i) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"gather_grad_half",
     G "(float16[3,2] d) => (y) <const int64[2] s = {4, 2}, const int64[3] i = {1, -1, 1}> "
       "{ y = nacre.GatherGrad(s, i, d) }",
     {{0, 0}},
     FIXED},
    {"gather_by_input",
     G "(float[9,n] x, int64[3,4] i) => (y) { t = Transpose(i) y = Gather(x, t) }",
     {{-2, 2}, {-9, 8.99}},
     FIXED},
    {"gather_double", G "(double[5,2] x) => (y) <const int32[2] i = {4, -5}> { y = Gather(x, i) }", {{0, 0}}, FIXED},
    {"gather_grad_many",
     G "(int64[1500] i, float[2,1500,3] d) => (y) <const int64[3] s = {2, 5, 3}> { y = nacre.GatherGrad<axis = 1>(s, "
       "i, d) }",
     {{-5, 4.99}, {-2, 2}},
     FIXED},
#define ONTO(flag) \
    G "(float[5,n] s, int64[9] i, float[9,n] d) => (y) <const bool[1] o = {" flag "}> " \
      "{ y = nacre.GatherGradOnto(s, i, d, o) }", {{-2, 2}, {-5, 4.99}, {-2, 2}}
    {"gather_grad_onto", ONTO("0"), FIXED},
    {"gather_grad_onto_overwrites", ONTO("1"), FIXED},
    {"gather_grad_onto_always",
     G "(double[2,5,3] s, int32[4] i, double[2,4,3] d) => (y) { y = nacre.GatherGradOnto<axis = 1>(s, i, d) }",
     {{-2, 2}, {-5, 4.99}, {-2, 2}},
     FIXED},
    {"nonzero", G "(bool[n,3] x) => (y) { y = NonZero(x) }", {{-1, 1}}, FIXED},
    {"nonzero_empty", G "(int64[0,3] x) => (y) { y = NonZero(x) }", {{0, 0}}, FIXED},
    {0}};

TEST(index_values) { nc_cases_check_values(nc_index_cases); }
TEST(index_isas) { nc_cases_check_isas(nc_index_cases); }
TEST(index_gradients) { nc_cases_check_gradients(nc_index_cases); }

TEST(index_types) {
    CHECK_INFERS(G "(float[v,d] x, int64[b,s] i) => (y) { y = Gather(x, i) }", "float[b,s,d]");
    CHECK_INFERS(G "(float[v,d] x, int32[] i) => (y) { y = Gather<axis = -1>(x, i) }", "float[v]");
    CHECK_INFERS(
        G "(float[n,4] x) => (y) <const int64[1] i = {0}> { s = Shape(x) k = Gather(s, i) y = ConstantOfShape(k) }",
        "float[n]");
    CHECK_INFERS(G "(float[n,4] x) => (y) <const int64[] i = {2}> { s = Shape(x) y = Gather(s, i) }",
                 "index 2 is out of range for 2 elements");
    CHECK_INFERS(G "(float[2] x, int64[1] i) => (y) { y = Gather<axis = 1>(x, i) }",
                 "axis 1 is out of range for 1 dims");
    CHECK_INFERS(G "(float[a,b] x) => (y) { y = NonZero(x) }", "int64[2,NonZero_1_n]");
}

TEST(gather_strided_and_out_of_range) {
    nc_work w;
    nc_work_init(&w);
    nc_arena arena = {0};
    char why[64];
    nc_model *m =
        test_model(&w, nc_ops_registry(), G "(float[2,3,2] x, int32[2] i) => (y) { y = Gather<axis = 1>(x, i) }");
    REQUIRE(m != NULL);
    nc_prep prep = {.w = &w, .arena = &arena, .node = m->main->last};
    const nc_binding *b = nc_binding_find(prep.node, "cpu", why, sizeof why);
    REQUIRE(b != NULL && nc_binding_prepare(b, &prep) == NC_OK);
    CHECK_INT(prep.strided_in, 1);
    float data[12], y[8];
    for (int k = 0; k < 12; k++) data[k] = (float)k;
    int32_t at[2] = {-1, 0};
    nc_tensor in[2] = {{.data = data, .dtype = NC_FLOAT, .rank = 3, .dims = {2, 3, 2}, .strides = {1, 4, 2}},
                       {.data = at, .dtype = NC_INT32, .rank = 1, .dims = {2}, .strides = {1}}};
    nc_tensor out = {.data = y, .dtype = NC_FLOAT, .rank = 3, .dims = {2, 2, 2}, .strides = {4, 2, 1}};
    nc_call c = {.state = prep.state,
                 .in = NC_OPERANDS(in, 2),
                 .n_in = 2,
                 .out = NC_OPERANDS(&out, 1),
                 .n_out = 1,
                 .diag = &w.diag,
                 .node = "n",
                 .op = "Gather"};
    static const float want[8] = {8, 10, 0, 2, 9, 11, 1, 3};
    CHECK_INT(b->run(&c), NC_OK);
    CHECK(memcmp(y, want, sizeof want) == 0);
    at[1] = 3;
    CHECK_INT(b->run(&c), NC_E_DATA);
    CHECK_DIAG(&w, "index 3 is out of range for an axis of 3");
    nc_dense_strides(in[0].dims, 3, in[0].strides);
    CHECK_INT(b->run(&c), NC_E_DATA);
    nc_model_destroy(m);
    nc_arena_release(&arena);
    nc_work_release(&w);
}
