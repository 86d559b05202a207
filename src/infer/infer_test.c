/* infer/infer_test.c: types of whole graphs, merging with declared types, refusals, shape arithmetic, subgraphs. */
#include "ops/cases_testing.h"
#include "tests/graph_testing.h"

#include "base/mem.h"

static const nc_type *type_of(const nc_model *m, const char *name) {
    const nc_value *v = nc_graph_find(m->main, name);
    return v != NULL ? v->type : NULL;
}

#define INFERS(source, ...)                                        \
    do {                                                           \
        nc_work w;                                                 \
        nc_work_init(&w);                                          \
        nc_model *m = test_model(&w, nc_ops_registry(), source);   \
        if (m == NULL)                                             \
            nc_test_failed(__FILE__, __LINE__, "%s", w.diag.text); \
        else {                                                     \
            __VA_ARGS__;                                           \
            nc_model_destroy(m);                                   \
        }                                                          \
        nc_work_release(&w);                                       \
    } while (0)

TEST(infer_broadcasts_constants_and_symbols) {
    INFERS("<opset: \"\" 17> g (float[batch,1,4] a, float[3,1] b) => (y) { t = Add(a, b) y = Tanh(t) }",
           CHECK_TYPE(type_of(m, "t"), "float[batch,3,4]");
           CHECK_TYPE(type_of(m, "y"), "float[batch,3,4]"));
    INFERS("<opset: \"\" 17> g (float[n] a, float[] b) => (y) { y = Mul(a, b) }",
           CHECK_TYPE(type_of(m, "y"), "float[n]"));
    INFERS("<opset: \"\" 17> g (float[n] a, float[5] b) => (y) { y = Mul(a, b) }",
           CHECK_TYPE(type_of(m, "y"), "float[5]"));
    INFERS("<opset: \"\" 17> g (float[0] a, float[1] b) => (y) { y = Mul(a, b) }",
           CHECK_TYPE(type_of(m, "y"), "float[0]"));
    INFERS("<opset: \"\" 17> g (float[...] a, float[1] b) => (y) { y = Mul(a, b) }",
           CHECK_TYPE(type_of(m, "y"), "float[...]"));
}

TEST(infer_unequal_symbols_broadcast_exactly) {
    INFERS("<opset: \"\" 17> g (float[n] a, float[k] b) => (y) { y = Add(a, b) }", {
        const nc_dim *d = type_of(m, "y")->dims[0];
        int64_t size, values[2];
        bool known[2] = {true, true};
        int n = nc_dim_sym_id(type_of(m, "a")->dims[0]), k = nc_dim_sym_id(type_of(m, "b")->dims[0]);
        static const int64_t rows[][3] = {{4, 4, 4}, {1, 4, 4}, {4, 1, 4}, {0, 1, 0}, {1, 0, 0}, {0, 0, 0}, {1, 1, 1}};
        for (int i = 0; i < 7; i++) {
            values[n] = rows[i][0];
            values[k] = rows[i][1];
            CHECK(nc_dim_eval(d, values, known, &size));
            CHECK_INT(size, rows[i][2]);
        }
    });
}

TEST(infer_element_types) {
    INFERS("<opset: \"\" 17> g (double[2] a, double[2] b) => (y) { c = Less(a, b) y = Where(c, a, b) }",
           CHECK_TYPE(type_of(m, "c"), "bool[2]");
           CHECK_TYPE(type_of(m, "y"), "double[2]"));
    INFERS("<opset: \"\" 17> g (int32[2] a, float[2] b) => (y) { y = Pow(a, b) }",
           CHECK_TYPE(type_of(m, "y"), "int32[2]"));
}

TEST(infer_refuses_wrong_operands) {
    CHECK_REFUSED("<opset: \"\" 17> g (float[2] a, double[2] b) => (y) { y = Add(a, b) }", NC_E_TYPE,
                  "Type Error: Type 'tensor(double)': input 1 (B) is double[2], expected float");
    CHECK_REFUSED("<opset: \"\" 17> g (int32[2] a) => (y) { y = Tanh(a) }", NC_E_TYPE,
                  "input 0 (input) is int32[2], expected float");
    CHECK_REFUSED("<opset: \"\" 12> g (uint8[2] a) => (y) { y = Add(a, a) }", NC_E_TYPE, "input 0 (A) is uint8[2]");
    CHECK_REFUSED("<opset: \"\" 17> g (float[2] a, int64[2] b, float[2] c) => (y) { y = Max(a, c, b) }", NC_E_TYPE,
                  "input 2 (data_0)");
    CHECK_REFUSED("<opset: \"\" 17> g (float[2,3] a, float[2] b) => (y) { y = Add(a, b) }", NC_E_SHAPE,
                  "input 1 has a dim of 2 where 3");
}

TEST(infer_merges_declared_types) {
    INFERS("<opset: \"\" 17> g (float[n,3] a) => (float[batch,3] y) { y = Neg(a) }",
           CHECK_TYPE(type_of(m, "y"), "float[n,3]"));
    INFERS("<opset: \"\" 17> g (float[n,3] a) => (float[7,3] y) { y = Neg(a) }",
           CHECK_TYPE(type_of(m, "y"), "float[n,3]"));
    INFERS("<opset: \"\" 17> g (float[...] a) => (float[7,k] y) { y = Neg(a) }",
           CHECK_TYPE(type_of(m, "y"), "float[7,k]"));
    INFERS("<opset: \"\" 17> g (float[2,3] a) => (float[2,4] y) { y = Neg(a) }",
           CHECK_TYPE(type_of(m, "y"), "float[2,3]"));
    INFERS("<opset: \"\" 17> g (float[2,3] a) => (float[6] y) { y = Neg(a) }",
           CHECK_TYPE(type_of(m, "y"), "float[2,3]"));
    CHECK_REFUSED("<opset: \"\" 17> g (float[2,3] a) => (double[2,3] y) { y = Neg(a) }", NC_E_TYPE,
                  "declares 'y' as double[2,3], but it is float[2,3]");
}

