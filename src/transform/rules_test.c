/* transform/rules_test.c: rules of users, before and after, and how malformed ones are refused. */
#include "tests/passes.h"

#include "tests/graph_testing.h"
#include "transform/rules.h"

static nc_code apply_rules(bench *b, const char *rules) {
    const char *off[] = {"activations", "normalizations", "attention", "gemms"};
    nc_rules r;
    NC_TRY(nc_rules_parse(&b->w, &b->m->arena, rules, &r));
    b->m->infers_only = true;
    return nc_transform(&b->w, b->m, &(nc_transform_options){.level = 3, .off = off, .n_off = 4, .rules = &r});
}

static void check_rules(const char *file, int line, const char *rules, const char *graph, const char *want) {
    char text[1200];
    nc_text got = {0};
    bench b;
    snprintf(text, sizeof text, "<opset: \"\" 20> g %s", graph);
    if (bench_init(&b, text)) {
        nc_code code = apply_rules(&b, rules);
        if (code != NC_OK) nc_test_failed(file, line, "%s: %s", rules, b.w.diag.text);
        CHECK_INT(nc_verify(&b.w, b.m), NC_OK);
        nc_graph_print(&got, b.m);
        const char *body = strchr(got.s, '{');
        while (body != NULL && strchr(body + 1, '{') != NULL) body = strchr(body + 1, '{');
        if (body == NULL || strcmp(body, want) != 0) nc_test_failed(file, line, "is: %s, expected: %s", body, want);
        nc_text_release(&got);
    }
    bench_release(&b);
}
#define MAKES(rules, graph, want) check_rules(__FILE__, __LINE__, rules, graph, "{\n  " want "\n}\n")

TEST(rules_make_ops) {
    MAKES("leaky: Max(x, Mul(x, $a)) => LeakyRelu<alpha = $a>(x)",
          "(float[n] x) => (y) <const float[] a = {0.25}> { m = Mul(a, x) y = Max(x, m) }",
          "y = LeakyRelu<alpha = 0.25>(x)");
    MAKES("// a comment\n gelu:\n  Mul(x, // another\n  Sigmoid(Mul(x, 1.702)))\n  => com.microsoft.QuickGelu(x)\n",
          "(float[n] x) => (y) <const float[] a = {1.702}> { m = Mul(x, a) s = Sigmoid(m) y = Mul(s, x) }",
          "y = com.microsoft.QuickGelu(x)");
    MAKES("first: Relu(Neg(x)) => Abs(x) second: Sqrt(Exp(x)) => Floor(x)",
          "(float[n] x) => (y) { a = Neg(x) b = Relu(a) c = Exp(b) y = Sqrt(c) }", "b = Abs(x)\n  y = Floor(b)");
    /* one element of any type becomes what the card wants */
    MAKES("rows: Relu(Gather(x, $n)) => Softmax<axis = $n>(x)",
          "(float[n] x) => (y) <const int64[1] n = {1}> { r = Gather(x, n) y = Relu(r) }", "y = Softmax<axis = 1>(x)");
    MAKES("e: Relu(Neg(x)) => Elu<alpha = 2>(x)", "(float[n] x) => (y) { a = Neg(x) y = Relu(a) }",
          "y = Elu<alpha = 2.0>(x)");
    MAKES("e: Relu(Neg(x)) => Elu<alpha = 2.5e-1>(x)", "(float[n] x) => (y) { a = Neg(x) y = Relu(a) }",
          "y = Elu<alpha = 0.25>(x)");
}

TEST(rules_look_at_attributes) {
    const char *softmax = "s: Relu(Softmax<axis = -1>(x)) => Sigmoid(x)";
    MAKES(softmax, "(float[n] x) => (y) { s = Softmax(x) y = Relu(s) }", "y = Sigmoid(x)");
    MAKES(softmax, "(float[n,3] x) => (y) { s = Softmax<axis = 0>(x) y = Relu(s) }",
          "s = Softmax<axis = 0>(x)\n  y = Relu(s)");
    MAKES("t: Relu(Transpose<perm = [1, 0]>(x)) => Transpose(x)",
          "(float[n,n] x) => (y) { s = Transpose<perm = [1, 0]>(x) y = Relu(s) }", "y = Transpose(x)");
    MAKES("t: Relu(Transpose<perm = [0, 1, 2]>(x)) => Neg(x)",
          "(float[n,n] x) => (y) { s = Transpose<perm = [1, 0]>(x) y = Relu(s) }",
          "s = Transpose<perm = [1, 0]>(x)\n  y = Relu(s)");
    MAKES("g: Relu(Gelu<approximate = \"tanh\">(x)) => Neg(x)",
          "(float[n] x) => (y) { a = Gelu<approximate = \"tanh\">(x) b = Relu(a) c = Gelu(b) y = Relu(c) }",
          "b = Neg(x)\n  c = Gelu(b)\n  y = Relu(c)");
    MAKES("e: Relu(Elu<alpha = 0.5>(x)) => Neg(x)", "(float[n] x) => (y) { a = Elu<alpha = 0.5>(x) y = Relu(a) }",
          "y = Neg(x)");
}

/* An input or attribute that the choice taken does not bind is left out. */
TEST(rules_choose) {
    const char *rule = "c: Relu([Add(MatMul(a, b), bias) | MatMul(a, b)]) => Gemm(a, b, bias)";
    MAKES(rule, "(float[n,n] a, float[n,n] b, float[n] c) => (y) { m = MatMul(a, b) s = Add(m, c) y = Relu(s) }",
          "y = Gemm(a, b, c)");
    MAKES(rule, "(float[n,n] a, float[n,n] b) => (y) { m = MatMul(a, b) y = Relu(m) }", "y = Gemm(a, b)");
    MAKES("c: Max(x, [Mul(x, $a) | Neg(x)]) => Elu<alpha = $a>(x)", "(float[n] x) => (y) { m = Neg(x) y = Max(x, m) }",
          "y = Elu(x)");
}

