/* States that several sessions share: training and evaluation over one set of weights, accumulating and stepping,
 * conversations, the caller's memory; what is refused; who may hold it; what a failing allocation leaves. */
#include "tests/model.h"

#include "base/mem.h"
#include "base/steps.h"

#include <pthread.h>

typedef struct feed {
    const char *name;
    int rank;
    const int64_t *dims;
    const float *data;
} feed;

/* A session of its own in m's environment; key and value NULL: no option more. */
static nacre_session *open_session(model *m, const char *text, const char *key, const char *value) {
    nacre_session *s = NULL;
    if (key) model_option(m, key, value);
    model_open(m, text);
    s = m->session, m->session = NULL;
    nacre_options_release(m->options);
    m->options = NULL;
    return s;
}

static nacre_code try_go(model *m, nacre_session *s, nacre_state *st, const feed *in, int n_in, const char *output,
                         nacre_value **out) {
    const char *names[4];
    nacre_value *values[4] = {0};
    nacre_code code = m->failed ? NACRE_FAIL : NACRE_OK;
    for (int i = 0; i < n_in; i++) {
        names[i] = in[i].name;
        if (code == NACRE_OK)
            code = nacre_value_tensor(NACRE_FLOAT, in[i].rank, in[i].dims, (void *)(uintptr_t)in[i].data, &values[i],
                                      &m->err);
    }
    nacre_run_options_state(m->run, st);
    *out = NULL;
    if (code == NACRE_OK)
        code = nacre_run(s, m->run, names, values, (size_t)n_in, &output, output != NULL, out, &m->err);
    for (int i = 0; i < n_in; i++) nacre_value_release(values[i]);
    return code;
}

/* Runs s on st and copies the output, n floats, to y. output NULL: it has none. */
static void go(model *m, nacre_session *s, nacre_state *st, const feed *in, int n_in, const char *output, float *y,
               int64_t n) {
    nacre_value *out;
    if (m->failed) return;
    if (try_go(m, s, st, in, n_in, output, &out) != NACRE_OK) {
        nc_test_failed(__FILE__, __LINE__, "%s with %d threads: %s '%s': %s", m->device, m->threads, m->err.op,
                       m->err.node, m->err.text);
        m->failed = true;
        return;
    }
    model_collect(m, out);
    CHECK(!out || nacre_value_count(out) == n);
    if (out && nacre_value_count(out) == n) memcpy(y, nacre_value_data(out), (size_t)n * sizeof *y);
    nacre_value_release(out);
}

static void get(model *m, nacre_state *st, const char *name, float *y, int64_t n) {
    nacre_value *v = NULL;
    if (m->failed) return;
    CHECK_INT(nacre_state_get(NULL, st, name, &v, &m->err), NACRE_OK);
    CHECK(v && nacre_value_count(v) == n);
    if (v && nacre_value_count(v) == n) memcpy(y, nacre_value_data(v), (size_t)n * sizeof *y);
    model_collect(m, v);
    nacre_value_release(v);
}

/* Where a variable lies. */
static const void *address(model *m, nacre_session *s, nacre_state *st, const char *name) {
    nacre_value *v = NULL;
    if (m->failed) return NULL;
    CHECK_INT(nacre_state_share(s, st, name, &v, &m->err), NACRE_OK);
    const void *p = v ? nacre_value_data(v) : NULL;
    nacre_value_release(v);
    return p;
}

/* ---- one set of weights ---- */

static const char train_text[] = "<opset: \"\" 17>\n"
                                 "g (float[n,2] x, float[n,1] t) => (float[] loss)\n"
                                 "<const float[2,1] w = {1, 2}, const float[1] b = {0.5}, const float[] half = {0.5}>\n"
                                 "{\n  h = MatMul(x, w)\n  y = Add(h, b)\n  e = Sub(y, t)\n  q = Mul(e, e)\n"
                                 "  s = ReduceSum<keepdims = 0>(q)\n  loss = Mul(s, half)\n}\n";
static const char eval_text[] = "<opset: \"\" 17>\n"
                                "g (float[n,2] x) => (float[n,1] y)\n"
                                "<const float[2,1] w = {7, 7}, const float[1] b = {7}>\n"
                                "{\n  h = MatMul(x, w)\n  y = Add(h, b)\n}\n";

static nacre_session *open_training(model *m) {
    static const char *const params[] = {"w", "b"};
    nacre_options_sgd(model_options(m), "loss", params, 2, "lr", &m->err);
    return open_session(m, train_text, NULL, NULL);
}

static void one_set(model *m) {
    float x[2] = {1, 2}, t[1] = {4.5F}, lr[1] = {0.5F}, y[1], w[2];
    feed step[3] = {{"x", 2, D(1, 2), x}, {"t", 2, D(1, 1), t}, {"lr", 0, NULL, lr}}, in = {"x", 2, D(1, 2), x};
    nacre_session *train = open_training(m), *eval = open_session(m, eval_text, "variables", "*");
    nacre_state *st = NULL;
    if (m->failed || nacre_state_create(train, &st, &m->err) != NACRE_OK) return;
    const void *w_at = address(m, NULL, st, "w");
    go(m, eval, st, &in, 1, "y", y, 1);
    CHECK_NEAR(y[0], 5.5, 0);
    go(m, train, st, step, 3, "loss", y, 1); /* e = 1: w -= lr * x, b -= lr */
    CHECK_NEAR(y[0], 0.5, 0);
    go(m, eval, st, &in, 1, "y", y, 1);
    CHECK_NEAR(y[0], 0.5 * 1 + 1 * 2 + 0, 0);
    get(m, st, "w", w, 2);
    CHECK(w[0] == 0.5F && w[1] == 1);
    CHECK(address(m, NULL, st, "w") == w_at); /* updated where it lies, read where it lies */
    nacre_stats stats;
    nacre_session_stats(eval, &stats);
    CHECK_INT(stats.packed, 0);
    CHECK(stats.bytes_session < 2 * (stats.bytes_frames + 64)); /* no weights of its own */
    go(m, eval, NULL, &in, 1, "y", y, 1);                       /* its own state has what the model says */
    CHECK_NEAR(y[0], 28, 0);
    nacre_session_release(train);
    go(m, eval, st, &in, 1, "y", y, 1); /* the state outlives the session that made it */
    CHECK_NEAR(y[0], 2.5, 0);
    nacre_session_release(eval);
    get(m, st, "b", y, 1);
    nacre_state_release(st);
}

