/* tests/cuda/driver_capture.c: stream capture and graphs. An operation on a captured stream becomes a node behind the
 * stream's last ones; an event recorded there stands for them, and a stream that waits for it joins. What a capture
 * does not allow returns CUDA's code and spoils it. A graph runs in any order that its edges allow. A node is known by
 * its operation; what can be launched has nodes of its own, so that they can be changed. */
#include "tests/cuda/driver.h"

#include <stdlib.h>
#include <string.h>

typedef struct node {
    op *op;
    nodes after;
} node;

struct CUgraph_st {
    CUgraph next;
    int refs;
    node *v;
    int n, cap;
};

struct CUgraphExec_st {
    CUgraphExec next;
    CUgraph of;    /* whose nodes name those of its own */
    CUgraph graph; /* what its next launches run */
};

struct capture {
    struct capture *next;
    CUstream origin;
    CUgraph graph;
    pthread_t thread;
    int mode; /* 0 global, 1 thread-local, 2 relaxed */
    bool spoilt;
};

static struct capture *captures;
static CUgraph graphs;
static CUgraphExec execs;

static void nodes_put(nodes *l, int i) {
    for (int k = 0; k < l->n; k++)
        if (l->v[k] == i) return;
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 4;
        if ((l->v = realloc(l->v, (size_t)l->cap * sizeof *l->v)) == NULL) abort();
    }
    l->v[l->n++] = i;
}

static void nodes_join(nodes *to, const nodes *from) {
    for (int i = 0; i < from->n; i++) nodes_put(to, from->v[i]);
}

int capture_begin(CUstream s, int mode) {
    if (s == all_streams || s->capture != NULL) return E_CAPTURE_UNSUPPORTED;
    struct capture *c = calloc(1, sizeof *c);
    if (c == NULL || (c->graph = calloc(1, sizeof *c->graph)) == NULL) abort();
    c->graph->refs = 1;
    c->origin = s, c->mode = mode, c->thread = pthread_self();
    c->next = captures;
    captures = c;
    s->capture = c;
    s->last.n = 0;
    return OK;
}

int capture_add(CUstream s, op *takes) {
    CUgraph g = s->capture->graph;
    if (s->capture->spoilt) {
        op_unref(takes);
        return E_CAPTURE_INVALIDATED;
    }
    if (g->n == g->cap) {
        g->cap = g->cap ? 2 * g->cap : 16;
        if ((g->v = realloc(g->v, (size_t)g->cap * sizeof *g->v)) == NULL) abort();
    }
    node *n = &g->v[g->n];
    *n = (node){.op = takes};
    nodes_join(&n->after, &s->last);
    s->last.n = 0;
    nodes_put(&s->last, g->n++);
    return OK;
}

int capture_spoil(CUstream s) {
    if (s->capture == NULL) return OK;
    if (s->capture->spoilt) return E_CAPTURE_INVALIDATED;
    s->capture->spoilt = true;
    return E_CAPTURE_UNSUPPORTED;
}

int capture_check_unsafe(void) {
    int code = OK;
    for (struct capture *c = captures; c != NULL; c = c->next)
        if (c->mode == 0 || (c->mode == 1 && pthread_equal(c->thread, pthread_self()))) {
            c->spoilt = true;
            code = E_CAPTURE_UNSUPPORTED;
        }
    return code;
}

int capture_check_any(void) {
    int code = OK;
    for (struct capture *c = captures; c != NULL; c = c->next) c->spoilt = true, code = E_CAPTURE_UNSUPPORTED;
    return code;
}

void capture_forget(CUevent e) {
    e->capture = NULL;
    e->last.n = 0;
}

int capture_record(CUevent e, CUstream s) {
    if (s->capture->spoilt) return E_CAPTURE_INVALIDATED;
    capture_forget(e);
    e->capture = s->capture;
    nodes_join(&e->last, &s->last);
    return OK;
}

