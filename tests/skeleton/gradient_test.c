/* Gradients against central differences in f64: a lane from its formula, MatMul, broadcasting, control flow through
 * tapes, and the second derivative through the lane's own gradient op. */
#include "api/api.h"
#include "tests/model.h"

#include "base/mem.h"
#include "infer/infer.h"
#include "ir/text.h"
#include "ops/build.h"
#include "run/session.h"
#include "train/train.h"

#include <stdlib.h>

enum { MAX_ELEMENTS = 64 };

typedef struct arg {
    const char *name;
    int rank;
    int64_t dims[4];
    double data[MAX_ELEMENTS];
} arg;

static int64_t count(const arg *a) {
    int64_t n = 1;
    for (int d = 0; d < a->rank; d++) n *= a->dims[d];
    return n;
}

static void feed(model *m, const arg *args, int n) {
    for (int i = 0; i < n; i++) model_input(m, args[i].name, NACRE_DOUBLE, args[i].rank, args[i].dims, args[i].data);
}

/* `out` of the forward model, summed: the number whose derivative is checked. */
static double forward(model *m, const arg *args, int n, const char *out) {
    feed(m, args, n);
    model_run(m);
    nacre_value *v = model_out(m, out);
    double sum = 0;
    for (int64_t i = 0; v && i < nacre_value_count(v); i++) sum += ((double *)nacre_value_data(v))[i];
    return sum;
}

static void compare(model *m, model *fwd, arg *args, int n, const char *loss, const char *prefix) {
    for (int i = 0; i < n && !m->failed; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefix, args[i].name);
        const double *g = model_doubles(m, name, count(&args[i]));
        for (int64_t k = 0; k < count(&args[i]); k++) {
            const double h = 1e-6;
            double keep = args[i].data[k];
            args[i].data[k] = keep + h;
            double up = forward(fwd, args, n, loss);
            args[i].data[k] = keep - h;
            double down = forward(fwd, args, n, loss), want = (up - down) / (2 * h);
            args[i].data[k] = keep;
            if (!nc_close(g[k], want, nc_tol_difference_f64))
                nc_test_failed(__FILE__, __LINE__, "%s[%lld] is %.12g, differences say %.12g", name, (long long)k, g[k],
                               want);
        }
    }
}

/* Extra inputs that are not differentiated (trip counts, conditions) are set by `more`. */
static void check(model *m, const char *text, arg *args, int n, void (*more)(model *m)) {
    const char *wrt[4];
    model fwd;
    for (int i = 0; i < n; i++) {
        random_doubles(args[i].data, count(&args[i]), (uint64_t)i + 1);
        wrt[i] = args[i].name;
    }
    model_init(&fwd, m->device, m->threads);
    model_open(&fwd, text);
    CHECK(nacre_options_gradients(model_options(m), "loss", wrt, (size_t)n, &m->err) == NACRE_OK);
    model_open(m, text);
    if (more) more(m), more(&fwd);
    feed(m, args, n);
    model_run(m);
    model_collect_all(m);
    if (m->threads == 2) compare(m, &fwd, args, n, "loss", "grad:"); /* the bits are compared at the other counts */
    model_close(&fwd);
}

static void lane(model *m) {
    arg a[] = {{.name = "x", .rank = 2, .dims = {3, 5}}};
    check(m,
          "<opset: \"\" 17>\ng (double[n,5] x) => (double[] loss)\n{ e = LeakyRelu<alpha = 0.3>(x)\n t = Tanh(e)\n s = "
          "Mul(t, e)\n loss = ReduceSum<keepdims = 0>(s) }\n",
          a, 1, NULL);
    CHECK(model_dump_count(m, "differentiated", "nacre.TanhGrad") == 1);
}
TEST(gradient_of_lanes) { model_everywhere(lane); }

