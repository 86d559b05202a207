/* What a caller can see and steer from outside: profile, predicted memory, trim, memory cap, explain, the log while
 * running, and a run cancelled from another thread. */
#include "tests/model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static const char mlp[] = "<opset: \"\" 17>\n"
                          "mlp (float[batch,4] x) => (float[batch,2] y)\n"
                          "<const float[4,8] W = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, "
                          "8, 1, 2, 3, 4, 5, 6, 7, 8},\n"
                          " const float[8,2] V = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8},\n"
                          " const float[8] b = {1, 2, 3, 4, 5, 6, 7, 8}>\n"
                          "{ h = MatMul(x, W) \"first\"\n a = Add(h, b) \"bias\"\n r = Relu(a) \"act\"\n"
                          "  y = MatMul(r, V) \"second\" }\n";

static const char loop[] = "<opset: \"\" 17>\n"
                           "g (int64[] n, float[k] x) => (float[k] y)\n"
                           "<const bool[] yes = {1}>\n"
                           "{\n"
                           "  y = Loop(n, yes, x)<body = { (int64[] i, bool[] c, float[k] s) => (c1, s1)\n"
                           "  { c1 = Identity(c)\n s1 = Add(s, ^x) } }>\n"
                           "}\n";

static void feed(model *m, int64_t batch) {
    float *x = calloc((size_t)batch * 4 + 1, sizeof *x);
    random_floats(x, batch * 4, 3);
    model_input(m, "x", NACRE_FLOAT, 2, D(batch, 4), x);
    free(x);
}

static void feed_loop(model *m, int64_t n) {
    float x[3] = {1, 2, 3};
    model_input(m, "n", NACRE_INT64, 0, D(0), &n);
    model_input(m, "x", NACRE_FLOAT, 1, D(3), x);
}

/* ---- profile ---- */

static const nacre_profile_op *find_op(const nacre_profile_op *rows, size_t n, const char *part) {
    for (size_t i = 0; i < n; i++)
        if (strstr(rows[i].op, part)) return &rows[i];
    return NULL;
}

static int count(const char *s, const char *part) {
    int n = 0;
    for (; (s = strstr(s, part)); s += strlen(part)) n++;
    return n;
}

static void profiled(model *m) {
    nacre_profile_op *rows;
    size_t n;
    char *trace;
    model_option(m, "profile", "on");
    model_option(m, "capture", "on");
    model_option(m, "disable", "gemms");
    model_open(m, mlp);
    feed(m, 5);
    for (int i = 0; i < 3; i++) model_run(m);
    model_collect_all(m);
    REQUIRE(!m->failed && nacre_session_profile_ops(m->session, &rows, &n, &m->err) == NACRE_OK);
    const nacre_profile_op *first = find_op(rows, n, "MatMulChain(Add Relu)"), *second = find_op(rows, n, "MatMul");
    if (second == first) second = find_op(first + 1, n - (size_t)(first + 1 - rows), "MatMul");
    CHECK(first && first->calls == 3 && first->ns > 0);
    CHECK(first && first->bytes == 3 * 4 * (5 * 4 + 4 * 8 + 8 + 5 * 8));
    CHECK(second && second->calls == 3 && second->bytes == 3 * 4 * (5 * 8 + 8 * 2 + 5 * 2));
    for (size_t i = 1; i < n; i++) CHECK(rows[i - 1].ns >= rows[i].ns);
    nacre_free(rows);
    REQUIRE(nacre_session_profile(m->session, &trace, &m->err) == NACRE_OK);
    CHECK_INT(count(trace, "\"name\":\"MatMul\""), 3);
    CHECK(strstr(trace, "\"node\":\"first\"") && trace[0] == '{');
    nacre_free(trace);
    nacre_session_profile_reset(m->session);
    REQUIRE(nacre_session_profile_ops(m->session, &rows, &n, &m->err) == NACRE_OK);
    CHECK_INT(n, 0);
    nacre_free(rows);
}

TEST(profile_counts_calls_time_and_bytes) { model_everywhere(profiled); }

