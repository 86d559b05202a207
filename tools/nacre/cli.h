/* tools/nacre/cli.h: what the commands share. A command is one file with one function; the table is in main.c. */
#ifndef NACRE_CLI_H
#define NACRE_CLI_H

#include "nacre/nacre.h"

/* Exit codes: 0 done, 1 the model or run failed, 2 wrong usage. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

int cmd_run(int argc, char **argv);
int cmd_info(int argc, char **argv);

/* Prints "nacre: Op 'node': text [CODE]" to standard error; returns EXIT_FAILED. */
int cli_error(const nacre_error *err);
int cli_usage(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* .npy files, little-endian, C order. */
nacre_code npy_read(const char *path, nacre_value **out, nacre_error *err);
nacre_code npy_write(const char *path, nacre_value *v, nacre_error *err);

#endif
