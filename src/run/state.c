/* run/state.c: the set of named variables: adding, finding, binding a program, who may hold it, contents by name. The
 * memory of one variable is state_var.c. */
#include "run/state.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* ---- life ---- */

static void destroy(nc_state *s) {
    nc_diag ignored = {.code = NC_OK}; /* nobody is left who could be told */
    if (s->pending && s->device->table->event_sync(s->device, s->done, &ignored) != NC_OK) ignored.code = NC_OK;
    if (s->done) s->device->table->event_destroy(s->device, s->done);
    for (int i = 0; i < s->vars.n; i++) nc_buffer_unref(s->vars.v[i]->buffer);
    for (int i = 0; i < s->n_maps; i++) nc_free((void *)s->maps[i].vars);
    nc_lock_release(&s->lock);
    pthread_cond_destroy(&s->free);
    nc_arena_release(&s->arena);
    nc_budget_unref(s->budget);
    nc_env_unref(s->env);
    nc_free(s);
}

/* Its late update, if any, is over. */
static void spoil_if(nc_state *s, nc_state_var *v, bool dirty) {
    if (dirty) s->suspect = true, v->dirty = true;
    v->late = false;
}

/* In a forked child the threads that held it are not there; what a writer had done so far nobody knows. */
static void renew(void *state) {
    nc_state *s = state;
    pthread_cond_init(&s->free, NULL);
    for (int i = 0; i < s->vars.n; i++) spoil_if(s, s->vars.v[i], s->writer || s->vars.v[i]->late);
    s->writer = false, s->readers = 0, s->pending = false;
}

nc_code nc_state_create(nc_work *w, nc_env *keeps, nc_device *d, nc_budget *keeps_budget, nc_state **out) {
    nc_state *s = nc_alloc_zero(1, sizeof *s);
    NC_NEED(w, s);
    atomic_init(&s->refs, 1);
    s->env = nc_env_ref(keeps), s->device = d, s->budget = nc_budget_ref(keeps_budget);
    nc_map_init(&s->names, &s->arena);
    nc_lock_init(&s->lock, NC_LOCK_STATE, renew, s);
    pthread_cond_init(&s->free, NULL);
    *out = s;
    return NC_OK;
}

nc_state *nc_state_ref(nc_state *s) {
    atomic_fetch_add(&s->refs, 1);
    return s;
}

void nc_state_unref(nc_state *s) {
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) destroy(s);
}

/* ---- holding ---- */

/* The lock is held. */
static const nc_state_var *first_dirty(nc_state *s) {
    for (int i = 0; s->suspect && i < s->vars.n; i++)
        if (s->vars.v[i]->dirty) return s->vars.v[i];
    s->suspect = false;
    return NULL;
}

nc_code nc_state_begin(nc_work *w, nc_state *s, bool writes, bool wait) {
    nc_lock_take(&s->lock);
    while (wait && (s->writer || (writes && s->readers))) nc_lock_wait(&s->lock, &s->free);
    bool busy = s->writer || (writes && s->readers);
    const nc_state_var *dirty = busy ? NULL : first_dirty(s);
    if (!busy && !dirty) {
        s->writer = writes;
        s->readers += !writes;
    }
    nc_lock_give(&s->lock);
    if (busy)
        NC_FAIL(w, NC_E_STATE, "the state is in use by another run that %s", writes ? "has not ended" : "writes it");
    if (dirty)
        NC_FAIL(w, NC_E_STATE,
                "the state is dirty: an earlier run failed or was cancelled while it updated '%s'; reset it, or set "
                "every variable that the run updates",
                dirty->name);
    return NC_OK;
}

void nc_state_end(nc_state *s, bool writes) {
    nc_lock_take(&s->lock);
    if (writes)
        s->writer = false;
    else if (s->readers > 0) /* 0: this thread forked while it held it, and this is the child */
        s->readers--;
    pthread_cond_broadcast(&s->free);
    nc_lock_give(&s->lock);
}

