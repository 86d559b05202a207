/* plan/assign.c: a stream for every instruction.
 *
 * What has only one place to go goes there: views and dynamic kernels to the host's stream, copies to the copy stream,
 * what a device leaves to the host to the host's. The rest computes, where the caller says or where this finds it best:
 * instructions are walked in order, each goes on where one of its operands was made last, so that a chain stays
 * together; a second user of that operand takes the stream on which it could start first, by the costs that the cards
 * tell with every unknown size at NOMINAL. Sizes of a run, threads and clocks have no say: one graph, one assignment.
 *
 * Example with two streams: a = f(x); b = g(a); c = h(a); d = b + c. b goes on behind a; c finds a's stream taken until
 * b is done and takes the other; d goes on behind the later of b and c. */
#include "plan/build.h"

enum { NOMINAL = 32, LAUNCH = 4096 }; /* a launch costs as much as so many operations */

typedef struct assigner {
    nc_build_ctx *c;
    nc_program *p;
    int place;      /* where several streams compute */
    int *computing; /* the streams that do */
    int n;
    int *maker;   /* per slot: the instruction that computes its bytes, seen through views; -1: none */
    int *wanted;  /* per instruction: the stream that the caller wants; -1: none */
    double *done; /* per instruction: when it is done, in operations */
    double *idle; /* per stream: from when on nothing of it runs */
    int *newest;  /* per stream: its newest instruction; -1: none */
    int64_t *sizes;
    bool *known;
} assigner;

/* The only stream it can run on; -1: any that computes. */
static int only_stream(const assigner *a, const nc_instr *x) {
    const nc_program *p = a->p;
    if (x->binding == &nc_transfer_binding) { /* the device's own stream copies, either way */
        int from = x->in[0] >= 0 ? p->slots[x->in[0]].place : 0;
        return nc_program_stream(p, NC_STREAM_COPY, x->place ? x->place : from);
    }
    if (x->binding->kind == NC_K_VIEW || x->binding->kind == NC_K_DYNAMIC || x->place != a->place) return 0;
    return a->n > 1 ? -1 : nc_program_stream(p, NC_STREAM_COMPUTE, x->place);
}

/* ---- what the caller wants ---- */

static bool is_region(const nc_node *n) { return n->n_subs && !(n->card->traits & NC_CONTROL) && !nc_is_deferred(n); }

