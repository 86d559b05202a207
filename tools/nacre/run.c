/* tools/nacre/run.c: nacre run MODEL: load, feed, run, show. */
#include "cli.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char help[] =
    "usage: nacre run MODEL [options]\n"
    "\n"
    "Runs an ONNX model (or a .nct text graph) once and prints a summary of every output.\n"
    "Inputs that are not given are filled with repeatable random numbers.\n"
    "\n"
    "  --input NAME=FILE.npy   an input from a file          --dim NAME=N     size of a free dim of random inputs "
    "(default 1)\n"
    "  --output DIR            save outputs as DIR/NAME.npy   --full           print all elements\n"
    "  --device NAME           cpu, guard, cuda, cuda:1       --threads N      0: all (default)\n"
    "  --set KEY=VALUE         a session option: level, fusion, layouts, views, packing, capture, seed, disable, ...\n"
    "  --repeat N              run N times and print the time of each\n"
    "  --dump STAGE            print a stage instead of outputs: graph inferred transformed differentiated lowered "
    "program instance\n"
    "  --plugin FILE.so        load custom operators          --time           process start to first output, in "
    "milliseconds\n"
    "\n"
    "example: nacre run mlp.onnx --dim batch=4 --dump program\n";

enum { MAX = 64 };

typedef struct args {
    const char *model, *device, *dump, *output;
    const char *inputs[MAX], *sets[MAX], *dims[MAX], *plugins[MAX];
    int n_inputs, n_sets, n_dims, n_plugins, threads, repeat;
    bool full, time, help;
} args;

static const char *value_of(int argc, char **argv, int *i) { return *i + 1 < argc ? argv[++*i] : NULL; }

static int add(const char **list, int *n, const char *v) {
    if (!v || *n == MAX) return EXIT_USAGE;
    list[(*n)++] = v;
    return EXIT_DONE;
}

static int parse(int argc, char **argv, args *a) {
    for (int i = 1; i < argc; i++) {
        const char *s = argv[i], *v;
        if (strcmp(s, "--help") == 0) {
            a->help = true;
        } else if (strcmp(s, "--full") == 0) {
            a->full = true;
        } else if (strcmp(s, "--time") == 0) {
            a->time = true;
        } else if (s[0] != '-') {
            if (a->model) return cli_usage("run", "two models given: '%s' and '%s'", a->model, s);
            a->model = s;
        } else if (!(v = value_of(argc, argv, &i))) {
            return cli_usage("run", "%s needs a value, or is not known", s);
        } else if (strcmp(s, "--input") == 0) {
            if (add(a->inputs, &a->n_inputs, v)) return cli_usage("run", "too many inputs");
        } else if (strcmp(s, "--set") == 0) {
            if (add(a->sets, &a->n_sets, v)) return cli_usage("run", "too many options");
        } else if (strcmp(s, "--dim") == 0) {
            if (add(a->dims, &a->n_dims, v)) return cli_usage("run", "too many dims");
        } else if (strcmp(s, "--plugin") == 0) {
            if (add(a->plugins, &a->n_plugins, v)) return cli_usage("run", "too many plugins");
        } else if (strcmp(s, "--device") == 0) {
            a->device = v;
        } else if (strcmp(s, "--dump") == 0) {
            a->dump = v;
        } else if (strcmp(s, "--output") == 0) {
            a->output = v;
        } else if (strcmp(s, "--threads") == 0) {
            a->threads = atoi(v);
        } else if (strcmp(s, "--repeat") == 0) {
            a->repeat = atoi(v);
        } else {
            return cli_usage("run", "no option %s", s);
        }
    }
    if (!a->help && !a->model) return cli_usage("run", "which model?");
    return EXIT_DONE;
}

/* ---- inputs ---- */

static const char *lookup(const char *const *list, int n, const char *name) {
    size_t len = strlen(name);
    for (int i = 0; i < n; i++)
        if (strncmp(list[i], name, len) == 0 && list[i][len] == '=') return list[i] + len + 1;
    return NULL;
}

static double next_random(uint64_t *s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (double)(*s >> 11) / 9007199254740992.0;
}

