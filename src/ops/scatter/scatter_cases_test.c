/* ops/scatter/scatter_cases_test.c: the cases of the scatter family (ops/cases.h), the tests that run them, and what a
 * case cannot say: types, and data that are refused. */
#include "ops/cases_testing.h"

#include "tests/graph_testing.h"

extern const nc_case nc_scatter_cases[];

#define G "<opset: \"\" 22, \"nacre\" 1> g "
#define FIXED NC_CASE_NO_GRAD | NC_CASE_EXACT
#define AT "<const int64[2,3] i = {1, -1, 0, 2, 2, -3}> "
#define TUPLES "<const int64[3,2] i = {0, 1, -1, 0, 2, 2}> "

const nc_case nc_scatter_cases[] = {
    {"gather_elements", G "(float[3,5] x) => (y) " AT "{ y = GatherElements(x, i) }", {{0, 0}}, NC_CASE_EXACT},
    {"gather_elements_last",
     G "(float[3,5] x) => (y) " AT "{ y = GatherElements<axis = -1>(x, i) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"gather_elements_none",
     G "(float[3,5] x) => (y) <const int64[0,5] i = {}> { y = GatherElements(x, i) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"gather_elements_bytes",
     G "(uint8[3,5] x) => (y) <const int32[1,5] i = {0, 1, 2, -1, -2}> { y = GatherElements(x, i) }",
     {{0, 200}},
     FIXED},
    {"scatter_elements",
     G "(float[3,5] x, float[2,3] u) => (y) <const int64[2,3] i = {1, -1, 0, 2, 0, -2}> "
       "{ y = ScatterElements(x, i, u) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"scatter_elements_add",
     G "(float[3,5] x, float[2,3] u) => (y) " AT "{ y = ScatterElements<axis = 1, reduction = \"add\">(x, i, u) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"scatter_elements_mul",
     G "(float[3,5] x, float[2,3] u) => (y) " AT "{ y = ScatterElements<reduction = \"mul\">(x, i, u) }",
     {{0, 0}},
     FIXED},
    {"scatter_elements_half_max",
     G "(float16[3,5] x, float16[2,3] u) => (y) " AT "{ y = ScatterElements<reduction = \"max\">(x, i, u) }",
     {{0, 0}},
     FIXED},
    {"scatter_elements_bytes_add",
     G "(uint8[3,5] x, uint8[2,3] u) => (y) " AT "{ y = ScatterElements<reduction = \"add\">(x, i, u) }",
     {{0, 100}},
     FIXED},
    {"scatter_elements_long_min",
     G "(int64[3,5] x, int64[2,3] u) => (y) " AT "{ y = ScatterElements<reduction = \"min\">(x, i, u) }",
     {{-9, 9}},
     FIXED},
    {"gather_nd", G "(float[3,4,2] x) => (y) " TUPLES "{ y = GatherND(x, i) }", {{0, 0}}, NC_CASE_EXACT},
    {"gather_nd_elements", G "(float[3,4] x) => (y) " TUPLES "{ y = GatherND(x, i) }", {{0, 0}}, NC_CASE_EXACT},
    {"gather_nd_batch",
     G "(float[2,4,n] x) => (y) <const int64[2,1,1] i = {-1, 2}> { y = GatherND<batch_dims = 1>(x, i) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"gather_nd_grad_half",
     G "(float16[3,2] d) => (y) <const int64[1] s = {5}, const int64[3,2,1] i = {1, 1, -1, 0, 1, 3}> "
       "{ y = nacre.GatherNDGrad(s, i, d) }",
     {{0, 0}},
     FIXED},
    {"scatter_nd",
     G "(float[3,4,2] x, float[3,2] u) => (y) " TUPLES "{ y = ScatterND(x, i, u) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"scatter_nd_add",
     G "(float[3,4,n] x, float[3,n] u) => (y) <const int64[3,2] i = {0, 1, 0, -3, 2, 2}> "
       "{ y = ScatterND<reduction = \"add\">(x, i, u) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"scatter_nd_many",
     G "(int32[7,3] x, int64[3000,1] i, int32[3000,3] u) => (y) { y = ScatterND<reduction = \"add\">(x, i, u) }",
     {{-99, 99}, {-7, 6.99}, {-99, 99}},
     FIXED},
    {"scatter_many_tiles",
     G "(int32[700] x, int64[13000] i, int32[13000] u) => (y, z) { y = ScatterElements<reduction = \"add\">(x, i, u) "
       "z = ScatterElements(x, i, u) }",
     {{-99, 99}, {-700, 699.99}, {-99, 99}},
     FIXED},
    {"scatter_many_last",
     G "(int16[9,50] x, int32[30,50] i, int16[30,50] u) => (y) { y = ScatterElements(x, i, u) }",
     {{-99, 99}, {-9, 8.99}, {-99, 99}},
     FIXED},
    {"scatter_nd_whole",
     G "(float[2,3] x, float[1,2,3] u) => (y) <const int64[1,0] i = {}> { y = ScatterND(x, i, u) }",
     {{0, 0}},
     FIXED},
    {"scatter_odd",
     G "(float[4,5] x, float[2,5] u, int64[2,5] i) => (y) { v = Log(u) y = ScatterElements<reduction = \"max\">(x, i, "
       "v) }",
     {{-2, 2}, {-2, 2}, {-4, 3.99}},
     FIXED},
    {"scatter_nd_max",
     G "(double[3,4] x, double[3] u) => (y) " TUPLES "{ y = ScatterND<reduction = \"max\">(x, i, u) }",
     {{0, 0}},
     FIXED},
    {0}};