void nc_state_look(nc_state *s) {
    nc_lock_take(&s->lock);
    while (s->writer) nc_lock_wait(&s->lock, &s->free);
    s->readers++;
    nc_lock_give(&s->lock);
}

void nc_state_spoil(nc_state *s, const nc_program *p, nc_state_var *const *vars) {
    nc_lock_take(&s->lock);
    s->suspect = true;
    for (int i = 0; i < p->n_vars; i++)
        if (p->vars_last[i] != p->vars[i]) vars[i]->dirty = true;
    nc_lock_give(&s->lock);
}

/* ---- runs that returned before their end ---- */

nc_code nc_state_follow(nc_work *w, nc_state *s, nc_stream *stream) {
    nc_lock_take(&s->lock);
    nc_code code = s->pending ? s->device->table->event_wait(s->device, s->done, stream, &w->diag) : NC_OK;
    nc_lock_give(&s->lock);
    return code;
}

/* The lock is held. A failure of a late run that its caller's own wait was told: nobody else is, so the state is asked
 * to look. */
static bool take_told(nc_state *s) {
    const nc_device_table *t = s->device->table;
    if (!s->pending || !t->event_spoilt || !t->event_spoilt(s->device, s->done)) return false;
    for (int i = 0; i < s->vars.n; i++) spoil_if(s, s->vars.v[i], s->vars.v[i]->late);
    return true;
}

/* The lock is held. A reader may have left while this run was under way: the event stands behind both. */
static nc_code record_end(nc_work *w, nc_state *s, nc_stream *stream) {
    const nc_device_table *t = s->device->table;
    if (!s->done) NC_TRY(t->event_create(s->device, &s->done, &w->diag));
    take_told(s);
    if (s->pending) NC_TRY(t->event_wait(s->device, s->done, stream, &w->diag));
    NC_TRY(t->event_record(s->device, s->done, stream, &w->diag));
    s->pending = true;
    return NC_OK;
}

nc_code nc_state_leave(nc_work *w, nc_state *s, const nc_program *p, nc_state_var *const *vars, nc_stream *stream) {
    nc_lock_take(&s->lock);
    nc_code code = record_end(w, s, stream);
    for (int i = 0; code == NC_OK && i < p->n_vars; i++)
        if (p->vars_last[i] != p->vars[i]) vars[i]->late = true;
    nc_lock_give(&s->lock);
    return code;
}

nc_code nc_state_await(nc_state *s, nc_diag *diag) {
    nc_lock_take(&s->lock);
    nc_code code = s->pending ? s->device->table->event_sync(s->device, s->done, diag) : NC_OK;
    if (take_told(s) && code == NC_OK)
        code = nc_diag_set(diag, NC_E_DATA, NULL, NULL, "a run on the caller's stream failed, as its wait was told");
    for (int i = 0; s->pending && i < s->vars.n; i++) spoil_if(s, s->vars.v[i], code != NC_OK && s->vars.v[i]->late);
    s->pending = false;
    nc_lock_give(&s->lock);
    return code;
}

/* Like begin for writing, but a dirty state is welcome: this is how it is mended. */
static void hold(nc_state *s) {
    nc_lock_take(&s->lock);
    while (s->writer || s->readers) nc_lock_wait(&s->lock, &s->free);
    s->writer = true;
    nc_lock_give(&s->lock);
    nc_diag ignored = {.code = NC_OK}; /* what a late run met makes the state dirty, which is mended now */
    if (nc_state_await(s, &ignored) != NC_OK) ignored.code = NC_OK;
}

/* The end of what `hold` began; a failure may have left a variable half filled. */
static nc_code release(nc_state *s, nc_code code) {
    nc_lock_take(&s->lock);
    if (code != NC_OK) s->suspect = true;
    nc_lock_give(&s->lock);
    nc_state_end(s, true);
    return code;
}

bool nc_state_is_dirty(nc_state *s) {
    nc_lock_take(&s->lock);
    bool dirty = first_dirty(s) != NULL;
    nc_lock_give(&s->lock);
    return dirty;
}