TEST(training_and_evaluation_over_one_state) { model_everywhere(one_set); }

/* Gradients are added up by one program, and taken by another that leaves zeros. */
static void accumulate(model *m) {
    nacre_session *add = open_session(m,
                                      "<opset: \"\" 17>\ng (float[3] g) => (float[3] now)\n"
                                      "<var float[3] acc -> acc_1, var float[3] w = {1, 2, 3}>\n"
                                      "{\n  acc_1 = Add(acc, g)\n  now = Mul(acc_1, w)\n}\n",
                                      NULL, NULL);
    nacre_session *step = open_session(m,
                                       "<opset: \"\" 17>\ng (float[] lr) => (float[3] seen)\n"
                                       "<var float[3] w -> w_1, var float[3] acc -> acc_1>\n"
                                       "{\n  d = Mul(acc, lr)\n  w_1 = Sub(w, d)\n  acc_1 = Sub(acc, acc)\n"
                                       "  seen = Neg(w_1)\n}\n",
                                       NULL, NULL);
    float g[3] = {1, 10, 100}, lr[1] = {0.5F}, y[3], w[3];
    feed one = {"g", 1, D(3), g}, rate = {"lr", 0, NULL, lr};
    nacre_state *st = NULL;
    if (m->failed || nacre_state_create(add, &st, &m->err) != NACRE_OK) return;
    for (int round = 1; round <= 2; round++) {
        for (int k = 1; k <= 3; k++) {
            go(m, add, st, &one, 1, "now", y, 3);
            get(m, st, "w", w, 3);
            CHECK(y[0] == (float)k * w[0] && y[2] == (float)(100 * k) * w[2]);
        }
        go(m, step, st, &rate, 1, "seen", y, 3);
        CHECK(-y[0] == 1 - 1.5F * (float)round && -y[2] == 3 - 150 * (float)round);
        get(m, st, "acc", w, 3);
        CHECK(w[0] == 0 && w[2] == 0);
    }
    nacre_state_release(st);
    nacre_session_release(add);
    nacre_session_release(step);
}

TEST(accumulating_and_stepping_are_two_programs_over_one_state) { model_everywhere(accumulate); }

/* The gradients of a loss, added up over two batches, then one step: the same as a step on both at once. */
static void accumulate_gradients(model *m) {
    static const char *const params[] = {"w", "b"};
    static const char step_text[] = "<opset: \"\" 17>\ng (float[] lr) => (float[2,1] seen)\n"
                                    "<var float[2,1] w -> w_1, var float[2,1] \"grad:w\" -> z>\n"
                                    "{\n  d = Mul(\"grad:w\", lr)\n  w_1 = Sub(w, d)\n"
                                    "  z = Sub(\"grad:w\", \"grad:w\")\n  seen = Neg(w_1)\n}\n";
    float x[4] = {1, 2, 3, -1}, t[2] = {4.5F, 0.5F}, lr[1] = {0.5F}, y[2], w[2];
    nacre_options_accumulate(model_options(m), "loss", params, 2, &m->err);
    nacre_session *add = open_session(m, train_text, NULL, NULL), *step = open_session(m, step_text, NULL, NULL);
    nacre_state *st = NULL;
    if (m->failed || nacre_state_create(add, &st, &m->err) != NACRE_OK) return;
    for (int k = 0; k < 2; k++) {
        feed in[2] = {{"x", 2, D(1, 2), x + 2 * k}, {"t", 2, D(1, 1), t + k}};
        go(m, add, st, in, 2, "loss", y, 1);
    }
    get(m, st, "grad:w", w, 2); /* errors 1 and 1: (1, 2) + (3, -1) */
    CHECK(w[0] == 4 && w[1] == 1);
    get(m, st, "grad:b", y, 1);
    CHECK_NEAR(y[0], 2, 0);
    feed rate = {"lr", 0, NULL, lr};
    go(m, step, st, &rate, 1, "seen", w, 2);
    CHECK(-w[0] == 1 - 2 && -w[1] == 2 - 0.5F);
    get(m, st, "grad:w", w, 2);
    CHECK(w[0] == 0 && w[1] == 0);
    nacre_state_release(st);
    nacre_session_release(add);
    nacre_session_release(step);
}

TEST(gradients_accumulate_in_a_state) { model_everywhere(accumulate_gradients); }

/* ---- conversations ---- */

