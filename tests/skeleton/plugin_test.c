/* A custom op in a shared library that asks for its output's shape while running. */
#include "tests/model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#ifndef NC_TEST_PLUGINS
#error "the build names the folder of the test plugins"
#endif

static void path_of(const char *name, char path[1024]) {
    const char *folder = getenv("NC_TEST_PLUGINS");
    snprintf(path, 1024, "%s/%s.so", folder ? folder : NC_TEST_PLUGINS, name);
}

static void load_named(model *m, const char *name) {
    char path[1024];
    path_of(name, path);
    if (nacre_env_load_plugin(m->env, path, &m->err) != NACRE_OK) {
        nc_test_failed(__FILE__, __LINE__, "%s: %s", path, m->err.text);
        m->failed = true;
    }
}

static void load(model *m) { load_named(m, "compact"); }

static const char text[] = "<opset: \"\" 17, \"test.plugin\" 1>\n"
                           "g (float[n] x) => (float[k] y, float[] sum)\n"
                           "{\n"
                           "  t = Add(x, x)\n"
                           "  c = test.plugin.Compact<above = 0.5>(t)\n"
                           "  y = Neg(c)\n"
                           "  sum = ReduceSum<keepdims = 0>(c)\n"
                           "}\n";

static void compact(model *m) {
    float x[9];
    load(m);
    model_open(m, text);
    for (int n = 9; n >= 0; n -= 3) {
        random_floats(x, n, 5);
        model_input(m, "x", NACRE_FLOAT, 1, D(n), x);
        model_run(m);
        int64_t count = 0;
        for (int i = 0; i < n; i++) count += x[i] + x[i] > 0.5f;
        const float *y = model_floats(m, "y", count);
        for (int i = 0, k = 0; i < n; i++)
            if (x[i] + x[i] > 0.5f) CHECK_NEAR(y[k++], -2 * x[i], 0);
        model_collect_all(m);
    }
    if (strcmp(m->device, "guard") == 0) {
        CHECK(model_dump_count(m, "program", "device to host") >= 1);
        CHECK(model_dump_count(m, "program", "host to device") >= 2);
    }
}

TEST(custom_op_finds_its_output_size) { model_everywhere(compact); }

static void refuses(model *m) {
    float x[2] = {0};
    load(m);
    model_open(m, "<opset: \"\" 17, \"test.plugin\" 1>\ng (float[n,m] x) => (float[k] y)\n{ y = test.plugin.Compact(x) "
                  "\"mine\" }\n");
    model_input(m, "x", NACRE_FLOAT, 2, D(1, 2), x);
    CHECK_INT(model_try_run(m), NACRE_TYPE);
    CHECK_STR(m->err.text, "Compact wants float[n]");
    CHECK_STR(m->err.node, "mine");
}

TEST(custom_op_can_fail_with_words) { model_everywhere(refuses); }

TEST(a_missing_plugin_is_named) {
    model m;
    model_init(&m, "cpu", 1);
    CHECK_INT(nacre_env_load_plugin(m.env, "/no/such/plugin.so", &m.err), NACRE_NO_FILE);
    CHECK_STR(m.err.node, "/no/such/plugin.so");
    model_close(&m);
}

/* ---- versions ---- */

static const char older_text[] = "<opset: \"\" 17, \"test.older\" 1>\n"
                                 "g (float[n] x) => (float[n] y)\n"
                                 "{\n"
                                 "  t = test.older.Shorter(x)\n"
                                 "  y = test.older.Longer(t)\n"
                                 "}\n";

static void older(model *m) {
    float x[3] = {1, -2, 3};
    load_named(m, "older");
    model_open(m, older_text);
    model_input(m, "x", NACRE_FLOAT, 1, D(3), x);
    model_run(m);
    const float *y = model_floats(m, "y", 3);
    for (int i = 0; i < 3; i++) CHECK_NEAR(y[i], x[i], 0);
}

