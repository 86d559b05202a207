/* plan/streams.c: events between streams, and clocks: what is surely done before an instruction starts.
 *
 * The host issues instructions in order and does its own at once. So whatever the host has waited for, every later
 * instruction knows. A device instruction also knows what its stream and the events it waits for know. Memory of a dead
 * value may be given to an instruction only when the clock says that all its users are done (plan/instance.c). */
#include "plan/build.h"

#include <string.h>

typedef struct clocks {
    nc_build_ctx *c;
    int on[NC_N_STREAMS][NC_N_STREAMS]; /* on[s]: what the newest instruction of stream s knows */
    int *written;                       /* per root: the last instruction that wrote it */
    int (*seen)[NC_N_STREAMS];          /* per root: the last instruction of each stream that touched it */
} clocks;

static void join(int *into, const int *from) {
    for (int k = 0; k < NC_N_STREAMS; k++)
        if (from[k] > into[k]) into[k] = from[k];
}

static nc_code wait_for(clocks *k, nc_instr *x, int *clock, int i_other) {
    nc_program *p = k->c->p;
    if (i_other < 0) return NC_OK;
    nc_instr *y = &p->instrs[i_other];
    if (y->stream == x->stream || clock[y->stream] >= i_other) return NC_OK;
    if (y->record < 0) y->record = p->n_events++;
    x->wait[x->n_wait++] = y->record;
    join(clock, y->clock);
    if (i_other > clock[y->stream]) clock[y->stream] = i_other;
    return NC_OK;
}

static bool skips_bytes(const nc_instr *x, int j) {
    return (j < 32 && (x->dims_only >> j & 1)) || (x->binding->kind == NC_K_VIEW && j == 0);
}

static nc_code wait_all(clocks *k, nc_instr *x, int *clock) {
    nc_program *p = k->c->p;
    int most = x->n_in + (x->n_out + 2) * NC_N_STREAMS;
    NC_NEED(k->c->w, x->wait = nc_arena_array(&p->arena, (size_t)most, sizeof *x->wait));
    for (int j = 0; j < x->n_in; j++)
        if (x->in[j] >= 0 && !skips_bytes(x, j)) NC_TRY(wait_for(k, x, clock, k->written[p->slots[x->in[j]].root]));
    for (int j = 0; j < x->n_out && x->binding->kind != NC_K_VIEW; j++)
        for (int s = 0; x->out[j] >= 0 && s < NC_N_STREAMS; s++)
            NC_TRY(wait_for(k, x, clock, k->seen[p->slots[x->out[j]].root][s]));
    return NC_OK;
}

static void note(clocks *k, const nc_instr *x, int i) {
    const nc_program *p = k->c->p;
    for (int j = 0; j < x->n_in; j++)
        if (x->in[j] >= 0 && !skips_bytes(x, j)) k->seen[p->slots[x->in[j]].root][x->stream] = i;
    for (int j = 0; j < x->n_out && x->binding->kind != NC_K_VIEW; j++)
        if (x->out[j] >= 0) k->written[p->slots[x->out[j]].root] = k->seen[p->slots[x->out[j]].root][x->stream] = i;
}

static nc_code run_clocks(clocks *k) {
    nc_program *p = k->c->p;
    for (int i = 0; i < p->n_instrs; i++) {
        nc_instr *x = &p->instrs[i];
        int clock[NC_N_STREAMS];
        memcpy(clock, k->on[x->stream], sizeof clock);
        join(clock, k->on[NC_STREAM_HOST]);
        NC_TRY(wait_all(k, x, clock));
        memcpy(x->clock, clock, sizeof clock);
        clock[x->stream] = i;
        memcpy(k->on[x->stream], clock, sizeof clock);
        note(k, x, i);
        /* The host waits for the compute stream where sizes are read; control flow ends with every stream done. */
        bool ends = i + 1 == p->segs[x->seg].end;
        for (int j = p->segs[x->seg].first; ends && j <= i; j++)
            if (p->instrs[j].sizes >= 0) join(k->on[NC_STREAM_HOST], k->on[NC_STREAM_COMPUTE]);
        if (!x->subs) continue;
        join(k->on[NC_STREAM_HOST], k->on[NC_STREAM_COMPUTE]);
        join(k->on[NC_STREAM_HOST], k->on[NC_STREAM_COPY]);
    }
    return NC_OK;
}

/* A recorded piece bakes addresses in: only memory that stays where it is from run to run may take part. */
static bool stays(const nc_program *p, const int *slots, int n) {
    for (int j = 0; j < n; j++) {
        nc_storage s = slots[j] < 0 ? NC_S_ARENA : p->slots[p->slots[slots[j]].root].storage;
        if (s != NC_S_ARENA && s != NC_S_CONST && s != NC_S_STATE) return false;
    }
    return true;
}

static void find_capture(nc_program *p, nc_segment *g) {
    g->cap_first = g->cap_end = g->first;
    for (int i = g->first; i < g->end; i++) {
        if (p->instrs[i].stream != NC_STREAM_COMPUTE) continue;
        if (g->cap_end == g->cap_first) g->cap_first = i;
        g->cap_end = i + 1;
    }
    g->why_not = g->cap_end == g->cap_first ? "no device instruction" : NULL;
    for (int i = g->cap_first; i < g->cap_end; i++) {
        const nc_instr *x = &p->instrs[i];
        if (x->stream != NC_STREAM_COMPUTE && x->binding->kind != NC_K_VIEW)
            g->why_not = "a copy or a host instruction stands between";
        if (x->sizes >= 0) g->why_not = "an instruction finds a size";
        if (!stays(p, x->in, x->n_in) || !stays(p, x->out, x->n_out))
            g->why_not = "an operand lies elsewhere in every run";
    }
    g->capturable = !g->why_not;
}

nc_code nc_build_streams(nc_build_ctx *c) {
    nc_program *p = c->p;
    clocks k = {.c = c};
    memset(k.on, -1, sizeof k.on);
    NC_NEED(c->w, k.written = nc_arena_array(&c->w->scratch, (size_t)p->n_slots, sizeof *k.written));
    NC_NEED(c->w, k.seen = nc_arena_array(&c->w->scratch, (size_t)p->n_slots, sizeof *k.seen));
    for (int i = 0; i < p->n_slots; i++) {
        k.written[i] = -1;
        memset(k.seen[i], -1, sizeof k.seen[i]);
    }
    NC_TRY(run_clocks(&k));
    for (int s = 0; s < p->n_segs; s++) find_capture(p, &p->segs[s]);
    return NC_OK;
}
