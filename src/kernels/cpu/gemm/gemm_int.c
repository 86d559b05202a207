/* kernels/cpu/gemm/gemm_int.c: matrix products of 32- and 64-bit integers by plain loops, an item a row, and the choice
 * between them and the floats' product; see gemm.h. Integer products are rare and small (shapes, indices, masks); those
 * of 8 bits are kernels/cpu/gemm/igemm.h's. */
#include "kernels/cpu/gemm/gemm.h"

#include "base/intmath.h"
#include "kernels/cpu/per_type.h"

enum { STRIP = 32 }; /* columns */

#define SUFFIX u32
#define ELEM uint32_t
#include "kernels/cpu/gemm/gemm_int.inc"

#define SUFFIX u64
#define ELEM uint64_t
#include "kernels/cpu/gemm/gemm_int.inc"

void nck_gemm_any(const nck_gemm_args *g, void *workspace, nc_pool *pool) {
    if (nc_dtype_is_float(g->type)) {
        nck_gemm(g, workspace, pool);
        return;
    }
    nck_gemm_args copy = *g;
    nc_parallel(nc_pool_for(pool, g->M * g->N * g->K), g->M,
                nc_dtype_bytes(g->type) == 4 ? gemm_int_row_u32 : gemm_int_row_u64, &copy);
}
