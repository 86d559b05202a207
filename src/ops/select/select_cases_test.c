/* ops/select/select_cases_test.c: the cases of the select family (ops/cases.h), and what they cannot say: ties, NaN,
 * sizes found by the kernel. */
#include "ops/cases_testing.h"

#include "kernels/cpu/index/index.h"
#include "kernels/cpu/index/order.h"
#include "tests/graph_testing.h"

extern const nc_case nc_select_cases[];

#define G "<opset: \"\" 22, \"nacre\" 1> g "
#define FIXED NC_CASE_NO_GRAD | NC_CASE_EXACT
#define K(n) "<const int64[1] k = {" #n "}> "

const nc_case nc_select_cases[] = {
    {"topk", G "(float[3,n] x) => (y, i) " K(3) "{ y, i = TopK(x, k) }", {{0, 0}}, NC_CASE_EXACT},
    {"topk_smallest",
     G "(float[n,4] x) => (y, i) " K(2) "{ y, i = TopK<axis = 0, largest = 0>(x, k) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"topk_none", G "(float[3,4] x) => (y, i) " K(0) "{ y, i = TopK(x, k) }", {{0, 0}}, FIXED},
    {"topk_half", G "(float16[3,9] x) => (y, i) " K(9) "{ y, i = TopK(x, k) }", {{0, 0}}, FIXED},
    {"topk_many", G "(float[5,150] x) => (y, i) " K(100) "{ y, i = TopK(x, k) }", {{-3, 3}}, FIXED},
    {"topk_equal",
     G "(int32[70,3] x) => (y, i) " K(66) "{ y, i = TopK<axis = 0, largest = 0>(x, k) }",
     {{-2, 2}},
     FIXED},
    {"topk_bytes", G "(uint8[300,40] x) => (y, i) " K(5) "{ y, i = TopK(x, k) }", {{0, 20}}, FIXED},
    {"topk_long", G "(int64[3,40] x) => (y, i) " K(5) "{ y, i = TopK<sorted = 0>(x, k) }", {{-9, 9}}, FIXED},
    {"topk_of_long_lines", G "(float[3,5000] x) => (y, i) " K(10) "{ y, i = TopK(x, k) }", {{-3, 3}}, FIXED},
    {"topk_of_long_equals", G "(int8[2,9000] x) => (y, i) " K(900) "{ y, i = TopK(x, k) }", {{-9, 9}}, FIXED},
    {"topk_sorts_long_lines",
     G "(float16[2,3000] x) => (y, i) " K(3000) "{ t = Log(x) y, i = TopK(t, k) }",
     {{-1, 3}},
     NC_CASE_NO_GRAD},
    {"topk_of_long_columns",
     G "(double[4500,2] x) => (y, i) " K(1500) "{ y, i = TopK<axis = 0, largest = 0>(x, k) }",
     {{-3, 3}},
     FIXED},
    {"topk_old",
     "<opset: \"\" 9> g (float[3,n] x) => (y, i) { y, i = TopK<k = 2>(x) }",
     {{0, 0}},
     NC_CASE_NO_GRAD | NC_CASE_EXACT},
    {"onehot",
     G "(int64[n] x) => (y) <const int64[] d = {5}, const float[2] v = {-1, 2}> { y = OneHot(x, d, v) }",
     {{-7, 7}},
     FIXED},
    {"onehot_first",
     G "(float[2,3] x) => (y) <const float[1] d = {4}, const int32[2] v = {0, 1}> { y = OneHot<axis = 0>(x, d, v) }",
     {{0, 4}},
     FIXED},
    {"compress",
     G "(float[3,n] x) => (y) <const bool[3] c = {1, 0, 1}> { y = Compress<axis = 0>(x, c) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"compress_flat",
     G "(int32[3,2] x) => (y) <const bool[4] c = {1, 0, 0, 1}> { y = Compress(x, c) }",
     {{-9, 9}},
     FIXED},
    {"compress_none",
     G "(float[2,0] x) => (y) <const bool[1] c = {0}> { y = Compress<axis = -1>(x, c) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"onehot_values",
     G "(float[2] v) => (y) <const int64[3] x = {0, -1, 9}, const int64[] d = {5}> { y = OneHot(x, d, v) }",
     {{0, 0}},
     NC_CASE_EXACT},
    {"unique", G "(int64[4,9] x) => (y, a, b, c) { y, a, b, c = Unique(x) }", {{-5, 5}}, FIXED},
    {"unique_unsorted", G "(uint8[40] x) => (y, a, b, c) { y, a, b, c = Unique<sorted = 0>(x) }", {{0, 9}}, FIXED},
    {"unique_rows", G "(int32[30,2] x) => (y, a, b, c) { y, a, b, c = Unique<axis = 0>(x) }", {{0, 3}}, FIXED},
    {"unique_columns", G "(int8[2,30] x) => (y) { y = Unique<axis = 1>(x) }", {{0, 3}}, FIXED},
    {"unique_many", G "(float16[3,200] x) => (y, a, b, c) { y, a, b, c = Unique<sorted = 0>(x) }", {{-1, 1}}, FIXED},
    {"unique_middle", G "(bool[3,40,2] x) => (y, a, b, c) { y, a, b, c = Unique<axis = -2>(x) }", {{0, 2}}, FIXED},
    {"unique_sorted_in_pieces",
     G "(int64[9000] x, float16[4,2100] h, double[3000] d) => (y, a, b, c, r, s, t, u, v) { y, a, b, c = Unique(x) "
       "r, s, t, u = Unique<sorted = 0>(h) e = Div(d, d) f = Mul(d, e) v = Unique(f) }",
     {{-3e9, 3e9}, {-1, 1}, {-0.01, 0.01}},
     FIXED},
    {"unique_rows_in_pieces",
     G "(int32[3000,3] x, uint8[2,5000] b) => (y, s, t, u, c) { y, s, t, u = Unique<axis = 0, sorted = 0>(x) "
       "c = Unique<axis = 1>(b) }",
     {{-3, 3}, {0, 60}},
     FIXED},
    {"unique_middle_unsorted", G "(double[2,70,1] x) => (y) { y = Unique<axis = 1, sorted = 0>(x) }", {{0, 1}}, FIXED},
    {"unique_of_nothing", G "(double[5,0] x) => (y, a, b, c) { y, a, b, c = Unique<axis = 0>(x) }", {{0, 0}}, FIXED},
    {"unique_nan",
     G "(float[40] x) => (y, a, b, c) { z = Floor(x) q = Div(z, z) y, a, b, c = Unique(q) }",
     {{-1, 1}},
     FIXED},
    {"unique_empty", G "(float[0] x) => (y, a, b, c) { y, a, b, c = Unique(x) }", {{0, 0}}, FIXED},
    {0}};

TEST(select_values) { nc_cases_check_values(nc_select_cases); }
TEST(select_isas) { nc_cases_check_isas(nc_select_cases); }
TEST(select_gradients) { nc_cases_check_gradients(nc_select_cases); }

TEST(topk_orders_nan_and_equals) {
    float x[6] = {1, NAN, 3, 3, -INFINITY, INFINITY}, values[6];
    int64_t at[6], heap[6];
    nck_topk t = {.type = NC_FLOAT,
                  .outer = 1,
                  .axis = 6,
                  .inner = 1,
                  .k = 6,
                  .largest = true,
                  .x = x,
                  .values = values,
                  .indices = at};
    static const int64_t falling[6] = {1, 5, 2, 3, 0, 4}, rising[6] = {4, 0, 2, 3, 5, 1};
    nck_topk_run(&t, heap, NULL);
    CHECK(memcmp(at, falling, sizeof at) == 0);
    CHECK(isnan(values[0]) && values[1] == INFINITY);
    t.largest = false;
    nck_topk_run(&t, heap, NULL);
    CHECK(memcmp(at, rising, sizeof at) == 0);
}

/* Long lines against one taken after another; ends, equals, infinities and NaN lie anywhere. */
TEST(topk_long_lines) {
    enum { N = 101, K = 7 };
    float x[N], values[K];
    int64_t at[K], heap[K];
    for (int way = 0; way < 20; way++) {
        bool taken[N] = {false};
        nck_topk t = {.type = NC_FLOAT, .outer = 1, .axis = N, .inner = 1, .k = K, .largest = way % 2 == 0};
        t.x = x, t.values = values, t.indices = at;
        for (int i = 0; i < N; i++) x[i] = (float)((i * 7919 + way * 31) % 53) - 20;
        if (way > 4) x[way * 5] = NAN, x[N - 1] = way % 4 == 1 ? NAN : INFINITY, x[way] = -INFINITY;
        if (way > 14) x[0] = x[1] = x[2] = NAN;
        nck_topk_run(&t, heap, NULL);
        for (int k = 0; k < K; k++) {
            int best = -1;
            for (int i = 0; i < N; i++) {
                int c = best < 0 ? 0 : nck_order_f32(x[i], x[best]);
                if (!taken[i] && (best < 0 || (t.largest ? c > 0 : c < 0))) best = i;
            }
            taken[best] = true;
            CHECK_INT(at[k], best);
        }
    }
}

TEST(unique_counts_and_order) {
    float x[7] = {2, NAN, -1, 2, NAN, -0.0f, 0};
    int64_t first[7], count[7], inverse[7], order[7], scratch[7];
    nck_unique u = {.type = NC_FLOAT,
                    .x = x,
                    .n = 7,
                    .row_stride = 1,
                    .outers = 1,
                    .inners = 1,
                    .sorted = true,
                    .first = first,
                    .count = count,
                    .inverse = inverse,
                    .order = order,
                    .scratch = scratch};
    CHECK_INT(nck_unique_run(&u), 4);
    static const int64_t sorted_first[4] = {2, 5, 0, 1}, sorted_count[4] = {1, 2, 2, 2};
    static const int64_t sorted_inverse[7] = {2, 3, 0, 2, 3, 1, 1};
    CHECK(memcmp(first, sorted_first, sizeof sorted_first) == 0);
    CHECK(memcmp(count, sorted_count, sizeof sorted_count) == 0);
    CHECK(memcmp(inverse, sorted_inverse, sizeof sorted_inverse) == 0);
    u.sorted = false;
    CHECK_INT(nck_unique_run(&u), 4);
    static const int64_t seen_first[4] = {0, 1, 2, 5}, seen_inverse[7] = {0, 1, 2, 0, 1, 3, 3};
    CHECK(memcmp(first, seen_first, sizeof seen_first) == 0);
    CHECK(memcmp(inverse, seen_inverse, sizeof seen_inverse) == 0);
}

TEST(select_types) {
    CHECK_INFERS(G "(float[a,b] x) => (y, i) " K(3) "{ y, i = TopK<axis = 0>(x, k) }", "float[3,b]");
    CHECK_INFERS(G "(float[a,2] x) => (y, i) " K(3) "{ y, i = TopK(x, k) }", "K is 3, the axis has 2 elements");
    CHECK_INFERS(
        G "(int64[a] x) => (y) <const float[] d = {3}, const double[2] v = {0, 1}> { y = OneHot<axis = 0>(x, d, v) }",
        "double[3,a]");
#define DEPTH(type, v) \
    G "(int64[a] x) => (y) <const " type "[] d = {" v "}, const float[2] v = {0, 1}> { y = OneHot(x, d, v) }"
    CHECK_INFERS(DEPTH("float16", "2.5"), "float[a,2]");
    CHECK_INFERS(DEPTH("double", "0"), "float[a,0]");
    CHECK_REFUSED(DEPTH("float", "nan"), NC_E_DATA, "depth is nan, expected a number that int64 holds");
    CHECK_REFUSED(DEPTH("float", "inf"), NC_E_DATA, "depth is inf");
    CHECK_REFUSED(DEPTH("double", "9223372036854775808"), NC_E_DATA, "depth is 9.22337e+18");
    CHECK_REFUSED(DEPTH("double", "-1"), NC_E_SHAPE, "depth is -1, expected 0 or more");
#undef DEPTH
    CHECK_INFERS(G "(float[a,b] x, bool[c] k) => (y) { y = Compress<axis = 1>(x, k) }", "float[a,Compress_2_n]");
}

/* No index, from neither end: the row stays off. -1 counts from the end, fractions are cut. */
TEST(onehot_of_odd_indices) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(),
                             G "(double[7] x) => (y) <const int64[] d = {2}, const int32[2] v = {0, 1}> "
                               "{ y = OneHot(x, d, v) }");
    REQUIRE(m != NULL);
    char why[64];
    nc_prep prep = {.w = &w, .arena = &w.scratch, .node = m->main->last};
    const nc_binding *b = nc_binding_find(prep.node, "cpu", why, sizeof why);
    REQUIRE(b != NULL && nc_binding_prepare(b, &prep) == NC_OK);
    double at[7] = {NAN, INFINITY, -INFINITY, 1e300, 1.75, -1, 2};
    int64_t depth = 2;
    int32_t values[2] = {0, 1}, y[14];
    nc_tensor in[3] = {{.data = at, .dtype = NC_DOUBLE, .rank = 1, .dims = {7}, .strides = {1}},
                       {.data = &depth, .dtype = NC_INT64},
                       {.data = values, .dtype = NC_INT32, .rank = 1, .dims = {2}, .strides = {1}}};
    nc_tensor out = {.data = y, .dtype = NC_INT32, .rank = 2, .dims = {7, 2}, .strides = {2, 1}};
    nc_call c = {.state = prep.state,
                 .in = NC_OPERANDS(in, 3),
                 .n_in = 3,
                 .out = NC_OPERANDS(&out, 1),
                 .n_out = 1,
                 .diag = &w.diag,
                 .node = "n",
                 .op = "OneHot"};
    CHECK_INT(b->run(&c), NC_OK);
    static const int32_t want[14] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0};
    CHECK(memcmp(y, want, sizeof want) == 0);
    uint64_t big[7] = {UINT64_MAX, 1};
    in[0].data = big;
    in[0].dtype = NC_UINT64;
    CHECK_INT(b->run(&c), NC_OK);
    CHECK(y[0] == 0 && y[1] == 0 && y[2] == 0 && y[3] == 1);
    nc_model_destroy(m);
    nc_work_release(&w);
}
