/* kernels/cpu/reduce/reduce_job.h: what reduce.c and the loops of each type share. Those of floats are in reduce.c,
 * those of doubles and integers, which are compiled small, in reduce_rest.c. */
#ifndef NCK_REDUCE_JOB_H
#define NCK_REDUCE_JOB_H

#include "kernels/cpu/move/walk.h"
#include "kernels/cpu/reduce/reduce.h"
#include "kernels/cpu/reduce/reduce_kernel.h"

enum {
    SEGMENT = NCK_REDUCE_SEGMENT,
    RUN = NCK_REDUCE_RUN,
    STRIP = 64,      /* columns summed together */
    STRIP_ROWS = 32, /* rows added one by one before they enter the tree */
    ITEM = 16384,    /* elements an item aims at */
    SHORT = 8,       /* elements of an output that are not worth a run */
    SHORT_MAX = 32,  /* the same of the largest, which ABREAST outputs get together */
    ABREAST = 8,
    JOIN_ITEM = 4096,
    TREE = 64,      /* levels of a tree over any count */
    STRIP_TREE = 16 /* levels of a tree over the strips of a segment */
};

typedef struct reduce_job {
    nck_reduce_op op;
    const nc_tensor *x;
    void *out, *parts; /* parts (n_out, n_segments), in the accumulator's type */
    /* kept: without the strip's dim when columns; reduced: without its inner dim when rows */
    const nck_walk *kept, *reduced;
    int64_t n_out, n_reduced, n_segments;
    int64_t inner, inner_stride; /* rows: the inner reduced dim; columns: the strip's dim */
    int64_t group, n_groups;     /* outputs (rows) or strips (columns) per item; items per segment */
    int64_t n_strips;            /* strips per row of outputs */
    const nck_reduce_table *table;
} reduce_job;

static inline bool is_sum(nck_reduce_op op) { return op == NCK_REDUCE_SUM || op == NCK_REDUCE_MEAN; }

/* Items of nc_parallel over a reduce_job. */
typedef struct reduce_loops {
    nc_dtype type;
    void (*rows)(void *, int64_t), (*columns)(void *, int64_t), (*join)(void *, int64_t);
} reduce_loops;
#define REDUCE_LOOPS(T, S) \
    { T, reduce_rows_item_##S, reduce_columns_item_##S, reduce_join_item_##S }

enum { N_REDUCE_REST = 4 };
extern const reduce_loops nck_reduce_rest[N_REDUCE_REST];

#endif
