/* run/bind.c: what is known at the start of a segment: symbols, sizes, memory, and where every slot of it lies. */
#include "run/frame.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/steps.h"
#include "infer/check.h"
#include "infer/infer.h"

#include <string.h>

/* ---- symbols ---- */

nc_code nc_bind_dims(nc_frame *f, int slot, const int64_t *dims) {
    const nc_program *p = f->program;
    const nc_slot *s = &p->slots[slot];
    for (int d = 0; d < s->rank; d++) {
        const nc_dim *dim = p->dims[s->dims[d]];
        int sym = nc_dim_sym_id(dim);
        int64_t want;
        if (sym >= 0 && !f->known[sym]) {
            f->sym[sym] = dims[d], f->known[sym] = true;
        } else if (nc_dim_eval(dim, f->sym, f->known, &want) && want != dims[d]) {
            nc_text name = {0};
            nc_dim_print(&name, dim);
            nc_code code = nc_fail(&f->work, NC_E_SHAPE, "'%s' axis %d (%s): expected %lld, got %lld", s->value->name,
                                   d, name.s ? name.s : "?", (long long)want, (long long)dims[d]);
            nc_text_release(&name);
            return code;
        }
    }
    return NC_OK;
}

static nc_code bind_variables(nc_frame *f) {
    const nc_program *p = f->program;
    for (int i = 0; i < p->n_vars; i++) {
        const nc_state_var *v = f->vars[i];
        nc_live *l = &f->slots[p->vars[i]];
        f->work.at_node = p->graph->vars.v[i]->name, f->work.at_op = "variable";
        if (!v->set) NC_FAIL(&f->work, NC_E_STATE, "it has no contents yet: set it before the first run");
        if (p->graph->vars.v[i]->grow_axis <= 0 && !nc_state_var_is_dense(v))
            NC_FAIL(&f->work, NC_E_STATE, "expected dense rows, got rows apart: another program grows it along axis %d",
                    v->grow_axis);
        l->t.rank = v->rank, l->t.dtype = v->dtype;
        memcpy(l->t.dims, v->dims, (size_t)v->rank * sizeof *v->dims);
        NC_TRY(nc_bind_dims(f, p->vars[i], l->t.dims));
    }
    return NC_OK;
}

/* The memory of a variable, seen at the slot's own dims: room may be left behind them. */
static void place_state(nc_frame *f, int slot) {
    nc_tensor *t = &f->slots[slot].t;
    int64_t dims[NC_MAX_RANK];
    memcpy(dims, t->dims, sizeof dims);
    nc_state_tensor(f->vars[f->program->slots[slot].index], dims, t);
}

/* Growing variables get room for what the run will append, before any kernel sees their address. */
static nc_code reserve_variables(nc_frame *f) {
    const nc_program *p = f->program;
    for (int i = 0; i < p->n_vars; i++) {
        const nc_slot *last = &p->slots[p->vars_last[i]];
        int64_t dims[NC_MAX_RANK];
        int axis = p->graph->vars.v[i]->grow_axis;
        if (axis < 0 || p->vars_last[i] == p->vars[i]) continue;
        f->work.at_node = p->graph->vars.v[i]->name, f->work.at_op = "variable";
        for (int d = 0; d < last->rank; d++)
            if (!nc_dim_eval(p->dims[last->dims[d]], f->sym, f->known, &dims[d]))
                NC_FAIL(&f->work, NC_E_UNSUPPORTED, "it grows by a size that is only found during the run");
        NC_TRY(nc_state_var_grow(&f->work, f->vars[i], axis));
        NC_TRY(nc_state_reserve(&f->work, f->vars[i], dims));
    }
    f->work.at_node = f->work.at_op = NULL;
    return NC_OK;
}

/* All variables lie where the slots say, from the run before. */
static bool are_placed(const nc_frame *f) {
    const nc_program *p = f->program;
    bool same = f->vars_placed && p->vars_fixed;
    for (int i = 0; i < p->n_vars && same; i++) {
        const nc_state_var *v = f->vars[i];
        const nc_tensor *t = &f->slots[p->vars[i]].t;
        same = v->set && v->grow_axis < 0 && v->buffer && v->buffer->ptr == t->data &&
               memcmp(v->dims, t->dims, (size_t)v->rank * sizeof *v->dims) == 0;
    }
    return same;
}

