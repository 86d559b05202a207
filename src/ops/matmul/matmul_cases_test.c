/* ops/matmul/matmul_cases_test.c: the cases of the matmul family (ops/cases.h), the tests that run them, types,
 * refusals and strided operands. */
#include "ops/cases_testing.h"

#include "base/intmath.h"
#include "tests/graph_testing.h"

extern const nc_case nc_matmul_cases[];

#define MATMUL(a, b) "<opset: \"\" 22> g (" a " a, " b " b) => (y) { y = MatMul(a, b) }"
#define GEMM(attrs, a, b, c) "<opset: \"\" 22> g (" a " a, " b " b, " c " c) => (y) { y = Gemm" attrs "(a, b, c) }"
#define EINSUM(equation, in, names) \
    "<opset: \"\" 22> g (" in ") => (y) { y = Einsum<equation = \"" equation "\">(" names ") }"
/* Products whose kernel does what follows them (plan/lower_epilogue.c). */
#define THEN(in, body) "<opset: \"\" 22> g (" in ") => (y) { " body " }"
#define EXACT NC_CASE_NO_GRAD | NC_CASE_EXACT
#define VALUE {{0, 0}}, NC_CASE_NO_GRAD

const nc_case nc_matmul_cases[] = {
    {"matmul", MATMUL("float[3,n]", "float[n,7]")},
    {"matmul_one", MATMUL("float[1,1]", "float[1,1]")},
    {"matmul_vectors", MATMUL("float[n]", "float[n]")},
    {"matmul_row", MATMUL("float[n]", "float[n,3]")},
    {"matmul_row_batches", MATMUL("float[4]", "float[2,4,3]")},
    {"matmul_column", MATMUL("float[3,n]", "float[n]")},
    {"matmul_column_batches", MATMUL("float[2,3,n]", "float[n]")},
    {"matmul_rows_of_batches", MATMUL("float[2,3,4,5]", "float[5,3]")},
    {"matmul_rows_unknown_k", MATMUL("float[2,3,n]", "float[n,3]")},
    {"matmul_batches", MATMUL("float[2,3,4]", "float[2,4,5]")},
    {"matmul_broadcast", MATMUL("float[2,1,3,4]", "float[5,4,2]")},
    {"matmul_broadcast_left", MATMUL("float[3,4]", "float[2,2,4,2]")},
    {"matmul_many_batches", MATMUL("float[3,11,5,7]", "float[3,11,7,9]"), VALUE},
    {"matmul_large", MATMUL("float[67,300]", "float[300,129]"), {{0, 1}}, NC_CASE_NO_GRAD},
    {"matmul_empty_rows", MATMUL("float[0,4]", "float[4,3]"), VALUE},
    {"matmul_empty_sum", MATMUL("float[2,3,0]", "float[0,4]"), VALUE},
    {"matmul_empty_batch", MATMUL("float[0,2,3]", "float[3,4]"), VALUE},
    {"matmul_half", MATMUL("float16[3,n]", "float16[n,7]"), VALUE},
    {"matmul_bfloat16", MATMUL("bfloat16[2,3,n]", "bfloat16[n,7]"), VALUE},
    {"matmul_int32", MATMUL("int32[2,3,n]", "int32[n,7]"), {{-9, 9}}, EXACT},
    {"matmul_int64", MATMUL("int64[n]", "int64[2,n,3]"), {{-9, 9}}, EXACT},
    {"matmul_half_constant",
     "<opset: \"\" 22> g (float16[2,n,3] a) => (y) <const float16[3,2] b = {1, -2, 0.5, 4, 3, -1}> { y = MatMul(a, b) "
     "}",
     VALUE},
    {"gemm_bfloat16_constant",
     "<opset: \"\" 22> g (bfloat16[n,3] a, bfloat16[2] c) => (y) <const bfloat16[2,3] b = {1, -2, 0.5, 4, 3, -1}> "
     "{ y = Gemm<transB = 1>(a, b, c) }",
     VALUE},
    {"matmul_constant",
     "<opset: \"\" 22> g (float[2,n,3] a) => (y) <const float[3,2] b = {1, -2, 0.5, 4, 3, -1}> { y = MatMul(a, b) }"},
    {"gemm", GEMM("", "float[3,n]", "float[n,7]", "float[7]")},
    {"gemm_opset_7", "<opset: \"\" 7> g (float[3,n] a, float[n,2] b, float[1] c) => (y) { y = Gemm(a, b, c) }"},
    {"gemm_no_c", "<opset: \"\" 13> g (float[3,n] a, float[n,2] b) => (y) { y = Gemm<alpha = 0.5>(a, b) }"},
    {"gemm_scaled", GEMM("<alpha = 0.5, beta = -2.0>", "float[3,4]", "float[4,7]", "float[3,1]")},
    {"gemm_trans_a", GEMM("<transA = 1, alpha = 0.25>", "float[n,3]", "float[n,7]", "float[3,7]")},
    {"gemm_trans_b", GEMM("<transB = 1>", "float[3,n]", "float[7,n]", "float[1,7]")},
    {"gemm_trans_both", GEMM("<transA = 1, transB = 1, beta = 0.5>", "float[n,3]", "float[7,n]", "float[]")},
    {"gemm_beta_zero", GEMM("<beta = 0.0>", "float[3,n]", "float[n,7]", "float[7]"), VALUE},
    {"gemm_empty_sum", GEMM("<beta = 3.0>", "float[3,0]", "float[0,7]", "float[7]"), VALUE},
    {"gemm_half", GEMM("<alpha = 0.5>", "float16[3,n]", "float16[n,7]", "float16[7]"), VALUE},
    {"gemm_int32",
     GEMM("<transB = 1, alpha = 2.0, beta = 3.0>", "int32[3,n]", "int32[7,n]", "int32[7]"),
     {{-9, 9}},
     EXACT},
    {"gemm_constant",
     "<opset: \"\" 22> g (float[n,3] a, float[2] c) => (y) <const float[2,3] b = {1, -2, 0.5, 4, 3, -1}> "
     "{ y = Gemm<transB = 1>(a, b, c) }"},
    {"matmul_then_bias_gelu",
     THEN("float[2,5,n] a, float[n,37] b, float[37] v", "p = MatMul(a, b) q = Add(p, v) y = Gelu(q)")},
    {"matmul_then_gelu_tanh",
     THEN("float[3,n] a, float[n,7] b", "p = MatMul(a, b) y = Gelu<approximate = \"tanh\">(p)")},
    {"matmul_then_silu", THEN("float[3,n] a, float[n,7] b", "p = MatMul(a, b) s = Sigmoid(p) y = Mul(p, s)")},
    {"matmul_then_residual",
     THEN("float[2,3,n] a, float[2,n,7] b, float[2,3,7] r, float[] k", "p = MatMul(a, b) q = Mul(p, k) y = Add(q, r)")},
    {"matmul_then_row", THEN("float[n] a, float[n,9] b, float[9] v", "p = MatMul(a, b) q = Add(p, v) y = Tanh(q)")},
    {"matmul_then_column", THEN("float[3,n] a, float[n] b, float[3] v", "p = MatMul(a, b) q = Add(p, v) y = Tanh(q)")},
    {"matmul_then_softmax",
     THEN("float[2,3,4,n] a, float[2,3,n,5] b, float[1,1] k", "p = MatMul(a, b) q = Div(p, k) y = Softmax(q)"),
     {{1, 2}}},
    {"matmul_then_large",
     THEN("float[67,900] a, float[900,129] b, float[129] v, float[67,129] r",
          "p = MatMul(a, b) q = Add(p, v) s = Add(q, r) y = Relu(s)"),
     {{0, 1}},
     NC_CASE_NO_GRAD},
    {"matmul_then_empty", THEN("float[2,3,0] a, float[0,4] b, float[4] v", "p = MatMul(a, b) y = Add(p, v)"), VALUE},
    {"matmul_then_sum",
     THEN("float[2,3,n] a, float[n,8] b, float[8] v, float[2,3,8] r", "p = MatMul(a, b) q = Add(v, p) y = Add(r, q)")},
    {"matmul_then_two_sums",
     THEN("float[3,n] a, float[n,8] b, float[3,8] v, float[3,8] r", "p = MatMul(a, b) q = Add(p, v) y = Add(q, r)")},
    {"matmul_then_bias_read_twice",
     THEN("float[3,n] a, float[n,8] b, float[8] v", "p = MatMul(a, b) q = Add(p, v) y = Mul(q, v)")},
    {"matmul_then_bias_and_itself",
     THEN("float[3,n] a, float[n,8] b, float[8] v", "p = MatMul(a, b) q = Add(p, v) y = Mul(q, p)")},
    {"matmul_then_bias_behind_others",
     THEN("float[5,n] a, float[n,8] b, float[8] v, float[5,8] r, float[] k",
          "p = MatMul(a, b) q = Add(v, p) s = Sigmoid(q) t = Mul(q, s) u = Mul(t, k) w = Add(u, r) y = Mul(w, q)")},
    {"matmul_then_itself", THEN("float[3,n] a, float[n,8] b", "p = MatMul(a, b) y = Add(p, p)")},
    {"matmul_then_batches",
     THEN("float[2,3,4,n] a, float[2,1,n,8] b, float[2,3,4,8] r", "p = MatMul(a, b) y = Add(p, r)")},
    {"gemm_then_sum",
     THEN("float[3,n] a, float[8,n] b, float[8] c, float[3,8] r", "p = Gemm<transB = 1>(a, b, c) y = Add(p, r)")},
    {"gemm_then_two_biases",
     THEN("float[3,n] a, float[n,8] b, float[8] c, float[8] v", "p = Gemm(a, b, c) y = Add(p, v)")},
    {"matmul_then_half_bias", THEN("float16[3,n] a, float16[n,8] b, float16[8] c", "p = MatMul(a, b) y = Add(p, c)"),
     VALUE},
    {"matmul_then_half_all",
     THEN("float16[2,3,n] a, float16[n,8] b, float16[8] c, float16[2,3,8] d",
          "p = MatMul(a, b) q = Add(c, p) r = Add(d, q) y = Gelu<approximate = \"tanh\">(r)"),
     VALUE},
    {"matmul_then_bfloat16",
     THEN("bfloat16[3,n] a, bfloat16[n,8] b, bfloat16[8] c", "p = MatMul(a, b) q = Add(p, c) y = Gelu(q)"), VALUE},
    {"matmul_gelu_kept",
     THEN("bfloat16[3,5,n] a, bfloat16[n,24] b, bfloat16[24] v",
          "p = MatMul(a, b) q = Add(p, v) g = nacre.GeluTanh(q) r = Neg(q) y = Mul(g, r)"),
     VALUE},
    {"matmul_gelu_kept_odd",
     THEN("float16[5,n] a, float16[n,21] b, float16[21] v",
          "p = MatMul(a, b) q = Add(p, v) g = nacre.GeluTanh(q) r = Neg(q) y = Mul(g, r)"),
     VALUE},
    {"matmul_three_added",
     THEN("float16[5,n] a, float16[n,24] b, float16[5,n] c", "p = MatMul(a, b) q = MatMul(c, b) d = Mul(a, c) "
                                                             "r = MatMul(d, b) s = Add(p, q) y = Add(s, r)"),
     VALUE},
    {"matmul_then_gelu_derivative_half",
     THEN("bfloat16[3,5,n] a, bfloat16[n,24] b, bfloat16[3,5,24] x", "p = MatMul(a, b) y = nacre.GeluTanhGrad(p, x)"),
     VALUE},
    {"matmul_then_gelu_derivative_odd",
     THEN("float16[5,n] a, float16[n,21] b, float16[5,21] x", "p = MatMul(a, b) y = nacre.GeluTanhGrad(p, x)"), VALUE},
    {"gemm_then_half",
     THEN("float16[3,n] a, float16[8,n] b, float16[8] c, float16[3,8] d",
          "p = Gemm<transB = 1>(a, b, c) y = Add(p, d)"),
     VALUE},
    {"matmul_then_half", THEN("float16[3,n] a, float16[n,7] b", "p = MatMul(a, b) y = Tanh(p)"), VALUE},
    {"gemm_then_residual", THEN("float[3,n] a, float[7,n] b, float[7] c, float[3,7] r",
                                "p = Gemm<transB = 1, alpha = 0.5>(a, b, c) q = Sigmoid(p) y = Add(q, r)")},
    {"gemm_then_beta", THEN("float[3,n] a, float[n,7] b, float[3,1] c", "p = Gemm<beta = 0.5>(a, b, c) y = Tanh(p)")},
    {"gemm_then_no_c", THEN("float[3,n] a, float[n,7] b, float[7] v", "p = Gemm(a, b) q = Mul(p, v) y = Tanh(q)")},
    {"einsum", EINSUM("bij,bjk->bik", "float[2,3,n] a, float[2,n,4] b", "a, b")},
    {"einsum_strided", EINSUM("abcd,cebf->fade", "float[2,3,4,5] a, float[4,2,3,6] b", "a, b"), VALUE},
    {"einsum_one", EINSUM("ij->ji", "float[3,n] a", "a")},
    {"einsum_trace", EINSUM("ii->", "float[4,4] a", "a")},
    {"einsum_diagonal", EINSUM("bii->ib", "float[2,3,3] a", "a")},
    {"einsum_three", EINSUM("bi,oij,bj->bo", "float[2,3] a, float[4,3,5] b, float[2,5] c", "a, b, c")},
    {"einsum_lost", EINSUM("ij,jk->k", "float[2,3] a, float[3,4] b", "a, b")},
    {"einsum_ellipsis", EINSUM("...ij,...jk->...ik", "float[2,1,3,4] a, float[3,4,2] b", "a, b")},
    {"einsum_implicit", EINSUM("ji, jk", "float[3,2] a, float[3,4] b", "a, b")},
    {"einsum_scalar", EINSUM(",i->i", "float[] a, float[3] b", "a, b")},
    {"einsum_many_batches", EINSUM("bij,bjk->bik", "float[37,5,9] a, float[37,9,6] b", "a, b"), VALUE},
    {"einsum_empty", EINSUM("ij,jk->ik", "float[2,0] a, float[0,3] b", "a, b"), VALUE},
    {"einsum_no_rows", EINSUM("ij,jk->ki", "float[0,2] a, float[2,3] b", "a, b"), VALUE},
    {"einsum_half", EINSUM("ij,jk->ik", "float16[3,n] a, float16[n,4] b", "a, b"), VALUE},
    {"einsum_half_three", EINSUM("bi,oij,bj->bo", "float16[2,3] a, float16[4,3,5] b, float16[2,5] c", "a, b, c"),
     VALUE},
    {"einsum_products", EINSUM("bhij,bhij->bi", "float[2,3,4,n] a, float[2,3,4,n] b", "a, b")},
    {"einsum_products_turned", EINSUM("abc,cab->b", "float[2,3,n] a, float[n,2,3] b", "a, b")},
    {"einsum_products_spread", EINSUM("...i,...i->...", "float[2,1,5] a, float[3,5] b", "a, b")},
    {"einsum_products_empty", EINSUM("ij,ij->i", "float[2,0] a, float[2,0] b", "a, b"), VALUE},
    {"einsum_products_half", EINSUM("ij,ij->i", "float16[3,70] a, float16[3,70] b", "a, b"), VALUE},
    {"einsum_outer", EINSUM("ab,cd->dbca", "float[2,3] a, float[4,n] b", "a, b")},
    {"einsum_diagonals", EINSUM("iji,jkk->kj", "float[3,2,3] a, float[2,4,4] b", "a, b")},
    {"einsum_int32", EINSUM("iij,j->i", "int32[3,3,n] a, int32[n] b", "a, b"), {{-4, 4}}, EXACT},
    {"einsum_int8", EINSUM("ij,jk->i", "int8[3,n] a, int8[n,4] b", "a, b"), {{-4, 4}}, EXACT},
    {"matmul_unsigned",
     "<opset: \"\" 13> g (int64[3,n] a, int64[n,4] b) => (y, z) { c = Cast<to = 12>(a) d = Cast<to = 12>(b) "
     "e = Cast<to = 13>(a) f = Cast<to = 13>(b) u = MatMul(c, d) v = MatMul(e, f) y = Cast<to = 7>(u) "
     "z = Cast<to = 7>(v) }",
     {{-4e9, 4e9}},
     EXACT},
    {"einsum_uint64", EINSUM("ij,jk->ik", "uint64[3,n] a, uint64[n,4] b", "a, b"), {{0, 9}}, EXACT},
    {"det", "<opset: \"\" 22> g (float[b,3,3] x) => (y) { y = Det(x) }"},
    {"det_one", "<opset: \"\" 11> g (float[1,1] x) => (y) { y = Det(x) }"},
    {"det_five", "<opset: \"\" 22> g (float[2,5,5] x) => (y) { y = Det(x) }"},
    {"det_grad",
     "<opset: \"\" 22, \"nacre\" 1> g (double[n] d, double[n,6,6] x, float16[2] e, float16[2,3,3] y, float[] f, "
     "float[1,1] z) => (a, b, c) { a = nacre.DetGrad(d, x) b = nacre.DetGrad(e, y) c = nacre.DetGrad(f, z) }",
     VALUE},
    {"det_none", "<opset: \"\" 22> g (float[2,0,0] x) => (y) { y = Det(x) }", VALUE},
    {"det_bfloat16", "<opset: \"\" 22> g (bfloat16[2,2,2] x) => (y) { y = Det(x) }", VALUE},
    {0}};