/* An input that is left out at the end is as good as none; one that is there is not. */
TEST(rules_count_the_inputs_that_are_there) {
    const char *rule = "c: Neg(Clip(x, 2)) => Abs(x)";
    MAKES(rule, "(float[n] x) => (y) <const float[] lo = {2}> { c = Clip(x, lo, ) y = Neg(c) }", "y = Abs(x)");
    MAKES(rule,
          "(float[n] x) => (y) <const float[] lo = {2}, const float[] hi = {9}> { c = Clip(x, lo, hi) y = Neg(c) }",
          "c = Clip(x, lo, hi)\n  y = Neg(c)");
}

TEST(rules_leave_what_does_not_fit) {
    /* used elsewhere; not in this opset; a constant of several elements; a number of the wrong kind */
    MAKES("r: Relu(Neg(x)) => Abs(x)", "(float[n] x) => (y, a) { a = Neg(x) y = Relu(a) }",
          "a = Neg(x)\n  y = Relu(a)");
    MAKES("r: Relu(Neg(x)) => Swish(x)", "(float[n] x) => (y) { a = Neg(x) y = Relu(a) }", "a = Neg(x)\n  y = Relu(a)");
    MAKES("r: Mul(x, $c) => Elu<alpha = $c>(x)", "(float[2] x) => (y) <const float[2] c = {1, 2}> { y = Mul(x, c) }",
          "y = Mul(x, c)");
    MAKES("r: Mul(x, $c) => Softmax<axis = $c>(x)", "(float[2] x) => (y) <const float[] c = {0.5}> { y = Mul(x, c) }",
          "y = Mul(x, c)");
}

TEST(rules_know_their_ops) {
    static const char *const rows[][2] = {
        {"r: Relu(x) => Rely(x)", "patterns: rule 'r' makes Rely, which is not an op"},
        {"r: Relu(x) => my.Elu(x)", "patterns: rule 'r' makes my.Elu, which is not an op"},
        {"r: Relu(x) => Elu<beta = 1>(x)", "patterns: rule 'r': Elu has no attribute 'beta'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b;
        if (bench_init(&b, "<opset: \"\" 20> g (float[n] x) => (y) { y = Neg(x) }")) {
            CHECK_INT(apply_rules(&b, rows[i][0]), NC_E_ARGUMENT);
            CHECK_STR(b.w.diag.text, rows[i][1]);
        }
        bench_release(&b);
    }
}

TEST(rules_are_refused_where_they_are_wrong) {
    static const struct {
        const char *text;
        int line, column;
        const char *part;
    } rows[] = {
        {"r Relu(x) => Neg(x)", 1, 3, "expected ':', got 'Relu(x) => N'"},
        {"r: Relu(x => Neg(x)", 1, 11, "expected ')'"},
        {"r:\n  Relu(x)\n  -> Neg(x)", 3, 3, "expected '=>', got '-> Neg(x)'"},
        {"r: Relu(x)", 1, 11, "expected '=>' before the end"},
        {"r: x => Neg(x)", 1, 4, "what is found has no op"},
        {"r: 3 => Neg(x)", 1, 4, "what is found has no op"},
        {"r: Relu(x) => Neg(z)", 1, 20, "'z' is not found by this rule"},
        {"r: Relu(x) => Neg()", 1, 20, "what is made needs an input"},
        {"r: Relu(x) => Gemm(, x)", 1, 23, "what is made needs its first input"},
        {"r: Relu(x) => Elu<alpha = $c>(x)", 1, 29, "'c' is not found by this rule"},
        {"r: Relu(x) => Elu<alpha = up>(x)", 1, 27, "expected a number, a text or a list of whole numbers"},
        {"r: Relu(x) => Elu<alpha = \"up>(x)", 1, 28, "a text without its end"},
        {"r: Relu(x) => Elu<alpha = 1e>(x)", 1, 27, "the exponent of a number has no digits"},
        {"r: Add(x, -) => Neg(x)", 1, 11, "expected a number"},
        {"r: Add(x, [Relu(x) | Neg(x)) => Neg(x)", 1, 28, "expected ']'"},
        {"r: Add(x, #) => Neg(x)", 1, 12, "expected the name of a constant"},
        {"r: my.Op => Neg(x)", 1, 10, "expected '(' behind the op 'my.Op'"},
        {"r: Relu(x) => Neg(x) 7", 1, 22, "expected the name of a rule, got '7'"},
        {"a: Relu(x) => Neg(x)\nb: Softmax<axis>(x) => Neg(x)", 2, 16, "expected '='"},
        {"r: Relu(Add(x1, Add(x2, Add(x3, Add(x4, Add(x5, Add(x6, Add(x7, Add(x8, Add(x9, Add(x10, Add(x11, Add(x12, "
         "Add(x13, Add(x14, Add(x15, Add(x16, y))))))))))))))))) => Neg(y)",
         1, 138, "more than 16"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        nc_work w;
        nc_rules r;
        char where[64];
        nc_work_init(&w);
        CHECK_INT(nc_rules_parse(&w, &w.scratch, rows[i].text, &r), NC_E_ARGUMENT);
        snprintf(where, sizeof where, "patterns: line %d, column %d: ", rows[i].line, rows[i].column);
        if (strncmp(w.diag.text, where, strlen(where)) != 0 || strstr(w.diag.text, rows[i].part) == NULL)
            nc_test_failed(__FILE__, __LINE__, "%s: is '%s', expected '%s...%s'", rows[i].text, w.diag.text, where,
                           rows[i].part);
        nc_work_release(&w);
    }
}