TEST(infer_old_broadcast) {
    INFERS("<opset: \"\" 6> g (float[2,3,4] a, float[3,4] b) => (y) { y = Add<broadcast = 1, axis = 1>(a, b) }",
           CHECK_TYPE(type_of(m, "y"), "float[2,3,4]"));
    INFERS("<opset: \"\" 6> g (float[2,3,4] a, float[4] b) => (y) { y = Add<broadcast = 1>(a, b) }",
           CHECK_TYPE(type_of(m, "y"), "float[2,3,4]"));
    INFERS("<opset: \"\" 6> g (float[2,3,4] a, float[3] b) => (y) { y = Add<broadcast = 1, axis = 1>(a, b) }",
           CHECK_TYPE(type_of(m, "y"), "float[2,3,4]"));
    CHECK_REFUSED("<opset: \"\" 6> g (float[2,3,4] a, float[2] b) => (y) { y = Add<broadcast = 1, axis = 1>(a, b) }",
                  NC_E_SHAPE, "axis 1 of 3");
    CHECK_REFUSED("<opset: \"\" 6> g (float[2,3] a, float[3] b) => (y) { y = Add<broadcast = 1, axis = 2>(a, b) }",
                  NC_E_SHAPE, "fits into A");
}

static void check_elems(const nc_model *m, const char *name, const char *want) {
    const nc_value *v = nc_graph_find(m->main, name);
    nc_text t = {0};
    for (int i = 0; v != NULL && v->elems != NULL && i < v->n_elems; i++) {
        if (i > 0) nc_text_add(&t, " ");
        nc_dim_print(&t, v->elems[i]);
    }
    if (t.s == NULL) nc_text_add(&t, "unknown");
    CHECK_STR(t.s, want);
    nc_text_release(&t);
}

TEST(infer_folds_shape_arithmetic) {
    INFERS(
        "<opset: \"\" 17> g (float[1] x) => (y, d, e, w, n, f, z) <const int64[2] a = {7, -7}, const int64[1] b = {2}, "
        "const int64[1] c = {0}> { y = Add(a, b) d = Div(a, b) e = Equal(a, y) l = Less(a, b) w = Where(l, a, b) n = "
        "Neg(a) "
        "f = Div(a, c) z = Max(a, b) }",
        check_elems(m, "y", "9 -5");
        check_elems(m, "d", "3 -3"); check_elems(m, "e", "0 0"); check_elems(m, "w", "2 -7");
        check_elems(m, "n", "-7 7"); check_elems(m, "f", "unknown"); check_elems(m, "z", "7 2"));
}

TEST(infer_folds_symbols_only_where_certain) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = NULL;
    REQUIRE(nc_graph_parse(
                &w,
                "<opset: \"\" 17> g (int64[2] s) => (y, d, e, q) <const int64[1] two = {2}, const int64[1] five = {5}, "
                "const int64[1] neg = {-1}> { y = Mul(s, two) d = Div(s, two) e = Equal(s, neg) t = Sub(s, five) "
                "q = Div(t, two) }",
                nc_ops_registry(), &m) == NC_OK);
    const nc_dim *elems[2] = {nc_dim_sym(m->dims, "h"), nc_dim_const(m->dims, 6)};
    nc_value *s = nc_graph_find(m->main, "s");
    s->elems = elems;
    s->n_elems = 2;
    CHECK_INT(nc_infer_model(&w, m), NC_OK);
    check_elems(m, "y", "2*h 12");
    check_elems(m, "e", "0 0");
    check_elems(m, "q", "unknown");
    const nc_value *d = nc_graph_find(m->main, "d");
    CHECK(d->elems != NULL && d->elems[0] == nc_dim_floordiv(m->dims, elems[0], nc_dim_const(m->dims, 2)));
    nc_model_destroy(m);
    nc_work_release(&w);
}

TEST(infer_chain_body) {
    INFERS("<opset: \"\" 17, \"nacre\" 1> g (float[n,4] x, float[4] b) => (y, c) { y, c = nacre.Chain<body = { (p, q) "
           "=> (t, u) "
           "{ s = Add(p, q) t = Tanh(s) u = Less(s, q) } }>(x, b) }",
           CHECK_TYPE(type_of(m, "y"), "float[n,4]");
           CHECK_TYPE(type_of(m, "c"), "bool[n,4]"));
    CHECK_REFUSED(
        "<opset: \"\" 17, \"nacre\" 1> g (float[n,4] x) => (y) { y = nacre.Chain<body = { (p, q) => (t) { t = Add(p, "
        "q) } }>(x) }",
        NC_E_BAD_GRAPH, "body");
}

TEST(infer_survives_every_failed_allocation) {
    for (uint64_t i = 1; i < 400; i++) {
        nc_work w;
        nc_work_init(&w);
        nc_model *m = NULL;
        REQUIRE(nc_graph_parse(&w,
                               "<opset: \"\" 17> g (float[n] a, float[k] b) => (y) <const int64[2] c = {1, 2}> "
                               "{ y = Add(a, b) z = Mul(c, c) }",
                               nc_ops_registry(), &m) == NC_OK);
        nc_mem_fail_at(i);
        nc_code code = nc_infer_model(&w, m);
        bool hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
        if (hit && code != NC_OK) CHECK_INT(code, NC_E_MEMORY);
        if (!hit) CHECK_INT(code, NC_OK);
        nc_model_destroy(m);
        nc_work_release(&w);
        if (!hit) return;
    }
}
