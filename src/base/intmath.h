/* base/intmath.h: the whole-number arithmetic that cutting work and laying out memory needs: the smaller and the larger
 * of two, how many pieces, rounding up. Dims and counts are int64_t, sizes are size_t. None of it checks for overflow:
 * what comes from a model goes through the checked products of base/shape.h first. */
#ifndef NC_INTMATH_H
#define NC_INTMATH_H

#include <stddef.h>
#include <stdint.h>

static inline int64_t nc_min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t nc_max64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline size_t nc_min_size(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t nc_max_size(size_t a, size_t b) { return a > b ? a : b; }

/* How many pieces of b cover a: 7 in pieces of 3 is 3. a is not negative, b is positive. */
static inline int64_t nc_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
/* The least multiple of b that is not below a: 7 to a multiple of 3 is 9. */
static inline int64_t nc_round_up(int64_t a, int64_t b) { return nc_ceil_div(a, b) * b; }
static inline size_t nc_round_up_size(size_t a, size_t b) { return (a + b - 1) / b * b; }

/* Bytes, or an address, rounded up to the 64 of a cache line: what workspaces and packed weights are aligned to. */
static inline size_t nc_align64(size_t n) { return (n + 63) & ~(size_t)63; }
static inline void *nc_align64_pointer(void *p) { return (void *)(((uintptr_t)p + 63) & ~(uintptr_t)63); }

#endif
