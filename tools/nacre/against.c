/* tools/nacre/against.c: nacre check --against: every tensor of the graph compared with another level or onnxruntime.
 *
 * Every result of the main graph is made an output on both sides. That can hide a fault of a fusion, since a tensor
 * that is an output cannot be fused away: so the outputs alone are compared too, and where only they differ, tensors
 * are exposed one at a time until the first that differs is found. */
#include "check.h"

#include "nacre/nacre_graph.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct names {
    char **v;
    size_t n;
} names;

static void names_release(names *l) {
    for (size_t i = 0; i < l->n; i++) free(l->v[i]);
    free(l->v);
    *l = (names){NULL, 0};
}

/* What the nodes of the main graph make, in graph order. */
static bool names_of(const nacre_model *m, names *out) {
    size_t most = 1;
    const nacre_graph *g = nacre_model_graph(m);
    for (const nacre_node *n = nacre_graph_first(g); n; n = nacre_node_next(n)) most += nacre_node_n_outputs(n);
    *out = (names){calloc(most, sizeof *out->v), 0};
    for (const nacre_node *n = nacre_graph_first(g); out->v && n; n = nacre_node_next(n))
        for (size_t i = 0; i < nacre_node_n_outputs(n); i++) {
            const nacre_graph_value *v = nacre_node_output(n, i);
            if (v && !(out->v[out->n++] = strdup(nacre_graph_value_name(v)))) return false;
        }
    return out->v != NULL;
}

static int expose(nacre_model *m, const names *l, size_t from, size_t to) {
    nacre_error err;
    for (size_t i = from; i < to; i++)
        if (nacre_model_add_output(m, l->v[i], &err) != NACRE_OK) return cli_error(&err);
    return EXIT_DONE;
}

/* A session over the model with tensors [from, to) exposed, run once. */
typedef struct ran {
    nacre_session *s;
    feed f;
} ran;

static void ran_release(ran *r) {
    feed_release(&r->f);
    nacre_session_release(r->s);
    *r = (ran){.s = NULL};
}

static int run_exposed(const common *c, nacre_env *env, const nacre_model *m, const names *l, size_t from, size_t to,
                       nacre_run_options *cancel, ran *out) {
    nacre_error err;
    nacre_model *copy;
    *out = (ran){.s = NULL};
    if (nacre_model_clone(m, &copy, &err) != NACRE_OK) return cli_error(&err);
    int code = expose(copy, l, from, to);
    if (code != EXIT_DONE)
        nacre_model_release(copy);
    else
        code = open_session("check", c, env, copy, NULL, NULL, &out->s);
    if (code == EXIT_DONE) code = feed_make("check", c, out->s, &out->f);
    if (code == EXIT_DONE) code = feed_run(out->s, cancel, &out->f);
    if (code != EXIT_DONE) ran_release(out);
    return code;
}

static nacre_value *output_of(const ran *r, const char *name) {
    for (size_t i = 0; i < r->f.n_out; i++)
        if (strcmp(r->f.out_names[i], name) == 0) return r->f.out[i];
    return NULL;
}

/* ---- two sessions ---- */

/* Compares what both have, in graph order; *first is the name of the first that differs. */
static size_t compare_all(const check_args *a, const ran *got, const ran *want, const names *l, const char **first) {
    size_t compared = 0;
    *first = NULL;
    for (size_t i = 0; i < l->n && !*first; i++) {
        nacre_value *x = output_of(got, l->v[i]), *y = output_of(want, l->v[i]);
        if (!x || !y) continue;
        compared++;
        if (check_report(l->v[i], x, y, a, true)) *first = l->v[i];
    }
    for (size_t i = 0; i < got->f.n_out && !*first; i++) { /* outputs under names of their own */
        bool done = false;
        for (size_t k = 0; k < l->n; k++) done = done || strcmp(l->v[k], got->f.out_names[i]) == 0;
        nacre_value *y = done ? NULL : output_of(want, got->f.out_names[i]);
        compared += y != NULL;
        if (y && check_report(got->f.out_names[i], got->f.out[i], y, a, true)) *first = got->f.out_names[i];
    }
    return compared;
}

