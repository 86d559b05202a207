/* api/run.c: runs, frames and states. */
#include "api/api.h"

#include "base/mem.h"

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
void nacre_run_options_cancel(nacre_run_options *r, int cancelled) { atomic_store(&r->cancel, cancelled); }

/* ---- names ---- */

static int find_input(const nc_program *p, const char *name) {
    for (int i = 0; i < p->n_inputs; i++)
        if (strcmp(p->slots[p->inputs[i]].value->name, name) == 0) return i;
    return -1;
}

static int find_output(const nc_program *p, const char *name) {
    for (int i = 0; i < p->n_outputs; i++)
        if (strcmp(p->graph->output_names.v[i], name) == 0) return i;
    return -1;
}

static nc_code unknown_name(nc_work *w, const nc_program *p, bool input, const char *name) {
    char list[320] = "";
    int n = input ? p->n_inputs : p->n_outputs;
    for (int i = 0; i < n; i++) {
        size_t at = strlen(list);
        const char *s = input ? p->slots[p->inputs[i]].value->name : p->graph->output_names.v[i];
        if (at + strlen(s) + 3 < sizeof list) snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", s);
    }
    return nc_fail(w, NC_E_ARGUMENT, "the model has no %s '%s'; it has: %s", input ? "input" : "output", name, list);
}

/* ---- frames ---- */

static nc_code begin(nc_work *w, nacre_session *s, nacre_run_options *r, bool wait, nc_frame **out) {
    NC_TRY(nc_frame_acquire(w, s->s, s->s->prepared, NULL, out));
    nc_state *st = r && r->state ? r->state->state : s->s->state;
    (*out)->cancel = !r ? NULL : r->leader ? &r->leader->cancel : &r->cancel;
    (*out)->log = s->s->log;
    if (r && r->log.has_level) (*out)->log.has_level = true, (*out)->log.level = r->log.level;
    if (r && r->log.id) (*out)->log.id = r->log.id;
    nc_code code = nc_frame_use_state(*out, st, wait);
    if (code == NC_OK) return NC_OK;
    w->diag = (*out)->work.diag;
    nc_frame_release(*out);
    return code;
}

static nc_code give(nc_frame *f, const char *name, nacre_value *v) {
    int i = find_input(f->program, name);
    if (i < 0) return unknown_name(&f->work, f->program, true, name);
    if (!v) return nc_fail(&f->work, NC_E_ARGUMENT, "input '%s' is NULL", name);
    nc_object *o = nc_api_object(v), *own;
    if (nc_object_on_device(o) && !nc_frame_reads_on_device(f, i, o))
        NC_TRY(nc_api_to_host(&f->work, o, &own));
    else
        own = nc_object_ref(o);
    return nc_frame_bind_input(f, i, own->kind == NC_OBJ_TENSOR ? &own->t : NULL, own);
}

