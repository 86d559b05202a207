/* device/cuda_capture.c: see cuda_capture.h. A graph can be changed if it is one line of nodes: then the stream's order
 * is the order of its nodes, and those between two marks are a piece. What takes a piece's place is captured too, as a
 * graph that is never launched: its nodes' parameters go into the nodes of the graph that is, kind by kind. Libraries'
 * kernels are changed like our own. Where the driver lacks a function for it, graphs stay as they were recorded. */
#include "device/cuda_capture.h"

#include "base/log.h"
#include "base/mem.h"

#include <string.h>

/* The nodes of a graph in the order of its stream, and where its pieces end. n_nodes 0: it cannot be changed. */
typedef struct line {
    CUgraphNode *nodes;
    int n_nodes;
    int *ends, n_pieces;
} line;

struct nc_capture {
    CUgraphExec exec;
    CUgraph graph; /* its nodes name those of exec; NULL: it cannot be changed */
    line line;
};

static void warn(CUresult r, const char *function) {
    nc_diag diag = {0};
    if (nc_cuda_check(r, function, &diag) != NC_OK) nc_log(NC_LOG_WARNING, "cuda: %s", diag.text);
}

static nc_code no_memory(nc_diag *diag) { return nc_diag_set(diag, NC_E_MEMORY, NULL, NULL, "out of memory"); }

static bool changes(void) { return nc_cuda_missing(NC_CUDA_change) == NULL; }

void nc_cuda_capture_forget(nc_stream *s) {
    nc_free(s->marks);
    s->marks = NULL;
    s->n_marks = s->cap_marks = 0;
}

/* Thread-local mode: what other threads do with the GPU meanwhile does not spoil the capture. */
nc_code nc_cuda_capture_begin(const nc_cuda *c, nc_stream *s, nc_diag *diag) {
    s->n_marks = 0;
    nc_cuda_turn_capture();
    CUresult r = c->api->cuStreamBeginCapture_v2(s->handle, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (r == 0)
        nc_cuda_own_capture(1);
    else
        nc_cuda_turn_capture_end();
    return nc_cuda_check(r, "cuStreamBeginCapture_v2", diag);
}

nc_code nc_cuda_capture_mark(const nc_cuda *c, nc_stream *s, nc_diag *diag) {
    CUgraph graph = NULL;
    size_t n = 0;
    int status;
    if (!changes()) return NC_OK;
    NC_TRY(nc_cuda_check(c->api->cuStreamGetCaptureInfo_v2(s->handle, &status, NULL, &graph, NULL, NULL),
                         "cuStreamGetCaptureInfo_v2", diag));
    NC_TRY(nc_cuda_check(c->api->cuGraphGetNodes(graph, NULL, &n), "cuGraphGetNodes", diag));
    if (s->n_marks == s->cap_marks) {
        int cap = s->cap_marks ? 2 * s->cap_marks : 64;
        int *more = nc_realloc(s->marks, (size_t)cap * sizeof *more);
        if (more == NULL) return no_memory(diag);
        s->marks = more, s->cap_marks = cap;
    }
    s->marks[s->n_marks++] = (int)n;
    return NC_OK;
}

/* ---- lines ---- */

static void line_release(line *l) {
    nc_free((void *)l->nodes);
    nc_free(l->ends);
    *l = (line){0};
}

/* From the last node back to the first, each behind exactly one other. */
static bool walk_back(const nc_cuda *c, CUgraphNode last, CUgraphNode *nodes, int n) {
    for (int i = n - 1; i >= 0; i--) {
        CUgraphEdgeData how[2];
        CUgraphNode before[2];
        size_t n_before = 2;
        nodes[i] = last;
        if (c->api->cuGraphNodeGetDependencies_v2(last, before, how, &n_before) != 0) return false;
        if (n_before != (i > 0 ? 1u : 0u)) return false;
        if (i > 0) last = before[0];
    }
    return true;
}

/* Of what s captures; empty where that is no line, or nobody marked it. */
static line line_of(const nc_cuda *c, const nc_stream *s) {
    line l = {0};
    CUgraph graph;
    const CUgraphNode *last = NULL;
    size_t n_last = 0, n = 0;
    int status;
    if (s->n_marks == 0 ||
        c->api->cuStreamGetCaptureInfo_v2(s->handle, &status, NULL, &graph, &last, &n_last) != 0 || n_last != 1 ||
        c->api->cuGraphGetNodes(graph, NULL, &n) != 0 || n == 0 || n > INT32_MAX)
        return l;
    l.nodes = nc_alloc_zero(n, sizeof *l.nodes);
    l.ends = nc_alloc_zero((size_t)s->n_marks, sizeof *l.ends);
    if (l.nodes == NULL || l.ends == NULL || !walk_back(c, last[0], l.nodes, (int)n)) {
        line_release(&l);
        return l;
    }
    memcpy(l.ends, s->marks, (size_t)s->n_marks * sizeof *l.ends);
    l.n_nodes = (int)n, l.n_pieces = s->n_marks;
    return l;
}

/* ---- recording ---- */

/* Ends the capture of s, also one that failed; *graph is the caller's on success. */
static nc_code end(const nc_cuda *c, nc_stream *s, CUgraph *graph, nc_diag *diag) {
    *graph = NULL;
    CUresult r = c->api->cuStreamEndCapture(s->handle, graph);
    if (r != 0 && c->api->cuStreamEndCapture(s->handle, graph) == 0) /* else the stream could not be used any more */
        warn(c->api->cuGraphDestroy(*graph), "cuGraphDestroy");
    if (r != 0) *graph = NULL;
    bool unfit = nc_cuda_capture_was_unfit();
    if (nc_cuda_captures_itself()) {
        nc_cuda_own_capture(-1);
        nc_cuda_turn_capture_end();
    }
    NC_TRY(nc_cuda_check(r, "cuStreamEndCapture", diag));
    if (!unfit) return NC_OK;
    warn(c->api->cuGraphDestroy(*graph), "cuGraphDestroy");
    *graph = NULL;
    return nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "cuda: the capture met work that must run once before it");
}

