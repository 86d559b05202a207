/* kernels/cpu/move/move.h: moving elements without computing: copy, fill, convert, gather and its gradient, nonzero.
 * Strides are in elements and may be 0 or negative where read; written elements must be distinct, and sources never
 * overlap destinations. Elements must be aligned for their size but where a function says otherwise.
 * A piece of a concat is an nck_copy into a view of the result. Strings are not moved here. */
#ifndef NCK_MOVE_H
#define NCK_MOVE_H

#include "base/narrow.h"
#include "base/shape.h"
#include "base/status.h"
#include "base/threads.h"

/* dst = src, elements of 1, 2, 4, 8 or 16 bytes, which may be unaligned. */
void nck_copy(int rank, const int64_t *dims, size_t elem_bytes, const void *src, const int64_t *src_strides, void *dst,
              const int64_t *dst_strides, nc_pool *pool);
void nck_copy_ref(int rank, const int64_t *dims, size_t elem_bytes, const void *src, const int64_t *src_strides,
                  void *dst, const int64_t *dst_strides);

/* dst (cols, rows) = src (rows, cols) transposed, words of 4 bytes; a row of src is dense, and so is a row of dst. */
void nck_turn_words(int64_t rows, int64_t cols, const void *src, int64_t src_row, void *dst, int64_t dst_col);

/* nck_copy for elements of fewer than 8 bits: src has any strides from a whole byte on, dst is dense. */
void nck_copy_packed(const nc_tensor *src, const nc_tensor *dst, nc_pool *pool);
void nck_fill_packed(const nc_tensor *dst, uint8_t code); /* dst is dense */

/* dst = *value, one element of 1, 2, 4, 8 or 16 bytes. */
void nck_fill(int rank, const int64_t *dims, size_t elem_bytes, const void *value, void *dst,
              const int64_t *dst_strides, nc_pool *pool);

/* dst = (type of dst) src, same dims. Integers wrap; float to integer truncates and saturates at the ends, of 8 and
 * 16 bits at those of int32, whose low bits it keeps; NaN gives 0; anything to bool is x != 0; to half types one
 * rounding from f32 or f64; narrow types as base/narrow.h says. Packed tensors are dense. UNSUPPORTED for strings and
 * for complex with another type. */
NC_MUST nc_code nck_convert(const nc_tensor *src, const nc_tensor *dst, nc_pool *pool); /* saturates, rounds up */
NC_MUST nc_code nck_convert_how(const nc_tensor *src, const nc_tensor *dst, nc_narrowing how, nc_pool *pool);

/* Gather along an axis: data (outer, axis, inner), index (n), out (outer, n, inner), all dense; inner_bytes is the size
 * of one inner row. idx_type is NC_INT32 or NC_INT64; an index below 0 counts from the end. An index outside
 * [-axis, axis) gives DATA and the first such index in *bad; nothing is written then. bad may be NULL. */
NC_MUST nc_code nck_gather(int64_t outer, int64_t axis, size_t inner_bytes, const void *data, nc_dtype idx_type,
                           int64_t n, const void *index, void *out, int64_t *bad, nc_pool *pool);

/* Gather's gradient: data (outer, axis, inner) is 0, with `onto` what it was, and src (outer, n, inner) is added where
 * index (n) says so. Equal indices are added in the order of n. Types f32, f64, i32, i64, each added in its own type;
 * others give UNSUPPORTED. */
NC_MUST nc_code nck_gather_grad(nc_dtype type, int64_t outer, int64_t axis, int64_t inner, void *data, bool onto,
                                nc_dtype idx_type, int64_t n, const void *index, const void *src, int64_t *bad,
                                nc_pool *pool);

/* Indices of the elements that are not zero (NaN is not, -0.0 is), in row-major order: out (rank, count) int64, dense
 * with the true count, which is returned. Its bound is the number of elements; rank 0 writes nothing. Any numeric
 * type; x may be strided. Grows with numel. */
size_t nck_nonzero_workspace(int64_t numel);
int64_t nck_nonzero(const nc_tensor *x, int64_t *out, void *workspace, nc_pool *pool);

#endif
