/* run/replay.c: the device part of a segment as one recorded piece. The first run in given memory goes instruction by
 * instruction (kernels compile, weights are packed); the second is recorded and replayed; later ones only replayed.
 *
 * A recording has sizes and addresses baked in. A run that differs from it in some instructions only, as a token does
 * whose past is one longer, has these captured alone and put into the recording in place of the old ones: cheaper than
 * a new one, and the bits are those of a run by instruction. Sizes that come back get a recording of their own, so that
 * shapes and states may take turns; those used last are kept. */
#include "run/frame.h"

#include "base/map.h"
#include "base/mem.h"

#include <string.h>

enum { MISFITS_MAX = 8 }; /* after so many recordings that could not be changed none is tried */

static nc_stream *stream_of(const nc_frame *f, const nc_segment *g) {
    return f->streams[f->program->instrs[g->cap_first].stream];
}

static bool is_view(const nc_frame *f, int i) { return f->program->instrs[i].binding->kind == NC_K_VIEW; }

/* ---- what is baked in ---- */

static uint64_t memory_key(const nc_frame *f, int seg) {
    const nc_program *p = f->program;
    uint64_t stream = p->device->table->stream_id(stream_of(f, &p->segs[seg]));
    uint64_t h = nc_hash(&stream, sizeof stream, 1);
    return nc_hash(f->chunks, (size_t)((seg + 1) * p->n_places) * sizeof *f->chunks, h);
}

static uint64_t tensor_key(const nc_tensor *t, uint64_t h) {
    h = nc_hash(&t->data, sizeof t->data, h);
    h = nc_hash(t->dims, (size_t)t->rank * sizeof *t->dims, h);
    return nc_hash(t->strides, (size_t)t->rank * sizeof *t->strides, h);
}

/* Contents that launchers read on the host, where a run makes them, and where views lie, as such contents may say.
 * Fixed views follow from sizes and memory. */
static uint64_t told_key(const nc_frame *f, int i, uint64_t h) {
    const nc_program *p = f->program;
    const nc_instr *x = &p->instrs[i];
    for (int j = 0; j < x->n_in; j++) {
        size_t bytes;
        if (x->in[j] < 0) continue;
        const nc_slot *s = &p->slots[x->in[j]], *root = &p->slots[s->root];
        if (s->storage == NC_S_VIEW && !s->steady) h = tensor_key(&f->slots[x->in[j]].t, h);
        if (root->place || root->storage != NC_S_ARENA || (j < 32 && x->dims_only >> j & 1)) continue;
        const nc_tensor *t = &f->slots[s->root].t;
        if (t->data && nc_tensor_bytes(t->dtype, t->dims, t->rank, &bytes)) h = nc_hash(t->data, bytes, h);
    }
    return h;
}

/* Sizes, the frame's memory, addresses of the caller's, addresses and strides of variables, what the host tells. */
static uint64_t range_key(const nc_frame *f, int seg, uint64_t memory) {
    const nc_program *p = f->program;
    uint64_t h = nc_hash(f->sym, (size_t)p->n_syms * sizeof *f->sym, memory);
    h = nc_hash(f->known, (size_t)p->n_syms * sizeof *f->known, h);
    for (int i = 0; i < p->n_edges; i++) h = nc_hash(&f->slots[p->edges[i]].t.data, sizeof(void *), h);
    h = nc_hash(&f->vars_key, sizeof f->vars_key, h);
    for (int i = p->segs[seg].cap_first; i < p->segs[seg].cap_end; i++) h = told_key(f, i, h);
    return h;
}

/* Of one instruction: its operands as its kernel sees them. */
static uint64_t instr_key(const nc_frame *f, int i) {
    const nc_instr *x = &f->program->instrs[i];
    const nc_call *c = &f->calls[i];
    uint64_t h = nc_hash(&c->workspace, sizeof c->workspace, 1);
    for (int j = 0; j < x->n_in; j++) h = tensor_key(c->in[j], h);
    for (int j = 0; j < x->n_out; j++) h = tensor_key(c->out[j], h);
    return told_key(f, i, h);
}