TEST(matmul_values) { nc_cases_check_values(nc_matmul_cases); }
TEST(matmul_isas) { nc_cases_check_isas(nc_matmul_cases); }
TEST(matmul_gradients) { nc_cases_check_gradients(nc_matmul_cases); }

TEST(matmul_types) {
    CHECK_INFERS(MATMUL("float[batch,seq,64]", "float[64,32]"), "float[batch,seq,32]");
    CHECK_INFERS(MATMUL("float[n]", "float[n]"), "float[]");
    CHECK_INFERS(MATMUL("float[b,1,m,k]", "float[h,k,n]"), "float[b,h,m,n]");
    CHECK_INFERS(MATMUL("float[4]", "float[b,4,3]"), "float[b,3]");
    CHECK_INFERS(MATMUL("float[b,3,4]", "float[4]"), "float[b,3]");
    CHECK_INFERS(MATMUL("float[...]", "float[4,3]"), "float[...]");
}

TEST(matmul_refuses_unequal_sizes) {
    CHECK_REFUSED("<opset: \"\" 13> g (float[2,3] a, float[4,3] b) => (y) { y = MatMul(a, b) }", NC_E_SHAPE,
                  "A has 3 columns, B has 4 rows");
    CHECK_REFUSED("<opset: \"\" 13> g (float[] a, float[4,3] b) => (y) { y = MatMul(a, b) }", NC_E_SHAPE, "scalar");
    CHECK_REFUSED("<opset: \"\" 13> g (float[3,2,3] a, float[2,3,3] b) => (y) { y = MatMul(a, b) }", NC_E_SHAPE, "2");
    CHECK_REFUSED("<opset: \"\" 13> g (float[2,3] a, float[4,3] b) => (y) { y = Gemm(a, b) }", NC_E_SHAPE,
                  "A' has 3 columns, B' has 4 rows");
    CHECK_REFUSED("<opset: \"\" 13> g (float[2,3] a, float[3,4] b, float[3] c) => (y) { y = Gemm(a, b, c) }",
                  NC_E_SHAPE, "C has a dim of 3");
    CHECK_REFUSED("<opset: \"\" 13> g (float[2,3,1] a, float[3,4] b) => (y) { y = Gemm(a, b) }", NC_E_SHAPE, "3 dims");
}

