/* ops/shape/shape_infer_test.c: types and known elements that the cards of the shape family find; what they refuse. */
#include "tests/graph_testing.h"

/* The types of the outputs, then their known elements in braces. */
static void check(int line, const char *graph, const char *want) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(), graph);
    nc_text t = {0};
    if (m == NULL) nc_text_addf(&t, "error: %s", w.diag.text);
    for (int i = 0; m != NULL && i < m->main->outputs.n; i++) {
        const nc_value *v = m->main->outputs.v[i];
        if (i > 0) nc_text_add(&t, " ");
        if (v->type != NULL) nc_type_print(&t, v->type);
        for (int k = 0; v->elems != NULL && k < v->n_elems; k++) {
            nc_text_add(&t, k > 0 ? " " : "{");
            nc_dim_print(&t, v->elems[k]);
            if (k == v->n_elems - 1) nc_text_add(&t, "}");
        }
    }
    if (t.s == NULL || strcmp(t.s, want) != 0)
        nc_test_failed(__FILE__, line, "%s\nis:       %s\nexpected: %s", graph, t.s ? t.s : "", want);
    nc_text_release(&t);
    if (m != NULL) nc_model_destroy(m);
    nc_work_release(&w);
}
#define INFER(opset, graph, want) check(__LINE__, "<opset: \"\" " #opset "> g " graph, want)

TEST(infer_reshape) {
    INFER(17, "(float[b,s,768] x) => (y) <const int64[4] h = {0, 0, 12, -1}> { y = Reshape(x, h) }",
          "float[b,s,12,64]");
    INFER(17, "(float[b,s,768] x) => (y) <const int64[2] h = {-1, 768}> { y = Reshape(x, h) }", "float[b*s,768]");
    INFER(17,
          "(float[b,6] x) => (y) <const int64[1] k = {6}, const int64[1] m = {-1}> "
          "{ s = Shape<end = 1>(x) t = Concat<axis = 0>(s, k) u = Concat<axis = 0>(t, m) y = Reshape(x, u) }",
          "float[b,6,1]");
    INFER(17, "(float[0,4] x) => (y) <const int64[2] h = {0, -1}> { y = Reshape(x, h) }", "float[0,4]");
    INFER(17, "(float[0] x) => (y) <const int64[2] h = {0, 32}> { y = Reshape(x, h) }", "float[0,32]");
    INFER(17, "(float[...] x) => (y) <const int64[2] h = {2, 3}> { y = Reshape(x, h) }", "float[2,3]");
    INFER(17, "(int64[2,2] x) => (y) <const int64[2,2] c = {1, 2, 3, 4}, const int64[1] h = {4}> { y = Reshape(c, h) }",
          "int64[4]{1 2 3 4}");
    INFER(4, "(float[2,6] x) => (y) { y = Reshape<shape = [3, -1]>(x) }", "float[3,4]");
    INFER(17, "(float[2,3] x) => (y) <const int64[1] h = {5}> { y = Reshape(x, h) }",
          "error: 6 elements do not fit a shape of 5");
    INFER(17, "(float[2,3] x) => (y) <const int64[2] h = {-1, -1}> { y = Reshape(x, h) }",
          "error: the shape has more than one -1");
    INFER(17, "(float[2,3] x) => (y) <const int64[3] h = {0, 0, 0}> { y = Reshape(x, h) }",
          "error: dim 2 of the shape is 0, but the input has 2 dims");
    INFER(17, "(float[0,3] x) => (y) <const int64[2] h = {0, -1}> { y = Reshape<allowzero = 1>(x, h) }",
          "error: -1 beside a dim of 0 has no one answer");
}

/* What exporters write for the pads of a Pad: pairs, last axis first, turned around. */
TEST(infer_elements_of_matrices) {
    INFER(17,
          "(float[2,c,h,w] x) => (p, y) <const int64[8] v = {1, 2, 3, 4, 0, 0, 0, 0}, const int64[2] h = {-1, 2}, "
          "const int64[1] s = {-1}, const int64[1] e = {-9223372036854775807}, const int64[1] a = {0}> "
          "{ q = Reshape(v, h) r = Slice(q, s, e, a, s) t = Transpose<perm = [1, 0]>(r) p = Reshape(t, s) "
          "y = Pad(x, p) }",
          "int64[8]{0 0 3 1 0 0 4 2} float[2,c,h+7,w+3]");
    INFER(17,
          "(float[1] x) => (y) <const int64[2,3] v = {1, 2, 3, 4, 5, 6}, const int64[2] s = {1, 0}, "
          "const int64[2] e = {2, 3}, const int64[2] a = {0, -1}, const int64[2] t = {1, 2}> "
          "{ y = Slice(v, s, e, a, t) }",
          "int64[1,2]{4 6}");
    INFER(17, "(float[1] x) => (y) <const int64[2,3] v = {1, 2, 3, 4, 5, 6}> { y = Transpose(v) }",
          "int64[3,2]{1 4 2 5 3 6}");
    INFER(
        17,
        "(float[1] x) => (y) <const int64[2,3] v = {1, 2, 3, 4, 5, 6}, const int64[1] s = {2}, const int64[1] e = {9}> "
        "{ y = Slice(v, s, e) }",
        "int64[0,3]");
}

