/* tests/passes.h: graphs as text before and after passes, for the tests of passes. Types are written in the text:
 * there is no inference here. */
#ifndef NC_TESTS_PASSES_H
#define NC_TESTS_PASSES_H

#include "ir/text.h"
#include "ir/verify.h"
#include "ops/binding.h"
#include "tests/check.h"
#include "transform/transform.h"

enum { MAX_PASSES = 32 };

typedef struct bench {
    nc_work w;
    nc_model *m;
} bench;

static inline bool is_named(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *s = list; (s = strstr(s, name)) != NULL; s += n)
        if ((s == list || s[-1] == ' ') && (s[n] == 0 || s[n] == ' ')) return true;
    return false;
}

/* Outputs without a type get that of their node's first input. */
static inline void copy_types(nc_graph *g) {
    for (nc_node *n = g->first; n != NULL; n = n->next)
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] != NULL && n->out[k]->type == NULL && n->n_in > 0 && n->in[0] != NULL)
                n->out[k]->type = n->in[0]->type;
}

static inline bool bench_init(bench *b, const char *text) {
    b->m = NULL;
    nc_work_init(&b->w);
    nc_code code = nc_graph_parse(&b->w, text, nc_ops_registry(), &b->m);
    if (code != NC_OK) nc_test_failed(__FILE__, __LINE__, "%s: %s", text, b->w.diag.text);
    if (code == NC_OK) copy_types(b->m->main);
    return code == NC_OK;
}

static inline void bench_release(bench *b) {
    if (b->m != NULL) nc_model_destroy(b->m);
    nc_work_release(&b->w);
}

static inline nc_code run_passes(bench *b, const char *passes, int level) {
    const char *off[MAX_PASSES], *name;
    int n_off = 0;
    for (int k = 0; (name = nc_transform_name(k, NULL, NULL)) != NULL; k++)
        if (!is_named(passes, name)) off[n_off++] = name;
    nc_code code = nc_transform(&b->w, b->m, &(nc_transform_options){.level = level, .off = off, .n_off = n_off});
    return code == NC_OK ? nc_verify(&b->w, b->m) : code;
}

/* Runs the named passes only, for inference or as before a gradient; what the graph prints as must be `want` from its
 * outputs on. */
static inline void becomes(const char *file, int line, const char *text, const char *passes, bool infers,
                           const char *want) {
    bench b;
    if (bench_init(&b, text)) {
        b.m->infers_only = infers;
        CHECK_INT(run_passes(&b, passes, 3), NC_OK);
        nc_text out = {0};
        nc_graph_print(&out, b.m);
        const char *at = out.s != NULL ? strstr(out.s, "=>") : NULL;
        if (at == NULL || strcmp(at, want) != 0)
            nc_test_failed(file, line, "is:\n%s\nexpected:\n%s", at != NULL ? at : "", want);
        nc_text_release(&out);
    }
    bench_release(&b);
}

/* The same, but only how many nodes are left is checked. head: the opset and, where all graphs of a table share them,
 * the inputs and outputs. */
static inline void leaves(const char *file, int line, const char *head, const char *graph, const char *passes,
                          bool infers, int level, int n_nodes) {
    bench b;
    char text[800];
    snprintf(text, sizeof text, "%s %s", head, graph);
    if (bench_init(&b, text)) {
        b.m->infers_only = infers;
        CHECK_INT(run_passes(&b, passes, level), NC_OK);
        if (b.m->main->n_nodes != n_nodes)
            nc_test_failed(file, line, "%d nodes, expected %d: %s", b.m->main->n_nodes, n_nodes, text);
    }
    bench_release(&b);
}
#define LEAVES(head, graph, passes, level, n_nodes) \
    leaves(__FILE__, __LINE__, head, graph, passes, true, level, n_nodes)
#define LEAVES_TRAINING(head, graph, passes, level, n_nodes) \
    leaves(__FILE__, __LINE__, head, graph, passes, false, level, n_nodes)

#define BECOMES_AT(opset, graph, passes, want) \
    becomes(__FILE__, __LINE__, "<opset: \"\" " opset ", \"nacre\" 1> g " graph, passes, true, want)
#define BECOMES(graph, passes, want) BECOMES_AT("17", graph, passes, want)
/* As before a gradient. */
#define BECOMES_TRAINING(graph, passes, want) \
    becomes(__FILE__, __LINE__, "<opset: \"\" 17, \"nacre\" 1> g " graph, passes, false, want)

#endif
