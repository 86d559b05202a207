/* plan/segments.c: cuts the instructions where a size becomes known or a run may stop.
 *
 * A symbol is known from the start (inputs, variables), by sizing (a static or sized kernel or a view whose card can
 * tell the dims from the contents of host arguments, once those are computed), or after a bounded or dynamic kernel
 * ran. */
#include "plan/build.h"

#include <string.h>

typedef struct cutter {
    nc_build_ctx *c;
    bool *known, *pending; /* per symbol; pending: found by an instruction of the open segment */
    int *made_in;          /* per slot: segment that makes it, -1 before the first */
    int n_segs;
    bool *sized;    /* per instruction */
    int *seg_first; /* per segment: first instruction */
    int phase;
    int **dim_syms; /* per dim of the program: how many symbols it has, then those */
    int *sym_seg;   /* per symbol: the segment that listed it last, plus one; the same for dims that may shrink */
    int *dim_seg;
} cutter;

static const int *syms_of(const cutter *k, const nc_slot *s, int d) { return k->dim_syms[s->dims[d]]; }

static void open_segment(cutter *k, int i) {
    if (k->n_segs && k->seg_first[k->n_segs - 1] == i) return; /* still empty */
    for (int s = 0; s < k->c->p->n_syms; s++) k->known[s] |= k->pending[s];
    memset(k->pending, 0, (size_t)k->c->p->n_syms);
    k->seg_first[k->n_segs++] = i;
}

static bool slot_known(const cutter *k, int i_slot, bool *pending) {
    const nc_slot *s = &k->c->p->slots[i_slot];
    bool ok = true;
    *pending = false;
    for (int d = 0; d < s->rank; d++) {
        const int *syms = syms_of(k, s, d);
        for (int i = 1; i <= syms[0]; i++) {
            if (k->known[syms[i]]) continue;
            ok = false;
            *pending |= k->pending[syms[i]];
        }
    }
    return ok;
}

static void define_symbols(cutter *k, const nc_instr *x, bool *set) {
    for (int o = 0; o < x->n_out; o++) {
        if (x->out[o] < 0) continue;
        const nc_slot *s = &k->c->p->slots[x->out[o]];
        for (int d = 0; d < s->rank; d++) {
            int sym = nc_dim_sym_id(k->c->p->dims[s->dims[d]]);
            if (sym >= 0 && !k->known[sym]) set[sym] = true;
        }
    }
}

/* What the card is asked with: the contents of host arguments, and a tensor whose rank only its maker tells. */
static bool operands_ready(const cutter *k, const nc_instr *x) {
    for (int i = 0; i < x->n_in; i++) {
        if (x->in[i] < 0 || k->made_in[x->in[i]] != k->n_segs - 1) continue;
        const nc_slot *s = &k->c->p->slots[x->in[i]];
        if ((i < 32 && x->node->card->host_in >> i & 1) || (s->rank < 0 && s->dtype)) return false;
    }
    return true;
}

static bool outputs_known(const cutter *k, const nc_instr *x, bool *pending) {
    bool ok = true, one;
    *pending = false;
    for (int o = 0; o < x->n_out; o++) {
        if (x->out[o] < 0) continue;
        ok &= slot_known(k, x->out[o], &one);
        *pending |= one;
    }
    return ok;
}

static nc_code cut_before(cutter *k, int i) {
    nc_program *p = k->c->p;
    nc_instr *x = &p->instrs[i];
    bool pending = false, inputs_pending = false;
    for (int j = 0; j < x->n_in; j++) {
        bool one;
        if (x->in[j] >= 0) slot_known(k, x->in[j], &one), inputs_pending |= one;
    }
    for (int s = 0; x->subs && s < p->n_syms; s++) inputs_pending |= k->pending[s]; /* a subgraph may use any of them */
    if (inputs_pending) open_segment(k, i);
    bool made_at_run = x->binding->kind == NC_K_BOUNDED || (x->binding->kind == NC_K_DYNAMIC && !x->binding->sized);
    if (made_at_run) {
        define_symbols(k, x, k->pending);
        return NC_OK;
    }
    if (outputs_known(k, x, &pending)) return NC_OK;
    if (pending) open_segment(k, i);
    if (outputs_known(k, x, &pending)) return NC_OK;
    if (!operands_ready(k, x)) open_segment(k, i);
    k->sized[i] = true;
    define_symbols(k, x, k->known);
    if (!outputs_known(k, x, &pending)) {
        k->c->w->at_node = x->node->name, k->c->w->at_op = x->node->card->name;
        NC_FAIL(k->c->w, NC_E_SHAPE, "the size of its result cannot be found before it runs");
    }
    return NC_OK;
}

static nc_code add_cuts(cutter *k, int i, int phase) {
    nc_program *p = k->c->p;
    for (; k->phase < phase; k->phase++) {
        open_segment(k, i);
        p->cuts[p->n_cuts++] = (nc_prog_cut){.name = k->c->o->cuts[k->phase].name, .instr = i};
    }
    return NC_OK;
}

typedef NC_VEC(int) ints;