/* y (2,3,2) = a (2,3,4) b (4,2) with a reversed along its rows, expanded along batches, and b transposed. */
TEST(matmul_takes_any_strides) {
    float a[12], b[8], y[12];
    for (int i = 0; i < 12; i++) a[i] = (float)i - 3;
    for (int i = 0; i < 8; i++) b[i] = (float)(i * i) - 5;
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(),
                             "<opset: \"\" 13> g (float[2,3,4] a, float[4,2] b) => (y) { y = MatMul(a, b) }");
    REQUIRE(m != NULL);
    char why[64];
    const nc_binding *k = nc_binding_find(m->main->first, "cpu", why, sizeof why);
    REQUIRE(k != NULL);
    nc_prep prep = {.w = &w, .arena = &m->arena, .node = m->main->first};
    REQUIRE(nc_binding_prepare(k, &prep) == NC_OK);
    CHECK_INT(prep.strided_in & 3, 3);
    nc_tensor in[2] = {{.data = a + 8, .dtype = NC_FLOAT, .rank = 3, .dims = {2, 3, 4}, .strides = {0, -4, 1}},
                       {.data = b, .dtype = NC_FLOAT, .rank = 2, .dims = {4, 2}, .strides = {1, 4}}};
    nc_tensor out = {.data = y, .dtype = NC_FLOAT, .rank = 3, .dims = {2, 3, 2}, .strides = {6, 2, 1}};
    nc_call c = {.state = prep.state,
                 .in = NC_OPERANDS(in, 2),
                 .out = NC_OPERANDS(&out, 1),
                 .n_in = 2,
                 .n_out = 1,
                 .diag = &w.diag};
    c.bytes_workspace = k->workspace(prep.state, in, 2, &out, 1);
    void *block = nc_arena_alloc(&w.scratch, c.bytes_workspace + 64);
    REQUIRE(block != NULL);
    c.workspace = nc_align64_pointer(block);
    CHECK_INT(k->run(&c), NC_OK);
    for (int i = 0; i < 12; i++) {
        float want = 0;
        for (int j = 0; j < 4; j++) want += a[(2 - i / 2 % 3) * 4 + j] * b[i % 2 * 4 + j];
        CHECK_CLOSE(y[i], want, nc_tol_kernel_f32);
    }
    nc_model_destroy(m);
    nc_work_release(&w);
}

