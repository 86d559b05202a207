/* cpu/tile_table.h: the inside of the tile machine: lane functions over one tile (tile.simd.c per ISA, tile_int.c)
 * and the conversions between storage and compute type (tile_io.c). Only tile*.c, move/convert.c, which has halves
 * converted here, and tests include it. */
#ifndef NCK_CPU_TILE_TABLE_H
#define NCK_CPU_TILE_TABLE_H

#include "kernels/cpu/tile.h"

#include <stdint.h>

/* Tiles are padded to a multiple of this many elements, so lane functions have no remainder to treat. */
#define NCK_TILE_PAD 16

/* dst[i] = lane(src[0][i], src[1][i], src[2][i]) for i < n. All three src are readable whatever the lane needs; dst
 * may be one of them; param has two entries. Float lanes: n is a multiple of NCK_TILE_PAD, no alignment is needed.
 * Integer lanes: any n, aligned for 8 bytes or not. */
typedef void (*nck_lane_fn)(int64_t n, void *dst, const void *const *src, const double *param);

typedef struct nck_tile_table {
    nck_lane_fn f32[NCK_N_LANES], f64[NCK_N_LANES];
    void (*load_f16)(float *dst, const void *src, int64_t n);
    void (*load_bf16)(float *dst, const void *src, int64_t n);
    void (*store_f16)(void *dst, const float *src, int64_t n);
    void (*store_bf16)(void *dst, const float *src, int64_t n);
} nck_tile_table;

/* NULL for lanes of kind F. */
extern const nck_lane_fn nck_tile_int64[NCK_N_LANES], nck_tile_uint64[NCK_N_LANES];

const nck_lane_fn *nck_tile_lanes(nc_dtype compute); /* of the instruction set in use */

/* stride in elements of the storage type; storage memory need not be aligned, tile memory is. */
typedef void (*nck_tile_load_fn)(void *dst, const void *src, int64_t stride, int64_t n);
typedef void (*nck_tile_store_fn)(void *dst, int64_t stride, const void *src, int64_t n);
/* NULL when there is no such conversion. */
nck_tile_load_fn nck_tile_load_get(nc_dtype compute, nc_dtype storage);
nck_tile_store_fn nck_tile_store_get(nc_dtype compute, nc_dtype storage);

/* tile_small.c: nck_tile_run, where the operands are small and lie simply enough; false: they are not, and nothing is
 * done. numel: of out[0]. */
bool nck_tile_run_small(const nck_tile_prog *p, nc_tensor *const *in, nc_tensor *const *out, int64_t numel);

#endif