/* Takes in dim i_dim of a slot that the segment reads or makes. */
static nc_code mark_size(cutter *k, int seg, int i_dim, ints *syms) {
    nc_segment *g = &k->c->p->segs[seg];
    const nc_dim *d = k->c->p->dims[i_dim];
    if (k->dim_seg[i_dim] == seg + 1) return NC_OK;
    k->dim_seg[i_dim] = seg + 1;
    for (int i = 1; i <= k->dim_syms[i_dim][0]; i++) {
        int sym = k->dim_syms[i_dim][i];
        if (k->sym_seg[sym] == seg + 1) continue;
        k->sym_seg[sym] = seg + 1;
        if (!NC_PUSH(&k->c->w->scratch, *syms, sym)) NC_FAIL(k->c->w, NC_E_MEMORY, "out of memory");
    }
    if (!nc_dim_grows(d) && !NC_PUSH(&k->c->p->arena, g->shrinking, d)) NC_FAIL(k->c->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code fill_segment(cutter *k, int s) {
    nc_program *p = k->c->p;
    nc_segment *g = &p->segs[s];
    g->first = k->seg_first[s];
    g->end = s + 1 < k->n_segs ? k->seg_first[s + 1] : p->n_instrs;
    ints syms = {0};
    NC_NEED(k->c->w, g->sizing = nc_arena_array(&p->arena, (size_t)(g->end - g->first), sizeof *g->sizing));
    for (int i = g->first; i < g->end; i++) {
        nc_instr *x = &p->instrs[i];
        x->seg = s;
        if (k->sized[i]) g->sizing[g->n_sizing++] = i;
        bool dynamic = x->binding->kind == NC_K_DYNAMIC;
        for (int j = 0; j < x->n_in + x->n_out; j++) {
            int slot = j < x->n_in ? x->in[j] : x->out[j - x->n_in];
            if (slot < 0 || (j >= x->n_in && dynamic)) continue;
            for (int d = 0; d < p->slots[slot].rank; d++) NC_TRY(mark_size(k, s, p->slots[slot].dims[d], &syms));
        }
        for (int j = 0; j < x->n_out; j++)
            if (x->out[j] >= 0) p->slots[x->out[j]].seg = s;
        if (x->workspace >= 0) p->slots[x->workspace].seg = s;
        if (x->sizes >= 0) p->slots[x->sizes].seg = s;
    }
    g->n_syms = syms.n;
    NC_NEED(k->c->w, g->syms = nc_arena_array(&p->arena, (size_t)syms.n + 1, sizeof *g->syms));
    if (syms.n) memcpy(g->syms, syms.v, (size_t)syms.n * sizeof *g->syms);
    return NC_OK;
}

static nc_code list_symbols(cutter *k) {
    const nc_program *p = k->c->p;
    nc_arena *a = &k->c->w->scratch;
    size_t n_syms = (size_t)p->n_syms + 1;
    bool *none = nc_arena_array(a, n_syms, sizeof *none);
    int *list = nc_arena_array(a, n_syms, sizeof *list);
    NC_NEED(k->c->w, none);
    NC_NEED(k->c->w, list);
    NC_NEED(k->c->w, k->dim_syms = nc_arena_array(a, (size_t)p->n_dims + 1, sizeof *k->dim_syms));
    NC_NEED(k->c->w, k->sym_seg = nc_arena_array(a, n_syms, sizeof *k->sym_seg));
    NC_NEED(k->c->w, k->dim_seg = nc_arena_array(a, (size_t)p->n_dims + 1, sizeof *k->dim_seg));
    for (int d = 0; d < p->n_dims; d++) {
        int n = nc_dim_syms(p->dims[d], none, list);
        NC_NEED(k->c->w, k->dim_syms[d] = nc_arena_array(a, (size_t)n + 1, sizeof *list));
        k->dim_syms[d][0] = n;
        memcpy(k->dim_syms[d] + 1, list, (size_t)n * sizeof *list);
    }
    return NC_OK;
}

nc_code nc_build_segments(nc_build_ctx *c) {
    nc_program *p = c->p;
    cutter k = {.c = c};
    NC_TRY(list_symbols(&k));
    size_t n = (size_t)p->n_instrs + 1, n_syms = (size_t)p->n_syms + 1, n_cuts = (size_t)c->o->n_cuts;
    NC_NEED(c->w, k.known = nc_arena_array(&c->w->scratch, n_syms, sizeof *k.known));
    NC_NEED(c->w, k.pending = nc_arena_array(&c->w->scratch, n_syms, sizeof *k.pending));
    NC_NEED(c->w, k.made_in = nc_arena_array(&c->w->scratch, (size_t)p->n_slots, sizeof *k.made_in));
    NC_NEED(c->w, k.sized = nc_arena_array(&c->w->scratch, n, sizeof *k.sized));
    NC_NEED(c->w, k.seg_first = nc_arena_array(&c->w->scratch, n + n_cuts + 1, sizeof *k.seg_first));
    NC_NEED(c->w, p->cuts = nc_arena_array(&p->arena, n_cuts, sizeof *p->cuts));
    for (int i = 0; i < p->n_slots; i++) k.made_in[i] = -1;
    memcpy(k.known, p->input_syms, n_syms);
    open_segment(&k, 0);
    for (int i = 0; i < p->n_instrs; i++) {
        nc_instr *x = &p->instrs[i];
        NC_TRY(add_cuts(&k, i, nc_choice_of(x->node)->phase));
        NC_TRY(cut_before(&k, i));
        for (int o = 0; o < x->n_out; o++)
            if (x->out[o] >= 0) k.made_in[x->out[o]] = k.n_segs - 1;
    }
    NC_TRY(add_cuts(&k, p->n_instrs, c->o->n_cuts));
    p->n_segs = k.n_segs;
    NC_NEED(c->w, p->segs = nc_arena_array(&p->arena, (size_t)p->n_segs, sizeof *p->segs));
    for (int s = 0; s < p->n_segs; s++) NC_TRY(fill_segment(&k, s));
    return NC_OK;
}
