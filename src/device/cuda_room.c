/* device/cuda_room.c: memory of a stream for its kernels, beside what plans book in arenas; counted as the device's,
 * but for that of work without a stream, which goes with the device.
 *
 * A small piece, with counters that are 0, comes with the first kernel. Scratch is for kernels of cuBLASLt and cuDNN
 * whose need is known only when the library has chosen one for a call's own sizes, strides and alignment: an arena is
 * laid out for the largest sizes that it serves, and what is chosen for smaller ones may need more. So it has the size
 * of what was chosen, and a choice is made once. Pieces that became too small stay while the stream does: what is
 * queued or recorded may use them; each is twice the one before, up to the most that libraries may ask for. */
#include "base/mem.h"
#include "device/cuda_order.h"
#include "device/memory.h"

typedef struct nc_cuda_scratch {
    void *p;
    size_t bytes;
    struct nc_cuda_scratch *smaller;
} scratch;

static nc_code take(nc_device *d, nc_stream *s, size_t bytes, void **out, nc_diag *diag) {
    NC_TRY(d->table->alloc(d, s, bytes, out, diag));
    if (s == NULL) nc_device_give(d, bytes);
    return NC_OK;
}

nc_code nc_cuda_room_make(nc_device *d, nc_stream *s, nc_cuda_room *r, nc_diag *diag) {
    const size_t counters = NC_CUDA_COUNTERS * sizeof(uint32_t);
    const nc_cuda_api *api = nc_device_cuda(d)->api;
    void *made = NULL;
    NC_TRY(take(d, s, NC_CUDA_PARTIALS + counters, &made, diag));
    nc_code code = nc_cuda_check(
        api->cuMemsetD8Async((CUdeviceptr)(uintptr_t)made + NC_CUDA_PARTIALS, 0, counters, nc_cuda_stream(s)),
        "cuMemsetD8Async", diag);
    if (code == NC_OK)
        atomic_store(&r->small, made);
    else if (s != NULL)
        d->table->free(d, s, made);
    return code;
}

static nc_code grow(nc_device *d, nc_stream *s, nc_cuda_room *r, size_t bytes, nc_diag *diag) {
    size_t twice = r->scratch != NULL ? 2 * r->scratch->bytes : 0;
    if (twice > NC_CUDA_WORKSPACE) twice = NC_CUDA_WORKSPACE; /* nobody asks for more */
    scratch *made = nc_alloc_zero(1, sizeof *made);
    if (made == NULL) return nc_diag_set(diag, NC_E_MEMORY, NULL, NULL, "out of memory");
    *made = (scratch){.bytes = bytes > twice ? bytes : twice, .smaller = r->scratch};
    nc_code code = take(d, s, made->bytes, &made->p, diag);
    if (code == NC_OK)
        r->scratch = made;
    else
        nc_free(made);
    return code;
}

nc_code nc_cuda_room_scratch(nc_device *d, nc_stream *s, nc_cuda_room *r, size_t bytes, void **out, nc_diag *diag) {
    bool fits = r->scratch != NULL && r->scratch->bytes >= bytes;
    *out = NULL;
    if (bytes == 0) return NC_OK;
    if (!fits && nc_cuda_captures_itself()) {
        nc_cuda_capture_unfit();
        return NC_OK;
    }
    if (!fits) NC_TRY(grow(d, s, r, bytes, diag));
    *out = r->scratch->p;
    return NC_OK;
}

void nc_cuda_room_release(nc_device *d, nc_stream *s, nc_cuda_room *r) {
    if (s != NULL) d->table->free(d, s, atomic_load(&r->small));
    for (scratch *x = r->scratch, *next; x != NULL; x = next) {
        next = x->smaller;
        if (s != NULL) d->table->free(d, s, x->p);
        nc_free(x);
    }
    *r = (nc_cuda_room){.small = NULL};
}
