/* api/run.c: runs and frames. */
#include "api/api.h"

#include "base/log.h"
#include "base/mem.h"
#include "ir/assume.h"

#include <stdio.h>
#include <string.h>

nacre_code nacre_run_options_create(nacre_run_options **out, nacre_error *err) {
    nacre_run_options *r = nc_alloc_zero(1, sizeof *r);
    if (!r) return nc_api_error(err, NC_E_MEMORY, NULL);
    *out = r;
    return NACRE_OK;
}

void nacre_run_options_release(nacre_run_options *r) {
    if (!r) return;
    for (size_t i = 0; i < r->n_kept; i++) nc_free((void *)(uintptr_t)r->kept[i]);
    nc_free((void *)r->kept);
    nc_free((void *)(uintptr_t)r->log.id);
    nc_free(r);
}

nacre_code nacre_run_options_log(nacre_run_options *r, const char *level, const char *id, nacre_error *err) {
    nc_log_scope log = {.has_level = false};
    if (level) {
        nacre_code code = nc_api_log_level(err, level, &log);
        if (code != NACRE_OK) return code;
    }
    if (id) {
        char *copy = nc_alloc(strlen(id) + 1);
        if (!copy) return nc_api_error(err, NC_E_MEMORY, NULL);
        log.id = memcpy(copy, id, strlen(id) + 1);
    }
    nc_free((void *)(uintptr_t)r->log.id);
    r->log = log;
    return NACRE_OK;
}

void nacre_run_options_follow(nacre_run_options *r, const nacre_run_options *borrows) { r->leader = borrows; }

static bool keeps(const nacre_run_options *r, const char *output) {
    for (size_t i = 0; r && i < r->n_kept; i++)
        if (strcmp(r->kept[i], output) == 0) return true;
    return false;
}

nacre_code nacre_run_options_keep(nacre_run_options *r, const char *output, nacre_error *err) {
    if (keeps(r, output)) return NACRE_OK;
    size_t bytes = strlen(output) + 1;
    const char **more = nc_realloc((void *)r->kept, (r->n_kept + 1) * sizeof *more);
    if (more) r->kept = more;
    char *name = more ? nc_alloc(bytes) : NULL;
    if (!name) return nc_api_error(err, NC_E_MEMORY, NULL);
    memcpy(name, output, bytes);
    r->kept[r->n_kept++] = name;
    return NACRE_OK;
}

void nacre_run_options_state(nacre_run_options *r, nacre_state *borrows) { r->state = borrows; }
void nacre_run_options_stream(nacre_run_options *r, nacre_stream *borrows) { r->stream = borrows; }
void nacre_run_options_cancel(nacre_run_options *r, int cancelled) { atomic_store(&r->cancel, cancelled); }

/* ---- names ---- */

static const char *name_of(const nc_program *p, bool input, int i) {
    return input ? p->slots[p->inputs[i]].value->name : p->graph->output_names.v[i];
}

int nc_api_find(const nc_program *p, bool input, const char *name, int guess) {
    int n = input ? p->n_inputs : p->n_outputs;
    for (int k = 0; k < n; k++) {
        int i = (guess + k) % n;
        if (strcmp(name_of(p, input, i), name) == 0) return i;
    }
    return -1;
}

nc_code nc_api_unknown_name(nc_work *w, const nc_program *p, bool input, const char *name) {
    char list[320] = "";
    int n = input ? p->n_inputs : p->n_outputs;
    for (int i = 0; i < n; i++) {
        size_t at = strlen(list);
        const char *s = name_of(p, input, i);
        if (at + strlen(s) + 3 < sizeof list) snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", s);
    }
    return nc_fail(w, NC_E_ARGUMENT, "the model has no %s '%s'; it has: %s", input ? "input" : "output", name, list);
}

/* ---- frames ---- */

static nc_code use_state(nc_frame *f, const nacre_run_options *r, bool wait) {
    nc_state *st = r && r->state ? r->state->state : NULL;
    if (!f->program->n_vars) return NC_OK;
    if (!st) NC_TRY(nc_session_state(&f->work, f->session, &st));
    return nc_frame_use_state(f, st, wait);
}

nc_code nc_api_begin(nc_work *w, nacre_session *s, nacre_run_options *r, bool wait, nc_frame **out) {
    NC_TRY(nc_frame_acquire(w, s->s, s->s->prepared, NULL, out));
    nc_frame *f = *out;
    f->cancel = !r ? NULL : r->leader ? &r->leader->cancel : &r->cancel;
    f->log = s->s->log;
    if (r && r->log.has_level) f->log.has_level = true, f->log.level = r->log.level;
    if (r && r->log.id) f->log.id = r->log.id;
    nc_code code = NC_OK;
    if (r && r->stream) {
        if (nc_device_same_memory(r->stream->device, f->program->device))
            code = nc_frame_use_stream(f, r->stream->stream);
        else
            code = nc_fail(&f->work, NC_E_ARGUMENT, "the stream given is of device %s, the session is on %s",
                           r->stream->device->table->name, f->program->device->table->name);
    }
    if (code == NC_OK) code = use_state(f, r, wait);
    if (code == NC_OK) return NC_OK;
    w->diag = f->work.diag;
    nc_frame_release(f);
    return code;
}

