/* plan/instance.c: offsets for one set of sizes. Largest first, each at the lowest offset that does not collide with a
 * block whose life overlaps or whose last users are not surely done.
 *
 * Blocks that were placed stand in buckets of time, STEP instructions each, so that a new one meets only those that may
 * be alive with it: the cost is the number of such pairs, not the square of the number of blocks. Example, STEP 2: a
 * lives in instructions 0..1, b in 1..4, c in 4..5. The buckets hold {a, b}, {b}, {b, c}; c looks into bucket 2 alone
 * and meets b, so it may lie where a lay. */
#include "plan/instance.h"

#include "base/intmath.h"
#include "base/mem.h"
#include "base/steps.h"
#include "plan/check_program.h"
#include "plan/plan.h"

#include <stdlib.h>

enum { ALIGN = 64, STEP = 32 };

typedef struct block {
    int slot;
    int until; /* the first instruction from which on every one knows its users to be done */
    int met;   /* by which block it was met last, plus one */
    size_t bytes, offset;
} block;

typedef struct bucket {
    int *blocks, n, cap;
} bucket;

typedef struct layout {
    nc_work *w;
    const nc_program *p;
    int seg;
    const int64_t *caps;
    const bool *known;
    block *blocks;
    int n;
    bucket *buckets;
    int **issued;        /* per stream: its instructions in this segment, after their number */
    nc_tensor *operands; /* room for those of any instruction of the segment */
} layout;

/* Capacity of a dim: its value at the capacities; symbols that the segment itself will find count with their bounds. */
static bool cap_of(const layout *l, const nc_dim *d, int64_t *out) {
    return nc_dim_eval(d, l->caps, l->known, out) && *out >= 0;
}

static nc_code tensor_at_caps(const layout *l, int slot, nc_tensor *t) {
    const nc_slot *s = &l->p->slots[slot];
    nc_tensor_set(t, NULL, s->dtype, s->rank < 0 ? 0 : s->rank);
    for (int d = 0; d < t->rank; d++) {
        if (cap_of(l, l->p->dims[s->dims[d]], &t->dims[d])) continue;
        NC_FAIL(l->w, NC_E_LIMIT, "the size of '%s' is unknown, negative or too large",
                s->value ? s->value->name : "?");
    }
    nc_dense_strides(t->dims, t->rank, t->strides);
    return NC_OK;
}

/* Room for the operands of any instruction of the segment, one after the other. */
static nc_code operand_room(layout *l) {
    const nc_segment *g = &l->p->segs[l->seg];
    int n = 0;
    for (int i = g->first; i < g->end; i++) {
        const nc_instr *x = &l->p->instrs[i];
        if (x->workspace >= 0 && x->n_in + x->n_out > n) n = x->n_in + x->n_out;
    }
    NC_NEED(l->w, l->operands = nc_arena_array(&l->w->scratch, (size_t)n + 1, sizeof *l->operands));
    return NC_OK;
}

static nc_code operand_at_caps(const layout *l, int slot, nc_tensor *t) {
    if (slot >= 0) return tensor_at_caps(l, slot, t);
    nc_tensor_set(t, NULL, NC_UNDEFINED, 0);
    return NC_OK;
}

static nc_code workspace_bytes(const layout *l, const nc_instr *x, size_t *out) {
    nc_tensor *in = l->operands;
    for (int j = 0; j < x->n_in; j++) NC_TRY(operand_at_caps(l, x->in[j], &in[j]));
    for (int j = 0; j < x->n_out; j++) NC_TRY(operand_at_caps(l, x->out[j], &in[x->n_in + j]));
    *out = x->binding->workspace(x->state, in, x->n_in, in + x->n_in, x->n_out);
    const nc_choice *c = nc_choice_of(x->node);
    for (int i = 0; i < c->n_variants; i++) {
        const nc_guarded *v = &c->variants[i];
        size_t bytes = v->binding->workspace ? v->binding->workspace(v->state, in, x->n_in, in + x->n_in, x->n_out) : 0;
        if (bytes > *out) *out = bytes;
    }
    return NC_OK;
}