int capture_wait(CUstream s, CUevent e) {
    if (s->capture != NULL && s->capture->spoilt) return E_CAPTURE_INVALIDATED;
    if (s->capture != NULL && e->capture == NULL) {
        s->capture->spoilt = true;
        return E_CAPTURE_ISOLATION;
    }
    if (e->capture->spoilt) return E_CAPTURE_INVALIDATED;
    if (s->capture != NULL && s->capture != e->capture) {
        s->capture->spoilt = e->capture->spoilt = true;
        return E_CAPTURE_MERGE;
    }
    if (s->capture == NULL) s->last.n = 0;
    s->capture = e->capture;
    nodes_join(&s->last, &e->last);
    return OK;
}

static void mark(const struct CUgraph_st *g, const nodes *from, bool *seen) {
    for (int i = 0; i < from->n; i++)
        if (!seen[from->v[i]]) {
            seen[from->v[i]] = true;
            mark(g, &g->v[from->v[i]].after, seen);
        }
}

static bool is_joined(const struct capture *c) {
    bool *seen = calloc((size_t)c->graph->n + 1, sizeof *seen), whole = true;
    if (seen == NULL) abort();
    mark(c->graph, &c->origin->last, seen);
    for (int i = 0; i < c->graph->n; i++) whole = whole && seen[i];
    free(seen);
    return whole;
}

static void dissolve(struct capture *c) {
    struct capture **at = &captures;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    for (CUstream s = all_streams; s != NULL; s = s->next)
        if (s->capture == c) s->capture = NULL;
    for (CUevent e = all_events; e != NULL; e = e->next)
        if (e->capture == c) capture_forget(e);
    free(c);
}

int capture_end(CUstream s, CUgraph *out) {
    struct capture *c = s->capture;
    if (c == NULL) return E_INVALID_VALUE;
    if (c->origin != s) {
        c->spoilt = true;
        return E_CAPTURE_UNMATCHED;
    }
    if (c->mode != 2 && !pthread_equal(c->thread, pthread_self())) return E_CAPTURE_WRONG_THREAD;
    int code = c->spoilt ? E_CAPTURE_INVALIDATED : is_joined(c) ? OK : E_CAPTURE_UNJOINED;
    *out = NULL;
    if (code == OK) {
        c->graph->next = graphs;
        graphs = *out = c->graph;
    } else {
        graph_unref(c->graph);
    }
    dissolve(c);
    return code;
}

CUgraph graph_ref(CUgraph g) {
    g->refs++;
    return g;
}

void graph_unref(CUgraph g) {
    if (--g->refs > 0) return;
    for (int i = 0; i < g->n; i++) {
        op_unref(g->v[i].op);
        free(g->v[i].after.v);
    }
    free(g->v);
    free(g);
}

bool graph_destroy(CUgraph g) {
    CUgraph *at = &graphs;
    while (*at != NULL && *at != g) at = &(*at)->next;
    if (*at == NULL) return false;
    *at = g->next;
    graph_unref(g);
    return true;
}

static bool is_known(CUgraph g) {
    CUgraph known = graphs;
    while (known != NULL && known != g) known = known->next;
    return known != NULL;
}

int exec_create(CUgraphExec *out, CUgraph g) {
    if (!is_known(g)) return E_INVALID_VALUE;
    CUgraphExec e = calloc(1, sizeof *e);
    if (e == NULL) abort();
    e->of = graph_ref(g);
    e->graph = graph_ref(g);
    e->next = execs;
    *out = execs = e;
    return OK;
}

bool exec_destroy(CUgraphExec e) {
    CUgraphExec *at = &execs;
    while (*at != NULL && *at != e) at = &(*at)->next;
    if (*at == NULL) return false;
    *at = e->next;
    graph_unref(e->graph);
    graph_unref(e->of);
    free(e);
    return true;
}

CUgraph exec_graph(CUgraphExec e) {
    CUgraphExec x = execs;
    while (x != NULL && x != e) x = x->next;
    return x != NULL ? x->graph : NULL;
}

/* ---- nodes ---- */

static int find_in(CUgraph g, CUgraphNode x) {
    for (int i = 0; i < g->n; i++)
        if ((CUgraphNode)(void *)g->v[i].op == x) return i;
    return -1;
}

