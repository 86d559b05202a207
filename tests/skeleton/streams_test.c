/* Several streams: branches of a graph that overlap, with the bits of one stream; assignments found and given; what two
 * kernels that run at the same time do to errors, cancelling, profiles and failing allocations. */
#include "tests/model.h"

#include "api/api.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* ---- equal bits ---- */

static void (*part)(model *m);

/* The same on 2 and 4 streams, compared with one. */
static void on_all_counts(model *m) {
    static const char *const counts[] = {"2", "4"};
    model_option(m, "streams", "1");
    part(m);
    for (int k = 0; k < 2 && !m->failed; k++) {
        model s;
        model_init(&s, m->device, m->threads);
        model_option(&s, "streams", counts[k]);
        part(&s);
        CHECK_INT(s.failed, 0);
        CHECK(model_dump_count(&s, "program", "compute1 ") > 0);
        if (s.n_bytes != m->n_bytes || memcmp(s.bytes, m->bytes, m->n_bytes) != 0)
            nc_test_failed(__FILE__, __LINE__, "%s streams give other bits than one, on %s with %d threads", counts[k],
                           m->device, m->threads);
        model_close(&s);
    }
}

static void on_streams(void (*body)(model *m)) {
    part = body;
    model_everywhere(on_all_counts);
}

static void feed(model *m, const char *name, int rank, const int64_t *dims, uint64_t seed) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    random_floats(x, n, seed);
    model_input(m, name, NACRE_FLOAT, rank, dims, x);
    free(x);
}

static const char diamond_text[] = "<opset: \"\" 17>\n"
                                   "g (float[n,n] x) => (float[n,n] y)\n"
                                   "{ a = MatMul(x, x) \"stem\"\n"
                                   "  b = MatMul(a, x) \"left\"\n  b2 = Tanh(b)\n  b3 = MatMul(b2, a)\n"
                                   "  c = MatMul(x, a) \"right\"\n  c2 = Sigmoid(c)\n  c3 = MatMul(c2, a)\n"
                                   "  d = Mul(b3, c3)\n  y = MatMul(d, a) \"end\" }\n";

static void diamond(model *m) {
    model_open(m, diamond_text);
    for (int64_t n = 1; n <= 64; n *= 4) {
        for (int again = 0; again < 3; again++) {
            feed(m, "x", 2, D(n, n), (uint64_t)(n + again));
            model_run(m);
            model_collect_all(m);
        }
    }
}

TEST(streams_diamond) { on_streams(diamond); }

/* From two inputs, joined at the end; views lie between, some of them of inputs and with several results. */
static void towers(model *m) {
    model_open(m, "<opset: \"\" 17>\n"
                  "g (float[n,8,6] x, float[n,8,6] z) => (float[n,48] y, float[n,6,8] t)\n"
                  "<const int64[2] flat = {0,-1}, const int64[2] parts = {3,5}>\n"
                  "{ xt = Transpose<perm = [0,2,1]>(x)\n  a = MatMul(x, xt)\n  a1 = Softmax<axis = -1>(a)\n"
                  "  a2 = MatMul(a1, x)\n  a3 = Reshape(a2, flat)\n"
                  "  s0, s1 = Split<axis = 1>(z, parts)\n  e = Exp(s1)\n  f = Concat<axis = 1>(e, s0)\n"
                  "  ft = Transpose<perm = [0,2,1]>(f)\n  b = MatMul(ft, a)\n  bt = Transpose<perm = [0,2,1]>(b)\n"
                  "  b1 = ReduceSum<keepdims = 0>(bt)\n  b2 = Reshape(f, flat)\n"
                  "  c = Add(a3, b2)\n  y = Add(c, b1)\n  t = Neg(b) }\n");
    for (int64_t n = 1; n < 5; n++) {
        feed(m, "x", 3, D(n, 8, 6), 1);
        feed(m, "z", 3, D(n, 8, 6), 2);
        model_run(m);
        model_collect_all(m);
    }
}

TEST(streams_two_towers_with_views) { on_streams(towers); }

static size_t add_weight(char *s, size_t n, size_t cap, const char *head, int count, uint64_t seed) {
    float *p = malloc((size_t)count * sizeof *p);
    random_floats(p, count, seed);
    n += (size_t)snprintf(s + n, cap - n, "%s = {", head);
    for (int i = 0; i < count; i++) n += (size_t)snprintf(s + n, cap - n, "%s%.9g", i ? "," : "", (double)p[i]);
    free(p);
    return n + (size_t)snprintf(s + n, cap - n, "}");
}