static int one_by_one(const check_args *a, nacre_env *env, const nacre_model *m, const names *l, const ran *want,
                      nacre_run_options *cancel, const char **first) {
    int code = EXIT_DONE;
    progress p;
    progress_start(&p, "comparing", (long long)l->n);
    for (size_t i = 0; i < l->n && code == EXIT_DONE && !*first; i++) {
        ran got;
        code = run_exposed(&a->c, env, m, l, i, i + 1, cancel, &got);
        if (code != EXIT_DONE) break;
        nacre_value *x = output_of(&got, l->v[i]), *y = output_of(want, l->v[i]);
        if (x && y && check_report(l->v[i], x, y, a, true)) *first = l->v[i];
        ran_release(&got);
        atomic_store(&p.done, (long long)i + 1);
    }
    progress_end(&p);
    return code;
}

static int verdict(const char *first, size_t compared, const char *against) {
    if (!first) {
        printf("equal: %zu tensors against %s\n", compared, against);
        return EXIT_DONE;
    }
    printf("the first tensor that differs is '%s'\n", first);
    return EXIT_DIFFERS;
}

/* want: every tensor, by the other side. */
static int judge(const check_args *a, nacre_env *env, const nacre_model *m, const names *l, const ran *want,
                 nacre_run_options *cancel) {
    ran all, plain;
    const char *first = NULL;
    size_t compared = 0;
    int code = run_exposed(&a->c, env, m, l, 0, l->n, cancel, &all);
    if (code != EXIT_DONE) return code;
    compared = compare_all(a, &all, want, l, &first);
    if (!first) {
        code = run_exposed(&a->c, env, m, l, 0, 0, cancel, &plain);
        if (code == EXIT_DONE) {
            const char *output;
            compare_all(a, &plain, want, l, &output);
            if (output) code = one_by_one(a, env, m, l, want, cancel, &first);
            if (output && !first) {
                printf("'%s' differs only while no other tensor is an output\n", output);
                code = EXIT_DIFFERS;
            }
            ran_release(&plain);
        }
    }
    if (code == EXIT_DONE) code = verdict(first, compared, a->against);
    ran_release(&all);
    return code;
}

/* ---- onnxruntime ---- */

static const char script[] =
    "import sys, os\n"
    "try:\n"
    "    import numpy, onnxruntime\n"
    "except ImportError as e:\n"
    "    sys.exit('python3 cannot import onnxruntime: %s' % e)\n"
    "folder = sys.argv[1]\n"
    "o = onnxruntime.SessionOptions()\n"
    "o.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL\n"
    "o.log_severity_level = 3\n"
    "try:\n"
    "    s = onnxruntime.InferenceSession(os.path.join(folder, 'model.onnx'), o, providers=['CPUExecutionProvider'])\n"
    "    feed = {x.name: numpy.load(os.path.join(folder, 'in_%d.npy' % i)) for i, x in enumerate(s.get_inputs())}\n"
    "    for i, y in enumerate(s.run(None, feed)):\n"
    "        if isinstance(y, numpy.ndarray) and y.dtype.kind in 'fiub':\n"
    "            numpy.save(os.path.join(folder, 'out_%d.npy' % i), numpy.ascontiguousarray(y).reshape(y.shape))\n"
    "except Exception as e:\n"
    "    sys.exit('onnxruntime: %s' % e)\n";

static int call_python(const char *folder) {
    const char *python = getenv("NACRE_PYTHON");
    if (!python || !*python) python = "python3";
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) return cli_fail("cannot start %s", python);
    if (child == 0) {
        execlp(python, python, "-c", script, folder, (char *)NULL);
        fprintf(stderr, "nacre: cannot start %s\n", python);
        _exit(127);
    }
    int status;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return cli_fail("onnxruntime gave no results");
    return EXIT_DONE;
}

static void clean(const char *folder, size_t n_in, size_t n_out) {
    char path[4200];
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    unlink(path);
    for (size_t i = 0; i < n_in; i++) {
        snprintf(path, sizeof path, "%s/in_%zu.npy", folder, i);
        unlink(path);
    }
    for (size_t i = 0; i < n_out; i++) {
        snprintf(path, sizeof path, "%s/out_%zu.npy", folder, i);
        unlink(path);
    }
    rmdir(folder);
}

