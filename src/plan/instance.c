/* plan/instance.c: offsets for one set of sizes. Largest first, each at the lowest offset that does not collide with a
 * slot whose life overlaps or whose last users are not surely done. Quadratic in the number of slots of a segment, with
 * a small constant. */
#include "plan/instance.h"

#include "base/mem.h"
#include "plan/check_program.h"

#include <stdlib.h>

enum { ALIGN = 64 };

typedef struct block {
    int slot;
    size_t bytes, offset;
} block;

typedef struct layout {
    nc_work *w;
    const nc_program *p;
    int seg;
    const int64_t *caps;
    const bool *known;
    block *blocks;
    int n;
} layout;

/* Capacity of a dim: its value at the capacities; symbols that the segment itself will find count with their bounds. */
static bool cap_of(const layout *l, const nc_dim *d, int64_t *out) {
    return nc_dim_eval(d, l->caps, l->known, out) && *out >= 0;
}

static nc_code tensor_at_caps(const layout *l, int slot, nc_tensor *t) {
    const nc_slot *s = &l->p->slots[slot];
    *t = (nc_tensor){.dtype = s->dtype, .rank = s->rank < 0 ? 0 : s->rank};
    for (int d = 0; d < t->rank; d++) {
        if (cap_of(l, l->p->dims[s->dims[d]], &t->dims[d])) continue;
        NC_FAIL(l->w, NC_E_LIMIT, "the size of '%s' is unknown, negative or too large",
                s->value ? s->value->name : "?");
    }
    nc_dense_strides(t->dims, t->rank, t->strides);
    return NC_OK;
}

static nc_code workspace_bytes(const layout *l, const nc_instr *x, size_t *out) {
    nc_tensor *in = nc_arena_array(&l->w->scratch, (size_t)(x->n_in + x->n_out) + 1, sizeof *in);
    NC_NEED(l->w, in);
    for (int j = 0; j < x->n_in; j++)
        if (x->in[j] >= 0) NC_TRY(tensor_at_caps(l, x->in[j], &in[j]));
    for (int j = 0; j < x->n_out; j++)
        if (x->out[j] >= 0) NC_TRY(tensor_at_caps(l, x->out[j], &in[x->n_in + j]));
    *out = x->binding->workspace(x->state, in, x->n_in, in + x->n_in, x->n_out);
    return NC_OK;
}

static nc_code add_block(layout *l, int slot, size_t bytes) {
    if (bytes > SIZE_MAX / 2) NC_FAIL(l->w, NC_E_LIMIT, "a tensor of more than half the address space");
    bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    l->blocks[l->n++] = (block){.slot = slot, .bytes = bytes ? bytes : ALIGN};
    return NC_OK;
}

static nc_code collect(layout *l) {
    const nc_segment *g = &l->p->segs[l->seg];
    for (int i = g->first; i < g->end; i++) {
        const nc_instr *x = &l->p->instrs[i];
        l->w->at_node = x->node->name, l->w->at_op = x->node->card->name;
        for (int j = 0; j < x->n_out; j++) {
            if (x->out[j] < 0 || l->p->slots[x->out[j]].storage != NC_S_ARENA) continue;
            nc_tensor t;
            size_t bytes;
            NC_TRY(tensor_at_caps(l, x->out[j], &t));
            if (!nc_tensor_bytes(t.dtype, t.dims, t.rank, &bytes))
                NC_FAIL(l->w, NC_E_LIMIT, "its result is too large to address");
            NC_TRY(add_block(l, x->out[j], bytes));
        }
        if (x->sizes >= 0) NC_TRY(add_block(l, x->sizes, sizeof(int64_t) * NC_MAX_RANK * (size_t)x->n_out));
        size_t bytes = 0;
        if (x->workspace >= 0) NC_TRY(workspace_bytes(l, x, &bytes));
        if (x->workspace >= 0) NC_TRY(add_block(l, x->workspace, bytes));
    }
    return NC_OK;
}

static bool done_before(const nc_program *p, const nc_slot *a, const nc_slot *b) {
    if (a->last >= b->first) return false;
    const nc_instr *x = &p->instrs[b->first];
    for (int s = 0; s < NC_N_STREAMS; s++)
        if (a->last_on[s] >= 0 && s != x->stream && x->clock[s] < a->last_on[s]) return false;
    return true;
}

static bool collide(const nc_program *p, const nc_slot *a, const nc_slot *b) {
    return a->place == b->place && !done_before(p, a, b) && !done_before(p, b, a);
}