TEST(einsum_refusals) {
    CHECK_REFUSED(EINSUM("ij,kj->ik", "float[2,3] a, float[3,4] b", "a, b"), NC_E_SHAPE,
                  "a label has 3 in one operand and 4 in another");
    CHECK_REFUSED(EINSUM("ij->i", "float[2,3] a, float[3,4] b", "a, b"), NC_E_BAD_GRAPH, "fewer terms");
    CHECK_REFUSED(EINSUM("ij,jk,k->i", "float[2,3] a, float[3,4] b", "a, b"), NC_E_BAD_GRAPH, "more terms");
    CHECK_REFUSED(EINSUM("ij,j->i", "float[2,3] a, float[3,4] b", "a, b"), NC_E_BAD_GRAPH,
                  "term 1 has 1 letters, the operand 2 dims");
    CHECK_REFUSED(EINSUM("ij,jk->il", "float[2,3] a, float[3,4] b", "a, b"), NC_E_BAD_GRAPH, "in no operand");
    CHECK_REFUSED(EINSUM("ij,jk->ii", "float[2,3] a, float[3,4] b", "a, b"), NC_E_BAD_GRAPH, "twice");
    CHECK_REFUSED(EINSUM("i1,jk->i", "float[2,3] a, float[3,4] b", "a, b"), NC_E_BAD_GRAPH, "holds '1'");
}

TEST(einsum_types) {
    CHECK_INFERS(EINSUM("...qd,...kd->...qk", "float[b,h,q,d] a, float[b,h,k,d] c", "a, c"), "float[b,h,q,k]");
}