static void converse(model *m, const char *capture) {
    static const char text[] =
        "<opset: \"\" 17>\n"
        "g (float[2,1] x, float[2,past] seen) => (float[2,1] y, float[2,total] now)\n"
        "<const int64[1] ax = {1}>\n"
        "{\n  now = Concat<axis = 1>(seen, x)\n  n2 = Mul(now, now)\n  y = ReduceSum<keepdims = 1>(n2, ax)\n}\n";
    nacre_options_tie(model_options(m), "seen", "now", &m->err);
    nacre_session *s = open_session(m, text, "capture", capture);
    nacre_state *st[2] = {NULL, NULL};
    if (m->failed) return;
    for (int k = 0; k < 2; k++) CHECK_INT(nacre_state_create(s, &st[k], &m->err), NACRE_OK);
    float want[2] = {0, 0};
    for (int i = 0; i < 40 && !m->failed; i++) {
        int k = i % 3 == 0; /* now the one, now twice the other */
        float x[2] = {(float)(i + k), (float)(2 * k - i)}, y[2];
        feed in = {"x", 2, D(2, 1), x};
        go(m, s, st[k], &in, 1, "y", y, 2);
        want[k] += x[0] * x[0];
        CHECK_NEAR(y[0], want[k], 0);
    }
    nacre_variable v;
    CHECK_INT(nacre_state_variable(st[0], 0, &v, &m->err), NACRE_OK);
    CHECK_STR(v.name, "seen");
    CHECK(v.dims[1] == 26 && v.grow_axis == 1 && v.capacity == 32 && !v.is_lent && !v.is_dirty);
    nacre_value *shared = NULL;
    CHECK_INT(nacre_state_share(NULL, st[0], "seen", &shared, &m->err), NACRE_STATE); /* its rows lie apart */
    nacre_state_release(st[0]);
    nacre_state_release(st[1]);
    nacre_session_release(s);
}

static void conversations(model *m) { converse(m, "off"); }
static void captured_conversations(model *m) { converse(m, "on"); }
TEST(conversations_over_one_model_do_not_mix) { model_everywhere(conversations); }
TEST(conversations_do_not_mix_when_runs_are_captured) { model_everywhere(captured_conversations); }

/* Runs on one state find its variables of constant sizes where the run before left them; another state is looked at. */
static void placed_once(model *m) {
    nacre_session *s = open_session(m,
                                    "<opset: \"\" 17>\ng (float[2] x) => (float[2] y)\n"
                                    "<var float[2] c = {0, 0} -> c_1>\n{\n  c_1 = Add(c, x)\n  y = Neg(c_1)\n}\n",
                                    NULL, NULL);
    nacre_state *st[2] = {NULL, NULL};
    float x[2] = {1, 2}, y[2];
    feed in = {"x", 1, D(2), x};
    if (m->failed) return;
    for (int k = 0; k < 2; k++) CHECK_INT(nacre_state_create(s, &st[k], &m->err), NACRE_OK);
    uint64_t steps[8];
    for (int i = 0; i < 8 && !m->failed; i++) {
        steps[i] = nc_steps();
        go(m, s, st[i / 4], &in, 1, "y", y, 2);
        steps[i] = nc_steps() - steps[i];
    }
    for (int i = 1; i < 8 && !m->failed; i++) CHECK_INT(steps[i] > steps[7], i == 4);
    nacre_state_release(st[0]);
    nacre_state_release(st[1]);
    nacre_session_release(s);
}
TEST(variables_are_placed_once) { model_everywhere(placed_once); }

/* The same sizes in every run: what was recorded for one state must not be replayed for another. */
static void replayed(model *m) {
    nacre_session *s = open_session(m,
                                    "<opset: \"\" 17>\ng (float[2] x) => (float[2] y)\n"
                                    "<var float[2] c = {0, 0} -> c_1>\n{\n  c_1 = Add(c, x)\n  y = Neg(c_1)\n}\n",
                                    "capture", "on");
    nacre_state *st[2] = {NULL, NULL};
    float x[2] = {1, 2}, y[2], want[2] = {0, 0};
    feed in = {"x", 1, D(2), x};
    if (m->failed) return;
    for (int k = 0; k < 2; k++) CHECK_INT(nacre_state_create(s, &st[k], &m->err), NACRE_OK);
    for (int i = 0; i < 24 && !m->failed; i++) {
        int k = i < 12 ? i / 4 % 2 : i % 2;
        go(m, s, st[k], &in, 1, "y", y, 2);
        CHECK_NEAR(y[0], -++want[k], 0);
    }
    nacre_stats stats;
    nacre_session_stats(s, &stats);
    if (strcmp(m->device, "guard") == 0) CHECK_INT(stats.replays, 22); /* all but the first run on each */
    nacre_state_release(st[0]);
    nacre_state_release(st[1]);
    nacre_session_release(s);
}

TEST(replays_follow_the_state) { model_everywhere(replayed); }

/* ---- the caller's memory ---- */

static const char count_text[] = "<opset: \"\" 17>\ng (float[3] x) => (float[3] y)\n"
                                 "<var float[3] c = {0, 0, 0} -> c_1>\n{\n  c_1 = Add(c, x)\n  y = Neg(c_1)\n}\n";
static const char read_text[] = "<opset: \"\" 17>\ng (float[3] x) => (float[3] y)\n"
                                "<var float[3] c = {0, 0, 0}>\n{\n  y = Add(c, x)\n}\n";

