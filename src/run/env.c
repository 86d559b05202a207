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
    if (!e->pool) {
        nc_free(e);
        return NULL;
    }
    nc_lock_init(&e->lock, NC_LOCK_ENV, NULL, NULL);
    return e;
}

nc_env *nc_env_ref(nc_env *e) {
    atomic_fetch_add(&e->refs, 1);
    return e;
}

void nc_env_unref(nc_env *e) {
    if (!e || atomic_fetch_sub(&e->refs, 1) != 1) return;
    for (int i = 0; i < e->n_devices; i++) nc_device_close(e->devices[i]);
    nc_pool_destroy(e->pool);
    for (nc_layer *l = e->layers, *next; l; l = next) {
        next = l->next;
        l->release(l);
    }
    nc_lock_release(&e->lock);
    nc_free(e);
}

void nc_env_add_layer(nc_env *e, nc_layer *takes) {
    nc_lock_take(&e->lock);
    takes->registry.base = e->registry, takes->next = e->layers;
    e->layers = takes, e->registry = &takes->registry;
    nc_lock_give(&e->lock);
}

const nc_registry *nc_env_registry(nc_env *e) {
    nc_lock_take(&e->lock);
    const nc_registry *r = e->registry;
    nc_lock_give(&e->lock);
    return r;
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
    nc_lock_take(&e->lock);
    nc_code code = open_device(e, w, name, out);
    nc_lock_give(&e->lock);
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

/* ---- packed constants ---- */

/* e->lock is held. */
static nc_packed *find_packed(nc_packed *first, const nc_packed *like) {
    nc_packed *p = first;
    while (p && (p->hash != like->hash || p->buffer->bytes != like->buffer->bytes)) p = p->next;
    return p;
}

static void free_packed(nc_packed *p) {
    nc_buffer_unref(p->buffer);
    nc_free(p);
}

/* e->lock is held. */
static void let_go(nc_env *e, nc_packed *p) {
    if (--p->users > 0) return;
    nc_packed **at = &e->packed;
    while (*at != p) at = &(*at)->next;
    *at = p->next;
    free_packed(p);
}

/* Of pieces from all over the block: where to look for an equal one, and no reading of it all. */
static uint64_t hash_block(const nc_buffer *b) {
    enum { PIECE = 256, PIECES = 64 };
    const char *p = b->ptr;
    if (b->bytes <= PIECE * PIECES) return nc_hash(p, b->bytes, 0);
    uint64_t h = b->bytes;
    for (size_t i = 0; i < PIECES; i++) h = nc_hash(p + (b->bytes - PIECE) / (PIECES - 1) * i, PIECE, h);
    return h;
}

/* The entry with these bytes: one that is there, or p, which is taken. A hash only says where to look; blocks are
 * compared without the lock, held by their count. */
static nc_packed *share(nc_env *e, nc_packed *p) {
    nc_lock_take(&e->lock);
    nc_packed *other = find_packed(e->packed, p);
    while (other) {
        other->users++;
        nc_lock_give(&e->lock);
        if (memcmp(other->buffer->ptr, p->buffer->ptr, p->buffer->bytes) == 0) {
            free_packed(p);
            return other;
        }
        nc_lock_take(&e->lock);
        nc_packed *next = find_packed(other->next, p);
        let_go(e, other);
        other = next;
    }
    p->next = e->packed, e->packed = p, e->n_packed++;
    nc_lock_give(&e->lock);
    return p;
}

/* Gaps that a packing routine leaves are zero, so that equal contents are equal bytes. */
static nc_code fill_block(nc_work *w, const nc_pack *k, const void *state, const nc_tensor *src, nc_buffer *room,
                          nc_buffer **out) {
    nc_buffer *b = room ? room : nc_buffer_host_zero(k->bytes);
    NC_NEED(w, b);
    nc_code code = k->fill(state, src, b->ptr);
    if (code != NC_OK) {
        nc_buffer_unref(b);
        NC_FAIL(w, code, "packing a constant as %s failed", k->form);
    }
    *out = b;
    return NC_OK;
}

/* Packed first, then looked up: so nothing but the bytes that the kernel reads decides what is shared, and no source
 * has to be kept for the comparison. Done without the lock, so that several can be packed at once. */
nc_code nc_env_pack(nc_env *e, nc_work *w, const nc_pack *k, const void *state, const nc_tensor *src, nc_buffer *room,
                    nc_buffer **out) {
    nc_packed *p = nc_alloc_zero(1, sizeof *p);
    if (!p) nc_buffer_unref(room);
    NC_NEED(w, p);
    nc_code code = fill_block(w, k, state, src, room, &p->buffer);
    if (code != NC_OK) {
        nc_free(p);
        return code;
    }
    p->users = 1, p->hash = hash_block(p->buffer);
    *out = share(e, p)->buffer;
    return NC_OK;
}

nc_code nc_env_pack_apart(nc_env *e, nc_work *w, const nc_pack *k, const void *state, const nc_tensor *src,
                          nc_buffer **out) {
    NC_TRY(fill_block(w, k, state, src, NULL, out));
    nc_lock_take(&e->lock);
    e->n_packed++;
    nc_lock_give(&e->lock);
    return NC_OK;
}

void nc_env_unpack(nc_env *e, const nc_buffer *b) {
    nc_lock_take(&e->lock);
    nc_packed *p = e->packed;
    while (p && p->buffer != b) p = p->next;
    if (p) let_go(e, p);
    nc_lock_give(&e->lock);
}
