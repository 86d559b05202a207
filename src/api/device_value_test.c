/* api/device_value_test.c: tensors in the memory of a device through the public header. The guard stands for a GPU:
 * the host faults where it touches the bytes, so every result here went through the right copies. */
#include "nacre/nacre.h"
#include "tests/check.h"

enum { N = 37 };

/* y is computed on the device, k by the host; x also feeds the host in the second model. */
static const char plain[] =
    "<opset: \"\" 17>\ng (float[n] x) => (float[n] y, int64[1] k)\n{ y = Neg(x) k = Shape(x) }\n";
static const char mixed[] = "<opset: \"\" 17>\ng (int64[2] x, float[n] d) => (float[?,?] y, int64[2] z)\n"
                            "{ y = Reshape(d, x) z = Add(x, x) }\n";

typedef struct rig {
    nacre_env *env;
    nacre_session *s;
    nacre_run_options *r;
    nacre_error err;
} rig;

static bool open_on(rig *g, const char *text, const char *device) {
    nacre_model *m;
    nacre_options *o;
    bool ok = nacre_env_create(2, &g->env, &g->err) == NACRE_OK && nacre_run_options_create(&g->r, &g->err) == NACRE_OK;
    ok = ok && nacre_options_create(&o, &g->err) == NACRE_OK;
    ok = ok && nacre_options_set(o, "device", device, &g->err) == NACRE_OK;
    ok = ok && nacre_model_parse(g->env, text, &m, &g->err) == NACRE_OK;
    ok = ok && nacre_session_create(g->env, m, o, &g->s, &g->err) == NACRE_OK;
    if (ok) nacre_options_release(o);
    if (!ok) nc_test_failed(__FILE__, __LINE__, "%s", g->err.text);
    return ok;
}

static void close_rig(rig *g) {
    nacre_run_options_release(g->r);
    nacre_session_release(g->s);
    nacre_env_release(g->env);
}

static nacre_value *on_guard(rig *g, const float *x, int64_t n) {
    nacre_value *host, *there = NULL;
    bool ok = nacre_value_tensor(NACRE_FLOAT, 1, &n, (void *)(uintptr_t)x, &host, &g->err) == NACRE_OK;
    ok = ok && nacre_value_new_on(g->env, "guard", NACRE_FLOAT, 1, &n, &there, &g->err) == NACRE_OK;
    if (!ok || nacre_value_copy(there, host, &g->err) != NACRE_OK)
        nc_test_failed(__FILE__, __LINE__, "%s", g->err.text);
    nacre_value_release(host);
    return there;
}

static void check_negated(rig *g, nacre_value *v, const float *x, int64_t n) {
    float got[N + 1] = {0};
    nacre_value *host;
    REQUIRE(nacre_value_tensor(NACRE_FLOAT, 1, &n, got, &host, &g->err) == NACRE_OK);
    CHECK(nacre_value_copy(host, v, &g->err) == NACRE_OK);
    for (int64_t i = 0; i < n; i++) CHECK_NEAR(got[i], -x[i], 0);
    nacre_value_release(host);
}

static nacre_code run(rig *g, nacre_value *x, nacre_value **out) {
    return nacre_run(g->s, g->r, (const char *[]){"x"}, &x, 1, (const char *[]){"y", "k"}, 2, out, &g->err);
}

static void there_and_back(const char *device, int64_t n) {
    rig g = {0};
    float x[N + 1];
    int number = -1;
    for (int i = 0; i <= N; i++) x[i] = (float)i - 5;
    if (!open_on(&g, plain, device)) return;
    bool guard = strcmp(device, "guard") == 0;
    nacre_value *in = on_guard(&g, x, n), *out[2] = {NULL, NULL};
    REQUIRE(in && run(&g, in, out) == NACRE_OK);
    CHECK_STR(nacre_value_device(out[0], &number), "cpu");
    check_negated(&g, out[0], x, n);
    nacre_value_release(out[0]), nacre_value_release(out[1]);

    CHECK(nacre_run_options_keep(g.r, "y", &g.err) == NACRE_OK && nacre_run_options_keep(g.r, "k", &g.err) == NACRE_OK);
    out[0] = out[1] = NULL;
    REQUIRE(run(&g, in, out) == NACRE_OK);
    for (int i = 0; i < 2; i++) CHECK_STR(nacre_value_device(out[i], &number), device);
    CHECK_INT(number, 0);
    CHECK_INT(nacre_value_dims(out[0])[0], n);
    check_negated(&g, out[0], x, n);
    int64_t k = -1, one = 1;
    nacre_value *host;
    REQUIRE(nacre_value_tensor(NACRE_INT64, 1, &one, &k, &host, &g.err) == NACRE_OK);
    CHECK(nacre_value_copy(host, out[1], &g.err) == NACRE_OK);
    CHECK_INT(k, n);
    nacre_value_release(host);

    /* The output of one run is the input of the next, and a bound output is written where it lies. */
    nacre_value *bound[2] = {NULL, NULL};
    REQUIRE(nacre_value_new_on(g.env, "guard", NACRE_FLOAT, 1, &n, &bound[0], &g.err) == NACRE_OK);
    void *at = nacre_value_data(bound[0]);
    nacre_value *before = bound[0];
    for (int i = 0; i < 3; i++) REQUIRE(run(&g, i % 2 ? out[0] : in, bound) == NACRE_OK);
    CHECK(bound[0] == before && nacre_value_data(bound[0]) == at);
    CHECK_STR(nacre_value_device(bound[0], NULL), "guard");
    check_negated(&g, bound[0], x, n);
    CHECK(guard || nacre_value_data(out[0]) != NULL);
    for (int i = 0; i < 2; i++) nacre_value_release(out[i]), nacre_value_release(bound[i]);
    nacre_value_release(in);
    close_rig(&g);
}
TEST(device_values_on_its_own_device) { there_and_back("guard", N); }
TEST(device_values_of_no_elements) { there_and_back("guard", 0); }
TEST(device_values_in_a_session_on_the_host) { there_and_back("cpu", N); }