static void lent(model *m) {
    nacre_session *count = open_session(m, count_text, NULL, NULL);
    nacre_state *st = NULL;
    nacre_value *mine = NULL, *host = NULL;
    float x[3] = {1, 2, 3}, y[3];
    feed in = {"x", 1, D(3), x};
    if (m->failed) return;
    CHECK_INT(nacre_state_create_empty(m->env, m->device, &st, &m->err), NACRE_OK);
    CHECK_INT(nacre_value_new_on(m->env, m->device, NACRE_FLOAT, 1, D(3), &mine, &m->err), NACRE_OK);
    CHECK_INT(nacre_state_lend(st, "c", mine, NACRE_WRITABLE, &m->err), NACRE_OK);
    CHECK_INT(nacre_state_lend(st, "c", mine, NACRE_WRITABLE, &m->err), NACRE_ARGUMENT);
    go(m, count, st, &in, 1, "y", y, 3);
    go(m, count, st, &in, 1, "y", y, 3);
    CHECK_INT(nacre_value_new_tensor(NACRE_FLOAT, 1, D(3), &host, &m->err), NACRE_OK);
    CHECK_INT(nacre_value_copy(host, mine, &m->err), NACRE_OK);
    CHECK(host && ((float *)nacre_value_data(host))[2] == 6);
    CHECK(address(m, NULL, st, "c") == nacre_value_data(mine));
    CHECK_INT(nacre_state_set(NULL, st, "c", host, &m->err), NACRE_OK); /* into the same memory */
    CHECK(address(m, NULL, st, "c") == nacre_value_data(mine));
    CHECK_INT(nacre_state_reset(count, st, &m->err), NACRE_OK);
    CHECK_INT(nacre_value_copy(host, mine, &m->err), NACRE_OK);
    CHECK(host && ((float *)nacre_value_data(host))[2] == 0);
    nacre_value_release(mine);
    go(m, count, st, &in, 1, "y", y, 3); /* the state keeps it */
    nacre_state_release(st);
    nacre_value_release(host);
    nacre_session_release(count);
}

TEST(memory_of_the_caller_is_updated_where_it_lies) { model_everywhere(lent); }

static void count_release(void *owner) { ++*(int *)owner; }

TEST(lent_memory_is_given_back_with_the_state) {
    model m;
    int released = 0;
    float own[3] = {5, 5, 5}, x[3] = {1, 2, 3}, y[3];
    feed in = {"x", 1, D(3), x};
    nacre_state *st = NULL;
    nacre_value *v = NULL;
    model_init(&m, "cpu", 1);
    nacre_session *count = open_session(&m, count_text, NULL, NULL);
    CHECK_INT(nacre_state_create_empty(m.env, NULL, &st, &m.err), NACRE_OK);
    CHECK_INT(nacre_value_tensor_owned(NACRE_FLOAT, 1, D(3), own, count_release, &released, &v, &m.err), NACRE_OK);
    CHECK_INT(nacre_state_lend(st, "c", v, NACRE_WRITABLE, &m.err), NACRE_OK);
    nacre_value_release(v);
    go(&m, count, st, &in, 1, "y", y, 3);
    CHECK(own[0] == 6 && own[2] == 8);
    CHECK_INT(released, 0);
    nacre_state_release(st);
    CHECK_INT(released, 1);
    nacre_session_release(count);
    model_close(&m);
}

static void read_only(model *m) {
    nacre_session *count = open_session(m, count_text, NULL, NULL), *reader = open_session(m, read_text, NULL, NULL);
    nacre_state *st = NULL;
    nacre_value *mine = NULL, *out = NULL, *host = NULL;
    float x[3] = {1, 2, 3}, y[3];
    feed in = {"x", 1, D(3), x};
    if (m->failed) return;
    CHECK_INT(nacre_state_create_empty(m->env, m->device, &st, &m->err), NACRE_OK);
    CHECK_INT(nacre_value_new_on(m->env, m->device, NACRE_FLOAT, 1, D(3), &mine, &m->err), NACRE_OK);
    CHECK_INT(nacre_state_lend(st, "c", mine, NACRE_READ_ONLY, &m->err), NACRE_OK);
    go(m, reader, st, &in, 1, "y", y, 3);
    CHECK_INT(try_go(m, count, st, &in, 1, "y", &out), NACRE_STATE);
    CHECK_STR(m->err.node, "c");
    CHECK(strstr(m->err.text, "lent to be read") != NULL);
    CHECK_INT(nacre_state_is_dirty(NULL, st), 0);
    CHECK_INT(nacre_value_new_tensor(NACRE_FLOAT, 1, D(3), &host, &m->err), NACRE_OK);
    CHECK_INT(nacre_state_set(NULL, st, "c", host, &m->err), NACRE_STATE);
    CHECK_INT(nacre_state_reset(reader, st, &m->err), NACRE_OK); /* keeps its contents */
    go(m, reader, st, &in, 1, "y", y, 3);
    CHECK_NEAR(y[2], 3, 0);
    nacre_value_release(mine);
    nacre_value_release(host);
    nacre_state_release(st);
    nacre_session_release(count);
    nacre_session_release(reader);
}

TEST(memory_lent_to_be_read_is_refused_to_who_updates_it) { model_everywhere(read_only); }

/* ---- what does not fit ---- */

static nacre_code run_on(model *m, nacre_session *s, const char *name, nacre_type type, int rank, const int64_t *dims) {
    nacre_state *st = NULL;
    nacre_value *out = NULL;
    float x[3] = {0};
    feed in = {"x", 1, D(3), x};
    CHECK_INT(nacre_state_create_empty(m->env, m->device, &st, &m->err), NACRE_OK);
    CHECK_INT(nacre_state_add(st, name, type, rank, dims, NULL, &m->err), NACRE_OK);
    nacre_code code = try_go(m, s, st, &in, 1, "y", &out);
    nacre_value_release(out);
    nacre_state_release(st);
    return code;
}