/* Four convolutional branches over one stem, joined by Concat, twice. */
static void inception(model *m) {
    size_t cap = 1 << 17, n = 0;
    char *s = malloc(cap);
    n += (size_t)snprintf(
        s + n, cap - n, "<opset: \"\" 17>\ng (float[b,4,9,9] x) => (float[b,12,9,9] y)\n<const float[3] z = {0,0,0}, ");
    n = add_weight(s, n, cap, "const float[3,4,1,1] w1", 12, 1);
    n = add_weight(s, n, cap, ", const float[3,4,3,3] w3", 108, 2);
    n = add_weight(s, n, cap, ", const float[3,3,3,3] w33", 81, 3);
    n = add_weight(s, n, cap, ", const float[3,4,5,5] w5", 300, 4);
    n = add_weight(s, n, cap, ", const float[4,12,1,1] join", 48, 5);
    n += (size_t)snprintf(s + n, cap - n, ">\n{\n");
    for (int k = 0; k < 2; k++) {
        const char *in = k ? "j0" : "x";
        n += (size_t)snprintf(s + n, cap - n,
                              "a%d = Conv(%s, w1, z)\n ar%d = Relu(a%d)\n"
                              "b%d = Conv<pads = [1,1,1,1]>(%s, w3, z)\n br%d = Relu(b%d)\n"
                              "bb%d = Conv<pads = [1,1,1,1]>(br%d, w33, z)\n"
                              "c%d = Conv<pads = [2,2,2,2]>(%s, w5, z)\n cr%d = Tanh(c%d)\n"
                              "p%d = MaxPool<kernel_shape = [3,3], pads = [1,1,1,1]>(%s)\n d%d = Conv(p%d, w1, z)\n"
                              "y%s = Concat<axis = 1>(ar%d, bb%d, cr%d, d%d)\n",
                              k, in, k, k, k, in, k, k, k, k, k, in, k, k, k, in, k, k, k ? "" : "0", k, k, k, k);
        if (!k) n += (size_t)snprintf(s + n, cap - n, "j0 = Conv(y0, join)\n");
    }
    snprintf(s + n, cap - n, "}\n");
    model_open(m, s);
    free(s);
    for (int64_t b = 1; b < 4; b++) {
        feed(m, "x", 4, D(b, 4, 9, 9), (uint64_t)b);
        model_run(m);
        model_collect_all(m);
    }
}

TEST(streams_inception) { on_streams(inception); }

enum { BRANCHES = 24 };

static void small_branches(model *m) {
    char s[8192];
    size_t n = (size_t)snprintf(s, sizeof s, "<opset: \"\" 17>\ng (float[k,k] x) => (float[k,k] y)\n{\n");
    for (int i = 0; i < BRANCHES; i++)
        n += (size_t)snprintf(s + n, sizeof s - n, "a%d = MatMul(x, %s%d)\nb%d = Sin(a%d)\nc%d = MatMul(b%d, x)\n", i,
                              i > 3 ? "b" : "x", i > 3 ? i - 4 : 0, i, i, i, i);
    n += (size_t)snprintf(s + n, sizeof s - n, "y = Sum(");
    for (int i = 0; i < BRANCHES; i++) n += (size_t)snprintf(s + n, sizeof s - n, "%sc%d", i ? ", " : "", i);
    snprintf(s + n, sizeof s - n, ")\n}\n");
    for (char *p = s; (p = strstr(p, "x, x0)")) != NULL;) memcpy(p, "x, x) ", 6);
    model_open(m, s);
    for (int i = 0; i < 5; i++) {
        feed(m, "x", 2, D(5, 5), (uint64_t)i);
        model_run(m);
        model_collect_all(m);
    }
}

TEST(streams_many_small_branches) { on_streams(small_branches); }

/* Two variables that swap and grow into each other, read before and after by branches of their own. */
static void variables(model *m) {
    model_open(m, "<opset: \"\" 17>\n"
                  "g (float[4,4] x) => (float[4,4] old, float[4,4] late, float[] sum)\n"
                  "<var float[4,4] u = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16} -> u1,\n"
                  " var float[4,4] v = {0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1} -> v1>\n"
                  "{ p = MatMul(u, x)\n  q = MatMul(v, x)\n  p1 = Tanh(p)\n  q1 = Tanh(q)\n"
                  "  old = MatMul(p1, v)\n  u1 = Add(u, q1)\n  v1 = Add(v, p1)\n"
                  "  late = MatMul(u1, v1)\n  r = Mul(u, v)\n  sum = ReduceSum<keepdims = 0>(r) }\n");
    for (int i = 0; i < 6; i++) {
        feed(m, "x", 2, D(4, 4), (uint64_t)i);
        model_run(m);
        model_collect_all(m);
    }
    nacre_value *u = model_variable(m, "u");
    model_collect(m, u);
    nacre_value_release(u);
}

TEST(streams_update_variables) { on_streams(variables); }

