/* transform/common/views_test.c: casts, reshapes, transposes and concats as text, with the near misses that stay. */
#include "tests/passes.h"

TEST(casts_that_keep_every_value_are_merged) {
    BECOMES("(float[n] x) => (y) { double[n] a = Cast<to = 11>(x); float[n] b = Cast<to = 1>(a); y = Neg(b) }",
            "casts identity dead_code", "=> (float[n] y)\n{\n  y = Neg(x)\n}\n");
    BECOMES("(int32[n] x) => (y) { int64[n] a = Cast<to = 7>(x); int16[n] y = Cast<to = 5>(a) }", "casts dead_code",
            "=> (int16[n] y)\n{\n  y = Cast<to = 5>(x)\n}\n");
    BECOMES("(int64[n] x) => (y) { int32[n] a = Cast<to = 6>(x); int16[n] y = Cast<to = 5>(a) }", "casts dead_code",
            "=> (int16[n] y)\n{\n  y = Cast<to = 5>(x)\n}\n");
    BECOMES("(bool[n] x) => (y) { int32[n] a = Cast<to = 6>(x); float16[n] y = Cast<to = 10>(a) }", "casts dead_code",
            "=> (float16[n] y)\n{\n  y = Cast<to = 10>(x)\n}\n");
    BECOMES("(float16[n] x) => (y) { float[n] a = Cast<to = 1>(x); double[n] b = Cast<to = 11>(a); "
            "float[n] y = Cast<to = 1>(b) }",
            "casts dead_code", "=> (float[n] y)\n{\n  y = Cast<to = 1>(x)\n}\n");
}

