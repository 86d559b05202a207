/* examples/mlp.c: load a model, run it at two batch sizes, print the outputs. Build: see README.md. */
#include "nacre/nacre.h"

#include <stdio.h>

static int fail(const nacre_error *err) {
    fprintf(stderr, "%s '%s': %s [%s]\n", err->op, err->node, err->text, nacre_code_name(err->code));
    return 1;
}

static int run(nacre_session *s, int64_t batch) {
    float data[8] = {1, 2, 3, 4, -1, -2, -3, -4};
    int64_t dims[] = {batch, 4};
    const char *in_name = "x", *out_name = "y";
    nacre_value *x, *y = NULL;
    nacre_error err;
    if (nacre_value_tensor(NACRE_FLOAT, 2, dims, data, &x, &err) != NACRE_OK) return fail(&err);
    nacre_code code = nacre_run(s, NULL, &in_name, &x, 1, &out_name, 1, &y, &err);
    nacre_value_release(x);
    if (code != NACRE_OK) return fail(&err);
    const float *p = nacre_value_data(y);
    for (int64_t i = 0; i < nacre_value_count(y); i++) printf("%g%s", (double)p[i], i % 3 == 2 ? "\n" : " ");
    nacre_value_release(y);
    return 0;
}

int main(int argc, char **argv) {
    nacre_error err;
    nacre_env *env;
    nacre_model *model;
    nacre_session *session;
    const char *path = argc > 1 ? argv[1] : "examples/models/mlp.nct";
    if (nacre_env_create(0, &env, &err) != NACRE_OK) return fail(&err);
    if (nacre_model_load(env, path, &model, &err) != NACRE_OK) return fail(&err);
    if (nacre_session_create(env, model, NULL, &session, &err) != NACRE_OK) return fail(&err);
    int code = run(session, 1);
    if (code == 0) code = run(session, 2);
    nacre_session_release(session);
    nacre_env_release(env);
    return code;
}
