/* cpu/tile_table.h: the inside of the tile machine: lane functions over one tile (tile.simd.c and whole.simd.c
 * per ISA, tile_int.c)
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

/* n elements, dense on both sides, any alignment. */
typedef void (*nck_tile_dense_fn)(void *dst, const void *src, int64_t n);

typedef struct nck_tile_table {
    nck_lane_fn f32[NCK_N_LANES], f64[NCK_N_LANES];
    nck_tile_dense_fn load_f16, load_bf16, store_f16, store_bf16; /* to and from floats */
} nck_tile_table;

typedef struct nck_dense_row {
    nc_dtype from, to;
    nck_tile_dense_fn fn;
} nck_dense_row;

/* whole.simd.c. */
typedef struct nck_whole_table {
    const nck_lane_fn *i64;    /* as nck_tile_int64, for multiples of NCK_TILE_PAD; NULL: it has none */
    const nck_dense_row *rows; /* what loads and stores of tiles do */
    int n_rows;
    nck_tile_dense_fn i32_of_f32, i8_of_f32; /* as casts do it: clamped to 32 bits, of which i8 takes the last 8 */
} nck_whole_table;

/* NULL for lanes of kind F. */
extern const nck_lane_fn nck_tile_int64[NCK_N_LANES], nck_tile_uint64[NCK_N_LANES];

const nck_lane_fn *nck_tile_lanes(nc_dtype compute); /* of the instruction set in use */

/* stride in elements of the storage type; storage memory need not be aligned, tile memory is. */
typedef void (*nck_tile_load_fn)(void *dst, const void *src, int64_t stride, int64_t n);
typedef void (*nck_tile_store_fn)(void *dst, int64_t stride, const void *src, int64_t n);
/* NULL when there is no such conversion. */
nck_tile_load_fn nck_tile_load_get(nc_dtype compute, nc_dtype storage);
nck_tile_store_fn nck_tile_store_get(nc_dtype compute, nc_dtype storage);
/* The same of dense elements by vectors, one of both being a compute type; NULL: the others have to do. */
nck_tile_dense_fn nck_tile_dense_get(nc_dtype from, nc_dtype to);

/* tile_small.c: nck_tile_run, where the operands are small and lie simply enough; false: they are not, and nothing is
 * done. numel: of out[0]. */
bool nck_tile_run_small(const nck_tile_prog *p, nc_tensor *const *in, nc_tensor *const *out, int64_t numel);

/* tile_own.c: the same, where a program is one word over tensors that need no wider type than their own. */
bool nck_tile_run_own(const nck_tile_prog *p, nc_tensor *const *in, nc_tensor *const *out, int64_t numel,
                      nc_pool *pool);

#endif
