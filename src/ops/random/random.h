/* ops/random/random.h: what kernels of random ops and their gradients share. */
#ifndef NC_OPS_RANDOM_H
#define NC_OPS_RANDOM_H

#include "ops/binding.h"

/* Dropout's ratio: input i_ratio (a float scalar; absent: 0.5), or 0 when input i_training is absent or false. Both
 * are host arguments. DATA when it is not in [0, 1]. */
NC_MUST nc_code nc_dropout_ratio(const nc_call *c, int i_ratio, int i_training, double *ratio);

/* Kernels of generators_cpu.c. */
#define NC_DRAW_WORKSPACE(name) \
    size_t name(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out)
/* Rows of nc_draw_prepare whose numbers have two parameters, by their attributes; NULL: they have none. */
typedef struct nc_draw_row {
    bool normal;
    const char *a, *b; /* mean and scale, or low and high */
} nc_draw_row;
/* What nc_draw_prepare reads. */
typedef struct nc_drawing {
    uint32_t node_id;
    bool has_seed, normal;
    uint32_t seed;
    double a, b; /* low and high, or mean and scale */
} nc_drawing;
void nc_drawing_read(const nc_node *n, const nc_draw_row *row, nc_drawing *d);
NC_MUST nc_code nc_draw_prepare(nc_prep *p);
NC_DRAW_WORKSPACE(nc_draw_workspace);
NC_MUST nc_code nc_draw_numbers(const nc_call *c);
NC_DRAW_WORKSPACE(nc_draw_flags_workspace);
NC_MUST nc_code nc_draw_flags(const nc_call *c);
NC_DRAW_WORKSPACE(nc_draw_classes_workspace);
NC_MUST nc_code nc_draw_classes(const nc_call *c);

#endif
