/* tests/cuda/dnn.c: libcudnn.so.9 of the stand-ins: the calls of the graph interface that Nacre makes, convolutions
 * (and by dnn_steps.c attention) by plain loops, queued on the driver's streams. Descriptors keep what was set; what is
 * set too late, of the wrong type or does not fit together is refused. The heuristics offer an engine that is not
 * deterministic first, then the one that serves; sums of convolutions are f32, in the order of the taps and channels.
 * More than 64 images or batches have no engine. A plan can be written down as a text: its engine and graph as digits;
 * what is not just as long, of this version and with the right sum at its end is refused. Beside its calls it counts
 * "cudnn heuristics" and "cudnn plan", a plan made of a configuration. */
#include "tests/cuda/dnn.h"
#include "tests/cuda/standin.h"

#include <stdio.h>
#include <stdlib.h>

enum { SUCCESS = 0, NOT_INITIALIZED = 1001, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, EXECUTION_FAILED = 5000 };
enum { MAX_OPS = 4, NONDETERMINISTIC = 4, MOST_IMAGES = 64 };

struct cudnnContext {
    CUstream stream;
};

#define X(library, returns, name, arguments) X_##library(returns, name, arguments)
#define X_dnn(returns, name, arguments) __attribute__((visibility("default"))) returns name arguments;
#define X_change(returns, name, arguments)
#define X_boxes(returns, name, arguments)
#define X_lt(returns, name, arguments)
#define X_cuda(returns, name, arguments)
#define X_nvrtc(returns, name, arguments)
#include "device/cuda_api.list"
#undef X

#define ENTER_AS(name)                              \
    do {                                            \
        const standin_control *c_ = standin_find(); \
        int code_ = c_ ? c_->enter(name) : SUCCESS; \
        if (code_ != SUCCESS) return code_;         \
    } while (0)
#define ENTER() ENTER_AS(__func__)

size_t cudnnGetVersion(void) { return 91300; }

const char *cudnnGetErrorString(cudnnStatus r) {
    return r == SUCCESS            ? "CUDNN_STATUS_SUCCESS"
           : r == BAD_PARAM        ? "CUDNN_STATUS_BAD_PARAM"
           : r / 1000 == 3         ? "CUDNN_STATUS_NOT_SUPPORTED"
           : r == EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED"
                                   : "CUDNN_STATUS_NOT_INITIALIZED";
}

void cudnnGetLastErrorString(char *message, size_t bytes) {
    if (bytes > 0) strncpy(message, "a stand-in has no more to say", bytes);
}

cudnnStatus cudnnCreate(cudnnHandle *h) {
    ENTER();
    *h = calloc(1, sizeof **h);
    return *h != NULL ? SUCCESS : NOT_INITIALIZED;
}

cudnnStatus cudnnDestroy(cudnnHandle h) {
    ENTER();
    free(h);
    return SUCCESS;
}

cudnnStatus cudnnSetStream(cudnnHandle h, CUstream s) {
    ENTER();
    h->stream = s;
    return SUCCESS;
}

/* ---- descriptors ---- */

cudnnStatus cudnnBackendCreateDescriptor(int type, cudnnBackendDescriptor *out) {
    ENTER();
    descriptor *d = calloc(1, sizeof *d);
    if (d == NULL) return NOT_INITIALIZED;
    d->kind = type;
    d->engine = -1;
    *out = d;
    return SUCCESS;
}

cudnnStatus cudnnBackendDestroyDescriptor(cudnnBackendDescriptor descriptor_) {
    ENTER();
    descriptor *d = descriptor_;
    free(d->graph);
    free(d->text);
    free(d);
    return SUCCESS;
}

static size_t size_of(int type) {
    switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    default: return 4;
    }
}

static cudnnStatus set_text(descriptor *d, int type, int64_t n, const void *p) {
    if (d->kind != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || type != CUDNN_TYPE_CHAR) return BAD_PARAM;
    d->text = malloc((size_t)n);
    if (d->text == NULL) return NOT_INITIALIZED;
    memcpy(d->text, p, (size_t)n);
    d->bytes_text = (size_t)n;
    return SUCCESS;
}

/* The data pointers of a pack and the operations of a graph are what comes in greater numbers. */
cudnnStatus cudnnBackendSetAttribute(cudnnBackendDescriptor descriptor_, int name, int type, int64_t n, const void *p) {
    ENTER();
    descriptor *d = descriptor_;
    if (d->ended || n < 1 || p == NULL) return BAD_PARAM;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) return set_text(d, type, n, p);
    if (d->n == MAX_ATTRS || (size_t)n * size_of(type) > MAX_BYTES) return BAD_PARAM;
    attr *a = &d->attrs[d->n++];
    *a = (attr){.name = name, .type = type, .n = n};
    memcpy(a->bytes, p, (size_t)n * size_of(type));
    return SUCCESS;
}

