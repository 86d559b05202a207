/* run/exec.c: one instruction: wait for what it needs, give the kernel its pointers, sizes and strides, tell others
 * when it is done. */
#include "run/frame.h"

#include <string.h>

nc_code nc_exec_waits(nc_frame *f, const nc_instr *x) {
    nc_device *d = f->program->device;
    for (int k = 0; k < x->n_wait && !f->still; k++) {
        nc_event *e = f->events[x->wait[k]];
        if (x->stream == 0 || k < x->n_host_wait)
            NC_TRY(d->table->event_sync(d, e, &f->work.diag));
        else
            NC_TRY(d->table->event_wait(d, e, f->streams[x->stream], &f->work.diag));
    }
    return NC_OK;
}

nc_code nc_exec_record(nc_frame *f, const nc_instr *x) {
    nc_device *d = f->program->device;
    if (x->record < 0 || x->stream == 0 || f->still) return NC_OK;
    return d->table->event_record(d, f->events[x->record], f->streams[x->stream], &f->work.diag);
}

nc_code nc_exec_sync(nc_frame *f) {
    const nc_program *p = f->program;
    nc_code first = NC_OK;
    for (int k = 1; k < p->n_streams; k++) {
        nc_device *d = p->places[p->streams[k].place];
        if (f->still && p->streams[k].kind == NC_STREAM_COPY) continue;
        nc_code code = f->streams[k] ? d->table->stream_sync(d, f->streams[k], &f->work.diag) : NC_OK;
        if (first == NC_OK) first = code;
    }
    return first;
}

/* Work queued on another stream may still read the slot when the host is done with it. */
static bool is_read_late(const nc_program *p, int slot) {
    const nc_slot *root = &p->slots[p->slots[slot].root];
    for (int k = 1; k < p->n_streams; k++)
        if (root->last_on[k] >= 0) return true;
    return false;
}

/* Who asks for the dims of what is gone, or of a view of it, gets no address. */
static void forget_bytes(nc_frame *f, int slot) {
    const nc_program *p = f->program;
    for (int s = slot; s < p->n_slots; s++)
        if (p->slots[s].root == p->slots[slot].root) f->slots[s].t.data = NULL;
}

void nc_exec_let_go(nc_frame *f, const nc_instr *x) {
    for (int j = 0; j < x->n_in; j++) {
        if (!x->moved[j] || is_read_late(f->program, x->in[j])) continue;
        nc_live *l = &f->slots[x->in[j]];
        if (l->obj != NULL) forget_bytes(f, x->in[j]);
        nc_object_unref(l->obj);
        l->obj = NULL;
    }
}

static nc_code transfer(nc_frame *f, const nc_instr *x, const nc_call *c) {
    size_t bytes;
    if (!nc_tensor_bytes(c->in[0]->dtype, c->in[0]->dims, c->in[0]->rank, &bytes))
        NC_FAIL(&f->work, NC_E_LIMIT, "too large to copy");
    if (!bytes) return NC_OK;
    const nc_slot *in = &f->program->slots[x->in[0]], *out = &f->program->slots[x->out[0]];
    if (f->slots[x->in[0]].on_device && out->from_input >= 0) return NC_OK; /* the caller's tensor is the device's */
    if (f->slots[x->out[0]].on_device && in->to_output >= 0) return NC_OK;
    nc_device *d = nc_frame_device(f, f->program->streams[x->stream].place);
    bool to_host = x->place == 0;
    bool dst_host = to_host && !f->slots[x->out[0]].on_device, src_host = !to_host && !f->slots[x->in[0]].on_device;
    return d->table->copy(d, f->streams[x->stream], c->out[0]->data, dst_host, c->in[0]->data, src_host, bytes,
                          &f->work.diag);
}

static nc_code run_kernel(nc_frame *f, nc_work *w, int i) {
    const nc_instr *x = &f->program->instrs[i];
    nc_call *c = &f->calls[i];
    c->stream = f->streams[x->stream], c->diag = &w->diag;
    switch (x->binding->kind) {
    case NC_K_VIEW: return x->binding->view(c);
    case NC_K_DYNAMIC: return nc_exec_dynamic(f, i);
    case NC_K_STATIC:
    case NC_K_BOUNDED: break;
    }
    if (!x->binding->run) return transfer(f, x, c);
    const nc_choice *choice = nc_choice_of(x->node);
    nc_kernel run = choice->n_variants ? nc_choice_pick(choice, c)->run : x->binding->run;
    return c->device->table->launch(c->device, c->stream, run, c);
}

