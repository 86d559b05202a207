/* ops/cases_infer_test.c: the checks of ops/cases_testing.h that only infer: the type a graph gives, or why it is
 * refused. */
#include "ops/cases_testing.h"
#include "tests/graph_testing.h"

void nc_check_infers(const char *file, int line, const char *graph, const char *value, const char *want) {
    nc_work w;
    nc_text got = {0};
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(), graph);
    const nc_value *v = m == NULL ? NULL : value != NULL ? nc_graph_find(m->main, value) : m->main->outputs.v[0];
    if (m == NULL) nc_text_add(&got, w.diag.text);
    if (v != NULL && v->type != NULL) nc_type_print(&got, v->type);
    if (got.s == NULL || strcmp(got.s, want) != 0)
        nc_test_failed(file, line, "%s\ngives:    %s\nexpected: %s", graph, got.s != NULL ? got.s : "", want);
    nc_text_release(&got);
    nc_model_destroy(m);
    nc_work_release(&w);
}

void nc_check_refused(const char *file, int line, const char *graph, nc_code code, const char *part) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(), graph);
    if (m != NULL)
        nc_test_failed(file, line, "not refused: %s", graph);
    else if (w.diag.code != code || strstr(w.diag.text, part) == NULL)
        nc_test_failed(file, line, "%s\ngives %s: %s\nexpected %s: %s", graph, nc_code_name(w.diag.code), w.diag.text,
                       nc_code_name(code), part);
    nc_model_destroy(m);
    nc_work_release(&w);
}

/* Both kinds of answer, and a value by its name. */
TEST(cases_infer_reads_types_and_refusals) {
    CHECK_INFERS("<opset: \"\" 17> g (float[n] x) => (y) { y = Neg(x) }", "float[n]");
    CHECK_INFERS("<opset: \"\" 17> g (float[2] x, float[3] z) => (y) { y = Add(x, z) }",
                 "input 1 has a dim of 3 where 2 or 1 is expected");
    CHECK_INFERS_VALUE("<opset: \"\" 17> g (float[n] x) => (y) { s = Shape(x) y = Neg(x) }", "s", "int64[1]");
}
