/* api/binding.c: a run's inputs and outputs, bound once by name and used again and again. A run through a binding looks
 * up no names; nacre_run is the same with names that are looked up on the way. */
#include "api/api.h"

#include "base/mem.h"

#include <string.h>

struct nacre_binding {
    nacre_session *session;
    nc_object **in;   /* per input of the session; NULL: not bound */
    nc_wanted *want;  /* in the order they were bound */
    nc_object **into; /* per wanted output: the caller's tensor, held; NULL: a new one in each run */
    nc_object **got;  /* per wanted output: of the last run */
    int n_want, cap;
};

nacre_code nacre_binding_create(nacre_session *s, nacre_binding **out, nacre_error *err) {
    nacre_binding *b = nc_alloc_zero(1, sizeof *b);
    size_t n = (size_t)s->s->program->n_inputs + 1;
    if (b) b->session = s, b->in = nc_alloc_zero(n, sizeof *b->in);
    if (!b || !b->in) {
        nc_free(b);
        return nc_api_error(err, NC_E_MEMORY, NULL);
    }
    *out = b;
    return NACRE_OK;
}

void nacre_binding_clear_inputs(nacre_binding *b) {
    for (int i = 0; i < b->session->s->program->n_inputs; i++) {
        nc_object_unref(b->in[i]);
        b->in[i] = NULL;
    }
}

void nacre_binding_clear_outputs(nacre_binding *b) {
    for (int i = 0; i < b->n_want; i++) {
        nc_object_unref(b->into[i]);
        nc_object_unref(b->got[i]);
        b->into[i] = b->got[i] = NULL;
    }
    b->n_want = 0;
}

void nacre_binding_release(nacre_binding *b) {
    if (!b) return;
    nacre_binding_clear_inputs(b);
    nacre_binding_clear_outputs(b);
    nc_free((void *)b->in);
    nc_free(b->want);
    nc_free((void *)b->into);
    nc_free((void *)b->got);
    nc_free(b);
}

static nacre_code unknown(const nacre_binding *b, bool input, const char *name, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    return nc_api_end(&w, nc_api_unknown_name(&w, b->session->s->program, input, name), err);
}

nacre_code nacre_binding_input(nacre_binding *b, const char *name, nacre_value *v, nacre_error *err) {
    int i = nc_api_find(b->session->s->program, true, name, 0);
    if (i < 0) return unknown(b, true, name, err);
    nc_object *old = b->in[i];
    b->in[i] = v ? nc_object_ref(nc_api_object(v)) : NULL;
    nc_object_unref(old);
    return NACRE_OK;
}

static bool grow(nacre_binding *b) {
    if (b->n_want < b->cap) return true;
    size_t cap = b->cap ? 2 * (size_t)b->cap : 4;
    nc_wanted *want = nc_realloc(b->want, cap * sizeof *want);
    if (want) b->want = want;
    nc_object **into = nc_realloc((void *)b->into, cap * sizeof *into);
    if (into) b->into = into;
    nc_object **got = nc_realloc((void *)b->got, cap * sizeof *got);
    if (got) b->got = got;
    if (!want || !into || !got) return false;
    b->cap = (int)cap;
    return true;
}

nacre_code nacre_binding_output(nacre_binding *b, const char *name, nacre_value *v, int on_device, nacre_error *err) {
    int k = nc_api_find(b->session->s->program, false, name, b->n_want), i = 0;
    if (k < 0) return unknown(b, false, name, err);
    while (i < b->n_want && b->want[i].output != k) i++;
    if (i == b->n_want) {
        if (!grow(b)) return nc_api_error(err, NC_E_MEMORY, NULL);
        b->into[i] = b->got[i] = NULL;
        b->n_want++;
    }
    nc_object *old = b->into[i];
    b->into[i] = v ? nc_object_ref(nc_api_object(v)) : NULL;
    b->want[i] = (nc_wanted){.output = k, .into = b->into[i], .on_device = on_device != 0};
    nc_object_unref(old);
    return NACRE_OK;
}

static nc_code run(nacre_binding *b, nc_frame *f) {
    for (int i = 0; i < f->program->n_inputs; i++)
        if (b->in[i]) NC_TRY(nc_api_give(f, i, b->in[i]));
    for (int i = 0; i < b->n_want; i++) NC_TRY(nc_api_want(f, &b->want[i]));
    NC_TRY(nc_frame_run(f, f->program->n_instrs, false));
    for (int i = 0; i < b->n_want; i++) {
        nc_object *made = NULL;
        NC_TRY(nc_api_take(f, &b->want[i], &made));
        nc_object_unref(b->got[i]);
        b->got[i] = made;
    }
    return NC_OK;
}

nacre_code nacre_binding_run(nacre_binding *b, nacre_run_options *r, nacre_error *err) {
    nc_work w;
    nc_frame *f;
    nc_work_init(&w);
    nc_code code = nc_api_begin(&w, b->session, r, true, &f);
    if (code != NC_OK) return nc_api_end(&w, code, err);
    nc_work_release(&w);
    return nc_api_finish(b->session, f, run(b, f), err);
}

size_t nacre_binding_n_outputs(const nacre_binding *b) { return (size_t)b->n_want; }

const char *nacre_binding_output_name(const nacre_binding *b, size_t i) {
    return i < (size_t)b->n_want ? b->session->s->program->graph->output_names.v[b->want[i].output] : NULL;
}

nacre_value *nacre_binding_result(const nacre_binding *b, size_t i) {
    return i < (size_t)b->n_want && b->got[i] ? nc_api_value(nc_object_ref(b->got[i])) : NULL;
}
