/* Quantized ops against the same in plain ops, and packed tensors through views, copies, branches and files of text, on
 * every device and thread count. */
#include "tests/model.h"

static void fill_bytes(unsigned char *p, int n, unsigned seed) {
    for (int i = 0; i < n; i++) p[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 22);
}

/* Differences from a plain product and convolution in float, exact for these sizes. */
static const char integer_text[] =
    "<opset: \"\" 25>\n"
    "g (uint8[2,3,k] a, int8[k,n] b, uint8[] za, int8[n] zb, uint8[1,2,7,9] x, int8[4,2,3,3] w) => (p, c)\n"
    "<const int8[4] zw = {3, -7, 0, 100}, const int64[3] ones = {1, 2, 3}>\n"
    "{\n"
    "  y = MatMulInteger(a, b, za, zb)  yf = Cast<to = 1>(y)\n"
    "  af = Cast<to = 1>(a) bf = Cast<to = 1>(b) zaf = Cast<to = 1>(za) zbf = Cast<to = 1>(zb)\n"
    "  a0 = Sub(af, zaf) b0 = Sub(bf, zbf) m = MatMul(a0, b0)  p = Sub(yf, m)\n"
    "  v = ConvInteger<pads = [1,1,1,1]>(x, w, za, zw)  vf = Cast<to = 1>(v)\n"
    "  xf = Cast<to = 1>(x) wf = Cast<to = 1>(w) zwf = Cast<to = 1>(zw) zwr = Unsqueeze(zwf, ones)\n"
    "  x0 = Sub(xf, zaf) w0 = Sub(wf, zwr) q = Conv<pads = [1,1,1,1]>(x0, w0)  c = Sub(vf, q)\n"
    "}\n";

static void integers(model *m) {
    unsigned char a[2 * 3 * 70], b[70 * 19], x[126], w[72], za = 93;
    signed char zb[19];
    fill_bytes(a, sizeof a, 1), fill_bytes(b, sizeof b, 2), fill_bytes(x, sizeof x, 3), fill_bytes(w, sizeof w, 4);
    for (int i = 0; i < 19; i++) zb[i] = (signed char)(i * 13 - 100);
    model_open(m, integer_text);
    for (int k = 70, n = 19; k >= 0; k -= 35, n -= 9) {
        model_input(m, "a", NACRE_UINT8, 3, D(2, 3, k), a);
        model_input(m, "b", NACRE_INT8, 2, D(k, n), b);
        model_input(m, "za", NACRE_UINT8, 0, NULL, &za);
        model_input(m, "zb", NACRE_INT8, 1, D(n), zb);
        model_input(m, "x", NACRE_UINT8, 4, D(1, 2, 7, 9), x);
        model_input(m, "w", NACRE_INT8, 4, D(4, 2, 3, 3), w);
        model_run(m);
        const float *p = model_floats(m, "p", 6 * n), *c = model_floats(m, "c", 4 * 63);
        for (int i = 0; i < 6 * n && p; i++) CHECK_NEAR(p[i], 0, 0);
        for (int i = 0; i < 4 * 63 && c; i++) CHECK_NEAR(c[i], 0, 0);
        model_collect_all(m);
    }
}

TEST(quant_integers_against_plain_ops) { model_everywhere(integers); }

/* int4 through a transposition (a copy of strided bits), reshapes, a branch, a filled tensor and a constant. */
static const char packed_text[] =
    "<opset: \"\" 25>\n"
    "g (int4[3,n] x, bool[] yes) => (int4[n,3] t, int8[k] flat, int4[3,n] same, int8[3,n] sum, uint2[5] twos)\n"
    "<const int64[1] all = {-1}, const int64[1] five = {5}, const int4[3,1] c = {-8, 7, 1}>\n"
    "{\n"
    "  t = Transpose(x)\n"
    "  r = Reshape(x, all)  flat = Cast<to = 3>(r)\n"
    "  same = If(yes)<then_branch = { () => (u) { u = Identity(^x) } },"
    " else_branch = { () => (v) { i = Cast<to = 6>(^x)\n v = Cast<to = 22>(i) } }>\n"
    "  x8 = Cast<to = 6>(x) c8 = Cast<to = 6>(c) s = Add(x8, c8) sum = Cast<to = 3>(s)\n"
    "  twos = ConstantOfShape<value = uint2[1] {3}>(five)\n"
    "}\n";

