/* device/cuda_dnn.c: cuDNN's graphs made into plans, and plans queued, see cuda_dnn.h. One lock serves the handle,
 * whose stream is set for each call, and the plans.
 *
 * A plan is kept on disk as the text that cuDNN gives of it, beside compiled kernels. Its key is everything that the
 * plan depends on: the description itself, written down instead of made, what was asked of engines, cuDNN's version,
 * driver and GPU. A text that is damaged, or that cuDNN does not take or cannot run, is made anew without a word. That
 * there is no engine is not kept: it may be for want of a library that is there the next time. */
#include "device/cuda_dnn.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "device/cuda_order.h"

#include <pthread.h>
#include <string.h>

enum { MAX_PLANS = 256, MAX_CONFIGS = 16, MAX_NOTES = 16, WORKSPACE_ALIGNMENT = 256 };

typedef struct plan {
    void *key;
    size_t bytes_key;
    cudnnBackendDescriptor handle; /* NULL: cuDNN cannot */
    size_t bytes;                  /* of its workspace */
    bool from_disk;
} plan;

struct nc_cuda_dnn {
    const nc_cuda *cuda;
    cudnnHandle handle;
    pthread_mutex_t mutex;
    int n, next; /* plans; which one goes when there are too many */
    plan plans[MAX_PLANS];
};

/* ---- graphs ---- */

static bool fails(nc_cuda_graph *g, cudnnStatus r, const char *function) {
    if (r == 0) return false;
    g->status = r;
    (void)nc_cuda_check_dnn(r, function, &g->diag);
    return true;
}

static size_t size_of(int type) {
    switch (type) {
    case CUDNN_TYPE_HANDLE: return 0; /* nothing that a description depends on */
    case CUDNN_TYPE_BOOLEAN: return sizeof(bool);
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    default: return 4;
    }
}

/* A descriptor that is only noted is its number, from one. */
static void note(nc_cuda_graph *g, const int64_t head[4], int type, const void *p) {
    nc_text_add_n(g->note, (const char *)head, 4 * sizeof *head);
    if (p != NULL) nc_text_add_n(g->note, p, (size_t)head[3] * size_of(type));
}

cudnnBackendDescriptor nc_cuda_graph_make(nc_cuda_graph *g, int kind) {
    cudnnBackendDescriptor d = NULL;
    if (g->status != 0) return NULL;
    if (g->n_made == NC_CUDA_DNN_MAX_MADE) {
        g->status = CUDNN_STATUS_NOT_SUPPORTED;
        return NULL;
    }
    if (g->note != NULL) {
        note(g, (int64_t[]){kind, 0, 0, 0}, kind, NULL);
        return (cudnnBackendDescriptor)(uintptr_t)++g->n_made;
    }
    if (fails(g, g->cuda->api->cudnnBackendCreateDescriptor(kind, &d), "cudnnBackendCreateDescriptor")) return NULL;
    g->made[g->n_made++] = d;
    return d;
}

void nc_cuda_graph_set(nc_cuda_graph *g, cudnnBackendDescriptor d, int name, int type, int64_t n, const void *p) {
    if (g->status != 0) return;
    if (g->note != NULL)
        note(g, (int64_t[]){(int64_t)(uintptr_t)d, name, type, n}, type, p);
    else
        fails(g, g->cuda->api->cudnnBackendSetAttribute(d, name, type, n, p), "cudnnBackendSetAttribute");
}

void nc_cuda_graph_end(nc_cuda_graph *g, cudnnBackendDescriptor d) {
    if (g->status != 0 || g->note != NULL) return;
    fails(g, g->cuda->api->cudnnBackendFinalize(d), "cudnnBackendFinalize");
}

static void release(nc_cuda_graph *g) {
    while (g->n_made > 0) g->cuda->api->cudnnBackendDestroyDescriptor(g->made[--g->n_made]);
}

/* ---- choosing an engine ---- */

/* Neither tensor cores, where they would round, nor sums in another form or in no fixed order. */
static bool is_wanted(int note, bool no_tensor_cores) {
    if (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE) return !no_tensor_cores;
    return note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP || note > CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
}