TEST(infer_flatten_squeeze_unsqueeze) {
    INFER(17, "(float[b,3,h,w] x) => (y) { y = Flatten(x) }", "float[b,3*h*w]");
    INFER(17, "(float[] x) => (y) { y = Flatten<axis = 0>(x) }", "float[1,1]");
    INFER(17, "(float[2] x) => (y) { y = Flatten<axis = 2>(x) }", "error: axis 2 is out of range for 1 dims");
    INFER(17, "(float[1,n,1] x) => (y) <const int64[1] a = {-1}> { y = Squeeze(x, a) }", "float[1,n]");
    INFER(17, "(float[1,4,1] x) => (y) { y = Squeeze(x) }", "float[4]");
    INFER(17, "(float[1,n,1] x) => (y) { y = Squeeze(x) }", "float[...]");
    INFER(17, "(float[2,4] x) => (y) <const int64[1] a = {0}> { y = Squeeze(x, a) }",
          "error: dim 0 is 2 and cannot be squeezed, only 1 can");
    INFER(11, "(float[n,4] x) => (y) { y = Unsqueeze<axes = [0, -1]>(x) }", "float[1,n,4,1]");
    INFER(17, "(float[n] x) => (y) <const int64[2] a = {1, 1}> { y = Unsqueeze(x, a) }",
          "error: axis 1 is named twice");
    INFER(17, "(float[n,4] x) => (y) <const int64[1] a = {0}> { s = Size(x) y = Unsqueeze(s, a) }", "int64[1]{4*n}");
}

TEST(infer_transpose_expand) {
    INFER(17, "(float[a,b,c] x) => (y) { y = Transpose(x) }", "float[c,b,a]");
    INFER(17, "(float[a,b] x) => (y) { y = Transpose<perm = [0, 0]>(x) }",
          "error: perm is not an order of the axes 0 to 1: perm[1] is 0");
    INFER(17, "(float[n,1] x) => (y) <const int64[3] s = {2, 1, 4}> { y = Expand(x, s) }", "float[2,n,4]");
    INFER(17, "(float[4] x, float[n,4] z) => (y) { s = Shape(z) y = Expand(x, s) }", "float[n,4]");
    INFER(17, "(float[3] x) => (y) <const int64[1] s = {2}> { y = Expand(x, s) }",
          "error: input 1 has a dim of 2 where 3 or 1 is expected");
}

TEST(infer_slice) {
    INFER(17,
          "(float[n,10] x) => (y) <const int64[1] s = {2}, const int64[1] e = {-1}, const int64[1] a = {1}, const "
          "int64[1] t = {3}> "
          "{ y = Slice(x, s, e, a, t) }",
          "float[n,3]");
    INFER(17,
          "(float[n,4] x) => (y) <const int64[1] s = {1}, const int64[1] e = {9223372036854775807}> { y = Slice(x, s, "
          "e) }",
          "float[max(0,n-1),4]");
    INFER(17, "(float[n] x) => (y) <const int64[1] s = {0}, const int64[1] e = {2147483647}> { y = Slice(x, s, e) }",
          "float[n]");
    INFER(17, "(float[n,4] x, float[n] z) => (y) <const int64[1] s = {0}> { e = Shape(z) y = Slice(x, s, e) }",
          "float[n,4]");
    INFER(17,
          "(float[n] x) => (y) <const int64[1] s = {-1}, const int64[1] e = {-9223372036854775807}, const int64[1] a = "
          "{0}, "
          "const int64[1] t = {-1}> { y = Slice(x, s, e, a, t) }",
          "float[n]");
    INFER(
        17,
        "(float[a,b,c] x) => (y) <const int64[1] s = {1}, const int64[1] e = {3}> { d = Shape(x) y = Slice(d, s, e) }",
        "int64[2]{b c}");
    INFER(17,
          "(float[p] x, float[s] z) => (y) <const int64[1] b = {0}> "
          "{ e = Shape(x) j = Concat<axis = 0>(x, z) y = Slice(j, b, e) }",
          "float[p]");
    INFER(17, "(float[n] x, int64[1] s) => (y) <const int64[1] e = {3}> { y = Slice(x, s, e) }", "float[Slice_3_n]");
    INFER(9, "(float[n,7] x) => (y) { y = Slice<starts = [1, 2], ends = [2, 100]>(x) }", "float[max(0,min(n,2)-1),5]");
    INFER(17,
          "(float[4] x) => (y) <const int64[1] s = {0}, const int64[1] e = {4}, const int64[1] a = {0}, const int64[1] "
          "t = {0}> "
          "{ y = Slice(x, s, e, a, t) }",
          "error: step 0 is 0");
}