static void training(model *m) {
    const char *params[] = {"W", "V", "U"};
    CHECK(nacre_options_sgd(model_options(m), "loss", params, 3, "lr", &m->err) == NACRE_OK);
    model_open(m,
               "<opset: \"\" 17>\n"
               "g (float[n,3] x, float[n,2] t) => (float[] loss)\n"
               "<const float[3,4] W = {1,2,3,4,5,6,-7,8,-9,1,2,-3}, const float[3,4] V = {-1,2,-3,4,1,6,7,8,9,1,2,3},\n"
               " const float[4,2] U = {1,-1,2,-2,3,-3,1,2}>\n"
               "{ a = MatMul(x, W)\n a1 = Tanh(a)\n b = MatMul(x, V)\n b1 = Sigmoid(b)\n"
               "  c = Mul(a1, b1)\n y = MatMul(c, U)\n d = Sub(y, t)\n e = Mul(d, d)\n"
               "  loss = ReduceMean<keepdims = 0>(e) }\n");
    float lr = 0.05f;
    for (int i = 0; i < 4; i++) {
        feed(m, "x", 2, D(5 + i, 3), (uint64_t)i);
        feed(m, "t", 2, D(5 + i, 2), (uint64_t)(i + 9));
        model_input(m, "lr", NACRE_FLOAT, 0, D(0), &lr);
        model_run(m);
        model_collect_all(m);
    }
    for (int i = 0; i < 3; i++) {
        nacre_value *v = model_variable(m, params[i]);
        model_collect(m, v);
        nacre_value_release(v);
    }
}

TEST(streams_train) { on_streams(training); }

/* Branches before, beside and behind a Loop and an If that capture from both. */
static void control(model *m) {
    model_open(m,
               "<opset: \"\" 17>\n"
               "g (float[k,k] x, int64[] n) => (float[k,k] y, float[k,k] z)\n"
               "<const float[] zero = {0}>\n"
               "{ a = MatMul(x, x)\n  b = Tanh(a)\n  c = Exp(x)\n  d = MatMul(c, x)\n"
               "  l = Loop(n, , b)<body = { (int64[] i, bool[] go, float[k,k] s) => (go1, s1)\n"
               "    { go1 = Identity(go)\n p = MatMul(s, ^d)\n q = MatMul(^x, s)\n r = Add(p, q)\n s1 = Tanh(r) } }>\n"
               "  e = MatMul(d, l)\n  f = MatMul(a, l)\n  sum = ReduceSum<keepdims = 0>(f)\n"
               "  up = Greater(sum, zero)\n"
               "  h = If(up)<then_branch = { () => (t) { t = Add(^e, ^f) } }, else_branch = { () => (t) { t = Sub(^e, "
               "^f) } }>\n"
               "  y = MatMul(h, e)\n  z = MatMul(h, f) }\n");
    for (int64_t n = 0; n < 4; n++) {
        feed(m, "x", 2, D(3 + n, 3 + n), (uint64_t)n);
        model_input(m, "n", NACRE_INT64, 0, D(0), &n);
        model_run(m);
        model_collect_all(m);
    }
}

TEST(streams_around_control_flow) { on_streams(control); }

static void found_sizes(model *m) {
    model_open(m, "<opset: \"\" 17>\n"
                  "g (float[n] x, float[n] z) => (float[i] y, float[j] w, float[n] v)\n"
                  "<const int64[1] first = {0}>\n"
                  "{ a = Relu(x)\n  p = NonZero(a)\n  b = Relu(z)\n  q = NonZero(b)\n  v = Mul(a, b)\n"
                  "  p1 = Squeeze(p, first)\n  c = Gather(z, p1)\n  y = Tanh(c)\n"
                  "  q1 = Squeeze(q, first)\n  d = Gather(x, q1)\n  w = Exp(d) }\n");
    for (int i = 0; i < 4; i++) {
        feed(m, "x", 1, D(7 + i * 3), (uint64_t)i);
        feed(m, "z", 1, D(7 + i * 3), (uint64_t)(i + 50));
        model_run(m);
        model_collect_all(m);
    }
}

TEST(streams_find_sizes) { on_streams(found_sizes); }

/* Dynamic kernels between branches: what they make has its dims only when they ran. */
static void objects(model *m) {
    model_open(m, "<opset: \"\" 17>\n"
                  "g (float[4,k] x) => (float[4,k] y, int64[2] s, float[k,k] z)\n"
                  "<const int64[] one = {1}, const int64[] zero = {0}>\n"
                  "{ a = Exp(x)\n  b = Tanh(x)\n  q = SequenceConstruct(a, b)\n  c = SequenceAt(q, one)\n"
                  "  d = SequenceAt(q, zero)\n  e = Neg(c)\n  f = Relu(d)\n  y = Add(e, f)\n  s = Shape(c)\n"
                  "  t = Transpose<perm = [1,0]>(d)\n  z = MatMul(t, e) }\n");
    for (int i = 1; i < 5; i++) {
        feed(m, "x", 2, D(4, i), (uint64_t)i);
        model_run(m);
        model_collect_all(m);
    }
}

TEST(streams_beside_dynamic_kernels) { on_streams(objects); }

TEST(streams_on_cuda) {
    /* Not inception: convolutions have no kernel there yet, so that nothing is left for a second stream. */
    static void (*const bodies[])(model *) = {diamond, towers, small_branches, variables, training, control};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        part = bodies[i];
        if (!model_on_cuda(on_all_counts)) return;
    }
}

/* ---- from cut to cut ---- */

static nacre_value *tensor(model *m, int rank, const int64_t *dims, uint64_t seed) {
    float x[64];
    nacre_value *v = NULL;
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    random_floats(x, n, seed);
    CHECK_INT(nacre_value_new_tensor(NACRE_FLOAT, rank, dims, &v, &m->err), NACRE_OK);
    if (v) memcpy(nacre_value_data(v), x, (size_t)n * sizeof *x);
    return v;
}

