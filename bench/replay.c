/* bench/replay.c: what a replayed run costs from C: `replay MODEL [PLAIN]`, all dims of the model are numbers. Inputs
 * and outputs are bound tensors of the GPU, zeros. Prints two figures in us: the processor's time of a run that is
 * queued on the caller's stream, three at a time, the median; the clock's time of a run that is waited for, the best
 * of five rows. PLAIN: nothing is captured. */
#include <nacre/nacre.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROWS = 200, AT_ONCE = 3, WAITED = 100, MAX_RANK = 16 };

static nacre_error err;
static void need(nacre_code code, const char *what) {
    if (code == NACRE_OK) return;
    fprintf(stderr, "replay: %s: %s\n", what, err.text);
    exit(1);
}
#define NEED(call) need(call, #call)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}
static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static nacre_value *value_of(nacre_env *env, nacre_type type, int rank, const int64_t *dims) {
    nacre_value *v = NULL;
    NEED(nacre_value_new_on(env, "cuda", type, rank, dims, &v, &err));
    return v;
}

static nacre_binding *bound(nacre_env *env, nacre_session *s) {
    nacre_binding *b = NULL;
    int64_t dims[MAX_RANK];
    int rank;
    NEED(nacre_binding_create(s, &b, &err));
    for (size_t i = 0; i < nacre_session_n_inputs(s); i++) {
        nacre_type t = nacre_session_input_type(s, i, &rank, dims);
        nacre_value *v = value_of(env, t, rank, dims);
        NEED(nacre_binding_input(b, nacre_session_input_name(s, i), v, &err));
        nacre_value_release(v);
    }
    for (size_t i = 0; i < nacre_session_n_outputs(s); i++) {
        nacre_type t = nacre_session_output_type(s, i, &rank, dims);
        nacre_value *v = value_of(env, t, rank, dims);
        NEED(nacre_binding_output(b, nacre_session_output_name(s, i), v, 1, &err));
        nacre_value_release(v);
    }
    return b;
}

static double queued(nacre_env *env, nacre_binding *b) {
    static double times[ROWS];
    nacre_stream *stream = NULL;
    nacre_run_options *r = NULL;
    NEED(nacre_stream_create(env, "cuda", &stream, &err));
    NEED(nacre_run_options_create(&r, &err));
    nacre_run_options_stream(r, stream);
    for (int i = -8; i < ROWS; i++) { /* the first ones record */
        double begin = now();
        for (int k = 0; k < AT_ONCE; k++) NEED(nacre_binding_run(b, r, &err));
        if (i >= 0) times[i] = (now() - begin) / AT_ONCE;
        NEED(nacre_stream_synchronize(stream, &err));
    }
    nacre_run_options_release(r);
    nacre_stream_release(stream);
    qsort(times, ROWS, sizeof *times, by_size);
    return times[ROWS / 2];
}

static double waited(nacre_binding *b) {
    double best = 1e30;
    for (int row = -1; row < 5; row++) {
        double begin = now();
        for (int i = 0; i < WAITED; i++) NEED(nacre_binding_run(b, NULL, &err));
        double us = (now() - begin) / WAITED;
        if (row >= 0 && us < best) best = us;
    }
    return best;
}

int main(int n, char **arg) {
    nacre_env *env = NULL;
    nacre_model *model = NULL;
    nacre_options *o = NULL;
    nacre_session *s = NULL;
    if (n < 2) return fprintf(stderr, "usage: replay MODEL [PLAIN]\n"), 2;
    NEED(nacre_env_create(1, &env, &err));
    NEED(nacre_model_load(env, arg[1], &model, &err));
    NEED(nacre_options_create(&o, &err));
    NEED(nacre_options_set(o, "device", "cuda", &err));
    NEED(nacre_options_set(o, "capture", n > 2 ? "off" : "on", &err));
    NEED(nacre_session_create(env, model, o, &s, &err));
    nacre_binding *b = bound(env, s);
    double alone = waited(b);
    printf("%.2f %.2f\n", queued(env, b), alone);
    nacre_binding_release(b);
    nacre_session_release(s);
    nacre_options_release(o);
    nacre_env_release(env);
    return 0;
}
