/* tests/fault.c: lives with one failure. What the sweep itself needs (inputs, names, the wanted hash) is
 * made before the first failure is armed, and comparing outputs allocates nothing. */
#include "tests/fault.h"

#include "base/map.h"
#include "base/mem.h"
#include "nacre/nacre_graph.h"
#include "nacre/nacre_train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_IO 64
#define LARGE_MODEL 200
#define SAMPLES 500

typedef struct sweep {
    const nc_fault_job *job;
    nc_fault_result *result;
    char *in_names[MOST_IO], *out_names[MOST_IO];
    nacre_value *in[MOST_IO];
    size_t n_in, n_out, n_nodes;
} sweep;

typedef struct life {
    const sweep *s;
    nacre_env *env;
    nacre_model *model;
    nacre_options *options;
    nacre_session *session;
    nacre_error err;
    uint64_t hash;
} life;

static const nc_fault_source allocations = {.name = "allocation",
                                            .fail_at = nc_mem_fail_at,
                                            .hit = nc_mem_fail_hit,
                                            .count = nc_mem_count,
                                            .code = NACRE_MEMORY};

static const nc_fault_source *source_of(const sweep *s) { return s->job->source ? s->job->source : &allocations; }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the steps of a life ---- */

static nacre_code make_env(life *x) {
    nacre_code code = x->env ? NACRE_OK : nacre_env_create(1, &x->env, &x->err);
    return code == NACRE_OK && x->s->job->plugin ? nacre_env_load_plugin(x->env, x->s->job->plugin, &x->err) : code;
}

static nacre_code make_options(life *x) {
    const nc_fault_job *job = x->s->job;
    nacre_options_release(x->options);
    x->options = NULL;
    nacre_code code = nacre_options_create(&x->options, &x->err);
    if (code == NACRE_OK) code = nacre_options_set(x->options, "device", job->device ? job->device : "cpu", &x->err);
    if (code == NACRE_OK && job->capture) code = nacre_options_set(x->options, "capture", "on", &x->err);
    if (code == NACRE_OK && job->save) code = nacre_options_set(x->options, "save", job->save, &x->err);
    if (code == NACRE_OK && job->packed_file)
        code = nacre_options_set(x->options, "packed_file", job->packed_file, &x->err);
    if (code == NACRE_OK && job->variables) code = nacre_options_set(x->options, "variables", job->variables, &x->err);
    if (code == NACRE_OK && job->loss) code = nacre_options_sgd(x->options, job->loss, NULL, 0, "lr", &x->err);
    return code;
}

static nacre_code load(life *x) { return nacre_model_load(x->env, x->s->job->path, &x->model, &x->err); }

/* A session takes its model also when it fails. */
static nacre_code make_session(life *x) {
    nacre_code code = x->model ? NACRE_OK : load(x);
    if (code != NACRE_OK) return code;
    nacre_model *m = x->model;
    x->model = NULL;
    return nacre_session_create(x->env, m, x->options, &x->session, &x->err);
}

static uint64_t hash_value(nacre_value *v, uint64_t h) {
    if (!v) return h + 1;
    int64_t head[3] = {(int64_t)nacre_value_kind(v), (int64_t)nacre_value_type(v), nacre_value_count(v)};
    h = nc_hash(head, sizeof head, h);
    if (head[0] != NACRE_KIND_TENSOR) {
        int64_t n = head[0] == NACRE_KIND_MAP ? 2 : head[2];
        for (int64_t i = 0; i < n; i++) {
            nacre_value *item = nacre_value_item(v, i);
            h = hash_value(item, h);
            nacre_value_release(item);
        }
        return h;
    }
    h = nc_hash(nacre_value_dims(v), (size_t)nacre_value_rank(v) * sizeof(int64_t), h);
    for (int64_t i = 0; head[1] == NACRE_STRING && i < head[2]; i++) {
        size_t n;
        const char *text = nacre_value_string(v, i, &n);
        h = nc_hash(text, n, h);
    }
    size_t bytes = (size_t)head[2] * nacre_type_bytes((nacre_type)head[1]);
    return bytes ? nc_hash(nacre_value_data(v), bytes, h) : h;
}