/* Puts what onnxruntime made in place of the outputs in *mine: a run of the exposed model. */
static int replace_outputs(const char *folder, ran *mine) {
    nacre_error err;
    size_t got = 0;
    for (size_t i = 0; i < mine->f.n_out; i++) {
        char path[4200];
        nacre_value *v = NULL;
        snprintf(path, sizeof path, "%s/out_%zu.npy", folder, i);
        if (access(path, R_OK) == 0 &&
            value_read(path, "", NACRE_KIND_TENSOR, NACRE_UNDEFINED, -1, NULL, &v, &err) != NACRE_OK)
            return cli_error(&err);
        nacre_value_release(mine->f.out[i]);
        mine->f.out[i] = v;
        got += v != NULL;
    }
    return got ? EXIT_DONE : cli_fail("onnxruntime gave no tensor to compare");
}

static int ask_ort(const nacre_model *m, const names *l, const char *folder, ran *mine) {
    nacre_error err;
    nacre_model *copy;
    char path[4200];
    if (nacre_model_clone(m, &copy, &err) != NACRE_OK) return cli_error(&err);
    int code = nacre_model_infer(copy, &err) == NACRE_OK ? expose(copy, l, 0, l->n) : cli_error(&err);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (code == EXIT_DONE && nacre_model_save(copy, path, &err) != NACRE_OK) code = cli_error(&err);
    nacre_model_release(copy);
    for (size_t i = 0; code == EXIT_DONE && i < mine->f.n_in; i++) {
        snprintf(path, sizeof path, "%s/in_%zu.npy", folder, i);
        if (npy_write(path, mine->f.in[i], &err) != NACRE_OK) code = cli_error(&err);
    }
    if (code == EXIT_DONE) code = call_python(folder);
    return code == EXIT_DONE ? replace_outputs(folder, mine) : code;
}

static int run_ort(const check_args *a, nacre_env *env, const nacre_model *m, const names *l, nacre_run_options *cancel,
                   ran *out) {
    const char *tmp = getenv("TMPDIR");
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/nacre-check-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    int code = run_exposed(&a->c, env, m, l, 0, l->n, cancel, out);
    if (code != EXIT_DONE) return code;
    if (!mkdtemp(folder)) {
        ran_release(out);
        return cli_fail("cannot make a folder like '%s'", folder);
    }
    code = ask_ort(m, l, folder, out);
    clean(folder, out->f.n_in, out->f.n_out);
    if (code != EXIT_DONE) ran_release(out);
    return code;
}

/* ---- the whole ---- */

/* The other side of a level: the same inputs, every other option at its default. */
static int run_level(const check_args *a, nacre_env *env, const nacre_model *m, const names *l,
                     nacre_run_options *cancel, ran *out) {
    char level[32];
    common c = {.model = a->c.model, .inputs = a->c.inputs, .dims = a->c.dims};
    snprintf(level, sizeof level, "level=%s", a->against);
    list_add(&c.sets, level);
    if (strcmp(a->against, "off") == 0) {
        list_add(&c.sets, "fusion=off");
        list_add(&c.sets, "layouts=off");
        list_add(&c.sets, "views=off");
        list_add(&c.sets, "packing=off");
    }
    return run_exposed(&c, env, m, l, 0, l->n, cancel, out);
}

int check_against(const check_args *a, nacre_env *env) {
    nacre_model *m;
    nacre_run_options *cancel;
    names l = {NULL, 0};
    ran want;
    int code = open_model("check", &a->c, env, &m);
    if (code != EXIT_DONE) return code;
    code = cancel_options(&cancel);
    if (code == EXIT_DONE) {
        if (!names_of(m, &l)) code = cli_fail("out of memory");
        bool ort = strcmp(a->against, "ort") == 0;
        if (code == EXIT_DONE)
            code = ort ? run_ort(a, env, m, &l, cancel, &want) : run_level(a, env, m, &l, cancel, &want);
        if (code == EXIT_DONE) {
            code = judge(a, env, m, &l, &want, cancel);
            ran_release(&want);
        }
        cancel_release(cancel);
    }
    names_release(&l);
    nacre_model_release(m);
    return code;
}