/* ---- what an operation is, once it is whole ---- */

typedef struct operation {
    int kind, mode;
    tensor in[2], out; /* of a convolution: x or dy, w or x; of an addition both operands */
    tensor x, w, y;    /* of a convolution */
    int64_t pad[3], stride[3], dil[3];
    int n_spatial;
    float beta;
} operation;

static bool read_window(const descriptor *d, operation *o) {
    if (d == NULL || d->kind != CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR || !d->ended) return false;
    o->n_spatial = (int)whole(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0);
    if (o->n_spatial != o->x.rank - 2) return false;
    for (int i = 0; i < o->n_spatial; i++) {
        int64_t behind = whole(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i);
        o->pad[i] = whole(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i);
        o->stride[i] = whole(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i);
        o->dil[i] = whole(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, i);
        if (o->pad[i] < 0 || behind < 0 || o->stride[i] < 1 || o->dil[i] < 1) return false;
        int64_t room = o->x.dims[2 + i] + o->pad[i] + behind - (o->dil[i] * (o->w.dims[2 + i] - 1) + 1);
        if (room < 0 || room / o->stride[i] + 1 != o->y.dims[2 + i]) return false;
    }
    return number(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE) == CUDNN_CROSS_CORRELATION &&
           number(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE) == CUDNN_DATA_FLOAT;
}

static bool read_convolution(const descriptor *d, int first, operation *o) {
    const attr *beta = find(d, first + 1, CUDNN_TYPE_FLOAT);
    if (find(d, first, CUDNN_TYPE_FLOAT) == NULL || beta == NULL) return false;
    memcpy(&o->beta, beta->bytes, 4);
    if (!read_tensor(part(d, first + 3, 0), &o->w) || !read_tensor(part(d, first + 4, 0), &o->x)) return false;
    if (!read_tensor(part(d, first + 5, 0), &o->y) || o->x.dims[0] != o->y.dims[0]) return false;
    if (o->w.dims[0] != o->y.dims[1] || o->w.dims[1] < 1 || o->x.dims[1] % o->w.dims[1] != 0) return false;
    return read_window(part(d, first + 2, 0), o);
}

static bool read_operation(const descriptor *d, operation *o) { /* of those with convolutions */
    *o = (operation){.kind = d->kind};
    switch (d->kind) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        return read_convolution(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, o);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        return read_convolution(d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, o);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        return read_convolution(d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, o);
    default: break;
    }
    const descriptor *how = part(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    o->mode = number(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE);
    bool adds = o->mode == CUDNN_POINTWISE_ADD;
    if (d->kind != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR || (!adds && o->mode != CUDNN_POINTWISE_RELU_FWD))
        return false;
    if (!adds && number(how, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION) != CUDNN_PROPAGATE_NAN)
        return false;
    if (adds && !read_tensor(part(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, 0), &o->in[1])) return false;
    return read_tensor(part(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 0), &o->in[0]) &&
           read_tensor(part(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 0), &o->out);
}

/* A graph keeps what its operations say: their descriptors may go. It has a convolution first, or steps. */
struct graph {
    int n;
    operation ops[MAX_OPS];
    steps steps;
};
typedef struct graph graph;

