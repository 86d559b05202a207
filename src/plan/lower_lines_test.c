/* plan/lower_lines_test.c: scores of an odd number of classes and their gradient get lines of even length, on a device
 * with CUDA's kernels. */
#include "tests/lowering.h"

static nc_code place_and_lengthen(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_place(w, m, o, true));
    return nc_lower_lines(w, m, o);
}
#define LENGTHENS(graph, want) LOWERS_ON(&cuda_planning, graph, place_and_lengthen, want)

TEST(lower_lines_of_a_turned_matrix) {
    LENGTHENS("(float16[n,16] x, float16[4101,16] b, int64[n] t, float16[] d) => (l, dx, db) "
              "{ s = Gemm<transB = 1>(x, b) l = SoftmaxCrossEntropyLoss(s, t) e = nacre.CrossEntropyGrad(d, s, t) "
              "dx = MatMul(e, b) db = Gemm<transA = 1>(e, x) }",
              "Concat_15_out = Concat(b, v14) @device; s = Gemm(x, Concat_15_out) @device; "
              "Slice_20_out = Slice(s, 0, 4101, 1) @device; l = SoftmaxCrossEntropyLoss(Slice_20_out, t) @device; "
              "e = nacre.CrossEntropyGrad(d, s, t) @device; dx = MatMul(e, Concat_15_out) @device; "
              "db = Gemm(e, x) @device; Slice_30_out = Slice(db, 0, 4101, 0) @device");
}

/* The gradient as a second factor; another reader of it, and of the scores, has the classes alone. */
TEST(lower_lines_of_a_matrix_and_other_readers) {
    LENGTHENS("(bfloat16[n,16] x, bfloat16[16,4101] b, int64[n] t, bfloat16[] d) => (s, dx, db, z) "
              "{ s = MatMul(x, b) e = nacre.CrossEntropyGrad(d, s, t) u = Transpose(b) v = Transpose(x) "
              "dx = MatMul(e, u) db = MatMul(v, e) z = Neg(e) }",
              "Concat_19_out = Concat(b, v18) @device; s = MatMul(x, Concat_19_out) @device; "
              "Slice_24_out = Slice(s, 0, 4101, 1) @device; e = nacre.CrossEntropyGrad(d, s, t) @device; "
              "Slice_29_out = Slice(e, 0, 4101, 1) @device; u = Transpose(b) @device; v = Transpose(x) @device; "
              "Transpose_31_out = Transpose(Concat_19_out) @device; dx = MatMul(e, Transpose_31_out) @device; "
              "db = MatMul(v, e) @device; Slice_36_out = Slice(db, 0, 4101, 1) @device; z = Neg(Slice_29_out) @device");
}

/* A matrix that is seen turned is lengthened as it lies; its gradient reads the same one. */
TEST(lower_lines_of_a_view) {
    LENGTHENS("(bfloat16[n,16] x, bfloat16[4101,16] b, int64[n] t, bfloat16[] d) => (dx) "
              "{ u = Transpose(b) s = MatMul(x, u) e = nacre.CrossEntropyGrad(d, s, t) dx = MatMul(e, b) }",
              "Concat_13_out = Concat(b, v12) @device; Transpose_15_out = Transpose(Concat_13_out) @device; "
              "s = MatMul(x, Transpose_15_out) @device; e = nacre.CrossEntropyGrad(d, s, t) @device; "
              "dx = MatMul(e, Concat_13_out) @device");
}

#define STAYS(types, classes, weights)                                                                      \
    OPS_ON(&cuda_planning,                                                                                  \
           "(" types "[n,16] x, " types "[16," classes "] b, int64[n] t, " types "[] d, " types "[" classes \
           "] w) => (e) { s = MatMul(x, b) e = nacre.CrossEntropyGrad(d, s, t" weights ") }",               \
           place_and_lengthen, "MatMul@device CrossEntropyGrad@device")
TEST(lower_lines_leaves_others_alone) {
    STAYS("float16", "4104", "");
    STAYS("float16", "11", "");
    STAYS("float", "4101", "");
    STAYS("float16", "4101", ", w");
    LOWERS("(float16[n,16] x, float16[16,4101] b, int64[n] t, float16[] d) => (e) "
           "{ s = MatMul(x, b) p = LogSoftmax(s) e = nacre.SoftmaxCrossEntropyLossGrad(d, p, t) }",
           nc_lower_lines, "s = MatMul(x, b); p = LogSoftmax(s); e = nacre.SoftmaxCrossEntropyLossGrad(d, p, t)");
}