static void loop_profiled(model *m) {
    nacre_profile_op *rows;
    size_t n;
    model_option(m, "profile", "on");
    model_open(m, loop);
    feed_loop(m, 7);
    model_run(m);
    REQUIRE(!m->failed && nacre_session_profile_ops(m->session, &rows, &n, &m->err) == NACRE_OK);
    const nacre_profile_op *add = find_op(rows, n, "Add"), *whole = find_op(rows, n, "Loop");
    CHECK(add && add->calls == 7);
    CHECK(whole && whole->calls == 1);
    nacre_free(rows);
}

TEST(profile_follows_subgraphs) { model_everywhere(loop_profiled); }

TEST(profile_off_is_refused_by_name) {
    model m;
    nacre_profile_op *rows;
    size_t n;
    char *trace;
    model_init(&m, "cpu", 1);
    model_open(&m, mlp);
    CHECK_INT(nacre_session_profile(m.session, &trace, &m.err), NACRE_ARGUMENT);
    CHECK(strstr(m.err.text, "profile=on"));
    CHECK_INT(nacre_session_profile_ops(m.session, &rows, &n, &m.err), NACRE_ARGUMENT);
    nacre_session_profile_reset(m.session);
    model_close(&m);
}

/* ---- memory ---- */

static void predicted(model *m) {
    static const int64_t batches[] = {0, 1, 33};
    const char *dim = "batch";
    model_open(m, mlp);
    for (int i = 0; i < 3 && !m->failed; i++) {
        nacre_session_trim(m->session);
        nacre_plan p = {.size = sizeof p};
        REQUIRE(nacre_session_plan(m->session, &dim, &batches[i], 1, &p, &m->err) == NACRE_OK);
        CHECK(p.n_rows > 0 && p.n_steps > 0 && !p.n_unknown);
        for (size_t k = 0; k < p.n_rows; k++) CHECK(p.rows[k].first <= p.rows[k].last && p.rows[k].bytes > 0);
        size_t bytes = p.bytes_frame[0] + p.bytes_frame[1];
        nacre_free(p.rows);
        if (i == 2) break; /* the third size of a symbol is rounded up when it runs */
        feed(m, batches[i]);
        model_run(m);
        CHECK_INT(model_stats(m).bytes_frames, bytes);
    }
    nacre_plan p = {.size = sizeof p};
    const char *bad = "bach";
    CHECK_INT(nacre_session_plan(m->session, &bad, &batches[1], 1, &p, &m->err), NACRE_ARGUMENT);
    CHECK(strstr(m->err.text, "batch"));
    p.size = 1;
    CHECK_INT(nacre_session_plan(m->session, NULL, NULL, 0, &p, &m->err), NACRE_ARGUMENT);
}

TEST(plan_predicts_what_a_frame_takes) { model_everywhere(predicted); }

static void trimmed(model *m) {
    model_open(m, mlp);
    feed(m, 9);
    model_run(m);
    model_collect_all(m);
    CHECK(model_stats(m).bytes_frames > 0);
    nacre_session_trim(m->session);
    CHECK_INT(model_stats(m).bytes_frames, 0);
    model_run(m);
    model_collect_all(m);
    CHECK_INT(model_stats(m).frames, 2);
    CHECK_INT(model_stats(m).instances, 2);
    nacre_session_trim(m->session);
    nacre_session_trim(m->session);
}

TEST(trim_gives_memory_back_and_runs_go_on) { model_everywhere(trimmed); }

typedef struct worker {
    model *m;
    int bad;
} worker;

static void *run_much(void *arg) {
    worker *w = arg;
    for (int i = 0; i < 200; i++) {
        nacre_value *y = NULL;
        if (nacre_run(w->m->session, NULL, w->m->in_names, w->m->in, w->m->n_in, (const char *[]){"y"}, 1, &y, NULL))
            w->bad++;
        nacre_value_release(y);
    }
    return NULL;
}

