/* plan/streams.c: events between streams, and clocks: what is surely done before an instruction starts.
 *
 * The host issues instructions in order and does its own at once. So whatever the host has waited for, every later
 * instruction knows. A device instruction also knows what its stream and the events it waits for know. Memory of a dead
 * value may be given to an instruction only when the clock says that all its users are done (plan/instance.c).
 *
 * In a program that overlaps nothing is done when issued, the host's own stream neither: an instruction knows what its
 * stream and the events it waits for know, and all that came before its segment, or before and behind control flow,
 * which runs alone. There the clock is also what the executor goes by (run/overlap.c). */
#include "plan/build.h"

#include <string.h>

typedef struct clocks {
    nc_build_ctx *c;
    int n;        /* streams */
    int *on;      /* (n, n): row s is what the newest instruction of stream s knows */
    int *written; /* per root: the last instruction that wrote it */
    int *seen;    /* (slots, n): per root, the last instruction of each stream that touched it */
    int *made;    /* per slot: the instruction whose result it is */
} clocks;

static int *knows(const clocks *k, int stream) { return k->on + (size_t)stream * (size_t)k->n; }
static int *seen(const clocks *k, int root) { return k->seen + (size_t)root * (size_t)k->n; }

static void join(const clocks *k, int *into, const int *from) {
    for (int s = 0; s < k->n; s++)
        if (from[s] > into[s]) into[s] = from[s];
}

static void wait_for(clocks *k, nc_instr *x, int i_other) {
    nc_program *p = k->c->p;
    if (i_other < 0) return;
    nc_instr *y = &p->instrs[i_other];
    if (y->stream == x->stream || x->clock[y->stream] >= i_other) return;
    if (y->record < 0) y->record = p->n_events++;
    x->wait[x->n_wait++] = y->record;
    join(k, x->clock, y->clock);
    if (i_other > x->clock[y->stream]) x->clock[y->stream] = i_other;
}

/* An operand of a device's instruction that lies on the host is read when the instruction is issued: the host itself
 * waits for the copy that fills it. */
static void host_wait_for(clocks *k, nc_instr *x, int i_other) {
    nc_program *p = k->c->p;
    int *host = knows(k, 0);
    if (i_other < 0) return;
    nc_instr *y = &p->instrs[i_other];
    if (y->stream == 0 || host[y->stream] >= i_other) return;
    if (y->record < 0) y->record = p->n_events++;
    x->wait[x->n_wait++] = y->record;
    x->n_host_wait = x->n_wait;
    join(k, host, y->clock);
    if (i_other > host[y->stream]) host[y->stream] = i_other;
    join(k, x->clock, host);
}

static bool skips_bytes(const nc_instr *x, int j) {
    return (j < 32 && (x->dims_only >> j & 1)) || (x->binding->kind == NC_K_VIEW && j == 0);
}

/* Where a view lies and what a dynamic kernel made is told when they run: not even dims can be read before. A host that
 * does its own at once has run them when it issues what follows. */
static void wait_for_geometry(clocks *k, nc_instr *x) {
    const nc_program *p = k->c->p;
    for (int j = 0; p->overlaps && j < x->n_in; j++) {
        nc_storage s = x->in[j] >= 0 ? p->slots[x->in[j]].storage : NC_S_NONE;
        if (s == NC_S_VIEW || s == NC_S_OBJECT) wait_for(k, x, k->made[x->in[j]]);
    }
}

static nc_code wait_all(clocks *k, nc_instr *x) {
    nc_program *p = k->c->p;
    int most = k->n > 1 ? 3 * x->n_in + (x->n_out + 2) * k->n : 0;
    NC_NEED(k->c->w, x->wait = nc_arena_array(&p->arena, (size_t)most, sizeof *x->wait));
    if (k->n == 1) return NC_OK;
    for (int j = 0; !p->overlaps && x->stream && x->binding->run && j < x->n_in; j++)
        if (x->in[j] >= 0 && !skips_bytes(x, j) && !p->slots[x->in[j]].place)
            host_wait_for(k, x, k->written[p->slots[x->in[j]].root]);
    wait_for_geometry(k, x);
    for (int j = 0; j < x->n_in; j++)
        if (x->in[j] >= 0 && !skips_bytes(x, j)) wait_for(k, x, k->written[p->slots[x->in[j]].root]);
    for (int j = 0; j < x->n_out && x->binding->kind != NC_K_VIEW; j++)
        for (int s = 0; x->out[j] >= 0 && s < k->n; s++) wait_for(k, x, seen(k, p->slots[x->out[j]].root)[s]);
    return NC_OK;
}