static nc_code add_block(layout *l, int slot, size_t bytes) {
    if (bytes > SIZE_MAX / 2) NC_FAIL(l->w, NC_E_LIMIT, "a tensor of more than half the address space");
    l->blocks[l->n++] = (block){.slot = slot, .bytes = nc_align64(bytes ? bytes : 1)};
    return NC_OK;
}

static nc_code collect(layout *l) {
    const nc_segment *g = &l->p->segs[l->seg];
    NC_TRY(operand_room(l));
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

/* ---- who may be alive together ---- */

static nc_code list_issued(layout *l) {
    const nc_program *p = l->p;
    const nc_segment *g = &p->segs[l->seg];
    size_t n = (size_t)(g->end - g->first);
    NC_NEED(l->w, l->issued = nc_arena_array(&l->w->scratch, (size_t)p->n_streams, sizeof *l->issued));
    for (int s = 0; s < p->n_streams; s++)
        NC_NEED(l->w, l->issued[s] = nc_arena_array(&l->w->scratch, n + 1, sizeof **l->issued));
    for (int i = g->first; i < g->end; i++) {
        int *of = l->issued[p->instrs[i].stream];
        of[++of[0]] = i;
    }
    return NC_OK;
}

static bool knows_done(const nc_program *p, const nc_instr *x, const nc_slot *a) {
    for (int s = 0; s < p->n_streams; s++)
        if (a->last_on[s] >= 0 && s != x->stream && x->clock[s] < a->last_on[s]) return false;
    return true;
}

/* What a stream knows never shrinks, so that the first of its instructions that knows is found by halving. */
static int known_from(const layout *l, const nc_slot *a) {
    const nc_program *p = l->p;
    int until = a->last + 1;
    for (int s = 0; p->n_streams > 1 && s < p->n_streams; s++) {
        const int *of = l->issued[s];
        int low = 1, high = of[0] + 1;
        while (low < high) {
            int mid = (low + high) / 2;
            if (of[mid] > a->last && knows_done(p, &p->instrs[of[mid]], a))
                high = mid;
            else
                low = mid + 1;
        }
        if (low > 1 && of[low - 1] >= until) until = of[low - 1] + 1; /* the last of its instructions that does not */
    }
    return until;
}

static bool done_before(const nc_program *p, const nc_slot *a, const nc_slot *b) {
    return a->last < b->first && knows_done(p, &p->instrs[b->first], a);
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

static int bucket_of(const layout *l, int instr) {
    const nc_segment *g = &l->p->segs[l->seg];
    int at = instr < g->first ? g->first : instr >= g->end ? g->end - 1 : instr;
    return (at - g->first) / STEP;
}

static const nc_slot *slot_of(const layout *l, const block *b) { return &l->p->slots[b->slot]; }

/* The lowest gap among the colliding blocks placed so far. */
static size_t lowest_gap(layout *l, int k, const block **near) {
    block *own = &l->blocks[k];
    int n = 0, end = bucket_of(l, own->until);
    nc_steps_add((uint64_t)(end - bucket_of(l, slot_of(l, own)->first)) + 1);
    for (int t = bucket_of(l, slot_of(l, own)->first); t <= end; t++)
        for (int i = 0; i < l->buckets[t].n; i++) {
            block *other = &l->blocks[l->buckets[t].blocks[i]];
            if (other->met == k + 1) continue;
            other->met = k + 1;
            if (collide(l->p, slot_of(l, other), slot_of(l, own))) near[n++] = other;
        }
    nc_steps_add((uint64_t)n);
    qsort(near, (size_t)n, sizeof *near, lower_first);
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        if (near[i]->offset >= at + own->bytes) break;
        if (near[i]->offset + near[i]->bytes > at) at = near[i]->offset + near[i]->bytes;
    }
    return at;
}

static nc_code put(layout *l, int k) {
    const block *b = &l->blocks[k];
    int end = bucket_of(l, b->until);
    for (int t = bucket_of(l, slot_of(l, b)->first); t <= end; t++) {
        bucket *to = &l->buckets[t];
        if (to->n == to->cap && !nc_arena_grow(&l->w->scratch, (void **)&to->blocks, &to->cap, to->n, sizeof(int)))
            NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
        to->blocks[to->n++] = k;
    }
    return NC_OK;
}

static nc_code fill(layout *l, nc_instance *x) {
    const nc_segment *g = &l->p->segs[l->seg];
    const block **near = nc_arena_array(&l->w->scratch, (size_t)l->n + 1, sizeof *near);
    NC_NEED(l->w, near);
    NC_NEED(l->w, l->buckets = nc_arena_array(&l->w->scratch, (size_t)(g->end - g->first) / STEP + 1, sizeof(bucket)));
    NC_TRY(list_issued(l));
    for (int k = 0; k < l->n; k++) l->blocks[k].until = known_from(l, slot_of(l, &l->blocks[k]));
    qsort(l->blocks, (size_t)l->n, sizeof *l->blocks, larger_first);
    for (int k = 0; k < l->n; k++) {
        block *b = &l->blocks[k];
        b->offset = lowest_gap(l, k, near);
        NC_TRY(put(l, k));
        x->offset[slot_of(l, b)->block] = b->offset, x->bytes[slot_of(l, b)->block] = b->bytes;
        size_t *total = &x->total[slot_of(l, b)->place];
        if (b->offset > SIZE_MAX / 2) NC_FAIL(l->w, NC_E_LIMIT, "memory of more than half the address space");
        if (b->offset + b->bytes > *total) *total = b->offset + b->bytes;
    }
    return NC_OK;
}

/* Symbols that the segment finds itself get their bound's capacity, so that memory can be planned before they are
 * known. */
static void bound_symbols(const nc_program *p, const nc_segment *g, int64_t *caps, bool *known) {
    for (int i = 0; i < g->n_syms; i++) {
        int s = g->syms[i];
        const nc_dim *b = !known[s] ? nc_dim_bound(p->model->dims, s) : NULL;
        if (b && nc_dim_eval(b, caps, known, &caps[s])) known[s] = true;
    }
}

nc_code nc_instance_create(nc_work *w, const nc_program *p, int i_seg, const int64_t *caps, const bool *known,
                           nc_instance **out) {
    size_t n = (size_t)p->segs[i_seg].n_blocks, n_syms = (size_t)p->n_syms + 1;
    layout l = {.w = w, .p = p, .seg = i_seg};
    int64_t *c = nc_arena_copy(&w->scratch, caps, n_syms * sizeof *c);
    bool *k = nc_arena_copy(&w->scratch, known, n_syms * sizeof *k);
    NC_NEED(w, c);
    NC_NEED(w, k);
    NC_NEED(w, l.blocks = nc_arena_array(&w->scratch, n + 1, sizeof *l.blocks));
    bound_symbols(p, &p->segs[i_seg], c, k);
    l.caps = c, l.known = k;
    NC_TRY(collect(&l));
    size_t bytes = sizeof(nc_instance) + (2 * n + (size_t)p->n_places) * sizeof(size_t);
    nc_instance *x = nc_alloc_zero(1, bytes);
    NC_NEED(w, x);
    x->offset = (size_t *)(x + 1), x->bytes = x->offset + n, x->total = x->bytes + n, x->bytes_self = bytes;
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
    const nc_segment *g = &p->segs[i_seg];
    nc_text_addf(out, "segment %d: host %zu bytes", i_seg, x->total[0]);
    for (int place = 1; place < p->n_places; place++)
        nc_text_addf(out, ", %s %zu bytes", p->places[place]->table->name, x->total[place]);
    nc_text_add(out, "\n");
    for (int k = 0; k < g->n_blocks; k++) {
        const nc_slot *s = &p->slots[g->blocks[k]];
        nc_text_addf(out, "  %%%-4d place %d  [%8zu, %8zu)  instructions %d..%d  %s\n", g->blocks[k], s->place,
                     x->offset[k], x->offset[k] + x->bytes[k], s->first, s->last,
                     s->value ? s->value->name : "workspace");
    }
}
