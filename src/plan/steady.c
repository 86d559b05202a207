/* plan/steady.c: what a run must do again although sizes and memory are those of the run before, and what may stay. A
 * frame keeps its slots bound between runs; only what this step lists is touched then.
 *
 * Example: x -> Transpose (a view of x) -> MatMul -> y. In every run x and y lie elsewhere, so the slot of y is
 * refilled and the view runs again, since its bytes are the caller's. Were the view on an arena slot, it would be
 * fixed: computed when the segment is bound, never again while the sizes stay. */
#include "plan/build.h"

static bool is_edge(const nc_slot *s) { return s->from_input >= 0 || s->to_output >= 0; }
static bool stays(const nc_slot *s) { return (s->storage == NC_S_ARENA && !is_edge(s)) || s->storage == NC_S_CONST; }

/* made_by: per slot, the instruction that makes it. */
static bool is_fixed(const nc_program *p, const nc_instr *x, const int *made_by) {
    if (x->binding->kind != NC_K_VIEW || x->in[0] < 0) return false;
    const nc_slot *of = &p->slots[x->in[0]];
    if (!stays(&p->slots[of->root])) return false;
    if (of->storage == NC_S_VIEW && !p->instrs[made_by[x->in[0]]].fixed) return false;
    for (int j = 1; j < x->n_in; j++)
        if (x->in[j] >= 0 && p->slots[p->slots[x->in[j]].root].storage != NC_S_CONST) return false;
    return true;
}

static nc_code number_operands(nc_build_ctx *c) {
    nc_program *p = c->p;
    int *made_by = nc_arena_array(&c->w->scratch, (size_t)p->n_slots + 1, sizeof *made_by);
    NC_NEED(c->w, made_by);
    for (int i = 0; i < p->n_instrs; i++) {
        nc_instr *x = &p->instrs[i];
        x->first_operand = p->n_operands;
        p->n_operands += x->n_in + x->n_out;
        for (int j = 0; j < x->n_in; j++) x->lets_go |= x->moved[j];
        x->fixed = is_fixed(p, x, made_by);
        for (int o = 0; o < x->n_out; o++)
            if (x->out[o] >= 0) made_by[x->out[o]] = i, p->slots[x->out[o]].steady = x->fixed;
    }
    return NC_OK;
}

static bool are_vars_fixed(const nc_program *p) {
    bool fixed = true;
    int64_t size;
    for (int i = 0; i < p->n_vars && fixed; i++) fixed = p->graph->vars.v[i]->grow_axis < 0;
    for (int i = 0; i < p->n_states; i++)
        for (int d = 0; d < p->slots[p->states[i]].rank; d++)
            fixed &= nc_dim_is_const(p->dims[p->slots[p->states[i]].dims[d]], &size);
    return fixed;
}

static nc_code list_slots(nc_build_ctx *c) {
    nc_program *p = c->p;
    NC_NEED(c->w, p->held = nc_arena_array(&p->arena, (size_t)p->n_slots + 1, sizeof *p->held));
    NC_NEED(c->w, p->states = nc_arena_array(&p->arena, (size_t)p->n_slots + 1, sizeof *p->states));
    for (int i = 0; i < p->n_slots; i++) {
        nc_storage s = p->slots[i].storage;
        if (s == NC_S_INPUT || s == NC_S_OUTPUT || s == NC_S_OBJECT) p->held[p->n_held++] = i;
        if (s == NC_S_STATE) p->states[p->n_states++] = i;
    }
    p->vars_fixed = are_vars_fixed(p);
    return NC_OK;
}

typedef struct lister {
    nc_build_ctx *c;
    int *seen; /* per slot: the segment that listed it last, plus one */
} lister;

static void add_block(nc_program *p, nc_segment *g, int slot) {
    if (slot < 0 || p->slots[slot].storage != NC_S_ARENA) return;
    p->slots[slot].block = g->n_blocks;
    g->blocks[g->n_blocks++] = slot;
}

static void list_instr(const lister *l, nc_segment *g, int seg, const nc_instr *x) {
    nc_program *p = l->c->p;
    for (int j = 0; j < x->n_in; j++) {
        if (x->in[j] < 0 || p->slots[x->in[j]].storage != NC_S_INPUT || l->seen[x->in[j]] == seg + 1) continue;
        l->seen[x->in[j]] = seg + 1;
        g->needs[g->n_needs++] = x->in[j];
    }
    for (int o = 0; o < x->n_out; o++) {
        if (x->out[o] < 0) continue;
        add_block(p, g, x->out[o]);
        const nc_slot *s = &p->slots[x->out[o]];
        if (s->storage == NC_S_OUTPUT || is_edge(s) || x->binding->kind == NC_K_BOUNDED)
            g->refilled[g->n_refilled++] = x->out[o];
    }
    add_block(p, g, x->workspace);
    add_block(p, g, x->sizes);
}

static nc_code list_segment(const lister *l, int seg) {
    nc_program *p = l->c->p;
    nc_segment *g = &p->segs[seg];
    size_t n_in = 0, n_out = 0;
    for (int i = g->first; i < g->end; i++) n_in += (size_t)p->instrs[i].n_in, n_out += (size_t)p->instrs[i].n_out + 2;
    NC_NEED(l->c->w, g->needs = nc_arena_array(&p->arena, n_in + 1, sizeof *g->needs));
    NC_NEED(l->c->w, g->refilled = nc_arena_array(&p->arena, n_out + 1, sizeof *g->refilled));
    NC_NEED(l->c->w, g->blocks = nc_arena_array(&p->arena, n_out + 1, sizeof *g->blocks));
    for (int i = g->first; i < g->end; i++) list_instr(l, g, seg, &p->instrs[i]);
    return NC_OK;
}

nc_code nc_build_steady(nc_build_ctx *c) {
    lister l = {.c = c};
    NC_TRY(number_operands(c));
    NC_TRY(list_slots(c));
    NC_NEED(c->w, l.seen = nc_arena_array(&c->w->scratch, (size_t)c->p->n_slots + 1, sizeof *l.seen));
    for (int s = 0; s < c->p->n_segs; s++) NC_TRY(list_segment(&l, s));
    return NC_OK;
}