static void note(clocks *k, const nc_instr *x, int i) {
    const nc_program *p = k->c->p;
    for (int j = 0; j < x->n_in; j++)
        if (x->in[j] >= 0 && !skips_bytes(x, j)) seen(k, p->slots[x->in[j]].root)[x->stream] = i;
    for (int j = 0; j < x->n_out; j++) {
        if (x->out[j] < 0) continue;
        k->made[x->out[j]] = i;
        if (x->binding->kind == NC_K_VIEW) continue;
        int root = p->slots[x->out[j]].root;
        k->written[root] = seen(k, root)[x->stream] = i;
    }
}

/* Where sizes are read the host waits for the streams that find them; control flow ends with every stream done that it
 * was lent. */
static void host_waits(clocks *k, const nc_instr *x, int i) {
    const nc_program *p = k->c->p;
    const nc_segment *g = &p->segs[x->seg];
    for (int j = g->first; i + 1 == g->end && j <= i; j++)
        if (p->instrs[j].sizes >= 0) join(k, knows(k, 0), knows(k, p->instrs[j].stream));
    for (int s = 1; x->subs && x->node->n_subs && s < x->subs[0]->n_streams; s++) join(k, knows(k, 0), knows(k, s));
}

static bool runs_alone(const nc_instr *x) { return x->subs || nc_is_deferred(x->node); }

/* All that was issued before i is done. */
static void know_all(const clocks *k, int i) {
    for (int s = 0; s < k->n * k->n; s++) k->on[s] = i - 1;
}

/* What the host's streams have in common, before instruction i of a program that overlaps. */
static void meet(const clocks *k, int i) {
    const nc_instr *x = &k->c->p->instrs[i];
    bool starts = i == k->c->p->segs[x->seg].first;
    if (starts || runs_alone(x) || (i && runs_alone(x - 1))) know_all(k, i);
}

static nc_code run_clocks(clocks *k) {
    nc_program *p = k->c->p;
    size_t bytes = (size_t)k->n * sizeof(int);
    int *clock = nc_arena_array(&p->arena, (size_t)p->n_instrs * (size_t)k->n + 1, sizeof *clock);
    NC_NEED(k->c->w, clock);
    for (int i = 0; i < p->n_instrs; i++, clock += k->n) {
        nc_instr *x = &p->instrs[i];
        x->clock = clock;
        if (p->overlaps) meet(k, i);
        memcpy(clock, knows(k, x->stream), bytes);
        if (!p->overlaps) join(k, clock, knows(k, 0));
        NC_TRY(wait_all(k, x));
        memcpy(knows(k, x->stream), clock, bytes);
        knows(k, x->stream)[x->stream] = i;
        note(k, x, i);
        host_waits(k, x, i);
    }
    return NC_OK;
}

/* ---- what runs beside what ---- */

static bool does_work(const nc_instr *x) { return x->binding->kind != NC_K_VIEW; }

/* An instruction runs alone when it knows all that is issued before it in its segment and all that comes later knows
 * it: stopping there loses nothing, and its kernel gets all threads. Views do no work and stand in nobody's way. */
static nc_code find_beside(const clocks *k, const nc_segment *g) {
    nc_program *p = k->c->p;
    int *near = nc_arena_array(&k->c->w->scratch, (size_t)k->n, sizeof *near);
    NC_NEED(k->c->w, near);
    for (int s = 0; s < k->n; s++) near[s] = -1;
    for (int i = g->first; i < g->end; i++) {
        nc_instr *x = &p->instrs[i];
        for (int s = 0; does_work(x) && s < k->n; s++) x->beside |= s != x->stream && near[s] > x->clock[s];
        if (does_work(x)) near[x->stream] = i;
    }
    for (int s = 0; s < k->n; s++) near[s] = p->n_instrs;
    for (int i = g->end - 1; i >= g->first; i--) {
        nc_instr *x = &p->instrs[i];
        for (int s = 0; does_work(x) && s < k->n; s++)
            x->beside |= s != x->stream && near[s] < g->end && p->instrs[near[s]].clock[x->stream] < i;
        if (does_work(x)) near[x->stream] = i;
    }
    for (int i = g->first, last = -1; i < g->end; i++) { /* views between two that run side by side go with them */
        if (does_work(&p->instrs[i]) && !p->instrs[i].beside) last = -1;
        for (int v = last + 1; p->instrs[i].beside && last >= 0 && v < i; v++) p->instrs[v].beside = true;
        if (p->instrs[i].beside) last = i;
    }
    return NC_OK;
}