TEST(scatter_values) { nc_cases_check_values(nc_scatter_cases); }
TEST(scatter_isas) { nc_cases_check_isas(nc_scatter_cases); }
TEST(scatter_gradients) { nc_cases_check_gradients(nc_scatter_cases); }

TEST(scatter_types) {
    CHECK_INFERS(G "(float[a,b,c] x, int64[a,s,1] i) => (y) { y = GatherND<batch_dims = 1>(x, i) }", "float[a,s,c]");
    CHECK_INFERS(G "(float[a,b] x, int64[c,b] i) => (y) { y = GatherElements(x, i) }", "float[c,b]");
    CHECK_INFERS(G "(float[a,b] x, int64[c] i) => (y) { y = GatherElements(x, i) }",
                 "indices has 1 dims, data 2: expected as many");
    CHECK_INFERS(G "(float[2,3] x, int64[4,3] i) => (y) { y = GatherND(x, i) }",
                 "indices pick along 3 dims behind 0 batch dims, data has 2");
    CHECK_INFERS(G "(float[2,3] x, int64[2,4] i, float[2,4] u) => (y) { y = ScatterElements(x, i, u) }",
                 "dim 1 of indices is 4, of data 3: expected no more");
}

/* Runs ScatterElements on given indices; what stands in *y stays where it fails. */
static nc_code scatter_run(const char *how, int64_t index, float with, float *y, nc_work *w) {
    char text[256], why[64];
    snprintf(text, sizeof text,
             G "(float[3] x, int64[2] i, float[2] u) => (y) { y = ScatterElements<reduction = \"%s\">(x, i, u) }", how);
    nc_model *m = test_model(w, nc_ops_registry(), text);
    if (m == NULL) return NC_E_FAIL;
    nc_prep prep = {.w = w, .arena = &w->scratch, .node = m->main->last};
    const nc_binding *b = nc_binding_find(prep.node, "cpu", why, sizeof why);
    float x[3] = {1, 2, 3}, u[2] = {with, 5};
    int64_t at[2] = {index, index};
    nc_tensor in[3] = {{.data = x, .dtype = NC_FLOAT, .rank = 1, .dims = {3}, .strides = {1}},
                       {.data = at, .dtype = NC_INT64, .rank = 1, .dims = {2}, .strides = {1}},
                       {.data = u, .dtype = NC_FLOAT, .rank = 1, .dims = {2}, .strides = {1}}};
    nc_tensor out = {.data = y, .dtype = NC_FLOAT, .rank = 1, .dims = {3}, .strides = {1}};
    nc_code code = b != NULL ? nc_binding_prepare(b, &prep) : NC_E_FAIL;
    nc_call c = {.state = prep.state,
                 .in = NC_OPERANDS(in, 3),
                 .n_in = 3,
                 .out = NC_OPERANDS(&out, 1),
                 .n_out = 1,
                 .diag = &w->diag,
                 .node = "n",
                 .op = "ScatterElements"};
    if (code == NC_OK) code = b->run(&c);
    nc_model_destroy(m);
    return code;
}

TEST(scatter_combines_in_order_and_checks_indices) {
    nc_work w;
    nc_work_init(&w);
    float y[3];
    CHECK_INT(scatter_run("add", -1, 4, y, &w), NC_OK);
    CHECK(y[0] == 1 && y[1] == 2 && y[2] == 12);
    CHECK_INT(scatter_run("mul", 0, 4, y, &w), NC_OK);
    CHECK(y[0] == 20);
    CHECK_INT(scatter_run("max", 1, NAN, y, &w), NC_OK);
    CHECK(isnan(y[1]));
    CHECK_INT(scatter_run("min", 1, -INFINITY, y, &w), NC_OK);
    CHECK(isinf(y[1]) && y[1] < 0);
    CHECK_INT(scatter_run("none", 3, 4, y, &w), NC_E_DATA);
    CHECK_DIAG(&w, "index 3 is out of range for an axis of 3");
    nc_work_release(&w);
    nc_work_init(&w);
    CHECK_INT(scatter_run("mean", 0, 4, y, &w), NC_E_UNSUPPORTED);
    CHECK_DIAG(&w, "reduction is 'mean'");
    nc_work_release(&w);
}
