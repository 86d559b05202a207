/* transform/transform_test.c: each pass on graphs as text, before and after; the manager's choice of passes. */
#include "tests/passes.h"

#include "base/mem.h"
#include "ir/edit.h"

TEST(identity_is_left_out) {
    BECOMES("(float[n] x) => (y) { a = Identity(x); b = Identity(a); y = Neg(b) }", "identity dead_code",
            "=> (float[n] y)\n{\n  y = Neg(x)\n}\n");
    BECOMES("(float[n] x) => (y) { t = Neg(x); y = Identity(t) }", "identity dead_code",
            "=> (float[n] y = t)\n{\n  t = Neg(x)\n}\n");
    BECOMES("(float[n] x) => (y) { y = Identity(x) }", "identity dead_code", "=> (float[n] y = x)\n{\n}\n");
    BECOMES("(float[3] x) => (y) { t = Transpose<perm = [0]>(x); y = Neg(t) }", "identity dead_code",
            "=> (float[3] y)\n{\n  y = Neg(x)\n}\n");
}

TEST(identity_keeps_types_and_variables) {
    BECOMES("(float[n] x) => (y) { float[7] t = Identity(x); y = Neg(t) }", "identity dead_code",
            "=> (float[7] y)\n{\n  t = Identity(x)\n  y = Neg(t)\n}\n");
    BECOMES("(float[2] x) => (y) <var float[2] v = {0, 0}> { y = Identity(v) }", "identity dead_code",
            "=> (float[2] y)\n<var float[2] v = float[2] {0, 0}>\n{\n  y = Identity(v)\n}\n");
}

TEST(dead_code_goes) {
    BECOMES("(float[n] x) => (y) { a = Neg(x); b = Abs(a); y = Neg(x) }", "dead_code",
            "=> (float[n] y)\n{\n  y = Neg(x)\n}\n");
    BECOMES("(float[n] x) => () { a = Neg(x) }", "dead_code", "=> ()\n{\n}\n");
    BECOMES("(float[2] x) => () <var float[2] v = {0, 0} -> w> { w = Add(v, x); t = Neg(w) }", "dead_code",
            "=> ()\n<var float[2] v = float[2] {0, 0} -> w>\n{\n  w = Add(v, x)\n}\n");
}

TEST(constants_are_folded) {
    BECOMES("(float[2] x) => (y) <const float[2] a = {1, 2}, const float[2] b = {3, 5}> { s = Add(a, b); t = Neg(s); "
            "y = Mul(x, t) }",
            "fold_constants dead_code",
            "=> (float[2] y)\n<const float[2] t_value = {-4, -7}>\n{\n  y = Mul(x, t_value)\n}\n");
    /* Elements of less than a byte are folded too. */
    BECOMES_AT("21",
               "(int8[3,1] x) => (y) <const int4[1,3] a = {-8, 7, 1}, const int64[2] s = {3, 1}> "
               "{ int4[3,1] t = Reshape(a, s); int8[3,1] c = Cast<to = 3>(t); y = Add(x, c) }",
               "fold_constants dead_code",
               "=> (int8[3,1] y)\n<const int8[3,1] c_value = {-8, 7, 1}>\n{\n  y = Add(x, c_value)\n}\n");
    /* A variable is no constant. */
    BECOMES("(float[2] x) => (y) <const float[2] a = {1, 2}, var float[2] v = {0, 0}> { s = Add(a, v); y = Mul(x, s) }",
            "fold_constants dead_code",
            "=> (float[2] y)\n<const float[2] a = {1, 2},\n var float[2] v = float[2] {0, 0}>\n"
            "{\n  s = Add(a, v)\n  y = Mul(x, s)\n}\n");
}