nc_code nc_api_give(nc_frame *f, int i, nc_object *o) {
    const char *name = name_of(f->program, true, i);
    nc_object *own;
    if (!o) return nc_fail(&f->work, NC_E_ARGUMENT, "input '%s' is NULL", name);
    if (nc_object_on_device(o) && !nc_frame_reads_on_device(f, i, o))
        NC_TRY(nc_api_to_host(&f->work, o, &own));
    else if (o->kind == NC_OBJ_TENSOR && !nc_is_dense(&o->t) && !f->program->slots[f->program->inputs[i]].takes_strides)
        NC_TRY(nc_api_dense(&f->work, o, &own));
    else
        own = nc_object_ref(o);
    return nc_frame_bind_input(f, i, own->kind == NC_OBJ_TENSOR ? &own->t : NULL, own);
}

static nc_code give(nc_frame *f, const char *name, int guess, nacre_value *v) {
    int i = nc_api_find(f->program, true, name, guess);
    if (i < 0) return nc_api_unknown_name(&f->work, f->program, true, name);
    return nc_api_give(f, i, nc_api_object(v));
}

nacre_code nacre_frame_create(nacre_session *s, nacre_run_options *r, nacre_frame **out, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    nacre_frame *p = nc_alloc_zero(1, sizeof *p);
    nc_code code = p ? nc_api_begin(&w, s, r, false, &p->f) : nc_fail(&w, NC_E_MEMORY, "out of memory");
    if (code != NC_OK) {
        nc_free(p);
    } else {
        p->session = s;
        *out = p;
    }
    return nc_api_end(&w, code, err);
}

static nacre_code answer(nc_frame *f, nc_code code, nacre_error *err) {
    if (code != NC_OK) nc_api_error(err, code, &f->work.diag);
    if (!f->failed) f->work.diag = (nc_diag){.code = NC_OK};
    return (nacre_code)code;
}

nacre_code nacre_frame_input(nacre_frame *f, const char *name, nacre_value *v, nacre_error *err) {
    return answer(f->f, give(f->f, name, 0, v), err);
}

static nc_code find_stop(nc_frame *f, const char *cut, int *stop) {
    *stop = f->program->n_instrs;
    if (!cut) return NC_OK;
    for (int i = 0; i < f->program->n_cuts; i++) {
        if (strcmp(f->program->cuts[i].name, cut) != 0) continue;
        *stop = f->program->cuts[i].instr;
        return NC_OK;
    }
    return nc_fail(&f->work, NC_E_ARGUMENT, "the session has no cut '%s'", cut);
}

nacre_code nacre_frame_run(nacre_frame *f, const char *cut, nacre_error *err) {
    int stop;
    nc_code code = find_stop(f->f, cut, &stop);
    if (code == NC_OK) code = nc_frame_run(f->f, stop, cut != NULL);
    return answer(f->f, code, err);
}

/* Output i, NULL if it is not made yet. A rank that the model declares and this run contradicts is told, as in
 * onnxruntime. */
static nc_code output_of(nc_frame *f, int i, nc_object **out) {
    nc_object *o = *out = nc_frame_output(f, i);
    const nc_value *v = f->program->slots[f->program->outputs[i]].value;
    const nc_type *declared = v ? v->declared : NULL;
    if (!o || !declared || declared->kind != NC_T_TENSOR || o->kind != NC_OBJ_TENSOR || declared->rank == o->t.rank)
        return NC_OK;
    if (nc_assumes_not(v->graph->model, NC_ASSUME_RANK))
        NC_FAIL(&f->work, NC_E_SHAPE, "output '%s': the model declares rank %d, this run gave rank %d", v->name,
                declared->rank, o->t.rank);
    nc_log(NC_LOG_WARNING, "output '%s': the model declares rank %d, this run gave rank %d", v->name, declared->rank,
           o->t.rank);
    return NC_OK;
}

static nc_code take(nc_frame *f, const char *name, nacre_value **out) {
    int i = nc_api_find(f->program, false, name, 0);
    if (i < 0) return nc_api_unknown_name(&f->work, f->program, false, name);
    nc_object *o;
    NC_TRY(output_of(f, i, &o));
    if (!o) return nc_fail(&f->work, NC_E_ARGUMENT, "output '%s' is not made yet: run the frame further", name);
    *out = nc_api_value(nc_object_ref(o));
    return NC_OK;
}

