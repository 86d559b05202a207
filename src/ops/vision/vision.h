/* ops/vision/vision.h: what cards and bindings of Resize share: where its arguments stand in each version. */
#ifndef NC_OPS_VISION_VISION_H
#define NC_OPS_VISION_VISION_H

#include "kernels/cpu/vision/resize.h"
#include "kernels/cpu/vision/sample.h"
#include "ops/binding.h"
#include "ops/build.h"
#include "ops/card.h"

/* Inputs by number, -1: the version has none. ResizeGrad has its shape before them. */
typedef struct nc_resize_inputs {
    int roi, scales, sizes;
} nc_resize_inputs;
nc_resize_inputs nc_resize_inputs_of(const nc_node *n);

/* Resize 10 and Upsample: asymmetric places, nearest rounds down. */
bool nc_resize_is_old(const nc_node *n);

/* Are aligned corners those of the length that the axis gets, rounded down? ONNX's text and suite say no; PyTorch's
 * exporter means it so, as PyTorch does, and the file says who made it. */
bool nc_resize_is_whole(const nc_node *n);
/* Which reading was taken; NULL where lengths are asked for, which are whole. */
const char *nc_resize_note(const nc_node *n);

/* How often an axis of `size` is scaled when lengths are asked for, and what length it gets; keep: 0 stretch, -1 not
 * larger, 1 not smaller. want and size are for the n axes; scale and out are filled. */
void nc_resize_fit(int keep, int n, const int64_t *size, const int64_t *want, double *scale, int64_t *out);
NC_MUST nc_code nc_resize_keep(nc_work *w, const nc_node *n, int *keep);

/* What GridSample and its gradient say in attributes; tensors are left NULL. */
NC_MUST nc_code nc_grid_sample_read(nc_work *w, const nc_node *n, nck_grid_sample *s);
/* Whether X and the grid of a call fit together. */
NC_MUST nc_code nc_grid_sample_check(const nc_call *c);

/* Of RoiAlign and what its gradients are made of. */
bool nc_roi_align_is_half_pixel(const nc_node *n);

/* Bindings. */
/* Of NonMaxSuppression: whether boxes and scores fit each other; input i, one number in host memory; NULL: absent. */
NC_MUST nc_code nc_nms_check(const nc_call *c);
const void *nc_nms_scalar(const nc_call *c, int i);
NC_MUST nc_code nc_image_prepare(nc_prep *p);
NC_MUST nc_code nc_image_decode(nc_dyn *d);
/* What nc_resize_prepare makes serves every device: the rule, and for a call with it as its state the axes that are
 * resized from x to y, their taps counted, without tables. */
NC_MUST nc_code nc_resize_prepare(nc_prep *p);
const nck_resize_rule *nc_resize_rule(const void *state);
NC_MUST nc_code nc_resize_axes(const nc_call *c, const nc_tensor *x, const nc_tensor *y, nck_resize_axis *axes, int *n);
/* What stands outside of a crop, as an element of type t. */
NC_MUST nc_code nc_resize_outside(const void *state, nc_dtype t, char value[16]);
size_t nc_resize_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_resize_run(const nc_call *c);
size_t nc_resize_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
NC_MUST nc_code nc_resize_grad_run(const nc_call *c);

#endif
