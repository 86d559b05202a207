/* kernels/cpu/reduce/along.c: see along.h. x is seen as (outer, n, inner), the axis in the middle; an item is a strip
 * of neighbouring lines, walked together row by row, so that memory is read in order. Where a line's own
 * elements are neighbours (inner is 1) an item is some whole lines, walked one after the other. */
#include "kernels/cpu/reduce/along.h"

#include "base/intmath.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/per_type.h"
#include "kernels/cpu/reduce/reduce_kernel.h"

enum { STRIP = 64, WIDE = 512, STEP = 16, ITEM = 4096 }; /* WIDE: lines of a strip that are summed */

typedef struct along_job {
    const void *x;
    void *out;
    int64_t n, inner, outer;
    int64_t strip, n_strips; /* inner > 1: lines of a strip, strips side by side */
    int64_t per_item;        /* inner == 1: lines of an item */
    bool smallest, last;
    bool product, exclusive, reverse;
} along_job;

/* The item's lines: x + *from, as many as is returned: side by side with rows `inner` apart, or behind one another. */
static int64_t along_strip_of(const along_job *j, int64_t item, int64_t *from, int64_t *first) {
    if (j->inner == 1) {
        *first = item * j->per_item;
        *from = *first * j->n;
        return nc_min64(j->per_item, j->outer - *first);
    }
    int64_t outer = item / j->n_strips, c = item % j->n_strips * j->strip;
    *from = outer * j->n * j->inner + c;
    *first = outer * j->inner + c;
    return nc_min64(j->strip, j->inner - c);
}

/* Where the extreme of a line of floats is. Pieces are compared by vectors, and only the one that has it is searched;
 * the first one with a NaN is that. */
enum { PIECE = 128, BRIEF = 24, SOME = 1 << 20 }; /* BRIEF: just walked; SOME: rows whose numbers fit a PLACE */

#define ALONG_EXTREME(S, T)                                                                                  \
    static int64_t along_extreme_##S(const along_job *j, const T *x) {                                       \
        const nck_reduce_##S *table = &nck_isa_get()->reduce->S;                                             \
        int64_t pieces = nc_ceil_div(j->n, PIECE), step = j->last ? -1 : 1, found = 0;                       \
        T best = 0;                                                                                          \
        for (int64_t i = 0; i < pieces && best == best; i++) {                                               \
            int64_t p = j->last ? pieces - 1 - i : i, n = nc_min64(PIECE, j->n - p * PIECE);                 \
            T here = j->smallest ? table->min(x + p * PIECE, n) : table->max(x + p * PIECE, n);              \
            if (i == 0 || here != here || (j->smallest ? here < best : here > best)) best = here, found = p; \
        }                                                                                                    \
        int64_t at = j->last ? nc_min64((found + 1) * PIECE, j->n) - 1 : found * PIECE;                      \
        while (best == best ? x[at] != best : x[at] == x[at]) at += step;                                    \
        return at;                                                                                           \
    }
ALONG_EXTREME(f32, float)
ALONG_EXTREME(f64, double)
#define TIMES(a, by) ((a) * (by))
#define INVERTED(a, bits) ((a) ^ (bits)) /* all bits turn the order of signed and of unsigned integers round */

#define SUFFIX f32
#define ELEM float
#define PLACE int32_t
#define IS_NAN IS_NAN_FLOAT
#define FLIP TIMES
#define FLIPS -1
#define FLIPS_NOT 1
#define EXTREME_OF along_extreme_f32
#include "kernels/cpu/reduce/along_arg.inc"

#define SUFFIX f64
#define ELEM double
#define PLACE int64_t
#define IS_NAN IS_NAN_FLOAT
#define FLIP TIMES
#define FLIPS -1
#define FLIPS_NOT 1
#define EXTREME_OF along_extreme_f64
#include "kernels/cpu/reduce/along_arg.inc"

#define SUFFIX i32
#define ELEM int32_t
#define PLACE int32_t
#define IS_NAN IS_NAN_INT
#define FLIP INVERTED
#define FLIPS -1
#define FLIPS_NOT 0
#define EXTREME_OF along_arg_line_i32
#include "kernels/cpu/reduce/along_arg.inc"