static void trimmed_while_running(model *m) {
    pthread_t t[3];
    worker w[3];
    model_open(m, loop);
    feed_loop(m, 20);
    if (m->failed) return;
    for (int i = 0; i < 3; i++) {
        w[i] = (worker){m, 0};
        pthread_create(&t[i], NULL, run_much, &w[i]);
    }
    for (int i = 0; i < 50; i++) nacre_session_trim(m->session);
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], NULL);
        CHECK_INT(w[i].bad, 0);
    }
    nacre_session_trim(m->session);
    CHECK_INT(model_stats(m).bytes_frames, 0);
}

TEST(trim_while_others_run) { model_everywhere(trimmed_while_running); }

static void capped(model *m) {
    model_option(m, "memory_limit", "300000");
    model_open(m, mlp);
    feed(m, 10);
    model_run(m);
    model_collect_all(m);
    CHECK(model_stats(m).device_bytes_peak <= 300000 || strcmp(m->device, "cpu") == 0);
    feed(m, 100000);
    CHECK_INT(model_try_run(m), NACRE_LIMIT);
    CHECK(m->err.text[0]);
    feed(m, 10);
    model_run(m); /* a run that did not fit leaves the session usable */
    model_collect_all(m);
}

TEST(memory_cap_refuses_and_the_session_lives) { model_everywhere(capped); }

/* Several sessions of one environment, each with its own cap; what one holds is nothing to the others. */
TEST(memory_caps_are_of_sessions) {
    static const char *const caps[3] = {"300000", "4000000", "0"};
    static const bool fits[3] = {false, true, true};
    model m;
    model_init(&m, "cpu", 1);
    model_open(&m, mlp);
    REQUIRE(!m.failed);
    for (int i = 0; i < 3; i++) {
        model one;
        model_init(&one, "cpu", 1);
        model_option(&one, "memory_limit", caps[i]);
        model_open(&one, mlp);
        feed(&one, 8000);
        CHECK_INT(model_try_run(&one), fits[i] ? NACRE_OK : NACRE_LIMIT);
        if (!fits[i]) {
            CHECK(strstr(one.err.text, "limit is 300000 bytes") && strstr(one.err.text, "wanted") &&
                  strstr(one.err.text, "left"));
        } else {
            CHECK(model_stats(&one).bytes_session_peak > 300000);
        }
        feed(&m, 20000);
        model_run(&m);
        model_close(&one);
    }
    model_close(&m);
}

/* An output that outlives its session still counts, and gives back when it goes. */
static void trim_gives_back(model *m) {
    model_option(m, "memory_limit", "8000000");
    model_open(m, mlp);
    uint64_t made = model_stats(m).bytes_session;
    feed(m, 5000);
    model_run(m);
    if (m->failed) return;
    uint64_t ran = model_stats(m).bytes_session;
    CHECK(ran > made + 5000 * sizeof(float));
    nacre_session_trim(m->session);
    uint64_t trimmed = model_stats(m).bytes_session;
    CHECK(trimmed < ran && trimmed >= made);
    CHECK(model_stats(m).bytes_session_peak >= ran);
    model_run(m);
}

TEST(trim_gives_the_cap_back) { model_everywhere(trim_gives_back); }

TEST(memory_cap_ends_with_its_session) {
    model m;
    model_init(&m, "cpu", 1);
    model_option(&m, "memory_limit", "300000");
    model_open(&m, mlp);
    model_close(&m);
    model_init(&m, "cpu", 1);
    model_open(&m, mlp);
    feed(&m, 100000);
    model_run(&m);
    model_close(&m);
}

/* ---- explain ---- */

static void explain(model *m, const char *node, const char *const *parts) {
    char *text;
    REQUIRE(!m->failed && nacre_session_explain(m->session, node, &text, &m->err) == NACRE_OK);
    for (int i = 0; parts[i]; i++)
        if (!strstr(text, parts[i])) nc_test_failed(__FILE__, __LINE__, "no '%s' in:\n%s", parts[i], text);
    nacre_free(text);
}