/* What training may make a variable is no constant yet. */
TEST(floats_are_not_folded_before_a_gradient) {
    BECOMES_TRAINING(
        "(float[2] x, int64[2] i) => (y, j) <const float[2] a = {1, 2}, const int64[2] b = {3, 5}> { "
        "s = Neg(a); y = Mul(x, s); t = Neg(b); j = Mul(i, t) }",
        "fold_constants dead_code",
        "=> (float[2] y, int64[2] j)\n<const float[2] a = {1, 2},\n const int64[2] b = {3, 5},\n"
        " const int64[2] t_value = {-3, -5}>\n{\n  s = Neg(a)\n  y = Mul(x, s)\n  j = Mul(i, t_value)\n}\n");
}

TEST(passes_reach_subgraphs) {
    bench b;
    REQUIRE(bench_init(&b, "<opset: \"\" 17, \"nacre\" 1> g (float[n] x, float[n] z) => (y) { d = Abs(z); y = "
                           "nacre.Chain<body = { (float[n] p) "
                           "=> (t) { u = Add(p, ^d); t = Neg(p) } }>(x) }"));
    nc_node *chain = b.m->main->last;
    CHECK_INT(chain->n_operands, 2);
    CHECK_INT(nc_transform(&b.w, b.m, &(nc_transform_options){.level = 1}), NC_OK);
    CHECK_INT(chain->subs[0].graph->n_nodes, 1);
    CHECK_INT(chain->n_operands, 1); /* what is no longer used inside is no longer captured */
    CHECK_INT(b.m->main->n_nodes, 1);
    CHECK_INT(nc_verify(&b.w, b.m), NC_OK);
    bench_release(&b);
}

TEST(transform_survives_every_failed_allocation) {
    for (uint64_t i = 1; i < 400; i++) {
        bench b;
        REQUIRE(bench_init(&b, "<opset: \"\" 17> g (float[n] x) => (y) { i = Identity(x); a = Neg(i); b = Neg(i); "
                               "k = Constant<value_float = 2>(); c = Mul(a, b); y = Mul(c, k) }"));
        const nc_literal two = {
            .dtype = NC_FLOAT, .n = 1, .data = &(const float){2}, .bytes = 4, .dims = (const int64_t[]){1}};
        nc_graph_find(b.m->main, "k")->lit = &two;
        nc_mem_fail_at(i);
        nc_code code = nc_transform(&b.w, b.m, &(nc_transform_options){.level = 1});
        bool hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
        CHECK(code == NC_OK || (hit && code == NC_E_MEMORY));
        if (!hit) CHECK_INT(b.m->main->n_nodes, 3);
        bench_release(&b);
        if (!hit) return;
    }
}

static const char everything[] =
    "<opset: \"\" 20> g (float[n,1,2,2] x, float[n,4] z, float[4] s, float[8,3] b) => (y, w, v) <const float[2,1,1,1] "
    "k = {2, 4}, "
    "const float[2,1,1] f = {3, 5}, const float[] one = {1}, const float[] half = {0.5}, const float[] root = "
    "{1.4142135}, "
    "const int64[1] flat = {-1}, const int64[2] two = {-1, 8}, const bool[] yes = {1}, const float[] two_f = {2}, "
    "const int64[1] last = {-1}> { "
    "float[n,2,2,2] c = Conv(x, k); d = Mul(c, f); float[8*n] e = Reshape(d, flat); float[n,8] h = Reshape(e, two); "
    "double[n,8] i = Cast<to = 11>(h); float[n,8] j = Cast<to = 1>(i); float[n,3] m = MatMul(j, b); float[3,n] t = "
    "Transpose(m); float[n,3] u = Transpose(t); float[n,6] o = Concat<axis = 1>(u, m); float[n,9] p = Concat<axis = "
    "1>(o, m); "
    "float[n,9] y = If<then_branch = { () => (r) { float[n,9] r = Neg(^p) } }, else_branch = { () => (q) { float[n,9] "
    "q = "
    "Abs(^p) } }>(yes); "
    "g1 = Mul(z, half); g2 = Div(z, root); g3 = Erf(g2); g4 = Add(g3, one); w = Mul(g1, g4); "
    "float[n,1] l1 = ReduceMean(z, last); l2 = Sub(z, l1); l3 = Pow(l2, two_f); float[n,1] l4 = ReduceMean(l3, last); "
    "l5 = Add(l4, half); l6 = Sqrt(l5); l7 = Div(l2, l6); v = Mul(l7, s) }";

