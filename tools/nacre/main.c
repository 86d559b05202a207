/* tools/nacre/main.c: the command line: finds the command and hands over. */
#include "cli.h"

#include <stdarg.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *what;
} commands[] = {
    {"run", cmd_run, "run a model on given or random inputs and show its outputs; dump any stage; profile"},
    {"bench", cmd_bench, "time a model: median, p90, throughput, per operator; two sets of options side by side"},
    {"inspect", cmd_inspect, "what is in a model: inputs, outputs, operators, parameters, shapes, memory per tensor"},
    {"check", cmd_check, "is a model valid, and right: against test data, another level, or onnxruntime"},
    {"optimize", cmd_optimize, "save a model as the transformations leave it"},
    {"convert", cmd_convert, "save a model in another file format: ONNX, onnxruntime's .ort"},
    {"quantize", cmd_quantize,
     "weights and activations as codes of few bits: dynamic, static with data, weights alone"},
    {"gradients", cmd_gradients, "save a model with gradients of its values as further outputs"},
    {"artifacts", cmd_artifacts,
     "the files that training a model needs: training, eval and optimizer models, checkpoint"},
    {"train", cmd_train, "train a model on data in files: progress, validation, checkpoints, a curve, export"},
    {"plan", cmd_plan, "predict the memory of a run, and what lives when"},
    {"explain", cmd_explain, "which kernel serves a node, which refused and why, copies and fusions around it"},
    {"info", cmd_info, "this machine, its devices, and why one is not there"},
};

static void help(void) {
    printf("nacre %s: runs and trains ONNX models\n\nusage: nacre COMMAND [arguments]      nacre COMMAND --help "
           "teaches one\n\n",
           nacre_version());
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].what);
    printf("\nexit codes: 0 done; 1 the model, a file or the run failed; 2 wrong usage; 3 results differ (check);\n"
           "            130 cancelled with Ctrl-C\n");
}

int cli_error(const nacre_error *err) {
    fflush(stdout);
    fprintf(stderr, "nacre: ");
    if (err->op[0]) fprintf(stderr, "%s ", err->op);
    if (err->node[0]) fprintf(stderr, "'%s': ", err->node);
    fprintf(stderr, "%s [%s]\n", err->text, nacre_code_name(err->code));
    return err->code == NACRE_CANCELLED ? EXIT_CANCELLED : EXIT_FAILED;
}

int cli_usage(const char *command, const char *fmt, ...) {
    va_list ap;
    fflush(stdout);
    fprintf(stderr, "nacre %s: ", command);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\ntry: nacre %s --help\n", command);
    return EXIT_USAGE;
}

int cli_fail(const char *fmt, ...) {
    va_list ap;
    fflush(stdout);
    fprintf(stderr, "nacre: ");
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\n");
    return EXIT_FAILED;
}

nacre_code file_error(nacre_error *err, nacre_code code, const char *path, const char *text) {
    memset(err, 0, sizeof *err);
    err->code = code;
    snprintf(err->node, sizeof err->node, "%s", path);
    snprintf(err->op, sizeof err->op, "file");
    snprintf(err->text, sizeof err->text, "%s", text);
    return code;
}

int main(int argc, char **argv) {
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        help();
        return argc < 2 ? EXIT_USAGE : EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("nacre %s\n", nacre_version());
        return EXIT_DONE;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, argv[1]) == 0) return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "nacre: no command '%s'; nacre --help lists them\n", argv[1]);
    return EXIT_USAGE;
}