static void misfits(model *m) {
    nacre_session *s = open_session(m, count_text, NULL, NULL);
    if (m->failed) return;
    CHECK_INT(run_on(m, s, "c", NACRE_FLOAT, 1, D(3)), NACRE_OK);
    CHECK_INT(run_on(m, s, "d", NACRE_FLOAT, 1, D(3)), NACRE_ARGUMENT);
    CHECK_STR(m->err.text, "the state lacks 1 of the session's 1 variables: 'c'");
    CHECK_INT(run_on(m, s, "c", NACRE_DOUBLE, 1, D(3)), NACRE_TYPE);
    CHECK_STR(m->err.text, "expected float, got double in the state");
    CHECK_STR(m->err.node, "c");
    CHECK_STR(m->err.op, "variable");
    CHECK_INT(run_on(m, s, "c", NACRE_FLOAT, 2, D(3, 1)), NACRE_SHAPE);
    CHECK_STR(m->err.text, "expected rank 1, got 2 in the state");
    CHECK_INT(run_on(m, s, "c", NACRE_FLOAT, 1, D(4)), NACRE_SHAPE);
    CHECK(strstr(m->err.text, "expected 3, got 4") != NULL && strcmp(m->err.node, "c") == 0);
    nacre_state *st = NULL;
    nacre_value *v = NULL;
    CHECK_INT(nacre_state_create_empty(m->env, m->device, &st, &m->err), NACRE_OK);
    CHECK_INT(nacre_state_add(st, "c", NACRE_STRING, 1, D(3), NULL, &m->err), NACRE_TYPE);
    CHECK_INT(nacre_state_add(st, "c", NACRE_FLOAT, 1, D(-3), NULL, &m->err), NACRE_SHAPE);
    CHECK_INT(nacre_state_get(NULL, st, "c", &v, &m->err), NACRE_ARGUMENT);
    CHECK_STR(m->err.text, "the state has no variable 'c'");
    CHECK_INT(nacre_state_get(NULL, NULL, "c", &v, &m->err), NACRE_ARGUMENT);
    CHECK_INT(nacre_state_reset(NULL, st, &m->err), NACRE_ARGUMENT);
    CHECK_INT(nacre_state_reset(s, st, &m->err), NACRE_ARGUMENT);
    CHECK_INT(nacre_state_reset_variable(s, NULL, "e", &m->err), NACRE_ARGUMENT);
    CHECK_INT(nacre_state_create_empty(m->env, "nowhere", &st, &m->err), NACRE_DEVICE);
    CHECK_INT(nacre_value_new_tensor(NACRE_FLOAT, 1, D(4), &v, &m->err), NACRE_OK);
    CHECK_INT(nacre_state_add(st, "c", NACRE_FLOAT, 1, D(3), NULL, &m->err), NACRE_OK);
    CHECK_INT(nacre_state_set(NULL, st, "c", v, &m->err), NACRE_SHAPE);
    nacre_value_release(v);
    nacre_state_release(st);
    nacre_session_release(s);
}

TEST(states_that_do_not_fit_are_refused_by_name) { model_everywhere(misfits); }

TEST(a_state_of_another_device_is_refused) {
    model m;
    float x[3] = {0};
    feed in = {"x", 1, D(3), x};
    nacre_state *st = NULL;
    nacre_value *host = NULL, *out;
    model_init(&m, "guard", 1);
    nacre_session *s = open_session(&m, count_text, NULL, NULL);
    CHECK_INT(nacre_state_create_empty(m.env, "guard", &st, &m.err), NACRE_OK);
    CHECK_INT(nacre_value_new_tensor(NACRE_FLOAT, 1, D(3), &host, &m.err), NACRE_OK);
    CHECK_INT(nacre_state_lend(st, "c", host, NACRE_WRITABLE, &m.err), NACRE_DEVICE);
    nacre_state_release(st);
    st = NULL;
    CHECK_INT(nacre_state_create_empty(m.env, "cpu", &st, &m.err), NACRE_OK);
    CHECK_INT(nacre_state_add_session(st, s, &m.err), NACRE_DEVICE);
    CHECK_INT(nacre_state_add(st, "c", NACRE_FLOAT, 1, D(3), NULL, &m.err), NACRE_OK);
    CHECK_INT(try_go(&m, s, st, &in, 1, "y", &out), NACRE_DEVICE);
    CHECK(strstr(m.err.text, "guard") && strstr(m.err.text, "cpu"));
    nacre_state_release(st);
    nacre_value_release(host);
    nacre_session_release(s);
    model_close(&m);
}

TEST(lent_memory_must_be_aligned_for_its_elements) {
    model m;
    _Alignas(8) char bytes[32] = {0};
    nacre_state *st = NULL;
    nacre_value *v = NULL;
    model_init(&m, "cpu", 1);
    CHECK_INT(nacre_state_create_empty(m.env, NULL, &st, &m.err), NACRE_OK);
    CHECK_INT(nacre_value_tensor(NACRE_FLOAT, 1, D(3), bytes + 2, &v, &m.err), NACRE_OK);
    CHECK_INT(nacre_state_lend(st, "c", v, NACRE_READ_ONLY, &m.err), NACRE_ARGUMENT);
    nacre_value_release(v);
    nacre_state_release(st);
    model_close(&m);
}

/* ---- sizes that grow ---- */

