/* run/frame.c: the life of a frame and its boundary: inputs, outputs, state; running from cut to cut. */
#include "run/frame.h"

#include "base/fpmode.h"
#include "base/mem.h"

#include <string.h>

/* ---- life ---- */

static nc_code make_streams(nc_work *w, nc_frame *f) {
    const nc_program *p = f->program;
    for (int i = 1; i < p->n_streams && !f->parent; i++) {
        nc_device *d = p->places[p->streams[i].place];
        NC_TRY(d->table->stream_create(d, &f->streams[i], &w->diag));
    }
    if (f->parent) memcpy(f->streams, f->parent->streams, (size_t)p->n_streams * sizeof *f->streams);
    nc_device *d = p->device;
    for (int i = 0; i < p->n_events; i++) NC_TRY(d->table->event_create(d, &f->events[i], &w->diag));
    return NC_OK;
}

/* See nc_frame.kernels. On the host a launch is a call. */
static nc_kernel plain_kernel(const nc_instr *x) {
    nc_kernel_kind kind = x->binding->kind;
    if ((kind != NC_K_STATIC && kind != NC_K_BOUNDED) || nc_choice_of(x->node)->n_variants) return NULL;
    bool alone = x->place == 0 && x->stream == 0 && !x->beside && !x->n_wait && x->record < 0;
    return alone && !x->writes_state && !x->lets_go ? x->binding->run : NULL;
}

/* The calls of all instructions, which point to the slots. */
static void fill_calls(nc_frame *f) {
    const nc_program *p = f->program;
    for (int i = 0; i < p->n_instrs; i++) {
        const nc_instr *x = &p->instrs[i];
        nc_tensor **at = f->operands + x->first_operand;
        nc_tensor *no_result = x->binding->kind == NC_K_VIEW ? &f->ignored : &f->absent;
        for (int j = 0; j < x->n_in; j++) at[j] = x->in[j] >= 0 ? &f->slots[x->in[j]].t : &f->absent;
        for (int j = 0; j < x->n_out; j++) at[x->n_in + j] = x->out[j] >= 0 ? &f->slots[x->out[j]].t : no_result;
        f->calls[i] = (nc_call){.state = x->state,
                                .in = at,
                                .out = at + x->n_in,
                                .n_in = x->n_in,
                                .n_out = x->n_out,
                                .packed = f->packed + x->first_pack,
                                .n_packed = x->n_packs,
                                .pool = f->session->env->pool,
                                .device = nc_frame_device(f, x->place),
                                .diag = &f->work.diag,
                                .node = x->node->name,
                                .op = x->node->card->name};
        f->kernels[i] = plain_kernel(x);
    }
}

static nc_code make_bound(nc_work *w, nc_frame *f) {
    const nc_program *p = f->program;
    size_t n_syms = 1;
    for (int s = 0; s < p->n_segs; s++) n_syms += (size_t)p->segs[s].n_syms;
    NC_NEED(w, f->bound = nc_alloc_zero((size_t)p->n_segs + 1, sizeof *f->bound));
    int64_t *syms = nc_alloc_zero(n_syms, sizeof *syms);
    NC_NEED(w, syms);
    f->bound[0].syms = syms; /* the first segment's is the start of the array */
    for (int s = 1; s < p->n_segs; s++) f->bound[s].syms = f->bound[s - 1].syms + p->segs[s - 1].n_syms;
    return NC_OK;
}

