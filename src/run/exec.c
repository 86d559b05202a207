/* run/exec.c: one instruction: wait for what it needs, give the kernel its pointers, sizes and strides, tell others
 * when it is done. */
#include "run/frame.h"

#include <string.h>

static nc_tensor slot_tensor(nc_frame *f, int slot) {
    const nc_slot *s = &f->program->slots[slot];
    nc_live *l = &f->slots[slot];
    if (s->storage == NC_S_STATE) {
        nc_tensor t;
        nc_state_tensor(&f->state->vars[s->index], l->t.dims, &t);
        return t;
    }
    if (s->storage == NC_S_OBJECT && l->obj && l->obj->kind == NC_OBJ_TENSOR) return l->obj->t;
    return l->t;
}

nc_code nc_exec_fill_call(nc_frame *f, int i, nc_call *c) {
    const nc_instr *x = &f->program->instrs[i];
    *c = (nc_call){.state = x->state,
                   .in = f->args,
                   .out = f->args + x->n_in,
                   .n_in = x->n_in,
                   .n_out = x->n_out,
                   .packed = f->packed};
    c->pool = f->session->env->pool;
    c->device = nc_frame_device(f, x->place);
    c->stream = f->streams[x->stream];
    c->diag = &f->work.diag;
    c->node = x->node->name, c->op = x->node->card->name;
    for (int j = 0; j < x->n_in; j++) c->in[j] = x->in[j] >= 0 ? slot_tensor(f, x->in[j]) : (nc_tensor){.data = NULL};
    for (int j = 0; j < x->n_out; j++)
        c->out[j] = x->out[j] >= 0 ? slot_tensor(f, x->out[j]) : (nc_tensor){.data = NULL};
    if (x->workspace >= 0 && f->instances[x->seg]) { /* none yet while sizes are still being found */
        c->workspace = f->slots[x->workspace].t.data;
        c->bytes_workspace = f->instances[x->seg]->instance->bytes[x->workspace];
    }
    c->n_packed = x->n_packs;
    if (x->sizes >= 0) c->sizes = f->slots[x->sizes].t.data;
    for (int k = 0; k < x->n_packs; k++)
        NC_TRY(nc_prepared_pack(&f->work, f->prepared, x->first_pack + k, &f->packed[k]));
    return NC_OK;
}

nc_code nc_exec_waits(nc_frame *f, const nc_instr *x) {
    nc_device *d = f->program->device;
    for (int k = 0; k < x->n_wait; k++) {
        nc_event *e = f->events[x->wait[k]];
        if (x->stream == NC_STREAM_HOST)
            NC_TRY(d->table->event_sync(d, e, &f->work.diag));
        else
            NC_TRY(d->table->event_wait(d, e, f->streams[x->stream], &f->work.diag));
    }
    return NC_OK;
}

nc_code nc_exec_record(nc_frame *f, const nc_instr *x) {
    nc_device *d = f->program->device;
    if (x->record < 0 || x->stream == NC_STREAM_HOST) return NC_OK;
    return d->table->event_record(d, f->events[x->record], f->streams[x->stream], &f->work.diag);
}

nc_code nc_exec_sync(nc_frame *f) {
    nc_device *d = f->program->device;
    if (d->table->host_memory) return NC_OK;
    nc_code first = NC_OK;
    for (int k = NC_STREAM_COMPUTE; k < NC_N_STREAMS; k++) {
        nc_code code = f->streams[k] ? d->table->stream_sync(d, f->streams[k], &f->work.diag) : NC_OK;
        if (first == NC_OK) first = code;
    }
    return first;
}

/* Work queued on another stream may still read the slot when the host is done with it. */
static bool is_read_late(const nc_program *p, int slot) {
    const nc_slot *root = &p->slots[p->slots[slot].root];
    return root->last_on[NC_STREAM_COMPUTE] >= 0 || root->last_on[NC_STREAM_COPY] >= 0;
}

void nc_exec_let_go(nc_frame *f, const nc_instr *x) {
    for (int j = 0; j < x->n_in; j++) {
        if (!x->moved[j] || is_read_late(f->program, x->in[j])) continue;
        nc_object_unref(f->slots[x->in[j]].obj);
        f->slots[x->in[j]].obj = NULL;
    }
}

