/* The MLP on a GPU through the same device table: forward, and training steps (softmax cross-entropy, SGD) replayed
 * from one captured graph, equal to the CPU within tolerance. Not run, with the reason, where there is no GPU. */
#include "tests/model.h"

#include <stdlib.h>

enum { IN = 64, HIDDEN = 96, OUT = 10, BATCH = 32 };

static bool gpu(model *m) {
    static char why[512];
    char text[256];
    if (nacre_env_describe_device(m->env, "cuda", text, sizeof text, &m->err) == NACRE_OK) {
        nc_test_ran_on(text);
        return true;
    }
    snprintf(why, sizeof why, "%s", m->err.text);
    nc_test_not_run(why);
    return false;
}

static size_t put(char *s, size_t n, size_t cap, const char *head, int count, uint64_t seed, float scale) {
    float *p = malloc((size_t)count * sizeof *p);
    random_floats(p, count, seed);
    n += (size_t)snprintf(s + n, cap - n, "%s = {", head);
    for (int i = 0; i < count; i++)
        n += (size_t)snprintf(s + n, cap - n, "%s%.9g", i ? "," : "", (double)(scale * p[i]));
    free(p);
    return n + (size_t)snprintf(s + n, cap - n, "}");
}

static char *mlp(bool loss) {
    size_t cap = 1 << 19, n = 0;
    char *s = malloc(cap);
    n += (size_t)snprintf(s + n, cap - n, "<opset: \"\" 17>\nmlp (float[batch,%d] x%s) => (float[batch,%d] y%s)\n<", IN,
                          loss ? ", int64[batch] labels" : "", OUT, loss ? ", float[] loss" : "");
    n = put(s, n, cap, "const float[64,96] W1", IN * HIDDEN, 1, 0.2f);
    n = put(s, n, cap, ", const float[96] b1", HIDDEN, 2, 0.1f);
    n = put(s, n, cap, ", const float[96,10] W2", HIDDEN * OUT, 3, 0.2f);
    n = put(s, n, cap, ", const float[10] b2", OUT, 4, 0.1f);
    snprintf(s + n, cap - n,
             ">\n{\n  h = MatMul(x, W1)\n  a = Add(h, b1)\n  r = Tanh(a)\n  z = MatMul(r, W2)\n  y = Add(z, b2)\n%s}\n",
             loss ? "  loss = SoftmaxCrossEntropyLoss(y, labels)\n" : "");
    return s;
}

static void compare(const char *what, nacre_value *a, nacre_value *b, nc_tolerance tol) {
    if (!a || !b || nacre_value_count(a) != nacre_value_count(b)) {
        nc_test_failed(__FILE__, __LINE__, "%s: missing or of another size", what);
        return;
    }
    const float *p = nacre_value_data(a), *q = nacre_value_data(b);
    for (int64_t i = 0; i < nacre_value_count(a); i++)
        if (!nc_close((double)p[i], (double)q[i], tol))
            nc_test_failed(__FILE__, __LINE__, "%s[%lld]: %g on the GPU, %g on the CPU", what, (long long)i,
                           (double)p[i], (double)q[i]);
}

static void feed(model *m, int batch, uint64_t seed, bool labels) {
    float x[BATCH * IN];
    int64_t t[BATCH];
    random_floats(x, batch * IN, seed);
    for (int i = 0; i < batch; i++) t[i] = (int64_t)((seed * 7 + (uint64_t)i * 3) % OUT);
    model_input(m, "x", NACRE_FLOAT, 2, D(batch, IN), x);
    if (labels) model_input(m, "labels", NACRE_INT64, 1, D(batch), t);
}