static void hash_variables(nc_frame *f) {
    f->vars_key = 1;
    for (int i = 0; i < f->program->n_vars; i++) {
        const nc_state_var *v = f->vars[i];
        const void *at = v->buffer ? v->buffer->ptr : NULL;
        f->vars_key = nc_hash(&at, sizeof at, f->vars_key);
        f->vars_key = nc_hash(&v->cap, sizeof v->cap, f->vars_key);
        f->vars_key = nc_hash(v->dims, (size_t)v->rank * sizeof *v->dims, f->vars_key);
    }
}

nc_code nc_bind_symbols(nc_frame *f) {
    const nc_program *p = f->program;
    for (int i = 0; i < p->n_inputs; i++) {
        const nc_live *l = &f->slots[p->inputs[i]];
        const nc_type *t = p->slots[p->inputs[i]].value->type;
        f->work.at_node = p->slots[p->inputs[i]].value->name, f->work.at_op = "input";
        if (l->there && t && t->kind == NC_T_TENSOR) NC_TRY(nc_bind_dims(f, p->inputs[i], l->t.dims));
    }
    if (!p->n_vars) return NC_OK;
    if (!f->state) NC_FAIL(&f->work, NC_E_STATE, "the program has variables but no state was given");
    if (are_placed(f)) return NC_OK;
    f->vars_placed = false;
    nc_steps_add((uint64_t)p->n_states);
    NC_TRY(bind_variables(f));
    NC_TRY(reserve_variables(f));
    for (int i = 0; i < p->n_states; i++) place_state(f, p->states[i]);
    hash_variables(f);
    f->vars_placed = true;
    return NC_OK;
}

/* ---- memory and slots ---- */

/* Dims and strides by the symbols. */
static nc_code size_slot(nc_frame *f, int slot, bool bounded) {
    const nc_program *p = f->program;
    const nc_slot *s = &p->slots[slot];
    nc_tensor *t = &f->slots[slot].t;
    t->dtype = s->dtype, t->rank = s->rank < 0 ? 0 : s->rank;
    for (int d = 0; d < t->rank; d++) {
        if (nc_dim_eval(p->dims[s->dims[d]], f->sym, f->known, &t->dims[d]) && t->dims[d] >= 0) continue;
        if (!bounded)
            NC_FAIL(&f->work, NC_E_SHAPE, "the size of '%s' is unknown, negative or too large", s->value->name);
        t->dims[d] = 0; /* the kernel tells */
    }
    nc_dense_strides(t->dims, t->rank, t->strides);
    return NC_OK;
}

/* Before a segment is refused its memory, frames that nobody uses give theirs back. */
static nc_code charge(nc_session *s, size_t bytes, nc_diag *diag) {
    nc_diag first = {0};
    if (nc_budget_take(s->budget, bytes, &first) == NC_OK) return NC_OK;
    nc_session_trim(s);
    return nc_budget_take(s->budget, bytes, diag);
}

static nc_code make_room(nc_frame *f, int seg, int place, size_t bytes) {
    nc_chunk *c = nc_frame_chunk(f, seg, place);
    nc_device *d = nc_frame_device(f, place);
    nc_session *s = f->session;
    if (bytes <= c->bytes) return NC_OK;
    size_t old = c->bytes;
    if (c->ptr) d->table->free(d, NULL, c->ptr), nc_budget_give(s->budget, old);
    *c = (nc_chunk){NULL, 0};
    nc_code code = charge(s, bytes, &f->work.diag);
    if (code == NC_OK && (code = d->table->alloc(d, NULL, bytes, &c->ptr, &f->work.diag)) != NC_OK)
        nc_budget_give(s->budget, bytes);
    nc_lock_take(&s->lock);
    s->stats.bytes_frames -= old;
    if (code == NC_OK) s->stats.bytes_frames += bytes, c->bytes = bytes;
    if (s->stats.bytes_frames > s->stats.bytes_frames_peak) s->stats.bytes_frames_peak = s->stats.bytes_frames;
    nc_lock_give(&s->lock);
    return code;
}

