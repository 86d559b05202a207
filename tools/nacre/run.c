/* tools/nacre/run.c: nacre run MODEL: load, feed, run, show. */
#include "cli.h"

#include <math.h>
#include <string.h>
#include <time.h>

static const char help[] =
    "usage: nacre run MODEL [options]\n"
    "\n"
    "Runs an ONNX model (or a .nct text graph) and prints a summary of every output. Inputs that are not given are\n"
    "filled with repeatable random numbers. Ctrl-C cancels the run.\n"
    "\n" FEED_HELP "  --output DIR         save outputs as DIR/NAME.npy\n"
    "  --full               print all elements\n"
    "  --repeat N           run N times and print the time of each\n"
    "  --time               process start to first output, in milliseconds\n"
    "  --profile FILE.json  write a trace for chrome://tracing or Perfetto, and print the time per operator\n"
    "  --dump STAGE         print a stage instead of outputs: graph inferred transformed differentiated lowered "
    "program\n"
    "                       instance\n" COMMON_HELP "\n"
    "example: nacre run mlp.onnx --dim batch=4\n"
    "         nacre run mlp.onnx --input x=x.npy --output results\n"
    "         nacre run mlp.onnx --dim batch=4 --dump program\n"
    "exit codes: 0 done, 1 the model, a file or the run failed, 2 wrong usage, 130 Ctrl-C\n";

typedef struct args {
    common c;
    const char *dump, *output, *profile;
    int repeat;
    bool full, time;
} args;

static int save(const args *a, const char *name, nacre_value *v) {
    char path[4096], safe[256];
    nacre_error err;
    snprintf(safe, sizeof safe, "%s", name);
    for (char *p = safe; *p; p++)
        if (*p == '/') *p = '_';
    snprintf(path, sizeof path, "%s/%s.npy", a->output, safe);
    return npy_write(path, v, &err) == NACRE_OK ? EXIT_DONE : cli_error(&err);
}

static double process_age_ms(void) {
    unsigned long long start = 0;
    FILE *f = fopen("/proc/self/stat", "r");
    char line[1024], *p = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    if (f) fclose(f);
    if (!p ||
        sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &start) != 1)
        return NAN;
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6 -
           (double)start * 10; /* the kernel counts starts in 10 ms ticks */
}

static int print_dump(const args *a, nacre_session *s) {
    char *text;
    nacre_error err;
    if (nacre_session_dump(s, a->dump, &text, &err) != NACRE_OK) return cli_error(&err);
    printf("%s", text);
    nacre_free(text);
    return EXIT_DONE;
}

static int write_profile(const args *a, nacre_session *s) {
    char *trace;
    nacre_error err;
    if (nacre_session_profile(s, &trace, &err) != NACRE_OK) return cli_error(&err);
    file_piece all = {trace, strlen(trace)};
    nacre_code code = file_write(a->profile, &all, 1, &err);
    nacre_free(trace);
    if (code != NACRE_OK) return cli_error(&err);
    table_ops(s, a->repeat);
    return EXIT_DONE;
}

static int show_outputs(const args *a, const feed *f) {
    int code = EXIT_DONE;
    for (size_t i = 0; code == EXIT_DONE && i < f->n_out; i++) {
        value_show(f->out_names[i], f->out[i], a->full, 0);
        if (a->output) code = save(a, f->out_names[i], f->out[i]);
    }
    return code;
}

static int run_times(const args *a, nacre_session *s, feed *f) {
    nacre_run_options *r;
    progress p;
    int code = cancel_options(&r);
    if (code != EXIT_DONE) return code;
    progress_start(&p, "running", a->repeat > 1 ? a->repeat : 0);
    for (int i = 0; code == EXIT_DONE && i < a->repeat; i++) {
        double start = now_ms();
        code = feed_run(s, r, f);
        atomic_store(&p.done, i + 1);
        if (code == EXIT_DONE && a->time && i == 0)
            printf("first output %.1f ms after the process started\n", process_age_ms());
        if (code == EXIT_DONE && a->repeat > 1) printf("run: %.3f ms\n", now_ms() - start);
    }
    progress_end(&p);
    cancel_release(r);
    return code;
}

static int run_session(const args *a, nacre_session *s) {
    if (a->dump && strcmp(a->dump, "instance") != 0) return print_dump(a, s);
    feed f;
    int code = feed_make("run", &a->c, s, &f);
    if (code != EXIT_DONE) return code;
    code = run_times(a, s, &f);
    if (code == EXIT_DONE) code = a->dump ? print_dump(a, s) : show_outputs(a, &f);
    if (code == EXIT_DONE && a->profile) code = write_profile(a, s);
    feed_release(&f);
    return code;
}

int cmd_run(int argc, char **argv) {
    args a = {.repeat = 1};
    const arg known[] = {{"", ARG_TEXT, &a.c.model, 0},
                         COMMON_ARGS(a.c),
                         {"--output", ARG_TEXT, &a.output, 0},
                         {"--full", ARG_FLAG, &a.full, 0},
                         {"--repeat", ARG_INT, &a.repeat, 1},
                         {"--time", ARG_FLAG, &a.time, 0},
                         {"--profile", ARG_TEXT, &a.profile, 0},
                         {"--dump", ARG_TEXT, &a.dump, 0},
                         {NULL, ARG_FLAG, NULL, 0}};
    int code = args_parse("run", help, argc, argv, known);
    if (code != EXIT_DONE) return code < 0 ? EXIT_DONE : code;
    const char *more[3] = {NULL};
    int n = 0;
    if (a.dump) more[n++] = "dumps=on";
    if (a.profile) more[n++] = "profile=on";
    opened o;
    code = open_all("run", &a.c, more, &o);
    if (code != EXIT_DONE) return code;
    code = run_session(&a, o.session);
    open_close(&o);
    return code;
}
