/* tools/nacre/explain.c: nacre explain MODEL NODE: how the session does one node, or what became of it. */
#include "cli.h"

static const char help[] =
    "usage: nacre explain MODEL NODE [options]\n"
    "\n"
    "Says which kernel serves a node (by its name, or by a value that it makes), which kernels refused it and why, "
    "which\n"
    "constants are packed for it, and which copies and fusions are around it. A node that is gone is shown as it was.\n"
    "nacre inspect MODEL --nodes lists the names.\n"
    "\n" COMMON_HELP "\n"
    "example: nacre explain mlp.onnx fc1\n"
    "         nacre explain mlp.onnx relu1 --set fusion=off --device guard\n"
    "exit codes: 0 done, 1 the model failed or has no such node, 2 wrong usage\n";

int cmd_explain(int argc, char **argv) {
    common c = {0};
    list nodes = {.n = 0};
    const arg known[] = {
        {"", ARG_TEXT, &c.model, 0}, {"", ARG_LIST, &nodes, 0}, SESSION_ARGS(c), {NULL, ARG_FLAG, NULL, 0}};
    int code = args_parse("explain", help, argc, argv, known);
    if (code != EXIT_DONE) return code < 0 ? EXIT_DONE : code;
    if (c.model && !nodes.n) return cli_usage("explain", "which node?");
    const char *const more[] = {"dumps=on", NULL};
    opened o;
    code = open_all("explain", &c, more, &o);
    if (code != EXIT_DONE) return code;
    for (int i = 0; i < nodes.n; i++) {
        char *text;
        nacre_error err;
        if (nacre_session_explain(o.session, nodes.v[i], &text, &err) != NACRE_OK) {
            code = cli_error(&err);
            continue;
        }
        printf("%s", text);
        nacre_free(text);
    }
    open_close(&o);
    return code;
}
