/* ops/vision/vision_cuda.c: CUDA bindings of the vision family: Resize, Upsample and nacre.ResizeGrad. Nearest moves
 * elements of any type; linear and cubic are for floats. Crops (tf_crop_and_resize) go to the host. */
#include "kernels/cuda/resize.h"

#include "ops/vision/vision.h"

#include <string.h>

typedef struct resize {
    void *how; /* of nc_resize_prepare */
    nck_cuda_resize kernel;
} resize;

static bool is_nearest(const nc_node *n) { return strcmp(nc_attr_str(n, "mode"), "nearest") == 0; }

static bool crops(const nc_node *n) {
    return !nc_resize_is_old(n) && strcmp(nc_attr_str(n, "coordinate_transformation_mode"), "tf_crop_and_resize") == 0;
}

static bool resize_fits(const nc_node *n, const char **why) {
    const nc_type *x = n->in[0]->type;
    *why = "crops are the host's";
    if (x == NULL || x->kind != NC_T_TENSOR || crops(n)) return false;
    *why = "linear and cubic are for floats, nearest for elements of 1, 2, 4 or 8 bytes";
    return is_nearest(n) ? nck_cuda_move_define(nc_dtype_bytes(x->elem)) != NULL : (NC_BIT(x->elem) & T_FLOAT_ALL) != 0;
}

static nc_code prepare(nc_prep *p, bool gradient) {
    resize *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    NC_TRY(nc_resize_prepare(p));
    s->how = p->state;
    p->state = s;
    return nck_cuda_resize_prepare(p->device, p->node->in[0]->type->elem, is_nearest(p->node) && !gradient, gradient,
                                   &s->kernel, &p->w->diag);
}

static nc_code resize_prepare(nc_prep *p) { return prepare(p, false); }
static nc_code resize_grad_prepare(nc_prep *p) { return prepare(p, true); }

static size_t resize_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const resize *s = state;
    (void)n_in, (void)n_out;
    return nck_cuda_resize_workspace(&in[0], &out[0], s->kernel.type);
}

/* small: the tensor before it is resized. */
static nc_code run(const nc_call *c, const nc_tensor *small, const nc_tensor *large) {
    const resize *s = c->state;
    nc_call as_read = *c;
    nck_resize_axis axes[NC_MAX_RANK];
    int n;
    as_read.state = s->how;
    NC_TRY(nc_resize_axes(&as_read, small, large, axes, &n));
    return nck_cuda_resize_run(&s->kernel, nck_cuda_at_call(c), nc_resize_rule(s->how), axes, n, c->in[0], c->out[0],
                               c->workspace);
}

static nc_code resize_run(const nc_call *c) { return run(c, c->in[0], c->out[0]); }
static nc_code resize_grad_run(const nc_call *c) { return run(c, c->out[0], c->in[0]); }

#define RESIZE .fits = resize_fits, .prepare = resize_prepare, .workspace = resize_workspace, .run = resize_run
const nc_binding nc_vision_cuda[] = {{.op = "Resize", RESIZE},
                                     {.op = "Upsample", RESIZE},
                                     {.op = "ResizeGrad",
                                      .domain = "nacre",
                                      .types = T_FLOAT_ALL,
                                      .fits = resize_fits,
                                      .prepare = resize_grad_prepare,
                                      .workspace = resize_workspace,
                                      .run = resize_grad_run},
                                     {0}};
