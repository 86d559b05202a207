/* run/state.c: variables' memory: creation, growth in buckets, reading and writing, and who may hold it. */
#include "run/state.h"

#include "base/mem.h"

#include <string.h>

static int64_t bucket(int64_t n) {
    int64_t cap = 16;
    while (cap < n) cap *= 2;
    return cap;
}

static nc_code room_bytes(nc_work *w, const nc_state_var *v, const int64_t *dims, int64_t cap, size_t *out) {
    int64_t d[NC_MAX_RANK];
    memcpy(d, dims, (size_t)v->rank * sizeof *d);
    if (v->grow_axis >= 0) d[v->grow_axis] = cap;
    if (nc_dtype_is_packed(v->dtype) && v->grow_axis >= 0)
        NC_FAIL(w, NC_E_UNSUPPORTED, "a variable of %s cannot grow", nc_dtype_name(v->dtype));
    if (!nc_tensor_bytes(v->dtype, d, v->rank, out)) NC_FAIL(w, NC_E_LIMIT, "variable too large");
    return NC_OK;
}

void nc_state_tensor(const nc_state_var *v, const int64_t *dims, nc_tensor *t) {
    int64_t room[NC_MAX_RANK];
    *t = (nc_tensor){.data = v->buffer ? v->buffer->ptr : NULL, .dtype = v->dtype, .rank = v->rank};
    memcpy(t->dims, dims, (size_t)v->rank * sizeof *t->dims);
    memcpy(room, dims, (size_t)v->rank * sizeof *room);
    if (v->grow_axis >= 0) room[v->grow_axis] = v->cap;
    nc_dense_strides(room, v->rank, t->strides);
}

/* Copies the outer blocks of a tensor whose rows along the grow axis lie apart by `from` and `to`. */
static nc_code copy_rows(nc_work *w, const nc_state_var *v, void *dst, bool dst_host, int64_t to, const void *src,
                         bool src_host, int64_t from) {
    size_t bits = nc_dtype_bits(v->dtype);
    int64_t outer = 1, inner = 1, n = v->grow_axis >= 0 ? v->dims[v->grow_axis] : 1;
    for (int d = 0; d < v->rank; d++) {
        if (d < v->grow_axis) outer *= v->dims[d];
        if (d > v->grow_axis) inner *= v->dims[d];
    }
    size_t row = (size_t)inner / 8 * bits + ((size_t)inner % 8 * bits + 7) / 8; /* packed ones have one row */
    for (int64_t o = 0; o < outer && n; o++) {
        char *to_p = (char *)dst + (size_t)(o * to) * row;
        const char *from_p = (const char *)src + (size_t)(o * from) * row;
        NC_TRY(v->device->table->copy(v->device, NULL, to_p, dst_host, from_p, src_host, (size_t)n * row, &w->diag));
    }
    return v->device->table->stream_sync(v->device, NULL, &w->diag);
}

nc_code nc_state_reserve(nc_work *w, nc_state_var *v, const int64_t *dims) {
    bool same = v->buffer != NULL;
    for (int d = 0; d < v->rank; d++)
        if (d != v->grow_axis) same &= v->dims[d] == dims[d];
    int64_t want = v->grow_axis >= 0 ? dims[v->grow_axis] : 1;
    if (same && (v->grow_axis < 0 || want <= v->cap)) return NC_OK;
    int64_t cap = v->grow_axis >= 0 ? bucket(want) : 1;
    size_t bytes;
    NC_TRY(room_bytes(w, v, dims, cap, &bytes));
    nc_buffer *b = nc_device_buffer(v->device, v->budget, bytes, &w->diag);
    if (!b) return w->diag.code ? w->diag.code : nc_fail(w, NC_E_MEMORY, "out of memory");
    if (same && v->set) {
        nc_code code = copy_rows(w, v, b->ptr, v->device->table->host_memory, cap, v->buffer->ptr,
                                 v->device->table->host_memory, v->cap);
        if (code != NC_OK) {
            nc_buffer_unref(b);
            return code;
        }
    }
    nc_buffer_unref(v->buffer);
    v->buffer = b, v->cap = cap;
    if (!same) memcpy(v->dims, dims, (size_t)v->rank * sizeof *dims);
    return NC_OK;
}