static const char grow_text[] =
    "<opset: \"\" 17>\ng (float[2,1] x, float[2,past] seen) => (float[2,1] y, float[2,total] now)\n"
    "{\n  now = Concat<axis = 1>(seen, x)\n  y = Neg(x)\n}\n";
static const char whole_text[] = "<opset: \"\" 17>\ng (float[1] x) => (float[2,past] y)\n"
                                 "<var float[2,past] seen>\n{\n  y = Add(seen, x)\n}\n";

/* A dense variable of the caller's is grown by one program, and read by another that wants it dense. */
static void grown(model *m) {
    nacre_options_tie(model_options(m), "seen", "now", &m->err);
    nacre_session *grow = open_session(m, grow_text, NULL, NULL), *whole = open_session(m, whole_text, NULL, NULL);
    nacre_state *st = NULL, *lent_st = NULL;
    nacre_value *mine = NULL, *out = NULL;
    float seen[6] = {1, 2, 3, 4, 5, 6}, x[2] = {7, 8}, y[8], zero[1] = {0};
    feed in = {"x", 2, D(2, 1), x}, nothing = {"x", 1, D(1), zero};
    if (m->failed) return;
    CHECK_INT(nacre_state_create_empty(m->env, m->device, &st, &m->err), NACRE_OK);
    CHECK_INT(nacre_state_add(st, "seen", NACRE_FLOAT, 2, D(2, 3), seen, &m->err), NACRE_OK);
    go(m, whole, st, &nothing, 1, "y", y, 6);
    CHECK(y[0] == 1 && y[5] == 6);
    go(m, grow, st, &in, 1, "y", y, 2);
    get(m, st, "seen", y, 8);
    CHECK(y[0] == 1 && y[3] == 7 && y[4] == 4 && y[7] == 8);
    CHECK_INT(try_go(m, whole, st, &nothing, 1, "y", &out), NACRE_STATE);
    CHECK(strstr(m->err.text, "rows apart") && strcmp(m->err.node, "seen") == 0);
    CHECK_INT(nacre_state_create_empty(m->env, m->device, &lent_st, &m->err), NACRE_OK);
    CHECK_INT(nacre_value_new_on(m->env, m->device, NACRE_FLOAT, 2, D(2, 3), &mine, &m->err), NACRE_OK);
    CHECK_INT(nacre_state_lend(lent_st, "seen", mine, NACRE_WRITABLE, &m->err), NACRE_OK);
    CHECK_INT(try_go(m, grow, lent_st, &in, 1, "y", &out), NACRE_STATE);
    CHECK(strstr(m->err.text, "expected 3, got 4") != NULL);
    CHECK_INT(nacre_state_is_dirty(NULL, lent_st), 0);
    nacre_value_release(mine);
    nacre_state_release(st);
    nacre_state_release(lent_st);
    nacre_session_release(grow);
    nacre_session_release(whole);
}

TEST(a_dense_variable_grows_when_a_program_grows_it) { model_everywhere(grown); }

/* ---- the random state ---- */

static void goes_on(model *m) {
    static const char text[] = "<opset: \"\" 17>\ng (float[4] x) => (float[4] y)\n{\n  y = RandomUniformLike(x)\n}\n";
    nacre_session *a = open_session(m, text, "seed", "5"), *b = open_session(m, text, "seed", "9");
    nacre_state *one = NULL, *both = NULL;
    float x[4] = {0}, first[4], second[4], y[4];
    feed in = {"x", 1, D(4), x};
    if (m->failed) return;
    CHECK_INT(nacre_state_create(a, &one, &m->err), NACRE_OK);
    CHECK_INT(nacre_state_create_empty(m->env, m->device, &both, &m->err), NACRE_OK);
    CHECK_INT(nacre_state_add_session(both, a, &m->err), NACRE_OK);
    CHECK_INT(nacre_state_add_session(both, b, &m->err), NACRE_OK); /* it has all already */
    CHECK_INT(nacre_state_n(both), 1);
    CHECK_STR(nacre_state_name(both, 0), "nacre.random");
    CHECK(nacre_state_name(both, 1) == NULL);
    go(m, a, one, &in, 1, "y", first, 4);
    go(m, a, one, &in, 1, "y", second, 4);
    go(m, a, both, &in, 1, "y", y, 4);
    CHECK(memcmp(y, first, sizeof y) == 0);
    go(m, b, both, &in, 1, "y", y, 4); /* goes on where the other session stopped */
    CHECK(memcmp(y, second, sizeof y) == 0);
    nacre_state_release(one);
    nacre_state_release(both);
    nacre_session_release(a);
    nacre_session_release(b);
}

TEST(random_numbers_go_on_in_another_session) { model_everywhere(goes_on); }

/* ---- options ---- */

static void named(model *m) {
    nacre_session *s = open_session(m, eval_text, "variables", "b");
    nacre_state *st = NULL;
    float b[1] = {100}, x[2] = {1, 1}, y[1];
    feed in = {"x", 2, D(1, 2), x};
    if (m->failed) return;
    CHECK_INT(nacre_state_create(s, &st, &m->err), NACRE_OK);
    CHECK_INT(nacre_state_n(st), 1); /* w is a constant */
    go(m, s, st, &in, 1, "y", y, 1);
    CHECK_NEAR(y[0], 21, 0);
    nacre_value *v = NULL;
    CHECK_INT(nacre_value_tensor(NACRE_FLOAT, 1, D(1), b, &v, &m->err), NACRE_OK);
    CHECK_INT(nacre_state_set(NULL, st, "b", v, &m->err), NACRE_OK);
    go(m, s, st, &in, 1, "y", y, 1);
    CHECK_NEAR(y[0], 114, 0);
    CHECK_INT(nacre_state_reset_variable(s, st, "b", &m->err), NACRE_OK);
    go(m, s, st, &in, 1, "y", y, 1);
    CHECK_NEAR(y[0], 21, 0);
    nacre_value_release(v);
    nacre_state_release(st);
    nacre_session_release(s);
    model_option(m, "variables", "x");
    CHECK_INT(model_try_open(m, eval_text), NACRE_ARGUMENT);
    CHECK_STR(m->err.text, "variables: the model has no initializer 'x'");
}