static int larger_first(const void *a, const void *b) {
    const block *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->slot - y->slot;
}

static int lower_first(const void *a, const void *b) {
    const block *x = *(const block *const *)a, *y = *(const block *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->slot - y->slot;
}

/* The lowest gap among the colliding blocks placed so far. */
static size_t lowest_gap(const layout *l, int k, const block **near) {
    int n = 0;
    for (int i = 0; i < k; i++)
        if (collide(l->p, &l->p->slots[l->blocks[i].slot], &l->p->slots[l->blocks[k].slot])) near[n++] = &l->blocks[i];
    qsort(near, (size_t)n, sizeof *near, lower_first);
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        if (near[i]->offset >= at + l->blocks[k].bytes) break;
        if (near[i]->offset + near[i]->bytes > at) at = near[i]->offset + near[i]->bytes;
    }
    return at;
}

static nc_code fill(layout *l, nc_instance *x) {
    const block **near = nc_arena_array(&l->w->scratch, (size_t)l->n + 1, sizeof *near);
    NC_NEED(l->w, near);
    qsort(l->blocks, (size_t)l->n, sizeof *l->blocks, larger_first);
    for (int i = 0; i < l->p->n_slots; i++) x->offset[i] = SIZE_MAX;
    for (int k = 0; k < l->n; k++) {
        block *b = &l->blocks[k];
        b->offset = lowest_gap(l, k, near);
        x->offset[b->slot] = b->offset, x->bytes[b->slot] = b->bytes;
        size_t *total = &x->total[l->p->slots[b->slot].place];
        if (b->offset > SIZE_MAX / 2) NC_FAIL(l->w, NC_E_LIMIT, "memory of more than half the address space");
        if (b->offset + b->bytes > *total) *total = b->offset + b->bytes;
    }
    return NC_OK;
}

/* Symbols that the segment finds itself get their bound's capacity, so that memory can be planned before they are
 * known. */
static nc_code bound_symbols(nc_work *w, const nc_program *p, const nc_segment *g, int64_t *caps, bool *known) {
    for (int s = 0; s < p->n_syms; s++) {
        const nc_dim *b = g->syms[s] && !known[s] ? nc_dim_bound(p->model->dims, s) : NULL;
        if (b && nc_dim_eval(b, caps, known, &caps[s])) known[s] = true;
    }
    (void)w;
    return NC_OK;
}

nc_code nc_instance_create(nc_work *w, const nc_program *p, int i_seg, const int64_t *caps, const bool *known,
                           nc_instance **out) {
    size_t n_slots = (size_t)p->n_slots, n_syms = (size_t)p->n_syms + 1;
    layout l = {.w = w, .p = p, .seg = i_seg};
    int64_t *c = nc_arena_copy(&w->scratch, caps, n_syms * sizeof *c);
    bool *k = nc_arena_copy(&w->scratch, known, n_syms * sizeof *k);
    NC_NEED(w, c);
    NC_NEED(w, k);
    NC_NEED(w, l.blocks = nc_arena_array(&w->scratch, n_slots + 1, sizeof *l.blocks));
    NC_TRY(bound_symbols(w, p, &p->segs[i_seg], c, k));
    l.caps = c, l.known = k;
    NC_TRY(collect(&l));
    size_t bytes = sizeof(nc_instance) + 2 * n_slots * sizeof(size_t);
    nc_instance *x = nc_alloc_zero(1, bytes);
    NC_NEED(w, x);
    x->offset = (size_t *)(x + 1), x->bytes = x->offset + n_slots, x->bytes_self = bytes;
    nc_code code = fill(&l, x);
    if (code == NC_OK && NC_CHECKS_PROGRAMS) code = nc_instance_check(w, p, i_seg, x);
    if (code != NC_OK) {
        nc_free(x);
        return code;
    }
    w->at_node = w->at_op = NULL;
    *out = x;
    return NC_OK;
}

void nc_instance_print(nc_text *out, const nc_program *p, int i_seg, const nc_instance *x) {
    nc_text_addf(out, "segment %d: host %zu bytes, device %zu bytes\n", i_seg, x->total[0], x->total[1]);
    for (int i = 0; i < p->n_slots; i++) {
        if (x->offset[i] == SIZE_MAX) continue;
        const nc_slot *s = &p->slots[i];
        nc_text_addf(out, "  %%%-4d place %d  [%8zu, %8zu)  instructions %d..%d  %s\n", i, s->place, x->offset[i],
                     x->offset[i] + x->bytes[i], s->first, s->last, s->value ? s->value->name : "workspace");
    }
}
