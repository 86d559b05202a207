/* plan/slots.c: one slot per value, one instruction per node, and where each value's bytes live. */
#include "plan/build.h"

#include <string.h>

static nc_code index_dim(nc_build_ctx *c, const nc_dim *d, int *out) {
    void *known = nc_map_get_bytes(&c->dim_index, &d, sizeof d);
    if (known) {
        *out = (int)(intptr_t)known - 1;
        return NC_OK;
    }
    const nc_dim **key = nc_arena_copy(&c->w->scratch, &d, sizeof d); /* the map borrows its keys */
    *out = c->dims.n;
    NC_NEED(c->w, key);
    if (!NC_PUSH(&c->p->arena, c->dims, d) ||
        !nc_map_put_bytes(&c->dim_index, key, sizeof d, (void *)(intptr_t)c->dims.n))
        NC_FAIL(c->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code fill_type(nc_build_ctx *c, nc_slot *s, const nc_type *t) {
    s->rank = -1;
    if (!t || t->kind != NC_T_TENSOR) return NC_OK;
    s->dtype = t->elem, s->rank = t->rank;
    if (t->rank < 0) return NC_OK;
    int *dims = nc_arena_array(&c->p->arena, (size_t)t->rank, sizeof *dims);
    NC_NEED(c->w, dims);
    for (int i = 0; i < t->rank; i++) NC_TRY(index_dim(c, t->dims[i], &dims[i]));
    s->dims = dims;
    return NC_OK;
}

static nc_code add_slot(nc_build_ctx *c, const nc_value *v, nc_storage storage, int index, int *out) {
    nc_slot s = {.value = v,
                 .storage = storage,
                 .index = index,
                 .of = -1,
                 .root = c->slots.n,
                 .from_input = -1,
                 .to_output = -1,
                 .seg = -1};
    s.place = v->place, s.dense = nc_value_is_dense(v);
    NC_TRY(fill_type(c, &s, v->type));
    *out = c->slots.n;
    c->slot_of[v->id] = c->slots.n;
    if (!NC_PUSH(&c->p->arena, c->slots, s)) NC_FAIL(c->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code add_const(nc_build_ctx *c, const nc_value *v, int *out) {
    nc_prog_const k = {.value = v, .place = v->place, .packed_only = true, .unaligned = true};
    int index = c->consts.n;
    if (!NC_PUSH(&c->p->arena, c->consts, k)) NC_FAIL(c->w, NC_E_MEMORY, "out of memory");
    return add_slot(c, v, NC_S_CONST, index, out);
}

static nc_code slot_for(nc_build_ctx *c, const nc_value *v, int *out) {
    *out = -1;
    if (!v) return NC_OK;
    if (c->slot_of[v->id] < 0 && v->origin == NC_FROM_CONST) return add_const(c, v, out);
    *out = c->slot_of[v->id];
    if (*out < 0) NC_FAIL(c->w, NC_E_FAIL, "value '%s' is used before it is made", v->name);
    return NC_OK;
}

static nc_code add_result(nc_build_ctx *c, const nc_node *n, int k, const nc_instr *x, int *out) {
    const nc_value *v = n->out[k];
    const nc_choice *ch = nc_choice_of(n);
    *out = -1;
    if (!v) return NC_OK;
    if (v->var) return add_slot(c, v, NC_S_STATE, v->var->id, out);
    if (ch->view) {
        NC_TRY(add_slot(c, v, NC_S_VIEW, -1, out));
        c->slots.v[*out].of = x->in[0];
        return NC_OK;
    }
    if (ch->binding->kind == NC_K_DYNAMIC || nc_type_is_host(v->type)) return add_slot(c, v, NC_S_OBJECT, -1, out);
    if (v->type->rank < 0) NC_FAIL(c->w, NC_E_SHAPE, "the rank of its result '%s' is not known", v->name);
    if (v->n_outputs && ch->binding->kind == NC_K_STATIC) return add_slot(c, v, NC_S_OUTPUT, c->output_of[v->id], out);
    return add_slot(c, v, NC_S_ARENA, -1, out);
}

/* Workspace and sizes are arena slots whose bytes an instance fills in. */
static nc_code add_scratch(nc_build_ctx *c, int place, nc_dtype t, int *out) {
    nc_slot s = {.storage = NC_S_ARENA,
                 .of = -1,
                 .root = c->slots.n,
                 .place = place,
                 .dtype = t,
                 .rank = -1,
                 .dense = true,
                 .from_input = -1,
                 .to_output = -1,
                 .seg = -1};
    *out = c->slots.n;
    if (!NC_PUSH(&c->p->arena, c->slots, s)) NC_FAIL(c->w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code add_packs(nc_build_ctx *c, const nc_node *n, nc_instr *x) {
    const nc_prep *prep = &nc_choice_of(n)->prep;
    x->first_pack = c->packs.n, x->n_packs = prep->n_packs;
    for (int i = 0; i < prep->n_packs; i++) {
        const nc_value *v = prep->pack[i].of ? prep->pack[i].of : n->in[prep->pack[i].input];
        nc_prog_pack k = {.pack = prep->pack[i], .value = v, .state = prep->state, .place = n->place};
        if (!NC_PUSH(&c->p->arena, c->packs, k)) NC_FAIL(c->w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

static void note_const_use(nc_prog_const *k, const nc_node *n, int i) {
    if (nc_reads_packed(n, i)) return;
    k->packed_only = false;
    if (i >= 32 || !(nc_choice_of(n)->prep.unaligned_in >> i & 1)) k->unaligned = false;
}

static nc_code add_operands(nc_build_ctx *c, const nc_node *n, nc_instr *x) {
    for (int i = 0; i < n->n_operands; i++) {
        NC_TRY(slot_for(c, n->in[i], &x->in[i]));
        const nc_slot *s = x->in[i] >= 0 ? &c->slots.v[x->in[i]] : NULL;
        if (s && s->storage == NC_S_CONST) note_const_use(&c->consts.v[s->index], n, i);
        if (s && s->rank < 0 && s->value && !nc_type_is_host(s->value->type) && x->binding->kind != NC_K_DYNAMIC)
            NC_FAIL(c->w, NC_E_SHAPE, "the rank of its input '%s' is not known", n->in[i]->name);
    }
    return NC_OK;
}

static nc_code add_subs(nc_build_ctx *c, const nc_node *n, nc_instr *x) {
    if (!(n->card->traits & NC_CONTROL)) return NC_OK;
    NC_NEED(c->w, x->subs = nc_arena_array(&c->p->arena, (size_t)n->n_subs, sizeof *x->subs));
    for (int i = 0; i < n->n_subs; i++) {
        nc_plan_options o = *c->o;
        o.cuts = NULL, o.n_cuts = 0;
        NC_TRY(nc_build_program(c->w, n->subs[i].graph, &o, c, &x->subs[i]));
    }
    return NC_OK;
}

static nc_code add_instr(nc_build_ctx *c, const nc_node *n, nc_instr *x) {
    const nc_choice *ch = nc_choice_of(n);
    c->w->at_node = n->name, c->w->at_op = n->card->name;
    *x = (nc_instr){.node = n,
                    .binding = ch->binding,
                    .state = ch->prep.state,
                    .place = n->place,
                    .record = -1,
                    .workspace = -1,
                    .sizes = -1};
    x->dims_only = n->card->dims_only_in;
    x->n_in = n->n_operands, x->n_out = n->n_out;
    NC_NEED(c->w, x->in = nc_arena_array(&c->p->arena, (size_t)x->n_in, sizeof *x->in));
    NC_NEED(c->w, x->out = nc_arena_array(&c->p->arena, (size_t)x->n_out, sizeof *x->out));
    NC_NEED(c->w, x->moved = nc_arena_array(&c->p->arena, (size_t)x->n_in, sizeof *x->moved));
    NC_TRY(add_operands(c, n, x));
    for (int k = 0; k < n->n_out; k++) {
        NC_TRY(add_result(c, n, k, x, &x->out[k]));
        if (x->out[k] >= 0 && c->slots.v[x->out[k]].storage == NC_S_STATE) x->writes_state = true;
    }
    if (ch->binding->workspace) NC_TRY(add_scratch(c, n->place, NC_UINT8, &x->workspace));
    if (ch->binding->kind == NC_K_BOUNDED) NC_TRY(add_scratch(c, n->place, NC_INT64, &x->sizes));
    NC_TRY(add_packs(c, n, x));
    return add_subs(c, n, x);
}

static nc_code add_boundary(nc_build_ctx *c) {
    nc_program *p = c->p;
    const nc_graph *g = c->g;
    p->n_inputs = g->inputs.n + g->captures.n, p->n_captures = g->captures.n;
    NC_NEED(c->w, p->inputs = nc_arena_array(&p->arena, (size_t)p->n_inputs, sizeof *p->inputs));
    for (int i = 0; i < p->n_inputs; i++) {
        const nc_value *v = i < g->inputs.n ? g->inputs.v[i] : g->captures.v[i - g->inputs.n];
        NC_TRY(add_slot(c, v, NC_S_INPUT, i, &p->inputs[i]));
    }
    p->n_vars = g->vars.n;
    NC_NEED(c->w, p->vars = nc_arena_array(&p->arena, (size_t)p->n_vars, sizeof *p->vars));
    NC_NEED(c->w, p->vars_last = nc_arena_array(&p->arena, (size_t)p->n_vars, sizeof *p->vars_last));
    for (int i = 0; i < p->n_vars; i++) NC_TRY(add_slot(c, g->vars.v[i]->first, NC_S_STATE, i, &p->vars[i]));
    return NC_OK;
}

static nc_code finish_boundary(nc_build_ctx *c) {
    nc_program *p = c->p;
    p->n_outputs = c->g->outputs.n;
    NC_NEED(c->w, p->outputs = nc_arena_array(&p->arena, (size_t)p->n_outputs, sizeof *p->outputs));
    for (int i = 0; i < p->n_outputs; i++) NC_TRY(slot_for(c, c->g->outputs.v[i], &p->outputs[i]));
    for (int i = 0; i < p->n_vars; i++) {
        NC_TRY(slot_for(c, c->g->vars.v[i]->last, &p->vars_last[i]));
        if (p->vars_last[i] != p->vars[i]) p->writes_state = true;
    }
    return NC_OK;
}

/* ---- tensors of the caller in a device's memory ---- */

static bool reads_bytes(const nc_instr *x, int j) { return !(j < 32 && (x->dims_only >> j & 1)); }

/* Which inputs and outputs nothing but a copy to or from a device touches; which inputs may have any strides. */
static void find_movable(nc_program *p) {
    for (int i = 0; i < p->n_inputs; i++) {
        p->slots[p->inputs[i]].on_device_ok = p->n_places > 1;
        p->slots[p->inputs[i]].takes_strides = true;
    }
    for (int i = 0; i < p->n_instrs; i++) {
        const nc_instr *x = &p->instrs[i];
        bool copies = x->binding == &nc_transfer_binding;
        for (int j = 0; j < x->n_in; j++) {
            if (x->in[j] < 0 || !reads_bytes(x, j)) continue;
            nc_slot *s = &p->slots[x->in[j]];
            if (!copies || !x->place) s->on_device_ok = false;
            if (copies || j >= 32 || !(nc_choice_of(x->node)->prep.strided_in >> j & 1)) s->takes_strides = false;
        }
        if (copies && x->place == 0 && p->slots[x->out[0]].storage == NC_S_OUTPUT)
            p->slots[x->out[0]].on_device_ok = true;
    }
}

/* How large it is, and so where a caller's tensor for it lies, is known when instruction `end` runs, not before. */
static bool is_sized_late(const nc_program *p, int slot, int end) {
    for (int i = end - 1; i >= 0; i--)
        for (int o = 0; o < p->instrs[i].n_out; o++)
            if (p->instrs[i].out[o] == slot) return p->instrs[i].binding->kind == NC_K_BOUNDED;
    return false;
}

static nc_code find_edges(nc_build_ctx *c) {
    nc_program *p = c->p;
    find_movable(p);
    NC_NEED(c->w, p->edges = nc_arena_array(&p->arena, (size_t)p->n_inputs + (size_t)p->n_outputs + 1, sizeof(int)));
    for (int i = 0; i < p->n_instrs; i++) {
        const nc_instr *x = &p->instrs[i];
        if (x->binding != &nc_transfer_binding) continue;
        nc_slot *in = &p->slots[x->in[0]], *out = &p->slots[x->out[0]];
        bool enters = in->storage == NC_S_INPUT && in->on_device_ok && out->storage == NC_S_ARENA;
        bool leaves = out->storage == NC_S_OUTPUT && out->on_device_ok && in->storage == NC_S_ARENA &&
                      in->to_output < 0 && in->from_input < 0 && !is_sized_late(p, x->in[0], i);
        if (enters) out->from_input = in->index, p->edges[p->n_edges++] = x->out[0];
        if (leaves) in->to_output = out->index, p->edges[p->n_edges++] = x->in[0];
    }
    return NC_OK;
}

static void see(const nc_build_ctx *c, const nc_value *v) {
    for (int d = 0; v && v->type && v->type->kind == NC_T_TENSOR && d < v->type->rank; d++)
        nc_dim_mark(v->type->dims[d], c->seen);
}

/* The caller's tensors bind a dim that is one symbol; an expression of symbols that the run finds is only checked. A
 * program inside of another one gets them from that. */
static void see_bound(const nc_build_ctx *c, const nc_value *v) {
    for (int d = 0; v && v->type && v->type->kind == NC_T_TENSOR && d < v->type->rank; d++)
        if (nc_dim_sym_id(v->type->dims[d]) >= 0) nc_dim_mark(v->type->dims[d], c->seen);
}

/* A subgraph's frame starts with all symbols that its parent's frame knows. */
static nc_code see_boundary(nc_build_ctx *c) {
    const nc_graph *g = c->g;
    NC_NEED(c->w, c->seen = nc_arena_array(&c->w->scratch, (size_t)c->p->n_syms + 1, sizeof *c->seen));
    if (c->outer) memcpy(c->seen, c->outer->seen, (size_t)c->p->n_syms);
    for (int i = 0; i < g->inputs.n; i++) (c->p->inner ? see : see_bound)(c, g->inputs.v[i]);
    for (int i = 0; i < g->captures.n; i++) see(c, g->captures.v[i]);
    for (int i = 0; i < g->vars.n; i++) see(c, g->vars.v[i]->first);
    return NC_OK;
}

nc_code nc_build_slots(nc_build_ctx *c) {
    nc_program *p = c->p;
    NC_TRY(see_boundary(c));
    NC_NEED(c->w, p->input_syms = nc_arena_copy(&p->arena, c->seen, (size_t)p->n_syms + 1));
    NC_TRY(add_boundary(c));
    NC_NEED(c->w, p->instrs = nc_arena_array(&p->arena, (size_t)c->g->n_nodes, sizeof *p->instrs));
    for (const nc_node *n = c->g->first; n; n = n->next) {
        p->n_instrs++; /* before it is filled, so that destroy frees its subprograms */
        NC_TRY(add_instr(c, n, &p->instrs[p->n_instrs - 1]));
        for (int k = 0; k < n->n_out; k++) see(c, n->out[k]);
    }
    NC_TRY(finish_boundary(c));
    p->slots = c->slots.v, p->n_slots = c->slots.n;
    p->dims = c->dims.v, p->n_dims = c->dims.n;
    p->consts = c->consts.v, p->n_consts = c->consts.n;
    p->packs = c->packs.v, p->n_packs = c->packs.n;
    return find_edges(c);
}