static void give(model *m, nacre_frame *f, const char *name, uint64_t seed) {
    nacre_value *v = tensor(m, 2, D(4, 4), seed);
    CHECK_INT(nacre_frame_input(f, name, v, &m->err), NACRE_OK);
    nacre_value_release(v);
}

static void collect(model *m, nacre_frame *f, const char *name) {
    nacre_value *v = NULL;
    CHECK_INT(nacre_frame_output(f, name, &v, &m->err), NACRE_OK);
    model_collect(m, v);
    nacre_value_release(v);
}

static void halves(model *m) {
    const char *y = "y", *wrt[] = {"x"};
    nacre_frame *f[2];
    CHECK(nacre_options_backward(model_options(m), &y, 1, wrt, 1, &m->err) == NACRE_OK);
    CHECK(nacre_options_cut(model_options(m), "forward", &y, 1, &m->err) == NACRE_OK);
    model_open(m, diamond_text);
    if (m->failed) return;
    for (int i = 0; i < 2; i++) {
        CHECK_INT(nacre_frame_create(m->session, m->run, &f[i], &m->err), NACRE_OK);
        give(m, f[i], "x", (uint64_t)i);
        CHECK_INT(nacre_frame_run(f[i], "forward", &m->err), NACRE_OK);
        collect(m, f[i], "y");
    }
    for (int i = 1; i >= 0; i--) {
        give(m, f[i], "d:y", (uint64_t)(i + 5));
        CHECK_INT(nacre_frame_run(f[i], NULL, &m->err), NACRE_OK);
        collect(m, f[i], "grad:x");
        nacre_frame_release(f[i]);
    }
}

TEST(streams_forward_then_backward) { on_streams(halves); }

/* ---- assignments ---- */

/* The line of the program's dump in which value `name` is made starts with this stream. */
static bool is_made_on(model *m, const char *name, const char *stream) {
    char *text, part_[64];
    if (m->failed || nacre_session_dump(m->session, "program", &text, &m->err) != NACRE_OK) return false;
    snprintf(part_, sizeof part_, ":%s(", name);
    const char *at = strstr(text, part_);
    while (at && at > text && at[-1] != '\n') at--;
    const char *found = at ? strstr(at, stream) : NULL;
    bool ok = found && found < strchr(at, '\n') && found < strstr(at, part_);
    nacre_free(text);
    return ok;
}

static void found(model *m) {
    model_option(m, "streams", "2");
    model_option(m, "fusion", "off"); /* every value is to be seen */
    model_open(m, diamond_text);
    CHECK(is_made_on(m, "a", "compute0") && is_made_on(m, "b", "compute0") && is_made_on(m, "b3", "compute0"));
    CHECK(is_made_on(m, "c", "compute1") && is_made_on(m, "c3", "compute1"));
    CHECK(model_dump_count(m, "program", "wait e") > 0);
}

TEST(streams_a_second_branch_takes_the_other_stream) { model_everywhere(found); }

static void given(model *m) {
    model_option(m, "streams", "3");
    model_option(m, "fusion", "off");
    CHECK_INT(nacre_options_stream(model_options(m), "left", 0, &m->err), NACRE_OK);
    CHECK_INT(nacre_options_stream(model_options(m), "left", 2, &m->err), NACRE_OK); /* the later counts */
    CHECK_INT(nacre_options_stream(model_options(m), "stem", 1, &m->err), NACRE_OK);
    model_option(m, "stream", "0 end");
    model_open(m, diamond_text);
    CHECK(is_made_on(m, "a", "compute1") && is_made_on(m, "b", "compute2"));
    CHECK(is_made_on(m, "y", "compute0") || is_made_on(m, "y", "copy")); /* a device's outputs are copied */
    feed(m, "x", 2, D(9, 9), 1);
    model_run(m);
    model_collect_all(m);
}

TEST(streams_given_by_the_caller) { model_everywhere(given); }

/* What a stream was doing beside a Loop, which knows nothing of it, is awaited behind the Loop. */
static void aside(model *m) {
    static const char *const names[] = {"before", "aside", "after"};
    model_option(m, "streams", "2");
    for (int i = 0; i < 3; i++) CHECK_INT(nacre_options_stream(model_options(m), names[i], i == 1, &m->err), NACRE_OK);
    model_open(m, "<opset: \"\" 17>\n"
                  "g (float[k,k] x, int64[] n) => (float[k,k] y)\n"
                  "{ a = MatMul(x, x) \"before\"\n  e = Exp(x)\n  w = MatMul(e, x) \"aside\"\n"
                  "  l = Loop(n, , a)<body = { (int64[] i, bool[] go, float[k,k] s) => (go1, s1)\n"
                  "    { go1 = Identity(go)\n p = MatMul(s, ^x)\n s1 = Tanh(p) } }>\n"
                  "  y = MatMul(l, w) \"after\" }\n");
    CHECK(is_made_on(m, "w", "compute1"));
    for (int i = 0; !m->failed && i < m->session->s->program->n_instrs; i++) {
        const nc_instr *x = &m->session->s->program->instrs[i];
        if (strcmp(x->node->name, "after") == 0 && strcmp(m->device, "cpu") != 0) CHECK(x->n_wait == 1);
    }
    for (int64_t n = 0; n < 3; n++) {
        feed(m, "x", 2, D(5, 5), (uint64_t)n);
        model_input(m, "n", NACRE_INT64, 0, D(0), &n);
        model_run(m);
        model_collect_all(m);
    }
}

