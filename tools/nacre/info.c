/* tools/nacre/info.c: nacre info: what runs here, and why something does not. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: nacre info\n"
    "\n"
    "Prints the version, the processor with the instruction set that the kernels use, caches and threads, and for "
    "every\n"
    "device what it is or why it cannot be used. NACRE_ISA=portable forces another instruction set, for one table of\n"
    "kernels NACRE_ISA=gemm=portable.\n"
    "\n"
    "example: nacre info\n"
    "exit codes: 0 done, 1 failed, 2 wrong usage\n";

static void print_machine(char *text) {
    for (char *line = text, *end; *line; line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        else
            end = line + strlen(line);
        char *tab = strchr(line, '\t'), size[32];
        if (!tab) continue;
        *tab = '\0';
        const char *value = tab + 1;
        if (strcmp(line, "l1d") == 0 || strcmp(line, "l2") == 0) {
            bytes_text(strtod(value, NULL), size, sizeof size);
            value = size;
        }
        printf("  %-13s %s\n", line, value);
    }
}

int cmd_info(int argc, char **argv) {
    const arg known[] = {{NULL, ARG_FLAG, NULL, 0}};
    int code = args_parse("info", help, argc, argv, known);
    if (code != EXIT_DONE) return code < 0 ? EXIT_DONE : code;
    nacre_error err;
    nacre_env *env;
    char *machine;
    if (nacre_env_create(0, &env, &err) != NACRE_OK) return cli_error(&err);
    printf("nacre %s\n", nacre_version());
    code = nacre_env_describe_machine(env, &machine, &err) == NACRE_OK ? EXIT_DONE : cli_error(&err);
    if (code == EXIT_DONE) {
        print_machine(machine);
        nacre_free(machine);
    }
    printf("devices\n");
    static const char *const names[] = {"cpu", "guard", "cuda"};
    for (int i = 0; i < 3; i++) {
        char text[1024];
        bool there = nacre_env_describe_device(env, names[i], text, sizeof text, &err) == NACRE_OK;
        printf("  %-13s %s%s\n", names[i], there ? "" : "not there: ", there ? text : err.text);
    }
    nacre_env_release(env);
    return code;
}
