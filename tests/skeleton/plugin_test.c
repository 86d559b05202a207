/* A custom op in a shared library that asks for its output's shape while running. */
#include "tests/model.h"

#include <stdlib.h>

#ifndef NC_TEST_PLUGINS
#error "the build names the folder of the test plugins"
#endif

static void load(model *m) {
    char path[1024];
    const char *folder = getenv("NC_TEST_PLUGINS");
    snprintf(path, sizeof path, "%s/compact.so", folder ? folder : NC_TEST_PLUGINS);
    if (nacre_env_load_plugin(m->env, path, &m->err) != NACRE_OK) {
        nc_test_failed(__FILE__, __LINE__, "%s: %s", path, m->err.text);
        m->failed = true;
    }
}

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