static bool read_graph(const descriptor *d, graph *g) {
    const attr *ops = find(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
    if (ops == NULL || ops->n > MAX_STEPS) return false;
    int first = part(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, 0)->kind, n = (int)ops->n;
    bool convolves = first >= CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR &&
                     first <= CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    g->n = convolves ? n : 0, g->steps.n = convolves ? 0 : n;
    if (g->n > MAX_OPS) return false;
    for (int i = 0; i < n; i++) {
        const descriptor *o = part(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, i);
        if (!o->ended || !(convolves ? read_operation(o, &g->ops[i]) : dnn_read_step(o, &g->steps.s[i]))) return false;
    }
    return convolves || dnn_steps_fit(&g->steps);
}

static cudnnStatus end_graph(descriptor *d) {
    graph *g = malloc(sizeof *g);
    bool fine = g != NULL && find(d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE) != NULL && read_graph(d, g);
    free(g);
    return fine ? SUCCESS : BAD_PARAM;
}

/* ---- plans as texts ---- */

#define TEXT_HEAD "{\"stand-in\": 91300, \"plan\": \""
enum { N_HEAD = sizeof TEXT_HEAD - 1, BYTES_PLAN = sizeof(int) + sizeof(graph), N_TEXT = N_HEAD + 2 * BYTES_PLAN + 10 };

static unsigned sum_of(const unsigned char *p, size_t n) {
    unsigned sum = 1;
    for (size_t i = 0; i < n; i++) sum = sum * 31 + p[i];
    return sum;
}

static cudnnStatus give_text(const descriptor *d, int64_t wanted, int64_t *n, char *out) {
    unsigned char bytes[BYTES_PLAN];
    if (d->graph == NULL || !d->ended) return BAD_PARAM;
    *n = N_TEXT;
    if (wanted == 0) return SUCCESS;
    if (wanted < N_TEXT) return BAD_PARAM;
    memcpy(bytes, &d->engine, sizeof d->engine);
    memcpy(bytes + sizeof d->engine, d->graph, sizeof *d->graph);
    memcpy(out, TEXT_HEAD, N_HEAD);
    char one[3], end[16];
    for (int i = 0; i < BYTES_PLAN; i++) {
        snprintf(one, sizeof one, "%02x", bytes[i]);
        memcpy(out + N_HEAD + 2 * i, one, 2);
    }
    snprintf(end, sizeof end, "%08x\"}", sum_of(bytes, BYTES_PLAN));
    memcpy(out + N_HEAD + 2 * BYTES_PLAN, end, 10);
    return SUCCESS;
}

static cudnnStatus read_text(descriptor *d) {
    unsigned char bytes[BYTES_PLAN];
    char two[3] = "", sum[9] = "";
    if (d->bytes_text != N_TEXT || memcmp(d->text, TEXT_HEAD, N_HEAD) != 0) return NOT_SUPPORTED;
    for (int i = 0; i < BYTES_PLAN; i++) {
        memcpy(two, d->text + N_HEAD + 2 * i, 2);
        bytes[i] = (unsigned char)strtoul(two, NULL, 16);
    }
    memcpy(sum, d->text + N_HEAD + 2 * BYTES_PLAN, 8);
    if (strtoul(sum, NULL, 16) != sum_of(bytes, BYTES_PLAN)) return NOT_SUPPORTED;
    d->graph = malloc(sizeof *d->graph);
    if (d->graph == NULL) return NOT_INITIALIZED;
    memcpy(&d->engine, bytes, sizeof d->engine);
    memcpy(d->graph, bytes + sizeof d->engine, sizeof *d->graph);
    return SUCCESS;
}

static cudnnStatus end_plan(descriptor *d) {
    const descriptor *config = part(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0);
    if (find(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE) == NULL) return BAD_PARAM;
    if (d->text != NULL) return config == NULL ? read_text(d) : BAD_PARAM;
    ENTER_AS("cudnn plan");
    if (config == NULL || config->kind != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || config->engine < 0) return BAD_PARAM;
    d->engine = config->engine;
    d->graph = malloc(sizeof *d->graph);
    if (d->graph == NULL) return NOT_INITIALIZED;
    *d->graph = *config->graph;
    return SUCCESS;
}

cudnnStatus cudnnBackendFinalize(cudnnBackendDescriptor descriptor_) {
    ENTER();
    descriptor *d = descriptor_;
    tensor t;
    operation o;
    step one;
    cudnnStatus r = SUCCESS;
    if (d->ended) return BAD_PARAM;
    if (d->kind == CUDNN_BACKEND_TENSOR_DESCRIPTOR && !read_tensor(d, &t)) r = BAD_PARAM;
    if (d->kind >= CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR &&
        d->kind < CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR && !read_operation(d, &o))
        r = BAD_PARAM;
    if (d->kind == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR && !read_operation(d, &o) && !dnn_read_step(d, &one))
        r = BAD_PARAM;
    if (d->kind == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) r = end_graph(d);
    if (d->kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) r = end_plan(d);
    d->ended = r == SUCCESS;
    return r;
}

/* ---- engines ---- */

static cudnnStatus offer(const descriptor *heuristics, int64_t wanted, int64_t *n, descriptor **configs) {
    const descriptor *d = part(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
    if (!heuristics->ended || d == NULL || !d->ended || wanted < 2) return BAD_PARAM;
    ENTER_AS("cudnn heuristics");
    *n = 0;
    for (int i = 0; i < 2; i++) {
        configs[i]->engine = i;
        configs[i]->graph = calloc(1, sizeof *configs[i]->graph);
        if (configs[i]->graph == NULL) return NOT_INITIALIZED;
        if (!read_graph(d, configs[i]->graph)) return BAD_PARAM;
    }
    const graph *g = configs[0]->graph;
    if ((g->n > 0 ? g->ops[0].x.dims[0] : g->steps.s[0].in[0].dims[0]) > MOST_IMAGES) return NOT_SUPPORTED;
    *n = 2;
    return SUCCESS;
}

/* Of attention's gradient, which has reshapes: its scores' gradients in two bytes each. Of a convolution: four bytes
 * for each weight, where rubbish is left. */
static int64_t workspace_of(const graph *g) {
    if (g != NULL && g->n > 0) return 4 * elements(&g->ops[0].w);
    for (int i = 0; g != NULL && i < g->steps.n; i++)
        if (g->steps.s[i].kind == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) return 2 * elements(&g->steps.s[i].in[0]);
    return 0;
}

cudnnStatus cudnnBackendGetAttribute(cudnnBackendDescriptor descriptor_, int name, int type, int64_t n_wanted,
                                     int64_t *n, void *p) {
    ENTER();
    const descriptor *d = descriptor_;
    const int64_t workspace = workspace_of(d->graph);
    const int note = d->engine == 0 ? NONDETERMINISTIC : CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
    (void)type;
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: return offer(d, n_wanted, n, p);
    case CUDNN_ATTR_ENGINECFG_ENGINE: (*(descriptor **)p)->engine = d->engine; break;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: memcpy(p, &note, sizeof note); break;
    case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION: return give_text(d, n_wanted, n, p);
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: memcpy(p, &workspace, sizeof workspace); break;
    default: return BAD_PARAM;
    }
    *n = 1;
    return SUCCESS;
}

/* ---- the work ---- */

typedef struct work {
    graph g;
    bound b;
    char *workspace;
} work;

static char *data_of(const work *w, const tensor *t) {
    for (int i = 0; i < w->b.n; i++)
        if (w->b.id[i] == t->id) return w->b.data[i];
    return NULL;
}

/* The place of element i, in the order of the dims; dims of 1 are broadcast. */
static int64_t offset(const tensor *t, const tensor *like, int64_t i) {
    int64_t at = 0;
    for (int d = like->rank - 1; d >= 0; i /= like->dims[d--])
        at += t->dims[d] == 1 ? 0 : i % like->dims[d] * t->strides[d];
    return at;
}

/* Adds the product of each tap: of x and w to y, of y and w to x, of x and y to w. */
static void taps(const work *w, const operation *o, float *sums) {
    int64_t Cg = o->w.dims[1], per_group = o->y.dims[1] / (o->x.dims[1] / Cg), n = elements(&o->y), k = elements(&o->w);
    const char *x = data_of(w, &o->x), *weight = data_of(w, &o->w), *y = data_of(w, &o->y);
    int64_t n_taps = k / o->w.dims[0];
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, place[3];
        for (int d = o->n_spatial - 1; d >= 0; rest /= o->y.dims[2 + d--]) place[d] = rest % o->y.dims[2 + d];
        int64_t K = rest % o->y.dims[1], image = rest / o->y.dims[1];
        for (int64_t t = 0; t < n_taps; t++) {
            int64_t tap = t, at = image * o->x.strides[0], from = K * o->w.strides[0], c, in_w = K * n_taps + t;
            int64_t in_x = 0, by = 1;
            bool inside = true;
            for (int d = o->n_spatial - 1; d >= 0; tap /= o->w.dims[2 + d], by *= o->x.dims[2 + d], d--) {
                int64_t e = place[d] * o->stride[d] - o->pad[d] + tap % o->w.dims[2 + d] * o->dil[d];
                inside = inside && e >= 0 && e < o->x.dims[2 + d];
                at += e * o->x.strides[2 + d], from += tap % o->w.dims[2 + d] * o->w.strides[2 + d], in_x += e * by;
            }
            if (!inside) continue;
            c = K / per_group * Cg + tap;
            at += c * o->x.strides[1], from += tap * o->w.strides[1], in_x += (image * o->x.dims[1] + c) * by;
            float a = x ? (float)load(x, o->x.type, at) : 0, b = weight ? (float)load(weight, o->w.type, from) : 0;
            float dy = o->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
                           ? 0
                           : (float)load(y, o->y.type, offset(&o->y, &o->y, i));
            if (o->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) sums[i] += a * b;
            if (o->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) sums[in_x] += dy * b;
            if (o->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR) sums[in_w] += dy * a;
        }
    }
}

