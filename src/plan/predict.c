/* plan/predict.c: asks for an instance of every segment and adds up. A frame keeps the memory of all its segments, so
 * the peak is their sum. */
#include "plan/predict.h"

#include "base/mem.h"
#include "plan/plan.h"

typedef struct prediction_ctx {
    nc_work *w;
    nc_arena *arena;
    nc_prediction *out;
    int *last; /* per slot of the main program: the last instruction that reads it or a view of it */
} prediction_ctx;

static nc_code find_last_reads(prediction_ctx *t, const nc_program *p) {
    NC_NEED(t->w, t->last = nc_arena_array(&t->w->scratch, (size_t)p->n_slots + 1, sizeof *t->last));
    for (int i = 0; i < p->n_slots; i++) t->last[i] = -1;
    for (int i = 0; i < p->n_instrs; i++)
        for (int j = 0; j < p->instrs[i].n_in; j++) {
            int slot = p->instrs[i].in[j];
            while (slot >= 0 && p->slots[slot].storage == NC_S_VIEW) slot = p->slots[slot].of;
            if (slot >= 0) t->last[slot] = i;
        }
    return NC_OK;
}

/* A tensor of this segment's memory: its own, or that of what it lies over. */
static bool is_listed(const nc_program *p, int seg, const nc_slot *s) {
    const nc_slot *root = &p->slots[s->root];
    return s->storage == NC_S_ARENA || (s->storage == NC_S_ALIAS && root->storage == NC_S_ARENA && root->seg == seg);
}

static nc_code add_slot(prediction_ctx *t, const nc_program *p, int seg, const nc_instance *x, int i, int slot) {
    const nc_slot *s = slot >= 0 ? &p->slots[slot] : NULL;
    const nc_instr *by = &p->instrs[i];
    if (!s || !is_listed(p, seg, s)) return NC_OK;
    int block = p->slots[s->root].block, last = s->value && !s->value->n_outputs ? t->last[slot] : s->last;
    nc_predicted_slot r = {.name = s->value            ? s->value->name
                                   : slot == by->sizes ? "sizes"
                                                       : "workspace",
                           .op = by->node->card->name,
                           .place = s->place,
                           .seg = seg,
                           .first = i,
                           .last = last > i ? last : i,
                           .offset = x->offset[block],
                           .bytes = x->bytes[block]};
    if (!NC_PUSH(t->arena, t->out->slots, r)) NC_FAIL(t->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code add_slots(prediction_ctx *t, const nc_program *p, int seg, const nc_instance *x) {
    for (int i = p->segs[seg].first; i < p->segs[seg].end; i++) {
        const nc_instr *by = &p->instrs[i];
        for (int k = 0; k < by->n_out; k++) NC_TRY(add_slot(t, p, seg, x, i, by->out[k]));
        NC_TRY(add_slot(t, p, seg, x, i, by->workspace));
        NC_TRY(add_slot(t, p, seg, x, i, by->sizes));
    }
    return NC_OK;
}

static nc_code add_segment(prediction_ctx *t, const nc_program *p, int seg, const int64_t *values, const bool *known) {
    nc_instance *x;
    nc_code code = nc_instance_create(t->w, p, seg, values, known, &x);
    if (code == NC_E_LIMIT) { /* a size that only a run finds */
        t->w->diag = (nc_diag){.code = NC_OK};
        t->out->n_unknown++;
        return NC_OK;
    }
    NC_TRY(code);
    for (int place = 0; place < p->n_places; place++) t->out->frame[place > 0] += x->total[place];
    if (!p->inner) code = add_slots(t, p, seg, x);
    nc_free(x);
    return code;
}

static size_t slot_bytes(const nc_program *p, int slot, const int64_t *values, const bool *known) {
    const nc_slot *s = &p->slots[slot];
    int64_t dims[NC_MAX_RANK];
    size_t bytes;
    for (int d = 0; d < s->rank; d++)
        if (!nc_dim_eval(p->dims[s->dims[d]], values, known, &dims[d])) return 0;
    return s->rank >= 0 && s->dtype != NC_STRING && nc_tensor_bytes(s->dtype, dims, s->rank, &bytes) ? bytes : 0;
}

static nc_code add_program(prediction_ctx *t, const nc_program *p, const int64_t *values, const bool *known) {
    for (int i = 0; i < p->n_consts; i++)
        if (!p->consts[i].packed_only) t->out->consts[p->consts[i].place > 0] += p->consts[i].value->lit->bytes;
    for (int i = 0; i < p->n_packs; i++) t->out->packed[p->packs[i].place > 0] += p->packs[i].pack.bytes;
    for (int s = 0; s < p->n_segs; s++) NC_TRY(add_segment(t, p, s, values, known));
    for (int i = 0; i < p->n_instrs; i++) t->out->n_unknown += nc_is_deferred(p->instrs[i].node);
    for (int i = 0; i < p->n_instrs; i++)
        for (int k = 0; p->instrs[i].subs && k < p->instrs[i].node->n_subs; k++)
            NC_TRY(add_program(t, p->instrs[i].subs[k], values, known));
    return NC_OK;
}

nc_code nc_predict(nc_work *w, nc_arena *a, const nc_program *p, const int64_t *values, const bool *known,
                   nc_prediction *out) {
    *out = (nc_prediction){.n_unknown = 0};
    prediction_ctx t = {w, a, out, NULL};
    NC_TRY(find_last_reads(&t, p));
    NC_TRY(add_program(&t, p, values, known));
    for (int i = 0; i < p->n_vars; i++)
        out->state[p->slots[p->vars[i]].place > 0] += slot_bytes(p, p->vars[i], values, known);
    for (int i = 0; i < p->n_outputs; i++)
        out->outputs[p->slots[p->outputs[i]].place > 0] += slot_bytes(p, p->outputs[i], values, known);
    w->at_node = w->at_op = NULL;
    return NC_OK;
}