TEST(streams_beside_a_loop) { model_everywhere(aside); }

/* Nodes that became one kernel: their names still count. */
static void chained(model *m) {
    model_option(m, "streams", "2");
    CHECK_INT(nacre_options_stream(model_options(m), "inner", 1, &m->err), NACRE_OK);
    model_open(m, "<opset: \"\" 17>\ng (float[n] x) => (float[n,n] y)\n<const int64[1] one = {1}>\n"
                  "{ a = Sin(x) \"inner\"\n  b = Neg(a) \"outer\"\n  c = Unsqueeze(b, one)\n  y = Mul(c, x) }\n");
    CHECK(is_made_on(m, "b", "compute1"));
    CHECK(model_dump_count(m, "program", "Chain") > 0);
}

TEST(streams_given_for_a_part_of_a_kernel) { model_everywhere(chained); }

static void refused(model *m, const char *count, const char *node, int stream, const char *text, const char *says) {
    model s;
    model_init(&s, m->device, m->threads);
    model_option(&s, "streams", count);
    CHECK_INT(nacre_options_stream(model_options(&s), node, stream, &s.err), NACRE_OK);
    CHECK_INT(model_try_open(&s, text), NACRE_ARGUMENT);
    CHECK_STR(s.err.node, node);
    if (!strstr(s.err.text, says)) nc_test_failed(__FILE__, __LINE__, "'%s' does not say '%s'", s.err.text, says);
    model_close(&s);
}

static void wrong(model *m) {
    refused(m, "2", "lefft", 0, diamond_text, "none of that name");
    refused(m, "2", "left", 2, diamond_text, "expected 0 to 1, as the session computes on 2, got 2");
    refused(m, "1", "left", 1, diamond_text, "expected 0 to 0, as the session computes on 1, got 1");
    refused(m, "2", "pick", 1,
            "<opset: \"\" 17>\ng (float[n] x) => (float[n] y)\n<const int64[] zero = {0}>\n"
            "{ q = SequenceConstruct(x)\n  y = SequenceAt(q, zero) \"pick\" }\n",
            strcmp(m->device, "cpu") == 0 ? "dynamic" : "the host runs");
    nacre_options *o = model_options(m);
    CHECK_INT(nacre_options_stream(o, "left", -1, &m->err), NACRE_ARGUMENT);
    CHECK(strstr(m->err.text, "'left'") && strstr(m->err.text, "got -1"));
    CHECK_INT(nacre_options_stream(o, "", 1, &m->err), NACRE_ARGUMENT);
    CHECK_INT(nacre_options_set(o, "streams", "0", &m->err), NACRE_ARGUMENT);
    CHECK_INT(nacre_options_set(o, "streams", "65", &m->err), NACRE_ARGUMENT);
    CHECK_INT(nacre_options_set(o, "streams", "two", &m->err), NACRE_ARGUMENT);
    CHECK_INT(nacre_options_set(o, "stream", "left", &m->err), NACRE_ARGUMENT);
    CHECK_INT(nacre_options_set(o, "stream", "1", &m->err), NACRE_ARGUMENT);
    CHECK_INT(nacre_options_set(o, "stream", "1 ", &m->err), NACRE_ARGUMENT);
}

TEST(streams_given_wrongly) { model_everywhere(wrong); }

static void disagree(model *m) {
    model_option(m, "streams", "2");
    model_option(m, "stream", "0 s");
    model_option(m, "stream", "1 t");
    CHECK_INT(model_try_open(m, "<opset: \"\" 17>\ng (float[n] x) => (float[n] y)\n{ a = Sin(x) \"s\"\n"
                                "  b = Neg(a) \"t\"\n y = Exp(b) }\n"),
              NACRE_ARGUMENT);
    CHECK(strstr(m->err.text, "one kernel"));
}

TEST(streams_of_one_kernel_must_agree) { model_everywhere(disagree); }

static void captured(model *m) {
    model_option(m, "streams", "2");
    model_option(m, "capture", "on");
    model_open(m, diamond_text);
    feed(m, "x", 2, D(6, 6), 1);
    for (int i = 0; i < 3; i++) model_run(m);
    model_collect_all(m);
    CHECK_INT(model_stats(m).captures, 0);
    CHECK_INT(model_dump_count(m, "program",
                               strcmp(m->device, "cpu") == 0 ? "no device instruction" : "several streams compute"),
              1);
}

TEST(streams_that_overlap_are_not_captured) { model_everywhere(captured); }

/* ---- at the same time ---- */

static atomic_int present, met;

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

