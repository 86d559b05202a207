/* train/checkpoint_tensor.c: tensors in and out of files, what both formats share: bytes and their checksums. */
#include "base/crc.h"
#include "train/checkpoint_formats.h"

#include <stdio.h>
#include <string.h>

const char *const nc_checkpoint_moments[NC_MOMENTS] = {"momentum0", "momentum1"};

nc_code nc_checkpoint_bytes(nc_work *w, const char *name, const nc_object *o, size_t *bytes) {
    if (o->kind != NC_OBJ_TENSOR) NC_FAIL(w, NC_E_TYPE, "checkpoint: '%s' is no tensor", name);
    if (nc_object_on_device(o))
        NC_FAIL(w, NC_E_DEVICE, "checkpoint: '%s' lies in the memory of a device; copy it to the host first", name);
    if (!nc_is_dense(&o->t)) NC_FAIL(w, NC_E_DATA, "checkpoint: '%s' has gaps or another order; make it dense", name);
    if (!nc_tensor_bytes(o->t.dtype, o->t.dims, o->t.rank, bytes))
        NC_FAIL(w, NC_E_SHAPE, "checkpoint: '%s' is too large", name);
    return NC_OK;
}

nc_code nc_checkpoint_tensor(nc_work *w, nc_dtype dtype, int rank, const int64_t *dims, const void *bytes,
                             nc_object **out) {
    size_t n = 0;
    nc_object *o = nc_tensor_bytes(dtype, dims, rank, &n) ? nc_object_host_tensor(dtype, rank, dims) : NULL;
    NC_NEED(w, o);
    if (n) memcpy(o->t.data, bytes, n);
    *out = o;
    return NC_OK;
}

void nc_checkpoint_crc(const void *p, size_t bytes, char hex[9]) {
    snprintf(hex, 9, "%08x", (unsigned)nc_crc32c(0, p, bytes));
}

nc_code nc_checkpoint_check_crc(nc_work *w, const char *name, const char *hex, const void *p, size_t bytes) {
    char got[9];
    nc_checkpoint_crc(p, bytes, got);
    if (strcmp(got, hex) != 0)
        NC_FAIL(w, NC_E_BAD_MODEL,
                "checkpoint: the bytes of '%s' are not those that were saved: CRC32C is %s, expected %.8s", name, got,
                hex);
    return NC_OK;
}