nacre_code nacre_frame_create(nacre_session *s, nacre_run_options *r, nacre_frame **out, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    nacre_frame *p = nc_alloc_zero(1, sizeof *p);
    nc_code code = p ? begin(&w, s, r, false, &p->f) : nc_fail(&w, NC_E_MEMORY, "out of memory");
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
    return answer(f->f, give(f->f, name, v), err);
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

static nc_code take(nc_frame *f, const char *name, nacre_value **out) {
    int i = find_output(f->program, name);
    if (i < 0) return unknown_name(&f->work, f->program, false, name);
    nc_object *o = nc_frame_output(f, i);
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

typedef struct wanted {
    const char *const *names;
    size_t n;
    nacre_value **out;
} wanted;

/* Is the value given for output k one that the frame itself can write? */
static bool writes(const nc_frame *f, int k, const nacre_value *v) {
    const nc_object *o = nc_api_object(v);
    if (!nc_object_on_device(o)) return true;
    return nc_device_same_memory(o->buffer->device, f->program->device) && nc_frame_writes_on_device(f, k);
}

static nc_code bind_outputs(nc_frame *f, const nacre_run_options *r, const wanted *w) {
    for (size_t i = 0; i < w->n; i++) {
        int k = find_output(f->program, w->names[i]);
        if (k < 0) return unknown_name(&f->work, f->program, false, w->names[i]);
        if (w->out[i] && writes(f, k, w->out[i]))
            NC_TRY(nc_frame_bind_output(f, k, nc_object_ref(nc_api_object(w->out[i]))));
        else if (!w->out[i] && keeps(r, w->names[i]) && nc_frame_writes_on_device(f, k))
            nc_frame_output_on_device(f, k);
    }
    return NC_OK;
}

/* An output that the host wrote and the caller wants on the device. */
static nc_code send(nc_frame *f, nacre_value **v) {
    nc_object *o = nc_api_object(*v), *there;
    if (o->kind != NC_OBJ_TENSOR || o->t.dtype == NC_STRING || nc_object_on_device(o)) return NC_OK;
    NC_TRY(nc_api_to_device(&f->work, f->session->env, f->program->device, o, &there));
    nc_object_unref(o);
    *v = nc_api_value(there);
    return NC_OK;
}

static nc_code collect(nc_frame *f, const nacre_run_options *r, const wanted *w, nacre_value **got) {
    for (size_t i = 0; i < w->n; i++) {
        int k = find_output(f->program, w->names[i]);
        if (!w->out[i]) {
            NC_TRY(take(f, w->names[i], &got[i]));
            if (keeps(r, w->names[i]) && !f->program->device->table->host_memory) NC_TRY(send(f, &got[i]));
        } else if (!writes(f, k, w->out[i])) {
            NC_TRY(nc_api_copy(&f->work, nc_api_object(w->out[i]), nc_frame_output(f, k)));
        }
    }
    return NC_OK;
}

static nc_code take_outputs(nc_frame *f, const nacre_run_options *r, const wanted *w) {
    nacre_value **got = nc_arena_array(&f->work.scratch, w->n + 1, sizeof *got);
    NC_NEED(&f->work, got);
    nc_code code = collect(f, r, w, got);
    for (size_t i = 0; i < w->n; i++) {
        if (!got[i]) continue;
        if (code == NC_OK)
            w->out[i] = got[i];
        else
            nacre_value_release(got[i]);
    }
    return code;
}

static nc_code run_whole(nc_frame *f, const nacre_run_options *r, const char *const *in_names, nacre_value *const *in,
                         size_t n_in, const wanted *w) {
    for (size_t i = 0; i < n_in; i++) NC_TRY(give(f, in_names[i], in[i]));
    NC_TRY(bind_outputs(f, r, w));
    NC_TRY(nc_frame_run(f, f->program->n_instrs, false));
    return take_outputs(f, r, w);
}

nacre_code nacre_run(nacre_session *s, nacre_run_options *r, const char *const *in_names, nacre_value *const *in,
                     size_t n_in, const char *const *out_names, size_t n_out, nacre_value **out, nacre_error *err) {
    nc_work w;
    nc_frame *f;
    nc_work_init(&w);
    nc_code code = begin(&w, s, r, true, &f);
    if (code != NC_OK) {
        nc_api_error(err, code, &w.diag);
    } else {
        code = run_whole(f, r, in_names, in, n_in, &(wanted){out_names, n_out, out});
        if (code != NC_OK) nc_api_error(err, code, &f->work.diag);
        if (code == NC_OK) s->s->stats.runs++;
        nc_frame_release(f);
    }
    nc_work_release(&w);
    return (nacre_code)code;
}

/* ---- state ---- */

static nc_state *state_of(nacre_session *s, nacre_state *st) { return st ? st->state : s->s->state; }

nacre_code nacre_state_create(nacre_session *s, nacre_state **out, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    nacre_state *p = nc_alloc_zero(1, sizeof *p);
    nc_code code = p ? nc_state_create(&w, s->s->budget, s->s->program, s->s->seed, &p->state)
                     : nc_fail(&w, NC_E_MEMORY, "out of memory");
    if (code == NC_OK)
        *out = p;
    else
        nc_free(p);
    return nc_api_end(&w, code, err);
}

void nacre_state_release(nacre_state *st) {
    if (!st) return;
    nc_state_unref(st->state);
    nc_free(st);
}

static int find_variable(const nc_program *p, const char *name) {
    for (int i = 0; i < p->n_vars; i++)
        if (strcmp(p->graph->vars.v[i]->name, name) == 0) return i;
    return -1;
}

nacre_code nacre_state_get(nacre_session *s, nacre_state *st, const char *variable, nacre_value **out,
                           nacre_error *err) {
    int i = find_variable(s->s->program, variable);
    if (i < 0) return nc_api_fail(err, NC_E_ARGUMENT, "the session has no variable '%s'", variable);
    nc_work w;
    nc_object *o = NULL;
    nc_work_init(&w);
    nc_code code = nc_state_read(&w, state_of(s, st), i, &o);
    if (code == NC_OK) *out = nc_api_value(o);
    return nc_api_end(&w, code, err);
}

nacre_code nacre_state_set(nacre_session *s, nacre_state *st, const char *variable, const nacre_value *v,
                           nacre_error *err) {
    int i = find_variable(s->s->program, variable);
    if (i < 0) return nc_api_fail(err, NC_E_ARGUMENT, "the session has no variable '%s'", variable);
    nc_work w;
    nc_work_init(&w);
    nc_object *own = NULL;
    nc_code code = nc_api_to_host(&w, nc_api_object(v), &own);
    if (code == NC_OK) code = nc_state_write(&w, state_of(s, st), i, &own->t);
    nc_object_unref(own);
    return nc_api_end(&w, code, err);
}

nacre_code nacre_state_reset(nacre_session *s, nacre_state *st, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    nc_code code = nc_state_reset(&w, state_of(s, st));
    return nc_api_end(&w, code, err);
}

int nacre_state_is_dirty(nacre_session *s, nacre_state *st) {
    nc_state *t = state_of(s, st);
    nc_lock_take(&t->lock);
    int dirty = t->dirty;
    nc_lock_give(&t->lock);
    return dirty;
}
