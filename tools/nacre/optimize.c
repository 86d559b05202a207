/* tools/nacre/optimize.c: nacre optimize MODEL -o OUT: the model as the transformations leave it, saved as ONNX. */
#include "cli.h"

#include "nacre/nacre_graph.h"

#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: nacre optimize MODEL -o OUT.onnx [options]\n"
    "\n"
    "Infers types and shapes, rewrites the graph without changing what it means, and saves it as ONNX. What only this\n"
    "machine understands (layouts, packed weights, fused kernels) is left to the session and not saved.\n"
    "\n"
    "  -o FILE              where to save\n"
    "  --level LEVEL        off, basic (what changes no bit), extended, all (default all)\n"
    "  --disable PASS       leave a pass out; may be given several times\n"
    "  --patterns FILE      rules of your own, see docs/patterns.md; may be given several times\n"
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

static int add_patterns(nacre_options *o, const char *path) {
    nacre_error err;
    unsigned char *bytes;
    size_t n;
    nacre_code code = bytes_read(path, &bytes, &n, &err);
    if (code != NACRE_OK) return cli_error(&err);
    char *text = calloc(n + 1, 1);
    if (text) memcpy(text, bytes, n);
    code = text ? nacre_options_set(o, "patterns", text, &err) : file_error(&err, NACRE_MEMORY, path, "out of memory");
    free(text);
    free(bytes);
    return code == NACRE_OK ? EXIT_DONE : cli_fail("%s: %s", path, err.text);
}

/* What the command line says, as options. */
static int set_options(nacre_options *o, const char *level, const list *off, const list *patterns) {
    nacre_error err;
    nacre_code code = nacre_options_set(o, "level", level, &err);
    for (int i = 0; code == NACRE_OK && i < off->n; i++) code = nacre_options_set(o, "disable", off->v[i], &err);
    if (code != NACRE_OK) return cli_error(&err);
    int done = EXIT_DONE;
    for (int i = 0; done == EXIT_DONE && i < patterns->n; i++) done = add_patterns(o, patterns->v[i]);
    return done;
}

static int optimize(nacre_model *m, const place *p, const nacre_options *o) {
    nacre_error err;
    size_t before = nacre_graph_n_nodes(nacre_model_graph(m));
    if (nacre_model_optimize_as(m, o, &err) != NACRE_OK) return cli_error(&err);
    nacre_code code = p->data ? nacre_model_save_external(m, p->out, p->data, (size_t)p->data_bytes, &err)
                              : nacre_model_save(m, p->out, &err);
    if (code != NACRE_OK) return cli_error(&err);
    printf("%zu nodes before, %zu after; saved as %s\n", before, nacre_graph_n_nodes(nacre_model_graph(m)), p->out);
    return EXIT_DONE;
}

static int run_command(const common *c, const place *p, const nacre_options *o) {
    nacre_env *env;
    nacre_model *m;
    int code = open_env("optimize", c, &env);
    if (code != EXIT_DONE) return code;
    code = open_model("optimize", c, env, &m);
    if (code == EXIT_DONE) {
        code = optimize(m, p, o);
        nacre_model_release(m);
    }
    nacre_env_release(env);
    return code;
}

int cmd_optimize(int argc, char **argv) {
    common c = {0};
    place p = {.data_bytes = 1024};
    const char *level = "all";
    list off = {.n = 0}, patterns = {.n = 0};
    nacre_options *o;
    nacre_error err;
    const arg known[] = {{"", ARG_TEXT, &c.model, 0},
                         {"-o", ARG_TEXT, &p.out, 0},
                         {"--level", ARG_TEXT, &level, 0},
                         {"--disable", ARG_LIST, &off, 0},
                         {"--patterns", ARG_LIST, &patterns, 0},
                         {"--external-data", ARG_TEXT, &p.data, 0},
                         {"--external-bytes", ARG_INT, &p.data_bytes, 1},
                         {"--plugin", ARG_LIST, &c.plugins, 0},
                         {NULL, ARG_FLAG, NULL, 0}};
    int code = args_parse("optimize", help, argc, argv, known);
    if (code < 0) print_passes();
    if (code != EXIT_DONE) return code < 0 ? EXIT_DONE : code;
    if (!c.model) return cli_usage("optimize", "which model?");
    if (!p.out) return cli_usage("optimize", "where to? give -o OUT.onnx");
    if (nacre_options_create(&o, &err) != NACRE_OK) return cli_error(&err);
    code = set_options(o, level, &off, &patterns);
    if (code == EXIT_DONE) code = run_command(&c, &p, o);
    nacre_options_release(o);
    return code;
}