static nc_code make_arrays(nc_work *w, nc_frame *f) {
    const nc_program *p = f->program;
    size_t most_in = 0, most_out = 0, n_segs = (size_t)p->n_segs + 1;
    for (int i = 0; i < p->n_instrs; i++) {
        const nc_instr *x = &p->instrs[i];
        if (x->binding->kind != NC_K_DYNAMIC) continue;
        if ((size_t)x->n_in > most_in) most_in = (size_t)x->n_in;
        if ((size_t)x->n_out > most_out) most_out = (size_t)x->n_out;
    }
    NC_NEED(w, f->slots = nc_alloc_zero((size_t)p->n_slots + 1, sizeof *f->slots));
    NC_NEED(w, f->calls = nc_alloc_zero((size_t)p->n_instrs + 1, sizeof *f->calls));
    NC_NEED(w, f->kernels = nc_alloc_zero((size_t)p->n_instrs + 1, sizeof *f->kernels));
    NC_NEED(w, f->operands = nc_alloc_zero((size_t)p->n_operands + 1, sizeof *f->operands));
    NC_NEED(w, f->packed = nc_alloc_zero((size_t)p->n_packs + 1, sizeof *f->packed));
    NC_NEED(w, f->sym = nc_alloc_zero((size_t)p->n_syms + 1, sizeof *f->sym));
    NC_NEED(w, f->known = nc_alloc_zero((size_t)p->n_syms + 1, sizeof *f->known));
    NC_NEED(w, f->chunks = nc_alloc_zero(n_segs * (size_t)p->n_places, sizeof *f->chunks));
    NC_NEED(w, f->captures = nc_alloc_zero(n_segs, sizeof *f->captures));
    NC_NEED(w, f->streams = nc_alloc_zero((size_t)p->n_streams, sizeof *f->streams));
    NC_NEED(w, f->events = nc_alloc_zero((size_t)p->n_events + 1, sizeof *f->events));
    NC_NEED(w, f->vars = nc_alloc_zero((size_t)p->n_vars + 1, sizeof(nc_state_var *)));
    if (p->overlaps) NC_NEED(w, f->lanes = nc_alloc_zero((size_t)p->n_streams, sizeof *f->lanes));
    NC_NEED(w, f->objects = nc_alloc_zero(most_in + most_out + 1, sizeof *f->objects));
    NC_NEED(w, f->results = nc_alloc_zero(most_out + 1, sizeof *f->results));
    NC_NEED(w, f->results_ptr = nc_alloc_zero(most_out + 1, sizeof *f->results_ptr));
    nc_tensor_pointers(f->results_ptr, f->results, (int)most_out);
    NC_TRY(make_bound(w, f));
    for (int i = 0; i < p->n_slots; i++)
        if (p->slots[i].storage == NC_S_CONST) nc_tensor_copy(&f->slots[i].t, &f->prepared->consts[p->slots[i].index]);
    fill_calls(f);
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

static void let_go_state(nc_frame *f) {
    if (f->holds_state) nc_state_end(f->state, f->program->writes_state);
    f->holds_state = false, f->updated = false;
    nc_state_unref(f->state);
    f->state = NULL;
}

static void count_bytes(nc_session *s, size_t add, size_t less) {
    nc_lock_take(&s->lock);
    s->stats.bytes_frames += add, s->stats.bytes_frames -= less;
    if (s->stats.bytes_frames > s->stats.bytes_frames_peak) s->stats.bytes_frames_peak = s->stats.bytes_frames;
    nc_lock_give(&s->lock);
}

static void clear_work(nc_work *w) {
    nc_arena_reset(&w->scratch);
    w->diag.code = NC_OK, w->diag.text[0] = '\0';
    w->at_node = w->at_op = NULL;
}

static void clear(nc_frame *f) {
    const nc_program *p = f->program;
    for (int i = 0; i < p->n_held; i++) {
        nc_live *l = &f->slots[p->held[i]];
        if (l->obj) nc_object_unref(l->obj);
        l->obj = NULL, l->there = l->on_device = false;
    }
    memset(f->known, 0, (size_t)p->n_syms * sizeof *f->known);
    let_go_state(f);
    f->seg = 0, f->failed = f->rebound = false, f->cancel = NULL;
    clear_work(&f->work);
    for (int s = 0; f->lanes && s < p->n_streams; s++) clear_work(&f->lanes[s].work);
}

enum { MAX_PENDING = 4 };

/* A free frame whose last run is over; one that is not only where there are many of them. */
static nc_frame *take_free(nc_session *s, nc_prepared *r) {
    int n = 0;
    nc_lock_take(&s->lock);
    nc_frame **at = &r->free_frames, *f;
    for (; *at && !nc_frame_is_done(*at); at = &(*at)->next) n++;
    if (!*at && n >= MAX_PENDING) /* the oldest stands last */
        for (at = &r->free_frames; (*at)->next;) at = &(*at)->next;
    f = *at;
    if (f) *at = f->next;
    nc_lock_give(&s->lock);
    return f;
}

nc_code nc_frame_acquire(nc_work *w, nc_session *s, nc_prepared *r, nc_frame *parent, nc_frame **out) {
    nc_frame *f = take_free(s, r);
    if (!f) return make(w, s, r, parent, out);
    if (f->pending) {
        nc_frame_await(f);
        clear(f);
    }
    f->next = NULL, f->parent = parent;
    if (parent) memcpy(f->streams, parent->streams, (size_t)f->program->n_streams * sizeof *f->streams);
    *out = f;
    return NC_OK;
}

void nc_frame_release(nc_frame *f) {
    if (!f) return;
    nc_session *s = f->session;
    nc_prepared *r = f->prepared;
    if (f->seg > 0 && f->seg < f->program->n_segs) {
        nc_code drained = nc_exec_sync(f); /* it stood at a cut: nothing may still touch what is let go */
        (void)drained;
    }
    nc_frame_return_stream(f);
    if (!f->pending) clear(f); /* what queued work still reads stays until it is done */
    f->parent = NULL;
    nc_lock_take(&s->lock);
    f->next = r->free_frames, r->free_frames = f;
    nc_lock_give(&s->lock);
}

void nc_frame_destroy(nc_frame *f) {
    if (!f) return;
    const nc_program *p = f->program;
    nc_device *d = p->device;
    nc_frame_await(f);
    nc_frame_return_stream(f);
    if (f->slots && f->known) clear(f);
    for (int i = 0; i < 2; i++)
        if (f->border[i]) d->table->event_destroy(d, f->border[i]);
    nc_bind_forget(f);
    nc_sizing_release(f);
    nc_exec_forget(f);
    for (int i = 0; f->events && i < p->n_events; i++)
        if (f->events[i]) d->table->event_destroy(d, f->events[i]);
    for (int i = 0; f->chunks && i < p->n_segs; i++)
        for (int place = 0; place < p->n_places; place++) {
            const nc_chunk *c = nc_frame_chunk(f, i, place);
            nc_device *at = nc_frame_device(f, place);
            if (!c->ptr) continue;
            at->table->free(at, NULL, c->ptr);
            nc_budget_give(f->session->budget, c->bytes);
            count_bytes(f->session, 0, c->bytes);
        }
    for (int i = 1; f->streams && !p->inner && i < p->n_streams; i++)
        if (f->streams[i]) p->places[p->streams[i].place]->table->stream_destroy(d, f->streams[i]);
    nc_work_release(&f->work);
    for (int s = 0; f->lanes && s < p->n_streams; s++) nc_work_release(&f->lanes[s].work);
    nc_free(f->lanes);
    if (f->bound) nc_free(f->bound[0].syms);
    nc_free(f->slots);
    nc_free(f->calls);
    nc_free((void *)f->kernels);
    nc_free((void *)f->operands);
    nc_free((void *)f->packed);
    nc_free(f->sym);
    nc_free(f->known);
    nc_free(f->chunks);
    nc_free(f->bound);
    nc_free(f->captures);
    nc_free((void *)f->streams);
    nc_free((void *)f->events);
    nc_free((void *)f->objects);
    nc_free(f->results);
    nc_free((void *)f->results_ptr);
    nc_free((void *)f->vars);
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
    if (s->rank >= 0 && t->rank != s->rank && !(s->rank == 0 && nc_tensor_numel(t) == 1))
        NC_FAIL(w, NC_E_SHAPE, "expected rank %d, got %d", s->rank, t->rank);
    if (!s->takes_strides && !nc_is_dense(t)) NC_FAIL(w, NC_E_ARGUMENT, "must be dense");
    return NC_OK;
}

nc_code nc_frame_bind_input(nc_frame *f, int i, const nc_tensor *t, nc_object *takes) {
    int slot = f->program->inputs[i];
    nc_live *l = &f->slots[slot];
    nc_code code = check_input(f, slot, t, takes);
    if (code == NC_OK && f->seg > 0) code = nc_bind_dims(f, slot, t->dims);
    if (code != NC_OK) {
        nc_object_unref(takes);
        return code;
    }
    nc_object_unref(l->obj);
    l->obj = takes, l->there = true;
    l->on_device = takes && nc_object_on_device(takes);
    if (t) nc_tensor_copy(&l->t, t);
    if (t && f->program->slots[slot].rank == 0) l->t.rank = 0; /* one element is a scalar, whatever its dims */
    f->work.at_node = f->work.at_op = NULL;
    return NC_OK;
}

nc_code nc_frame_bind_output(nc_frame *f, int i, nc_object *takes) {
    nc_live *l = &f->slots[f->program->outputs[i]];
    nc_object_unref(l->obj);
    l->obj = takes, l->there = true, l->on_device = nc_object_on_device(takes);
    return NC_OK;
}

/* A variable that grows may be moved when the run begins: its contents must be there. */
static bool follows_on_streams(const nc_frame *f) {
    for (int i = 0; i < f->program->n_vars; i++)
        if (f->vars[i]->grow_axis >= 0) return false;
    return f->lent;
}

/* Runs that hold the state returned, maybe before their end. */
static nc_code follow_others(nc_frame *f) {
    const nc_program *p = f->program;
    if (!follows_on_streams(f)) return nc_state_await(f->state, &f->work.diag);
    for (int k = 1; k < p->n_streams; k++)
        if (f->streams[k]) NC_TRY(nc_state_follow(&f->work, f->state, f->streams[k]));
    return NC_OK;
}

nc_code nc_frame_use_state(nc_frame *f, nc_state *s, bool wait) {
    if (!f->program->n_vars) return NC_OK;
    NC_TRY(nc_state_bind(&f->work, s, f->session->uid, f->program, f->vars));
    NC_TRY(nc_state_begin(&f->work, s, f->program->writes_state, wait));
    f->state = nc_state_ref(s), f->holds_state = true;
    return follow_others(f);
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
            NC_TRY(nc_bind_dims(f, x->out[o], t->dims));
        }
    }
    return NC_OK;
}