static nacre_code run_once(life *x) {
    const sweep *s = x->s;
    nacre_value *out[MOST_IO] = {0};
    if (s->job->loss) { /* a step that failed half way left the parameters dirty, one that did not has moved them */
        nacre_code code = nacre_state_reset(x->session, NULL, &x->err);
        if (code != NACRE_OK) return code;
    }
    nacre_code code = nacre_run(x->session, NULL, (const char *const *)s->in_names, s->in, s->n_in,
                                (const char *const *)s->out_names, s->n_out, out, &x->err);
    x->hash = 0;
    for (size_t i = 0; code == NACRE_OK && i < s->n_out; i++) x->hash = hash_value(out[i], x->hash);
    for (size_t i = 0; i < s->n_out; i++) nacre_value_release(out[i]);
    return code;
}

static nacre_code run(life *x) {
    nacre_code code = NACRE_OK;
    for (int i = 0; i < (x->s->job->capture ? 3 : 1) && code == NACRE_OK; i++) code = run_once(x);
    return code;
}

static const struct {
    const char *name;
    nacre_code (*step)(life *x);
} steps[] = {
    {"environment", make_env}, {"options", make_options}, {"load", load}, {"session", make_session}, {"run", run}};
enum { N_STEPS = sizeof steps / sizeof steps[0], RUN = N_STEPS - 1 };

static void end(life *x) {
    nacre_session_release(x->session);
    nacre_model_release(x->model);
    nacre_options_release(x->options);
    nacre_env_release(x->env);
}

/* ---- inputs ---- */

static nacre_value *read_value(const char *path, nacre_kind kind) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    nacre_value *v = NULL;
    size_t cap = (size_t)16 << 20, n = 0;
    char *bytes = malloc(cap);
    if (bytes) n = fread(bytes, 1, cap, f);
    if (bytes && nacre_value_from_proto(kind, bytes, n, &v, NULL) != NACRE_OK) v = NULL;
    free(bytes);
    fclose(f);
    return v;
}

/* Floats in [-1, 1), small whole numbers, alternating truths, short words: what most models take. */
static nacre_value *make_up(const nacre_signature *g, nacre_type type) {
    int64_t dims[16] = {0}, count = 1;
    for (int d = 0; d < g->rank; d++) count *= dims[d] = g->dims[d] < 0 ? 3 : g->dims[d];
    int rank = g->rank < 0 ? 0 : g->rank;
    nacre_value *v = NULL;
    if (type == NACRE_STRING) {
        static const char *const words[] = {"a", "bc", "", "d e", "a", "f", "7", "2.5"};
        const char *texts[64];
        for (int i = 0; i < 64; i++) texts[i] = words[i % 8];
        return count <= 64 && nacre_value_strings(rank, dims, texts, &v, NULL) == NACRE_OK ? v : NULL;
    }
    if (nacre_value_new_tensor(type, rank, dims, &v, NULL) != NACRE_OK) return NULL;
    unsigned char *p = nacre_value_data(v);
    size_t size = nacre_type_bytes(type);
    for (int64_t i = 0; i < count; i++) {
        float x = (float)((i * 37 + 11) % 64) / 32 - 1;
        if (type == NACRE_FLOAT)
            memcpy(p + i * 4, &x, 4);
        else if (type == NACRE_DOUBLE)
            memcpy(p + i * 8, &(double){(double)x}, 8);
        else if (type != NACRE_FLOAT16 && type != NACRE_BFLOAT16)
            p[(size_t)i * size] = (unsigned char)(i % 2);
    }
    return v;
}

static bool find_input(sweep *s, nacre_session *session, size_t i) {
    nacre_signature g;
    char path[4096];
    if (nacre_session_signature(session, NACRE_INPUT, i, &g, NULL) != NACRE_OK) return false;
    nacre_type type = nacre_session_input_type(session, i, &(int){0}, (int64_t[16]){0});
    if (s->job->data) {
        snprintf(path, sizeof path, "%s/input_%zu.pb", s->job->data, i);
        s->in[i] = read_value(path, nacre_session_input_kind(session, i));
    } else if (nacre_session_input_kind(session, i) == NACRE_KIND_TENSOR) {
        s->in[i] = make_up(&g, type);
        if (s->in[i] && strcmp(g.name, "lr") == 0) *(float *)nacre_value_data(s->in[i]) = 0.1f;
    }
    s->in_names[i] = strdup(g.name);
    return s->in[i] && s->in_names[i];
}

static bool find_io(sweep *s, nacre_session *session) {
    size_t n_in = nacre_session_n(session, NACRE_INPUT), n_out = nacre_session_n(session, NACRE_OUTPUT);
    if (n_in > MOST_IO || n_out > MOST_IO) return false;
    for (; s->n_in < n_in; s->n_in++)
        if (!find_input(s, session, s->n_in)) return false;
    for (; s->n_out < n_out; s->n_out++) s->out_names[s->n_out] = strdup(nacre_session_output_name(session, s->n_out));
    return true;
}

