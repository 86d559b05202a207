/* plan/lives.c: from when to when every piece of memory is needed; which results may overwrite a dying input; which
 * objects an instruction may take because it is their last user. */
#include "plan/build.h"

#include "base/intmath.h"
#include "base/steps.h"

/* Memory that a result may be laid over: not the caller's. */
static bool is_root(const nc_slot *s) { return s->storage == NC_S_ARENA && s->from_input < 0; }

static nc_code find_roots(nc_build_ctx *c) {
    nc_program *p = c->p;
    int *last_on = nc_arena_array(&p->arena, (size_t)p->n_slots * (size_t)p->n_streams + 1, sizeof *last_on);
    NC_NEED(c->w, last_on);
    for (int i = 0; i < p->n_slots * p->n_streams; i++) last_on[i] = -1;
    for (int i = 0; i < p->n_slots; i++) {
        nc_slot *s = &p->slots[i];
        s->first = s->last = -1;
        s->last_on = last_on + (size_t)i * (size_t)p->n_streams;
        if (s->storage == NC_S_VIEW || s->storage == NC_S_ALIAS)
            s->root = p->slots[s->of].root; /* made before this one */
        if (s->storage == NC_S_STATE) s->root = p->vars[s->index];
    }
    return NC_OK;
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

static int times_in(const nc_slot *s, int dim) {
    int n = 0;
    for (int d = 0; d < s->rank; d++) n += s->dims[d] == dim;
    return n;
}

/* As many elements, as far as their dims show it. */
static bool same_count(const nc_program *p, const nc_slot *a, const nc_slot *b) {
    const nc_slot *of[2] = {a, b};
    int64_t count[2] = {1, 1}, n;
    for (int s = 0; s < 2; s++)
        for (int d = 0; d < of[s]->rank; d++) {
            bool known = nc_dim_is_const(p->dims[of[s]->dims[d]], &n);
            if (known && !nc_mul_i64(count[s], n, &count[s])) return false;
            if (!known && times_in(a, of[s]->dims[d]) != times_in(b, of[s]->dims[d])) return false;
        }
    return count[0] == count[1] && a->rank >= 0 && b->rank >= 0;
}

int nc_slot_beneath(const nc_program *p, int slot) {
    int under = slot;
    while (p->slots[under].storage == NC_S_VIEW) under = p->slots[under].of;
    const nc_slot *a = &p->slots[slot], *b = &p->slots[under];
    bool whole = a->dense && b->dense && nc_dtype_bits(a->dtype) == nc_dtype_bits(b->dtype) && same_count(p, a, b);
    return under == slot || whole ? under : -1;
}

static bool only_stream(const nc_program *p, const nc_slot *root, int stream) {
    for (int k = 0; k < p->n_streams; k++)
        if (k != stream && root->last_on[k] >= 0) return false;
    return true;
}

/* Roots form a forest while results are laid over operands: an aliased root points to the one below it. Each lookup
 * shortens its path, so that a program is done in time linear in its operands. */
static int find_root(nc_program *p, int slot) {
    int r = p->slots[slot].root;
    while (p->slots[r].root != r) r = p->slots[r].root, nc_steps_add(1);
    for (int s = slot, next; s != r; s = next) next = p->slots[s].root, p->slots[s].root = r;
    return r;
}

/* Does anything but operand j itself, where it is given twice, reach the memory that result o would overwrite? */
static bool is_read_elsewhere(nc_program *p, const nc_instr *x, int o, int j) {
    int root = find_root(p, x->in[j]);
    for (int k = 0; k < x->n_in; k++) {
        if (k == j || x->in[k] < 0 || find_root(p, x->in[k]) != root) continue;
        if (x->in[k] != x->in[j] || !nc_may_lie_over(nc_choice_of(x->node), o, k)) return true;
    }
    for (int k = 0; k < o; k++)
        if (x->out[k] >= 0 && find_root(p, x->out[k]) == root) return true;
    return false;
}

/* Input j dies here, result o has its shape, and the kernel can write it there. */
static bool can_alias(nc_program *p, const nc_instr *x, int i, int o, int j) {
    if (x->in[j] < 0 || !nc_may_lie_over(nc_choice_of(x->node), o, j)) return false;
    const nc_slot *out = &p->slots[x->out[o]], *in = &p->slots[x->in[j]];
    if (out->storage != NC_S_ARENA || out->to_output >= 0 || nc_slot_beneath(p, x->in[j]) < 0 ||
        !same_geometry(in, out))
        return false;
    const nc_slot *root = &p->slots[find_root(p, x->in[j])];
    if (!is_root(root) || root->last != i || !only_stream(p, root, x->stream)) return false;
    return !is_read_elsewhere(p, x, o, j);
}

static void alias_result(nc_program *p, const nc_instr *x, int o, int j) {
    int i_root = find_root(p, x->in[j]);
    nc_slot *out = &p->slots[x->out[o]], *root = &p->slots[i_root];
    out->storage = NC_S_ALIAS, out->of = nc_slot_beneath(p, x->in[j]), out->root = i_root;
    root->last = out->last;
    for (int k = 0; k < p->n_streams; k++)
        if (out->last_on[k] > root->last_on[k]) root->last_on[k] = out->last_on[k];
}

static void alias_results(nc_program *p) {
    for (int i = 0; i < p->n_instrs; i++) {
        const nc_instr *x = &p->instrs[i];
        for (int o = 0; o < x->n_out && o < NC_MAX_OVER; o++) {
            int j = 0;
            while (x->out[o] >= 0 && j < x->n_in && !can_alias(p, x, i, o, j)) j++;
            if (x->out[o] >= 0 && j < x->n_in) alias_result(p, x, o, j);
        }
    }
    for (int s = 0; s < p->n_slots; s++) p->slots[s].root = find_root(p, s);
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
    NC_TRY(find_roots(c));
    touch_all(p);
    alias_results(p);
    mark_moves(p);
    return NC_OK;
}