nc_code nc_cuda_capture_end(const nc_cuda *c, nc_stream *s, nc_capture **out, nc_diag *diag) {
    CUgraph graph;
    line l = changes() ? line_of(c, s) : (line){0};
    nc_code code = end(c, s, &graph, diag);
    nc_capture *x = code == NC_OK ? nc_alloc_zero(1, sizeof *x) : NULL;
    if (code == NC_OK && x == NULL) code = no_memory(diag);
    if (x != NULL)
        code = nc_cuda_check(c->api->cuGraphInstantiateWithFlags(&x->exec, graph, 0), "cuGraphInstantiateWithFlags",
                             diag);
    if (code == NC_OK && l.n_nodes > 0)
        x->graph = graph, x->line = l;
    else if (graph != NULL)
        warn(c->api->cuGraphDestroy(graph), "cuGraphDestroy");
    if (code == NC_OK) {
        *out = x;
    } else {
        line_release(&l);
        nc_free(x);
    }
    return code;
}

nc_code nc_cuda_capture_launch(const nc_cuda *c, nc_stream *s, const nc_capture *x, nc_diag *diag) {
    return nc_cuda_check(c->api->cuGraphLaunch(x->exec, nc_cuda_stream(s)), "cuGraphLaunch", diag);
}

void nc_cuda_capture_destroy(const nc_cuda *c, nc_capture *x) {
    if (x == NULL) return;
    warn(c->api->cuGraphExecDestroy(x->exec), "cuGraphExecDestroy");
    if (x->graph != NULL) warn(c->api->cuGraphDestroy(x->graph), "cuGraphDestroy");
    line_release(&x->line);
    nc_free(x);
}

/* ---- changing ---- */

/* Clusters are no parameter, and stay those of the node: another kernel that wants others does not fit. */
static bool same_clusters(const nc_cuda_api *a, CUgraphNode to, CUgraphNode from) {
    CUlaunchAttributeValue is = {{0}}, was = {{0}};
    return a->cuGraphKernelNodeGetAttribute(from, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &is) == 0 &&
           a->cuGraphKernelNodeGetAttribute(to, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &was) == 0 &&
           memcmp(is.clusterDim, was.clusterDim, sizeof is.clusterDim) == 0;
}

/* The parameters of `from` become those of node `to` in exec. */
static bool change_node(const nc_cuda *c, CUgraphExec exec, CUgraphNode to, CUgraphNode from) {
    const nc_cuda_api *a = c->api;
    CUDA_KERNEL_NODE_PARAMS_v2 kernel;
    CUDA_MEMCPY3D copy;
    CUDA_MEMSET_NODE_PARAMS fill;
    int is, was;
    if (a->cuGraphNodeGetType(from, &is) != 0 || a->cuGraphNodeGetType(to, &was) != 0 || is != was) return false;
    switch (is) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return same_clusters(a, to, from) && a->cuGraphKernelNodeGetParams_v2(from, &kernel) == 0 &&
               a->cuGraphExecKernelNodeSetParams_v2(exec, to, &kernel) == 0;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return a->cuGraphMemcpyNodeGetParams(from, &copy) == 0 &&
               a->cuGraphExecMemcpyNodeSetParams(exec, to, &copy, c->context) == 0;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return a->cuGraphMemsetNodeGetParams(from, &fill) == 0 &&
               a->cuGraphExecMemsetNodeSetParams(exec, to, &fill, c->context) == 0;
    default: return false;
    }
}

static int start_of(const line *l, int piece) { return piece > 0 ? l->ends[piece - 1] : 0; }

static bool change_pieces(const nc_cuda *c, nc_capture *to, const line *from, const int *pieces, int n) {
    if (from->n_pieces != n || from->n_nodes != from->ends[n - 1]) return false;
    for (int i = 0; i < n; i++) {
        if (pieces[i] >= to->line.n_pieces) return false;
        int at = start_of(from, i), n_nodes = from->ends[i] - at, there = start_of(&to->line, pieces[i]);
        if (to->line.ends[pieces[i]] - there != n_nodes) return false;
        for (int k = 0; k < n_nodes; k++)
            if (!change_node(c, to->exec, to->line.nodes[there + k], from->nodes[at + k])) return false;
    }
    return true;
}

bool nc_cuda_capture_patch(const nc_cuda *c, nc_stream *s, nc_capture *to, const int *pieces, int n) {
    nc_diag unheard = {0}; /* who cannot change a graph records it anew */
    CUgraph graph;
    line l = to->graph != NULL && n > 0 ? line_of(c, s) : (line){0};
    bool done = end(c, s, &graph, &unheard) == NC_OK;
    done = done && l.n_nodes > 0 && change_pieces(c, to, &l, pieces, n);
    if (graph != NULL) warn(c->api->cuGraphDestroy(graph), "cuGraphDestroy");
    line_release(&l);
    return done;
}