static void matmul_add(model *m) {
    arg a[] = {{.name = "x", .rank = 2, .dims = {4, 3}},
               {.name = "W", .rank = 2, .dims = {3, 5}},
               {.name = "b", .rank = 1, .dims = {5}}};
    check(m,
          "<opset: \"\" 17>\ng (double[n,3] x, double[3,5] W, double[5] b) => (double[] loss)\n"
          "{ h = MatMul(x, W)\n z = Add(h, b)\n t = Tanh(z)\n s = Mul(t, t)\n loss = ReduceSum<keepdims = 0>(s) }\n",
          a, 3, NULL);
}
TEST(gradient_of_matmul_and_broadcasting_add) { model_everywhere(matmul_add); }

/* Which dims are broadcast is known only at the run: both are free. */
static void free_broadcast(model *m) {
    arg a[] = {{.name = "x", .rank = 2, .dims = {4, 3}}, {.name = "b", .rank = 2, .dims = {1, 3}}};
    check(m,
          "<opset: \"\" 17>\ng (double[p,q] x, double[r,s] b) => (double[] loss)\n"
          "{ z = Mul(x, b)\n t = Sin(z)\n loss = ReduceSum<keepdims = 0>(t) }\n",
          a, 2, NULL);
}
TEST(gradient_of_broadcasting_found_at_run) { model_everywhere(free_broadcast); }

static void batched(model *m) {
    arg a[] = {{.name = "x", .rank = 3, .dims = {2, 3, 4}},
               {.name = "W", .rank = 2, .dims = {4, 2}},
               {.name = "v", .rank = 3, .dims = {1, 2, 3}}};
    check(m,
          "<opset: \"\" 17>\ng (double[b,3,4] x, double[4,2] W, double[1,2,3] v) => (double[] loss)\n"
          "{ h = MatMul(x, W)\n k = MatMul(h, v)\n t = Tanh(k)\n loss = ReduceSum<keepdims = 0>(t) }\n",
          a, 3, NULL);
}
TEST(gradient_of_batched_matmul) { model_everywhere(batched); }

static int64_t trips;
static void give_trips(model *m) { model_input(m, "n", NACRE_INT64, 0, D(0), &trips); }

static void loop(model *m) {
    for (trips = 4; trips >= 0; trips -= 2) {
        arg a[] = {{.name = "x", .rank = 1, .dims = {3}}, {.name = "w", .rank = 1, .dims = {3}}};
        model one;
        model_init(&one, m->device, m->threads);
        check(&one,
              "<opset: \"\" 17>\ng (double[3] x, double[3] w, int64[] n) => (double[] loss)\n"
              "{\n  last, all = Loop(n, , x)<body = { (int64[] i, bool[] c, double[3] s) => (c1, s1, o)\n"
              "  { c1 = Identity(c)\n p = Mul(s, ^w)\n s1 = Tanh(p)\n o = Mul(s1, s) } }>\n"
              "  u = ReduceSum<keepdims = 0>(all)\n  v = ReduceSum<keepdims = 0>(last)\n  uu = Mul(u, v)\n  loss = "
              "Add(uu, v)\n}\n",
              a, 2, give_trips);
        CHECK(model_dump_count(&one, "differentiated", "TapePop") >= 1);
        model_close(&one);
    }
}
TEST(gradient_of_a_loop_through_a_tape) { model_everywhere(loop); }

static void nested(model *m) {
    arg a[] = {{.name = "x", .rank = 1, .dims = {2}}, {.name = "w", .rank = 1, .dims = {2}}};
    trips = 3;
    check(m,
          "<opset: \"\" 17>\ng (double[2] x, double[2] w, int64[] n) => (double[] loss)\n"
          "{\n  y = Loop(n, , x)<body = { (int64[] i, bool[] c, double[2] s) => (c1, s1)\n"
          "  { c1 = Identity(c)\n s1 = Loop(^n, , s)<body = { (int64[] j, bool[] d, double[2] t) => (d1, t1)\n"
          "      { d1 = Identity(d)\n q = Mul(t, ^w)\n t1 = Sin(q) } }> } }>\n"
          "  loss = ReduceSum<keepdims = 0>(y)\n}\n",
          a, 2, give_trips);
}
TEST(gradient_of_nested_loops) { model_everywhere(nested); }

