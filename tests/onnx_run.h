/* tests/onnx_run.h: a message of onnx/testing.h and what loading it gives, for the tests of onnx/. */
#ifndef NC_TESTS_ONNX_RUN_H
#define NC_TESTS_ONNX_RUN_H

#include "ir/verify.h"
#include "onnx/load.h"
#include "onnx/testing.h"
#include "tests/check.h"

typedef struct run {
    nc_work w;
    nc_text t;
    nc_model *m;
    nc_code code;
} run;

static inline void load_run(run *r) {
    nc_work_init(&r->w);
    r->m = NULL;
    r->code = nc_onnx_load(&r->w, r->t.s, r->t.n, NULL, NULL, &test_registry, &r->m);
    if (r->m && nc_verify(&r->w, r->m) != NC_OK) CHECK_STR(r->w.diag.text, "");
}

static inline void end_run(run *r) {
    nc_model_destroy(r->m);
    nc_work_release(&r->w);
    nc_text_release(&r->t);
    *r = (run){0};
}

/* r was loaded. */
static inline void expect_failed(run *r, nc_code code, const char *text) {
    CHECK_INT(r->code, code);
    if (!strstr(r->w.diag.text, text)) CHECK_STR(r->w.diag.text, text);
    end_run(r);
}

#endif
