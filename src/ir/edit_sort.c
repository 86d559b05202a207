/* ir/edit_sort.c: restores a topological order. Kahn's algorithm; of the nodes that are ready, the one that stands
 * first now is taken first (a binary heap over present places), so a valid order does not change and the result is
 * a function of the graph alone. O((nodes + uses) log nodes). */
#include "ir/card.h"
#include "ir/edit_core.h"

typedef struct sorter {
    nc_node **nodes; /* by present place */
    int *place;      /* by node id; -1: not in this graph */
    int *waits;      /* by place: operands not ready yet */
    int *heap;
    int n_heap;
} sorter;

static void heap_push(sorter *s, int x) {
    int i = s->n_heap++;
    for (; i && s->heap[(i - 1) / 2] > x; i = (i - 1) / 2) s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = x;
}

static int heap_pop(sorter *s) {
    int top = s->heap[0], x = s->heap[--s->n_heap], i = 0;
    for (;;) {
        int k = 2 * i + 1;
        if (k + 1 < s->n_heap && s->heap[k + 1] < s->heap[k]) k++;
        if (k >= s->n_heap || s->heap[k] >= x) break;
        s->heap[i] = s->heap[k];
        i = k;
    }
    s->heap[i] = x;
    return top;
}

static nc_code prepare(nc_work *w, const nc_graph *g, sorter *s) {
    size_t n = (size_t)g->n_nodes + 1;
    s->nodes = nc_arena_array(&w->scratch, n, sizeof *s->nodes);
    s->waits = nc_arena_array(&w->scratch, n, sizeof *s->waits);
    s->heap = nc_arena_array(&w->scratch, n, sizeof *s->heap);
    s->place = nc_arena_array(&w->scratch, (size_t)g->model->next_id + 1, sizeof *s->place);
    if (!s->nodes || !s->waits || !s->heap || !s->place) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    for (int i = 0; i < g->model->next_id; i++) s->place[i] = -1;
    int at = 0;
    for (nc_node *x = g->first; x; x = x->next) {
        s->nodes[at] = x;
        s->place[x->id] = at++;
        for (int i = 0; i < x->n_operands; i++)
            if (x->in[i] && x->in[i]->def) s->waits[at - 1]++;
    }
    for (int i = 0; i < at; i++)
        if (!s->waits[i]) heap_push(s, i);
    return NC_OK;
}

static nc_code fail_cycle(nc_work *w, const nc_graph *g, const sorter *s) {
    int i = 0;
    while (i + 1 < g->n_nodes && !s->waits[i]) i++;
    NC_FAIL(w, NC_E_BAD_GRAPH, "the nodes form a cycle: '%s' (%s) waits for its own result", s->nodes[i]->name,
            s->nodes[i]->card->name);
}

/* Fills order with present places in their new order; returns how many got their turn. */
static int take_all(sorter *s, int *order) {
    int n = 0;
    while (s->n_heap) {
        int at = heap_pop(s);
        const nc_node *x = s->nodes[at];
        order[n++] = at;
        for (int i = 0; i < x->n_out; i++)
            for (int k = 0; x->out[i] && k < x->out[i]->uses.n; k++) {
                int user = s->place[x->out[i]->uses.v[k].node->id];
                if (user >= 0 && --s->waits[user] == 0) heap_push(s, user);
            }
    }
    return n;
}

nc_code nc_edit_sort(nc_work *w, nc_graph *g) {
    sorter s = {0};
    if (g->model->out_of_memory) NC_FAIL(w, NC_E_MEMORY, "out of memory in an earlier edit");
    NC_TRY(prepare(w, g, &s));
    int *order = nc_arena_array(&w->scratch, (size_t)g->n_nodes + 1, sizeof *order);
    NC_NEED(w, order);
    int n = take_all(&s, order);
    if (n != g->n_nodes) return fail_cycle(w, g, &s);
    g->first = g->last = NULL;
    g->n_nodes = 0;
    for (int i = 0; i < n; i++) nc_edit_link(g, NULL, s.nodes[order[i]]);
    return NC_OK;
}
