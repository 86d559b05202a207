/* api/state.c: states: named buffers that sessions keep their variables in, the caller's or their own. */
#include "api/api.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* The state, or the session's own where st is NULL. */
static nc_code state_of(nc_work *w, nacre_session *s, nacre_state *st, nc_state **out) {
    if (st) {
        *out = st->state;
        return NC_OK;
    }
    if (!s) NC_FAIL(w, NC_E_ARGUMENT, "expected a session or a state, got neither");
    return nc_session_state(w, s->s, out);
}

/* ---- life ---- */

nacre_code nacre_state_create(nacre_session *s, nacre_state **out, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    nacre_state *p = nc_alloc_zero(1, sizeof *p);
    nc_code code = p ? nc_session_make_state(&w, s->s, &p->state) : nc_fail(&w, NC_E_MEMORY, "out of memory");
    if (code == NC_OK)
        *out = p;
    else
        nc_free(p);
    return nc_api_end(&w, code, err);
}

nacre_code nacre_state_create_empty(nacre_env *env, const char *device, nacre_state **out, nacre_error *err) {
    nc_work w;
    nc_device *d;
    nc_work_init(&w);
    nacre_state *p = nc_alloc_zero(1, sizeof *p);
    nc_code code =
        p ? nc_env_device(env->env, &w, device ? device : "cpu", &d) : nc_fail(&w, NC_E_MEMORY, "out of memory");
    if (code == NC_OK) code = nc_state_create(&w, env->env, d, NULL, &p->state);
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

nacre_code nacre_session_state(nacre_session *s, nacre_state **out, nacre_error *err) {
    nc_work w;
    nc_state *own = NULL;
    nc_work_init(&w);
    nacre_state *p = nc_alloc_zero(1, sizeof *p);
    nc_code code = p ? nc_session_state(&w, s->s, &own) : nc_fail(&w, NC_E_MEMORY, "out of memory");
    if (code == NC_OK)
        p->state = nc_state_ref(own), *out = p;
    else
        nc_free(p);
    return nc_api_end(&w, code, err);
}

/* ---- adding ---- */

nacre_code nacre_state_add_session(nacre_state *st, nacre_session *s, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    nc_code code = nc_state_add_program(&w, st->state, s->s->program, s->s->seed);
    return nc_api_end(&w, code, err);
}

nacre_code nacre_state_add(nacre_state *st, const char *name, nacre_type type, int rank, const int64_t *dims,
                           const void *data, nacre_error *err) {
    nc_tensor t = {.dtype = (nc_dtype)type, .rank = rank};
    size_t bytes;
    nacre_code shape = nc_api_check_shape(type, rank, dims, &bytes, err);
    if (shape != NACRE_OK) return shape;
    if (type == NACRE_STRING) return nc_api_fail(err, NC_E_TYPE, "'%s': a variable cannot hold strings", name);
    nc_work w;
    nc_work_init(&w);
    if (rank) memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
    nc_code code = nc_state_add(&w, st->state, name, &t, data);
    return nc_api_end(&w, code, err);
}

nacre_code nacre_state_lend(nacre_state *st, const char *name, nacre_value *keeps, nacre_access access,
                            nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    nc_code code = nc_state_lend(&w, st->state, name, nc_api_object(keeps), access == NACRE_WRITABLE);
    return nc_api_end(&w, code, err);
}

/* ---- what it holds ---- */

size_t nacre_state_n(nacre_state *st) { return (size_t)nc_state_n(st->state); }

const char *nacre_state_name(nacre_state *st, size_t i) {
    const nc_state_var *v = i < (size_t)INT32_MAX ? nc_state_at(st->state, (int)i) : NULL;
    return v ? v->name : NULL;
}

nacre_code nacre_state_variable(nacre_state *st, size_t i, nacre_variable *out, nacre_error *err) {
    const nc_state_var *v = i < (size_t)INT32_MAX ? nc_state_at(st->state, (int)i) : NULL;
    if (!v)
        return nc_api_fail(err, NC_E_ARGUMENT, "the state has %d variables, none with index %zu", nc_state_n(st->state),
                           i);
    nacre_variable row = {.name = v->name};
    nc_state_look(st->state);
    row.type = (nacre_type)v->dtype, row.rank = (size_t)v->rank <= sizeof row.dims / sizeof *row.dims ? v->rank : -1;
    if (row.rank > 0) memcpy(row.dims, v->dims, (size_t)row.rank * sizeof *row.dims);
    row.device = v->device->table->name, row.device_number = v->device->number;
    row.grow_axis = v->grow_axis, row.capacity = v->grow_axis >= 0 ? v->cap : 0;
    row.is_set = v->set, row.is_dirty = v->dirty, row.is_lent = v->lent, row.is_read_only = v->read_only;
    nc_state_end(st->state, false);
    *out = row;
    return NACRE_OK;
}

int nacre_state_dims(nacre_state *st, size_t i, int64_t *dims, int room) {
    const nc_state_var *v = i < (size_t)INT32_MAX ? nc_state_at(st->state, (int)i) : NULL;
    if (!v) return -1;
    nc_state_look(st->state);
    int rank = v->rank;
    for (int d = 0; d < rank && d < room; d++) dims[d] = v->dims[d];
    nc_state_end(st->state, false);
    return rank;
}

/* ---- contents ---- */

typedef nc_code (*reader)(nc_work *w, nc_state *s, const char *name, nc_object **out);

static nacre_code read(nacre_session *s, nacre_state *st, const char *variable, reader how, nacre_value **out,
                       nacre_error *err) {
    nc_work w;
    nc_state *t;
    nc_object *o = NULL;
    nc_work_init(&w);
    nc_code code = state_of(&w, s, st, &t);
    if (code == NC_OK) code = how(&w, t, variable, &o);
    if (code == NC_OK) *out = nc_api_value(o);
    return nc_api_end(&w, code, err);
}

nacre_code nacre_state_get(nacre_session *s, nacre_state *st, const char *variable, nacre_value **out,
                           nacre_error *err) {
    return read(s, st, variable, nc_state_read, out, err);
}

nacre_code nacre_state_share(nacre_session *s, nacre_state *st, const char *variable, nacre_value **out,
                             nacre_error *err) {
    return read(s, st, variable, nc_state_share, out, err);
}

nacre_code nacre_state_set(nacre_session *s, nacre_state *st, const char *variable, const nacre_value *v,
                           nacre_error *err) {
    nc_work w;
    nc_state *t;
    nc_object *own = NULL;
    nc_work_init(&w);
    nc_code code = state_of(&w, s, st, &t);
    if (code == NC_OK) code = nc_api_to_host(&w, nc_api_object(v), &own);
    if (code == NC_OK) code = nc_state_write(&w, t, variable, &own->t);
    nc_object_unref(own);
    return nc_api_end(&w, code, err);
}

nacre_code nacre_state_reset(nacre_session *s, nacre_state *st, nacre_error *err) {
    return nacre_state_reset_variable(s, st, NULL, err);
}

nacre_code nacre_state_reset_variable(nacre_session *s, nacre_state *st, const char *variable, nacre_error *err) {
    nc_work w;
    nc_state *t;
    nc_work_init(&w);
    nc_code code =
        s ? state_of(&w, s, st, &t) : nc_fail(&w, NC_E_ARGUMENT, "expected the session whose variables to reset");
    if (code == NC_OK) code = nc_state_reset(&w, t, s->s->program, s->s->seed, variable);
    return nc_api_end(&w, code, err);
}

int nacre_state_is_dirty(nacre_session *s, nacre_state *st) {
    nc_state *t = st ? st->state : NULL;
    if (!t) { /* a state that was never asked for is not dirty */
        nc_lock_take(&s->s->lock);
        t = s->s->state;
        nc_lock_give(&s->s->lock);
    }
    return t && nc_state_is_dirty(t);
}