/* Waits until two calls are in it, for ten seconds at most. */
static nc_code meet(const nc_call *c) {
    (void)c;
    atomic_fetch_add(&present, 1);
    for (int i = 0; i < 10000 && atomic_load(&present) < 2; i++) nap();
    if (atomic_load(&present) >= 2) atomic_fetch_add(&met, 1);
    return NC_OK;
}

/* Puts `run` in the place of the kernels of all nodes of that op. */
static void replace_kernels(model *m, const char *op, nc_binding *with, nc_kernel run) {
    nc_program *p = m->session->s->program;
    for (int i = 0; i < p->n_instrs; i++)
        if (strcmp(p->instrs[i].node->card->name, op) == 0) *with = *p->instrs[i].binding, p->instrs[i].binding = with;
    with->run = run;
}

TEST(streams_of_the_host_run_at_the_same_time) {
    for (int threads = 2; threads < 6; threads += 3) {
        nc_binding b = {0};
        model m;
        atomic_store(&present, 0);
        atomic_store(&met, 0);
        model_init(&m, "cpu", threads);
        model_option(&m, "streams", "2");
        model_open(&m, "<opset: \"\" 17>\ng (float[n,n] x) => (float[n,n] y, float[n,n] z)\n"
                       "{ y = MatMul(x, x)\n  a = Tanh(x)\n  z = MatMul(a, x) }\n");
        if (!m.failed) replace_kernels(&m, "MatMul", &b, meet);
        feed(&m, "x", 2, D(3, 3), 1);
        model_run(&m);
        CHECK_INT(atomic_load(&met), 2);
        model_close(&m);
    }
}

static nc_code (*real_dynamic)(nc_dyn *d);

static nc_code take_long(nc_dyn *d) {
    for (int i = 0; i < 20; i++) nap();
    return real_dynamic(d);
}

/* A view behind a dynamic kernel that takes long: who reads through it waits until it is there. */
TEST(streams_wait_for_a_view) {
    nc_binding b = {0};
    model m;
    float x[6] = {1, 2, 3, 4, 5, 6};
    model_init(&m, "cpu", 3);
    model_option(&m, "level", "off"); /* the view is to stay */
    model_option(&m, "streams", "2");
    model_open(&m, "<opset: \"\" 17>\ng (float[2,3] x) => (float[3,3] y, float[2,3] z)\n<const int64[] zero = {0}>\n"
                   "{ q = SequenceConstruct(x)\n  s = SequenceAt(q, zero)\n  v = Transpose<perm = [1,0]>(x)\n"
                   "  y = MatMul(v, x)\n  z = Tanh(s) }\n");
    if (!m.failed) replace_kernels(&m, "SequenceAt", &b, NULL);
    real_dynamic = b.dynamic, b.dynamic = take_long;
    for (int again = 0; again < 3; again++) {
        model_input(&m, "x", NACRE_FLOAT, 2, D(2, 3), x);
        model_run(&m);
        const float *y = model_floats(&m, "y", 9);
        for (int i = 0; i < 9; i++) CHECK_NEAR(y[i], x[i / 3] * x[i % 3] + x[3 + i / 3] * x[3 + i % 3], 0);
        x[again] += 1;
    }
    model_close(&m);
}

/* A loop that the host alone works in ends with its streams drained, as the clocks of what is behind it count on, also
 * where it copies nothing itself. */
TEST(streams_are_drained_by_a_loop_of_the_host) {
    model m;
    float x[6] = {1, -2, 3, -4, 5, -6};
    model_init(&m, "guard", 1);
    model_open(
        &m, "<opset: \"\" 22>\ng (float[6] x, float[6] z) => (s, float[6] y)\n"
            "{ q = SequenceConstruct(x, x)\n  s = SequenceMap(q)<body = { (float[6] p) => (r) { r = Identity(p) } }>\n"
            "  y = Neg(z) }\n");
    for (int again = 0; again < 3; again++) {
        model_input(&m, "x", NACRE_FLOAT, 1, D(6), x);
        model_input(&m, "z", NACRE_FLOAT, 1, D(6), x);
        model_run(&m);
        const float *y = model_floats(&m, "y", 6);
        for (int i = 0; i < 6; i++) CHECK_NEAR(y[i], -x[i], 0);
        x[again] += 1;
    }
    model_close(&m);
}

static char order[64];

static nc_code note(const nc_call *c) {
    strncat(order, c->node, sizeof order - strlen(order) - 1);
    return NC_OK;
}

/* The guard runs a stream as far as somebody waits for it: with two, a branch runs before what was issued first. */
TEST(streams_of_a_device_run_out_of_step) {
    static const char text[] = "<opset: \"\" 17>\ng (float[n,n] x, float[n,n] z) => (float[n,n] y, float[n,n] w)\n"
                               "{ a = MatMul(x, x) \"a\"\n b = MatMul(z, z) \"b\"\n"
                               "  y = MatMul(a, x) \"c\"\n w = MatMul(b, z) \"d\" }\n";
    for (int k = 0; k < 2; k++) {
        nc_binding b = {0};
        model m;
        order[0] = '\0';
        model_init(&m, "guard", 1);
        model_option(&m, "streams", k ? "2" : "1");
        model_open(&m, text);
        if (!m.failed) replace_kernels(&m, "MatMul", &b, note);
        feed(&m, "x", 2, D(3, 3), 1);
        feed(&m, "z", 2, D(3, 3), 2);
        model_run(&m);
        CHECK_STR(order, k ? "acbd" : "abcd");
        model_close(&m);
    }
}

