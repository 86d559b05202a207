/* ops/window.h: the attributes of a window that slides over spatial dims (strides, dilations, pads, auto_pad,
 * ceil_mode), read once for inference and for kernels. Shared by convolutions, pools and Col2Im. */
#ifndef NC_OPS_WINDOW_H
#define NC_OPS_WINDOW_H

#include "ir/card.h"
#include "kernels/cpu/conv/window.h"

typedef enum nc_auto_pad { NC_PAD_NOTSET, NC_PAD_SAME_UPPER, NC_PAD_SAME_LOWER, NC_PAD_VALID } nc_auto_pad;

enum { NC_WINDOW_MAX_SPATIAL = NC_MAX_RANK - 3 };

typedef struct nc_window {
    int n_spatial;
    int64_t group; /* convolutions only; else 0 */
    nc_auto_pad auto_pad;
    bool ceil;
    int64_t strides[NC_WINDOW_MAX_SPATIAL], dilations[NC_WINDOW_MAX_SPATIAL];
    int64_t pads[2 * NC_WINDOW_MAX_SPATIAL]; /* all begins, then all ends; 0 with auto_pad */
} nc_window;

/* Attributes that the op's version does not have count as absent. */
NC_MUST nc_code nc_window_read(nc_work *w, const nc_node *n, int n_spatial, nc_window *a);

/* `count` numbers of an attribute, each at least `low`; `absent` where it is not written. */
NC_MUST nc_code nc_window_ints(nc_work *w, const nc_node *n, const char *name, int count, int64_t low, int64_t absent,
                               int64_t *out);

/* The padding along spatial dim i of an input of size `in` under a window of k. */
void nc_window_pads(const nc_window *a, int i, int64_t in, int64_t k, int64_t *begin, int64_t *end);

/* How many places the window has along spatial dim i. */
const nc_dim *nc_window_out(nc_dims *t, const nc_window *a, int i, const nc_dim *in, const nc_dim *k);

/* The kernels' form: sizes in front are 1 where there are fewer than three dims. `in`, `k` and `out`: n_spatial each.
 */
nck_window nc_window_kernel(const nc_window *a, const int64_t *in, const int64_t *k, const int64_t *out);

/* window_parts.c: the transpose of a convolution with W (C,M/group,k...): dY (N,C,...) spread over dims like those of
 * X, with the window's pads `begin`. */
nc_value *nc_window_spread(nc_builder *b, const nc_window *a, nc_value *dy, nc_value *w, nc_value *x,
                           const int64_t *begin);
/* The pads in front and behind of every spatial dim; false: they depend on sizes that are not known. k: of the window.
 */
bool nc_window_known_pads(const nc_window *a, const nc_value *x, const int64_t *k, int64_t *begin, int64_t *end);

/* Bindings serve this many spatial dims. */
#define NC_WINDOW_KERNEL_DIMS NCK_WINDOW_DIMS

#endif