static nc_code output_memory(nc_frame *f, int slot) {
    nc_live *l = &f->slots[slot];
    const nc_slot *s = &f->program->slots[slot];
    if (l->there) { /* the caller's buffer */
        bool fits = l->obj->t.dtype == l->t.dtype && l->obj->t.rank == l->t.rank && nc_is_dense(&l->obj->t);
        for (int d = 0; fits && d < l->t.rank; d++) fits = l->obj->t.dims[d] == l->t.dims[d];
        if (!fits)
            NC_FAIL(&f->work, NC_E_SHAPE, "the buffer bound to output '%s' has another type or shape", s->value->name);
    } else if (!l->obj) { /* else the kernel that fills it has asked for it before */
        size_t bytes;
        if (!nc_tensor_bytes(l->t.dtype, l->t.dims, l->t.rank, &bytes))
            NC_FAIL(&f->work, NC_E_LIMIT, "output '%s' is too large", s->value->name);
        nc_session *x = f->session;
        nc_buffer *b =
            l->on_device ? nc_env_buffer(x->env, f->program->device, x->budget, bytes, &f->work.diag)
                         : nc_device_buffer(nc_frame_device(f, s->place), x->budget, bytes ? bytes : 1, &f->work.diag);
        if (!b) return f->work.diag.code ? f->work.diag.code : nc_fail(&f->work, NC_E_MEMORY, "out of memory");
        NC_NEED(&f->work, l->obj = nc_object_tensor(b, l->t.dtype, l->t.rank, l->t.dims));
    }
    l->t.data = l->obj->t.data;
    return NC_OK;
}

/* A slot between the caller and a device: the caller's tensor where that lies there, else the frame's memory. */
static nc_code place_edge(nc_frame *f, int slot) {
    const nc_program *p = f->program;
    const nc_slot *s = &p->slots[slot];
    int other = s->from_input >= 0 ? p->inputs[s->from_input] : p->outputs[s->to_output];
    if (!f->slots[other].on_device) return NC_OK;
    if (s->to_output >= 0) {
        NC_TRY(size_slot(f, other, false));
        NC_TRY(output_memory(f, other));
    }
    f->slots[slot].t.data = f->slots[other].t.data;
    return NC_OK;
}

static nc_code place_slot(nc_frame *f, int seg, int slot, bool bounded) {
    if (slot < 0) return NC_OK;
    const nc_slot *s = &f->program->slots[slot];
    nc_live *l = &f->slots[slot];
    if (s->storage == NC_S_OBJECT) return NC_OK;
    NC_TRY(size_slot(f, slot, bounded));
    if (s->storage == NC_S_ARENA)
        l->t.data = (char *)nc_frame_chunk(f, seg, s->place)->ptr + f->bound[seg].cached->instance->offset[s->block];
    if (s->from_input >= 0 || s->to_output >= 0) return place_edge(f, slot);
    if (s->storage == NC_S_ALIAS) l->t.data = f->slots[s->of].t.data;
    if (s->storage == NC_S_STATE) place_state(f, slot);
    return s->storage == NC_S_OUTPUT ? output_memory(f, slot) : NC_OK;
}

static nc_code check_inputs_there(nc_frame *f, const nc_segment *g) {
    const nc_program *p = f->program;
    for (int k = 0; k < g->n_needs; k++) {
        if (f->slots[g->needs[k]].there) continue;
        for (int i = g->first; i < g->end; i++)
            for (int j = 0; j < p->instrs[i].n_in; j++)
                if (p->instrs[i].in[j] == g->needs[k])
                    f->work.at_node = p->instrs[i].node->name, f->work.at_op = p->instrs[i].node->card->name;
        NC_FAIL(&f->work, NC_E_ARGUMENT, "input '%s' of the model was not given", p->slots[g->needs[k]].value->name);
    }
    return NC_OK;
}

static int64_t value_of(const nc_frame *f, int sym) { return f->known[sym] ? f->sym[sym] : INT64_MIN; }

static bool is_bound(const nc_frame *f, int seg) {
    const nc_segment *g = &f->program->segs[seg];
    const nc_bound *b = &f->bound[seg];
    if (f->rebound || !b->valid) return false;
    for (int i = 0; i < g->n_syms; i++)
        if (b->syms[i] != value_of(f, g->syms[i])) return false;
    return true;
}

static nc_code fill_call(nc_frame *f, int i) {
    const nc_instr *x = &f->program->instrs[i];
    nc_call *c = &f->calls[i];
    if (x->workspace >= 0) {
        c->workspace = f->slots[x->workspace].t.data;
        c->bytes_workspace = f->bound[x->seg].cached->instance->bytes[f->program->slots[x->workspace].block];
    }
    if (x->sizes >= 0) c->sizes = f->slots[x->sizes].t.data;
    for (int k = 0; k < x->n_packs; k++)
        if (!f->packed[x->first_pack + k])
            NC_TRY(nc_prepared_pack(&f->work, f->prepared, x->first_pack + k, &f->packed[x->first_pack + k]));
    return NC_OK;
}

