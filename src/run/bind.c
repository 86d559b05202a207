/* run/bind.c: what is known at the start of a segment: symbols, sizes, memory, and where every slot of it lies. */
#include "run/frame.h"

#include "base/mem.h"
#include "infer/infer.h"

#include <string.h>

/* ---- symbols ---- */

nc_code nc_bind_dims(nc_frame *f, int slot, const nc_tensor *t) {
    const nc_program *p = f->program;
    const nc_slot *s = &p->slots[slot];
    for (int d = 0; d < s->rank; d++) {
        const nc_dim *dim = p->dims[s->dims[d]];
        int sym = nc_dim_sym_id(dim);
        int64_t want;
        if (sym >= 0 && !f->known[sym]) {
            f->sym[sym] = t->dims[d], f->known[sym] = true;
        } else if (nc_dim_eval(dim, f->sym, f->known, &want) && want != t->dims[d]) {
            nc_text name = {0};
            nc_dim_print(&name, dim);
            nc_code code = nc_fail(&f->work, NC_E_SHAPE, "'%s' axis %d (%s): expected %lld, got %lld", s->value->name,
                                   d, name.s ? name.s : "?", (long long)want, (long long)t->dims[d]);
            nc_text_release(&name);
            return code;
        }
    }
    return NC_OK;
}

static nc_code bind_variables(nc_frame *f) {
    const nc_program *p = f->program;
    for (int i = 0; i < p->n_vars; i++) {
        nc_state_var *v = &f->state->vars[i];
        nc_live *l = &f->slots[p->vars[i]];
        f->work.at_node = p->graph->vars.v[i]->name, f->work.at_op = "variable";
        if (!v->set) NC_FAIL(&f->work, NC_E_STATE, "it has no contents yet: set it before the first run");
        l->t.rank = v->rank, l->t.dtype = v->dtype;
        memcpy(l->t.dims, v->dims, (size_t)v->rank * sizeof *v->dims);
        NC_TRY(nc_bind_dims(f, p->vars[i], &l->t));
    }
    return NC_OK;
}

/* Growing variables get room for what the run will append, before any kernel sees their address. */
static nc_code reserve_variables(nc_frame *f) {
    const nc_program *p = f->program;
    for (int i = 0; i < p->n_vars; i++) {
        const nc_slot *last = &p->slots[p->vars_last[i]];
        int64_t dims[NC_MAX_RANK];
        if (f->state->vars[i].grow_axis < 0 || p->vars_last[i] == p->vars[i]) continue;
        f->work.at_node = p->graph->vars.v[i]->name, f->work.at_op = "variable";
        for (int d = 0; d < last->rank; d++)
            if (!nc_dim_eval(p->dims[last->dims[d]], f->sym, f->known, &dims[d]))
                NC_FAIL(&f->work, NC_E_UNSUPPORTED, "it grows by a size that is only found during the run");
        NC_TRY(nc_state_reserve(&f->work, &f->state->vars[i], dims));
    }
    f->work.at_node = f->work.at_op = NULL;
    return NC_OK;
}

nc_code nc_bind_symbols(nc_frame *f) {
    const nc_program *p = f->program;
    for (int i = 0; i < p->n_inputs; i++) {
        const nc_live *l = &f->slots[p->inputs[i]];
        const nc_type *t = p->slots[p->inputs[i]].value->type;
        f->work.at_node = p->slots[p->inputs[i]].value->name, f->work.at_op = "input";
        if (l->there && t && t->kind == NC_T_TENSOR) NC_TRY(nc_bind_dims(f, p->inputs[i], &l->t));
    }
    if (!p->n_vars) return NC_OK;
    if (!f->state) NC_FAIL(&f->work, NC_E_STATE, "the program has variables but no state was given");
    NC_TRY(bind_variables(f));
    return reserve_variables(f);
}

/* ---- sizes found from host arguments ---- */