/* ---- finding ---- */

static nc_state_var *find(nc_state *s, const char *name) {
    nc_lock_take(&s->lock);
    nc_state_var *v = nc_map_get(&s->names, name);
    nc_lock_give(&s->lock);
    return v;
}

int nc_state_n(nc_state *s) {
    nc_lock_take(&s->lock);
    int n = s->vars.n;
    nc_lock_give(&s->lock);
    return n;
}

const nc_state_var *nc_state_at(nc_state *s, int i) {
    nc_lock_take(&s->lock);
    const nc_state_var *v = i < s->vars.n ? s->vars.v[i] : NULL;
    nc_lock_give(&s->lock);
    return v;
}

static nc_code need(nc_work *w, nc_state *s, const char *name, nc_state_var **out) {
    *out = find(s, name);
    if (!*out) NC_FAIL(w, NC_E_ARGUMENT, "the state has no variable '%s'", name);
    w->at_node = (*out)->name, w->at_op = "variable";
    return NC_OK;
}

/* ---- adding ---- */

/* The lock is held. Memory that a failure leaves in the arena is the state's. */
static nc_state_var *new_var(nc_state *s, const char *name, nc_dtype dtype, int rank) {
    nc_state_var *v = nc_arena_alloc(&s->arena, sizeof *v);
    const char *copy = nc_arena_str(&s->arena, name);
    if (!v || !copy) return NULL;
    *v = (nc_state_var){.name = copy,
                        .env = s->env,
                        .device = s->device,
                        .budget = s->budget,
                        .dtype = dtype,
                        .rank = rank,
                        .grow_axis = -1,
                        .cap = 1};
    for (int d = 0; d < NC_MAX_RANK; d++) v->fixed[d] = -1;
    return v;
}

/* v is seen by others from here on. */
static nc_code publish(nc_work *w, nc_state *s, nc_state_var *v) {
    if (!NC_PUSH(&s->arena, s->vars, v)) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    if (nc_map_put(&s->names, v->name, v)) return NC_OK;
    s->vars.n--;
    NC_FAIL(w, NC_E_MEMORY, "out of memory");
}

/* The lock is held; fills v, which nobody sees yet. */
static nc_code add_filled(nc_work *w, nc_state *s, nc_state_var *v, const int64_t *dims, const void *host) {
    nc_code code = nc_state_var_fill(w, v, dims, host);
    if (code == NC_OK) code = publish(w, s, v);
    if (code != NC_OK) nc_buffer_unref(v->buffer);
    return code;
}

static nc_code refuse_twice(nc_work *w, const nc_state *s, const char *name) {
    if (nc_map_get(&s->names, name)) NC_FAIL(w, NC_E_ARGUMENT, "the state has a variable '%s' already", name);
    return NC_OK;
}

nc_code nc_state_add(nc_work *w, nc_state *s, const char *name, const nc_tensor *t, const void *host) {
    nc_lock_take(&s->lock);
    nc_code code = refuse_twice(w, s, name);
    nc_state_var *v = code == NC_OK ? new_var(s, name, t->dtype, t->rank) : NULL;
    if (code == NC_OK && !v) code = nc_fail(w, NC_E_MEMORY, "out of memory");
    if (code == NC_OK) {
        memcpy(v->fixed, t->dims, (size_t)t->rank * sizeof *t->dims);
        code = add_filled(w, s, v, t->dims, host);
    }
    nc_lock_give(&s->lock);
    return code;
}

