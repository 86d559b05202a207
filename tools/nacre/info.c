/* tools/nacre/info.c: nacre info: what runs here, and why something does not. */
#include "cli.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int cmd_info(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        printf("usage: nacre info\n\nPrints the version and, for every device, what it is or why it cannot be used.\n");
        return EXIT_DONE;
    }
    if (argc > 1) return cli_usage("info", "takes no argument '%s'", argv[1]);
    nacre_error err;
    nacre_env *env;
    if (nacre_env_create(0, &env, &err) != NACRE_OK) return cli_error(&err);
    printf("nacre %s\n", nacre_version());
    static const char *const names[] = {"cpu", "guard", "cuda"};
    for (int i = 0; i < 3; i++) {
        char text[256];
        bool there = nacre_env_describe_device(env, names[i], text, sizeof text, &err) == NACRE_OK;
        printf("  %-6s %s%s\n", names[i], there ? "" : "not there: ", there ? text : err.text);
    }
    nacre_env_release(env);
    return EXIT_DONE;
}
