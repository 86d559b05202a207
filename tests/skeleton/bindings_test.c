/* tests/skeleton/bindings_test.c: where a run's values lie: bound once for many runs, in the device's memory without
 * copies, on the caller's stream without a wait, in pinned memory, strided. */
#include "api/api.h"
#include "tests/cuda/standin.h"
#include "tests/model.h"

#include <string.h>

static const char text[] = "<opset: \"\" 18> g (float[n,3] x, float[3] b) => (y, z) {\n"
                           "t = Add(x, b)\n y = Softmax(t)\n z = Neg(t)\n }";
static const int64_t dims[] = {2, 3}, three[] = {3};
static const float x[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, -1};

static nacre_value *value_on(model *m, const char *device, int rank, const int64_t *shape, const float *data) {
    nacre_value *host = NULL, *there = NULL;
    CHECK_INT(nacre_value_tensor(NACRE_FLOAT, rank, shape, (void *)(uintptr_t)data, &host, &m->err), NACRE_OK);
    CHECK_INT(nacre_value_new_on(m->env, device, NACRE_FLOAT, rank, shape, &there, &m->err), NACRE_OK);
    CHECK_INT(nacre_value_copy(there, host, &m->err), NACRE_OK);
    nacre_value_release(host);
    return there;
}

static void check_z(nacre_value *z, float sign) {
    const float *p = z ? nacre_value_data(z) : NULL;
    REQUIRE(p != NULL);
    for (int i = 0; i < 6; i++) CHECK(p[i] == sign * -(x[i] + b[i % 3]));
}

/* The same binding serves run after run; a value that is bound again is what the next run reads. */
static void again(model *m) {
    nacre_binding *k = NULL;
    nacre_value *vx = NULL, *vb = NULL, *vz = NULL;
    float negated[6];
    model_open(m, text);
    for (int i = 0; i < 6; i++) negated[i] = -x[i] - 2 * b[i % 3];
    REQUIRE(nacre_binding_create(m->session, &k, &m->err) == NACRE_OK);
    nacre_value_tensor(NACRE_FLOAT, 2, dims, (void *)(uintptr_t)x, &vx, &m->err);
    nacre_value_tensor(NACRE_FLOAT, 1, three, (void *)(uintptr_t)b, &vb, &m->err);
    nacre_value_new_tensor(NACRE_FLOAT, 2, dims, &vz, &m->err);
    CHECK_INT(nacre_binding_input(k, "x", vx, &m->err), NACRE_OK);
    CHECK_INT(nacre_binding_input(k, "b", vb, &m->err), NACRE_OK);
    CHECK_INT(nacre_binding_output(k, "z", vz, 0, &m->err), NACRE_OK);
    CHECK_INT(nacre_binding_output(k, "y", NULL, 0, &m->err), NACRE_OK);
    for (int i = 0; i < 3; i++) CHECK_INT(nacre_binding_run(k, NULL, &m->err), NACRE_OK);
    CHECK_INT(nacre_binding_n_outputs(k), 2);
    CHECK_STR(nacre_binding_output_name(k, 0), "z");
    check_z(vz, 1);
    nacre_value *y = nacre_binding_result(k, 1), *same = nacre_binding_result(k, 0);
    CHECK(same == vz && y != NULL);
    model_collect(m, y);
    nacre_value_release(y);
    nacre_value_release(same);
    nacre_value_release(vx);
    nacre_value_tensor(NACRE_FLOAT, 2, dims, negated, &vx, &m->err);
    CHECK_INT(nacre_binding_input(k, "x", vx, &m->err), NACRE_OK);
    CHECK_INT(nacre_binding_run(k, NULL, &m->err), NACRE_OK);
    check_z(vz, -1);
    CHECK_INT(nacre_binding_input(k, "w", vx, &m->err), NACRE_ARGUMENT);
    CHECK(strstr(m->err.text, "no input 'w'; it has: x, b") != NULL);
    CHECK_INT(nacre_binding_output(k, "w", NULL, 0, &m->err), NACRE_ARGUMENT);
    nacre_binding_clear_inputs(k);
    CHECK_INT(nacre_binding_run(k, NULL, &m->err), NACRE_ARGUMENT);
    CHECK(strstr(m->err.text, "was not given") != NULL);
    nacre_binding_clear_outputs(k);
    CHECK_INT(nacre_binding_n_outputs(k), 0);
    nacre_binding_release(k);
    nacre_value_release(vx);
    nacre_value_release(vb);
    nacre_value_release(vz);
}
TEST(bindings_serve_many_runs) { model_everywhere(again); }