/* What a dynamic kernel of this segment makes has no size yet, and is checked by who reads it. */
static bool is_sized(const nc_frame *f, const nc_instr *x, int slot) {
    const nc_slot *s = slot >= 0 ? &f->program->slots[slot] : NULL;
    return s && s->rank >= 0 && (s->storage != NC_S_OBJECT || s->seg != x->seg);
}

static nc_code ask_again(nc_frame *f, const nc_instr *x, const nc_call *c) {
    const nc_node *n = x->node;
    uint32_t readable = 0;
    for (int j = 0; j < n->n_in && j < 32; j++) {
        if (n->in[j] && n->in[j]->type && n->in[j]->type->layout.block) return NC_OK; /* its plain form was asked */
        bool there = x->in[j] >= 0 && f->program->slots[x->in[j]].storage == NC_S_CONST;
        if (there && n->card->host_in >> j & 1) readable |= 1u << j;
    }
    nc_dims *scratch = nc_dims_create();
    NC_NEED(&f->work, scratch);
    nc_code code = nc_infer_again(&f->work, n, scratch, &f->work.scratch, c->in, readable, c->out);
    nc_dims_destroy(scratch);
    return code;
}

/* Dynamic kernels are checked when they start. */
static nc_code check_operands(nc_frame *f, const nc_instr *x, const nc_call *c) {
    const nc_node *n = x->node;
    bool sized = true;
    if (x->binding->kind == NC_K_DYNAMIC) return NC_OK;
    for (int j = 0; j < x->n_in && j < n->n_in; j++) {
        if (is_sized(f, x, x->in[j]))
            NC_TRY(nc_infer_check_one(&f->work, n, j, c->in[j]->rank, c->in[j]->dims));
        else
            sized &= x->in[j] < 0;
    }
    return n->open && sized && x->binding->kind != NC_K_BOUNDED ? ask_again(f, x, c) : NC_OK;
}

static nc_code bind_all(nc_frame *f, int seg) {
    const nc_program *p = f->program;
    const nc_segment *g = &p->segs[seg];
    nc_bound *b = &f->bound[seg];
    nc_cached *c;
    f->rebound = true, b->valid = false;
    NC_TRY(nc_cache_get(&f->work, f->session, f->prepared, seg, f->sym, f->known, &c));
    nc_cache_release(f->session, b->cached);
    b->cached = c;
    for (int place = 0; place < p->n_places; place++) NC_TRY(make_room(f, seg, place, c->instance->total[place]));
    for (int i = g->first; i < g->end; i++) {
        const nc_instr *x = &p->instrs[i];
        f->work.at_node = x->node->name, f->work.at_op = x->node->card->name;
        for (int o = 0; o < x->n_out; o++) NC_TRY(place_slot(f, seg, x->out[o], x->binding->kind == NC_K_BOUNDED));
        NC_TRY(place_slot(f, seg, x->workspace, false));
        NC_TRY(place_slot(f, seg, x->sizes, false));
        NC_TRY(fill_call(f, i));
        NC_TRY(check_operands(f, x, &f->calls[i]));
    }
    for (int i = 0; i < g->n_syms; i++) b->syms[i] = value_of(f, g->syms[i]);
    b->valid = true;
    return NC_OK;
}

nc_code nc_bind_segment(nc_frame *f, int seg, bool *kept) {
    const nc_segment *g = &f->program->segs[seg];
    NC_TRY(check_inputs_there(f, g));
    if (g->n_sizing) NC_TRY(nc_sizing_run(f, seg));
    *kept = is_bound(f, seg);
    if (!*kept) return bind_all(f, seg);
    for (int i = 0; i < g->n_refilled; i++) NC_TRY(place_slot(f, seg, g->refilled[i], true));
    return NC_OK;
}

void nc_bind_forget(nc_frame *f) {
    for (int i = 0; f->bound && i < f->program->n_segs; i++) {
        nc_cache_release(f->session, f->bound[i].cached);
        f->bound[i].cached = NULL, f->bound[i].valid = false;
    }
}