TEST(all_passes_survive_every_failed_allocation) {
    for (uint64_t i = 1; i < 4000; i++) {
        bench b;
        REQUIRE(bench_init(&b, everything));
        b.m->infers_only = true;
        nc_mem_fail_at(i);
        nc_code code = nc_transform(&b.w, b.m, &(nc_transform_options){.level = 3});
        bool hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
        CHECK(code == NC_OK || (hit && code == NC_E_MEMORY));
        if (!hit) CHECK_INT(b.m->main->n_nodes, 7); /* Conv, Reshape, MatMul, Concat, Neg, Gelu, LayerNormalization */
        bench_release(&b);
        if (!hit) return;
    }
    CHECK(false);
}

TEST(dead_code_keeps_variables) {
    bench b;
    REQUIRE(bench_init(
        &b, "<opset: \"\" 17> g (float[2,1] x) => () <var float[2,k] v> { w = Concat<axis = 1>(v, x); t = Neg(w) }"));
    nc_edit_set_version(b.m->main->vars.v[0], nc_graph_find(b.m->main, "w"));
    CHECK_INT(nc_transform(&b.w, b.m, &(nc_transform_options){.level = 1}), NC_OK);
    CHECK_INT(b.m->main->n_nodes, 1);
    CHECK_STR(b.m->main->first->card->name, "Concat");
    bench_release(&b);
}

TEST(equal_nodes_are_merged) {
    BECOMES("(float[n] x, float[n] z) => (y) { a = Add(x, z); b = Add(z, x); y = Mul(a, b) }",
            "common_subexpressions dead_code", "=> (float[n] y)\n{\n  a = Add(x, z)\n  y = Mul(a, a)\n}\n");
    BECOMES(
        "(float[n] x) => (y) <const float[] c = {2}, const float[] d = {2}> { a = Mul(x, c); b = Mul(x, d); y = Sub(a, "
        "b) }",
        "common_subexpressions dead_code",
        "=> (float[n] y)\n<const float[] c = {2}>\n{\n  a = Mul(x, c)\n  y = Sub(a, a)\n}\n");
    BECOMES("(float[n] x) => (y) { a = Elu<alpha = 2>(x); b = Elu<alpha = 3>(x); y = Sub(a, b) }",
            "common_subexpressions dead_code",
            "=> (float[n] y)\n{\n  a = Elu<alpha = 2.0>(x)\n  b = Elu<alpha = 3.0>(x)\n  y = Sub(a, b)\n}\n");
    BECOMES("(float[n] x, float[n] z) => (y) { a = Sub(x, z); b = Sub(z, x); y = Mul(a, b) }",
            "common_subexpressions dead_code",
            "=> (float[n] y)\n{\n  a = Sub(x, z)\n  b = Sub(z, x)\n  y = Mul(a, b)\n}\n");
}

TEST(equal_nodes_apart_stay_apart) {
    BECOMES(
        "(float[n] x) => (y) { a = Neg(x); b = Neg(x) @stage=1; c = Neg(x) @recompute; d = Mul(a, b); y = Mul(d, c) }",
        "common_subexpressions dead_code",
        "=> (float[n] y)\n{\n  a = Neg(x)\n  b = Neg(x) @stage=1\n  c = Neg(x) @recompute\n  d = Mul(a, b)\n  y = "
        "Mul(d, c)\n}\n");
    BECOMES("(float[n] x) => (y) { int64[1,k] a = NonZero(x); int64[1,j] b = NonZero(x); y = Sub(a, b) }",
            "common_subexpressions dead_code",
            "=> (int64[1,k] y)\n{\n  a = NonZero(x)\n  b = NonZero(x)\n  y = Sub(a, b)\n}\n");
}

