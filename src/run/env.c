/* run/env.c: the environment: pool, devices, packed weights. */
#include "run/env.h"

#include "base/map.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

nc_env *nc_env_create(int threads) {
    nc_env *e = nc_alloc_zero(1, sizeof *e);
    if (!e) return NULL;
    atomic_init(&e->refs, 1);
    e->pool = nc_pool_create(threads);
    e->registry = nc_ops_registry();
    if (!e->pool || pthread_mutex_init(&e->lock, NULL) != 0) {
        if (e->pool) nc_pool_destroy(e->pool);
        nc_free(e);
        return NULL;
    }
    return e;
}

nc_env *nc_env_ref(nc_env *e) {
    atomic_fetch_add(&e->refs, 1);
    return e;
}

void nc_env_unref(nc_env *e) {
    if (!e || atomic_fetch_sub(&e->refs, 1) != 1) return;
    for (nc_packed *k = e->packed, *next; k; k = next) {
        next = k->next;
        nc_buffer_unref(k->buffer);
        nc_free(k);
    }
    for (int i = 0; i < e->n_devices; i++) nc_device_close(e->devices[i]);
    nc_pool_destroy(e->pool);
    if (e->plugins_release) e->plugins_release(e->plugins);
    pthread_mutex_destroy(&e->lock);
    nc_free(e);
}

static nc_code open_device(nc_env *e, nc_work *w, const char *name, nc_device **out) {
    if (strcmp(name, "cuda") == 0) name = "cuda:0";
    for (int i = 0; i < e->n_devices; i++) {
        if (strcmp(e->device_names[i], name) != 0) continue;
        *out = e->devices[i];
        return NC_OK;
    }
    if (e->n_devices == 8 || strlen(name) >= sizeof e->device_names[0])
        NC_FAIL(w, NC_E_LIMIT, "device '%s': too many devices", name);
    NC_TRY(nc_device_open(w, name, out));
    snprintf(e->device_names[e->n_devices], sizeof e->device_names[0], "%s", name);
    e->devices[e->n_devices++] = *out;
    return NC_OK;
}

nc_code nc_env_device(nc_env *e, nc_work *w, const char *name, nc_device **out) {
    pthread_mutex_lock(&e->lock);
    nc_code code = open_device(e, w, name, out);
    pthread_mutex_unlock(&e->lock);
    return code;
}

static void release_buffer(nc_buffer *b) {
    nc_env *e = b->owner;
    b->device->table->free(b->device, NULL, b->ptr);
    nc_budget_give(b->budget, b->bytes);
    nc_budget_unref(b->budget);
    nc_env_unref(e);
}

nc_buffer *nc_env_buffer(nc_env *e, nc_device *d, nc_budget *keeps, size_t bytes, nc_diag *diag) {
    nc_buffer *b = nc_device_buffer(d, keeps, bytes ? bytes : 1, diag);
    if (b) b->release = release_buffer, b->owner = nc_env_ref(e);
    return b;
}

static uint64_t pack_key(const nc_pack *k, const nc_tensor *src, size_t bytes) {
    uint64_t h = nc_hash(k->form, strlen(k->form), (uint64_t)src->dtype);
    h = nc_hash(src->dims, (size_t)src->rank * sizeof *src->dims, h);
    return nc_hash(src->data, bytes, h);
}

/* e->lock is held. */
static nc_buffer *find_packed(nc_env *e, uint64_t key, size_t bytes) {
    for (nc_packed *p = e->packed; p; p = p->next)
        if (p->key == key && p->buffer->bytes == bytes) return nc_buffer_ref(p->buffer);
    return NULL;
}

/* Takes p. Another thread may have been first. */
static nc_buffer *keep_packed(nc_env *e, nc_packed *p) {
    pthread_mutex_lock(&e->lock);
    nc_buffer *b = find_packed(e, p->key, p->buffer->bytes);
    if (!b) {
        p->next = e->packed, e->packed = p, e->n_packed++;
        b = nc_buffer_ref(p->buffer);
        p = NULL;
    }
    pthread_mutex_unlock(&e->lock);
    if (p) {
        nc_buffer_unref(p->buffer);
        nc_free(p);
    }
    return b;
}

/* Filled without the lock, so that several can be packed at once. */
nc_code nc_env_pack(nc_env *e, nc_work *w, const nc_pack *k, const void *state, const nc_tensor *src, nc_buffer **out) {
    size_t bytes;
    if (!nc_tensor_bytes(src->dtype, src->dims, src->rank, &bytes)) NC_FAIL(w, NC_E_LIMIT, "constant too large");
    uint64_t key = pack_key(k, src, bytes);
    pthread_mutex_lock(&e->lock);
    *out = find_packed(e, key, k->bytes);
    pthread_mutex_unlock(&e->lock);
    if (*out) return NC_OK;
    nc_packed *p = nc_alloc_zero(1, sizeof *p);
    NC_NEED(w, p);
    p->key = key, p->buffer = nc_buffer_host(k->bytes);
    nc_code code = p->buffer ? k->fill(state, src, p->buffer->ptr) : NC_E_MEMORY;
    if (code != NC_OK) {
        nc_buffer_unref(p->buffer);
        nc_free(p);
        NC_FAIL(w, code, "packing a constant as %s failed", k->form);
    }
    *out = keep_packed(e, p);
    return NC_OK;
}
