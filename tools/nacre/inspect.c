/* tools/nacre/inspect.c: nacre inspect MODEL: what is in a model, as text or JSON. Loads and infers, runs nothing. */
#include "cli.h"

#include "nacre/nacre_graph.h"
#include "nacre/nacre_train.h"

#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: nacre inspect MODEL [options]\n"
    "\n"
    "Prints inputs, outputs, how often each operator occurs, parameters, and the size of every "
    "tensor, after types and\n"
    "shapes were inferred. Nothing is run.\n"
    "\n"
    "  --nodes              every node with its inputs, outputs and their shapes\n"
    "  --tensors            memory per tensor, largest first\n"
    "  --json               all of it as JSON\n"
    "  --grad Y             with the gradient of Y as further outputs grad:X; its nodes come after the others\n"
    "  --by X               --grad: by what; several times (default: all floating-point "
    "initializers)\n"
    "  --plugin FILE.so     load custom operators\n"
    "\n"
    "example: nacre inspect resnet.onnx\n"
    "         nacre inspect resnet.onnx --json | python3 -m json.tool\n"
    "         nacre inspect net.onnx --grad loss --nodes\n"
    "exit codes: 0 done, 1 the model failed, 2 wrong usage\n";

typedef struct op_count {
    char op[96];
    int n;
} op_count;

typedef struct counts {
    op_count *v;
    int n, cap;
    int64_t n_nodes, n_params, bytes_params, n_constants;
} counts;

static void full_op(const nacre_node *n, char *text, size_t bytes) {
    const char *domain = nacre_node_domain(n);
    snprintf(text, bytes, "%s%s%s", domain, domain[0] ? "." : "", nacre_node_op(n));
}

static bool count_op(counts *c, const nacre_node *n) {
    char op[96];
    full_op(n, op, sizeof op);
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->v[i].op, op) == 0) {
            c->v[i].n++;
            return true;
        }
    if (c->n == c->cap) {
        int cap = c->cap ? c->cap * 2 : 64;
        op_count *v = realloc(c->v, (size_t)cap * sizeof *v);
        if (!v) return false;
        c->v = v, c->cap = cap;
    }
    memcpy(c->v[c->n].op, op, sizeof op);
    c->v[c->n++].n = 1;
    return true;
}

/* Bodies of control flow count too. */
static bool count_graph(counts *c, const nacre_graph *g) {
    for (size_t i = 0; i < nacre_graph_n_constants(g); i++) {
        const nacre_graph_value *v = nacre_graph_constant(g, i);
        int64_t n = nacre_graph_value_count(v), bytes = nacre_graph_value_bytes(v);
        c->n_constants++;
        if (n > 0) c->n_params += n;
        if (bytes > 0) c->bytes_params += bytes;
    }
    for (const nacre_node *n = nacre_graph_first(g); n; n = nacre_node_next(n)) {
        c->n_nodes++;
        if (!count_op(c, n)) return false;
        for (size_t k = 0; k < nacre_node_n_graphs(n); k++)
            if (!count_graph(c, nacre_node_graph(n, k))) return false;
    }
    return true;
}

static int more_first(const void *a, const void *b) {
    const op_count *x = a, *y = b;
    if (x->n != y->n) return y->n - x->n;
    return strcmp(x->op, y->op);
}

/* ---- text ---- */

static void print_values(const char *what, const nacre_graph *g, size_t n,
                         const nacre_graph_value *(*at)(const nacre_graph *, size_t), bool outputs) {
    table t = {0};
    table_row(&t, 2, what, "type");
    for (size_t i = 0; i < n; i++) {
        char type[256];
        const nacre_graph_value *v = at(g, i);
        nacre_graph_value_type(v, type, sizeof type);
        table_row(&t, 2, outputs ? nacre_graph_output_name(g, i) : nacre_graph_value_name(v), type);
    }
    table_print(&t);
    table_release(&t);
    printf("\n");
}