TEST(a_plugin_of_an_older_header_works) { model_everywhere(older); }

TEST(a_plugin_that_needs_a_later_version_is_refused) {
    model m;
    char path[1024];
    path_of("newer", path);
    model_init(&m, "cpu", 1);
    CHECK_INT(nacre_env_load_plugin(m.env, path, &m.err), NACRE_UNSUPPORTED);
    CHECK_STR(m.err.text, "it is for version 2 of nacre_plugin.h, this is version 1");
    model_close(&m);
}

TEST(a_plugin_that_refuses_leaves_no_op_behind) {
    model m;
    char path[1024];
    path_of("refuses", path);
    model_init(&m, "cpu", 1);
    CHECK_INT(nacre_env_load_plugin(m.env, path, &m.err), NACRE_STATE);
    CHECK(model_try_open(&m, "<opset: \"\" 17, \"test.refuses\" 1>\ng (float[n] x) => (float[n] y)\n"
                             "{ y = test.refuses.Never(x) }\n") != NACRE_OK);
    model_close(&m);
}

/* ---- how long a library stays ---- */

static bool is_mapped(const char *name) {
    char line[4096], file[64];
    FILE *f = fopen("/proc/self/maps", "r");
    bool found = false;
    snprintf(file, sizeof file, "/%s.so", name);
    while (f && fgets(line, sizeof line, f)) found |= strstr(line, file) != NULL;
    if (f) fclose(f);
    return found;
}

/* The model keeps the library that its cards come from, though its environment was released and the session is of
 * another. */
TEST(a_library_stays_as_long_as_its_cards_are_used) {
    nacre_error err;
    nacre_env *first, *second;
    nacre_model *m;
    nacre_session *s;
    nacre_value *x, *y = NULL;
    char path[1024];
    path_of("older", path);
    float data[2] = {1, 2};
    REQUIRE(nacre_env_create(1, &first, &err) == NACRE_OK && nacre_env_create(1, &second, &err) == NACRE_OK);
    REQUIRE(nacre_env_load_plugin(first, path, &err) == NACRE_OK);
    REQUIRE(nacre_model_parse(first, older_text, &m, &err) == NACRE_OK);
    nacre_env_release(first);
    CHECK(is_mapped("older"));
    REQUIRE(nacre_session_create(second, m, NULL, &s, &err) == NACRE_OK);
    REQUIRE(nacre_value_tensor(NACRE_FLOAT, 1, D(2), data, &x, &err) == NACRE_OK);
    CHECK_INT(
        nacre_run(s, NULL, (const char *[]){"x"}, (nacre_value *const[]){x}, 1, (const char *[]){"y"}, 1, &y, &err),
        NACRE_OK);
    CHECK(is_mapped("older"));
    nacre_value_release(x);
    nacre_value_release(y);
    nacre_session_release(s);
    CHECK(!is_mapped("older"));
    nacre_env_release(second);
}

/* ---- loading while others load models ---- */

typedef struct loader {
    nacre_env *env;
    atomic_bool stop;
    atomic_int n_failed;
} loader;

static void *parse_often(void *arg) {
    loader *l = arg;
    nacre_error err;
    while (!atomic_load(&l->stop)) {
        nacre_model *m;
        if (nacre_model_parse(l->env, text, &m, &err) != NACRE_OK)
            atomic_fetch_add(&l->n_failed, 1);
        else
            nacre_model_release(m);
    }
    return NULL;
}

TEST(plugins_are_loaded_while_models_are) {
    model m;
    model_init(&m, "cpu", 1);
    load(&m);
    loader l = {.env = m.env};
    pthread_t t;
    REQUIRE(pthread_create(&t, NULL, parse_often, &l) == 0);
    for (int i = 0; i < 20; i++) load_named(&m, i % 2 ? "older" : "compact");
    atomic_store(&l.stop, true);
    pthread_join(t, NULL);
    CHECK_INT(l.n_failed, 0);
    model_close(&m);
}