/* Tensors in the device's memory are read and written where they lie: a run copies nothing. */
static void on_device(model *m) {
    nacre_binding *k = NULL;
    model_open(m, text);
    nacre_value *vx = value_on(m, m->device, 2, dims, x), *vb = value_on(m, m->device, 1, three, b), *vz = NULL;
    nacre_value_new_on(m->env, m->device, NACRE_FLOAT, 2, dims, &vz, &m->err);
    REQUIRE(nacre_binding_create(m->session, &k, &m->err) == NACRE_OK);
    CHECK_INT(nacre_binding_input(k, "x", vx, &m->err), NACRE_OK);
    CHECK_INT(nacre_binding_input(k, "b", vb, &m->err), NACRE_OK);
    CHECK_INT(nacre_binding_output(k, "z", vz, 1, &m->err), NACRE_OK);
    CHECK_INT(nacre_binding_output(k, "y", NULL, 1, &m->err), NACRE_OK);
    CHECK_INT(nacre_binding_run(k, NULL, &m->err), NACRE_OK);
    uint64_t before = m->session->s->device->n_copies;
    CHECK_INT(nacre_binding_run(k, NULL, &m->err), NACRE_OK);
    CHECK_INT(m->session->s->device->n_copies, before);
    nacre_value *y = nacre_binding_result(k, 1), *host = NULL;
    CHECK_STR(nacre_value_device(y, NULL), m->device);
    nacre_value_new_tensor(NACRE_FLOAT, 2, dims, &host, &m->err);
    CHECK_INT(nacre_value_copy(host, vz, &m->err), NACRE_OK);
    check_z(host, 1);
    CHECK_INT(nacre_value_copy(host, y, &m->err), NACRE_OK);
    model_collect(m, host);
    /* The caller's input is not written over, and host tensors may follow device ones. */
    CHECK_INT(nacre_value_copy(host, vx, &m->err), NACRE_OK);
    CHECK(memcmp(nacre_value_data(host), x, sizeof x) == 0);
    nacre_value_release(vx);
    nacre_value_tensor(NACRE_FLOAT, 2, dims, (void *)(uintptr_t)x, &vx, &m->err);
    CHECK_INT(nacre_binding_input(k, "x", vx, &m->err), NACRE_OK);
    CHECK_INT(nacre_binding_run(k, NULL, &m->err), NACRE_OK);
    CHECK_INT(nacre_value_copy(host, vz, &m->err), NACRE_OK);
    check_z(host, 1);
    nacre_binding_release(k);
    nacre_value *all[] = {vx, vb, vz, y, host};
    for (int i = 0; i < 5; i++) nacre_value_release(all[i]);
}
TEST(tensors_on_the_device_are_used_where_they_lie) { model_everywhere(on_device); }

/* A steady step with an output that is made anew in the device's memory: the driver is asked for work alone. Counted on
 * the stand-ins. */
static void steady_step(model *m) {
    static const char *const makers[] = {"cuMemAlloc_v2", "cuMemFree_v2",   "cuMemHostAlloc",  "cuCtxSynchronize",
                                         "cuEventCreate", "cuStreamCreate", "cuModuleLoadData"};
    nacre_binding *k = NULL;
    model_open(m, text);
    const standin_control *driver = strcmp(m->device, "cuda") == 0 ? standin_find() : NULL;
    nacre_value *vx = value_on(m, m->device, 2, dims, x), *vb = value_on(m, m->device, 1, three, b);
    REQUIRE(nacre_binding_create(m->session, &k, &m->err) == NACRE_OK);
    CHECK_INT(nacre_binding_input(k, "x", vx, &m->err), NACRE_OK);
    CHECK_INT(nacre_binding_input(k, "b", vb, &m->err), NACRE_OK);
    CHECK_INT(nacre_binding_output(k, "z", NULL, 1, &m->err), NACRE_OK);
    for (int i = 0; i < 8; i++) {
        if (i == 3 && driver) driver->reset_calls();
        CHECK_INT(nacre_binding_run(k, NULL, &m->err), NACRE_OK);
    }
    for (size_t i = 0; driver && i < sizeof makers / sizeof *makers; i++)
        if (driver->calls(makers[i]) != 0) nc_test_failed(__FILE__, __LINE__, "%s was called", makers[i]);
    nacre_binding_release(k);
    nacre_value_release(vx);
    nacre_value_release(vb);
}
TEST(a_steady_step_makes_nothing) { model_everywhere(steady_step); }