static void print_node(const nacre_node *n, int indent) {
    char op[96], type[256];
    full_op(n, op, sizeof op);
    printf("%*s%s '%s'\n", indent, "", op, nacre_node_name(n));
    for (size_t i = 0; i < nacre_node_n_inputs(n) + nacre_node_n_outputs(n); i++) {
        bool in = i < nacre_node_n_inputs(n);
        const nacre_graph_value *v = in ? nacre_node_input(n, i) : nacre_node_output(n, i - nacre_node_n_inputs(n));
        if (!v) continue;
        nacre_graph_value_type(v, type, sizeof type);
        printf("%*s%s %-24s %s%s\n", indent + 2, "", in ? "in " : "out", nacre_graph_value_name(v), type,
               nacre_graph_value_is_constant(v) ? " constant" : "");
    }
    for (size_t k = 0; k < nacre_node_n_graphs(n); k++) {
        printf("%*sbody %s\n", indent + 2, "", nacre_graph_name(nacre_node_graph(n, k)));
        for (const nacre_node *b = nacre_graph_first(nacre_node_graph(n, k)); b; b = nacre_node_next(b))
            print_node(b, indent + 4);
    }
}

typedef struct tensor {
    const nacre_graph_value *v;
    const char *by;
    int64_t bytes;
} tensor;

static int larger_first(const void *a, const void *b) {
    const tensor *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return strcmp(nacre_graph_value_name(x->v), nacre_graph_value_name(y->v));
}

/* Constants and results of the main graph; those of unknown size come last. *n: how many. free. */
static tensor *collect_tensors(const nacre_graph *g, size_t *n) {
    size_t most = nacre_graph_n_constants(g) + 1;
    for (const nacre_node *k = nacre_graph_first(g); k; k = nacre_node_next(k)) most += nacre_node_n_outputs(k);
    tensor *v = calloc(most, sizeof *v);
    *n = 0;
    for (size_t i = 0; v && i < nacre_graph_n_constants(g); i++)
        v[(*n)++] = (tensor){nacre_graph_constant(g, i), "constant", 0};
    for (const nacre_node *k = nacre_graph_first(g); v && k; k = nacre_node_next(k))
        for (size_t i = 0; i < nacre_node_n_outputs(k); i++)
            if (nacre_node_output(k, i)) v[(*n)++] = (tensor){nacre_node_output(k, i), nacre_node_op(k), 0};
    for (size_t i = 0; v && i < *n; i++) v[i].bytes = nacre_graph_value_bytes(v[i].v);
    if (v && *n) qsort(v, *n, sizeof *v, larger_first);
    return v;
}

static void print_tensors(const nacre_graph *g) {
    size_t n;
    tensor *v = collect_tensors(g, &n);
    table t = {0};
    table_row(&t, 4, "tensor", "type", "made by", ">bytes");
    for (size_t i = 0; v && i < n; i++) {
        char type[256], bytes[32] = "by its dims";
        nacre_graph_value_type(v[i].v, type, sizeof type);
        if (v[i].bytes >= 0) bytes_text((double)v[i].bytes, bytes, sizeof bytes);
        table_row(&t, 4, nacre_graph_value_name(v[i].v), type, v[i].by, bytes);
    }
    table_print(&t);
    table_release(&t);
    free(v);
}

static void print_text(const nacre_model *m, const counts *c, bool nodes, bool tensors) {
    const nacre_graph *g = nacre_model_graph(m);
    char bytes[32];
    printf("graph '%s'", nacre_graph_name(g));
    if (nacre_model_producer(m)[0]) printf(", made by %s", nacre_model_producer(m));
    if (nacre_model_ir_version(m)) printf(", IR version %lld", (long long)nacre_model_ir_version(m));
    for (size_t i = 0; i < nacre_model_n_opsets(m); i++) {
        int64_t version;
        const char *domain = nacre_model_opset(m, i, &version);
        printf(", %s %lld", domain[0] ? domain : "opset", (long long)version);
    }
    bytes_text((double)c->bytes_params, bytes, sizeof bytes);
    printf("\n%lld nodes, %lld constants with %lld elements, %s\n\n", (long long)c->n_nodes, (long long)c->n_constants,
           (long long)c->n_params, bytes);
    print_values("input", g, nacre_graph_n_inputs(g), nacre_graph_input, false);
    print_values("output", g, nacre_graph_n_outputs(g), nacre_graph_output, true);
    table t = {0};
    table_row(&t, 2, "operator", ">nodes");
    for (int i = 0; i < c->n; i++) {
        char n[32];
        snprintf(n, sizeof n, "%d", c->v[i].n);
        table_row(&t, 2, c->v[i].op, n);
    }
    table_print(&t);
    table_release(&t);
    if (nodes) printf("\n");
    for (const nacre_node *n = nodes ? nacre_graph_first(g) : NULL; n; n = nacre_node_next(n)) print_node(n, 0);
    if (tensors) printf("\n");
    if (tensors) print_tensors(g);
}

