/* run/replay.c: the device part of a segment as one recorded piece. The first run with given sizes, memory and state
 * goes instruction by instruction (kernels compile, weights are packed); the second is recorded and replayed; later
 * ones only replayed. A few recordings are kept, so that states may take turns. */
#include "run/frame.h"

/* What the recorded work has baked in: sizes, what belongs to its stream, addresses of memory, addresses and strides of
 * variables. */
static uint64_t range_key(const nc_frame *f, int seg) {
    const nc_program *p = f->program;
    uint64_t stream = p->device->table->stream_id(f->streams[p->instrs[p->segs[seg].cap_first].stream]);
    uint64_t h = nc_hash(f->sym, (size_t)p->n_syms * sizeof *f->sym, 1);
    h = nc_hash(&stream, sizeof stream, h);
    h = nc_hash(f->known, (size_t)p->n_syms * sizeof *f->known, h);
    h = nc_hash(f->chunks, (size_t)((seg + 1) * p->n_places) * sizeof *f->chunks, h);
    for (int i = 0; i < p->n_edges; i++) h = nc_hash(&f->slots[p->edges[i]].t.data, sizeof(void *), h);
    for (int i = 0; f->state && i < p->n_vars; i++) {
        const nc_state_var *v = f->vars[i];
        const void *at = v->buffer ? v->buffer->ptr : NULL;
        h = nc_hash(&at, sizeof at, h);
        h = nc_hash(&v->cap, sizeof v->cap, h);
        h = nc_hash(v->dims, (size_t)v->rank * sizeof *v->dims, h);
    }
    return h;
}

/* The recording for this key, or the one that was not used for longest, to be made anew. */
static nc_captured *recording(nc_frame *f, int seg, uint64_t key) {
    nc_captured *row = f->captured[seg], *found = &row[0];
    for (int i = 0; i < NC_CAPTURES; i++) {
        if (row[i].used_at && row[i].key == key) {
            found = &row[i];
            break;
        }
        if (row[i].used_at < found->used_at) found = &row[i];
    }
    if (!found->used_at || found->key != key) found->key = key, found->runs = 0;
    found->used_at = ++f->clock;
    return found;
}

static nc_code issue(nc_frame *f, const nc_segment *g) {
    for (int i = g->cap_first; i < g->cap_end; i++) NC_TRY(nc_exec_instr(f, i, false));
    return NC_OK;
}

static nc_code around(nc_frame *f, const nc_segment *g, bool before) {
    for (int i = g->cap_first; i < g->cap_end; i++) {
        const nc_instr *x = &f->program->instrs[i];
        NC_TRY(before ? nc_exec_waits(f, x) : nc_exec_record(f, x));
    }
    return NC_OK;
}

static nc_code record(nc_frame *f, const nc_segment *g, nc_captured *k) {
    nc_device *d = f->program->device;
    nc_stream *s = f->streams[f->program->instrs[g->cap_first].stream];
    if (k->capture) d->table->capture_destroy(d, k->capture);
    k->capture = NULL;
    NC_TRY(d->table->capture_begin(d, s, &f->work.diag));
    nc_code code = issue(f, g);
    nc_capture *made = NULL;
    nc_code ended = d->table->capture_end(d, s, &made, &f->work.diag);
    if (code == NC_OK) code = ended;
    if (code != NC_OK) {
        if (made) d->table->capture_destroy(d, made);
        return code;
    }
    k->capture = made;
    f->session->stats.captures++;
    return NC_OK;
}

static bool updates_state(const nc_frame *f, const nc_segment *g) {
    for (int i = g->cap_first; i < g->cap_end; i++)
        if (f->program->instrs[i].writes_state) return true;
    return false;
}

nc_code nc_exec_range(nc_frame *f, int seg) {
    const nc_segment *g = &f->program->segs[seg];
    nc_device *d = f->program->device;
    NC_TRY(around(f, g, true));
    if (!f->session->capture || !d->table->capture_begin) {
        NC_TRY(issue(f, g));
        return around(f, g, false);
    }
    nc_captured *k = recording(f, seg, range_key(f, seg));
    if (k->runs == 0) {
        NC_TRY(issue(f, g));
    } else {
        if (k->runs == 1) NC_TRY(record(f, g, k));
        if (updates_state(f, g)) f->updated = true;
        NC_TRY(d->table->capture_replay(d, f->streams[f->program->instrs[g->cap_first].stream], k->capture,
                                        &f->work.diag));
        f->session->stats.replays++;
    }
    k->runs++;
    return around(f, g, false);
}