#define SUFFIX i64
#define ELEM int64_t
#define PLACE int64_t
#define IS_NAN IS_NAN_INT
#define FLIP INVERTED
#define FLIPS -1
#define FLIPS_NOT 0
#define EXTREME_OF along_arg_line_i64
#include "kernels/cpu/reduce/along_arg.inc"

#define SUFFIX u64
#define ELEM uint64_t
#define PLACE int64_t
#define IS_NAN IS_NAN_INT
#define FLIP INVERTED
#define FLIPS -1
#define FLIPS_NOT 0
#define EXTREME_OF along_arg_line_u64
#include "kernels/cpu/reduce/along_arg.inc"

#define SUFFIX f32
#define ELEM float
#define ACC double
#include "kernels/cpu/reduce/along_cumulate.inc"

#define SUFFIX f64
#define ELEM double
#define ACC double
#include "kernels/cpu/reduce/along_cumulate.inc"

#define SUFFIX i32
#define ELEM int32_t
#define ACC uint64_t
#include "kernels/cpu/reduce/along_cumulate.inc"

#define SUFFIX i64
#define ELEM int64_t
#define ACC uint64_t
#include "kernels/cpu/reduce/along_cumulate.inc"

static const struct {
    nc_dtype type;
    void (*arg)(void *, int64_t), (*cumulate)(void *, int64_t);
} loops[] = {{NC_FLOAT, along_arg_f32, along_cumulate_f32},
             {NC_DOUBLE, along_arg_f64, along_cumulate_f64},
             {NC_INT32, along_arg_i32, along_cumulate_i32},
             {NC_INT64, along_arg_i64, along_cumulate_i64},
             {NC_UINT64, along_arg_u64, along_cumulate_i64}};
enum { N_LOOPS = sizeof loops / sizeof loops[0] };

/* Which loops; N_LOOPS: none. Fills in the job's sizes and the number of items. */
static int along_start(along_job *j, const nc_tensor *x, int axis, int64_t *n_items) {
    int type = 0;
    while (type < N_LOOPS && loops[type].type != x->dtype) type++;
    j->x = x->data, j->n = x->dims[axis], j->inner = j->outer = 1;
    for (int d = 0; d < axis; d++) j->outer *= x->dims[d];
    for (int d = axis + 1; d < x->rank; d++) j->inner *= x->dims[d];
    j->n_strips = nc_ceil_div(j->inner, j->strip);
    *n_items = j->outer * j->n_strips;
    if (j->inner != 1) return type;
    bool one = j->outer <= ITEM && j->n <= ITEM && j->outer * j->n <= ITEM;
    j->per_item = one ? j->outer : nc_max64(1, ITEM / (j->n + 1));
    *n_items = one ? 1 : nc_ceil_div(j->outer, j->per_item);
    return type;
}

static nc_pool *along_pool(const nc_tensor *x, nc_pool *pool) { return nc_pool_for(pool, nc_tensor_numel(x)); }

nc_code nck_arg(const nc_tensor *x, int axis, bool smallest, bool last, int64_t *out, nc_pool *pool) {
    along_job j = {.out = out, .strip = STRIP, .smallest = smallest, .last = last};
    int64_t n_items;
    int type = along_start(&j, x, axis, &n_items);
    if (type == N_LOOPS) return NC_E_UNSUPPORTED;
    if (j.n > 0) nc_parallel(along_pool(x, pool), n_items, loops[type].arg, &j);
    return NC_OK;
}

nc_code nck_cumulate(const nc_tensor *x, int axis, bool product, bool exclusive, bool reverse, void *out,
                     nc_pool *pool) {
    along_job j = {.out = out, .strip = WIDE, .product = product, .exclusive = exclusive, .reverse = reverse};
    int64_t n_items;
    int type = along_start(&j, x, axis, &n_items);
    if (type == N_LOOPS) return NC_E_UNSUPPORTED;
    nc_parallel(along_pool(x, pool), n_items, loops[type].cumulate, &j);
    return NC_OK;
}