/* ---- JSON ---- */

static void json_value(const nacre_graph_value *v, const char *name, bool first) {
    char type[256];
    nacre_graph_value_type(v, type, sizeof type);
    printf("%s\n    {\"name\": ", first ? "" : ",");
    json_text(stdout, name);
    printf(", \"type\": ");
    json_text(stdout, type);
    if (nacre_graph_value_bytes(v) >= 0)
        printf(", \"bytes\": %lld", (long long)nacre_graph_value_bytes(v));
    else
        printf(", \"bytes\": null");
    printf(", \"constant\": %s}", nacre_graph_value_is_constant(v) ? "true" : "false");
}

static void json_names(const nacre_node *n, size_t count, const nacre_graph_value *(*at)(const nacre_node *, size_t)) {
    printf("[");
    for (size_t i = 0; i < count; i++) {
        if (i) printf(", ");
        if (at(n, i))
            json_text(stdout, nacre_graph_value_name(at(n, i)));
        else
            printf("null");
    }
    printf("]");
}

static void json_nodes(const nacre_graph *g) {
    printf("[");
    for (const nacre_node *n = nacre_graph_first(g); n; n = nacre_node_next(n)) {
        printf("%s\n    {\"name\": ", n == nacre_graph_first(g) ? "" : ",");
        json_text(stdout, nacre_node_name(n));
        printf(", \"op\": ");
        json_text(stdout, nacre_node_op(n));
        printf(", \"domain\": ");
        json_text(stdout, nacre_node_domain(n));
        printf(", \"since\": %d, \"inputs\": ", nacre_node_since(n));
        json_names(n, nacre_node_n_inputs(n), nacre_node_input);
        printf(", \"outputs\": ");
        json_names(n, nacre_node_n_outputs(n), nacre_node_output);
        printf(", \"graphs\": [");
        for (size_t k = 0; k < nacre_node_n_graphs(n); k++) {
            if (k) printf(", ");
            json_nodes(nacre_node_graph(n, k));
        }
        printf("]}");
    }
    printf("\n  ]");
}

static void print_json(const nacre_model *m, const counts *c) {
    const nacre_graph *g = nacre_model_graph(m);
    size_t n;
    printf("{\n  \"graph\": ");
    json_text(stdout, nacre_graph_name(g));
    printf(",\n  \"producer\": ");
    json_text(stdout, nacre_model_producer(m));
    printf(",\n  \"ir_version\": %lld,\n  \"opsets\": {", (long long)nacre_model_ir_version(m));
    for (size_t i = 0; i < nacre_model_n_opsets(m); i++) {
        int64_t version;
        const char *domain = nacre_model_opset(m, i, &version);
        if (i) printf(", ");
        json_text(stdout, domain);
        printf(": %lld", (long long)version);
    }
    printf("},\n  \"n_nodes\": %lld, \"n_constants\": %lld, \"n_parameters\": %lld, \"bytes_parameters\": %lld,\n",
           (long long)c->n_nodes, (long long)c->n_constants, (long long)c->n_params, (long long)c->bytes_params);
    printf("  \"inputs\": [");
    for (size_t i = 0; i < nacre_graph_n_inputs(g); i++)
        json_value(nacre_graph_input(g, i), nacre_graph_value_name(nacre_graph_input(g, i)), i == 0);
    printf("],\n  \"outputs\": [");
    for (size_t i = 0; i < nacre_graph_n_outputs(g); i++)
        json_value(nacre_graph_output(g, i), nacre_graph_output_name(g, i), i == 0);
    printf("],\n  \"operators\": {");
    for (int i = 0; i < c->n; i++) {
        if (i) printf(", ");
        json_text(stdout, c->v[i].op);
        printf(": %d", c->v[i].n);
    }
    printf("},\n  \"nodes\": ");
    json_nodes(g);
    printf(",\n  \"tensors\": [");
    tensor *v = collect_tensors(g, &n);
    for (size_t i = 0; v && i < n; i++) json_value(v[i].v, nacre_graph_value_name(v[i].v), i == 0);
    free(v);
    printf("]\n}\n");
}

