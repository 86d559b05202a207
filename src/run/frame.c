/* run/frame.c: the life of a frame and its boundary: inputs, outputs, state; running from cut to cut. */
#include "run/frame.h"

#include "base/fpmode.h"
#include "base/mem.h"

#include <string.h>

/* ---- life ---- */

static nc_code make_streams(nc_work *w, nc_frame *f) {
    nc_device *d = f->program->device;
    if (f->parent) {
        memcpy(f->streams, f->parent->streams, sizeof f->streams);
    } else if (!d->table->host_memory) {
        NC_TRY(d->table->stream_create(d, &f->streams[NC_STREAM_COMPUTE], &w->diag));
        NC_TRY(d->table->stream_create(d, &f->streams[NC_STREAM_COPY], &w->diag));
    }
    for (int i = 0; i < f->program->n_events; i++) NC_TRY(d->table->event_create(d, &f->events[i], &w->diag));
    return NC_OK;
}

static nc_code make_arrays(nc_work *w, nc_frame *f) {
    const nc_program *p = f->program;
    size_t most = 1, packs = 1;
    for (int i = 0; i < p->n_instrs; i++) {
        size_t n = (size_t)(p->instrs[i].n_in + p->instrs[i].n_out);
        if (n > most) most = n;
        if ((size_t)p->instrs[i].n_packs > packs) packs = (size_t)p->instrs[i].n_packs;
    }
    NC_NEED(w, f->slots = nc_alloc_zero((size_t)p->n_slots + 1, sizeof *f->slots));
    NC_NEED(w, f->sym = nc_alloc_zero((size_t)p->n_syms + 1, sizeof *f->sym));
    NC_NEED(w, f->known = nc_alloc_zero((size_t)p->n_syms + 1, sizeof *f->known));
    NC_NEED(w, f->chunks = nc_alloc_zero((size_t)p->n_segs + 1, sizeof *f->chunks));
    NC_NEED(w, f->instances = nc_alloc_zero((size_t)p->n_segs + 1, sizeof *f->instances));
    NC_NEED(w, f->captured = nc_alloc_zero((size_t)p->n_segs + 1, sizeof *f->captured));
    NC_NEED(w, f->events = nc_alloc_zero((size_t)p->n_events + 1, sizeof *f->events));
    NC_NEED(w, f->args = nc_alloc_zero(most, sizeof *f->args));
    NC_NEED(w, f->packed = nc_alloc_zero(packs, sizeof *f->packed));
    for (int i = 0; i < p->n_slots; i++)
        if (p->slots[i].storage == NC_S_CONST) f->slots[i].t = f->prepared->consts[p->slots[i].index];
    return NC_OK;
}

static nc_code make(nc_work *w, nc_session *s, nc_prepared *r, nc_frame *parent, nc_frame **out) {
    nc_frame *f = nc_alloc_zero(1, sizeof *f);
    NC_NEED(w, f);
    f->session = s, f->prepared = r, f->program = r->program, f->parent = parent;
    nc_work_init(&f->work);
    nc_code code = make_arrays(w, f);
    if (code == NC_OK) code = make_streams(w, f);
    if (code != NC_OK) {
        nc_frame_destroy(f);
        return code;
    }
    s->stats.frames++;
    *out = f;
    return NC_OK;
}

nc_code nc_frame_acquire(nc_work *w, nc_session *s, nc_prepared *r, nc_frame *parent, nc_frame **out) {
    nc_lock_take(&s->lock);
    nc_frame *f = r->free_frames;
    if (f) r->free_frames = f->next;
    nc_lock_give(&s->lock);
    if (!f) return make(w, s, r, parent, out);
    f->next = NULL, f->parent = parent;
    if (parent) memcpy(f->streams, parent->streams, sizeof f->streams);
    *out = f;
    return NC_OK;
}

static void let_go_state(nc_frame *f) {
    if (f->holds_state) nc_state_end(f->state, f->program->writes_state);
    f->holds_state = f->updated = false;
    f->state = NULL;
}

static void count_bytes(nc_session *s, size_t add, size_t less) {
    nc_lock_take(&s->lock);
    s->stats.bytes_frames += add, s->stats.bytes_frames -= less;
    if (s->stats.bytes_frames > s->stats.bytes_frames_peak) s->stats.bytes_frames_peak = s->stats.bytes_frames;
    nc_lock_give(&s->lock);
}

static void clear(nc_frame *f) {
    for (int i = 0; i < f->program->n_slots; i++) {
        nc_live *l = &f->slots[i];
        nc_object_unref(l->obj);
        l->obj = NULL, l->there = l->on_device = false;
    }
    for (int i = 0; i < f->program->n_segs; i++) {
        nc_cache_release(f->session, f->instances[i]);
        f->instances[i] = NULL;
    }
    memset(f->known, 0, (size_t)f->program->n_syms * sizeof *f->known);
    let_go_state(f);
    f->seg = 0, f->failed = false, f->cancel = NULL;
    nc_arena_reset(&f->work.scratch);
    f->work.diag = (nc_diag){.code = NC_OK};
    f->work.at_node = f->work.at_op = NULL;
}