nacre_code nacre_frame_output(nacre_frame *f, const char *name, nacre_value **out, nacre_error *err) {
    return answer(f->f, take(f->f, name, out), err);
}

void nacre_frame_release(nacre_frame *f) {
    if (!f) return;
    nc_frame_release(f->f);
    nc_free(f);
}

/* ---- runs ---- */

/* Is the tensor given for output k one that the frame itself can write? */
static bool writes(const nc_frame *f, int k, const nc_object *o) {
    if (!nc_object_on_device(o)) return true;
    return nc_device_same_memory(o->buffer->device, f->program->device) && nc_frame_writes_on_device(f, k);
}

nc_code nc_api_want(nc_frame *f, const nc_wanted *w) {
    if (w->into && writes(f, w->output, w->into)) return nc_frame_bind_output(f, w->output, nc_object_ref(w->into));
    if (!w->into && w->on_device && nc_frame_writes_on_device(f, w->output)) nc_frame_output_on_device(f, w->output);
    return NC_OK;
}

/* An output that the host wrote and the caller wants on the device. */
static nc_code send(nc_frame *f, nc_object *o, nc_object **out) {
    if (o->kind == NC_OBJ_TENSOR && o->t.dtype != NC_STRING && !nc_object_on_device(o))
        return nc_api_to_device(&f->work, f->session->env, f->program->device, o, out);
    *out = nc_object_ref(o);
    return NC_OK;
}

nc_code nc_api_take(nc_frame *f, const nc_wanted *w, nc_object **out) {
    nc_object *o;
    NC_TRY(output_of(f, w->output, &o));
    if (w->into) {
        if (!writes(f, w->output, w->into)) NC_TRY(nc_api_copy(&f->work, w->into, o));
        *out = nc_object_ref(w->into);
        return NC_OK;
    }
    if (w->on_device && f->program->n_places > 1) return send(f, o, out);
    *out = nc_object_ref(o);
    return NC_OK;
}

static nc_code find_wanted(nc_frame *f, const nacre_run_options *r, const char *const *names, nacre_value **out,
                           size_t n, nc_wanted *w) {
    for (size_t i = 0; i < n; i++) {
        w[i] = (nc_wanted){.output = nc_api_find(f->program, false, names[i], (int)i)};
        if (w[i].output < 0) return nc_api_unknown_name(&f->work, f->program, false, names[i]);
        w[i].into = out[i] ? nc_api_object(out[i]) : NULL;
        w[i].on_device = keeps(r, names[i]);
        NC_TRY(nc_api_want(f, &w[i]));
    }
    return NC_OK;
}

static nc_code take_wanted(nc_frame *f, const nc_wanted *w, size_t n, nacre_value **out) {
    nc_object **got = nc_arena_array(&f->work.scratch, n + 1, sizeof *got);
    NC_NEED(&f->work, got);
    nc_code code = NC_OK;
    for (size_t i = 0; i < n && code == NC_OK; i++) code = nc_api_take(f, &w[i], &got[i]);
    for (size_t i = 0; i < n; i++) {
        if (code == NC_OK && !w[i].into)
            out[i] = nc_api_value(got[i]);
        else if (got[i])
            nc_object_unref(got[i]);
    }
    return code;
}

static nc_code run_whole(nc_frame *f, const nacre_run_options *r, const char *const *in_names, nacre_value *const *in,
                         size_t n_in, const char *const *out_names, nacre_value **out, size_t n_out) {
    nc_wanted *w = nc_arena_array(&f->work.scratch, n_out + 1, sizeof *w);
    NC_NEED(&f->work, w);
    for (size_t i = 0; i < n_in; i++) NC_TRY(give(f, in_names[i], (int)i, in[i]));
    NC_TRY(find_wanted(f, r, out_names, out, n_out, w));
    NC_TRY(nc_frame_run(f, f->program->n_instrs, false));
    return take_wanted(f, w, n_out, out);
}

nacre_code nc_api_finish(nacre_session *s, nc_frame *f, nc_code code, nacre_error *err) {
    if (code != NC_OK) nc_api_error(err, code, &f->work.diag);
    if (code == NC_OK) s->s->stats.runs++;
    nc_frame_release(f);
    return (nacre_code)code;
}

nacre_code nacre_run(nacre_session *s, nacre_run_options *r, const char *const *in_names, nacre_value *const *in,
                     size_t n_in, const char *const *out_names, size_t n_out, nacre_value **out, nacre_error *err) {
    nc_work w;
    nc_frame *f;
    nc_work_init(&w);
    nc_code code = nc_api_begin(&w, s, r, true, &f);
    if (code != NC_OK) return nc_api_end(&w, code, err);
    nc_work_release(&w);
    return nc_api_finish(s, f, run_whole(f, r, in_names, in, n_in, out_names, out, n_out), err);
}
