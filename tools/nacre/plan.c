/* tools/nacre/plan.c: nacre plan MODEL: the memory of a run before it runs, and what lives when as a small chart. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: nacre plan MODEL [--dim NAME=N ...] [options]\n"
    "\n"
    "Predicts the memory that one run takes, per place, for the given sizes of free dims (default 1), without "
    "running.\n"
    "The chart has a line per tensor: which operator makes it, which reads it last, and between which steps it is\n"
    "needed. Of a model with gradients it so lists what the backward pass keeps, and for what.\n"
    "\n"
    "  --dim NAME=N         size of a free dim\n"
    "  --rows N             lines of the chart, largest tensors first picked (default 40; 0: all)\n" COMMON_HELP "\n"
    "example: nacre plan resnet.onnx --dim N=8\n"
    "exit codes: 0 done, 1 the model failed, 2 wrong usage\n";

enum { CHART = 48 };

static int larger(const void *a, const void *b) {
    const nacre_plan_row *x = a, *y = b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static int earlier(const void *a, const void *b) {
    const nacre_plan_row *x = a, *y = b;
    if (x->first != y->first) return (x->first > y->first) - (x->first < y->first);
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static void print_chart(const nacre_plan *p, size_t n_rows, const char *const *places) {
    table t = {0};
    size_t n = n_rows && n_rows < p->n_rows ? n_rows : p->n_rows;
    qsort(p->rows, p->n_rows, sizeof *p->rows, larger);
    qsort(p->rows, n, sizeof *p->rows, earlier);
    table_row(&t, 6, "tensor", "made by", "last read by", "place", ">bytes", "steps");
    for (size_t i = 0; i < n; i++) {
        const nacre_plan_row *r = &p->rows[i];
        char bytes[32], bar[CHART + 1];
        int steps = p->n_steps ? (int)p->n_steps : 1, wide = steps < CHART ? steps : CHART;
        memset(bar, '.', CHART);
        bar[wide] = '\0';
        int from = (int)((long long)r->first * wide / steps), to = (int)((long long)r->last * wide / steps);
        for (int k = from < 0 ? 0 : from; k <= to && k < wide; k++) bar[k] = '#';
        bytes_text((double)r->bytes, bytes, sizeof bytes);
        table_row(&t, 6, r->name, r->op, r->last > r->first ? p->steps[r->last].op : "-", places[r->place], bytes, bar);
    }
    if (n) table_print(&t);
    table_release(&t);
    if (n < p->n_rows) printf("  ... and %zu smaller ones (--rows 0 shows all)\n", p->n_rows - n);
}

static void print_totals(const nacre_plan *p, const char *const *places, int n_places) {
    table t = {0};
    table_row(&t, 7, "place", ">frame", ">constants", ">packed", ">variables", ">outputs", ">peak of one run");
    for (int k = 0; k < n_places; k++) {
        char cell[6][32];
        double sizes[6] = {(double)p->bytes_frame[k], (double)p->bytes_constants[k], (double)p->bytes_packed[k],
                           (double)p->bytes_state[k], (double)p->bytes_outputs[k],   0};
        for (int i = 0; i < 5; i++) sizes[5] += sizes[i];
        for (int i = 0; i < 6; i++) bytes_text(sizes[i], cell[i], sizeof cell[i]);
        table_row(&t, 7, places[k], cell[0], cell[1], cell[2], cell[3], cell[4], cell[5]);
    }
    table_print(&t);
    table_release(&t);
}

int cmd_plan(int argc, char **argv) {
    common c = {0};
    int n_rows = 40;
    const arg known[] = {{"", ARG_TEXT, &c.model, 0},
                         SESSION_ARGS(c),
                         {"--dim", ARG_LIST, &c.dims, 0},
                         {"--rows", ARG_INT, &n_rows, 0},
                         {NULL, ARG_FLAG, NULL, 0}};
    int code = args_parse("plan", help, argc, argv, known);
    if (code != EXIT_DONE) return code < 0 ? EXIT_DONE : code;
    char names[LIST_MAX][64];
    const char *name_of[LIST_MAX];
    int64_t dims[LIST_MAX];
    for (int i = 0; i < c.dims.n; i++) {
        const char *eq = strchr(c.dims.v[i], '=');
        char *end;
        if (!eq || eq - c.dims.v[i] >= 64 || (dims[i] = strtoll(eq + 1, &end, 10)) < 0 || end == eq + 1 || *end)
            return cli_usage("plan", "--dim wants NAME=N, got '%s'", c.dims.v[i]);
        snprintf(names[i], sizeof names[i], "%.*s", (int)(eq - c.dims.v[i]), c.dims.v[i]);
        name_of[i] = names[i];
    }
    opened o;
    code = open_all("plan", &c, NULL, &o);
    if (code != EXIT_DONE) return code;
    nacre_error err;
    nacre_plan p = {.size = sizeof p};
    const char *const places[] = {"host", c.device ? c.device : "device"};
    if (nacre_session_plan(o.session, name_of, dims, (size_t)c.dims.n, &p, &err) != NACRE_OK) {
        code = cli_error(&err);
    } else {
        print_totals(&p, places, c.device && strcmp(c.device, "cpu") != 0 ? 2 : 1);
        if (p.n_unknown) printf("  not counted: %zu segments whose sizes are found while running\n", p.n_unknown);
        printf("\n");
        print_chart(&p, (size_t)n_rows, places);
        nacre_free(p.rows);
    }
    open_close(&o);
    return code;
}
