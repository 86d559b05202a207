/* tools/nacre/convert.c: nacre convert MODEL -o OUT: the same model in another file format, told by OUT's ending. */
#include "cli.h"

#include "nacre/nacre_graph.h"

static const char help[] =
    "usage: nacre convert MODEL -o OUT [options]\n"
    "\n"
    "Saves the model, with its types and shapes inferred and nothing else changed, in the format that OUT's name "
    "says:\n"
    "OUT.ort is onnxruntime's own (a flatbuffer: read by its full builds, at most 2 GiB), any other name is ONNX.\n"
    "MODEL may be of either format.\n"
    "\n"
    "  -o FILE              where to save\n"
    "  --external-data NAME ONNX: the data of constants of 1024 bytes and more go into this file beside FILE\n"
    "  --plugin FILE.so     load custom operators\n"
    "\n"
    "example: nacre convert model.ort -o model.onnx\n"
    "exit codes: 0 done, 1 the model or a file failed, 2 wrong usage\n";

enum { EXTERNAL_BYTES = 1024 };

static int convert(nacre_model *m, const char *out, const char *data) {
    nacre_error err;
    if (nacre_model_optimize(m, "off", NULL, 0, &err) != NACRE_OK) return cli_error(&err);
    nacre_code code =
        data ? nacre_model_save_external(m, out, data, EXTERNAL_BYTES, &err) : nacre_model_save(m, out, &err);
    return code == NACRE_OK ? EXIT_DONE : cli_error(&err);
}

int cmd_convert(int argc, char **argv) {
    common c = {0};
    const char *out = NULL, *data = NULL;
    const arg known[] = {{"", ARG_TEXT, &c.model, 0},
                         {"-o", ARG_TEXT, &out, 0},
                         {"--external-data", ARG_TEXT, &data, 0},
                         {"--plugin", ARG_LIST, &c.plugins, 0},
                         {NULL, ARG_FLAG, NULL, 0}};
    int code = args_parse("convert", help, argc, argv, known);
    if (code != EXIT_DONE) return code < 0 ? EXIT_DONE : code;
    if (!c.model) return cli_usage("convert", "which model?");
    if (!out) return cli_usage("convert", "where to? give -o OUT.onnx or -o OUT.ort");
    nacre_env *env;
    nacre_model *m;
    code = open_env("convert", &c, &env);
    if (code != EXIT_DONE) return code;
    code = open_model("convert", &c, env, &m);
    if (code == EXIT_DONE) {
        code = convert(m, out, data);
        nacre_model_release(m);
    }
    nacre_env_release(env);
    return code;
}