static const tensor *result_of(const operation *o) {
    return o->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR         ? &o->y
           : o->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? &o->x
           : o->kind == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR                 ? &o->out
                                                                                     : &o->w;
}

static void pointwise(const work *w, const operation *o, float *sums) {
    const char *b = data_of(w, &o->in[1]);
    for (int64_t i = 0; i < elements(&o->out); i++)
        if (o->mode == CUDNN_POINTWISE_ADD)
            sums[i] += (float)load(b, o->in[1].type, offset(&o->in[1], &o->out, i));
        else
            sums[i] = sums[i] < 0 ? 0 : sums[i];
}

static void run_steps(const void *bytes) {
    const work *w = bytes;
    dnn_steps_run(&w->g.steps, &w->b);
}

static void run(const void *bytes) {
    const work *w = bytes;
    const tensor *first = result_of(&w->g.ops[0]), *to = result_of(&w->g.ops[w->g.n - 1]);
    static float sums[1 << 20];
    int64_t n = elements(first);
    memset(w->workspace, 0xA5, (size_t)workspace_of(&w->g));
    memset(sums, 0, (size_t)n * sizeof *sums);
    taps(w, &w->g.ops[0], sums);
    for (int i = 1; i < w->g.n; i++) pointwise(w, &w->g.ops[i], sums);
    char *y = data_of(w, to);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = offset(to, to, i);
        double old = w->g.ops[0].beta != 0 ? (double)w->g.ops[0].beta * load(y, to->type, at) : 0;
        store(y, to->type, at, (double)sums[i] + old);
    }
}

