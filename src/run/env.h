/* run/env.h: what sessions share: the thread pool, open devices, packed weights, plugins. Counted and thread-safe. */
#ifndef NC_RUN_ENV_H
#define NC_RUN_ENV_H

#include "base/lock.h"
#include "device/device.h"
#include "ir/graph.h"
#include "ops/binding.h"

typedef struct nc_packed {
    uint64_t hash;     /* of the packed bytes */
    nc_buffer *buffer; /* host memory */
    int users;         /* sessions' constants that read it; it goes with the last */
    struct nc_packed *next;
} nc_packed;

/* What is put over the cards of ops/: a library of custom ops, or a gradient of the user's own. */
typedef struct nc_layer {
    nc_registry registry; /* first: its hooks get a pointer to it. base is filled when it is published */
    struct nc_layer *next;
    void (*release)(struct nc_layer *l);
} nc_layer;

typedef struct nc_env {
    atomic_int refs;
    nc_pool *pool;
    nc_lock lock;
    nc_device *devices[8];
    char device_names[8][16];
    int n_devices;
    nc_packed *packed;
    uint64_t n_packed;           /* how often something was packed: sharing is visible */
    const nc_registry *registry; /* the newest layer's, or that of ops/; layers that are there never change */
    nc_layer *layers;            /* newest first */
} nc_env;

nc_env *nc_env_create(int threads); /* NULL: out of memory */
nc_env *nc_env_ref(nc_env *e);
void nc_env_unref(nc_env *e);
NC_MUST nc_code nc_env_device(nc_env *e, nc_work *w, const char *name,
                              nc_device **out); /* opened once, closed with the environment */
void nc_env_add_layer(nc_env *e, nc_layer *takes);
const nc_registry *nc_env_registry(nc_env *e); /* as it is now; valid while the environment lives */
/* The packed form of constant data. Blocks of equal bytes are one: every call is paired with nc_env_unpack. It is made
 * in `room`, which is taken: zeros, of the size of the form; NULL: a block of its own. */
NC_MUST nc_code nc_env_pack(nc_env *e, nc_work *w, const nc_pack *k, const void *state, const nc_tensor *src,
                            nc_buffer *room, nc_buffer **out);
void nc_env_unpack(nc_env *e, const nc_buffer *b);
/* The same as a block of the caller's own, for what is uploaded and then dropped; a new reference. */
NC_MUST nc_code nc_env_pack_apart(nc_env *e, nc_work *w, const nc_pack *k, const void *state, const nc_tensor *src,
                                  nc_buffer **out);

/* A counted buffer in the device's memory that keeps the environment, and so the device, while it lives. NULL on
 * failure, described in diag. */
nc_buffer *nc_env_buffer(nc_env *e, nc_device *d, nc_budget *keeps, size_t bytes, nc_diag *diag);

#endif
