/* tests/plugins/compact.c: a custom op that keeps the elements above a threshold: how many is known only when it has
 * looked. Built against the public header alone. It can also cancel: with attribute stop = 1 it calls the function the
 * test gave through an environment variable. */
#include "add.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static nacre_code compact(void *user, nacre_op_call *c, const nacre_op_api *api) {
    (void)user;
    nacre_op_tensor x, y;
    nacre_code code = api->input(c, 0, &x);
    if (code != NACRE_OK) return code;
    if (x.type != NACRE_FLOAT || x.rank != 1) return api->fail(c, NACRE_TYPE, "Compact wants float[n]");
    double above = api->attr_float(c, "above", 0);
    int64_t n = 0;
    for (int64_t i = 0; i < x.dims[0]; i++) n += ((const float *)x.data)[i] > above;
    code = api->output(c, 0, NACRE_FLOAT, 1, &n, &y);
    if (code != NACRE_OK) return code;
    for (int64_t i = 0, k = 0; i < x.dims[0]; i++)
        if (((const float *)x.data)[i] > above) ((float *)y.data)[k++] = ((const float *)x.data)[i];
    return NACRE_OK;
}

/* Passes its input on and cancels the run that is told by the environment variable NACRE_TEST_CANCEL. */
static nacre_code cancel(void *user, nacre_op_call *c, const nacre_op_api *api) {
    (void)user;
    nacre_op_tensor x, y;
    nacre_code code = api->input(c, 0, &x);
    if (code == NACRE_OK) code = api->output(c, 0, x.type, x.rank, x.dims, &y);
    if (code != NACRE_OK) return code;
    int64_t n = 1;
    for (int d = 0; d < x.rank; d++) n *= x.dims[d];
    for (int64_t i = 0; i < n; i++) ((float *)y.data)[i] = ((const float *)x.data)[i];
    const char *target = getenv("NACRE_TEST_CANCEL");
    void *p = NULL, *stop = NULL; /* the run's options, and nacre_run_options_cancel in the test program */
    if (target && sscanf(target, "%p %p", &p, &stop) == 2 && p) (*(void (**)(nacre_run_options *, int)) & stop)(p, 1);
    return NACRE_OK;
}

nacre_code nacre_plugin_register(nacre_plugin_host *host) {
    nacre_code code = add_op(host, "test.plugin", "Compact", 1, compact);
    return code == NACRE_OK ? add_op(host, "test.plugin", "Cancel", 0, cancel) : code;
}