TEST(mlp_forward_on_cuda) {
    model g, c;
    model_init(&g, "cuda", 2);
    if (gpu(&g)) {
        char *text = mlp(false);
        model_init(&c, "cpu", 2);
        model_option(&g, "capture", "on");
        model_open(&g, text);
        model_open(&c, text);
        for (int i = 0; i < 5; i++) {
            feed(&g, BATCH, (uint64_t)i + 1, false);
            feed(&c, BATCH, (uint64_t)i + 1, false);
            model_run(&g);
            model_run(&c);
            compare("y", model_out(&g, "y"), model_out(&c, "y"), nc_tol_device_steps_f32);
        }
        CHECK_INT(model_stats(&g).captures, 1);
        CHECK_INT(model_stats(&g).replays, 4);
        CHECK_INT(model_stats(&g).plans, 1);
        feed(&g, 7, 9, false);
        feed(&c, 7, 9, false);
        model_run(&g);
        model_run(&c);
        compare("y at another batch", model_out(&g, "y"), model_out(&c, "y"), nc_tol_device_steps_f32);
        free(text);
        model_close(&c);
    }
    model_close(&g);
}

static void open_training(model *m, const char *text) {
    CHECK(nacre_options_sgd(model_options(m), "loss", NULL, 0, "lr", &m->err) == NACRE_OK);
    model_open(m, text);
}

TEST(mlp_training_steps_on_cuda_from_one_captured_graph) {
    static const char *const params[] = {"W1", "b1", "W2", "b2"};
    model g, c;
    model_init(&g, "cuda", 2);
    if (gpu(&g)) {
        char *text = mlp(true);
        model_init(&c, "cpu", 2);
        model_option(&g, "capture", "on");
        open_training(&g, text);
        open_training(&c, text);
        for (int i = 0; i < 10; i++) {
            float lr = 0.1f / (float)(i + 1); /* a schedule */
            model_input(&g, "lr", NACRE_FLOAT, 0, D(0), &lr);
            model_input(&c, "lr", NACRE_FLOAT, 0, D(0), &lr);
            feed(&g, BATCH, (uint64_t)i + 1, true);
            feed(&c, BATCH, (uint64_t)i + 1, true);
            model_run(&g);
            model_run(&c);
            compare("loss", model_out(&g, "loss"), model_out(&c, "loss"), nc_tol_device_steps_f32);
        }
        CHECK_INT(model_stats(&g).captures, 1);
        CHECK_INT(model_stats(&g).replays, 9);
        for (int i = 0; i < 4; i++) {
            nacre_value *a = model_variable(&g, params[i]), *b = model_variable(&c, params[i]);
            compare(params[i], a, b, nc_tol_device_steps_f32);
            nacre_value_release(a);
            nacre_value_release(b);
        }
        printf("GPU: 10 training steps, %llu instructions replayed as %llu graphs\n",
               (unsigned long long)model_stats(&g).runs, (unsigned long long)model_stats(&g).replays);
        free(text);
        model_close(&c);
    }
    model_close(&g);
}

/* The same on guard, so that the capturing path of training is exercised without a GPU. */
TEST(mlp_training_steps_on_guard_from_a_capture) {
    model g, c;
    char *text = mlp(true);
    float lr = 0.1f;
    model_init(&g, "guard", 2);
    model_init(&c, "cpu", 1);
    model_option(&g, "capture", "on");
    open_training(&g, text);
    open_training(&c, text);
    model_input(&g, "lr", NACRE_FLOAT, 0, D(0), &lr);
    model_input(&c, "lr", NACRE_FLOAT, 0, D(0), &lr);
    for (int i = 0; i < 5; i++) {
        feed(&g, BATCH, (uint64_t)i + 1, true);
        feed(&c, BATCH, (uint64_t)i + 1, true);
        model_run(&g);
        model_run(&c);
        compare("loss", model_out(&g, "loss"), model_out(&c, "loss"), (nc_tolerance){0});
    }
    CHECK_INT(model_stats(&g).captures, 1);
    CHECK_INT(model_stats(&g).replays, 4);
    nacre_value *a = model_variable(&g, "W1"), *b = model_variable(&c, "W1");
    compare("W1", a, b, (nc_tolerance){0});
    nacre_value_release(a);
    nacre_value_release(b);
    free(text);
    model_close(&g);
    model_close(&c);
}