static CUgraph graph_of(CUgraphNode x, int *i) {
    for (CUgraph g = graphs; g != NULL; g = g->next)
        if ((*i = find_in(g, x)) >= 0) return g;
    for (struct capture *c = captures; c != NULL; c = c->next)
        if ((*i = find_in(c->graph, x)) >= 0) return c->graph;
    return NULL;
}

op *node_op(CUgraphNode x) {
    int i;
    CUgraph g = graph_of(x, &i);
    return g != NULL ? g->v[i].op : NULL;
}

int node_before(CUgraphNode x, CUgraphNode *before, size_t *n) {
    int i;
    CUgraph g = graph_of(x, &i);
    if (g == NULL) return E_INVALID_VALUE;
    const nodes *after = &g->v[i].after;
    for (size_t k = 0; k < *n && (int)k < after->n; k++) before[k] = (CUgraphNode)(void *)g->v[after->v[k]].op;
    *n = (size_t)after->n;
    return OK;
}

int capture_info(CUstream s, CUgraph *graph, const CUgraphNode **last, size_t *n_last) {
    static CUgraphNode ends[16];
    CUgraph g = s->capture->graph;
    if (s->capture->spoilt) return E_CAPTURE_INVALIDATED;
    *graph = g;
    if (last == NULL) return OK;
    for (int i = 0; i < s->last.n && i < 16; i++) ends[i] = (CUgraphNode)(void *)g->v[s->last.v[i]].op;
    *last = ends, *n_last = (size_t)s->last.n;
    return OK;
}

int graph_size(CUgraph g, size_t *n) {
    bool known = is_known(g);
    for (struct capture *c = captures; c != NULL; c = c->next) known = known || c->graph == g;
    if (known) *n = (size_t)g->n;
    return known ? OK : E_INVALID_VALUE;
}

static CUgraph graph_copy(const struct CUgraph_st *g) {
    CUgraph to = calloc(1, sizeof *to);
    if (to == NULL || (to->v = calloc((size_t)g->n + 1, sizeof *to->v)) == NULL) abort();
    to->refs = 1, to->n = to->cap = g->n;
    for (int i = 0; i < g->n; i++) {
        to->v[i].op = op_ref(g->v[i].op);
        nodes_join(&to->v[i].after, &g->v[i].after);
    }
    return to;
}

/* Launches that are queued hold the graph as it was. */
int exec_set(CUgraphExec e, CUgraphNode x, op *takes) {
    int i = exec_graph(e) != NULL && is_known(e->of) ? find_in(e->of, x) : -1;
    if (i < 0) {
        op_unref(takes);
        return E_INVALID_VALUE;
    }
    if (e->graph->refs > 1) {
        CUgraph own = graph_copy(e->graph);
        graph_unref(e->graph);
        e->graph = own;
    }
    op_unref(e->graph->v[i].op);
    e->graph->v[i].op = takes;
    return OK;
}

size_t graph_count(void) {
    size_t n = 0;
    for (CUgraph g = graphs; g != NULL; g = g->next) n++;
    for (CUgraphExec e = execs; e != NULL; e = e->next) n++;
    return n;
}

static bool may_run(const node *n, const bool *ran) {
    for (int i = 0; i < n->after.n; i++)
        if (!ran[n->after.v[i]]) return false;
    return true;
}

int graph_run(CUstream s, CUgraph g, uint64_t seed) {
    bool *ran = calloc((size_t)g->n + 1, sizeof *ran);
    int code = OK;
    if (ran == NULL) abort();
    for (int done = 0; done < g->n && code == OK; done++) {
        int i = seed ? (int)(next_random(&seed) % (uint64_t)g->n) : 0;
        while (ran[i] || !may_run(&g->v[i], ran)) i = (i + 1) % g->n;
        ran[i] = true;
        code = run_op(s, g->v[i].op, seed);
    }
    free(ran);
    return code;
}

void capture_release(void) {
    while (captures != NULL) {
        graph_unref(captures->graph);
        dissolve(captures);
    }
    while (execs != NULL) exec_destroy(execs);
    while (graphs != NULL) graph_destroy(graphs);
}
