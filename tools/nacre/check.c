/* tools/nacre/check.c: nacre check MODEL: is it valid, and does it compute what test data say. */
#include "check.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char help[] =
    "usage: nacre check MODEL [FOLDER ...] [options]\n"
    "       nacre check GOT.npy WANT.npy [--rtol R] [--atol A]\n"
    "\n"
    "Loads a model, infers its types and plans it: every error is named with its node. With folders of ONNX test data\n"
    "(input_0.pb, output_0.pb, ...; a folder of test_data_set_* is taken whole) runs it on each and compares. With\n"
    "--against compares every tensor of the graph, in order, and names the first that differs. Two files (.npy, .pb)\n"
    "are compared with each other, their elements by what they are worth: float16 against float is fine.\n"
    "\n"
    "  --against LEVEL      off, basic, extended or all: this session's options against a plain session of that level\n"
    "  --against ort        onnxruntime, through python3 (or $NACRE_PYTHON) where it is installed\n"
    "  --rtol R, --atol A   equal where |got - want| <= A + R * |want| (default 1e-3 and 1e-5); NaN equals "
    "NaN\n" FEED_HELP COMMON_HELP
    "  --half               round the float inputs to float16 first, so that models of both precisions see the same\n"
    "\n"
    "example: nacre check model.onnx\n"
    "         nacre check model.onnx test_data_set_0\n"
    "         nacre check model.onnx --dim batch=2 --against off\n"
    "         nacre check results/y.npy expected/y.npy --rtol 1e-2\n"
    "exit codes: 0 valid and equal, 1 the model, a file or a run failed, 2 wrong usage, 3 results differ, 130 Ctrl-C\n";

bool check_report(const char *name, nacre_value *got, nacre_value *want, const check_args *a, bool quiet) {
    diff d;
    value_diff(got, want, a->rtol, a->atol, a->any_type, &d);
    if (!d.differs && quiet) return false;
    printf("  %-8s %-24s", d.differs ? "DIFFERS" : "equal", name);
    if (nacre_value_kind(got) == NACRE_KIND_TENSOR && nacre_value_type(got) != NACRE_STRING && (!d.why[0] || d.n_bad))
        printf(" max abs error %.3g, max rel error %.3g", d.max_abs, d.max_rel);
    if (d.differs && d.n_bad) printf(", %lld elements, worst at %lld", (long long)d.n_bad, (long long)d.at);
    if (d.why[0]) printf(": %s", d.why);
    printf("\n");
    return d.differs;
}

/* ---- test data ---- */

static bool is_file(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Those that have a file; of the others the model must say what they are. */
static int read_inputs(const check_args *a, const char *folder, nacre_session *s, feed *f) {
    nacre_error err;
    size_t n = nacre_session_n_inputs(s);
    for (size_t i = 0; i < n; i++) {
        char path[4096];
        const char *name = nacre_session_input_name(s, i);
        nacre_kind kind = nacre_session_input_kind(s, i);
        nacre_value **to = &f->in[f->n_in];
        snprintf(path, sizeof path, "%s/input_%zu.pb", folder, i);
        if (!is_file(path) && nacre_session_input_optional(s, i)) continue;
        if (!is_file(path)) return cli_fail("'%s' has no input_%zu.pb for input '%s'", folder, i, name);
        if (value_read(path, "", kind, NACRE_UNDEFINED, -1, NULL, to, &err) != NACRE_OK) return cli_error(&err);
        if (a->c.half) value_round_to_half(*to);
        f->in_names[f->n_in++] = name;
    }
    return EXIT_DONE;
}

static int compare_outputs(const check_args *a, const char *folder, nacre_session *s, const feed *f) {
    nacre_error err;
    bool differs = false;
    size_t compared = 0;
    for (size_t i = 0; i < f->n_out; i++) {
        char path[4096];
        nacre_value *want;
        snprintf(path, sizeof path, "%s/output_%zu.pb", folder, i);
        if (!is_file(path)) continue;
        if (value_read(path, "", nacre_session_output_kind(s, i), NACRE_UNDEFINED, -1, NULL, &want, &err) != NACRE_OK)
            return cli_error(&err);
        if (check_report(f->out_names[i], f->out[i], want, a, false)) differs = true;
        nacre_value_release(want);
        compared++;
    }
    if (!compared) return cli_fail("'%s' has no output_0.pb", folder);
    return differs ? EXIT_DIFFERS : EXIT_DONE;
}

static int check_set(const check_args *a, const char *folder, nacre_session *s) {
    size_t n_in = nacre_session_n_inputs(s), n_out = nacre_session_n_outputs(s);
    feed f = {.n_out = n_out,
              .in_names = calloc(n_in + 1, sizeof *f.in_names),
              .out_names = calloc(n_out + 1, sizeof *f.out_names),
              .in = calloc(n_in + 1, sizeof *f.in),
              .out = calloc(n_out + 1, sizeof *f.out)};
    nacre_run_options *r = NULL;
    int code = f.in_names && f.out_names && f.in && f.out ? EXIT_DONE : cli_fail("out of memory");
    for (size_t i = 0; code == EXIT_DONE && i < n_out; i++) f.out_names[i] = nacre_session_output_name(s, i);
    if (code == EXIT_DONE) code = read_inputs(a, folder, s, &f);
    if (code == EXIT_DONE) code = cancel_options(&r);
    if (code == EXIT_DONE) code = feed_run(s, r, &f);
    if (code == EXIT_DONE) {
        printf("%s\n", folder);
        code = compare_outputs(a, folder, s, &f);
    }
    if (r) cancel_release(r);
    feed_release(&f);
    return code;
}

static int worse(int a, int b) { return a == EXIT_DONE || (a == EXIT_DIFFERS && b != EXIT_DONE) ? b : a; }

/* A folder with data sets in it stands for all of them, in order of name. */
static int check_folder(const check_args *a, const char *folder, nacre_session *s) {
    struct dirent **names;
    int n = scandir(folder, &names, NULL, alphasort), code = EXIT_DONE, sets = 0;
    if (n < 0) return cli_fail("'%s' is no folder that can be read", folder);
    for (int i = 0; i < n; i++) {
        char path[4096];
        if (strncmp(names[i]->d_name, "test_data_set_", 14) == 0 &&
            (size_t)snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name) < sizeof path) {
            code = worse(code, check_set(a, path, s));
            sets++;
        }
        free(names[i]);
    }
    free(names);
    return sets ? code : check_set(a, folder, s);
}

