/* api/plugin.c: custom ops from shared libraries: each becomes a card and a dynamic binding. A library is a registry of
 * its own, layered over what was there before; it is complete when it is published and never changes after, so models
 * are loaded while others register. It stays open until the environment goes; models and sessions hold that. */
#include "api/api.h"
#include "nacre/nacre_plugin.h"

#include "base/mem.h"
#include "ops/card.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct custom {
    nc_card card;
    nc_op_version versions[2];
    nc_binding rows[2];
    nacre_op op;
    struct custom *next;
} custom;

typedef struct library {
    nc_layer layer; /* first: its hooks get a pointer to it */
    nc_arena arena;
    custom *ops;
    void *handle;
} library;

/* ---- kernels ---- */

/* What run gets of the node: attributes are copied by reference at prepare, the node lives as long as the program. */
typedef struct prepared {
    const custom *c;
    const nc_node *node;
} prepared;

struct nacre_op_call {
    nc_dyn *d;
    const prepared *p;
};

static size_t n_inputs(const nacre_op_call *c) { return (size_t)c->p->node->n_in; }
static size_t n_outputs(const nacre_op_call *c) { return (size_t)c->p->node->n_out; }

static void fill(nacre_op_tensor *out, const nc_tensor *t) {
    *out = (nacre_op_tensor){
        .size = sizeof *out, .type = (nacre_type)t->dtype, .rank = t->rank, .dims = t->dims, .data = t->data};
}

static nacre_code fail(nacre_op_call *c, nacre_code code, const char *text) {
    const nc_call *k = c->d->call;
    return (nacre_code)nc_diag_set(k->diag, (nc_code)code, k->node, k->op, "%s", text);
}

static nacre_code input(nacre_op_call *c, size_t i, nacre_op_tensor *out) {
    if (i >= n_inputs(c)) return fail(c, NACRE_ARGUMENT, "the kernel asked for an input that the node does not have");
    fill(out, c->d->call->in[i]);
    return NACRE_OK;
}

static nacre_code output(nacre_op_call *c, size_t i, nacre_type type, int rank, const int64_t *dims,
                         nacre_op_tensor *out) {
    if (i >= n_outputs(c)) return fail(c, NACRE_ARGUMENT, "the kernel asked for an output that the node does not have");
    if (!nc_dtype_bits((nc_dtype)type))
        return fail(c, NACRE_TYPE, "the kernel asked for an output of unknown element type");
    int64_t n;
    if (rank < 0 || rank > NC_MAX_RANK || !nc_numel(dims, rank, &n))
        return fail(c, NACRE_SHAPE, "the kernel asked for an impossible output shape");
    nc_tensor t;
    nc_code code = c->d->alloc(c->d, (int)i, (nc_dtype)type, rank, dims, &t);
    if (code != NC_OK) return (nacre_code)code;
    fill(out, &t);
    out->dims = c->d->out[i]->t.dims;
    return NACRE_OK;
}

static int64_t attr_int(const nacre_op_call *c, const char *name, int64_t fallback) {
    const nc_attr *a = nc_node_attr(c->p->node, name);
    return a && a->kind == NC_A_INT ? a->i : fallback;
}

static double attr_float(const nacre_op_call *c, const char *name, double fallback) {
    const nc_attr *a = nc_node_attr(c->p->node, name);
    return a && a->kind == NC_A_FLOAT ? (double)a->f : fallback;
}

static const char *attr_string(const nacre_op_call *c, const char *name, const char *fallback) {
    const nc_attr *a = nc_node_attr(c->p->node, name);
    return a && a->kind == NC_A_STRING ? a->s.p : fallback;
}

static int cancelled(const nacre_op_call *c) { return c->d->cancelled(c->d); }

static const nacre_op_api op_api = {sizeof(nacre_op_api), n_inputs,    n_outputs, input, output, attr_int,
                                    attr_float,           attr_string, cancelled, fail};

static nc_code prepare(nc_prep *p) {
    prepared *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (prepared){.c = (const custom *)p->node->card, .node = p->node};
    p->state = s;
    return NC_OK;
}

static nc_code run(nc_dyn *d) {
    nacre_op_call c = {d, d->call->state};
    const nacre_op *op = &c.p->c->op;
    nc_code code = (nc_code)op->run(op->user, &c, &op_api);
    if (code != NC_OK && !d->call->diag->code) fail(&c, (nacre_code)code, "the custom op's kernel failed");
    return code;
}

/* ---- cards ---- */

static nc_code infer(nc_infer *c) {
    const nacre_op *op = &((const custom *)c->node->card)->op;
    const nc_type *first = c->node->n_in ? nc_in(c, 0) : NULL;
    for (int i = 0; i < c->node->n_out; i++) {
        nacre_type t = op->output_types ? op->output_types[i] : NACRE_UNDEFINED;
        int rank = op->output_ranks ? op->output_ranks[i] : -1;
        if (t == NACRE_UNDEFINED && first) t = (nacre_type)first->elem;
        if (rank < 0 && first) rank = first->rank;
        if (t == NACRE_UNDEFINED) NC_FAIL(c->w, NC_E_TYPE, "the element type of output %d is not known", i);
        NC_TRY(nc_out_unknown(c, i, (nc_dtype)t, rank));
    }
    return NC_OK;
}

