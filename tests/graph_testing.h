/* tests/graph_testing.h: text to an inferred model, and values as one expression. */
#ifndef NC_TESTS_GRAPH_TESTING_H
#define NC_TESTS_GRAPH_TESTING_H

#include "infer/infer.h"
#include "ir/text.h"
#include "ops/binding.h"
#include "ops/build.h"

#include "tests/check.h"

/* NULL when the text does not parse or infer; w->diag says why. */
static inline nc_model *test_model(nc_work *w, const nc_registry *registry, const char *text) {
    nc_model *m = NULL;
    if (nc_graph_parse(w, text, registry, &m) != NC_OK) return NULL;
    if (nc_infer_model(w, m) == NC_OK) return m;
    nc_model_destroy(m);
    return NULL;
}

/* Mul(dy, Sub(1, Mul(y, y))): node outputs open up down to inputs, forward values and constants. */
static inline void test_print_expr(nc_text *out, const nc_value *v) {
    if (v == NULL) {
        nc_text_add(out, "none");
    } else if (v->origin == NC_FROM_NODE && v->def->stage != NC_STAGE_FORWARD) {
        const nc_node *n = v->def;
        nc_text_addf(out, "%s%s%s(", n->card->domain ? n->card->domain : "", n->card->domain ? "." : "", n->card->name);
        for (int i = 0; i < n->n_in; i++) {
            if (i > 0) nc_text_add(out, ", ");
            test_print_expr(out, n->in[i]);
        }
        for (int i = 0; i < n->n_attrs; i++) {
            if (n->attrs[i].kind == NC_A_FLOAT) nc_text_addf(out, ", %s=%g", n->attrs[i].name, (double)n->attrs[i].f);
            if (n->attrs[i].kind == NC_A_INT)
                nc_text_addf(out, ", %s=%lld", n->attrs[i].name, (long long)n->attrs[i].i);
        }
        nc_text_add(out, ")");
    } else if (v->origin == NC_FROM_CONST && v->lit != NULL && v->lit->dtype == NC_FLOAT && v->lit->n == 1) {
        float f;
        memcpy(&f, v->lit->data, sizeof f);
        nc_text_addf(out, "%g", (double)f);
    } else if (v->origin == NC_FROM_CONST && v->lit != NULL && v->lit->dtype == NC_INT64) {
        nc_text_add(out, "[");
        for (int64_t i = 0; i < v->lit->n; i++) {
            int64_t k;
            memcpy(&k, (const char *)v->lit->data + i * 8, sizeof k);
            nc_text_addf(out, "%s%lld", i > 0 ? " " : "", (long long)k);
        }
        nc_text_add(out, "]");
    } else {
        nc_text_add(out, v->name);
    }
}

#define CHECK_EXPR(value, want)         \
    do {                                \
        nc_text text_ = {0};            \
        test_print_expr(&text_, value); \
        CHECK_STR(text_.s, want);       \
        nc_text_release(&text_);        \
    } while (0)

#define CHECK_TYPE(type, want)                           \
    do {                                                 \
        nc_text text_ = {0};                             \
        if ((type) != NULL) nc_type_print(&text_, type); \
        CHECK_STR(text_.s, want);                        \
        nc_text_release(&text_);                         \
    } while (0)

#define CHECK_DIAG(w, part)                                                                                    \
    do {                                                                                                       \
        if (strstr((w)->diag.text, part) == NULL)                                                              \
            nc_test_failed(__FILE__, __LINE__, "diagnostic is: %s\nexpected in it: %s", (w)->diag.text, part); \
    } while (0)

#endif