static nc_code check_lent(nc_work *w, const nc_state *s, const char *name, const nc_object *o) {
    w->at_node = name, w->at_op = "variable";
    if (o->kind != NC_OBJ_TENSOR || o->t.dtype == NC_STRING)
        NC_FAIL(w, NC_E_TYPE, "expected a tensor of numbers, got %s",
                o->kind == NC_OBJ_TENSOR ? "strings" : "a sequence, optional or map");
    nc_device *d = nc_object_on_device(o) ? o->buffer->device : nc_device_cpu();
    if (!nc_device_same_memory(d, s->device))
        NC_FAIL(w, NC_E_DEVICE, "expected memory of %s, the state's device, got memory of %s", s->device->table->name,
                d->table->name);
    size_t bytes = nc_dtype_bits(o->t.dtype) / 8, align = bytes > 8 ? 8 : bytes ? bytes : 1;
    if ((uintptr_t)o->t.data % align)
        NC_FAIL(w, NC_E_ARGUMENT, "expected memory that is aligned for %s, got %p", nc_dtype_name(o->t.dtype),
                o->t.data);
    return NC_OK;
}

nc_code nc_state_lend(nc_work *w, nc_state *s, const char *name, nc_object *keeps, bool writable) {
    const nc_tensor *t = &keeps->t;
    NC_TRY(check_lent(w, s, name, keeps));
    nc_lock_take(&s->lock);
    nc_code code = refuse_twice(w, s, name);
    nc_state_var *v = code == NC_OK ? new_var(s, name, t->dtype, t->rank) : NULL;
    if (code == NC_OK && !v) code = nc_fail(w, NC_E_MEMORY, "out of memory");
    if (code == NC_OK) {
        memcpy(v->dims, t->dims, (size_t)t->rank * sizeof *t->dims);
        memcpy(v->fixed, t->dims, (size_t)t->rank * sizeof *t->dims);
        v->lent = v->set = true, v->read_only = !writable;
        v->buffer = nc_buffer_ref(keeps->buffer);
        code = publish(w, s, v);
        if (code != NC_OK) nc_buffer_unref(v->buffer);
    }
    nc_lock_give(&s->lock);
    w->at_node = w->at_op = NULL;
    return code;
}

/* ---- initial contents ---- */

/* The dims a variable starts with: constants; the growing axis starts empty. False: an input will tell. */
static bool initial_dims(const nc_program *p, int i, int64_t *dims) {
    const nc_slot *s = &p->slots[p->vars[i]];
    const nc_variable *var = p->graph->vars.v[i];
    for (int d = 0; d < s->rank; d++) {
        if (var->initial) {
            dims[d] = var->initial->dims[d];
        } else if (d == var->grow_axis) {
            dims[d] = 0;
        } else if (!nc_dim_is_const(p->dims[s->dims[d]], &dims[d])) {
            return false;
        }
    }
    return true;
}

static const void *initial_data(const nc_variable *var, const int64_t seed[2]) {
    return var->internal ? (const void *)seed : var->initial ? var->initial->data : NULL;
}

static nc_code add_variable(nc_work *w, nc_state *s, const nc_program *p, int i, uint64_t seed) {
    const nc_variable *var = p->graph->vars.v[i];
    const nc_slot *slot = &p->slots[p->vars[i]];
    int64_t dims[NC_MAX_RANK];
    nc_state_var *v = new_var(s, var->name, slot->dtype, slot->rank);
    NC_NEED(w, v);
    v->grow_axis = var->grow_axis;
    for (int d = 0; d < v->rank; d++)
        if (d == v->grow_axis || !nc_dim_is_const(p->dims[slot->dims[d]], &v->fixed[d])) v->fixed[d] = -1;
    if (!initial_dims(p, i, dims)) return publish(w, s, v);
    return add_filled(w, s, v, dims, initial_data(var, (int64_t[2]){(int64_t)seed, 0}));
}

nc_code nc_state_add_program(nc_work *w, nc_state *s, const nc_program *p, uint64_t seed) {
    nc_code code = NC_OK;
    if (!nc_device_same_memory(p->device, s->device))
        NC_FAIL(w, NC_E_DEVICE, "the state lies on %s, the session runs on %s", s->device->table->name,
                p->device->table->name);
    nc_lock_take(&s->lock);
    for (int i = 0; i < p->n_vars && code == NC_OK; i++) {
        w->at_node = p->graph->vars.v[i]->name, w->at_op = "variable";
        if (!nc_map_get(&s->names, w->at_node)) code = add_variable(w, s, p, i, seed);
    }
    nc_lock_give(&s->lock);
    w->at_node = w->at_op = NULL;
    return code;
}

