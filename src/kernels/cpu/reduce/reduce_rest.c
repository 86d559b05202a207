/* kernels/cpu/reduce/reduce_rest.c: the loops of reductions over doubles and integers; see reduce.c. */
#include "kernels/cpu/reduce/reduce_job.h"

#include "base/intmath.h"
#include "kernels/cpu/per_type.h"

#include <math.h>

#define SUFFIX f64
#define ELEM double
#define ACC double
#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#define IS_NAN IS_NAN_FLOAT
#define LOW (double)-INFINITY
#define HIGH (double)INFINITY
#define FINISH_MEAN(a, n) ((a) / (double)(n))
#define VECTORS
#define DENSE(op) (is_sum(op) ? j->table->f64.sum : op == NCK_REDUCE_MAX ? j->table->f64.max : j->table->f64.min)
#include "kernels/cpu/reduce/reduce_type.inc"

#define SUFFIX i32
#define ELEM int32_t
#define ACC int64_t
#define ADD(a, b) (int64_t)((uint64_t)(a) + (uint64_t)(b))
#define MUL(a, b) (int64_t)((uint64_t)(a) * (uint64_t)(b))
#define IS_NAN IS_NAN_INT
#define LOW INT32_MIN
#define HIGH INT32_MAX
#define FINISH_MEAN(a, n) (int32_t)((n) ? (a) / (n) : 0)
#include "kernels/cpu/reduce/reduce_type.inc"

#define SUFFIX i64
#define ELEM int64_t
#define ACC int64_t
#define ADD(a, b) (int64_t)((uint64_t)(a) + (uint64_t)(b))
#define MUL(a, b) (int64_t)((uint64_t)(a) * (uint64_t)(b))
#define IS_NAN IS_NAN_INT
#define LOW INT64_MIN
#define HIGH INT64_MAX
#define FINISH_MEAN(a, n) ((n) ? (a) / (n) : 0)
#include "kernels/cpu/reduce/reduce_type.inc"

#define SUFFIX u64
#define ELEM uint64_t
#define ACC uint64_t
#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#define IS_NAN IS_NAN_INT
#define LOW 0
#define HIGH UINT64_MAX
#define FINISH_MEAN(a, n) ((n) ? (a) / (uint64_t)(n) : 0)
#include "kernels/cpu/reduce/reduce_type.inc"

const reduce_loops nck_reduce_rest[N_REDUCE_REST] = {REDUCE_LOOPS(NC_DOUBLE, f64), REDUCE_LOOPS(NC_INT32, i32),
                                                     REDUCE_LOOPS(NC_INT64, i64), REDUCE_LOOPS(NC_UINT64, u64)};