static void release(sweep *s) {
    for (size_t i = 0; i < MOST_IO; i++) {
        nacre_value_release(s->in[i]);
        free(s->in_names[i]);
        free(s->out_names[i]);
    }
}

/* ---- the sweep ---- */

/* A whole life; a step that reports the failure is tried once more, the failure being over. False: result->wrong says
 * why. */
static bool live(sweep *s, uint64_t n, uint64_t *hash, bool *survived) {
    life x = {.s = s};
    nc_fault_result *r = s->result;
    const nc_fault_source *from = source_of(s);
    *survived = true;
    for (int i = 0; i < N_STEPS && !r->wrong[0]; i++) {
        nacre_code code = steps[i].step(&x);
        if ((code == NACRE_MEMORY || (int)code == from->code) && from->hit() && *survived) {
            *survived = false;
            code = steps[i].step(&x);
        }
        if (code != NACRE_OK)
            snprintf(r->wrong, sizeof r->wrong, "%s %llu%s: %s: %s: %.400s", from->name, (unsigned long long)n,
                     *survived ? "" : ", second try", steps[i].name, nacre_code_name(code), x.err.text);
    }
    *hash = x.hash;
    end(&x);
    return !r->wrong[0];
}

static bool learn(sweep *s) {
    life x = {.s = s};
    nacre_code code = NACRE_OK;
    for (int i = 0; i < RUN && code == NACRE_OK; i++) {
        code = steps[i].step(&x);
        if (code == NACRE_OK && x.model) s->n_nodes = nacre_graph_n_nodes(nacre_model_graph(x.model));
    }
    bool good = code == NACRE_OK && find_io(s, x.session);
    if (!good)
        snprintf(s->result->wrong, sizeof s->result->wrong, "%s",
                 code == NACRE_OK ? "its inputs could not be made" : x.err.text);
    end(&x);
    return good;
}

static void check_one(sweep *s, uint64_t n, uint64_t want, uint64_t live_blocks) {
    nc_fault_result *r = s->result;
    const nc_fault_source *from = source_of(s);
    uint64_t hash;
    bool survived;
    from->fail_at(n);
    bool good = live(s, n, &hash, &survived);
    bool hit = from->hit();
    const char *left = from->left ? from->left() : NULL;
    from->fail_at(0);
    if (!hit) return;
    r->n_tried++;
    r->n_survived += survived;
    if (good && hash != want)
        snprintf(r->wrong, sizeof r->wrong, "%s %llu: other outputs", from->name, (unsigned long long)n);
    if (left && !r->wrong[0])
        snprintf(r->wrong, sizeof r->wrong, "%s %llu: %s", from->name, (unsigned long long)n, left);
    if (nc_mem_live() != live_blocks && !r->wrong[0])
        snprintf(r->wrong, sizeof r->wrong, "%s %llu: %lld blocks leaked", from->name, (unsigned long long)n,
                 (long long)(nc_mem_live() - live_blocks));
}

void nc_fault_sweep(const nc_fault_job *job, nc_fault_result *out) {
    *out = (nc_fault_result){0};
    sweep s = {.job = job, .result = out};
    uint64_t want = 0, again;
    bool survived;
    double start = now();
    out->not_run = !learn(&s) || !live(&s, 0, &want, &survived);
    uint64_t before = source_of(&s)->count(), blocks = nc_mem_live();
    if (!out->not_run && live(&s, 0, &again, &survived)) {
        out->n_allocs = source_of(&s)->count() - before;
        if (again != want) snprintf(out->wrong, sizeof out->wrong, "two lives without a failure differ");
        if (nc_mem_live() != blocks) snprintf(out->wrong, sizeof out->wrong, "a life without a failure leaks");
        uint64_t most = job->most ? (uint64_t)job->most : s.n_nodes > LARGE_MODEL ? SAMPLES : out->n_allocs;
        if (most > out->n_allocs) most = out->n_allocs;
        for (uint64_t k = 0; k < most && !out->wrong[0] && !out->cut; k++) {
            check_one(&s, 1 + k * out->n_allocs / most, want, blocks);
            out->cut = job->seconds > 0 && now() - start > job->seconds;
        }
    }
    release(&s);
}