static nc_code reset_var(nc_work *w, const nc_program *p, int i, uint64_t seed, nc_state_var *v) {
    int64_t dims[NC_MAX_RANK];
    w->at_node = v->name, w->at_op = "variable";
    if (v->read_only) return NC_OK;
    if (initial_dims(p, i, dims))
        return nc_state_var_fill(w, v, dims, initial_data(p->graph->vars.v[i], (int64_t[2]){(int64_t)seed, 0}));
    v->set = false, v->dirty = false;
    return NC_OK;
}

nc_code nc_state_reset(nc_work *w, nc_state *s, const nc_program *p, uint64_t seed, const char *name) {
    nc_code code = NC_OK;
    bool found = !name;
    hold(s);
    for (int i = 0; i < p->n_vars && code == NC_OK; i++) {
        const char *own = p->graph->vars.v[i]->name;
        nc_state_var *v;
        if (name && strcmp(name, own) != 0) continue;
        found = true;
        code = need(w, s, own, &v);
        if (code == NC_OK) code = reset_var(w, p, i, seed, v);
    }
    w->at_node = w->at_op = NULL;
    NC_TRY(release(s, code));
    if (!found) NC_FAIL(w, NC_E_ARGUMENT, "the session has no variable '%s'", name);
    return NC_OK;
}

/* ---- binding ---- */

static nc_code name_missing(nc_work *w, nc_state *s, const nc_program *p) {
    char list[320] = "";
    int n = 0;
    for (int i = 0; i < p->n_vars; i++) {
        const char *name = p->graph->vars.v[i]->name;
        size_t at = strlen(list);
        if (nc_map_get(&s->names, name)) continue;
        if (at + strlen(name) + 5 < sizeof list) snprintf(list + at, sizeof list - at, "%s'%s'", n ? ", " : "", name);
        n++;
    }
    NC_FAIL(w, NC_E_ARGUMENT, "the state lacks %d of the session's %d variables: %s", n, p->n_vars, list);
}

static nc_code check_bound(nc_work *w, const nc_program *p, int i, const nc_state_var *v) {
    const nc_slot *slot = &p->slots[p->vars[i]];
    w->at_node = v->name, w->at_op = "variable";
    if (v->dtype != slot->dtype)
        NC_FAIL(w, NC_E_TYPE, "expected %s, got %s in the state", nc_dtype_name(slot->dtype), nc_dtype_name(v->dtype));
    if (v->rank != slot->rank) NC_FAIL(w, NC_E_SHAPE, "expected rank %d, got %d in the state", slot->rank, v->rank);
    if (!nc_device_same_memory(v->device, p->device))
        NC_FAIL(w, NC_E_DEVICE, "expected memory of %s, the session's device, got memory of %s in the state",
                p->device->table->name, v->device->table->name);
    if (v->read_only && p->vars_last[i] != p->vars[i])
        NC_FAIL(w, NC_E_STATE,
                "expected memory that may be written, got memory lent to be read: the session updates it");
    w->at_node = w->at_op = NULL;
    return NC_OK;
}

static nc_code resolve(nc_work *w, nc_state *s, const nc_program *p, nc_state_var **out) {
    for (int i = 0; i < p->n_vars; i++)
        if (!(out[i] = nc_map_get(&s->names, p->graph->vars.v[i]->name))) return name_missing(w, s, p);
    for (int i = 0; i < p->n_vars; i++) NC_TRY(check_bound(w, p, i, out[i]));
    return NC_OK;
}

