/* api/options_test.c: options that change a run or what is told about it, through the public functions. */
#include "api/api.h"

#include "base/fpmode.h"
#include "tests/model.h"

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- denormals ---- */

static void denormals(model *m, bool flush) {
    enum { ROWS = 64 };
    float x[ROWS * 64], w = 1e-38f;
    uint64_t mode = nc_fpmode_get();
    if (flush) model_option(m, "flush_denormals", "on");
    model_open(m, "<opset: \"\" 17>\ng (float[n] x, float[] w) => (float[n] y) { y = Mul(x, w) }\n");
    for (int i = 0; i < ROWS * 64; i++) x[i] = 0.25f;
    model_input(m, "x", NACRE_FLOAT, 1, D(ROWS * 64), x);
    model_input(m, "w", NACRE_FLOAT, 0, D(0), &w);
    model_run(m);
    const float *y = model_floats(m, "y", ROWS * 64);
    for (int i = 0; i < ROWS * 64; i++)
        CHECK(flush && nc_fpmode_can_flush() ? y[i] == 0 : y[i] == 0.25f * w && y[i] > 0);
    CHECK(nc_fpmode_get() == mode);
    model_collect_all(m);
}

static void keep_them(model *m) { denormals(m, false); }
static void flush_them(model *m) { denormals(m, true); }

TEST(options_keep_denormals_by_default) { model_everywhere(keep_them); }
TEST(options_flush_denormals_on_every_thread) { model_everywhere(flush_them); }

/* ---- products in half precision ---- */

/* x is 1 and a bit that the operands' type loses; 0: none is lost. */
static void check_compute(model *m, const char *value, float bit, bool lost) {
    float x[6], w[] = {1, 0, 0, 1, 0, 0};
    for (int i = 0; i < 6; i++) x[i] = 1 + bit;
    if (value) model_option(m, "compute", value);
    model_open(m, "<opset: \"\" 17>\ng (float[n,3] x) => (float[n,2] y, float[n,3] z) "
                  "<const float[3,2] w = {1, 0, 0, 1, 0, 0}> {\n"
                  "h = MatMul(x, w)\ny = Relu(h)\nz = Abs(x) }\n");
    model_input(m, "x", NACRE_FLOAT, 2, D(2, 3), x);
    model_run(m);
    const float *y = model_floats(m, "y", 4), *z = model_floats(m, "z", 6);
    for (int i = 0; i < 4; i++) CHECK(y[i] == (lost ? 1 : x[0]) * w[i % 2 * 3]);
    for (int i = 0; i < 6; i++) CHECK(z[i] == x[0]);
    model_collect_all(m);
}

static void compute_f16(model *m) { check_compute(m, "f16", 0x1p-12f, true); }
static void compute_bf16(model *m) { check_compute(m, "bf16", 0x1p-9f, true); }
static void compute_bf16_keeps(model *m) { check_compute(m, "bf16", 0x1p-7f, false); }
static void compute_f32(model *m) { check_compute(m, "f32", 0x1p-12f, false); }
static void compute_tf32_keeps(model *m) { check_compute(m, "tf32", 0x1p-9f, false); }
static void compute_as_written(model *m) { check_compute(m, NULL, 0x1p-12f, false); }

TEST(options_compute_narrows_products_alone) {
    model_everywhere(compute_f16);
    model_everywhere(compute_bf16);
    model_everywhere(compute_bf16_keeps);
    model_everywhere(compute_f32);
    model_everywhere(compute_tf32_keeps);
    model_everywhere(compute_as_written);
}

TEST(options_compute_refuses_other_words) {
    nacre_options *o;
    nacre_error err;
    CHECK_INT(nacre_options_create(&o, &err), NACRE_OK);
    CHECK_INT(nacre_options_set(o, "compute", "float16", &err), NACRE_ARGUMENT);
    CHECK(strstr(err.text, "option compute: expected f32, tf32, f16 or bf16, got 'float16'") != NULL);
    nacre_options_release(o);
}

/* ---- the log of a session and of a run ---- */

typedef struct heard {
    int n;
    char last[256];
} heard;

static void hear(void *user, nacre_log_level level, const char *text) {
    heard *h = user;
    (void)level;
    h->n++;
    snprintf(h->last, sizeof h->last, "%.250s", text);
}

static const char chatty[] = "<opset: \"\" 17>\ng (float[n] x) => (float[n] y) { t = Identity(x)\n y = Neg(t) }\n";

