/* run/resident.c: inputs and outputs in the memory of the session's device, and runs on a stream of the caller's.
 *
 * Slots of the boundary are the host's, and Copy instructions stand between them and what the device computes. Where
 * the caller's tensor lies in the device's memory, the slot on the other side of the copy is that tensor (place_edge in
 * bind.c), and the copy does nothing. Where something else touches the bytes too, the caller must bring them to the
 * host. */
#include "run/frame.h"

bool nc_frame_reads_on_device(const nc_frame *f, int i, const nc_object *o) {
    const nc_program *p = f->program;
    return p->slots[p->inputs[i]].on_device_ok && nc_device_same_memory(o->buffer->device, p->device);
}

bool nc_frame_writes_on_device(const nc_frame *f, int i) {
    const nc_program *p = f->program;
    return p->slots[p->outputs[i]].storage == NC_S_OUTPUT && p->slots[p->outputs[i]].on_device_ok;
}

void nc_frame_output_on_device(nc_frame *f, int i) { f->slots[f->program->outputs[i]].on_device = true; }

/* ---- the caller's stream ---- */

static nc_code make_events(nc_frame *f) {
    nc_device *d = f->program->device;
    for (int i = 0; i < 2; i++)
        if (!f->border[i]) NC_TRY(d->table->event_create(d, &f->border[i], &f->work.diag));
    return NC_OK;
}

nc_code nc_frame_use_stream(nc_frame *f, nc_stream *borrows) {
    const nc_program *p = f->program;
    int compute = nc_program_stream(p, NC_STREAM_COMPUTE, 1);
    if (p->n_places == 1) return NC_OK;
    NC_TRY(make_events(f));
    f->own = f->streams[compute], f->streams[compute] = borrows, f->lent = true;
    return NC_OK;
}

nc_code nc_frame_follow_stream(nc_frame *f) {
    const nc_program *p = f->program;
    int compute = nc_program_stream(p, NC_STREAM_COMPUTE, 1);
    nc_device *d = p->device;
    NC_TRY(d->table->event_record(d, f->border[0], f->streams[compute], &f->work.diag));
    for (int s = 1; s < p->n_streams; s++)
        if (s != compute) NC_TRY(d->table->event_wait(d, f->border[0], f->streams[s], &f->work.diag));
    return NC_OK;
}

nc_code nc_frame_finish_stream(nc_frame *f) {
    const nc_program *p = f->program;
    int compute = nc_program_stream(p, NC_STREAM_COMPUTE, 1);
    nc_device *d = p->device;
    for (int s = 1; s < p->n_streams && !f->still; s++) {
        if (s == compute) continue;
        NC_TRY(d->table->event_record(d, f->border[0], f->streams[s], &f->work.diag));
        NC_TRY(d->table->event_wait(d, f->border[0], f->streams[compute], &f->work.diag));
    }
    NC_TRY(d->table->event_record(d, f->border[1], f->streams[compute], &f->work.diag));
    f->pending = true;
    return NC_OK;
}

void nc_frame_return_stream(nc_frame *f) {
    if (!f->lent) return;
    f->streams[nc_program_stream(f->program, NC_STREAM_COMPUTE, 1)] = f->own;
    f->own = NULL, f->lent = false;
}

bool nc_frame_is_done(nc_frame *f) {
    nc_device *d = f->program->device;
    return !f->pending || d->table->event_done(d, f->border[1]);
}

void nc_frame_await(nc_frame *f) {
    nc_device *d = f->program->device;
    nc_diag ignored = {.code = NC_OK}; /* the caller's own wait reports what failed on its stream */
    if (f->pending && d->table->event_sync(d, f->border[1], &ignored) != NC_OK) ignored.code = NC_OK;
    f->pending = false;
}