/* The host reads x for its values: the run takes a copy of it. */
TEST(device_values_where_the_host_reads_too) {
    rig g = {0};
    int64_t shape[2] = {2, 3}, two = 2, six = 6, z[2] = {0, 0};
    float d[6] = {0, 1, 2, 3, 4, 5};
    if (!open_on(&g, mixed, "guard")) return;
    nacre_value *host, *x, *data, *out[2] = {NULL, NULL};
    REQUIRE(nacre_value_tensor(NACRE_INT64, 1, &two, shape, &host, &g.err) == NACRE_OK);
    REQUIRE(nacre_value_new_on(g.env, "guard", NACRE_INT64, 1, &two, &x, &g.err) == NACRE_OK);
    REQUIRE(nacre_value_copy(x, host, &g.err) == NACRE_OK);
    data = on_guard(&g, d, six);
    REQUIRE(nacre_value_new_on(g.env, "guard", NACRE_INT64, 1, &two, &out[1], &g.err) == NACRE_OK);
    nacre_value *const in[2] = {x, data};
    nacre_code code =
        nacre_run(g.s, g.r, (const char *[]){"x", "d"}, in, 2, (const char *[]){"y", "z"}, 2, out, &g.err);
    if (code != NACRE_OK) nc_test_failed(__FILE__, __LINE__, "%s", g.err.text);
    REQUIRE(code == NACRE_OK);
    CHECK_INT(nacre_value_rank(out[0]), 2);
    nacre_value *back;
    REQUIRE(nacre_value_tensor(NACRE_INT64, 1, &two, z, &back, &g.err) == NACRE_OK);
    CHECK(nacre_value_copy(back, out[1], &g.err) == NACRE_OK);
    CHECK_INT(z[0], 4);
    CHECK_INT(z[1], 6);
    nacre_value *all[] = {host, x, data, out[0], out[1], back};
    for (int i = 0; i < 6; i++) nacre_value_release(all[i]);
    close_rig(&g);
}

static int n_released;
static void count_release(void *owner) {
    (void)owner;
    n_released++;
}

TEST(device_values_over_memory_of_the_caller) {
    rig g = {0};
    float x[N];
    int64_t n = N;
    for (int i = 0; i < N; i++) x[i] = (float)i;
    if (!open_on(&g, plain, "guard")) return;
    nacre_value *owner = on_guard(&g, x, N), *v, *out[2] = {NULL, NULL};
    n_released = 0;
    REQUIRE(nacre_value_at(g.env, "guard", NACRE_FLOAT, 1, &n, nacre_value_data(owner), count_release, NULL, &v,
                           &g.err) == NACRE_OK);
    CHECK(nacre_env_synchronize(g.env, "guard", &g.err) == NACRE_OK);
    REQUIRE(run(&g, v, out) == NACRE_OK);
    check_negated(&g, out[0], x, N);
    nacre_value_release(v);
    CHECK_INT(n_released, 1);
    for (int i = 0; i < 2; i++) nacre_value_release(out[i]);
    close_rig(&g); /* the value outlives its environment and the session */
    nacre_value_release(owner);
}

TEST(device_values_mistakes) {
    rig g = {0};
    int64_t n = 4, m = 5, back = -1;
    nacre_value *v = NULL, *a, *b, *list;
    if (!open_on(&g, plain, "guard")) return;
    CHECK(nacre_value_new_on(g.env, "gpu", NACRE_FLOAT, 1, &n, &v, &g.err) == NACRE_DEVICE);
    CHECK(nacre_value_new_on(g.env, "guard", NACRE_STRING, 1, &n, &v, &g.err) == NACRE_TYPE);
    CHECK(nacre_value_new_on(g.env, "guard", NACRE_FLOAT, 1, &back, &v, &g.err) == NACRE_SHAPE);
    CHECK(nacre_value_at(g.env, "guard", NACRE_FLOAT, 1, &n, NULL, NULL, NULL, &v, &g.err) == NACRE_ARGUMENT);
    CHECK(v == NULL);
    REQUIRE(nacre_value_new_on(g.env, "guard", NACRE_FLOAT, 1, &n, &a, &g.err) == NACRE_OK);
    REQUIRE(nacre_value_new_on(g.env, "guard", NACRE_FLOAT, 1, &m, &b, &g.err) == NACRE_OK);
    CHECK(nacre_value_copy(a, b, &g.err) == NACRE_SHAPE);
    CHECK_STR(g.err.text, "copy: expected 4 elements, got 5");
    CHECK(nacre_value_sequence(NACRE_FLOAT, &a, 1, &list, &g.err) == NACRE_ARGUMENT);
    CHECK_INT(nacre_value_bytes(b), 20);
    nacre_value *out[2] = {b, NULL}; /* five elements for an output of four */
    CHECK(run(&g, a, out) == NACRE_SHAPE);
    CHECK(out[0] == b && out[1] == NULL);
    nacre_value_release(a), nacre_value_release(b);
    close_rig(&g);
}