static nc_code run_segment(nc_frame *f, int seg) {
    const nc_program *p = f->program;
    const nc_segment *g = &p->segs[seg];
    bool kept, profiled = f->session->profile != NULL;
    NC_TRY(nc_bind_segment(f, seg, &kept));
    for (int i = g->first, next; i < g->end; i = next) {
        next = i + 1;
        if (f->kernels[i] && !profiled) {
            NC_TRY(nc_exec_plain(f, i, g->end, &next));
        } else if (kept && p->instrs[i].fixed) {
            continue;
        } else if (g->capturable && i == g->cap_first) {
            NC_TRY(nc_exec_range(f, seg));
            next = g->cap_end;
        } else if (p->instrs[i].beside) {
            while (next < g->end && p->instrs[next].beside) next++;
            NC_TRY(nc_exec_overlap(f, i, next, kept));
        } else {
            NC_TRY(nc_exec_instr(f, i, true));
        }
    }
    return read_sizes(f, seg);
}

static void finish_state(nc_frame *f) {
    const nc_program *p = f->program;
    for (int i = 0; i < p->n_vars && !p->vars_fixed; i++) {
        nc_state_var *v = f->vars[i];
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

/* The run returns, and its end comes later on the caller's stream. */
static nc_code leave(nc_frame *f) {
    NC_TRY(nc_frame_finish_stream(f));
    if (!f->state) return NC_OK;
    nc_stream *stream = f->streams[nc_program_stream(f->program, NC_STREAM_COMPUTE, 1)];
    return nc_state_leave(&f->work, f->state, f->program, f->vars, stream);
}

/* The caller's tensors all lie on the device. */
static bool is_still(const nc_frame *f) {
    const nc_program *p = f->program;
    bool still = p->copies_edges;
    for (int i = 0; i < p->n_edges && still; i++) {
        const nc_slot *s = &p->slots[p->edges[i]];
        still = f->slots[s->from_input >= 0 ? p->inputs[s->from_input] : p->outputs[s->to_output]].on_device;
    }
    return still;
}

static nc_code run_to(nc_frame *f, int stop, bool at_cut) {
    const nc_program *p = f->program;
    if (f->failed) NC_FAIL(&f->work, NC_E_FAIL, "this run failed before; start another");
    f->still = is_still(f);
    if (f->seg == 0) {
        if (f->lent && !f->still) NC_TRY(nc_frame_follow_stream(f));
        nc_prepared_pack_all(f->prepared);
        NC_TRY(bind_initials(f));
        NC_TRY(nc_bind_symbols(f));
    }
    while (f->seg < p->n_segs && (!at_cut || p->segs[f->seg].first < stop)) {
        NC_TRY(run_segment(f, f->seg));
        f->seg++;
    }
    return f->lent && f->seg == p->n_segs ? leave(f) : nc_exec_sync(f);
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
        if (f->seg < f->program->n_segs) f->bound[f->seg].valid = false; /* views behind the failure were not made */
        nc_diag keep = f->work.diag;
        nc_code ignored = nc_exec_sync(f); /* nothing may still run when the caller's memory goes */
        (void)ignored;
        f->work.diag = keep;
        if (f->holds_state && f->updated) nc_state_spoil(f->state, f->program, f->vars);
        let_go_state(f);
        return code;
    }
    if (f->seg == f->program->n_segs && f->holds_state) finish_state(f);
    return NC_OK;
}