static nc_code run_instr(nc_frame *f, int i, bool with_events) {
    const nc_instr *x = &f->program->instrs[i];
    nc_work *w = x->beside && x->stream ? &f->lanes[x->stream].work : &f->work;
    w->at_node = x->node->name, w->at_op = x->node->card->name;
    if (f->cancel && atomic_load_explicit(f->cancel, memory_order_relaxed))
        NC_FAIL(w, NC_E_CANCELLED, "the run was cancelled here");
    if (with_events && x->n_wait) NC_TRY(nc_exec_waits(f, x));
    if (x->writes_state) f->updated = true;
    nc_code code = run_kernel(f, w, i);
    if (code != NC_OK) return w->diag.code ? code : nc_fail(w, code, "the kernel failed");
    if (with_events && x->record >= 0) NC_TRY(nc_exec_record(f, x));
    /* What a device reads may be read later: such objects stay until the frame is cleared. */
    if (x->lets_go && x->stream == 0) nc_exec_let_go(f, x);
    return NC_OK;
}

static nc_code plain_failed(nc_frame *f, int i, nc_code code) {
    const nc_node *n = f->program->instrs[i].node;
    f->work.at_node = n->name, f->work.at_op = n->card->name;
    if (code == NC_E_CANCELLED) NC_FAIL(&f->work, code, "the run was cancelled here");
    return f->work.diag.code ? code : nc_fail(&f->work, code, "the kernel failed");
}

nc_code nc_exec_plain(nc_frame *f, int i, int end, int *next) {
    const atomic_int *cancel = f->cancel;
    for (nc_kernel run; i < end && (run = f->kernels[i]) != NULL; i++) {
        if (cancel && atomic_load_explicit(cancel, memory_order_relaxed)) return plain_failed(f, i, NC_E_CANCELLED);
        nc_code code = run(&f->calls[i]);
        if (code != NC_OK) return plain_failed(f, i, code);
    }
    *next = i;
    return NC_OK;
}

/* ---- profiled ---- */

static uint64_t slot_bytes(nc_frame *f, int slot) {
    size_t bytes;
    if (slot < 0) return 0;
    const nc_tensor *t = &f->slots[slot].t;
    return t->dtype != NC_STRING && nc_tensor_bytes(t->dtype, t->dims, t->rank, &bytes) ? bytes : 0;
}

static int profile_number(nc_frame *f) {
    nc_frame *top = f;
    while (top->parent) top = top->parent;
    nc_lock_take(&f->session->lock);
    if (!top->i_profile) top->i_profile = ++f->session->n_profiled;
    int i = top->i_profile - 1;
    nc_lock_give(&f->session->lock);
    return i;
}

static nc_code run_profiled(nc_frame *f, int i, bool with_events) {
    const nc_instr *x = &f->program->instrs[i];
    nc_profile *p = f->session->profile;
    bool view = x->binding->kind == NC_K_VIEW, dynamic = x->binding->kind == NC_K_DYNAMIC;
    nc_profile_event e = {.instr = x, .frame = profile_number(f)};
    for (int j = 0; !view && j < x->n_in; j++)
        if (j >= 32 || !(x->dims_only >> j & 1)) e.bytes += slot_bytes(f, x->in[j]);
    if (dynamic) f->ns_subs = 0; /* others have no subgraphs, and may run at the same time */
    e.start = nc_profile_now(p);
    NC_TRY(run_instr(f, i, with_events));
    if (x->stream != 0) NC_TRY(nc_exec_sync(f));
    e.ns = nc_profile_now(p) - e.start;
    e.ns_self = !dynamic ? e.ns : e.ns > f->ns_subs ? e.ns - f->ns_subs : 0;
    if (f->parent) f->parent->ns_subs += e.ns;
    for (int j = 0; !view && j < x->n_out; j++) e.bytes += slot_bytes(f, x->out[j]);
    nc_profile_add(p, &e);
    return NC_OK;
}

nc_code nc_exec_instr(nc_frame *f, int i, bool with_events) {
    return f->session->profile ? run_profiled(f, i, with_events) : run_instr(f, i, with_events);
}
