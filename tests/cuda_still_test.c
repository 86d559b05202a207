/* Runs whose tensors all lie on the GPU: nothing is copied, so no stream waits for another and the host waits once.
 * Where one of them lies on the host, or the host needs a result on the way, the waits are there. Counted on the
 * stand-ins, whose streams run late: a wait too few gives other numbers. On a stream of the caller's such a run is its
 * work and one event behind it. */
#include "tests/cuda/standin.h"
#include "tests/model.h"

enum { N = 37 };

static nacre_value *value_on(model *m, const char *device, const float *x) {
    nacre_value *host = NULL, *there = NULL;
    bool ok = nacre_value_tensor(NACRE_FLOAT, 1, D(N), (void *)(uintptr_t)x, &host, &m->err) == NACRE_OK;
    ok = ok && nacre_value_new_on(m->env, device, NACRE_FLOAT, 1, D(N), &there, &m->err) == NACRE_OK;
    if (!ok || nacre_value_copy(there, host, &m->err) != NACRE_OK)
        nc_test_failed(__FILE__, __LINE__, "%s", m->err.text);
    nacre_value_release(host);
    return there;
}

static void check_difference(model *m, nacre_value *y, const float *a, const float *b) {
    float got[N] = {0};
    nacre_value *host;
    REQUIRE(nacre_value_tensor(NACRE_FLOAT, 1, D(N), got, &host, &m->err) == NACRE_OK);
    CHECK(nacre_value_copy(host, y, &m->err) == NACRE_OK);
    for (int i = 0; i < N; i++) CHECK_NEAR(got[i], a[i] - b[i], 0);
    nacre_value_release(host);
}

/* y = a - b, three times in the same memory, with operands on these devices; events and waits of the last run. */
static void run_with(model *m, const char *text, const char *const devices[3], bool events, uint64_t waits,
                     nacre_stream *stream) {
    const standin_control *c = standin_find();
    float x[3][N];
    nacre_value *in[2], *out = NULL;
    model_option(m, "capture", "on");
    model_open(m, text);
    REQUIRE(!m->failed);
    for (int i = 0; i < 2; i++) random_floats(x[i], N, (uint64_t)i + 1), in[i] = value_on(m, devices[i], x[i]);
    memset(x[2], 0, sizeof x[2]);
    out = value_on(m, devices[2], x[2]);
    if (stream) nacre_run_options_stream(m->run, stream);
    for (int i = 0; i < 3; i++) {
        if (stream) CHECK_INT(nacre_stream_synchronize(stream, &m->err), NACRE_OK);
        if (c != NULL) c->reset_calls();
        nacre_code code = nacre_run(m->session, m->run, (const char *[]){"a", "b"}, in, 2, (const char *[]){"y"}, 1,
                                    &out, &m->err);
        if (code != NACRE_OK) nc_test_failed(__FILE__, __LINE__, "%s", m->err.text);
    }
    if (c != NULL) CHECK_INT(c->calls("cuEventRecord") + c->calls("cuStreamWaitEvent") > (stream ? 1 : 0), events);
    if (stream) CHECK_INT(nacre_stream_synchronize(stream, &m->err), NACRE_OK);
    if (c != NULL && waits > 0) CHECK_INT(c->calls("cuStreamSynchronize") + c->calls("cuEventSynchronize"), waits);
    check_difference(m, out, x[0], x[1]);
    for (int i = 0; i < 2; i++) nacre_value_release(in[i]);
    nacre_value_release(out);
}

#define GRAPH "<opset: \"\" 22> g (float[37] a, float[37] b) => (y) "
static const char formula[] = GRAPH "{ y = Sub(a, b) }";
/* The host reads how many of a's elements are below 2, which all are, and that many of the difference are taken. */
static const char counted[] = GRAPH "{ two = Constant<value_float = 2.0>() zero = Constant<value_ints = [0]>()"
                                    " l = Less(a, two) i = Cast<to = 7>(l) n = ReduceSum(i) d = Sub(a, b)"
                                    " y = Slice(d, zero, n, zero) }";

static void on_gpu(model *m) { run_with(m, formula, (const char *[]){"cuda", "cuda", "cuda"}, false, 1, NULL); }
static void input_on_host(model *m) { run_with(m, formula, (const char *[]){"cuda", "cpu", "cuda"}, true, 0, NULL); }
static void output_on_host(model *m) { run_with(m, formula, (const char *[]){"cuda", "cuda", "cpu"}, true, 0, NULL); }
static void host_between(model *m) { run_with(m, counted, (const char *[]){"cuda", "cuda", "cuda"}, true, 0, NULL); }


static void with_stream(model *m, const char *output, bool events) {
    nacre_stream *s = NULL;
    if (nacre_stream_create(m->env, "cuda", &s, &m->err) != NACRE_OK)
        nc_test_failed(__FILE__, __LINE__, "%s", m->err.text);
    run_with(m, formula, (const char *[]){"cuda", "cuda", output}, events, 0, s);
    nacre_run_options_stream(m->run, NULL);
    nacre_stream_release(s);
}
static void on_stream(model *m) { with_stream(m, "cuda", false); }
static void on_stream_to_host(model *m) { with_stream(m, "cpu", true); }

TEST(cuda_still_runs_wait_once) { model_on_cuda(on_gpu); }
TEST(cuda_still_not_with_an_input_of_the_host) { model_on_cuda(input_on_host); }
TEST(cuda_still_not_with_an_output_of_the_host) { model_on_cuda(output_on_host); }
TEST(cuda_still_not_where_the_host_reads_between) { model_on_cuda(host_between); }
TEST(cuda_still_on_a_stream_of_the_callers) { model_on_cuda(on_stream); }
TEST(cuda_still_not_on_such_a_stream_with_an_output_of_the_host) { model_on_cuda(on_stream_to_host); }