TEST(named_initializers_are_read_from_the_state) { model_everywhere(named); }

TEST(variables_that_a_state_cannot_hold_are_refused) {
    model m;
    model_init(&m, "cpu", 1);
    nacre_options_tie(model_options(&m), "a", "b", &m.err);
    CHECK_INT(model_try_open(&m, "<opset: \"\" 17>\ng (string[2] a, float[1] x) => (string[2] b, float[1] y)\n"
                                 "{\n  b = Identity(a)\n  y = Neg(x)\n}\n"),
              NACRE_UNSUPPORTED);
    CHECK_STR(m.err.node, "a");
    model_close(&m);
}

/* ---- who holds it ---- */

enum { ROUNDS = 200, WIDE = 64 };
typedef struct worker {
    nacre_session *s;
    nacre_state *st;
    bool writes;
    int wrong;
} worker;

/* Every element of c is the same in every version; a reader that saw half an update would see two. */
static void *work(void *p) {
    worker *k = p;
    float x[WIDE];
    nacre_value *in = NULL, *out = NULL;
    nacre_run_options *r = NULL;
    for (int i = 0; i < WIDE; i++) x[i] = k->writes ? 1 : 0;
    k->wrong += nacre_run_options_create(&r, NULL) != NACRE_OK;
    nacre_run_options_state(r, k->st);
    k->wrong += nacre_value_tensor(NACRE_FLOAT, 1, D(WIDE), x, &in, NULL) != NACRE_OK;
    for (int i = 0; i < ROUNDS; i++) {
        k->wrong += nacre_run(k->s, r, &(const char *){"x"}, &in, 1, &(const char *){"y"}, 1, &out, NULL) != NACRE_OK;
        const float *y = out ? nacre_value_data(out) : x;
        for (int j = 1; j < WIDE; j++) k->wrong += y[j] != y[0];
        nacre_value_release(out);
        out = NULL;
    }
    nacre_value_release(in);
    nacre_run_options_release(r);
    return NULL;
}

static void together(model *m) {
    nacre_session *writer = open_session(m,
                                         "<opset: \"\" 17>\ng (float[64] x) => (float[64] y)\n"
                                         "<var float[64] c -> c_1>\n{\n  c_1 = Add(c, x)\n  y = Neg(c_1)\n}\n",
                                         NULL, NULL);
    nacre_session *reader = open_session(m,
                                         "<opset: \"\" 17>\ng (float[64] x) => (float[64] y)\n"
                                         "<var float[64] c>\n{\n  y = Add(c, x)\n}\n",
                                         NULL, NULL);
    nacre_state *st = NULL;
    float c[WIDE];
    if (m->failed || nacre_state_create(reader, &st, &m->err) != NACRE_OK) return;
    worker k[4] = {{writer, st, true, 0}, {reader, st, false, 0}, {writer, st, true, 0}, {reader, st, false, 0}};
    pthread_t t[4];
    for (int i = 0; i < 4; i++) CHECK_INT(pthread_create(&t[i], NULL, work, &k[i]), 0);
    for (int i = 0; i < 4; i++) CHECK_INT(pthread_join(t[i], NULL), 0);
    for (int i = 0; i < 4; i++) CHECK_INT(k[i].wrong, 0);
    get(m, st, "c", c, WIDE);
    CHECK_NEAR(c[0], 2 * ROUNDS, 0);
    nacre_state_release(st);
    nacre_session_release(writer);
    nacre_session_release(reader);
}

TEST(readers_of_one_session_never_see_half_an_update_of_another) { model_everywhere(together); }

static void standing(model *m) {
    nacre_session *count = open_session(m, count_text, NULL, NULL), *reader = open_session(m, read_text, NULL, NULL);
    nacre_state *st = NULL;
    nacre_frame *f = NULL, *g = NULL;
    if (m->failed || nacre_state_create(count, &st, &m->err) != NACRE_OK) return;
    nacre_run_options_state(m->run, st);
    CHECK_INT(nacre_frame_create(reader, m->run, &f, &m->err), NACRE_OK);
    CHECK_INT(nacre_frame_create(count, m->run, &g, &m->err), NACRE_STATE); /* a reader of another session is in it */
    nacre_state_release(st);                                                /* the frame keeps it */
    nacre_frame_release(f);
    nacre_session_release(count);
    nacre_session_release(reader);
}

TEST(frames_of_several_sessions_hold_one_state) { model_everywhere(standing); }

/* More programs than a state remembers. */
TEST(a_state_serves_any_number_of_sessions) {
    model m;
    enum { MANY = 40 };
    nacre_session *s[MANY];
    nacre_state *st = NULL;
    float x[3] = {1, 2, 3}, y[3] = {0};
    feed in = {"x", 1, D(3), x};
    model_init(&m, "cpu", 1);
    for (int i = 0; i < MANY; i++) s[i] = open_session(&m, count_text, NULL, NULL);
    CHECK_INT(nacre_state_create(s[0], &st, &m.err), NACRE_OK);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < MANY; i++) go(&m, s[i], st, &in, 1, "y", y, 3);
    CHECK_NEAR(y[0], -2 * MANY, 0);
    nacre_state_release(st);
    for (int i = 0; i < MANY; i++) nacre_session_release(s[i]);
    model_close(&m);
}