/* ---- recording ---- */

static nc_code issue(nc_frame *f, const nc_segment *g) {
    for (int i = g->cap_first; i < g->cap_end; i++) NC_TRY(nc_exec_instr(f, i, false));
    return NC_OK;
}

/* Geometry is the host's: it is not part of a recording, and what comes later may read it. */
static nc_code issue_views(nc_frame *f, const nc_segment *g) {
    for (int i = g->cap_first; i < g->cap_end; i++)
        if (is_view(f, i) && (f->rebound || !f->program->instrs[i].fixed)) NC_TRY(nc_exec_instr(f, i, false));
    return NC_OK;
}

static nc_code around(nc_frame *f, const nc_segment *g, bool before) {
    for (int i = g->cap_first; i < g->cap_end && !f->still; i++) {
        const nc_instr *x = &f->program->instrs[i];
        NC_TRY(before ? nc_exec_waits(f, x) : nc_exec_record(f, x));
    }
    return NC_OK;
}

static void forget(nc_frame *f, nc_captured *k) {
    nc_device *d = f->program->device;
    if (k->capture) d->table->capture_destroy(d, k->capture);
    nc_free(k->baked);
    *k = (nc_captured){0};
}

void nc_exec_forget(nc_frame *f) {
    for (int i = 0; f->captures && i < f->program->n_segs; i++)
        for (int k = 0; k < NC_CAPTURES; k++) forget(f, &f->captures[i].row[k]);
}

/* Issues instruction i in a capture, as a piece of it. */
static nc_code issue_piece(nc_frame *f, const nc_segment *g, int i) {
    nc_device *d = f->program->device;
    NC_TRY(nc_exec_instr(f, i, false));
    return d->table->capture_mark ? d->table->capture_mark(d, stream_of(f, g), &f->work.diag) : NC_OK;
}

static nc_code record(nc_frame *f, const nc_segment *g, nc_captured *k) {
    nc_device *d = f->program->device;
    nc_stream *s = stream_of(f, g);
    nc_capture *made = NULL;
    if (!k->baked)
        NC_NEED(&f->work, k->baked = nc_alloc_zero((size_t)(g->cap_end - g->cap_first), sizeof *k->baked));
    NC_TRY(d->table->capture_begin(d, s, &f->work.diag));
    nc_code code = NC_OK;
    for (int i = g->cap_first; i < g->cap_end && code == NC_OK; i++) code = issue_piece(f, g, i);
    nc_code ended = d->table->capture_end(d, s, &made, &f->work.diag);
    if (code == NC_OK) code = ended;
    if (code != NC_OK) {
        if (made) d->table->capture_destroy(d, made);
        return code;
    }
    for (int i = g->cap_first; i < g->cap_end; i++) k->baked[i - g->cap_first] = instr_key(f, i);
    k->capture = made;
    f->session->stats.captures++;
    return NC_OK;
}

/* ---- changing ---- */

/* Captures the instructions that differ, in place of what the recording had. False: it cannot be used any more. */
static bool change(nc_frame *f, const nc_segment *g, nc_captured *k) {
    nc_device *d = f->program->device;
    nc_stream *s = stream_of(f, g);
    int *pieces = nc_alloc_zero((size_t)(g->cap_end - g->cap_first), sizeof *pieces), n = 0;
    if (!pieces) return false;
    for (int i = g->cap_first; i < g->cap_end; i++) {
        uint64_t key = instr_key(f, i);
        if (key == k->baked[i - g->cap_first] || is_view(f, i)) continue;
        k->baked[i - g->cap_first] = key;
        pieces[n++] = i - g->cap_first;
    }
    bool fits = n == 0;
    if (n > 0 && d->table->capture_begin(d, s, &f->work.diag) == NC_OK) {
        nc_code code = NC_OK;
        for (int i = 0; i < n && code == NC_OK; i++) code = issue_piece(f, g, g->cap_first + pieces[i]);
        fits = d->table->capture_patch(d, s, k->capture, pieces, n) && code == NC_OK;
    }
    nc_free(pieces);
    return fits;
}