static const nc_param *make_params(nc_arena *a, size_t min, size_t max, bool out) {
    nc_param *p = nc_arena_array(a, max + 1, sizeof *p);
    for (size_t i = 0; p && i < max; i++) {
        p[i] = (nc_param){.types = T_TENSOR_ALL, .flags = i >= min ? NC_P_OPTIONAL : 0};
        if (!(p[i].name = nc_arena_printf(a, "%s%zu", out ? "out" : "in", i))) return NULL;
    }
    return p;
}

static bool fill_custom(library *s, custom *c, const nacre_op *op) {
    static const nc_attr_spec any_attr[] = {{.name = "*"}, {0}}; /* whatever the model writes */
    c->op = *op;
    c->op.domain = nc_arena_str(&s->arena, op->domain), c->op.name = nc_arena_str(&s->arena, op->name);
    size_t n = op->n_outputs;
    if (op->output_types) c->op.output_types = nc_arena_copy(&s->arena, op->output_types, n * sizeof *op->output_types);
    if (op->output_ranks) c->op.output_ranks = nc_arena_copy(&s->arena, op->output_ranks, n * sizeof *op->output_ranks);
    c->versions[0] = (nc_op_version){.since = op->since > 0 ? op->since : 1, .attr = any_attr};
    c->versions[0].in = make_params(&s->arena, op->min_inputs, op->max_inputs, false);
    c->versions[0].out = make_params(&s->arena, n, n, true);
    c->rows[0] = (nc_binding){
        .op = c->op.name, .domain = c->op.domain, .kind = NC_K_DYNAMIC, .prepare = prepare, .dynamic = run};
    c->card = (nc_card){.name = c->op.name,
                        .domain = c->op.domain,
                        .doc = "A custom op from a plugin.",
                        .versions = c->versions,
                        .infer = infer,
                        .rows = c->rows};
    return c->op.domain && c->op.name && c->versions[0].in && c->versions[0].out &&
           (!op->output_types || c->op.output_types) && (!op->output_ranks || c->op.output_ranks);
}

/* Without these there is no op. */
#define OP_BYTES_LEAST offsetof(nacre_op, user)
/* Older headers know fewer fields: the rest is zero. Newer ones know more: those are not for this host. */
static bool read_op(const nacre_op *given, nacre_op *op) {
    if (!given || given->size < OP_BYTES_LEAST) return false;
    *op = (nacre_op){.size = sizeof *op};
    memcpy(op, given, given->size < sizeof *op ? given->size : sizeof *op);
    return op->domain && op->domain[0] && op->name && op->run && op->min_inputs <= op->max_inputs &&
           op->max_inputs <= 64 && op->n_outputs >= 1 && op->n_outputs <= 64;
}

static nacre_code add_op(nacre_plugin_host *host, const nacre_op *given) {
    library *s = host->internal;
    nacre_op op;
    if (!read_op(given, &op)) return NACRE_ARGUMENT;
    custom *c = nc_arena_alloc(&s->arena, sizeof *c);
    if (!c || !fill_custom(s, c, &op)) return NACRE_MEMORY;
    c->next = s->ops, s->ops = c;
    return NACRE_OK;
}

static const nc_card *find(const nc_registry *r, const char *domain, const char *op) {
    const library *s = (const library *)r;
    for (const custom *c = s->ops; c; c = c->next)
        if (strcmp(c->op.domain, domain) == 0 && strcmp(c->op.name, op) == 0) return &c->card;
    return r->base->find(r->base, domain, op);
}

static void close_library(nc_layer *l) {
    library *s = (library *)l;
    if (s->handle) dlclose(s->handle);
    nc_arena_release(&s->arena);
    nc_free(s);
}

static nc_code check_version(nc_work *w, void *handle) {
    const int *version = dlsym(handle, "nacre_plugin_version");
    if (!version || *version <= NACRE_PLUGIN_VERSION) return NC_OK;
    NC_FAIL(w, NC_E_UNSUPPORTED, "it is for version %d of nacre_plugin.h, this is version %d", *version,
            NACRE_PLUGIN_VERSION);
}

static nc_code open_library(nc_work *w, const char *path, library *s) {
    s->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!s->handle) NC_FAIL(w, NC_E_NO_FILE, "%s", dlerror());
    nacre_plugin_register_fn entry = NULL;
    *(void **)&entry = dlsym(s->handle, "nacre_plugin_register");
    if (!entry) NC_FAIL(w, NC_E_BAD_MODEL, "it does not export nacre_plugin_register");
    NC_TRY(check_version(w, s->handle));
    nacre_plugin_host host = {sizeof host, NACRE_PLUGIN_VERSION, add_op, s};
    nacre_code code = entry(&host);
    if (code != NACRE_OK) NC_FAIL(w, (nc_code)code, "it refused to register");
    return NC_OK;
}

/* The library's own code runs without a lock. */
static nc_code load(nc_work *w, nc_env *env, const char *path) {
    library *s = nc_alloc_zero(1, sizeof *s);
    NC_NEED(w, s);
    w->at_node = path, w->at_op = "plugin";
    nc_code code = open_library(w, path, s);
    if (code != NC_OK) {
        close_library(&s->layer);
        return code;
    }
    s->layer = (nc_layer){.registry = {.find = find}, .release = close_library};
    nc_env_add_layer(env, &s->layer);
    return NC_OK;
}

nacre_code nacre_env_load_plugin(nacre_env *env, const char *path, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    nc_code code = load(&w, env->env, path);
    return nc_api_end(&w, code, err);
}