/* Where only one instruction can run the host's streams stay in step and the kernel has all threads: none is beside
 * others but in the branches. */
TEST(streams_stem_and_end_run_alone) {
    model m;
    int n_beside = 0;
    model_init(&m, "cpu", 2);
    model_option(&m, "streams", "4");
    model_option(&m, "fusion", "off");
    model_open(&m, diamond_text);
    REQUIRE(!m.failed);
    const nc_program *p = m.session->s->program;
    for (int i = 0; i < p->n_instrs; i++) {
        const char *name = p->instrs[i].node->name;
        n_beside += p->instrs[i].beside;
        if (strcmp(name, "stem") == 0 || strcmp(name, "end") == 0) CHECK(!p->instrs[i].beside);
        if (strcmp(name, "left") == 0 || strcmp(name, "right") == 0) CHECK(p->instrs[i].beside);
    }
    CHECK_INT(n_beside, 6);
    model_close(&m);
}

/* ---- what goes wrong ---- */

static const char gathers[] =
    "<opset: \"\" 17>\ng (float[5] x, int64[k] i, int64[k] j) => (float[k] y)\n"
    "{ a = Gather(x, i) \"first\"\n  a1 = Exp(a)\n  b = Gather(x, j) \"second\"\n  b1 = Sin(b)\n"
    "  y = Add(a1, b1) }\n";

/* Both branches fail: what is told is the first in the program's order, however they overlap. */
TEST(streams_tell_the_first_error_of_the_program) {
    static const int threads[] = {1, 2, 5};
    int64_t bad[2] = {1, 77}, good[2] = {1, 2};
    for (int t = 0; t < 3; t++) {
        model m;
        model_init(&m, "cpu", threads[t]);
        model_option(&m, "streams", "2");
        model_open(&m, gathers);
        for (int again = 0; again < 30 && !m.failed; again++) {
            feed(&m, "x", 1, D(5), 1);
            model_input(&m, "i", NACRE_INT64, 1, D(2), again % 3 == 1 ? good : bad);
            model_input(&m, "j", NACRE_INT64, 1, D(2), again % 3 == 2 ? good : bad);
            CHECK(model_try_run(&m) != NACRE_OK);
            CHECK_STR(m.err.node, again % 3 == 1 ? "second" : "first");
            CHECK(strstr(m.err.text, "77") != NULL);
        }
        model_input(&m, "i", NACRE_INT64, 1, D(2), good);
        model_input(&m, "j", NACRE_INT64, 1, D(2), good);
        model_run(&m);
        model_close(&m);
    }
}

static const char *late;

/* Two calls meet here, and both fail; the one of node `late` a good while after the other. */
static nc_code fail_both(const nc_call *c) {
    NC_TRY(meet(c));
    for (int i = 0; i < 30 && strcmp(c->node, late) == 0; i++) nap();
    return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "as wanted");
}

TEST(streams_tell_the_first_error_of_the_program_not_of_the_day) {
    static const char *const names[] = {"first", "second"};
    int64_t good[2] = {1, 2};
    for (int k = 0; k < 2; k++) {
        nc_binding b = {0};
        model m;
        late = names[k];
        atomic_store(&present, 0);
        model_init(&m, "cpu", 2);
        model_option(&m, "streams", "2");
        model_open(&m, gathers);
        if (!m.failed) replace_kernels(&m, "Gather", &b, fail_both);
        feed(&m, "x", 1, D(5), 1);
        model_input(&m, "i", NACRE_INT64, 1, D(2), good);
        model_input(&m, "j", NACRE_INT64, 1, D(2), good);
        CHECK_INT(model_try_run(&m), NACRE_DATA);
        CHECK_STR(m.err.node, "first");
        model_close(&m);
    }
}

static void cancelled(model *m) {
    model_option(m, "streams", "2");
    model_open(m, diamond_text);
    feed(m, "x", 2, D(6, 6), 1);
    model_run(m);
    nacre_run_options_cancel(m->run, 1);
    CHECK_INT(model_try_run(m), NACRE_CANCELLED);
    nacre_run_options_cancel(m->run, 0);
    model_run(m);
    model_collect_all(m);
}

TEST(streams_cancelled) { model_everywhere(cancelled); }

static nacre_run_options *to_cancel;

static nc_code cancel_and_go_on(const nc_call *c) {
    (void)c;
    nacre_run_options_cancel(to_cancel, 1);
    return NC_OK;
}

