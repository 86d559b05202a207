/* run/env.h: what sessions share: the thread pool, open devices, packed weights, plugins. Counted and thread-safe. */
#ifndef NC_RUN_ENV_H
#define NC_RUN_ENV_H

#include "device/device.h"
#include "ir/graph.h"
#include "ops/binding.h"

#include <pthread.h>

typedef struct nc_packed {
    uint64_t key;
    nc_buffer *buffer; /* host memory */
    struct nc_packed *next;
} nc_packed;

typedef struct nc_env {
    atomic_int refs;
    nc_pool *pool;
    pthread_mutex_t lock;
    nc_device *devices[8];
    char device_names[8][16];
    int n_devices;
    nc_packed *packed;
    uint64_t n_packed;           /* how often something was packed: sharing is visible */
    const nc_registry *registry; /* cards: those of ops/, under those of plugins */
    void *plugins;               /* owned by api/plugin.c */
    void (*plugins_release)(void *plugins);
} nc_env;

nc_env *nc_env_create(int threads); /* NULL: out of memory */
nc_env *nc_env_ref(nc_env *e);
void nc_env_unref(nc_env *e);
NC_MUST nc_code nc_env_device(nc_env *e, nc_work *w, const char *name,
                              nc_device **out); /* opened once, closed with the environment */
/* The packed form of constant data, made at first use; a new reference. */
NC_MUST nc_code nc_env_pack(nc_env *e, nc_work *w, const nc_pack *k, const void *state, const nc_tensor *src,
                            nc_buffer **out);

/* A counted buffer in the device's memory that keeps the environment, and so the device, while it lives. NULL on
 * failure, described in diag. */
nc_buffer *nc_env_buffer(nc_env *e, nc_device *d, nc_budget *keeps, size_t bytes, nc_diag *diag);

#endif
