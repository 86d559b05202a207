/* kernels/cpu/move/packed.c: copy and fill of elements of fewer than 8 bits, see move.h. The destination is dense and
 * cut at whole bytes, so items never share one. */
#include "kernels/cpu/move/move.h"

#include "base/intmath.h"

#include <string.h>

enum { ITEM = 1 << 13 }; /* elements; a multiple of 8 */

typedef struct packed_job {
    const nc_tensor *src, *dst;
    int64_t n;
} packed_job;

static void packed_copy_item(void *ctx, int64_t item) {
    const packed_job *j = ctx;
    const nc_tensor *s = j->src;
    int64_t at[NC_MAX_RANK], offset = 0, i = item * ITEM, end = nc_min64(i + ITEM, j->n);
    for (int64_t d = s->rank - 1, rest = i; d >= 0; rest /= s->dims[d--]) {
        at[d] = rest % s->dims[d];
        offset += at[d] * s->strides[d];
    }
    for (; i < end; i++) {
        nc_narrow_store(s->dtype, j->dst->data, i, nc_narrow_load(s->dtype, s->data, offset));
        for (int d = s->rank - 1; d >= 0; d--) {
            offset += s->strides[d];
            if (++at[d] < s->dims[d]) break;
            offset -= s->dims[d] * s->strides[d];
            at[d] = 0;
        }
    }
}

void nck_copy_packed(const nc_tensor *src, const nc_tensor *dst, nc_pool *pool) {
    packed_job j = {.src = src, .dst = dst, .n = nc_tensor_numel(src)};
    size_t bytes;
    if (j.n == 0 || !nc_tensor_bytes(src->dtype, src->dims, src->rank, &bytes)) return;
    if (nc_is_dense(src)) {
        memcpy(dst->data, src->data, bytes);
        return;
    }
    ((char *)dst->data)[bytes - 1] = 0;
    nc_parallel(pool, nc_ceil_div(j.n, ITEM), packed_copy_item, &j);
}

void nck_fill_packed(const nc_tensor *dst, uint8_t code) {
    int64_t n = nc_tensor_numel(dst);
    size_t bytes;
    if (n == 0 || !nc_tensor_bytes(dst->dtype, dst->dims, dst->rank, &bytes)) return;
    ((char *)dst->data)[bytes - 1] = 0;
    for (int64_t i = 0; i < n; i++) nc_narrow_store(dst->dtype, dst->data, i, code);
}