/* ---- no memory ---- */

typedef struct life {
    nacre_env *env;
    nacre_session *count, *reader;
    nacre_state *st;
    nacre_value *mine, *x;
    nacre_run_options *r;
    nacre_error err;
    float y;
} life;

static nacre_code make_session(life *k, const char *device, const char *text, nacre_session **out) {
    nacre_model *m;
    nacre_options *o = NULL;
    if (*out) return NACRE_OK;
    nacre_code code = nacre_options_create(&o, &k->err);
    if (code == NACRE_OK) code = nacre_options_set(o, "device", device, &k->err);
    if (code == NACRE_OK) code = nacre_model_parse(k->env, text, &m, &k->err);
    if (code == NACRE_OK) code = nacre_session_create(k->env, m, o, out, &k->err);
    nacre_options_release(o);
    return code;
}

static const char pair_text[] = "<opset: \"\" 17>\ng (float[3] x) => (float[3] y)\n"
                                "<var float[3] c = {0, 0, 0} -> c_1, var float[3] d = {1, 1, 1}, var float[3] e>\n"
                                "{\n  c_1 = Add(c, x)\n  s = Mul(c_1, d)\n  y = Add(s, e)\n}\n";

static nacre_code fill_state(life *k, const char *device) {
    nacre_code code = NACRE_OK;
    if (!k->st) code = nacre_state_create_empty(k->env, device, &k->st, &k->err);
    if (code == NACRE_OK && !k->mine)
        code = nacre_value_new_on(k->env, device, NACRE_FLOAT, 1, D(3), &k->mine, &k->err);
    size_t n = code == NACRE_OK ? nacre_state_n(k->st) : 3;
    if (code == NACRE_OK && n < 1) code = nacre_state_add(k->st, "e", NACRE_FLOAT, 1, D(3), NULL, &k->err);
    if (code == NACRE_OK && n < 2) code = nacre_state_lend(k->st, "c", k->mine, NACRE_WRITABLE, &k->err);
    return code == NACRE_OK ? nacre_state_add_session(k->st, k->count, &k->err) : code;
}

static nacre_code run_life(life *k) {
    nacre_value *out = NULL;
    nacre_code code = nacre_state_reset(k->count, k->st, &k->err); /* a second try starts anew */
    if (code == NACRE_OK && !k->r) code = nacre_run_options_create(&k->r, &k->err);
    if (code != NACRE_OK) return code;
    nacre_run_options_state(k->r, k->st);
    code = nacre_run(k->count, k->r, &(const char *){"x"}, &k->x, 1, &(const char *){"y"}, 1, &out, &k->err);
    nacre_value_release(out);
    out = NULL;
    if (code == NACRE_OK)
        code = nacre_run(k->reader, k->r, &(const char *){"x"}, &k->x, 1, &(const char *){"y"}, 1, &out, &k->err);
    if (code == NACRE_OK) k->y = ((float *)nacre_value_data(out))[2];
    nacre_value_release(out);
    return code;
}

static nacre_code step_of(life *k, const char *device, int i) {
    switch (i) {
    case 0: return k->env ? NACRE_OK : nacre_env_create(1, &k->env, &k->err);
    case 1: return make_session(k, device, pair_text, &k->count);
    case 2: return make_session(k, device, read_text, &k->reader);
    case 3: return fill_state(k, device);
    default: return run_life(k);
    }
}

static void check_life(const char *device, uint64_t n, nacre_value *x) {
    life k = {.x = x};
    nc_mem_fail_at(n);
    for (int i = 0; i < 5; i++) {
        nacre_code code = step_of(&k, device, i);
        if (code == NACRE_MEMORY && nc_mem_fail_hit()) code = step_of(&k, device, i);
        if (code == NACRE_OK) continue;
        nc_test_failed(__FILE__, __LINE__, "%s, allocation %llu, step %d: %s", device, (unsigned long long)n, i,
                       k.err.text);
        break;
    }
    nc_mem_fail_at(0);
    CHECK_NEAR(k.y, 6, 0);
    nacre_run_options_release(k.r);
    nacre_state_release(k.st);
    nacre_value_release(k.mine);
    nacre_session_release(k.count);
    nacre_session_release(k.reader);
    nacre_env_release(k.env);
}

TEST(states_survive_every_failing_allocation) {
    static const char *const devices[] = {"cpu", "guard"};
    float data[3] = {1, 2, 3};
    nacre_value *x = NULL;
    REQUIRE(nacre_value_tensor(NACRE_FLOAT, 1, D(3), data, &x, NULL) == NACRE_OK);
    for (int d = 0; d < 2; d++) {
        check_life(devices[d], 0, x);
        uint64_t blocks = nc_mem_live(), before = nc_mem_count();
        check_life(devices[d], 0, x);
        uint64_t n = nc_mem_count() - before, by = nc_test_emulated() ? n / 25 + 1 : 1;
        CHECK(n > 100);
        for (uint64_t i = 1; i <= n && !nc_test_has_failed(); i += by) {
            check_life(devices[d], i, x);
            CHECK_INT(nc_mem_live(), blocks);
        }
    }
    nacre_value_release(x);
}
