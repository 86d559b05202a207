/* tools/nacre/gradients.c: nacre gradients MODEL --of Y --by X -o OUT: the model with gradients as further outputs. */
#include "cli.h"

#include "nacre/nacre_graph.h"
#include "nacre/nacre_train.h"

static const char help[] =
    "usage: nacre gradients MODEL --of Y --by X -o OUT.onnx [options]\n"
    "\n"
    "Saves the model with an output grad:X for each X: the gradient of Y by it, all elements of Y summed. Y and X are\n"
    "inputs, initializers, outputs or any other values of the main graph; a gradient that must be zeros is told.\n"
    "\n"
    "  --of Y               what is differentiated; given several times: their sum\n"
    "  --by X               by what; may be given several times\n"
    "  -o FILE              where to save\n"
    "  --stop VALUE         no gradient passes through it; may be given several times\n"
    "  --cotangents         an input d:Y for each Y, the gradient that arrives there, in place of ones\n"
    "  --standard           take apart gradient ops of Nacre's own, so that other runtimes can run the model\n"
    "  --plugin FILE.so     load custom operators\n"
    "\n"
    "example: nacre gradients model.onnx --of loss --by weight --by bias -o grad.onnx && nacre inspect grad.onnx "
    "--nodes\n"
    "exit codes: 0 done, 1 the model or a file failed, 2 wrong usage\n";

static int differentiate(nacre_model *m, const nacre_gradients *what, const char *out) {
    nacre_error err;
    size_t before = nacre_graph_n_nodes(nacre_model_graph(m));
    if (nacre_model_gradients(m, what, &err) != NACRE_OK) return cli_error(&err);
    if (nacre_model_save(m, out, &err) != NACRE_OK) return cli_error(&err);
    printf("%zu nodes before, %zu with gradients; saved as %s\n", before, nacre_graph_n_nodes(nacre_model_graph(m)),
           out);
    return EXIT_DONE;
}

int cmd_gradients(int argc, char **argv) {
    common c = {0};
    list of = {.n = 0}, by = {.n = 0}, stop = {.n = 0};
    bool cotangents = false, standard = false;
    const char *out = NULL;
    const arg known[] = {{"", ARG_TEXT, &c.model, 0},
                         {"--of", ARG_LIST, &of, 0},
                         {"--by", ARG_LIST, &by, 0},
                         {"-o", ARG_TEXT, &out, 0},
                         {"--stop", ARG_LIST, &stop, 0},
                         {"--cotangents", ARG_FLAG, &cotangents, 0},
                         {"--standard", ARG_FLAG, &standard, 0},
                         {"--plugin", ARG_LIST, &c.plugins, 0},
                         {NULL, ARG_FLAG, NULL, 0}};
    int code = args_parse("gradients", help, argc, argv, known);
    if (code != EXIT_DONE) return code < 0 ? EXIT_DONE : code;
    if (!c.model) return cli_usage("gradients", "which model?");
    if (!of.n) return cli_usage("gradients", "what is to be differentiated? give --of Y");
    if (!by.n) return cli_usage("gradients", "by what? give --by X");
    if (!out) return cli_usage("gradients", "where to? give -o OUT.onnx");
    nacre_gradients what = {.size = sizeof what,
                            .ys = of.v,
                            .xs = by.v,
                            .stop = stop.v,
                            .n_ys = (size_t)of.n,
                            .n_xs = (size_t)by.n,
                            .n_stop = (size_t)stop.n,
                            .cotangents = cotangents,
                            .standard = standard};
    nacre_env *env;
    nacre_model *m;
    code = open_env("gradients", &c, &env);
    if (code != EXIT_DONE) return code;
    code = open_model("gradients", &c, env, &m);
    if (code == EXIT_DONE) {
        code = differentiate(m, &what, out);
        nacre_model_release(m);
    }
    nacre_env_release(env);
    return code;
}