static nc_code set_dims(nc_frame *f, int slot, bool bounded) {
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

/* Operands that this segment itself will make have no sizes yet; symbols say what they will be. */
static nc_code size_operands(nc_frame *f, const nc_instr *x) {
    for (int j = 0; j < x->n_in; j++) {
        const nc_slot *s = x->in[j] >= 0 ? &f->program->slots[x->in[j]] : NULL;
        bool made_here =
            s && s->seg == x->seg && s->storage != NC_S_INPUT && s->storage != NC_S_CONST && s->storage != NC_S_STATE;
        if (made_here && s->storage != NC_S_OBJECT) NC_TRY(set_dims(f, x->in[j], false));
    }
    return NC_OK;
}

/* Host arguments that a copy brings from the device must have arrived before they are read for sizes. */
static nc_code await_host_args(nc_frame *f, const nc_instr *x) {
    nc_device *d = f->program->device;
    nc_stream *copies = f->streams[NC_STREAM_COPY];
    for (int j = 0; copies && j < x->n_in && j < 32; j++) {
        if (x->in[j] < 0 || !(x->node->card->host_in >> j & 1)) continue;
        nc_storage from = f->program->slots[x->in[j]].storage;
        if (from != NC_S_INPUT && from != NC_S_CONST) return d->table->stream_sync(d, copies, &f->work.diag);
    }
    return NC_OK;
}

static nc_code size_instr(nc_frame *f, int i) {
    const nc_instr *x = &f->program->instrs[i];
    nc_work *w = &f->work;
    nc_call c;
    w->at_node = x->node->name, w->at_op = x->node->card->name;
    NC_TRY(size_operands(f, x));
    NC_TRY(await_host_args(f, x));
    NC_TRY(nc_exec_fill_call(f, i, &c));
    bool *readable = nc_arena_array(&w->scratch, (size_t)x->n_in + 1, sizeof *readable);
    NC_NEED(w, readable);
    for (int j = 0; j < x->n_in && j < 32; j++) readable[j] = x->in[j] >= 0 && (x->node->card->host_in >> j & 1);
    nc_dims *scratch = nc_dims_create();
    NC_NEED(w, scratch);
    nc_code code = nc_infer_run(w, x->node, scratch, &w->scratch, c.in, readable, x->node->n_in, c.out, x->n_out);
    nc_dims_destroy(scratch);
    NC_TRY(code);
    for (int o = 0; o < x->n_out; o++)
        if (x->out[o] >= 0) NC_TRY(nc_bind_dims(f, x->out[o], &c.out[o]));
    return NC_OK;
}

/* ---- memory and slots ---- */

/* Before a segment is refused its memory, frames that nobody uses give theirs back. */
static nc_code charge(nc_session *s, size_t bytes, nc_diag *diag) {
    nc_diag first = {0};
    if (nc_budget_take(s->budget, bytes, &first) == NC_OK) return NC_OK;
    nc_session_trim(s);
    return nc_budget_take(s->budget, bytes, diag);
}

static nc_code make_room(nc_frame *f, int seg, int place, size_t bytes) {
    nc_chunk *c = &f->chunks[seg][place];
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
    } else {
        size_t bytes;
        if (!nc_tensor_bytes(l->t.dtype, l->t.dims, l->t.rank, &bytes))
            NC_FAIL(&f->work, NC_E_LIMIT, "output '%s' is too large", s->value->name);
        nc_session *x = f->session;
        nc_buffer *b =
            l->on_device ? nc_env_buffer(x->env, f->program->device, x->budget, bytes, &f->work.diag)
                         : nc_device_buffer(nc_frame_device(f, s->place), x->budget, bytes ? bytes : 1, &f->work.diag);
        if (!b) return f->work.diag.code ? f->work.diag.code : nc_fail(&f->work, NC_E_MEMORY, "out of memory");
        nc_object_unref(l->obj);
        NC_NEED(&f->work, l->obj = nc_object_tensor(b, l->t.dtype, l->t.rank, l->t.dims));
    }
    l->t.data = l->obj->t.data;
    return NC_OK;
}

static nc_code place_slot(nc_frame *f, int seg, int slot, bool bounded) {
    if (slot < 0) return NC_OK;
    const nc_slot *s = &f->program->slots[slot];
    nc_live *l = &f->slots[slot];
    const nc_instance *x = f->instances[seg]->instance;
    if (s->storage == NC_S_OBJECT) return NC_OK;
    NC_TRY(set_dims(f, slot, bounded));
    if (s->storage == NC_S_ARENA) l->t.data = (char *)f->chunks[seg][s->place].ptr + x->offset[slot];
    if (s->storage == NC_S_ALIAS) l->t.data = f->slots[s->of].t.data;
    return s->storage == NC_S_OUTPUT ? output_memory(f, slot) : NC_OK;
}

static nc_code check_inputs_there(nc_frame *f, const nc_instr *x) {
    for (int j = 0; j < x->n_in; j++) {
        if (x->in[j] < 0 || f->program->slots[x->in[j]].storage != NC_S_INPUT || f->slots[x->in[j]].there) continue;
        f->work.at_node = x->node->name, f->work.at_op = x->node->card->name;
        NC_FAIL(&f->work, NC_E_ARGUMENT, "input '%s' of the model was not given",
                f->program->slots[x->in[j]].value->name);
    }
    return NC_OK;
}

nc_code nc_bind_segment(nc_frame *f, int seg) {
    const nc_program *p = f->program;
    const nc_segment *g = &p->segs[seg];
    nc_cached *c;
    for (int i = g->first; i < g->end; i++) NC_TRY(check_inputs_there(f, &p->instrs[i]));
    for (int k = 0; k < g->n_sizing; k++) NC_TRY(size_instr(f, g->sizing[k]));
    NC_TRY(nc_cache_get(&f->work, f->session, p, seg, f->sym, f->known, &c));
    nc_cache_release(f->session, f->instances[seg]);
    f->instances[seg] = c;
    for (int place = 0; place < 2; place++) NC_TRY(make_room(f, seg, place, c->instance->total[place]));
    for (int i = g->first; i < g->end; i++) {
        const nc_instr *x = &p->instrs[i];
        f->work.at_node = x->node->name, f->work.at_op = x->node->card->name;
        for (int o = 0; o < x->n_out; o++) NC_TRY(place_slot(f, seg, x->out[o], x->binding->kind == NC_K_BOUNDED));
        if (x->workspace >= 0) NC_TRY(place_slot(f, seg, x->workspace, false));
        if (x->sizes >= 0) NC_TRY(place_slot(f, seg, x->sizes, false));
    }
    return NC_OK;
}
