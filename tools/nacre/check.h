/* tools/nacre/check.h: what the two files of nacre check share: check.c (validity, test data) and against.c (another
 * level, onnxruntime). */
#ifndef NACRE_CHECK_H
#define NACRE_CHECK_H

#include "cli.h"

typedef struct check_args {
    common c;
    list folders;
    const char *against;
    double rtol, atol;
    bool any_type; /* compare elements of different types by their worth */
} check_args;

/* Prints one line on a tensor; returns whether it differs. */
bool check_report(const char *name, nacre_value *got, nacre_value *want, const check_args *a, bool quiet);
int check_against(const check_args *a, nacre_env *env);

#endif
