/* device/cuda_fault.c: what a kernel found wrong with its data, told by the next synchronisation. A record lies in
 * pinned memory, which the GPU writes and the host reads, one for every stream. */
#include "device/cuda_api.h"

#include "base/log.h"
#include "base/narrow.h"

#include <string.h>

nc_code nc_cuda_fault_create(const nc_cuda *c, nc_cuda_fault **out, nc_diag *diag) {
    void *p = NULL;
    NC_TRY(nc_cuda_check(c->api->cuMemHostAlloc(&p, sizeof **out, 0), "cuMemHostAlloc", diag));
    memset(p, 0, sizeof **out);
    *out = p;
    atomic_init(&(*out)->refs, 1);
    atomic_init(&(*out)->n_told, 0);
    return NC_OK;
}

nc_cuda_fault *nc_cuda_fault_ref(nc_cuda_fault *f) {
    atomic_fetch_add(&f->refs, 1);
    return f;
}

void nc_cuda_fault_unref(const nc_cuda *c, nc_cuda_fault *f) {
    nc_diag diag = {.code = NC_OK};
    if (f == NULL || atomic_fetch_sub(&f->refs, 1) != 1) return;
    if (nc_cuda_check(c->api->cuMemFreeHost(f), "cuMemFreeHost", &diag) != NC_OK)
        nc_log(NC_LOG_WARNING, "%s", diag.text);
}

nc_code nc_cuda_fault_check(nc_cuda_fault *f, nc_diag *diag) {
    if (f == NULL || __atomic_exchange_n(&f->set, 0, __ATOMIC_ACQUIRE) == 0) return NC_OK;
    atomic_fetch_add(&f->n_told, 1);
    if (f->limit < 0) {
        nc_dtype t = (nc_dtype)-f->limit;
        return nc_diag_set(diag, NC_E_DATA, f->node, f->op, "a zero point of %s is %g, expected 0", nc_dtype_name(t),
                           (double)nc_narrow_to_f32(t, (uint8_t)f->value));
    }
    return nc_diag_set(diag, NC_E_DATA, f->node, f->op, "index %lld is out of range for an axis of %lld",
                       (long long)f->value, (long long)f->limit);
}