static void fill_random(nacre_value *v, uint64_t seed) {
    int64_t n = nacre_value_count(v);
    void *p = nacre_value_data(v);
    for (int64_t i = 0; i < n; i++) {
        double r = next_random(&seed);
        switch (nacre_value_type(v)) {
        case NACRE_FLOAT: ((float *)p)[i] = (float)(2 * r - 1); break;
        case NACRE_DOUBLE: ((double *)p)[i] = 2 * r - 1; break;
        case NACRE_INT64: ((int64_t *)p)[i] = (int64_t)(r * 2); break;
        case NACRE_INT32: ((int32_t *)p)[i] = (int32_t)(r * 2); break;
        case NACRE_BOOL: ((uint8_t *)p)[i] = r < 0.5; break;
        default: break; /* zeros */
        }
    }
}

static int make_input(const args *a, nacre_session *s, size_t i, nacre_value **out) {
    nacre_error err;
    const char *name = nacre_session_input_name(s, i), *file = lookup(a->inputs, a->n_inputs, name);
    if (file) return npy_read(file, out, &err) == NACRE_OK ? EXIT_DONE : cli_error(&err);
    int rank;
    int64_t dims[16];
    char dim_names[16][64];
    nacre_type t = nacre_session_input_type(s, i, &rank, dims);
    if (rank < 0 || t == NACRE_STRING) return cli_usage("run", "input '%s' must be given with --input", name);
    nacre_session_input_dim_names(s, i, dim_names);
    for (int d = 0; d < rank; d++) {
        const char *v = dims[d] < 0 ? lookup(a->dims, a->n_dims, dim_names[d]) : NULL;
        if (dims[d] < 0) dims[d] = v ? atoll(v) : 1;
    }
    if (nacre_value_new_tensor(t, rank, dims, out, &err) != NACRE_OK) return cli_error(&err);
    fill_random(*out, i + 1);
    return EXIT_DONE;
}

/* ---- outputs ---- */

static double element(nacre_value *v, int64_t i) {
    const void *p = nacre_value_data(v);
    switch (nacre_value_type(v)) {
    case NACRE_FLOAT: return ((const float *)p)[i];
    case NACRE_DOUBLE: return ((const double *)p)[i];
    case NACRE_INT64: return (double)((const int64_t *)p)[i];
    case NACRE_INT32: return ((const int32_t *)p)[i];
    case NACRE_BOOL:
    case NACRE_UINT8: return ((const uint8_t *)p)[i];
    default: return NAN;
    }
}

static void show_numbers(nacre_value *v, bool full) {
    int64_t n = nacre_value_count(v), shown = full ? n : n < 8 ? n : 8;
    double lo = INFINITY, hi = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = element(v, i);
        lo = x < lo ? x : lo, hi = x > hi ? x : hi, sum += x;
    }
    if (n) printf("  min %.6g  mean %.6g  max %.6g ", lo, sum / (double)n, hi);
    printf(" [");
    for (int64_t i = 0; i < shown; i++) printf("%s%.*g", i ? ", " : "", full ? 17 : 6, element(v, i));
    printf("%s]\n", shown < n ? ", ..." : "");
}

static void show(const char *name, nacre_value *v, bool full) {
    printf("%-16s", name);
    if (nacre_value_kind(v) != NACRE_KIND_TENSOR) {
        printf(" sequence of %lld\n", (long long)nacre_value_count(v));
        for (int64_t i = 0; i < nacre_value_count(v) && i < 8; i++) {
            nacre_value *item = nacre_value_item(v, i);
            show("  item", item, full);
            nacre_value_release(item);
        }
        return;
    }
    printf(" (");
    for (int d = 0; d < nacre_value_rank(v); d++) printf("%s%lld", d ? ", " : "", (long long)nacre_value_dims(v)[d]);
    printf(")");
    if (nacre_value_type(v) != NACRE_STRING) {
        show_numbers(v, full);
        return;
    }
    for (int64_t i = 0; i < nacre_value_count(v) && (full || i < 8); i++)
        printf(" \"%s\"", nacre_value_string(v, i, NULL));
    printf("\n");
}

static int save(const args *a, const char *name, nacre_value *v) {
    char path[4096], safe[256];
    nacre_error err;
    snprintf(safe, sizeof safe, "%s", name);
    for (char *p = safe; *p; p++)
        if (*p == '/') *p = '_';
    snprintf(path, sizeof path, "%s/%s.npy", a->output, safe);
    return npy_write(path, v, &err) == NACRE_OK ? EXIT_DONE : cli_error(&err);
}

/* ---- the command ---- */

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
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