void nc_frame_release(nc_frame *f) {
    if (!f) return;
    nc_session *s = f->session;
    nc_prepared *r = f->prepared;
    if (f->seg > 0 && f->seg < f->program->n_segs) {
        nc_code drained = nc_exec_sync(f); /* it stood at a cut: nothing may still touch what is let go */
        (void)drained;
    }
    clear(f);
    f->parent = NULL;
    nc_lock_take(&s->lock);
    f->next = r->free_frames, r->free_frames = f;
    nc_lock_give(&s->lock);
}

void nc_frame_destroy(nc_frame *f) {
    if (!f) return;
    const nc_program *p = f->program;
    nc_device *d = p->device;
    if (f->slots && f->known && f->instances) clear(f);
    for (int i = 0; f->captured && i < p->n_segs; i++)
        if (f->captured[i].capture) d->table->capture_destroy(d, f->captured[i].capture);
    for (int i = 0; f->events && i < p->n_events; i++)
        if (f->events[i]) d->table->event_destroy(d, f->events[i]);
    for (int i = 0; f->chunks && i < p->n_segs; i++)
        for (int place = 0; place < 2; place++) {
            nc_chunk *c = &f->chunks[i][place];
            nc_device *at = nc_frame_device(f, place);
            if (!c->ptr) continue;
            at->table->free(at, NULL, c->ptr);
            nc_budget_give(f->session->budget, c->bytes);
            count_bytes(f->session, 0, c->bytes);
        }
    if (!p->inner && !d->table->host_memory)
        for (int i = NC_STREAM_COMPUTE; i < NC_N_STREAMS; i++)
            if (f->streams[i]) d->table->stream_destroy(d, f->streams[i]);
    nc_work_release(&f->work);
    nc_free(f->slots);
    nc_free(f->sym);
    nc_free(f->known);
    nc_free(f->chunks);
    nc_free(f->instances);
    nc_free(f->captured);
    nc_free(f->events);
    nc_free(f->args);
    nc_free((void *)f->packed);
    nc_free(f);
}

/* ---- boundary ---- */

static nc_code check_input(nc_frame *f, int slot, const nc_tensor *t, const nc_object *obj) {
    const nc_slot *s = &f->program->slots[slot];
    nc_work *w = &f->work;
    w->at_node = s->value->name, w->at_op = "input";
    bool tensor = s->value->type && s->value->type->kind == NC_T_TENSOR;
    if (tensor && !t) NC_FAIL(w, NC_E_TYPE, "expected a tensor of %s", nc_dtype_name(s->dtype));
    if (!tensor && (!obj || obj->kind == NC_OBJ_TENSOR))
        NC_FAIL(w, NC_E_TYPE, "expected a sequence, optional or map, got a tensor");
    if (!tensor) return NC_OK;
    if (t->dtype != s->dtype)
        NC_FAIL(w, NC_E_TYPE, "expected %s, got %s", nc_dtype_name(s->dtype), nc_dtype_name(t->dtype));
    if (s->rank >= 0 && t->rank != s->rank) NC_FAIL(w, NC_E_SHAPE, "expected rank %d, got %d", s->rank, t->rank);
    if (!nc_is_dense(t)) NC_FAIL(w, NC_E_ARGUMENT, "must be dense");
    return NC_OK;
}

nc_code nc_frame_bind_input(nc_frame *f, int i, const nc_tensor *t, nc_object *takes) {
    int slot = f->program->inputs[i];
    nc_live *l = &f->slots[slot];
    nc_code code = check_input(f, slot, t, takes);
    if (code == NC_OK && f->seg > 0) code = nc_bind_dims(f, slot, t);
    if (code != NC_OK) {
        nc_object_unref(takes);
        return code;
    }
    nc_object_unref(l->obj);
    l->obj = takes, l->there = true;
    l->on_device = takes && nc_object_on_device(takes);
    if (t) l->t = *t;
    f->work.at_node = f->work.at_op = NULL;
    return NC_OK;
}

nc_code nc_frame_bind_output(nc_frame *f, int i, nc_object *takes) {
    nc_live *l = &f->slots[f->program->outputs[i]];
    nc_object_unref(l->obj);
    l->obj = takes, l->there = true, l->on_device = nc_object_on_device(takes);
    return NC_OK;
}

nc_code nc_frame_use_state(nc_frame *f, nc_state *s, bool wait) {
    if (!f->program->n_vars) return NC_OK;
    if (s->program != f->program) NC_FAIL(&f->work, NC_E_ARGUMENT, "the state belongs to another session");
    NC_TRY(nc_state_begin(&f->work, s, f->program->writes_state, wait));
    f->state = s, f->holds_state = true;
    return NC_OK;
}