static nc_code transfer(nc_frame *f, const nc_instr *x, const nc_call *c) {
    nc_device *d = f->program->device;
    size_t bytes;
    if (!nc_tensor_bytes(c->in[0].dtype, c->in[0].dims, c->in[0].rank, &bytes))
        NC_FAIL(&f->work, NC_E_LIMIT, "too large to copy");
    if (!bytes) return NC_OK;
    bool to_host = x->place == 0;
    bool dst_host = to_host && !f->slots[x->out[0]].on_device, src_host = !to_host && !f->slots[x->in[0]].on_device;
    return d->table->copy(d, f->streams[NC_STREAM_COPY], c->out[0].data, dst_host, c->in[0].data, src_host, bytes,
                          &f->work.diag);
}

static nc_code run_view(nc_frame *f, const nc_instr *x, const nc_call *c) {
    NC_TRY(x->binding->view(c));
    for (int j = 0; j < x->n_out; j++)
        if (x->out[j] >= 0) f->slots[x->out[j]].t = c->out[j];
    return NC_OK;
}

static nc_code run_kernel(nc_frame *f, int i, nc_call *c) {
    const nc_instr *x = &f->program->instrs[i];
    switch (x->binding->kind) {
    case NC_K_VIEW: return run_view(f, x, c);
    case NC_K_DYNAMIC: return nc_exec_dynamic(f, i, c);
    case NC_K_STATIC:
    case NC_K_BOUNDED: break;
    }
    if (x->binding->run) return c->device->table->launch(c->device, c->stream, x->binding->run, c);
    return transfer(f, x, c);
}

static nc_code run_instr(nc_frame *f, int i, bool with_events) {
    const nc_instr *x = &f->program->instrs[i];
    nc_call c;
    f->work.at_node = x->node->name, f->work.at_op = x->node->card->name;
    if (f->cancel && atomic_load_explicit(f->cancel, memory_order_relaxed))
        NC_FAIL(&f->work, NC_E_CANCELLED, "the run was cancelled here");
    if (with_events) NC_TRY(nc_exec_waits(f, x));
    NC_TRY(nc_exec_fill_call(f, i, &c));
    if (x->writes_state) f->updated = true;
    nc_code code = run_kernel(f, i, &c);
    if (code != NC_OK) return f->work.diag.code ? code : nc_fail(&f->work, code, "the kernel failed");
    if (with_events) NC_TRY(nc_exec_record(f, x));
    /* What a device reads may be read later: such objects stay until the frame is cleared. */
    if (x->stream == NC_STREAM_HOST) nc_exec_let_go(f, x);
    return NC_OK;
}

/* ---- profiled ---- */

static uint64_t slot_bytes(nc_frame *f, int slot) {
    size_t bytes;
    if (slot < 0) return 0;
    nc_tensor t = slot_tensor(f, slot);
    return t.dtype != NC_STRING && nc_tensor_bytes(t.dtype, t.dims, t.rank, &bytes) ? bytes : 0;
}

static int profile_number(nc_frame *f) {
    nc_frame *top = f;
    while (top->parent) top = top->parent;
    if (!top->i_profile) {
        nc_lock_take(&f->session->lock);
        top->i_profile = ++f->session->n_profiled;
        nc_lock_give(&f->session->lock);
    }
    return top->i_profile - 1;
}

static nc_code run_profiled(nc_frame *f, int i, bool with_events) {
    const nc_instr *x = &f->program->instrs[i];
    nc_profile *p = f->session->profile;
    bool view = x->binding->kind == NC_K_VIEW;
    nc_profile_event e = {.instr = x, .frame = profile_number(f)};
    for (int j = 0; !view && j < x->n_in; j++)
        if (j >= 32 || !(x->dims_only >> j & 1)) e.bytes += slot_bytes(f, x->in[j]);
    f->ns_subs = 0;
    e.start = nc_profile_now(p);
    NC_TRY(run_instr(f, i, with_events));
    if (x->stream != NC_STREAM_HOST) NC_TRY(nc_exec_sync(f));
    e.ns = nc_profile_now(p) - e.start;
    e.ns_self = e.ns > f->ns_subs ? e.ns - f->ns_subs : 0;
    if (f->parent) f->parent->ns_subs += e.ns;
    for (int j = 0; !view && j < x->n_out; j++) e.bytes += slot_bytes(f, x->out[j]);
    nc_profile_add(p, &e);
    return NC_OK;
}

nc_code nc_exec_instr(nc_frame *f, int i, bool with_events) {
    return f->session->profile ? run_profiled(f, i, with_events) : run_instr(f, i, with_events);
}
