/* kernels/cpu/move/copy_ref.c: the strided copy one element at a time, the yardstick of copy.c. */
#include "kernels/cpu/move/move.h"
#include "kernels/cpu/move/walk.h"

#include <string.h>

void nck_copy_ref(int rank, const int64_t *dims, size_t elem_bytes, const void *src, const int64_t *src_strides,
                  void *dst, const int64_t *dst_strides) {
    nck_walk walk;
    nck_walk_at w;
    int64_t strides[2][NC_MAX_RANK], n;
    for (int d = 0; d < rank; d++) {
        strides[0][d] = src_strides[d];
        strides[1][d] = dst_strides[d];
    }
    nck_walk_init(&walk, rank, dims, 2, strides);
    n = nck_walk_rows(&walk);
    for (int64_t i = 0; i < n; i++) {
        nck_walk_start(&w, &walk, i);
        memcpy((char *)dst + w.offset[1] * (int64_t)elem_bytes, (const char *)src + w.offset[0] * (int64_t)elem_bytes,
               elem_bytes);
    }
}