static bool in_device(const standin_control *s, const work *w, const tensor *t) {
    const char *p = data_of(w, t);
    if (t->rank == 0 || t->is_virtual) return true;
    if (t->by_value) return p != NULL;
    return p != NULL && (uintptr_t)p % 16 == 0 && s->is_device(p, (size_t)extent(t) * bytes_of(t->type));
}

/* Numbers by value are the caller's until the call returns. */
static void read_value(work *w, const tensor *t) {
    for (int i = 0; t->by_value && i < w->b.n; i++)
        if (w->b.id[i] == t->id) {
            int32_t whole_number;
            float f;
            memcpy(&whole_number, w->b.data[i], 4), memcpy(&f, w->b.data[i], 4);
            w->b.value[i] = t->type == OF_INTS ? (double)whole_number : (double)f;
        }
}

static bool steps_bound(const standin_control *driver, work *w) {
    for (int i = 0; i < w->g.steps.n; i++) {
        const step *s = &w->g.steps.s[i];
        for (int k = 0; k < s->n_in; k++) {
            if (!in_device(driver, w, &s->in[k])) return false;
            read_value(w, &s->in[k]);
        }
        if (!in_device(driver, w, &s->out)) return false;
    }
    return true;
}

static bool has_workspace(const standin_control *driver, const descriptor *pack, work *w) {
    const attr *a = find(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR);
    size_t bytes = (size_t)workspace_of(&w->g);
    w->workspace = NULL;
    if (a != NULL) memcpy(&w->workspace, a->bytes, sizeof w->workspace);
    return bytes == 0 || (w->workspace != NULL && driver->is_device(w->workspace, bytes));
}

cudnnStatus cudnnBackendExecute(cudnnHandle h, cudnnBackendDescriptor plan, cudnnBackendDescriptor pack) {
    ENTER();
    const standin_control *driver = standin_find();
    const descriptor *p = plan, *v = pack;
    const attr *ids = find(v, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64);
    const attr *data = find(v, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR);
    if (driver == NULL || !p->ended || !v->ended || ids == NULL || data == NULL || ids->n != data->n) return BAD_PARAM;
    static _Thread_local work w;
    w.g = *p->graph, w.b = (bound){.n = (int)ids->n};
    memcpy(w.b.id, ids->bytes, 8 * (size_t)w.b.n);
    memcpy(w.b.data, data->bytes, 8 * (size_t)w.b.n);
    for (int i = 0; i < w.g.n; i++) {
        const operation *o = &w.g.ops[i];
        const tensor *all[] = {&o->x, &o->w, &o->y, &o->in[0], &o->in[1], &o->out};
        for (int k = 0; k < 6; k++)
            if (!in_device(driver, &w, all[k])) return BAD_PARAM;
    }
    if (w.g.n > 0 && elements(result_of(&w.g.ops[0])) > 1 << 20) return NOT_SUPPORTED;
    if (!steps_bound(driver, &w) || !has_workspace(driver, v, &w)) return BAD_PARAM;
    void (*fn)(const void *) = w.g.n > 0 ? run : run_steps;
    return driver->enqueue(h->stream, "cudnnBackendExecute", fn, &w, sizeof w) == 0 ? SUCCESS : EXECUTION_FAILED;
}