/* Takes vars; the oldest map makes room. */
static void remember(nc_state *s, uint64_t program, nc_state_var **vars) {
    int at = s->n_maps < NC_STATE_MAPS ? s->n_maps++ : s->next_map;
    s->next_map = (at + 1) % NC_STATE_MAPS;
    nc_free((void *)s->maps[at].vars);
    s->maps[at] = (nc_state_map){program, vars};
}

nc_code nc_state_bind(nc_work *w, nc_state *s, uint64_t program, const nc_program *p, nc_state_var **out) {
    size_t bytes = (size_t)p->n_vars * sizeof(nc_state_var *);
    nc_code code = NC_OK;
    nc_lock_take(&s->lock);
    int i = 0;
    while (i < s->n_maps && s->maps[i].program != program) i++;
    if (i == s->n_maps || !s->maps[i].vars) {
        nc_state_var **vars = nc_alloc(bytes);
        code = vars ? resolve(w, s, p, vars) : nc_fail(w, NC_E_MEMORY, "out of memory");
        if (code == NC_OK) {
            memcpy((void *)out, (const void *)vars, bytes);
            remember(s, program, vars);
        } else {
            nc_free((void *)vars);
        }
    } else {
        memcpy((void *)out, (const void *)s->maps[i].vars, bytes);
    }
    nc_lock_give(&s->lock);
    return code;
}

/* ---- contents ---- */

static nc_code read_var(nc_work *w, nc_state *s, const char *name, bool share, nc_object **out) {
    nc_state_var *v;
    NC_TRY(need(w, s, name, &v));
    if (!v->set) NC_FAIL(w, NC_E_STATE, "it has no contents yet");
    if (!share) return nc_state_var_read(w, v, out);
    if (!nc_state_var_is_dense(v)) NC_FAIL(w, NC_E_STATE, "its rows lie apart, it can only be copied");
    nc_object *o = nc_object_tensor(nc_buffer_ref(v->buffer), v->dtype, v->rank, v->dims);
    NC_NEED(w, o);
    *out = o;
    return NC_OK;
}

static nc_code read_held(nc_work *w, nc_state *s, const char *name, bool share, nc_object **out) {
    NC_TRY(nc_state_begin(w, s, false, true));
    nc_code code = nc_state_await(s, &w->diag);
    if (code == NC_OK) code = read_var(w, s, name, share, out);
    nc_state_end(s, false);
    w->at_node = w->at_op = NULL;
    return code;
}

nc_code nc_state_read(nc_work *w, nc_state *s, const char *name, nc_object **out) {
    return read_held(w, s, name, false, out);
}

nc_code nc_state_share(nc_work *w, nc_state *s, const char *name, nc_object **out) {
    return read_held(w, s, name, true, out);
}

static nc_code write_var(nc_work *w, nc_state *s, const char *name, const nc_tensor *t) {
    nc_state_var *v;
    NC_TRY(need(w, s, name, &v));
    if (v->read_only) NC_FAIL(w, NC_E_STATE, "its memory was lent to be read");
    if (t->dtype != v->dtype)
        NC_FAIL(w, NC_E_TYPE, "expected %s, got %s", nc_dtype_name(v->dtype), nc_dtype_name(t->dtype));
    if (t->rank != v->rank) NC_FAIL(w, NC_E_SHAPE, "expected rank %d, got %d", v->rank, t->rank);
    if (!nc_is_dense(t)) NC_FAIL(w, NC_E_ARGUMENT, "its new contents must be dense");
    for (int d = 0; d < t->rank; d++)
        if (v->fixed[d] >= 0 && v->fixed[d] != t->dims[d])
            NC_FAIL(w, NC_E_SHAPE, "axis %d: expected %lld, got %lld", d, (long long)v->fixed[d],
                    (long long)t->dims[d]);
    return nc_state_var_fill(w, v, t->dims, t->data);
}

nc_code nc_state_write(nc_work *w, nc_state *s, const char *name, const nc_tensor *host) {
    hold(s);
    nc_code code = write_var(w, s, name, host);
    w->at_node = w->at_op = NULL;
    return release(s, code);
}