static bool engine_serves(nc_cuda_graph *g, cudnnBackendDescriptor config, bool no_tensor_cores) {
    const nc_cuda_api *api = g->cuda->api;
    cudnnBackendDescriptor engine = NULL;
    int notes[MAX_NOTES];
    int64_t n = 0;
    if (fails(g, api->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine),
              "cudnnBackendCreateDescriptor"))
        return false;
    bool ok = !fails(g,
                     api->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                   1, &n, &engine),
                     "cudnnBackendGetAttribute of a configuration's engine");
    ok = ok && !fails(g,
                      api->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                                    MAX_NOTES, &n, notes),
                      "cudnnBackendGetAttribute of an engine's notes");
    for (int64_t i = 0; ok && i < n && i < MAX_NOTES; i++) ok = is_wanted(notes[i], no_tensor_cores);
    api->cudnnBackendDestroyDescriptor(engine);
    return ok;
}

static bool workspace_of(const nc_cuda_dnn *d, cudnnBackendDescriptor p, size_t *bytes) {
    int64_t n = 0, found = -1;
    cudnnStatus r = d->cuda->api->cudnnBackendGetAttribute(p, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                           CUDNN_TYPE_INT64, 1, &n, &found);
    *bytes = (size_t)found;
    return r == 0 && found >= 0;
}

/* The plan of one attribute, a configuration or a text, if it can be made and its workspace fits; else NULL. */
static cudnnBackendDescriptor plan_of(const nc_cuda_dnn *d, int name, int type, int64_t n, const void *value,
                                      size_t most) {
    const nc_cuda_api *api = d->cuda->api;
    cudnnBackendDescriptor p = NULL;
    size_t bytes;
    if (api->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p) != 0) return NULL;
    bool ok = api->cudnnBackendSetAttribute(p, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &d->handle) == 0;
    ok = ok && api->cudnnBackendSetAttribute(p, name, type, n, value) == 0;
    ok = ok && api->cudnnBackendFinalize(p) == 0;
    if (ok && workspace_of(d, p, &bytes) && bytes <= most) return p;
    api->cudnnBackendDestroyDescriptor(p);
    return NULL;
}

static cudnnBackendDescriptor first_plan(const nc_cuda_dnn *d, nc_cuda_graph *g, cudnnBackendDescriptor *configs,
                                         int64_t n, const nc_cuda_dnn_call *c) {
    cudnnBackendDescriptor found = NULL;
    for (int64_t i = 0; i < n && found == NULL && g->status == 0; i++)
        if (c->any_engine || engine_serves(g, configs[i], c->no_tensor_cores))
            found = plan_of(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configs[i],
                            c->most);
    return found;
}

static cudnnBackendDescriptor choose(const nc_cuda_dnn *d, nc_cuda_graph *g, cudnnBackendDescriptor graph, int mode,
                                     const nc_cuda_dnn_call *c) {
    const nc_cuda_api *api = g->cuda->api;
    cudnnBackendDescriptor configs[MAX_CONFIGS], found = NULL;
    int64_t n = 0;
    int n_made = 0;
    cudnnBackendDescriptor heuristics = nc_cuda_graph_make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    nc_cuda_graph_set(g, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    nc_cuda_graph_set(g, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    nc_cuda_graph_end(g, heuristics);
    while (g->status == 0 && n_made < MAX_CONFIGS)
        if (!fails(g, api->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[n_made]),
                   "cudnnBackendCreateDescriptor"))
            n_made++;
    if (g->status == 0 && !fails(g,
                                 api->cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_CONFIGS, &n, configs),
                                 "cudnnBackendGetAttribute of the heuristics"))
        found = first_plan(d, g, configs, n < MAX_CONFIGS ? n : MAX_CONFIGS, c);
    while (n_made > 0) api->cudnnBackendDestroyDescriptor(configs[--n_made]);
    return found;
}

static bool is_unsupported(cudnnStatus r) { return r / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000; }

static cudnnBackendDescriptor make_plan(const nc_cuda_dnn *d, const nc_cuda_dnn_call *c) {
    nc_cuda_graph g = {.cuda = d->cuda, .handle = d->handle};
    cudnnBackendDescriptor graph = c->describe(&g, c->key), found = NULL;
    static const int modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    for (int i = 0; i < 2 && found == NULL && (g.status == 0 || is_unsupported(g.status)); i++) {
        if (i > 0) g.status = 0;
        if (graph != NULL && g.status == 0) found = choose(d, &g, graph, modes[i], c);
    }
    if (found == NULL && g.status != 0 && !is_unsupported(g.status))
        nc_log(NC_LOG_WARNING, "cuDNN, %s: %s; Nacre's own kernels serve it", c->what, g.diag.text);
    else if (found == NULL)
        nc_log(NC_LOG_INFO, "cuDNN has no engine for %s; Nacre's own kernels serve it", c->what);
    release(&g);
    return found;
}