TEST(options_log_level_is_the_sessions_own) {
    static const char *const levels[] = {"info", "warning", "verbose", "off", NULL};
    for (int i = 0; i < 5; i++) {
        heard h = {.n = 0};
        model m;
        nacre_log_set_sink(hear, &h);
        nacre_log_set_level(i == 4 ? NACRE_LOG_INFO : NACRE_LOG_WARNING);
        model_init(&m, "cpu", 1);
        if (levels[i]) model_option(&m, "log_level", levels[i]);
        model_option(&m, "log_id", "mine");
        model_open(&m, chatty);
        CHECK((h.n > 0) == (i == 0 || i == 2 || i == 4)); /* which pass changed what is told at INFO */
        if (h.n) CHECK(strncmp(h.last, "[mine] ", 7) == 0);
        model_close(&m);
        nacre_log_set_level(NACRE_LOG_WARNING);
        nacre_log_set_sink(NULL, NULL);
    }
}

/* Planned at the first run, where the rank is found: the size of the shape is then a constant, and a pass says so. */
static const char planned_late[] = "<opset: \"\" 17>\ng (float[...] x) => (float[...] y, int64[] k)\n"
                                   "{ y = Neg(x)\n s = Shape(y)\n k = Size(s) }\n";

static int heard_in_run(const char *session_level, const char *run_level, heard *h) {
    model m;
    *h = (heard){.n = 0};
    model_init(&m, "cpu", 1);
    if (session_level) model_option(&m, "log_level", session_level);
    model_option(&m, "log_id", "session");
    model_open(&m, planned_late);
    nacre_log_set_sink(hear, h);
    if (run_level) CHECK_INT(nacre_run_options_log(m.run, run_level, "run", &m.err), NACRE_OK);
    float x[2] = {1, 2};
    model_input(&m, "x", NACRE_FLOAT, 1, D(2), x);
    model_run(&m);
    model_close(&m);
    nacre_log_set_sink(NULL, NULL);
    return h->n;
}

TEST(options_of_a_run_have_their_own_log) {
    heard h;
    CHECK_INT(heard_in_run(NULL, NULL, &h), 0);
    CHECK(heard_in_run("info", NULL, &h) > 0 && strncmp(h.last, "[session] ", 10) == 0);
    CHECK(heard_in_run(NULL, "info", &h) > 0 && strncmp(h.last, "[run] ", 6) == 0);
    CHECK_INT(heard_in_run("info", "warning", &h), 0);
    model m;
    model_init(&m, "cpu", 1);
    CHECK_INT(nacre_run_options_log(m.run, "loud", NULL, &m.err), NACRE_ARGUMENT);
    CHECK(strstr(m.err.text, "'loud'"));
    model_close(&m);
}

/* ---- refused ---- */

TEST(options_refuse_what_they_do_not_know) {
    static const struct {
        const char *key, *value, *part;
    } rows[] = {{"flush_denormals", "yes", "expected on or off, got 'yes'"},
                {"log_level", "3", "expected verbose, info, warning, error or off, got '3'"},
                {"save_data_bytes", "-1", "expected a whole number, got '-1'"},
                {"flush", "on", "no option 'flush'; there are device, level, "}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nacre_options *o;
        nacre_error err;
        REQUIRE(nacre_options_create(&o, &err) == NACRE_OK);
        CHECK_INT(nacre_options_set(o, rows[i].key, rows[i].value, &err), NACRE_ARGUMENT);
        CHECK(strstr(err.text, rows[i].part));
        nacre_options_release(o);
    }
    nacre_error err;
    nacre_env *env = NULL;
    CHECK_INT(nacre_env_create(-2, &env, &err), NACRE_ARGUMENT);
    CHECK(!env && strstr(err.text, "got -2"));
}

/* ---- saving ---- */

static nacre_code save(const char *path, const char *data_name, const char *file_bytes) {
    char text[2048];
    model m;
    int n = snprintf(text, sizeof text,
                     "<opset: \"\" 17>\ng (float[n,128] x) => (float[n,128] y)\n"
                     "<const float[128] w = {");
    for (int i = 0; i < 128; i++) n += snprintf(text + n, sizeof text - (size_t)n, "%s%d", i ? "," : "", i);
    snprintf(text + n, sizeof text - (size_t)n, "}>\n{ y = Mul(x, w) }\n");
    model_init(&m, "cpu", 1);
    model_option(&m, "save", path);
    model_option(&m, "save_data_bytes", "100");
    if (data_name) model_option(&m, "save_data", data_name);
    if (file_bytes) model_option(&m, "save_file_bytes", file_bytes);
    nacre_code code = model_try_open(&m, text);
    model_close(&m);
    return code;
}

