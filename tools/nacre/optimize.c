/* tools/nacre/optimize.c: nacre optimize MODEL -o OUT: the model as the transformations leave it, saved as ONNX. */
#include "cli.h"

#include "nacre/nacre_graph.h"

static const char help[] =
    "usage: nacre optimize MODEL -o OUT.onnx [options]\n"
    "\n"
    "Infers types and shapes, rewrites the graph without changing what it means, and saves it as ONNX. What only this\n"
    "machine understands (layouts, packed weights, fused kernels) is left to the session and not saved.\n"
    "\n"
    "  -o FILE              where to save\n"
    "  --level LEVEL        off, basic (what changes no bit), extended, all (default all)\n"
    "  --disable PASS       leave a pass out; may be given several times\n"
    "  --external-data NAME the data of large constants go into this file beside FILE; without it that happens, as\n"
    "                       FILE.data, only where FILE would have more than 2 GiB\n"
    "  --external-bytes N   how large such constants are at least (default 1024)\n"
    "  --plugin FILE.so     load custom operators\n"
    "\n"
    "example: nacre optimize model.onnx -o smaller.onnx && nacre check smaller.onnx --against ort\n"
    "exit codes: 0 done, 1 the model or a file failed, 2 wrong usage\n";

static void print_passes(void) {
    const char *name, *level, *doc;
    printf("\npasses, in the order they run, with the lowest level that runs them:\n");
    for (size_t i = 0; (name = nacre_pass_name(i, &level, &doc)) != NULL; i++)
        printf("  %-22s %-9s %s\n", name, level, doc);
}

typedef struct place {
    const char *out, *data;
    int data_bytes;
} place;

static int optimize(nacre_model *m, const place *p, const char *level, const list *off) {
    nacre_error err;
    size_t before = nacre_graph_n_nodes(nacre_model_graph(m));
    if (nacre_model_optimize(m, level, off->v, (size_t)off->n, &err) != NACRE_OK) return cli_error(&err);
    nacre_code code = p->data ? nacre_model_save_external(m, p->out, p->data, (size_t)p->data_bytes, &err)
                              : nacre_model_save(m, p->out, &err);
    if (code != NACRE_OK) return cli_error(&err);
    printf("%zu nodes before, %zu after; saved as %s\n", before, nacre_graph_n_nodes(nacre_model_graph(m)), p->out);
    return EXIT_DONE;
}

int cmd_optimize(int argc, char **argv) {
    common c = {0};
    place p = {.data_bytes = 1024};
    const char *level = "all";
    list off = {.n = 0};
    const arg known[] = {{"", ARG_TEXT, &c.model, 0},
                         {"-o", ARG_TEXT, &p.out, 0},
                         {"--level", ARG_TEXT, &level, 0},
                         {"--disable", ARG_LIST, &off, 0},
                         {"--external-data", ARG_TEXT, &p.data, 0},
                         {"--external-bytes", ARG_INT, &p.data_bytes, 1},
                         {"--plugin", ARG_LIST, &c.plugins, 0},
                         {NULL, ARG_FLAG, NULL, 0}};
    int code = args_parse("optimize", help, argc, argv, known);
    if (code < 0) print_passes();
    if (code != EXIT_DONE) return code < 0 ? EXIT_DONE : code;
    if (!c.model) return cli_usage("optimize", "which model?");
    if (!p.out) return cli_usage("optimize", "where to? give -o OUT.onnx");
    nacre_env *env;
    nacre_model *m;
    code = open_env("optimize", &c, &env);
    if (code != EXIT_DONE) return code;
    code = open_model("optimize", &c, env, &m);
    if (code == EXIT_DONE) {
        code = optimize(m, &p, level, &off);
        nacre_model_release(m);
    }
    nacre_env_release(env);
    return code;
}