/* From within a branch: no instruction starts after it. */
TEST(streams_cancelled_while_they_run) {
    nc_binding b = {0};
    model m;
    model_init(&m, "cpu", 3);
    model_option(&m, "streams", "2");
    model_open(&m, gathers);
    if (!m.failed) replace_kernels(&m, "Gather", &b, cancel_and_go_on);
    to_cancel = m.run;
    int64_t good[2] = {1, 2};
    feed(&m, "x", 1, D(5), 1);
    model_input(&m, "i", NACRE_INT64, 1, D(2), good);
    model_input(&m, "j", NACRE_INT64, 1, D(2), good);
    CHECK_INT(model_try_run(&m), NACRE_CANCELLED);
    model_close(&m);
}

static void profiled(model *m) {
    char *trace;
    nacre_profile_op *rows;
    size_t n;
    model_option(m, "streams", "2");
    model_option(m, "profile", "on");
    model_option(m, "fusion", "off");
    model_open(m, diamond_text);
    feed(m, "x", 2, D(6, 6), 1);
    for (int i = 0; i < 3; i++) model_run(m);
    model_collect_all(m);
    REQUIRE(!m->failed && nacre_session_profile(m->session, &trace, &m->err) == NACRE_OK);
    CHECK(strstr(trace, "\"compute0, frame 0\"") && strstr(trace, "\"compute1, frame 0\""));
    nacre_free(trace);
    REQUIRE(nacre_session_profile_ops(m->session, &rows, &n, &m->err) == NACRE_OK);
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].op, "MatMul") == 0) CHECK_INT(rows[i].calls, 18);
    nacre_free(rows);
}

TEST(streams_profiled) { model_everywhere(profiled); }

/* ---- several runs at once ---- */

typedef struct runner {
    nacre_session *s;
    const float *want;
    int bad;
} runner;

enum { SIDE = 24 };

static int run_one(nacre_session *s, float *y) {
    float x[SIDE * SIDE];
    nacre_value *in, *out = NULL;
    const char *in_name = "x", *out_name = "y";
    random_floats(x, SIDE * SIDE, 7);
    if (nacre_value_tensor(NACRE_FLOAT, 2, D(SIDE, SIDE), x, &in, NULL) != NACRE_OK) return 1;
    nacre_code code = nacre_run(s, NULL, &in_name, &in, 1, &out_name, 1, &out, NULL);
    if (code == NACRE_OK) memcpy(y, nacre_value_data(out), sizeof x);
    nacre_value_release(in);
    nacre_value_release(out);
    return code != NACRE_OK;
}

static void *run_many(void *arg) {
    runner *r = arg;
    float y[SIDE * SIDE];
    for (int i = 0; i < 30; i++)
        if (run_one(r->s, y) || memcmp(y, r->want, sizeof y) != 0) r->bad++;
    return NULL;
}

static void concurrent(model *m) {
    float want[SIDE * SIDE];
    pthread_t t[4];
    runner r[4];
    model_option(m, "streams", "3");
    model_open(m, diamond_text);
    REQUIRE(!m->failed && run_one(m->session, want) == 0);
    for (int i = 0; i < 4; i++) {
        r[i] = (runner){m->session, want, 0};
        pthread_create(&t[i], NULL, run_many, &r[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        CHECK_INT(r[i].bad, 0);
    }
}

TEST(streams_of_concurrent_runs) { model_everywhere(concurrent); }

/* ---- failing allocations ---- */

static nacre_code whole_life(const char *device, float *y, nacre_error *err) {
    nacre_env *env = NULL;
    nacre_model *mod = NULL;
    nacre_session *s = NULL;
    nacre_options *o = NULL;
    nacre_code code = nacre_env_create(2, &env, err);
    if (code == NACRE_OK) code = nacre_options_create(&o, err);
    if (code == NACRE_OK) code = nacre_options_set(o, "device", device, err);
    if (code == NACRE_OK) code = nacre_options_set(o, "streams", "2", err);
    if (code == NACRE_OK) code = nacre_options_stream(o, "right", 1, err);
    if (code == NACRE_OK) code = nacre_model_parse(env, diamond_text, &mod, err);
    if (code == NACRE_OK) code = nacre_session_create(env, mod, o, &s, err);
    if (code == NACRE_OK && run_one(s, y)) code = NACRE_MEMORY;
    nacre_session_release(s);
    nacre_options_release(o);
    nacre_env_release(env);
    return code;
}

static void fail_everywhere(const char *device) {
    nacre_error err;
    float want[SIDE * SIDE], got[SIDE * SIDE];
    REQUIRE(whole_life(device, want, &err) == NACRE_OK);
    uint64_t live = nc_mem_live(), n = 1;
    for (;; n++) {
        nc_mem_fail_at(n);
        nacre_code code = whole_life(device, got, &err);
        bool hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
        if (!hit) break;
        if (code == NACRE_OK)
            CHECK(memcmp(want, got, sizeof want) == 0);
        else if (code != NACRE_MEMORY)
            nc_test_failed(__FILE__, __LINE__, "allocation %llu: %s: %s", (unsigned long long)n, nacre_code_name(code),
                           err.text);
        CHECK_INT(nc_mem_live(), live);
        live = nc_mem_live();
    }
    CHECK(n > 50);
}

TEST(streams_when_an_allocation_fails_on_cpu) { fail_everywhere("cpu"); }
TEST(streams_when_an_allocation_fails_on_guard) { fail_everywhere("guard"); }