/* ---- gradients ---- */

/* The names of the floating-point constants of the main graph, *n of them. free. */
static const char **float_constants(const nacre_graph *g, size_t *n) {
    static const char *const types[] = {"float[", "double[", "float16[", "bfloat16["};
    const char **names = calloc(nacre_graph_n_constants(g) + 1, sizeof *names);
    *n = 0;
    for (size_t i = 0; names && i < nacre_graph_n_constants(g); i++) {
        const nacre_graph_value *v = nacre_graph_constant(g, i);
        char type[64];
        nacre_graph_value_type(v, type, sizeof type);
        for (size_t k = 0; k < sizeof types / sizeof *types; k++)
            if (strncmp(type, types[k], strlen(types[k])) == 0) names[(*n)++] = nacre_graph_value_name(v);
    }
    return names;
}

static int differentiate(nacre_model *m, const char *y, const list *by) {
    nacre_error err;
    size_t n = 0;
    const char **all = by->n ? NULL : float_constants(nacre_model_graph(m), &n);
    if (!by->n && !all) return cli_fail("out of memory");
    nacre_gradients what = {
        .size = sizeof what, .ys = &y, .n_ys = 1, .xs = by->n ? by->v : all, .n_xs = by->n ? (size_t)by->n : n};
    int code = !what.n_xs ? cli_fail("the model has no floating-point initializer: say by what with --by X")
               : nacre_model_gradients(m, &what, &err) != NACRE_OK ? cli_error(&err)
                                                                   : EXIT_DONE;
    free((void *)all);
    return code;
}

int cmd_inspect(int argc, char **argv) {
    common c = {0};
    bool nodes = false, tensors = false, json = false;
    const char *y = NULL;
    list by = {.n = 0};
    const arg known[] = {{"", ARG_TEXT, &c.model, 0},           {"--nodes", ARG_FLAG, &nodes, 0},
                         {"--tensors", ARG_FLAG, &tensors, 0},  {"--json", ARG_FLAG, &json, 0},
                         {"--grad", ARG_TEXT, &y, 0},           {"--by", ARG_LIST, &by, 0},
                         {"--plugin", ARG_LIST, &c.plugins, 0}, {NULL, ARG_FLAG, NULL, 0}};
    int code = args_parse("inspect", help, argc, argv, known);
    if (code != EXIT_DONE) return code < 0 ? EXIT_DONE : code;
    if (by.n && !y) return cli_usage("inspect", "--by goes with --grad Y");
    nacre_env *env;
    nacre_model *m;
    nacre_error err;
    code = open_env("inspect", &c, &env);
    if (code != EXIT_DONE) return code;
    code = open_model("inspect", &c, env, &m);
    if (code == EXIT_DONE) {
        counts all = {0};
        if (nacre_model_infer(m, &err) != NACRE_OK)
            code = cli_error(&err);
        else if (y)
            code = differentiate(m, y, &by);
        if (code == EXIT_DONE && !count_graph(&all, nacre_model_graph(m))) code = cli_fail("out of memory");
        if (all.n) qsort(all.v, (size_t)all.n, sizeof *all.v, more_first);
        if (code == EXIT_DONE && json) print_json(m, &all);
        if (code == EXIT_DONE && !json) print_text(m, &all, nodes, tensors);
        free(all.v);
        nacre_model_release(m);
    }
    nacre_env_release(env);
    return code;
}