/* ---- two files ---- */

static bool is_value_file(const char *path) {
    const char *dot = path ? strrchr(path, '.') : NULL;
    return dot && (strcmp(dot, ".npy") == 0 || strcmp(dot, ".pb") == 0);
}

static int check_files(check_args *a) {
    nacre_error err;
    nacre_value *got = NULL, *want = NULL;
    if (a->folders.n != 1 || !is_value_file(a->folders.v[0]))
        return cli_usage("check", "'%s' is a tensor: give one more to compare it with (.npy or .pb)", a->c.model);
    int code = EXIT_DONE;
    if (value_read(a->c.model, "", NACRE_KIND_TENSOR, NACRE_UNDEFINED, -1, NULL, &got, &err) != NACRE_OK ||
        value_read(a->folders.v[0], "", NACRE_KIND_TENSOR, NACRE_UNDEFINED, -1, NULL, &want, &err) != NACRE_OK)
        code = cli_error(&err);
    a->any_type = true;
    if (code == EXIT_DONE && check_report(a->c.model, got, want, a, false)) code = EXIT_DIFFERS;
    nacre_value_release(got);
    nacre_value_release(want);
    return code;
}

int cmd_check(int argc, char **argv) {
    check_args a = {.rtol = 1e-3, .atol = 1e-5};
    const arg known[] = {
        {"", ARG_TEXT, &a.c.model, 0},          {"", ARG_LIST, &a.folders, 0},      COMMON_ARGS(a.c),
        {"--against", ARG_TEXT, &a.against, 0}, {"--rtol", ARG_NUMBER, &a.rtol, 0}, {"--atol", ARG_NUMBER, &a.atol, 0},
        {"--half", ARG_FLAG, &a.c.half, 0},     {NULL, ARG_FLAG, NULL, 0}};
    int code = args_parse("check", help, argc, argv, known);
    if (code != EXIT_DONE) return code < 0 ? EXIT_DONE : code;
    static const char *const sides[] = {"off", "basic", "extended", "all", "ort"};
    bool good = !a.against;
    for (int i = 0; i < 5 && !good; i++) good = strcmp(a.against, sides[i]) == 0;
    if (!good) return cli_usage("check", "--against wants off, basic, extended, all or ort, got '%s'", a.against);
    if (is_value_file(a.c.model)) return check_files(&a);
    opened o;
    code = open_all("check", &a.c, NULL, &o);
    if (code != EXIT_DONE) return code;
    printf("valid: %s\n", a.c.model);
    for (int i = 0; i < a.folders.n; i++) code = worse(code, check_folder(&a, a.folders.v[i], o.session));
    if (a.against) code = worse(code, check_against(&a, o.env));
    open_close(&o);
    return code;
}
