/* tests/model.h: whole models through the public API, for C tests. A test body is run on every device and thread count;
 * what it collects must have equal bits on all of them:
 *
 *   static void body(model *m) { model_open(m, TEXT); model_float(m, "x", 2, dims, data); model_run(m);
 * model_collect_all(m); } TEST(mlp) { model_everywhere(body); }
 *
 * A failure inside (an unexpected error code) fails the test with the library's own message. */
#ifndef NC_TESTS_MODEL_H
#define NC_TESTS_MODEL_H

#include "nacre/nacre.h"
#include "nacre/nacre_train.h"
#include "tests/check.h"

enum { MODEL_MAX = 32 };

typedef struct model {
    const char *device; /* "cpu", "guard", "cuda" */
    int threads;
    nacre_env *env;
    nacre_options *options; /* made by the first model_option or model_open; a body may use it directly */
    nacre_session *session;
    nacre_run_options *run;
    nacre_value *in[MODEL_MAX], *out[MODEL_MAX];
    const char *in_names[MODEL_MAX];
    size_t n_in;
    bool failed;
    nacre_error err; /* of the last call */
    /* collected bytes */
    unsigned char *bytes;
    size_t n_bytes, cap_bytes;
} model;

/* Runs body on cpu and guard with 1, 2 and 5 threads and compares what was collected. */
void model_everywhere(void (*body)(model *m));
/* On one device and thread count; release with model_close. */
void model_init(model *m, const char *device, int threads);
void model_close(model *m);

/* The body on a GPU with two threads; false, and the test is reported as not run, where there is none. */
bool model_on_cuda(void (*body)(model *m));
void model_option(model *m, const char *key, const char *value);
nacre_options *model_options(model *m);
void model_open(model *m, const char *text);           /* parse, create; fails the test on error */
nacre_code model_try_open(model *m, const char *text); /* the code; message in m->err */
/* Inputs of the next run; data is copied. A later one of the same name replaces it. */
void model_input(model *m, const char *name, nacre_type type, int rank, const int64_t *dims, const void *data);
void model_value(model *m, const char *name, nacre_value *takes);
void model_run(model *m); /* outputs in m->out by index; fails the test on error */
nacre_code model_try_run(model *m);
nacre_value *model_out(model *m, const char *name); /* borrowed; NULL and a failed test when there is none */
const float *model_floats(model *m, const char *name, int64_t n); /* checks type and count */
const double *model_doubles(model *m, const char *name, int64_t n);
const int64_t *model_ints(model *m, const char *name, int64_t n);
nacre_value *model_variable(model *m, const char *name); /* a new reference */
void model_collect(model *m, nacre_value *v);
void model_collect_all(model *m); /* all outputs of the last run */
/* A dump must hold `part`; count how often. */
int model_dump_count(model *m, const char *stage, const char *part);
nacre_stats model_stats(model *m);

/* Repeatable numbers in [-1, 1). */
void random_floats(float *p, int64_t n, uint64_t seed);
void random_doubles(double *p, int64_t n, uint64_t seed);

#define D(...) ((const int64_t[]){__VA_ARGS__})

#endif