/* ---- plans on disk ---- */

static const char kept[] = "cuDNN's plan 1"; /* another number when engines are chosen in another way */

static bool make_key(const nc_cuda_dnn *d, const nc_cuda_dnn_call *c, nc_text *key) {
    nc_cuda_graph g = {.cuda = d->cuda, .note = key};
    nc_text_addf(key, "cuDNN %zu, workspace %zu, %d %d\n", d->cuda->api->cudnnGetVersion(), c->most, c->no_tensor_cores,
                 c->any_engine);
    return c->describe(&g, c->key) != NULL && !key->failed;
}

static cudnnBackendDescriptor read_plan(const nc_cuda_dnn *d, const nc_text *key, size_t most) {
    void *text = NULL;
    size_t n = 0;
    if (!nc_cuda_read_choice(d->cuda, kept, key->s, key->n, &text, &n)) return NULL;
    cudnnBackendDescriptor p =
        plan_of(d, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)n, text, most);
    nc_free(text);
    return p;
}

static void write_plan(const nc_cuda_dnn *d, const nc_text *key, cudnnBackendDescriptor p) {
    const int name = CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
    const nc_cuda_api *api = d->cuda->api;
    int64_t n = 0;
    if (api->cudnnBackendGetAttribute(p, name, CUDNN_TYPE_CHAR, 0, &n, NULL) != 0 || n < 1) return;
    char *text = nc_alloc((size_t)n);
    if (text != NULL && api->cudnnBackendGetAttribute(p, name, CUDNN_TYPE_CHAR, n, &n, text) == 0)
        nc_cuda_write_choice(d->cuda, kept, key->s, key->n, text, (size_t)n);
    nc_free(text);
}

static void forget_handle(const nc_cuda_dnn *d, plan *p) {
    if (p->handle != NULL) d->cuda->api->cudnnBackendDestroyDescriptor(p->handle);
    p->handle = NULL;
}

/* A plan from disk, where `may_read`, or a new one, which is kept there. */
static void find_plan(const nc_cuda_dnn *d, const nc_cuda_dnn_call *c, bool may_read, plan *p) {
    nc_text key = {0};
    bool has_key = make_key(d, c, &key);
    p->handle = may_read && has_key ? read_plan(d, &key, c->most) : NULL;
    p->from_disk = p->handle != NULL;
    if (p->handle == NULL) p->handle = make_plan(d, c);
    if (p->handle != NULL && has_key && !p->from_disk) write_plan(d, &key, p->handle);
    if (p->handle != NULL && !workspace_of(d, p->handle, &p->bytes)) forget_handle(d, p);
    nc_text_release(&key);
}

/* ---- plans ---- */

static plan *look_up(nc_cuda_dnn *d, const nc_cuda_dnn_call *c) {
    for (int i = 0; i < d->n; i++)
        if (d->plans[i].bytes_key == c->bytes_key && memcmp(d->plans[i].key, c->key, c->bytes_key) == 0)
            return &d->plans[i];
    return NULL;
}

static void forget(const nc_cuda_dnn *d, plan *p) {
    forget_handle(d, p);
    nc_free(p->key);
    *p = (plan){.key = NULL};
}

/* NULL: out of memory. */
static plan *add(nc_cuda_dnn *d, const nc_cuda_dnn_call *c) {
    void *key = nc_alloc(c->bytes_key);
    if (key == NULL) return NULL;
    memcpy(key, c->key, c->bytes_key);
    plan *p = &d->plans[d->n < MAX_PLANS ? d->n++ : d->next];
    d->next = ((int)(p - d->plans) + 1) % MAX_PLANS;
    forget(d, p);
    *p = (plan){.key = key, .bytes_key = c->bytes_key};
    find_plan(d, c, true, p);
    return p;
}

