/* plan/lives.c: from when to when every piece of memory is needed; which results may overwrite a dying input; which
 * objects an instruction may take because it is their last user. */
#include "plan/build.h"

static bool is_root(const nc_slot *s) { return s->storage == NC_S_ARENA; }

static void find_roots(nc_program *p) {
    for (int i = 0; i < p->n_slots; i++) {
        nc_slot *s = &p->slots[i];
        s->first = s->last = -1;
        for (int k = 0; k < NC_N_STREAMS; k++) s->last_on[k] = -1;
        if (s->storage == NC_S_VIEW || s->storage == NC_S_ALIAS)
            s->root = p->slots[s->of].root; /* made before this one */
        if (s->storage == NC_S_STATE) s->root = p->vars[s->index];
    }
}

static int stream_of(const nc_instr *x) {
    if (x->binding == &nc_transfer_binding) return NC_STREAM_COPY;
    return x->place && x->binding->kind != NC_K_VIEW ? NC_STREAM_COMPUTE : NC_STREAM_HOST;
}

static bool reads_bytes(const nc_instr *x, int j) {
    return !(j < 32 && (x->dims_only >> j & 1)) && !(x->binding->kind == NC_K_VIEW && j == 0);
}

static void touch(nc_program *p, int slot, int i, const nc_instr *x, bool bytes) {
    if (slot < 0) return;
    nc_slot *root = &p->slots[p->slots[slot].root];
    if (root->first < 0) root->first = i;
    if (i > root->last) root->last = i;
    if (bytes && i > root->last_on[x->stream]) root->last_on[x->stream] = i;
}

static void touch_all(nc_program *p) {
    for (int i = 0; i < p->n_instrs; i++) {
        const nc_instr *x = &p->instrs[i];
        for (int j = 0; j < x->n_in; j++)
            if (!(j < 32 && (x->dims_only >> j & 1))) touch(p, x->in[j], i, x, reads_bytes(x, j));
        for (int j = 0; j < x->n_out; j++) touch(p, x->out[j], i, x, x->binding->kind != NC_K_VIEW);
        touch(p, x->workspace, i, x, true);
        touch(p, x->sizes, i, x, true);
        /* Sizes are read by the host when the segment ends. */
        if (x->sizes >= 0) p->slots[x->sizes].last = p->segs[x->seg].end - 1;
    }
}

static bool same_geometry(const nc_slot *a, const nc_slot *b) {
    if (a->rank != b->rank || a->rank < 0 || nc_dtype_bits(a->dtype) != nc_dtype_bits(b->dtype) || !a->dense ||
        !b->dense)
        return false;
    for (int d = 0; d < a->rank; d++)
        if (a->dims[d] != b->dims[d]) return false;
    return a->place == b->place;
}

static bool only_stream(const nc_slot *root, int stream) {
    for (int k = 0; k < NC_N_STREAMS; k++)
        if (k != stream && root->last_on[k] >= 0) return false;
    return true;
}

/* Input j dies here and the result has its shape: write the result over it. */
static bool can_alias(const nc_program *p, const nc_instr *x, int i, int j) {
    const nc_slot *out = &p->slots[x->out[0]], *in = x->in[j] >= 0 ? &p->slots[x->in[j]] : NULL;
    if (!in || out->storage != NC_S_ARENA || !same_geometry(in, out)) return false;
    const nc_slot *root = &p->slots[in->root];
    if (!is_root(root) || root->last != i || !only_stream(root, x->stream)) return false;
    if (in->storage == NC_S_VIEW) return false;
    for (int k = 0; k < x->n_in; k++)
        if (k != j && x->in[k] >= 0 && x->in[k] != x->in[j] && p->slots[x->in[k]].root == in->root) return false;
    return true;
}

static void alias_results(nc_program *p) {
    for (int i = 0; i < p->n_instrs; i++) {
        nc_instr *x = &p->instrs[i];
        if (!nc_choice_of(x->node)->prep.may_alias || x->n_out != 1 || x->out[0] < 0) continue;
        for (int j = 0; j < x->n_in; j++) {
            if (!can_alias(p, x, i, j)) continue;
            nc_slot *out = &p->slots[x->out[0]], *root = &p->slots[p->slots[x->in[j]].root];
            out->storage = NC_S_ALIAS, out->of = x->in[j];
            root->last = out->last;
            for (int k = 0; k < NC_N_STREAMS; k++)
                if (out->last_on[k] > root->last_on[k]) root->last_on[k] = out->last_on[k];
            for (int s = 0; s < p->n_slots; s++) /* views and aliases of the result follow it */
                if (p->slots[s].root == x->out[0]) p->slots[s].root = p->slots[x->in[j]].root;
            break;
        }
    }
}

static void mark_moves(nc_program *p) {
    for (int i = 0; i < p->n_instrs; i++) {
        nc_instr *x = &p->instrs[i];
        for (int j = 0; j < x->n_in; j++) {
            const nc_slot *s = x->in[j] >= 0 ? &p->slots[x->in[j]] : NULL;
            if (!s || (s->storage != NC_S_OBJECT && s->storage != NC_S_INPUT) || s->last != i || s->value->n_outputs)
                continue;
            bool repeated = false;
            for (int k = j + 1; k < x->n_in; k++) repeated |= x->in[k] == x->in[j];
            x->moved[j] = !repeated;
        }
    }
}

nc_code nc_build_lives(nc_build_ctx *c) {
    nc_program *p = c->p;
    for (int i = 0; i < p->n_instrs; i++) p->instrs[i].stream = stream_of(&p->instrs[i]);
    find_roots(p);
    touch_all(p);
    alias_results(p);
    mark_moves(p);
    return NC_OK;
}
