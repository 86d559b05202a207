/* tests/lowering.h: graphs as text before and after steps of lowering, for the tests beside plan/.
 *
 * A graph prints as its nodes: `z = nacre.Chain{Add Exp}(x, y) @device; ...`. Bodies show their ops, or with control
 * flow their nodes; what runs on the host has no mark. Small constants show their numbers. */
#ifndef NC_TESTS_LOWERING_H
#define NC_TESTS_LOWERING_H

#include "ir/verify.h"
#include "plan/plan.h"
#include "tests/graph_testing.h"

/* Ops alone: `Exp@device If{Neg}{Shape}`. */
static inline void print_ops(nc_text *out, const nc_graph *g) {
    for (const nc_node *n = g->first; n != NULL; n = n->next) {
        nc_text_addf(out, "%s%s%s", n != g->first ? " " : "", n->card->name, n->place ? "@device" : "");
        for (int i = 0; i < n->n_subs; i++) {
            nc_text_add(out, "{");
            print_ops(out, n->subs[i].graph);
            nc_text_add(out, "}");
        }
    }
}

static inline void print_nodes(nc_text *out, const nc_graph *g);

static inline void print_operand(nc_text *out, const nc_value *v) {
    if (v == NULL) {
        nc_text_add(out, "none");
    } else if (v->origin == NC_FROM_CONST && v->lit != NULL && v->lit->n <= 4 && v->lit->dtype == NC_INT64) {
        for (int64_t i = 0, k; i < v->lit->n; i++) {
            memcpy(&k, (const char *)v->lit->data + i * 8, sizeof k);
            nc_text_addf(out, "%s%lld", i > 0 ? " " : "", (long long)k);
        }
    } else if (v->origin == NC_FROM_CONST && v->lit != NULL && v->lit->n == 1 && v->lit->dtype == NC_FLOAT) {
        float f;
        memcpy(&f, v->lit->data, sizeof f);
        nc_text_addf(out, "%g", (double)f);
    } else {
        nc_text_add(out, v->name);
    }
}

static inline void print_body(nc_text *out, const nc_node *n, const nc_graph *body) {
    nc_text_add(out, "{");
    if (n->card->traits & NC_CONTROL)
        print_nodes(out, body);
    else
        print_ops(out, body);
    nc_text_add(out, "}");
}

static inline void print_node(nc_text *out, const nc_node *n) {
    for (int i = 0; i < n->n_out; i++) {
        if (i > 0) nc_text_add(out, ", ");
        print_operand(out, n->out[i]);
    }
    nc_text_addf(out, " = %s%s%s", n->card->domain ? n->card->domain : "", n->card->domain ? "." : "", n->card->name);
    for (int s = 0; s < n->n_subs; s++) print_body(out, n, n->subs[s].graph);
    nc_text_add(out, "(");
    for (int i = 0; i < n->n_in; i++) {
        if (i > 0) nc_text_add(out, ", ");
        print_operand(out, n->in[i]);
    }
    nc_text_addf(out, ")%s", n->place ? " @device" : "");
}

static inline void print_nodes(nc_text *out, const nc_graph *g) {
    for (const nc_node *n = g->first; n != NULL; n = n->next) {
        if (n != g->first) nc_text_add(out, "; ");
        print_node(out, n);
    }
}

/* A device with CUDA's kernels, for planning alone: what is compiled is no kernel. */
static inline nc_code compile_nothing(nc_device *d, const char *source, const char *entry, nc_function **out,
                                      nc_diag *diag) {
    (void)d, (void)source, (void)entry, (void)diag;
    *out = NULL;
    return NC_OK;
}
static const nc_device_table cuda_planning_table = {.name = "planned", .kernels = "cuda", .compile = compile_nothing};
static nc_device cuda_planning __attribute__((unused)) = {.table = &cuda_planning_table};

typedef nc_code (*lowering)(nc_work *w, nc_model *m, const nc_plan_options *o);

/* The graph after the step must print as `want`. A step that must fail gives a part of its diagnostic instead. */
static inline void lowers(const char *file, int line, const char *text, lowering step, nc_device *device,
                          void (*print)(nc_text *out, const nc_graph *g), const char *want, const char *diagnostic) {
    const nc_plan_options o = {.device = device};
    nc_text out = {0};
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(), text);
    nc_code code = m != NULL ? step(&w, m, &o) : NC_E_FAIL;
    if (code == NC_OK) code = nc_verify(&w, m);
    if (code == NC_OK) print(&out, m->main);
    if ((code == NC_OK) != (diagnostic == NULL) || (diagnostic != NULL && strstr(w.diag.text, diagnostic) == NULL))
        nc_test_failed(file, line, "%s: %s", text, w.diag.text);
    else if (code == NC_OK && strcmp(out.s != NULL ? out.s : "", want) != 0)
        nc_test_failed(file, line, "is:\n%s\nexpected:\n%s", out.s != NULL ? out.s : "", want);
    nc_text_release(&out);
    if (m != NULL) nc_model_destroy(m);
    nc_work_release(&w);
}

#define LOWERING_HEAD "<opset: \"\" 23, \"nacre\" 1, \"ai.onnx.ml\" 3> g "
#define LOWERS_ON(device, graph, step, want) \
    lowers(__FILE__, __LINE__, LOWERING_HEAD graph, step, device, print_nodes, want, NULL)
#define LOWERS(graph, step, want) LOWERS_ON(nc_device_cpu(), graph, step, want)
#define OPS_ON(device, graph, step, want) \
    lowers(__FILE__, __LINE__, LOWERING_HEAD graph, step, device, print_ops, want, NULL)
#define REFUSES(graph, step, part) \
    lowers(__FILE__, __LINE__, LOWERING_HEAD graph, step, nc_device_cpu(), print_nodes, "", part)

#endif