static nc_code set_contents(nc_work *w, nc_state_var *v, const int64_t *dims, const void *host) {
    NC_TRY(nc_state_reserve(w, v, dims));
    memcpy(v->dims, dims, (size_t)v->rank * sizeof *dims);
    bool on_host = v->device->table->host_memory;
    if (host) {
        NC_TRY(copy_rows(w, v, v->buffer->ptr, on_host, v->grow_axis >= 0 ? v->cap : 1, host, true,
                         v->grow_axis >= 0 ? dims[v->grow_axis] : 1));
    } else {
        NC_TRY(v->device->table->fill(v->device, NULL, v->buffer->ptr, 0, v->buffer->bytes, &w->diag));
        NC_TRY(v->device->table->stream_sync(v->device, NULL, &w->diag));
    }
    v->set = true;
    return NC_OK;
}

/* The dims a variable starts with: constants; the growing axis starts empty. False: an input will tell. */
static bool initial_dims(const nc_program *p, const nc_slot *s, const nc_variable *var, int64_t *dims) {
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

static nc_code reset_var(nc_work *w, nc_state *s, int i) {
    const nc_variable *var = s->program->graph->vars.v[i];
    const nc_slot *slot = &s->program->slots[s->program->vars[i]];
    int64_t dims[NC_MAX_RANK];
    s->vars[i].set = false;
    w->at_node = var->name, w->at_op = "variable";
    if (!initial_dims(s->program, slot, var, dims)) return NC_OK;
    int64_t seed[2] = {(int64_t)s->seed, 0};
    return set_contents(w, &s->vars[i], dims,
                        var->internal  ? (const void *)seed
                        : var->initial ? var->initial->data
                                       : NULL);
}

static nc_code reset_all(nc_work *w, nc_state *s) {
    for (int i = 0; i < s->n_vars; i++) NC_TRY(reset_var(w, s, i));
    s->dirty = false;
    w->at_node = w->at_op = NULL;
    return NC_OK;
}

static void destroy(nc_state *s) {
    for (int i = 0; i < s->n_vars; i++) nc_buffer_unref(s->vars[i].buffer);
    nc_lock_release(&s->lock);
    pthread_cond_destroy(&s->free);
    nc_free(s->vars);
    nc_free(s);
}

/* In a forked child the threads that held it are not there; what a writer had done so far nobody knows. */
static void renew(void *state) {
    nc_state *s = state;
    pthread_cond_init(&s->free, NULL);
    s->dirty |= s->writer;
    s->writer = false, s->readers = 0;
}

nc_code nc_state_create(nc_work *w, nc_budget *borrows, const nc_program *p, uint64_t seed, nc_state **out) {
    nc_state *s = nc_alloc_zero(1, sizeof *s);
    NC_NEED(w, s);
    atomic_init(&s->refs, 1);
    s->program = p, s->seed = seed;
    nc_lock_init(&s->lock, NC_LOCK_LEAF, renew, s);
    pthread_cond_init(&s->free, NULL);
    s->vars = nc_alloc_zero((size_t)p->n_vars + 1, sizeof *s->vars);
    nc_code code = s->vars ? NC_OK : nc_fail(w, NC_E_MEMORY, "out of memory");
    for (int i = 0; code == NC_OK && i < p->n_vars; i++, s->n_vars++) {
        const nc_slot *slot = &p->slots[p->vars[i]];
        s->vars[i] = (nc_state_var){.device = slot->place ? p->device : nc_device_cpu(),
                                    .budget = borrows,
                                    .dtype = slot->dtype,
                                    .rank = slot->rank,
                                    .grow_axis = p->graph->vars.v[i]->grow_axis,
                                    .cap = 1};
    }
    if (code == NC_OK) code = reset_all(w, s);
    if (code != NC_OK) {
        destroy(s);
        return code;
    }
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

nc_code nc_state_begin(nc_work *w, nc_state *s, bool writes, bool wait) {
    nc_lock_take(&s->lock);
    while (wait && (s->writer || (writes && s->readers))) nc_lock_wait(&s->lock, &s->free);
    bool busy = s->writer || (writes && s->readers), dirty = s->dirty;
    if (!busy && !dirty) {
        s->writer = writes;
        s->readers += !writes;
    }
    nc_lock_give(&s->lock);
    if (busy)
        NC_FAIL(w, NC_E_STATE, "the state is in use by another run that %s", writes ? "has not ended" : "writes it");
    if (dirty)
        NC_FAIL(w, NC_E_STATE,
                "the state is dirty: an earlier run failed or was cancelled while it updated; reset or reload it");
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

/* Like begin for writing, but a dirty state is welcome: this is how it is mended. */
static void hold(nc_state *s) {
    nc_lock_take(&s->lock);
    while (s->writer || s->readers) nc_lock_wait(&s->lock, &s->free);
    s->writer = true;
    nc_lock_give(&s->lock);
}

nc_code nc_state_reset(nc_work *w, nc_state *s) {
    hold(s);
    nc_code code = reset_all(w, s);
    nc_state_end(s, true);
    return code;
}

static nc_code read_var(nc_work *w, const nc_state_var *v, nc_object **out) {
    nc_object *o = nc_object_host_tensor(v->dtype, v->rank, v->dims);
    NC_NEED(w, o);
    int64_t to = v->grow_axis >= 0 ? v->dims[v->grow_axis] : 1, from = v->grow_axis >= 0 ? v->cap : 1;
    nc_code code = copy_rows(w, v, o->t.data, true, to, v->buffer->ptr, v->device->table->host_memory, from);
    if (code != NC_OK) {
        nc_object_unref(o);
        return code;
    }
    *out = o;
    return NC_OK;
}

nc_code nc_state_read(nc_work *w, nc_state *s, int i_var, nc_object **out) {
    NC_TRY(nc_state_begin(w, s, false, true));
    w->at_node = s->program->graph->vars.v[i_var]->name, w->at_op = "variable";
    nc_code code =
        s->vars[i_var].set ? read_var(w, &s->vars[i_var], out) : nc_fail(w, NC_E_STATE, "it has no contents yet");
    nc_state_end(s, false);
    w->at_node = w->at_op = NULL;
    return code;
}

static nc_code write_var(nc_work *w, nc_state *s, int i_var, const nc_tensor *t) {
    nc_state_var *v = &s->vars[i_var];
    const nc_slot *slot = &s->program->slots[s->program->vars[i_var]];
    w->at_node = s->program->graph->vars.v[i_var]->name, w->at_op = "variable";
    if (t->dtype != v->dtype)
        NC_FAIL(w, NC_E_TYPE, "expected %s, got %s", nc_dtype_name(v->dtype), nc_dtype_name(t->dtype));
    if (t->rank != v->rank) NC_FAIL(w, NC_E_SHAPE, "expected rank %d, got %d", v->rank, t->rank);
    if (!nc_is_dense(t)) NC_FAIL(w, NC_E_ARGUMENT, "its new contents must be dense");
    for (int d = 0; d < t->rank; d++) {
        int64_t want;
        if (d != v->grow_axis && nc_dim_is_const(s->program->dims[slot->dims[d]], &want) && want != t->dims[d])
            NC_FAIL(w, NC_E_SHAPE, "axis %d: expected %lld, got %lld", d, (long long)want, (long long)t->dims[d]);
    }
    return set_contents(w, v, t->dims, t->data);
}

nc_code nc_state_write(nc_work *w, nc_state *s, int i_var, const nc_tensor *host) {
    hold(s);
    nc_code code = write_var(w, s, i_var, host);
    nc_state_end(s, true);
    w->at_node = w->at_op = NULL;
    return code;
}