/* The heads of attention, seen through transposed views, are one product of all images and heads. */
static void heads(model *m) {
    static const int64_t rows[] = {3, 4, 10};
    float q[3 * 4 * 10];
    for (int i = 0; i < 3 * 4 * 10; i++) q[i] = (float)(i % 7) - 3;
    model_open(m, "<opset: \"\" 18> g (float[n,4,10] x) => (y) <const int64[4] s = {0, 0, 2, 5}> {\n"
                  "h = Reshape(x, s)\n a = Transpose<perm = [0, 2, 1, 3]>(h)\n b = Transpose<perm = [0, 2, 3, 1]>(h)\n"
                  "y = MatMul(a, b)\n }");
    const standin_control *driver = strcmp(m->device, "cuda") == 0 ? standin_find() : NULL;
    model_input(m, "x", NACRE_FLOAT, 3, rows, q);
    if (driver) driver->reset_calls();
    model_run(m);
    if (driver) CHECK_INT(driver->calls("cublasLtMatmul"), 1);
    const float *y = model_floats(m, "y", 3 * 2 * 4 * 4);
    for (int i = 0; y && i < 3 * 2 * 4 * 4; i++) {
        int image = i / 32, head = i / 16 % 2, row = i / 4 % 4, column = i % 4;
        float want = 0;
        for (int k = 0; k < 5; k++)
            want += q[(image * 4 + row) * 10 + head * 5 + k] * q[(image * 4 + column) * 10 + head * 5 + k];
        CHECK_NEAR(y[i], want, 0);
    }
    model_collect_all(m);
}
TEST(heads_of_attention_are_one_product) { model_everywhere(heads); }

/* Runs on the caller's stream return when queued; a wait for the stream is a wait for all of them. */
static void on_stream(model *m) {
    enum { N = 9 };
    nacre_stream *s = NULL, *other = NULL;
    nacre_run_options *r = NULL;
    nacre_value *in[2] = {NULL}, *z[N] = {NULL};
    const char *const names[] = {"x", "b"}, *const out = "z";
    model_open(m, text);
    REQUIRE(nacre_stream_create(m->env, m->device, &s, &m->err) == NACRE_OK);
    REQUIRE(nacre_run_options_create(&r, &m->err) == NACRE_OK);
    nacre_run_options_stream(r, s);
    nacre_value_new_pinned(m->env, m->device, NACRE_FLOAT, 2, dims, &in[0], &m->err);
    memcpy(nacre_value_data(in[0]), x, sizeof x);
    in[1] = value_on(m, m->device, 1, three, b);
    for (int i = 0; i < N; i++) CHECK_INT(nacre_run(m->session, r, names, in, 2, &out, 1, &z[i], &m->err), NACRE_OK);
    CHECK_INT(nacre_stream_synchronize(s, &m->err), NACRE_OK);
    for (int i = 0; i < N; i++) {
        check_z(z[i], 1);
        nacre_value_release(z[i]);
    }
    const char *wrong = strcmp(m->device, "cpu") == 0 ? "guard" : "cpu";
    REQUIRE(nacre_stream_create(m->env, wrong, &other, &m->err) == NACRE_OK);
    nacre_run_options_stream(r, other);
    z[0] = NULL;
    CHECK_INT(nacre_run(m->session, r, names, in, 2, &out, 1, &z[0], &m->err), NACRE_ARGUMENT);
    CHECK(strstr(m->err.text, "the stream given is of device") != NULL);
    nacre_run_options_release(r);
    nacre_stream_release(other);
    nacre_stream_release(s);
    nacre_value_release(in[0]);
    nacre_value_release(in[1]);
}
TEST(runs_on_the_stream_of_the_caller) { model_everywhere(on_stream); }
TEST(runs_on_the_stream_of_the_caller_on_cuda) { model_on_cuda(on_stream); }

/* A state is updated on two streams in turn without a wait, and each sees what the one before wrote: runs that add x to
 * twice what was there. A run without a stream, and a read on the host, come after all of them. */
static void on_streams_with_state(model *m) {
    enum { N = 8 };
    nacre_stream *s[2] = {NULL};
    nacre_run_options *r[2] = {NULL};
    nacre_value *in = NULL, *y[N + 1] = {NULL};
    const char *const name = "x", *const out = "y";
    float want = 0;
    model_open(m, "<opset: \"\" 18>\ng (float[2,3] x) => (float[2,3] y)\n"
                  "<var float[2,3] v = {0,0,0,0,0,0} -> v1>\n"
                  "{ d = Add(v, v)\n  v1 = Add(d, x)\n  y = Neg(v1) }\n");
    in = value_on(m, m->device, 2, dims, x);
    for (int i = 0; i < 2; i++) {
        REQUIRE(nacre_stream_create(m->env, m->device, &s[i], &m->err) == NACRE_OK);
        REQUIRE(nacre_run_options_create(&r[i], &m->err) == NACRE_OK);
        nacre_run_options_stream(r[i], s[i]);
    }
    for (int i = 0; i < N; i++)
        CHECK_INT(nacre_run(m->session, r[i % 2], &name, &in, 1, &out, 1, &y[i], &m->err), NACRE_OK);
    nacre_stats stats = model_stats(m);
    /* Earlier runs had not ended when later ones began: sure where streams run late. */
    if (strcmp(m->device, "cuda") != 0) CHECK_INT(stats.frames > 1, strcmp(m->device, "guard") == 0);
    CHECK_INT(nacre_run(m->session, NULL, &name, &in, 1, &out, 1, &y[N], &m->err), NACRE_OK);
    nacre_value *v = model_variable(m, "v");
    for (int i = 0; i < 2; i++) CHECK_INT(nacre_stream_synchronize(s[i], &m->err), NACRE_OK);
    for (int i = 0; i <= N; i++) {
        want = 2 * want + 1;
        const float *p = nacre_value_data(y[i]);
        for (int k = 0; p && k < 6; k++) CHECK(p[k] == -want * x[k]);
        nacre_value_release(y[i]);
    }
    CHECK(((const float *)nacre_value_data(v))[5] == want * x[5]);
    nacre_value_release(v);
    for (int i = 0; i < 2; i++) nacre_run_options_release(r[i]), nacre_stream_release(s[i]);
    nacre_value_release(in);
}
TEST(a_state_passes_from_stream_to_stream) { model_everywhere(on_streams_with_state); }
TEST(a_state_passes_from_stream_to_stream_on_cuda) { model_on_cuda(on_streams_with_state); }

