/* tools/nacre/bench.c: nacre bench MODEL: time per run; two sets of options A and B run in turn, so that what disturbs
 * the machine disturbs both. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: nacre bench MODEL [options]\n"
    "\n"
    "Runs a model again and again and prints the median and the 90th percentile of the time of a run.\n"
    "\n"
    "  --warmup N           runs before the clock (default 3)\n"
    "  --repeat N           runs that are timed (default: as many as fit in --seconds, at least 5)\n"
    "  --seconds S          time to spend on them (default 2)\n"
    "  --items N            items in one run, for the throughput (default: the first dim of the first input)\n"
    "  --per-op             where the time goes, by operator (profiled runs of their own)\n"
    "  --b KEY=VALUE        a second session B with this option changed; A and B run in turn. device=... and "
    "threads=...\n"
    "                       may be given too\n" FEED_HELP COMMON_HELP "\n"
    "example: nacre bench resnet.onnx --dim N=8 --per-op\n"
    "         nacre bench resnet.onnx --b layouts=off\n"
    "exit codes: 0 done, 1 the model, a file or a run failed, 2 wrong usage, 130 Ctrl-C\n";

enum { MAX_RUNS = 1000000 };

typedef struct args {
    common c;
    list b;
    int warmup, repeat, items;
    double seconds;
    bool per_op;
} args;

typedef struct side {
    const char *name;
    nacre_env *env;
    nacre_session *session;
    feed f;
    double *ms;
    int n, cap;
} side;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool keep(side *s, double ms) {
    if (s->n == s->cap) {
        int cap = s->cap ? s->cap * 2 : 256;
        double *v = realloc(s->ms, (size_t)cap * sizeof *v);
        if (!v) return false;
        s->ms = v, s->cap = cap;
    }
    s->ms[s->n++] = ms;
    return true;
}

static double at(const side *s, double q) {
    int i = (int)(q * (double)(s->n - 1) + 0.5);
    return s->ms[i];
}

static int open_side(const common *c, const list *sets, side *s) {
    nacre_model *m;
    int code = open_env("bench", c, &s->env);
    if (code == EXIT_DONE) code = open_model("bench", c, s->env, &m);
    if (code == EXIT_DONE) code = open_session("bench", c, s->env, m, NULL, sets, &s->session);
    return code == EXIT_DONE ? feed_make("bench", c, s->session, &s->f) : code;
}

/* device and threads are no session options, so they are taken out of the list. */
static int open_b(const args *a, side *s) {
    common c = a->c;
    list sets = {.n = 0};
    for (int i = 0; i < a->b.n; i++) {
        if (strncmp(a->b.v[i], "device=", 7) == 0)
            c.device = a->b.v[i] + 7;
        else if (strncmp(a->b.v[i], "threads=", 8) == 0)
            c.threads = atoi(a->b.v[i] + 8);
        else
            list_add(&sets, a->b.v[i]);
    }
    return open_side(&c, &sets, s);
}

static void close_side(side *s) {
    feed_release(&s->f);
    nacre_session_release(s->session);
    nacre_env_release(s->env);
    free(s->ms);
}

static int time_one(side *s, nacre_run_options *r, bool timed) {
    double start = now_ms();
    int code = feed_run(s->session, r, &s->f);
    if (code == EXIT_DONE && timed && !keep(s, now_ms() - start)) return cli_fail("out of memory");
    return code;
}

static bool enough(const args *a, const side *s, double start) {
    if (a->repeat) return s->n >= a->repeat;
    return s->n >= MAX_RUNS || (s->n >= 5 && now_ms() - start > a->seconds * 1e3);
}

static int time_all(const args *a, side *s, int n_sides, nacre_run_options *r) {
    int code = EXIT_DONE;
    progress p;
    progress_start(&p, "timing", a->repeat);
    for (int i = 0; i < a->warmup && code == EXIT_DONE; i++)
        for (int k = 0; k < n_sides && code == EXIT_DONE; k++) code = time_one(&s[k], r, false);
    double start = now_ms();
    while (code == EXIT_DONE && !enough(a, &s[n_sides - 1], start)) {
        for (int k = 0; k < n_sides && code == EXIT_DONE; k++) code = time_one(&s[k], r, true);
        atomic_store(&p.done, s[0].n);
    }
    progress_end(&p);
    return code;
}

