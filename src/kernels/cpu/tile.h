/* cpu/tile.h: tile programs: chains of element formulas run over tensors tile by tile.
 *
 * A program is a list of lane operations on registers. A register holds one tile of elements of the compute type; the
 * first n_in registers are the inputs. Inputs and outputs may have any strides and any numeric storage type: elements
 * are converted on load and store. Tensors are borrowed; nothing is allocated. Which elements a tile holds never
 * depends on threads.
 *
 * An example: y = relu(x * a + b) has the inputs x, a and b in registers 0, 1 and 2, and three operations,
 *     3 = mul(0, 1)   4 = add(3, 2)   3 = relu(4)
 * with out_reg {3}. For x (2,1000) of f16 and a, b (1000) of f32 a tile is a run of elements of one row: x is converted
 * to f32 into register 0, a and b are read where they lie, each operation is one loop over the tile, and register 3 is
 * converted back. The next tile follows; no tensor of x * a is ever written. */
#ifndef NCK_CPU_TILE_H
#define NCK_CPU_TILE_H

#include "base/dtype.h"
#include "base/shape.h"
#include "base/threads.h"
#include "kernels/lanes/lanes.h"

#include <stdbool.h>
#include <stdint.h>

#define NCK_TILE_MAX_REG 32
#define NCK_TILE_MAX_OUT 8

typedef struct nck_tile_op {
    uint16_t lane; /* nck_lane */
    uint16_t dst;
    uint16_t src[3]; /* as many as the lane has inputs */
    double param[2];
} nck_tile_op;

typedef struct nck_tile_prog {
    nc_dtype compute; /* FLOAT, DOUBLE, INT64 or UINT64 */
    int n_in, n_out, n_reg, n_op;
    const nck_tile_op *op;
    const uint16_t *out_reg; /* n_out registers */
} nck_tile_prog;

/* The compute type of a storage type: FLOAT for f16, bf16 and f32, DOUBLE for f64, UINT64 for u64, INT64 for the other
 * integers and bool; UNDEFINED for what tiles cannot hold. */
nc_dtype nck_tile_compute(nc_dtype storage);

/* Within the limits above, registers in range and written before they are read, lanes known and allowed for the type.
 */
bool nck_tile_check(const nck_tile_prog *p);

/* Runs a checked program. out[0..n_out-1] have equal dims and do not repeat elements; in[0..n_in-1] broadcast to
 * them. All storage types are such that nck_tile_compute knows them. An output may be the very memory of an input
 * when both have the same element size and strides; other overlaps are not allowed. pool may be NULL. On load and
 * store: bool is x != 0; floats become integers towards zero, NaN as 0, clamped to 64 bits; integers wrap. */
void nck_tile_run(const nck_tile_prog *p, nc_tensor *const *in, nc_tensor *const *out, nc_pool *pool);

enum { NCK_TILE_PIECE = 2048 }; /* floats of the room that rows go through */
/* What is done to rows of a program's result while they are in the cache: `then` is called with the x of some rows from
 * `row` on, or of part number `part` of one. */
typedef struct nck_tile_rows {
    int64_t rows, cols;
    float *y; /* (rows, cols), where x stays; NULL: it is gone after `then`, and at most NCK_TILE_PIECE */
    void (*then)(const struct nck_tile_rows *r, int64_t row, int64_t part, float *x, int64_t n);
    void *ctx;
} nck_tile_rows;
/* Parts of a row: 1 where x stays or fits the room. */
int64_t nck_tile_parts(const nck_tile_rows *r);
/* Runs a checked program of floats with one output like `shape`, which is dense and (rows, cols) in all, its data not
 * set, in[i] broadcasting to it. Which rows or parts `then` gets depends on the sizes alone. */
void nck_tile_run_rows(const nck_tile_prog *p, nc_tensor *const *in, nc_tensor *shape, const nck_tile_rows *r,
                       nc_pool *pool);

/* An operand of nck_tile_run_flat: n floats side by side (period 0), or `period` floats over and over; a period
 * divides 16. */
typedef struct nck_tile_run_in {
    const float *data;
    int64_t period;
} nck_tile_run_in;
/* Runs a checked program of floats with one output, which writes to no register of an input, over n of them in the
 * calling thread: what other kernels do to their results while these are in the cache. out may be the memory of an
 * operand of period 0; other overlaps are not allowed. */
void nck_tile_run_flat(const nck_tile_prog *p, const nck_tile_run_in *in, float *out, int64_t n);

/* The same as nck_tile_run, element by element; each word of a formula is computed in double with libm and rounded to
 * the compute type. */
void nck_tile_ref_run(const nck_tile_prog *p, const nc_tensor *in, const nc_tensor *out);

#endif