static unsigned char condition;
static void give_condition(model *m) { model_input(m, "c", NACRE_BOOL, 0, D(0), &condition); }

static void branch(model *m) {
    for (int k = 0; k < 2; k++) {
        arg a[] = {{.name = "x", .rank = 1, .dims = {4}}, {.name = "w", .rank = 1, .dims = {4}}};
        model one;
        condition = (unsigned char)k;
        model_init(&one, m->device, m->threads);
        check(&one,
              "<opset: \"\" 17>\ng (double[4] x, double[4] w, bool[] c) => (double[] loss)\n"
              "{\n  y = If(c)<then_branch = { () => (a) { p = Mul(^x, ^w)\n a = Tanh(p) } }, else_branch = { () => (b) "
              "{ b = Sin(^x) } }>\n"
              "  z = Mul(y, y)\n  loss = ReduceSum<keepdims = 0>(z)\n}\n",
              a, 2, give_condition);
        if (!k && !one.failed) /* the untaken branch alone uses w */
            for (int i = 0; i < 4; i++) CHECK_NEAR(model_doubles(&one, "grad:w", 4)[i], 0, 0);
        model_close(&one);
    }
}
TEST(gradient_of_if_with_an_untaken_branch) { model_everywhere(branch); }

/* ---- second derivatives: differentiate the sum of c * dL/dx by W and b ---- */

static const char tanh_text[] =
    "<opset: \"\" 17>\ng (double[2,3] x, double[3,2] W, double[2] b, double[2,3] c) => (double[] loss)\n"
    "{ h = MatMul(x, W)\n z = Add(h, b)\n t = Tanh(z)\n loss = ReduceSum<keepdims = 0>(t) }\n";

static nc_code add_weighted_gradient(nc_work *w, nc_model *m, const void *ctx) {
    (void)ctx;
    const char *x = "x", *wrt[] = {"W", "b"};
    NC_TRY(nc_train_gradients(w, m, "loss", &x, 1));
    nc_value *dx = m->main->outputs.v[m->main->outputs.n - 1];
    nc_builder b = {.w = w, .graph = m->main, .stage = NC_STAGE_BACKWARD, .infer = nc_infer_node};
    nc_value *weighted = nc_build1(&b, "Mul", 2, dx, nc_graph_find(m->main, "c"));
    nc_value *sum = nc_build_reduce_sum(&b, weighted, (const int64_t[]){0, 1}, 2, false);
    if (!sum) return b.code;
    NC_TRY(nc_edit_output(m->main, sum, "loss2"));
    if (ctx) return NC_OK;
    return nc_train_gradients(w, m, "loss2", wrt, 2);
}

static nc_code only_first(nc_work *w, nc_model *m, const void *ctx) {
    (void)ctx;
    static const int yes = 1;
    return add_weighted_gradient(w, m, &yes);
}

static void open_with(model *m, nc_code (*differentiate)(nc_work *, nc_model *, const void *)) {
    nc_work w;
    nc_model *parsed;
    nc_session *s = NULL;
    nc_work_init(&w);
    nc_env *env = m->env->env;
    nc_code code = nc_graph_parse(&w, tanh_text, env->registry, &parsed);
    nc_session_options o = {.device = m->device, .level = 3, .differentiate = differentiate, .keep_dumps = true};
    if (code == NC_OK) code = nc_session_create(&w, env, parsed, &o, &s);
    if (code != NC_OK) nc_test_failed(__FILE__, __LINE__, "%s '%s': %s", w.diag.op, w.diag.node, w.diag.text);
    m->failed = code != NC_OK;
    nc_work_release(&w);
    m->session = nc_alloc_zero(1, sizeof *m->session);
    if (m->session) m->session->s = s;
}