TEST(infer_split_concat) {
    INFER(18, "(float[n,7] x) => (a, b, c) { a, b, c = Split<axis = 1, num_outputs = 3>(x) }",
          "float[n,3] float[n,3] float[n,1]");
    INFER(18, "(float[4*n,2] x) => (a, b) { a, b = Split<num_outputs = 2>(x) }", "float[2*n,2] float[2*n,2]");
    INFER(13, "(float[7] x) => (a, b) { a, b = Split(x) }", "error: a dim of 7 does not divide into 2 equal parts");
    INFER(17, "(float[7] x) => (a, b) <const int64[2] s = {3, 3}> { a, b = Split(x, s) }",
          "error: the sizes of split sum to 6, the dim is 7");
    INFER(17, "(float[a,b,c,d] x) => (p, q) { s = Shape(x) p, q = Split(s) }", "int64[2]{a b} int64[2]{c d}");
    INFER(17, "(float[n,4] x, float[m,4] z) => (y) { y = Concat<axis = 0>(x, z) }", "float[n+m,4]");
    INFER(17, "(float[n,4] x, float[2,k] z) => (y) { y = Concat<axis = -1>(x, z) }", "float[2,k+4]");
    INFER(17, "(float[3,4] x, float[2,4] z) => (y) { y = Concat<axis = 1>(x, z) }",
          "error: dim 0 of input 1 is 2, of the inputs before 3");
}

TEST(infer_sizes_casts_constants) {
    INFER(17, "(float[a,b,4] x) => (s, t, n) { s = Shape(x) t = Shape<start = -2, end = -1>(x) n = Size(x) }",
          "int64[3]{a b 4} int64[1]{b} int64[]{4*a*b}");
    INFER(17, "(float[n] x) => (y) { s = Shape(x) y = Cast<to = 6>(s) }", "int32[1]{n}");
    INFER(17, "(float[n] x) => (y) { s = Shape(x) y = Cast<to = 1>(s) }", "float[1]");
    INFER(5, "(float[n] x) => (y) { y = Cast<to = \"INT32\">(x) }", "int32[n]");
    INFER(17, "(float[n] x) => (y) { y = Cast<to = 14>(x) }", "error: cannot cast to type 14");
    INFER(17, "(float[n] x, int8[2] t) => (y) { y = CastLike(x, t) }", "int8[n]");
    INFER(17, "(float[a,2] x) => (y) { s = Shape(x) y = ConstantOfShape(s) }", "float[a,2]");
    INFER(17, "(x) => (y) <const int64[1] s = {3}> { y = ConstantOfShape<value = int64[1] {-1}>(s) }",
          "int64[3]{-1 -1 -1}");
    INFER(17,
          "(x) => (a, b, c) { a = Constant<value_ints = [1, 2]>() b = Constant<value_float = 1.5>() c = Constant<value "
          "= int32[1,1] {5}>() }",
          "int64[2]{1 2} float[] int32[1,1]{5}");
    INFER(17,
          "(float[n] x) => (y) <const int64[] z = {0}, const int64[] one = {1}, const int64[1] a = {0}> "
          "{ s = Shape(x) k = Squeeze(s, a) y = Range(z, k, one) }",
          "int64[n]");
    INFER(17, "(x) => (y) <const int64[] a = {2}, const int64[] b = {9}, const int64[] c = {3}> { y = Range(a, b, c) }",
          "int64[3]{2 5 8}");
    INFER(17, "(x) => (y) <const int64[] a = {2}, const int64[] b = {1}, const int64[] c = {3}> { y = Range(a, b, c) }",
          "int64[0]");
}

TEST(infer_split_of_version_1) {
    INFER(1, "(float[6,2] x) => (y, z) { y, z = Split(x) }", "float[3,2] float[3,2]");
    INFER(1, "(float[2,5] x) => (y, z) { y, z = Split<axis = 1, split = [2, 3]>(x) }", "float[2,2] float[2,3]");
    INFER(1, "(float[5] x, float[2] s) => (y, z) { y, z = Split(x, s) }",
          "error: version 1 with sizes as an input of floats; write them as the attribute split");
}