static int run_once(const args *a, nacre_session *s, bool last) {
    const char *in_names[MAX], *out_names[MAX];
    nacre_value *in[MAX] = {NULL}, *out[MAX] = {NULL};
    nacre_error err;
    size_t n_in = nacre_session_n_inputs(s), n_out = nacre_session_n_outputs(s);
    if (n_in > MAX || n_out > MAX) return cli_usage("run", "more than %d inputs or outputs", MAX);
    int code = EXIT_DONE;
    size_t n_given = 0;
    for (size_t i = 0; code == EXIT_DONE && i < n_in; i++) {
        in_names[n_given] = nacre_session_input_name(s, i);
        if (nacre_session_input_optional(s, i) && !lookup(a->inputs, a->n_inputs, in_names[n_given])) continue;
        code = make_input(a, s, i, &in[n_given++]);
    }
    for (size_t i = 0; i < n_out; i++) out_names[i] = nacre_session_output_name(s, i);
    double start = now_ms();
    if (code == EXIT_DONE && nacre_run(s, NULL, in_names, in, n_given, out_names, n_out, out, &err) != NACRE_OK)
        code = cli_error(&err);
    if (code == EXIT_DONE && a->time) printf("first output %.1f ms after the process started\n", process_age_ms());
    if (code == EXIT_DONE && a->repeat > 1) printf("run: %.3f ms\n", now_ms() - start);
    for (size_t i = 0; code == EXIT_DONE && last && !a->dump && i < n_out; i++) {
        show(out_names[i], out[i], a->full);
        if (a->output) code = save(a, out_names[i], out[i]);
    }
    for (size_t i = 0; i < n_in; i++) nacre_value_release(in[i]);
    for (size_t i = 0; i < n_out; i++) nacre_value_release(out[i]);
    return code;
}

static int set_options(const args *a, nacre_options *o) {
    nacre_error err;
    if (a->device && nacre_options_set(o, "device", a->device, &err) != NACRE_OK) return cli_error(&err);
    if (a->dump && nacre_options_set(o, "dumps", "on", &err) != NACRE_OK) return cli_error(&err);
    for (int i = 0; i < a->n_sets; i++) {
        char key[64];
        const char *eq = strchr(a->sets[i], '=');
        if (!eq || (size_t)(eq - a->sets[i]) >= sizeof key)
            return cli_usage("run", "--set wants KEY=VALUE, got '%s'", a->sets[i]);
        snprintf(key, sizeof key, "%.*s", (int)(eq - a->sets[i]), a->sets[i]);
        if (nacre_options_set(o, key, eq + 1, &err) != NACRE_OK) return cli_error(&err);
    }
    return EXIT_DONE;
}

static int print_dump(const args *a, nacre_session *s) {
    char *text;
    nacre_error err;
    if (nacre_session_dump(s, a->dump, &text, &err) != NACRE_OK) return cli_error(&err);
    printf("%s", text);
    nacre_free(text);
    return EXIT_DONE;
}

static int run_session(const args *a, nacre_session *s) {
    bool static_dump = a->dump && strcmp(a->dump, "instance") != 0;
    int code = EXIT_DONE, times = a->repeat > 1 ? a->repeat : 1;
    for (int i = 0; code == EXIT_DONE && !static_dump && i < times; i++) code = run_once(a, s, i + 1 == times);
    return code == EXIT_DONE && a->dump ? print_dump(a, s) : code;
}

static int run_model(const args *a, nacre_env *env, nacre_options *o) {
    nacre_error err;
    nacre_model *m;
    nacre_session *s;
    for (int i = 0; i < a->n_plugins; i++)
        if (nacre_env_load_plugin(env, a->plugins[i], &err) != NACRE_OK) return cli_error(&err);
    int code = set_options(a, o);
    if (code != EXIT_DONE) return code;
    if (nacre_model_load(env, a->model, &m, &err) != NACRE_OK) return cli_error(&err);
    if (nacre_session_create(env, m, o, &s, &err) != NACRE_OK) return cli_error(&err);
    code = run_session(a, s);
    nacre_session_release(s);
    return code;
}

int cmd_run(int argc, char **argv) {
    args a = {.repeat = 1};
    int code = parse(argc, argv, &a);
    if (code != EXIT_DONE) return code;
    if (a.help) {
        fputs(help, stdout);
        return EXIT_DONE;
    }
    nacre_error err;
    nacre_env *env;
    nacre_options *o;
    if (nacre_env_create(a.threads, &env, &err) != NACRE_OK) return cli_error(&err);
    if (nacre_options_create(&o, &err) != NACRE_OK) return cli_error(&err);
    code = run_model(&a, env, o);
    nacre_options_release(o);
    nacre_env_release(env);
    return code;
}