static void second(model *m) {
    arg a[] = {{.name = "W", .rank = 2, .dims = {3, 2}},
               {.name = "b", .rank = 1, .dims = {2}},
               {.name = "x", .rank = 2, .dims = {2, 3}},
               {.name = "c", .rank = 2, .dims = {2, 3}}};
    model fwd;
    for (int i = 0; i < 4; i++) random_doubles(a[i].data, count(&a[i]), (uint64_t)i + 5);
    model_init(&fwd, m->device, m->threads);
    open_with(&fwd, only_first);
    open_with(m, add_weighted_gradient);
    if (!m->failed && !fwd.failed) {
        feed(m, a, 4);
        feed(&fwd, a, 4);
        CHECK(model_dump_count(&fwd, "differentiated", "nacre.TanhGrad") ==
              1); /* the lane's own gradient op, differentiated in m */
        model_run(m);
        model_collect_all(m);
        if (m->threads == 2) compare(m, &fwd, a, 2, "loss2", "grad:");
    }
    model_close(&fwd);
}
TEST(second_derivative_of_tanh) { model_everywhere(second); }

/* v is frozen, so it is packed, for the forward product and for the gradient that goes through it; w is trained. */
static void frozen(model *m) {
    static const char *const params[] = {"w"};
    static const char text[] = "<opset: \"\" 17>\n"
                               "g (float[n,2] x) => (float[] loss)\n"
                               "<const float[2,2] w = {1, 2, 3, 4}, const float[2,2] v = {1, 0, 2, 1}>\n"
                               "{\n  h = MatMul(x, w)\n  y = MatMul(h, v)\n  loss = ReduceSum<keepdims = 0>(y)\n}\n";
    float x[2] = {1, 2}, lr[1] = {1};
    CHECK(nacre_options_sgd(model_options(m), "loss", params, 1, "lr", &m->err) == NACRE_OK);
    model_option(m, "packing", "on");
    model_open(m, text);
    model_input(m, "x", NACRE_FLOAT, 2, D(1, 2), x);
    model_input(m, "lr", NACRE_FLOAT, 0, NULL, lr);
    model_run(m);
    CHECK_NEAR(model_floats(m, "loss", 1)[0], 7 + 3 * 10, 0);
    CHECK(model_stats(m).packed > 0);
    nacre_value *w = model_variable(m, "w"); /* w -= x' (1, 1) v' */
    if (w) CHECK(memcmp(nacre_value_data(w), (float[4]){0, -1, 1, -2}, 4 * sizeof(float)) == 0);
    model_collect(m, w);
    nacre_value_release(w);
}
TEST(frozen_weights_are_packed_in_training) { model_everywhere(frozen); }

static void all_trained(model *m) {
    static const char *const params[] = {"w"};
    CHECK(nacre_options_sgd(model_options(m), "loss", params, 1, "lr", &m->err) == NACRE_OK);
    model_open(m, "<opset: \"\" 17>\ng (float[n,2] x) => (float[] loss)\n<const float[2,2] w = {1, 2, 3, 4}>\n"
                  "{\n  h = MatMul(x, w)\n  loss = ReduceSum<keepdims = 0>(h)\n}\n");
    float x[2] = {1, 2}, lr[1] = {1};
    model_input(m, "x", NACRE_FLOAT, 2, D(1, 2), x);
    model_input(m, "lr", NACRE_FLOAT, 0, NULL, lr);
    model_run(m);
    model_run(m);
    CHECK_NEAR(model_floats(m, "loss", 1)[0], 17 - 10, 0);
    CHECK_INT(model_stats(m).packed, 0);
}
TEST(trained_weights_are_not_packed) { model_everywhere(all_trained); }