static int nibble(const unsigned char *p, int i) {
    int v = p[i / 2] >> i % 2 * 4 & 15;
    return v < 8 ? v : v - 16;
}

static void packed(model *m) {
    static const int constant[3] = {-8, 7, 1};
    unsigned char x[16];
    fill_bytes(x, sizeof x, 5);
    model_open(m, packed_text);
    for (int n = 7; n >= 1; n -= 3)
        for (int yes = 0; yes < 2; yes++) {
            unsigned char cond = (unsigned char)yes;
            model_input(m, "x", NACRE_INT4, 2, D(3, n), x);
            model_input(m, "yes", NACRE_BOOL, 0, NULL, &cond);
            model_run(m);
            const unsigned char *t = nacre_value_data(model_out(m, "t")),
                                *same = nacre_value_data(model_out(m, "same"));
            const signed char *flat = nacre_value_data(model_out(m, "flat")),
                              *sum = nacre_value_data(model_out(m, "sum"));
            const unsigned char *twos = nacre_value_data(model_out(m, "twos"));
            for (int i = 0; i < 3 * n; i++) {
                int v = nibble(x, i), row = i / n, column = i % n;
                CHECK_INT(nibble(t, column * 3 + row), v);
                CHECK_INT(nibble(same, i), v);
                CHECK_INT(flat[i], v);
                CHECK_INT(sum[i], v + constant[row]);
            }
            CHECK(twos[0] == 0xFF && twos[1] == 0x03);
            model_collect_all(m);
        }
}

/* Numbers to strings and back. */
static void strings(model *m) {
    static const float x[5] = {1.5f, -0.0625f, INFINITY, -3e10f, 7};
    static const int64_t big[2] = {INT64_MAX, -5};
    model_open(m, "<opset: \"\" 25> g (float[n] x, int64[k] i) => (y, j)"
                  " { s = Cast<to = 8>(x) y = Cast<to = 1>(s) t = Cast<to = 8>(i) j = Cast<to = 7>(t) }");
    model_input(m, "x", NACRE_FLOAT, 1, D(5), x);
    model_input(m, "i", NACRE_INT64, 1, D(2), big);
    model_run(m);
    const float *y = model_floats(m, "y", 5);
    const int64_t *j = model_ints(m, "j", 2);
    for (int i = 0; i < 5 && y; i++) CHECK(y[i] == x[i]);
    for (int i = 0; i < 2 && j; i++) CHECK(j[i] == big[i]);
    model_collect_all(m);
}

TEST(casts_through_strings) { model_everywhere(strings); }

TEST(packed_tensors_everywhere) { model_everywhere(packed); }

/* Constant halves are widened into the packed form: the same bits as the same numbers in float, over several pieces of
 * columns. */
enum { HALVES_K = 5, HALVES_N = 203 };

static void halves(model *m) {
    static char text[1 << 14], numbers[1 << 13];
    float x[2 * HALVES_K];
    size_t at = 0;
    for (int i = 0; i < HALVES_K * HALVES_N; i++)
        at += (size_t)snprintf(numbers + at, sizeof numbers - at, "%s%g", i ? ", " : "", (double)(i * 7 % 31 - 15) / 4);
    for (int i = 0; i < 2 * HALVES_K; i++) x[i] = (float)(i * 3 % 11) / 8 - 0.5f;
    snprintf(text, sizeof text,
             "<opset: \"\" 25> g (float[2,5] x) => (y) <const float16[5,203] h = {%s}> \n"
             "{ a = Cast<to = 10>(x) p = MatMul(a, h) pf = Cast<to = 1>(p)\n"
             "  w = Cast<to = 1>(h) q = MatMul(x, w) qh = Cast<to = 10>(q) qf = Cast<to = 1>(qh) y = Sub(pf, qf) }\n",
             numbers);
    model_open(m, text);
    model_input(m, "x", NACRE_FLOAT, 2, D(2, HALVES_K), x);
    model_run(m);
    const float *y = model_floats(m, "y", 2 * HALVES_N);
    for (int i = 0; i < 2 * HALVES_N && y; i++) CHECK(y[i] == 0);
    model_collect_all(m);
}

TEST(constant_halves_are_packed_as_numbers) { model_everywhere(halves); }