/* False: it was not queued; *diag says why, but for a capture that is told by its end. */
static bool queue(nc_device *device, const nc_cuda_dnn *d, const plan *p, const nc_cuda_dnn_call *c, nc_stream *s,
                  nc_diag *diag) {
    nc_cuda_graph g = {.cuda = d->cuda, .handle = d->handle};
    size_t ahead = -(uintptr_t)c->room % WORKSPACE_ALIGNMENT; /* where it fits: cuDNN does not say that it must */
    void *workspace = (char *)c->room + (p->bytes + ahead <= c->bytes_room ? ahead : 0);
    if (p->bytes > c->bytes_room && nc_cuda_scratch(device, s, p->bytes, &workspace, diag) != NC_OK) return false;
    if (workspace == NULL && p->bytes > 0) return false;
    cudnnBackendDescriptor pack = nc_cuda_graph_make(&g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    nc_cuda_graph_set(&g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, c->n, c->id);
    nc_cuda_graph_set(&g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, c->n, c->data);
    nc_cuda_graph_set(&g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    nc_cuda_graph_end(&g, pack);
    if (g.status == 0) fails(&g, d->cuda->api->cudnnSetStream(d->handle, nc_cuda_stream(s)), "cudnnSetStream");
    if (g.status == 0) fails(&g, d->cuda->api->cudnnBackendExecute(d->handle, p->handle, pack), "cudnnBackendExecute");
    release(&g);
    *diag = g.diag;
    return g.status == 0;
}

/* One from disk that does not run is made anew, once; of one that was made nobody asks cuDNN again. */
static bool run(nc_device *device, const nc_cuda_dnn *d, plan *p, const nc_cuda_dnn_call *c, nc_stream *s) {
    nc_diag diag = {0};
    bool captures = nc_cuda_captures_itself();
    if (p->handle != NULL && queue(device, d, p, c, s, &diag)) return true;
    if (p->handle != NULL && p->from_disk && !captures) {
        forget_handle(d, p);
        find_plan(d, c, false, p);
        if (p->handle != NULL && queue(device, d, p, c, s, &diag)) return true;
    }
    if (p->handle == NULL || diag.code == NC_OK) return false;
    nc_log(NC_LOG_WARNING, "cuDNN, %s: %s; Nacre's own kernels serve it", c->what, diag.text);
    forget_handle(d, p);
    return false;
}

bool nc_cuda_dnn_run(nc_device *device, const nc_cuda_dnn_call *c, nc_stream *s) {
    nc_cuda_dnn *d = nc_device_cuda(device)->dnn;
    pthread_mutex_lock(&d->mutex);
    plan *p = look_up(d, c);
    if (p == NULL && nc_cuda_captures_itself())
        nc_cuda_capture_unfit(); /* a plan is loaded when it is made */
    else if (p == NULL)
        p = add(d, c);
    bool done = p != NULL && run(device, d, p, c, s);
    pthread_mutex_unlock(&d->mutex);
    return done;
}

bool nc_cuda_dnn_knows(nc_cuda_dnn *d, const nc_cuda_dnn_call *c) {
    pthread_mutex_lock(&d->mutex);
    const plan *p = look_up(d, c);
    bool known = p != NULL && p->handle != NULL;
    pthread_mutex_unlock(&d->mutex);
    return known;
}

/* ---- the handle ---- */

nc_cuda_dnn *nc_cuda_dnn_create(const nc_cuda *c) {
    nc_diag diag = {0};
    const char *why = nc_cuda_missing(NC_CUDA_dnn);
    if (why != NULL) {
        nc_log(NC_LOG_INFO, "cuda: convolutions and attention run without cuDNN: %s", why);
        return NULL;
    }
    nc_cuda_dnn *d = nc_alloc_zero(1, sizeof *d);
    if (d == NULL) return NULL;
    d->cuda = c;
    if (nc_cuda_check_dnn(c->api->cudnnCreate(&d->handle), "cudnnCreate", &diag) != NC_OK) {
        nc_log(NC_LOG_WARNING, "cuda: %s; convolutions run without cuDNN", diag.text);
        nc_free(d);
        return NULL;
    }
    if (pthread_mutex_init(&d->mutex, NULL) == 0) return d;
    c->api->cudnnDestroy(d->handle);
    nc_free(d);
    return NULL;
}

void nc_cuda_dnn_destroy(nc_cuda_dnn *d) {
    if (d == NULL) return;
    for (int i = 0; i < d->n; i++) forget(d, &d->plans[i]);
    d->cuda->api->cudnnDestroy(d->handle);
    pthread_mutex_destroy(&d->mutex);
    nc_free(d);
}
