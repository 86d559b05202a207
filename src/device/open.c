/* device/open.c: devices by name, and counted buffers in their memory. Says what there is when a name is unknown. */
#include "base/mem.h"
#include "device/device.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The number behind "cuda:"; -1 when it is none. */
static int parse_ordinal(const char *s) {
    if (*s < '0' || *s > '9') return -1;
    char *end;
    errno = 0;
    long n = strtol(s, &end, 10);
    return *end == '\0' && errno == 0 && n <= INT_MAX ? (int)n : -1;
}

nc_code nc_device_open(nc_work *w, const char *name, nc_device **out) {
    if (name == NULL) NC_FAIL(w, NC_E_ARGUMENT, "device name is missing; Nacre has cpu, guard and cuda");
    if (strcmp(name, "cpu") == 0) {
        *out = nc_device_cpu();
        return NC_OK;
    }
    if (strcmp(name, "guard") == 0) return nc_device_guard_create(w, out);
    if (strcmp(name, "cuda") == 0) return nc_device_cuda_create(w, 0, out);
    if (strncmp(name, "cuda:", 5) == 0) {
        int ordinal = parse_ordinal(name + 5);
        if (ordinal >= 0) return nc_device_cuda_create(w, ordinal, out);
        NC_FAIL(w, NC_E_ARGUMENT, "device '%.64s': expected cuda:N with N a whole number from 0", name);
    }
    NC_FAIL(w, NC_E_DEVICE, "device '%.64s' is not known; Nacre has cpu, guard and cuda", name);
}

void nc_device_close(nc_device *d) {
    if (d != NULL && d->table->destroy != NULL) d->table->destroy(d);
}

bool nc_device_same_memory(const nc_device *a, const nc_device *b) {
    return a == b || (a->table == b->table && a->table->one_memory && a->number == b->number);
}

static void release_buffer(nc_buffer *b) {
    b->device->table->free(b->device, NULL, b->ptr);
    nc_budget_give(b->budget, b->bytes);
    nc_budget_unref(b->budget);
}

nc_buffer *nc_device_buffer(nc_device *d, nc_budget *keeps, size_t bytes, nc_diag *diag) {
    void *p = NULL;
    if (nc_budget_take(keeps, bytes, diag) != NC_OK) return NULL;
    if (d->table->alloc(d, NULL, bytes, &p, diag) != NC_OK) {
        nc_budget_give(keeps, bytes);
        return NULL;
    }
    nc_buffer *b = nc_buffer_wrap(p, bytes, release_buffer, NULL);
    if (b == NULL) {
        d->table->free(d, NULL, p);
        nc_budget_give(keeps, bytes);
        nc_diag_set(diag, NC_E_MEMORY, NULL, NULL, "out of memory");
        return NULL;
    }
    b->budget = nc_budget_ref(keeps);
    b->device = d;
    b->kind = d->table->host_memory ? NC_MEM_HOST : NC_MEM_DEVICE;
    return b;
}
