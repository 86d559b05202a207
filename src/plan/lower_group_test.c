/* plan/lower_group_test.c: products of one value become one node where the place has a kernel for that, and near
 * misses. */
#include "tests/lowering.h"

static nc_code steps(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_place_and_decompose(w, m, o));
    NC_TRY(nc_lower_chain(w, m, o));
    NC_TRY(nc_lower_group(w, m, o));
    return nc_lower_epilogue(w, m, o);
}

#define GROUPS(graph, want) LOWERS_ON(&cuda_planning, graph, steps, want)
#define KEEPS(graph, want) OPS_ON(&cuda_planning, graph, steps, want)
#define HEAD(type)                                                                                                    \
    "(" type "[m,2] x, " type "[2,2] u, " type "[m,2] r) => (y) <const " type "[2,2] a = {1, 2, 3, 4}, const " type   \
    "[2,3] b = {1, 2, 3, 4, 5, 6}, const " type "[2,1] c = {1, 2}, const " type "[2,2] d = {1, 2, 3, 4}, const " type \
    "[2] w = {1, 2}> { "

TEST(lower_group_joins_products_of_one_value) {
    GROUPS(HEAD("float") "p = MatMul(x, a) q = MatMul(x, b) y = Concat<axis = 1>(p, q) }",
           "p, q = nacre.MatMulGroup(x, none, a, b) @device; y = Concat(p, q) @device");
    GROUPS(HEAD("float16") "p = MatMul(x, a) s = Softmax(p) q = MatMul(x, b) t = MatMul(x, c) v = MatMul(x, d) "
                           "y = Concat<axis = 1>(s, q, t, v) }",
           "p, q, t = nacre.MatMulGroup(x, none, a, b, c) @device; s = Softmax(p) @device; v = MatMul(x, d) @device; "
           "y = Concat(s, q, t, v) @device");
    GROUPS(HEAD("bfloat16") "p = MatMul(x, a) q = MatMul(x, d) s = Sigmoid(p) t = Mul(p, s) y = Mul(t, q) }",
           "y = nacre.MatMulGroup{Sigmoid@device Mul@device Mul@device}(x, none, a, d) @device");
    GROUPS(HEAD("float") "n = RMSNormalization<epsilon = 0.5>(x, w) p = MatMul(n, a) q = MatMul(n, d) y = Mul(p, q) }",
           "y = nacre.MatMulGroup{Mul@device}(x, w, a, d) @device");
    GROUPS(HEAD("float") "n = RMSNormalization(x, w) p = MatMul(n, a) q = MatMul(n, b) y = Concat<axis = 1>(p, q) }",
           "p, q = nacre.MatMulGroup(x, w, a, b) @device; y = Concat(p, q) @device");
}

TEST(lower_group_leaves_others) {
    KEEPS(HEAD("float") "p = MatMul(x, a) q = MatMul(r, d) y = Concat<axis = 1>(p, q) }",
          "MatMul@device MatMul@device Concat@device");
    KEEPS(HEAD("float") "p = MatMul(x, a) q = MatMul(x, u) y = Concat<axis = 1>(p, q) }",
          "MatMul@device MatMul@device Concat@device");
    KEEPS(HEAD("double") "p = MatMul(x, a) q = MatMul(x, b) y = Concat<axis = 1>(p, q) }",
          "MatMul@device MatMul@device Concat@device");
    KEEPS(HEAD("float") "p = MatMul(x, a) s = Add(p, r) q = MatMul(x, d) t = Add(q, s) y = Softmax(t) }",
          "MatMul@device MatMulChain@device{Add@device Add@device} Softmax@device");
    KEEPS(HEAD("float") "n = RMSNormalization(x, w) p = MatMul(n, a) q = MatMul(n, b) y = Concat<axis = 1>(p, q, n) }",
          "RMSNormalization@device MatMulGroup@device Concat@device");
    KEEPS(HEAD("float") "n = RMSNormalization<axis = 0>(x, r) p = MatMul(n, a) q = MatMul(n, b) "
                        "y = Concat<axis = 1>(p, q) }",
          "RMSNormalization@device MatMulGroup@device Concat@device");
    OPS_ON(nc_device_cpu(), HEAD("float") "p = MatMul(x, a) q = MatMul(x, b) y = Concat<axis = 1>(p, q) }", steps,
           "MatMul MatMul Concat");
}

#define CACHES(more, nodes, y)                                                                             \
    "<opset: \"\" 24> g (float16[1,2,1,8] q, float16[1,2,1,8] a, float16[1,2,9,8] k, float16[1,2,9,8] v, " \
    "int64[1] n, int64[1] m) => (" y more ") { " nodes " }"
#define WRITE(z, at) "x = TensorScatter<mode = \"circular\">(k, a, n) z = TensorScatter" z "(v, a, " at ") "
#define AROUND "<mode = \"circular\">"
#define LATER(graph, print, want) lowers(__FILE__, __LINE__, graph, steps, &cuda_planning, print, want, NULL)

TEST(lower_group_puts_new_rows_down_on_the_way) {
    static const char apart[] = "TensorScatter@device TensorScatter@device Attention@device";
    LATER(CACHES(", x, z", WRITE("<mode = \"circular\", axis = 2>", "n") "y = Attention(q, x, z, , , , m)", "y"),
          print_nodes, "y, x, z = nacre.AttentionPut(q, a, a, none, k, v, m, n) @device");
    LATER(CACHES(", x, z", WRITE("", "n") "y = Attention(q, x, z)", "y"), print_ops, apart);
    LATER(CACHES(", x, z", WRITE(AROUND, "m") "y = Attention(q, x, z)", "y"), print_ops, apart);
    LATER(CACHES("", WRITE(AROUND, "n") "y = Attention(q, x, z) s = ReduceMax(x)", "y, s"), print_ops,
          "TensorScatter@device TensorScatter@device Attention@device ReduceMax@device");
    LATER(CACHES("", WRITE(AROUND, "n") "y, s = Attention(q, x, z)", "y, s"), print_ops, apart);
}