static nc_code add_name(assigner *a, nc_map *names, const nc_node *n, int i) {
    if (!nc_map_put(names, n->name, (void *)(intptr_t)(i + 1))) NC_FAIL(a->c->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

/* Instructions by the names of their nodes and of the nodes that were joined to one kernel. */
static nc_code list_names(assigner *a, nc_map *names) {
    nc_map_init(names, &a->c->w->scratch);
    for (int i = 0; i < a->p->n_instrs; i++) {
        const nc_node *n = a->p->instrs[i].node;
        NC_TRY(add_name(a, names, n, i));
        for (int s = 0; is_region(n) && s < n->n_subs; s++)
            for (const nc_node *k = n->subs[s].graph->first; k; k = k->next) NC_TRY(add_name(a, names, k, i));
    }
    return NC_OK;
}

static nc_code check_given(const assigner *a, const nc_plan_stream *g, int i) {
    nc_work *w = a->c->w;
    w->at_node = g->node, w->at_op = i < 0 ? NULL : a->p->instrs[i].node->card->name;
    if (g->stream < 0 || g->stream >= a->n)
        NC_FAIL(w, NC_E_ARGUMENT, "a stream for it: expected 0 to %d, as the session computes on %d, got %d", a->n - 1,
                a->n, g->stream);
    if (i < 0)
        NC_FAIL(w, NC_E_ARGUMENT,
                "stream %d was given for it: expected a node of the main graph as it runs, got none of that name; "
                "where a pass folded or replaced it, level=off keeps it",
                g->stream);
    const nc_instr *x = &a->p->instrs[i];
    if (x->binding->kind == NC_K_VIEW || (x->binding->kind != NC_K_DYNAMIC && x->place == a->place)) return NC_OK;
    NC_FAIL(w, NC_E_ARGUMENT, "stream %d was given for it: expected a node that computes on %s, got one that %s",
            g->stream, a->p->places[a->place]->table->name,
            x->place == a->place ? "the host's own stream runs, as its kernel is dynamic" : "the host runs");
}

static nc_code want(assigner *a, const nc_plan_stream *g, int i) {
    NC_TRY(check_given(a, g, i));
    int stream = a->computing[g->stream];
    if (a->wanted[i] >= 0 && a->wanted[i] != stream)
        NC_FAIL(a->c->w, NC_E_ARGUMENT,
                "stream %d was given for it, another one for a node that became one kernel with it: expected one "
                "stream for both; fusion=off keeps them apart",
                g->stream);
    a->wanted[i] = stream;
    return NC_OK;
}

/* From the last on: of two for one node the later counts. */
static nc_code read_given(assigner *a) {
    const nc_plan_options *o = a->c->o;
    nc_work *w = a->c->w;
    nc_map names, seen;
    for (int i = 0; i < a->p->n_instrs; i++) a->wanted[i] = -1;
    if (!o->n_given || a->p->inner) return NC_OK;
    NC_TRY(list_names(a, &names));
    nc_map_init(&seen, &w->scratch);
    for (int k = o->n_given - 1; k >= 0; k--) {
        const nc_plan_stream *g = &o->given[k];
        if (nc_map_get(&seen, g->node)) continue;
        if (!nc_map_put(&seen, g->node, a)) NC_FAIL(w, NC_E_MEMORY, "out of memory");
        NC_TRY(want(a, g, (int)(intptr_t)nc_map_get(&names, g->node) - 1));
    }
    w->at_node = w->at_op = NULL;
    return NC_OK;
}

/* ---- costs ---- */

static bool nominal_dims(const assigner *a, int slot, int64_t *dims) {
    const nc_slot *s = slot >= 0 ? &a->p->slots[slot] : NULL;
    for (int d = 0; s && d < s->rank; d++)
        if (!nc_dim_eval(a->p->dims[s->dims[d]], a->sizes, a->known, &dims[d]) || dims[d] < 1) dims[d] = 1;
    return !s || s->rank >= 0;
}

static double elements(const assigner *a, const nc_instr *x) {
    double all = 0;
    for (int o = 0; o < x->n_out; o++) {
        int64_t dims[NC_MAX_RANK];
        double here = 1;
        if (x->out[o] < 0 || !nominal_dims(a, x->out[o], dims)) continue;
        for (int d = 0; d < a->p->slots[x->out[o]].rank; d++) here *= (double)dims[d];
        all += here;
    }
    return all;
}

static nc_code cost_of(const assigner *a, const nc_instr *x, double *out) {
    nc_arena *scratch = &a->c->w->scratch;
    bool ranked = x->node->card->cost && x->binding->kind != NC_K_DYNAMIC;
    *out = LAUNCH + elements(a, x);
    if (!ranked) return NC_OK;
    int64_t(*dims)[NC_MAX_RANK] = nc_arena_array(scratch, (size_t)x->n_in + 1, sizeof *dims);
    const int64_t **rows = nc_arena_array(scratch, (size_t)x->n_in + 1, sizeof *rows);
    NC_NEED(a->c->w, dims);
    NC_NEED(a->c->w, rows);
    for (int j = 0; j < x->n_in; j++) ranked &= nominal_dims(a, x->in[j], dims[j]), rows[j] = dims[j];
    if (ranked) *out = LAUNCH + x->node->card->cost(x->node, rows);
    return NC_OK;
}

/* ---- what this finds ---- */

static int maker_of(const assigner *a, const nc_instr *x, int j) {
    bool skipped = x->in[j] < 0 || (j < 32 && (x->dims_only >> j & 1));
    return skipped ? -1 : a->maker[x->in[j]];
}

/* The stream whose newest instruction made an operand, of the operand that is done last; -1: none. */
static int stream_to_follow(const assigner *a, const nc_instr *x) {
    int best = -1;
    for (int j = 0; j < x->n_in; j++) {
        int m = maker_of(a, x, j), s = m >= 0 ? a->p->instrs[m].stream : 0;
        if (m < 0 || a->p->streams[s].kind != NC_STREAM_COMPUTE || a->newest[s] != m) continue;
        if (best < 0 || a->done[m] > a->done[a->newest[best]]) best = s;
    }
    return best;
}

static int first_to_start(const assigner *a, double ready) {
    int best = a->computing[0];
    for (int k = 1; k < a->n; k++) {
        int s = a->computing[k];
        double start = a->idle[s] > ready ? a->idle[s] : ready, before = a->idle[best] > ready ? a->idle[best] : ready;
        if (start < before) best = s;
    }
    return best;
}

static nc_code assign(assigner *a, int i) {
    nc_instr *x = &a->p->instrs[i];
    double ready = 0, cost;
    for (int j = 0; j < x->n_in; j++) {
        int m = maker_of(a, x, j);
        if (m >= 0 && a->done[m] > ready) ready = a->done[m];
    }
    int s = only_stream(a, x);
    if (s < 0) s = a->wanted[i];
    if (s < 0) s = stream_to_follow(a, x);
    if (s < 0) s = first_to_start(a, ready);
    x->stream = s;
    bool view = x->binding->kind == NC_K_VIEW;
    for (int o = 0; o < x->n_out; o++)
        if (x->out[o] >= 0) a->maker[x->out[o]] = view ? maker_of(a, x, 0) : i;
    if (view) return NC_OK;
    NC_TRY(cost_of(a, x, &cost));
    a->done[i] = (a->idle[s] > ready ? a->idle[s] : ready) + cost;
    a->idle[s] = a->done[i], a->newest[s] = i;
    return NC_OK;
}

static nc_code make_arrays(assigner *a) {
    const nc_program *p = a->p;
    nc_work *w = a->c->w;
    nc_arena *scratch = &w->scratch;
    size_t n_streams = (size_t)p->n_streams, n_syms = (size_t)p->n_syms + 1, n_instrs = (size_t)p->n_instrs + 1;
    NC_NEED(w, a->computing = nc_arena_array(scratch, n_streams, sizeof *a->computing));
    NC_NEED(w, a->maker = nc_arena_array(scratch, (size_t)p->n_slots + 1, sizeof *a->maker));
    NC_NEED(w, a->wanted = nc_arena_array(scratch, n_instrs, sizeof *a->wanted));
    NC_NEED(w, a->done = nc_arena_array(scratch, n_instrs, sizeof *a->done));
    NC_NEED(w, a->idle = nc_arena_array(scratch, n_streams, sizeof *a->idle));
    NC_NEED(w, a->newest = nc_arena_array(scratch, n_streams, sizeof *a->newest));
    NC_NEED(w, a->sizes = nc_arena_array(scratch, n_syms, sizeof *a->sizes));
    NC_NEED(w, a->known = nc_arena_array(scratch, n_syms, sizeof *a->known));
    for (int i = 0; i < p->n_slots; i++) a->maker[i] = -1;
    for (int s = 0; s < p->n_streams; s++) {
        a->newest[s] = -1;
        if (p->streams[s].kind == NC_STREAM_COMPUTE) a->computing[a->n++] = s;
    }
    if (!a->n) a->n = 1; /* the host's own, 0 */
    for (size_t k = 0; k < n_syms; k++) a->sizes[k] = NOMINAL, a->known[k] = true;
    return NC_OK;
}

nc_code nc_build_assign(nc_build_ctx *c) {
    assigner a = {.c = c, .p = c->p, .place = c->p->n_places - 1};
    NC_TRY(make_arrays(&a));
    NC_TRY(read_given(&a));
    for (int i = 0; i < c->p->n_instrs; i++) {
        if (a.n > 1)
            NC_TRY(assign(&a, i));
        else
            c->p->instrs[i].stream = only_stream(&a, &c->p->instrs[i]);
    }
    return NC_OK;
}