TEST(explain_names_kernel_fusion_and_copies) {
    model m;
    char *text;
    model_init(&m, "guard", 1);
    model_option(&m, "disable", "gemms");
    model_open(&m, mlp);
    explain(&m, "first",
            (const char *[]){"MatMulChain(Add Relu) 'first'", "kernel: nacre.MatMulChain on guard",
                             "packed: input 1 'W'", "copy before: input 0 'x', host to device", NULL});
    explain(&m, "act", (const char *[]){"Relu 'act' is fused into", "MatMulChain(Add Relu)", NULL});
    explain(&m, "y", (const char *[]){"MatMul 'second'", "device to host", NULL});
    CHECK_INT(nacre_session_explain(m.session, "nowhere", &text, &m.err), NACRE_ARGUMENT);
    CHECK(strstr(m.err.text, "nowhere"));
    model_close(&m);
    model_init(&m, "cpu", 1);
    model_open(&m, "<opset: \"\" 17>\ng (float[n] x) => (float[n] y)\n"
                   "{ a = Identity(x) \"gone\"\n y = Exp(a) \"stays\" }\n");
    explain(&m, "gone", (const char *[]){"does not run", "inferred", "Identity", NULL});
    model_close(&m);
}

/* ---- log and cancel, from another thread ---- */

typedef struct listener {
    atomic_int n;
} listener;

static void hear(void *user, nacre_log_level level, const char *text) {
    (void)level, (void)text;
    atomic_fetch_add(&((listener *)user)->n, 1);
}

static void *change_level(void *arg) {
    atomic_int *stop = arg;
    for (int i = 0; !atomic_load(stop); i++) nacre_log_set_level(i % 2 ? NACRE_LOG_VERBOSE : NACRE_LOG_OFF);
    return NULL;
}

TEST(log_level_and_sink_change_while_sessions_work) {
    listener h = {0};
    atomic_int stop = 0;
    pthread_t t;
    nacre_log_set_sink(hear, &h);
    pthread_create(&t, NULL, change_level, &stop);
    for (int i = 0; i < 20; i++) {
        model m;
        model_init(&m, "cpu", 2);
        model_open(&m, mlp);
        feed(&m, 3);
        model_run(&m);
        model_close(&m);
    }
    atomic_store(&stop, 1);
    pthread_join(t, NULL);
    nacre_log_set_level(NACRE_LOG_OFF);
    int before = atomic_load(&h.n);
    model m;
    model_init(&m, "cpu", 1);
    model_open(&m, "<opset: \"\" 17>\ng (float[n] x) => (float[n] y)\n{ a = Identity(x)\n y = Exp(a) }\n");
    CHECK_INT(atomic_load(&h.n), before);
    model_close(&m);
    nacre_log_set_level(NACRE_LOG_VERBOSE);
    model_init(&m, "cpu", 1);
    model_open(&m, "<opset: \"\" 17>\ng (float[n] x) => (float[n] y)\n{ a = Identity(x)\n y = Exp(a) }\n");
    CHECK(atomic_load(&h.n) > before);
    model_close(&m);
    nacre_log_set_level(NACRE_LOG_WARNING);
    nacre_log_set_sink(NULL, NULL);
}

static void *cancel_soon(void *arg) {
    usleep(20000);
    nacre_run_options_cancel(arg, 1);
    return NULL;
}

static void cancelled(model *m) {
    pthread_t t;
    model_open(m, loop);
    feed_loop(m, INT64_C(1) << 40); /* without the cancel it would not end */
    if (m->failed) return;
    pthread_create(&t, NULL, cancel_soon, m->run);
    CHECK_INT(model_try_run(m), NACRE_CANCELLED);
    pthread_join(t, NULL);
    nacre_run_options_cancel(m->run, 0);
    feed_loop(m, 4);
    model_run(m);
    const float *y = model_floats(m, "y", 3);
    for (int i = 0; i < 3 && y; i++) CHECK_NEAR(y[i], 5 * (i + 1), 0);
}

TEST(a_run_is_cancelled_from_another_thread) { model_everywhere(cancelled); }