nc_object *nc_frame_output(nc_frame *f, int i) {
    int slot = f->program->outputs[i];
    return f->program->slots[slot].seg < f->seg ? f->slots[slot].obj : NULL;
}

/* ---- running ---- */

static nc_code read_sizes(nc_frame *f, int seg) {
    const nc_program *p = f->program;
    const nc_segment *g = &p->segs[seg];
    for (int i = g->first; i < g->end; i++) {
        const nc_instr *x = &p->instrs[i];
        if (x->sizes < 0) continue;
        int64_t *host = nc_arena_array(&f->work.scratch, (size_t)x->n_out * NC_MAX_RANK, sizeof *host);
        NC_NEED(&f->work, host);
        nc_device *d = nc_frame_device(f, x->place);
        nc_stream *s = f->streams[x->stream];
        NC_TRY(d->table->copy(d, s, host, true, f->slots[x->sizes].t.data, d->table->host_memory,
                              (size_t)x->n_out * NC_MAX_RANK * sizeof *host, &f->work.diag));
        NC_TRY(d->table->stream_sync(d, s, &f->work.diag));
        for (int o = 0; o < x->n_out; o++) {
            if (x->out[o] < 0) continue;
            nc_tensor *t = &f->slots[x->out[o]].t;
            memcpy(t->dims, host + o * NC_MAX_RANK, (size_t)t->rank * sizeof *t->dims);
            nc_dense_strides(t->dims, t->rank, t->strides);
            NC_TRY(nc_bind_dims(f, x->out[o], t));
        }
    }
    return NC_OK;
}

static nc_code run_segment(nc_frame *f, int seg) {
    const nc_segment *g = &f->program->segs[seg];
    NC_TRY(nc_bind_segment(f, seg));
    for (int i = g->first; i < g->end; i++) {
        if (g->capturable && i == g->cap_first) {
            NC_TRY(nc_exec_range(f, seg));
            i = g->cap_end - 1;
            continue;
        }
        NC_TRY(nc_exec_instr(f, i, true));
    }
    return read_sizes(f, seg);
}

static void finish_state(nc_frame *f) {
    const nc_program *p = f->program;
    for (int i = 0; i < p->n_vars; i++) {
        nc_state_var *v = &f->state->vars[i];
        if (p->vars_last[i] != p->vars[i])
            memcpy(v->dims, f->slots[p->vars_last[i]].t.dims, (size_t)v->rank * sizeof *v->dims);
    }
    let_go_state(f);
}

static nc_code bind_initials(nc_frame *f) {
    if (f->parent) return NC_OK;
    for (int i = 0; i < f->program->n_inputs; i++) {
        nc_object *o = f->session->initials[i];
        if (o && !f->slots[f->program->inputs[i]].there) NC_TRY(nc_frame_bind_input(f, i, &o->t, nc_object_ref(o)));
    }
    return NC_OK;
}

static nc_code run_to(nc_frame *f, int stop, bool at_cut) {
    const nc_program *p = f->program;
    if (f->failed) NC_FAIL(&f->work, NC_E_FAIL, "this run failed before; start another");
    if (f->seg == 0) {
        nc_prepared_pack_all(f->prepared);
        NC_TRY(bind_initials(f));
        NC_TRY(nc_bind_symbols(f));
    }
    while (f->seg < p->n_segs && (!at_cut || p->segs[f->seg].first < stop)) {
        NC_TRY(run_segment(f, f->seg));
        f->seg++;
    }
    return nc_exec_sync(f);
}

/* The thread's rounding mode and log are the run's while it lasts, for the pool's helpers too (base/threads.c). A frame
 * of a subprogram runs inside its parent's. */
static nc_code run_in_mode(nc_frame *f, int stop, bool at_cut) {
    if (f->parent) return run_to(f, stop, at_cut);
    nc_log_scope log = nc_log_enter(f->log);
    uint64_t mode = nc_fpmode_get();
    if (f->session->flush_denormals) nc_fpmode_set(nc_fpmode_flushing(mode));
    nc_code code = run_to(f, stop, at_cut);
    if (f->session->flush_denormals) nc_fpmode_set(mode);
    nc_log_enter(log);
    return code;
}

nc_code nc_frame_run(nc_frame *f, int stop, bool at_cut) {
    nc_code code = run_in_mode(f, stop, at_cut);
    f->work.at_node = f->work.at_op = NULL;
    if (code != NC_OK) {
        f->failed = true;
        nc_diag keep = f->work.diag;
        nc_code ignored = nc_exec_sync(f); /* nothing may still run when the caller's memory goes */
        (void)ignored;
        f->work.diag = keep;
        if (f->holds_state && f->updated) f->state->dirty = true;
        let_go_state(f);
        return code;
    }
    if (f->seg == f->program->n_segs && f->holds_state) finish_state(f);
    return NC_OK;
}