static bool is_past(const nc_captures *c, uint64_t key) {
    for (int i = 0; i < NC_CAPTURES; i++)
        if (c->past[i] == key) return true;
    return false;
}

/* A recording of the same memory that serves this key from now on; NULL: none. */
static nc_captured *adapt(nc_frame *f, int seg, uint64_t key, uint64_t memory) {
    nc_captures *c = &f->captures[seg];
    const nc_segment *g = &f->program->segs[seg];
    nc_captured *found = NULL;
    if (!f->program->device->table->capture_patch || c->n_misfits >= MISFITS_MAX || is_past(c, key)) return NULL;
    for (int i = 0; i < NC_CAPTURES; i++) {
        nc_captured *k = &c->row[i];
        if (k->runs && k->memory == memory && (!found || k->used_at > found->used_at)) found = k;
    }
    if (!found) return NULL;
    uint64_t used_at = found->used_at;
    c->past[c->n_past++ % NC_CAPTURES] = found->key;
    bool fits = found->capture ? change(f, g, found) : record(f, g, found) == NC_OK;
    if (!fits) { /* by instruction, then: what is really wrong is told there */
        f->work.diag = (nc_diag){0};
        c->n_misfits++;
        forget(f, found);
        found->memory = memory, found->used_at = used_at;
    }
    found->key = key;
    return found;
}

/* The recording for this key, or the one that was not used for longest, to be made anew. */
static nc_captured *recording(nc_frame *f, int seg, uint64_t key, uint64_t memory) {
    nc_captured *row = f->captures[seg].row, *oldest = &row[0];
    for (int i = 0; i < NC_CAPTURES; i++) {
        if (row[i].used_at && row[i].key == key) return &row[i];
        if (row[i].used_at < oldest->used_at) oldest = &row[i];
    }
    forget(f, oldest);
    oldest->key = key, oldest->memory = memory;
    return oldest;
}

static bool is_recorded(const nc_captures *c, uint64_t key) {
    for (int i = 0; i < NC_CAPTURES; i++)
        if (c->row[i].used_at && c->row[i].key == key) return true;
    return false;
}

static bool updates_state(const nc_frame *f, const nc_segment *g) {
    for (int i = g->cap_first; i < g->cap_end; i++)
        if (f->program->instrs[i].writes_state) return true;
    return false;
}

static nc_code replay(nc_frame *f, const nc_segment *g, nc_captured *k) {
    nc_device *d = f->program->device;
    if (!k->capture) NC_TRY(record(f, g, k));
    if (updates_state(f, g)) f->updated = true;
    NC_TRY(d->table->capture_replay(d, stream_of(f, g), k->capture, &f->work.diag));
    f->session->stats.replays++;
    return NC_OK;
}

nc_code nc_exec_range(nc_frame *f, int seg) {
    const nc_segment *g = &f->program->segs[seg];
    NC_TRY(around(f, g, true));
    if (!f->session->capture || !f->program->device->table->capture_begin) {
        NC_TRY(issue(f, g));
        return around(f, g, false);
    }
    NC_TRY(issue_views(f, g));
    uint64_t memory = memory_key(f, seg), key = range_key(f, seg, memory);
    nc_captured *k = NULL;
    if (!is_recorded(&f->captures[seg], key)) k = adapt(f, seg, key, memory);
    if (!k) k = recording(f, seg, key, memory);
    k->used_at = ++f->clock;
    NC_TRY(k->runs ? replay(f, g, k) : issue(f, g));
    k->runs++;
    return around(f, g, false);
}