/* A bad index met on the caller's stream is told by the caller's own wait; the state that the run wrote knows of it all
 * the same: it is dirty, and a later run on it is refused. */
static void state_of_told_fault(model *m, bool run_between) {
    nacre_stream *s = NULL;
    nacre_run_options *r = NULL;
    nacre_value *in = NULL, *y = NULL, *v = NULL;
    const char *const name = "i", *const out = "y";
    model_open(m, "<opset: \"\" 18>\ng (int64[1] i) => (float[1] y)\n"
                  "<const float[4] t = {1, 2, 3, 4}, var float[1] v = {0} -> v1>\n"
                  "{ a = Gather(t, i)\n  v1 = Add(v, a)\n  y = Neg(v1) }\n");
    REQUIRE(nacre_stream_create(m->env, m->device, &s, &m->err) == NACRE_OK);
    REQUIRE(nacre_run_options_create(&r, &m->err) == NACRE_OK);
    nacre_run_options_stream(r, s);
    nacre_value_new_pinned(m->env, m->device, NACRE_INT64, 1, (const int64_t[]){1}, &in, &m->err);
    *(int64_t *)nacre_value_data(in) = 9;
    CHECK_INT(nacre_run(m->session, r, &name, &in, 1, &out, 1, &y, &m->err), NACRE_OK);
    CHECK_INT(nacre_stream_synchronize(s, &m->err), NACRE_DATA);
    nacre_value_release(y);
    y = NULL;
    *(int64_t *)nacre_value_data(in) = 1;
    if (run_between) {
        nacre_run(m->session, r, &name, &in, 1, &out, 1, &y, &m->err); /* before anybody has looked */
        CHECK_INT(nacre_stream_synchronize(s, &m->err), NACRE_OK);
    }
    CHECK(nacre_state_get(m->session, NULL, "v", &v, &m->err) != NACRE_OK);
    nacre_value_release(y);
    y = NULL;
    CHECK_INT(nacre_run(m->session, NULL, &name, &in, 1, &out, 1, &y, &m->err), NACRE_STATE);
    nacre_value_release(y);
    nacre_value_release(v);
    nacre_value_release(in);
    nacre_run_options_release(r);
    nacre_stream_release(s);
}
static void told_at_once(model *m) { state_of_told_fault(m, false); }
static void told_after_another(model *m) { state_of_told_fault(m, true); }
TEST(a_fault_told_to_the_caller_is_told_to_the_state_on_cuda) { model_on_cuda(told_at_once); }
TEST(a_fault_told_to_the_caller_outlives_another_run_on_cuda) { model_on_cuda(told_after_another); }

/* A transposed tensor is read as it lies where all readers can, and from a dense copy where not. */
static void strided(model *m) {
    static const float columns[] = {1, 4, 2, 5, 3, 6}; /* x, column by column */
    static const int64_t strides[] = {1, 2}, back[] = {-1, 2};
    nacre_value *v = NULL;
    model_open(m, text);
    REQUIRE(nacre_value_strided(NACRE_FLOAT, 2, dims, strides, (void *)(uintptr_t)columns, NULL, NULL, &v, &m->err) ==
            NACRE_OK);
    model_value(m, "x", v);
    model_input(m, "b", NACRE_FLOAT, 1, three, b);
    model_run(m);
    check_z(model_out(m, "z"), 1);
    model_collect_all(m);
    CHECK_INT(nacre_value_strided(NACRE_FLOAT, 2, dims, back, (void *)(uintptr_t)columns, NULL, NULL, &v, &m->err),
              NACRE_ARGUMENT);
}
TEST(strided_inputs) { model_everywhere(strided); }
