/* tests/fuzz/fuzz_text_one.h: what fuzzing does with one text: shared by the fuzz target and the replay test. */
#ifndef NC_TESTS_FUZZ_TEXT_ONE_H
#define NC_TESTS_FUZZ_TEXT_ONE_H

#include "ir/text.h"
#include "ir/verify.h"
#include "ops/binding.h"

#include <string.h>

/* NULL, or what went wrong: a text either fails with a message, or parses into a graph that keeps the promises of
 * graph.h and whose print parses into a graph that prints alike. Big constants print without their data. */
__attribute__((unused)) static const char *fuzz_text_one(const uint8_t *data, size_t size) {
    nc_work w;
    nc_model *m = NULL, *again = NULL;
    nc_text one = {0}, two = {0};
    const char *wrong = NULL;
    nc_work_init(&w);
    char *text = nc_arena_strn(&w.scratch, (const char *)data, size);
    nc_code code = text ? nc_graph_parse(&w, text, nc_ops_registry(), &m) : NC_E_MEMORY;
    if (code == NC_OK) {
        nc_code kept = nc_verify(&w, m); /* types that a text gives wrongly are told by inference, not by the parser */
        if (kept != NC_OK && kept != NC_E_TYPE) wrong = "the verifier refuses the graph";
        nc_graph_print_typed(&one, m);
        if (!wrong && one.s && !strstr(one.s, " bytes }")) {
            if (nc_graph_parse(&w, one.s, nc_ops_registry(), &again) != NC_OK) wrong = "its print does not parse";
            if (again) nc_graph_print_typed(&two, again);
            if (!wrong && two.s && strcmp(one.s, two.s) != 0) wrong = "its print parses into another graph";
        }
    } else if (w.diag.code == NC_OK) {
        wrong = "it failed without a message";
    }
    nc_model_destroy(m);
    nc_model_destroy(again);
    nc_text_release(&one);
    nc_text_release(&two);
    nc_work_release(&w);
    return wrong;
}

#endif