TEST(known_sizes_become_constants) {
    bench b;
    REQUIRE(bench_init(
        &b,
        "<opset: \"\" 17> g (float[n,4] x) => (y) { int64[2] s = Shape(x); int64[1] k = Size(x); y = Reshape(x, s) }"));
    nc_value *s = nc_graph_find(b.m->main, "s");
    const nc_dim *elems[2] = {nc_dim_sym(b.m->dims, "n"), nc_dim_const(b.m->dims, 4)};
    s->elems = elems;
    s->n_elems = 2;
    static const char *const off[] = {"identity", "reshapes"};
    CHECK_INT(nc_transform(&b.w, b.m, &(nc_transform_options){.level = 1, .off = off, .n_off = 2}), NC_OK);
    CHECK(s->uses.n == 1); /* a symbol is not a constant */
    elems[0] = nc_dim_const(b.m->dims, 3);
    CHECK_INT(nc_transform(&b.w, b.m, &(nc_transform_options){.level = 1, .off = off, .n_off = 2}), NC_OK);
    const nc_value *c = nc_graph_find(b.m->main, "y")->def->in[1];
    REQUIRE(c->origin == NC_FROM_CONST && c->lit != NULL);
    int64_t v[2], n;
    CHECK(nc_literal_ints(c->lit, v, 2, &n) && n == 2 && v[0] == 3 && v[1] == 4);
    CHECK_INT(b.m->main->n_nodes, 1);
    CHECK_INT(nc_verify(&b.w, b.m), NC_OK);
    bench_release(&b);
}

TEST(passes_are_chosen_by_level_and_name) {
    bench b;
    REQUIRE(bench_init(&b, "<opset: \"\" 17> g (float[n] x) => (y) { t = Neg(x); y = Neg(x) }"));
    static const char *const wrong[] = {"dead_code", "no_such_pass"};
    CHECK_INT(nc_transform(&b.w, b.m, &(nc_transform_options){.level = 0}), NC_OK);
    CHECK_INT(b.m->main->n_nodes, 2);
    static const char *const both[] = {"common_subexpressions", "dead_code"};
    CHECK_INT(
        nc_transform(&b.w, b.m, &(nc_transform_options){.level = 1, .after_gradient = true, .off = both, .n_off = 2}),
        NC_OK);
    CHECK_INT(b.m->main->n_nodes, 2);
    CHECK_INT(nc_transform(&b.w, b.m, &(nc_transform_options){.level = 1, .off = wrong, .n_off = 2}), NC_E_ARGUMENT);
    CHECK(strstr(b.w.diag.text, "no pass is called 'no_such_pass'; there are branches, identity, ") != NULL);
    CHECK_INT(nc_transform(&b.w, b.m, &(nc_transform_options){.level = 1, .after_gradient = true}), NC_OK);
    CHECK_INT(b.m->main->n_nodes, 1);
    const char *doc = NULL;
    CHECK_STR(nc_transform_name(1, NULL, &doc), "identity");
    CHECK(doc != NULL && nc_transform_name(MAX_PASSES, NULL, NULL) == NULL);
    bench_release(&b);
}

/* Scratch is what the hungriest pass needs, however many there are and however often they run. */
TEST(passes_share_their_scratch) {
    bench b;
    REQUIRE(bench_init(&b, "<opset: \"\" 20> g (float[n] x) => (y) { a = Neg(x); b = Abs(a); y = Neg(b) }"));
    b.m->infers_only = true;
    for (int i = 0; i < 3; i++)
        CHECK_INT(nc_transform(&b.w, b.m, &(nc_transform_options){.level = 3, .newer = true}), NC_OK);
    CHECK(b.w.scratch.total < 100000);
    bench_release(&b);
}
