/* tools/nacre/args.c: the arguments of a command, from a table of what it knows. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

bool list_add(list *l, const char *s) {
    if (l->n == LIST_MAX) return false;
    l->v[l->n++] = s;
    return true;
}

const char *list_value(const list *l, const char *name) {
    size_t n = strlen(name);
    for (int i = l->n - 1; i >= 0; i--)
        if (strncmp(l->v[i], name, n) == 0 && l->v[i][n] == '=') return l->v[i] + n + 1;
    return NULL;
}

static int set_int(const char *command, const arg *a, const char *v) {
    char *end;
    errno = 0;
    long n = strtol(v, &end, 10);
    if (errno || end == v || *end || n < a->low || n > INT_MAX)
        return cli_usage(command, "%s wants a whole number from %d, got '%s'", a->name, a->low, v);
    *(int *)a->to = (int)n;
    return EXIT_DONE;
}

static int set_number(const char *command, const arg *a, const char *v) {
    char *end;
    double x = strtod(v, &end);
    if (end == v || *end || !(x >= 0)) return cli_usage(command, "%s wants a number, got '%s'", a->name, v);
    *(double *)a->to = x;
    return EXIT_DONE;
}

static int set(const char *command, const arg *a, const char *v) {
    switch (a->kind) {
    case ARG_FLAG: *(bool *)a->to = true; break;
    case ARG_TEXT: *(const char **)a->to = v; break;
    case ARG_INT: return set_int(command, a, v);
    case ARG_NUMBER: return set_number(command, a, v);
    case ARG_LIST:
        if (!list_add(a->to, v)) return cli_usage(command, "%s more than %d times", a->name, LIST_MAX);
        break;
    }
    return EXIT_DONE;
}

/* What has no dash goes to the next positional place that is free; a list takes all the rest. */
static int set_place(const char *command, const arg *known, const char *v, int *n_places) {
    int k = 0;
    for (const arg *a = known; a->name; a++) {
        if (a->name[0]) continue;
        if (k++ != *n_places) continue;
        if (a->kind != ARG_LIST) ++*n_places;
        return set(command, a, v);
    }
    return cli_usage(command, "one argument too many: '%s'", v);
}

int args_parse(const char *command, const char *help, int argc, char **argv, const arg *known) {
    int n_places = 0;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0) {
            fputs(help, stdout);
            return -1;
        }
    for (int i = 1; i < argc; i++) {
        const char *s = argv[i];
        const arg *a = known;
        while (a->name && (!a->name[0] || strcmp(a->name, s) != 0)) a++;
        int code;
        if (s[0] != '-')
            code = set_place(command, known, s, &n_places);
        else if (!a->name)
            code = cli_usage(command, "no option %s", s);
        else if (a->kind == ARG_FLAG)
            code = set(command, a, NULL);
        else if (i + 1 == argc)
            code = cli_usage(command, "%s needs a value", s);
        else
            code = set(command, a, argv[++i]);
        if (code != EXIT_DONE) return code;
    }
    return EXIT_DONE;
}