static bool take_away(const char *path) { return unlink(path) == 0; }

TEST(options_save_with_external_data) {
    char folder[] = "/tmp/nacre_options_XXXXXX", path[64], beside[64], asked[64];
    REQUIRE(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    snprintf(beside, sizeof beside, "%s/m.onnx.data", folder);
    snprintf(asked, sizeof asked, "%s/weights", folder);
    CHECK_INT(save(path, NULL, NULL), NACRE_OK);
    CHECK(take_away(path) && !take_away(beside));
    CHECK_INT(save(path, NULL, "500"), NACRE_OK);
    CHECK(take_away(path) && take_away(beside));
    CHECK_INT(save(path, "weights", NULL), NACRE_OK);
    CHECK(take_away(path) && take_away(asked));
    CHECK_INT(save(path, "../weights", NULL), NACRE_ARGUMENT);
    CHECK(rmdir(folder) == 0);
}

/* ---- packed constants ---- */

static uint64_t packed_of(const char *device, nacre_env *env) {
    nacre_error err;
    nacre_model *m;
    nacre_options *o;
    nacre_session *s;
    nacre_value *x, *y = NULL;
    float data[4] = {1, 2, 3, 4};
    uint64_t n = 0;
    if (nacre_options_create(&o, &err) != NACRE_OK || nacre_options_set(o, "device", device, &err) != NACRE_OK)
        return 0;
    if (nacre_model_parse(env,
                          "<opset: \"\" 17>\ng (float[n,4] x) => (float[n,2] y)\n"
                          "<const float[4,2] W = {1,2,3,4,5,6,7,8}>\n{ y = MatMul(x, W) }\n",
                          &m, &err) == NACRE_OK &&
        nacre_session_create(env, m, o, &s, &err) == NACRE_OK) {
        if (nacre_value_tensor(NACRE_FLOAT, 2, D(1, 4), data, &x, &err) != NACRE_OK) return 0;
        CHECK_INT(
            nacre_run(s, NULL, (const char *[]){"x"}, (nacre_value *const[]){x}, 1, (const char *[]){"y"}, 1, &y, &err),
            NACRE_OK);
        for (const nc_packed *p = env->env->packed; p; p = p->next) n++;
        nacre_value_release(x);
        nacre_value_release(y);
        nacre_session_release(s);
    }
    nacre_options_release(o);
    return n;
}

TEST(packed_constants_go_with_the_last_session) {
    nacre_error err;
    nacre_env *env;
    REQUIRE(nacre_env_create(1, &env, &err) == NACRE_OK);
    CHECK_INT(packed_of("cpu", env), 1);
    CHECK(env->env->packed == NULL);
    CHECK_INT(packed_of("guard", env), 0); /* the host's block went when it was uploaded */
    CHECK_INT(env->env->n_packed, 2);
    nacre_env_release(env);
}

/* ---- structs of other headers ---- */

TEST(structs_of_the_caller_may_be_shorter_or_longer) {
    model m;
    model_init(&m, "cpu", 1);
    model_open(&m, chatty);
    struct {
        nacre_plan plan;
        char behind[32];
    } given;
    memset(&given, 0x5A, sizeof given);
    given.plan.size = offsetof(nacre_plan, bytes_packed);
    CHECK_INT(nacre_session_plan(m.session, NULL, NULL, 0, &given.plan, &m.err), NACRE_OK);
    CHECK(given.plan.n_steps > 0 && given.plan.bytes_packed[0] == (size_t)0x5A5A5A5A5A5A5A5A);
    nacre_free(given.plan.rows);
    given.plan.size = sizeof given;
    CHECK_INT(nacre_session_plan(m.session, NULL, NULL, 0, &given.plan, &m.err), NACRE_OK);
    CHECK(given.plan.bytes_packed[0] == 0 && given.behind[0] == 0x5A);
    nacre_free(given.plan.rows);
    given.plan.size = 0;
    CHECK_INT(nacre_session_plan(m.session, NULL, NULL, 0, &given.plan, &m.err), NACRE_ARGUMENT);
    model_close(&m);
}