static nc_code order_streams(const clocks *k) {
    nc_program *p = k->c->p;
    int *next = nc_arena_array(&k->c->w->scratch, (size_t)k->n, sizeof *next);
    NC_NEED(k->c->w, next);
    for (int s = 0; s < k->n; s++) next[s] = p->n_instrs;
    for (int i = p->n_instrs - 1; i >= 0; i--)
        p->instrs[i].after = next[p->instrs[i].stream], next[p->instrs[i].stream] = i;
    for (int s = 0; p->overlaps && s < p->n_segs; s++) NC_TRY(find_beside(k, &p->segs[s]));
    return NC_OK;
}

/* ---- capture ---- */

/* A recorded piece bakes addresses in: only memory that stays where it is from run to run may take part. */
static bool stays(const nc_program *p, const int *slots, int n) {
    for (int j = 0; j < n; j++) {
        nc_storage s = slots[j] < 0 ? NC_S_ARENA : p->slots[p->slots[slots[j]].root].storage;
        if (s != NC_S_ARENA && s != NC_S_CONST && s != NC_S_STATE) return false;
    }
    return true;
}

static void find_capture(nc_program *p, nc_segment *g) {
    int stream = 0;
    g->cap_first = g->cap_end = g->first;
    for (int i = g->first; i < g->end; i++) {
        const nc_prog_stream *on = &p->streams[p->instrs[i].stream];
        if (on->kind != NC_STREAM_COMPUTE || !on->place) continue;
        if (g->cap_end == g->cap_first) g->cap_first = i, stream = p->instrs[i].stream;
        g->cap_end = i + 1;
    }
    g->why_not = g->cap_end == g->cap_first ? "no device instruction" : NULL;
    for (int i = g->cap_first; i < g->cap_end; i++) {
        const nc_instr *x = &p->instrs[i];
        if (x->stream != stream && x->binding->kind != NC_K_VIEW)
            g->why_not = p->streams[x->stream].kind == NC_STREAM_COMPUTE
                             ? "several streams compute"
                             : "a copy or a host instruction stands between";
        if (x->sizes >= 0) g->why_not = "an instruction finds a size";
        if (!stays(p, x->in, x->n_in) || !stays(p, x->out, x->n_out))
            g->why_not = "an operand lies elsewhere in every run";
    }
    g->capturable = !g->why_not;
}

static bool is_edge_copy(const nc_program *p, const nc_instr *x) {
    const nc_slot *in = &p->slots[x->in[0]], *out = &p->slots[x->out[0]];
    return out->from_input >= 0 || (out->storage == NC_S_OUTPUT && in->to_output == out->index);
}

/* The end of an inner program drains streams that its parent counts on (host_waits): never one. */
static bool copies_edges(const nc_program *p) {
    bool only = !p->inner && p->n_streams == 3; /* the host's, one that computes, one that copies */
    for (int i = 0; i < p->n_instrs && only; i++) {
        const nc_instr *x = &p->instrs[i];
        bool copies = p->streams[x->stream].kind == NC_STREAM_COPY;
        only = !runs_alone(x) && !(x->stream ? x->n_host_wait : x->n_wait) && (!copies || is_edge_copy(p, x));
    }
    return only;
}

nc_code nc_build_streams(nc_build_ctx *c) {
    nc_program *p = c->p;
    size_t n = (size_t)p->n_streams, n_seen = (size_t)p->n_slots * n;
    clocks k = {.c = c, .n = p->n_streams};
    NC_NEED(c->w, k.on = nc_arena_array(&c->w->scratch, n * n, sizeof *k.on));
    NC_NEED(c->w, k.written = nc_arena_array(&c->w->scratch, (size_t)p->n_slots + 1, sizeof *k.written));
    NC_NEED(c->w, k.seen = nc_arena_array(&c->w->scratch, n_seen + 1, sizeof *k.seen));
    NC_NEED(c->w, k.made = nc_arena_array(&c->w->scratch, (size_t)p->n_slots + 1, sizeof *k.made));
    memset(k.made, -1, (size_t)p->n_slots * sizeof *k.made);
    memset(k.on, -1, n * n * sizeof *k.on);
    memset(k.written, -1, (size_t)p->n_slots * sizeof *k.written);
    memset(k.seen, -1, n_seen * sizeof *k.seen);
    NC_TRY(run_clocks(&k));
    NC_TRY(order_streams(&k));
    for (int s = 0; s < p->n_segs; s++) find_capture(p, &p->segs[s]);
    p->copies_edges = copies_edges(p);
    return NC_OK;
}