TEST(casts_that_change_values_stay) {
    static const struct {
        const char *from, *between, *to;
    } rows[] = {
        {"float", "float16", "float"},  {"float", "bfloat16", "float"}, {"int64", "int32", "int64"},
        {"int32", "float", "int32"},    {"float", "int64", "float"},    {"uint8", "float", "int8"},
        {"int8", "uint8", "int16"},     {"float", "double", "int32"},   {"float", "bool", "float"},
        {"int32", "double", "float16"}, {"uint64", "int64", "float"},   {"int32", "int64", "string"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[240];
        snprintf(text, sizeof text, "(%s[n] x) => (y) { %s[n] a = Cast<to = %d>(x); %s[n] y = Cast<to = %d>(a) }",
                 rows[i].from, rows[i].between, nc_dtype_parse(rows[i].between), rows[i].to,
                 nc_dtype_parse(rows[i].to));
        LEAVES_TRAINING("<opset: \"\" 17> g", text, "casts identity dead_code", 1, 2);
    }
}

TEST(cast_like_of_a_known_type_is_a_cast) {
    BECOMES("(float[n] x, int64[k] like) => (y) { int64[n] y = CastLike(x, like) }", "casts",
            "=> (int64[n] y)\n{\n  y = Cast<to = 7>(x)\n}\n");
    BECOMES("(float[n] x, float[k] like) => (y) { float[n] a = CastLike(x, like); y = Neg(a) }",
            "casts identity dead_code", "=> (float[n] y)\n{\n  y = Neg(x)\n}\n");
}

/* ---- reshapes ---- */

TEST(reshapes_in_a_row_are_one) {
    BECOMES("(float[2,6] x) => (y) <const int64[1] s = {-1}, const int64[2] t = {3, 4}> { float[12] a = Reshape(x, s); "
            "float[3,4] y = Reshape(a, t) }",
            "reshapes dead_code", "=> (float[3,4] y)\n<const int64[2] t = {3, 4}>\n{\n  y = Reshape(x, t)\n}\n");
    /* A copied dim of what is between becomes a size. */
    BECOMES("(float[2,6] x) => (y) <const int64[2] s = {3, 4}, const int64[3] t = {0, 2, 2}> { "
            "float[3,4] a = Reshape(x, s); float[3,2,2] y = Reshape(a, t) }",
            "reshapes dead_code",
            "=> (float[3,2,2] y)\n<const int64[3] y_shape = {3, 2, 2}>\n{\n  y = Reshape(x, y_shape)\n}\n");
    /* A dim by name is copied, if it stands at the same place, or found. */
    BECOMES("(float[n,2,3] x) => (y) <const int64[1] s = {0}> { float[n,6] a = Flatten(x); "
            "float[1,n,6] b = Unsqueeze(a, s); float[1,n,1,6] y = Unsqueeze(b, s) }",
            "reshapes dead_code",
            "=> (float[1,n,1,6] y)\n<const int64[4] y_shape = {1, -1, 1, 6}>\n{\n  y = Reshape(x, y_shape)\n}\n");
    BECOMES("(float[n,m,6] x) => (y) <const int64[4] s = {0, 0, 3, 2}, const int64[1] t = {4}> { "
            "float[n,m,3,2] a = Reshape(x, s); float[n,m,3,2,1] y = Unsqueeze(a, t) }",
            "reshapes dead_code",
            "=> (float[n,m,3,2,1] y)\n<const int64[5] y_shape = {0, 0, 3, 2, 1}>\n{\n  y = Reshape(x, y_shape)\n}\n");
}

TEST(reshapes_of_dims_of_one_keep_strides) {
    BECOMES("(float[n,4] x) => (y) <const int64[1] s = {0}> { float[1,n,4] a = Unsqueeze(x, s); "
            "float[1,1,n,4] y = Unsqueeze(a, s) }",
            "reshapes dead_code",
            "=> (float[1,1,n,4] y)\n<const int64[2] y_axes = {0, 1}>\n{\n  y = Unsqueeze(x, y_axes)\n}\n");
    BECOMES(
        "(float[n,1,1] x) => (y) <const int64[1] s = {1}> { float[n,1] a = Squeeze(x, s); float[n] y = Squeeze(a, s) }",
        "reshapes dead_code", "=> (float[n] y)\n<const int64[2] y_axes = {1, 2}>\n{\n  y = Squeeze(x, y_axes)\n}\n");
    BECOMES("(float[n,4] x) => (y) <const int64[1] s = {0}> { float[1,n,4] a = Unsqueeze(x, s); float[n,4] b = "
            "Squeeze(a, s); y = Neg(b) }",
            "reshapes dead_code", "=> (float[n,4] y)\n{\n  y = Neg(x)\n}\n");
    /* Axes were an attribute once. */
    BECOMES_AT("11",
               "(float[n,4] x) => (y) { float[1,n,4] a = Unsqueeze<axes = [0]>(x); float[1,1,n,4] y = "
               "Unsqueeze<axes = [0]>(a) }",
               "reshapes dead_code", "=> (float[1,1,n,4] y)\n{\n  y = Unsqueeze<axes = [0, 1]>(x)\n}\n");
    /* A squeezed dim of unknown size is checked in the run. */
    BECOMES(
        "(float[n,4] x) => (y) <const int64[1] s = {0}> { float[4] a = Squeeze(x, s); float[1,4] y = Unsqueeze(a, s) }",
        "reshapes dead_code",
        "=> (float[1,4] y)\n<const int64[1] s = {0}>\n{\n  a = Squeeze(x, s)\n  y = Unsqueeze(a, s)\n}\n");
}

TEST(reshapes_of_nothing) {
    BECOMES("(float[0,3] x) => (y) <const int64[2] s = {3, 0}> { float[1,0] a = Flatten<axis = 0>(x); "
            "float[3,0] y = Reshape<allowzero = 1>(a, s) }",
            "reshapes dead_code",
            "=> (float[3,0] y)\n<const int64[2] s = {3, 0}>\n{\n  y = Reshape<allowzero = 1>(x, s)\n}\n");
    BECOMES("(float[0,3] x) => (y) <const int64[1] s = {1}> { float[0,3] a = Flatten(x); float[0,1,3] y = "
            "Unsqueeze(a, s) }",
            "reshapes dead_code",
            "=> (float[0,1,3] y)\n<const int64[3] y_shape = {0, 1, 3}>\n{\n  y = Reshape(x, y_shape)\n}\n");
    BECOMES("(float[3,0] x) => (y) { float[1,0] a = Flatten<axis = 0>(x); float[0,1] y = Flatten<axis = 2>(a) }",
            "reshapes dead_code",
            "=> (float[0,1] y)\n<const int64[2] y_shape = {0, 1}>\n{\n  y = Reshape<allowzero = 1>(x, y_shape)\n}\n");
}

TEST(reshapes_that_stay) {
    /* Two dims are open. */
    BECOMES("(float[n,m] x, int64[2] s) => (y) <const int64[1] t = {0}> { float[p,q] a = Reshape(x, s); "
            "float[1,p,q] y = Unsqueeze(a, t) }",
            "reshapes dead_code",
            "=> (float[1,p,q] y)\n<const int64[1] t = {0}>\n{\n  a = Reshape(x, s)\n  y = Unsqueeze(a, t)\n}\n");
    /* p and q are known by the first Reshape alone: without it nobody could tell the output's size. */
    BECOMES("(float[n,m] x, int64[2] s) => (y) <const int64[1] t = {-1}> { float[p,q] a = Reshape(x, s); "
            "float[p*q] y = Reshape(a, t) }",
            "reshapes dead_code",
            "=> (float[p*q] y)\n<const int64[1] t = {-1}>\n{\n  a = Reshape(x, s)\n  y = Reshape(a, t)\n}\n");
    /* -1 beside a copied dim has no one answer when that is 0. */
    BECOMES("(float[n,m,6] x) => (y) <const int64[1] t = {1}> { float[n,6*m] a = Flatten(x); float[n,1,6*m] y = "
            "Unsqueeze(a, t) }",
            "reshapes dead_code",
            "=> (float[n,1,6*m] y)\n<const int64[1] t = {1}>\n{\n  a = Flatten(x)\n  y = Unsqueeze(a, t)\n}\n");
}

TEST(reshapes_by_a_computed_shape) {
    BECOMES("(float[n,2,3] x, int64[2] s) => (y) { float[n,6] y = Reshape(x, s) }", "reshapes dead_code",
            "=> (float[n,6] y)\n<const int64[2] y_shape = {0, 6}>\n{\n  y = Reshape(x, y_shape)\n}\n");
    BECOMES("(float[n,2,3] x, int64[2] s) => (y) { float[p,6] y = Reshape(x, s) }", "reshapes dead_code",
            "=> (float[p,6] y)\n{\n  y = Reshape(x, s)\n}\n");
}

/* ---- transposes ---- */

TEST(transposes_are_composed) {
    BECOMES("(float[a,b,c] x) => (y) { float[b,c,a] t = Transpose<perm = [1, 2, 0]>(x); float[c,b,a] y = "
            "Transpose<perm = [1, 0, 2]>(t) }",
            "transposes dead_code", "=> (float[c,b,a] y)\n{\n  y = Transpose<perm = [2, 1, 0]>(x)\n}\n");
    BECOMES("(float[a,b] x) => (y) { float[b,a] t = Transpose(x); float[a,b] u = Transpose(t); y = Neg(u) }",
            "transposes identity dead_code", "=> (float[a,b] y)\n{\n  y = Neg(x)\n}\n");
    /* The one between is used elsewhere and stays. */
    BECOMES(
        "(float[a,b] x) => (y, z) { float[b,a] t = Transpose(x); z = Neg(t); float[a,b] u = Transpose(t); y = Neg(u) }",
        "transposes identity dead_code",
        "=> (float[a,b] y, float[b,a] z)\n{\n  t = Transpose(x)\n  z = Neg(t)\n  y = Neg(x)\n}\n");
}

TEST(transposes_of_dims_of_one_are_reshapes) {
    BECOMES("(float[n,1,4] x) => (y) { float[1,n,4] y = Transpose<perm = [1, 0, 2]>(x) }", "transposes dead_code",
            "=> (float[1,n,4] y)\n<const int64[3] y_shape = {1, -1, 4}>\n{\n  y = Reshape(x, y_shape)\n}\n");
    BECOMES("(float[n,k,4] x) => (y) { float[k,n,4] y = Transpose<perm = [1, 0, 2]>(x) }", "transposes dead_code",
            "=> (float[k,n,4] y)\n{\n  y = Transpose<perm = [1, 0, 2]>(x)\n}\n");
    /* A view stays one. */
    BECOMES(
        "(float[8,1,4] x) => (y) <const int64[1] s = {0}, const int64[1] e = {3}> { float[3,1,4] a = Slice(x, s, e); "
        "float[1,3,4] y = Transpose<perm = [1, 0, 2]>(a) }",
        "transposes dead_code",
        "=> (float[1,3,4] y)\n<const int64[1] s = {0},\n const int64[1] e = {3}>\n{\n  a = Slice(x, s, e)\n"
        "  y = Transpose<perm = [1, 0, 2]>(a)\n}\n");
}

TEST(transposes_go_into_gemm) {
    BECOMES("(float[k,n] x, float[k,m] z) => (y) { float[n,k] a = Transpose(x); float[n,m] y = Gemm(a, z) }",
            "transposes dead_code", "=> (float[n,m] y)\n{\n  y = Gemm<transA = 1>(x, z)\n}\n");
    BECOMES("(float[n,k] x, float[k,m] z) => (y) { float[m,k] b = Transpose<perm = [1, 0]>(z); float[n,m] y = "
            "Gemm<transB = 1, alpha = 2>(x, b) }",
            "transposes dead_code", "=> (float[n,m] y)\n{\n  y = Gemm<transB = 0, alpha = 2.0>(x, z)\n}\n");
}

TEST(transposes_behind_products_swap_their_operands) {
    BECOMES("(float[k,n] x, float[k,m] z) => (y) { float[n,m] p = Gemm<transA = 1, alpha = 2>(x, z); float[m,n] y = "
            "Transpose(p) }",
            "transposes dead_code", "=> (float[m,n] y)\n{\n  y = Gemm<transA = 1, transB = 0, alpha = 2.0>(z, x)\n}\n");
    BECOMES("(float[k,n] x, float[k,m] z) => (y) { float[n,k] a = Transpose(x); float[n,m] p = MatMul(a, z); "
            "float[m,n] y = Transpose<perm = [1, 0]>(p) }",
            "transposes dead_code", "=> (float[m,n] y)\n{\n  y = Gemm<transA = 1, transB = 0, alpha = 1.0>(z, x)\n}\n");
    BECOMES("(float[n,k] x, float[k,m] z) => (y, p) { float[n,m] p = MatMul(x, z); float[m,n] y = Transpose(p) }",
            "transposes dead_code", "=> (float[m,n] y, float[n,m] p)\n{\n  p = MatMul(x, z)\n  y = Transpose(p)\n}\n");
    BECOMES("(float[n,1] x) => (y) <const float[1,2] z = {1, 2}> { float[n,2] p = MatMul(x, z); float[2,n] y = "
            "Transpose(p) }",
            "transposes dead_code",
            "=> (float[2,n] y)\n<const float[1,2] z = {1, 2}>\n{\n  p = MatMul(x, z)\n  y = Transpose(p)\n}\n");
    BECOMES("(float[n,k] x, float[k,m] z, float[m] c) => (y) { float[n,m] p = Gemm(x, z, c); float[m,n] y = "
            "Transpose(p) }",
            "transposes dead_code", "=> (float[m,n] y)\n{\n  p = Gemm(x, z, c)\n  y = Transpose(p)\n}\n");
}

/* ---- concats ---- */

TEST(concats_of_concats_are_one) {
    BECOMES("(float[n,2] x, float[n,3] z) => (y) { float[n,5] a = Concat<axis = 1>(x, z); float[n,7] b = "
            "Concat<axis = -1>(a, x); float[n,10] y = Concat<axis = 1>(z, b) }",
            "concats dead_code", "=> (float[n,10] y)\n{\n  y = Concat<axis = 1>(z, x, z, x)\n}\n");
    BECOMES("(float[2,2] x) => (y) { float[2,4] a = Concat<axis = 1>(x, x); float[4,4] y = Concat<axis = 0>(a, a) }",
            "concats dead_code",
            "=> (float[4,4] y)\n{\n  a = Concat<axis = 1>(x, x)\n  y = Concat<axis = 0>(a, a)\n}\n");
    BECOMES("(float[2,2] x) => (y, a) { float[2,4] a = Concat<axis = 1>(x, x); float[2,6] y = Concat<axis = 1>(a, x) }",
            "concats dead_code",
            "=> (float[2,6] y, float[2,4] a)\n{\n  a = Concat<axis = 1>(x, x)\n  y = Concat<axis = 1>(a, x)\n}\n");
    BECOMES("(float[2,1] x) => () <var float[2,k] v> { float[2,k+1] a = Concat<axis = 1>(v, x); t = Neg(a) }",
            "concats", "=> ()\n<var float[2,k] v>\n{\n  a = Concat<axis = 1>(v, x)\n  t = Neg(a)\n}\n");
}