static void report(const args *a, side *s, int n_sides) {
    table t = {0};
    table_row(&t, 8, "", ">runs", ">median", ">p90", ">min", ">max", ">items/run", ">items/s");
    for (int k = 0; k < n_sides; k++) {
        qsort(s[k].ms, (size_t)s[k].n, sizeof *s[k].ms, by_value);
        char runs[32], median[32], p90[32], min[32], max[32], n_items[32], rate[32];
        const feed *f = &s[k].f;
        bool batched = f->n_in && nacre_value_kind(f->in[0]) == NACRE_KIND_TENSOR && nacre_value_rank(f->in[0]) > 0;
        double items = a->items ? a->items : batched ? (double)nacre_value_dims(f->in[0])[0] : 1;
        snprintf(runs, sizeof runs, "%d", s[k].n);
        time_text(at(&s[k], 0.5), median, sizeof median);
        time_text(at(&s[k], 0.9), p90, sizeof p90);
        time_text(s[k].ms[0], min, sizeof min);
        time_text(s[k].ms[s[k].n - 1], max, sizeof max);
        snprintf(n_items, sizeof n_items, "%.0f", items);
        snprintf(rate, sizeof rate, "%.1f", items * 1e3 / at(&s[k], 0.5));
        table_row(&t, 8, s[k].name, runs, median, p90, min, max, n_items, rate);
    }
    table_print(&t);
    table_release(&t);
    if (n_sides == 2) printf("  B takes %.3f of A's time (medians)\n", at(&s[1], 0.5) / at(&s[0], 0.5));
}

static int per_op(const args *a, nacre_run_options *r) {
    side s = {.name = "profiled"};
    const list sets = {.v = {"profile=on"}, .n = 1};
    enum { RUNS = 10 };
    int code = open_side(&a->c, &sets, &s);
    for (int i = 0; i < a->warmup && code == EXIT_DONE; i++) code = time_one(&s, r, false);
    if (code == EXIT_DONE) nacre_session_profile_reset(s.session);
    for (int i = 0; i < RUNS && code == EXIT_DONE; i++) code = time_one(&s, r, false);
    if (code == EXIT_DONE) table_ops(s.session, RUNS);
    close_side(&s);
    return code;
}

int cmd_bench(int argc, char **argv) {
    args a = {.warmup = 3, .seconds = 2};
    const arg known[] = {{"", ARG_TEXT, &a.c.model, 0},
                         COMMON_ARGS(a.c),
                         {"--b", ARG_LIST, &a.b, 0},
                         {"--warmup", ARG_INT, &a.warmup, 0},
                         {"--repeat", ARG_INT, &a.repeat, 1},
                         {"--items", ARG_INT, &a.items, 1},
                         {"--seconds", ARG_NUMBER, &a.seconds, 0},
                         {"--per-op", ARG_FLAG, &a.per_op, 0},
                         {NULL, ARG_FLAG, NULL, 0}};
    int code = args_parse("bench", help, argc, argv, known);
    if (code != EXIT_DONE) return code < 0 ? EXIT_DONE : code;
    side s[2] = {{.name = "A"}, {.name = "B"}};
    int n_sides = a.b.n ? 2 : 1;
    nacre_run_options *r = NULL;
    code = open_side(&a.c, NULL, &s[0]);
    if (code == EXIT_DONE && n_sides == 2) code = open_b(&a, &s[1]);
    if (code == EXIT_DONE) code = cancel_options(&r);
    if (code == EXIT_DONE) code = time_all(&a, s, n_sides, r);
    if (code == EXIT_DONE) report(&a, s, n_sides);
    if (code == EXIT_DONE && a.per_op) code = per_op(&a, r);
    if (r) cancel_release(r);
    close_side(&s[0]);
    close_side(&s[1]);
    return code;
}
