/* ops/vision/vision_cuda.c: CUDA bindings of the vision family: Resize, Upsample, nacre.ResizeGrad, RoiAlign and
 * GridSample with their gradients, MaxRoiPool's places, NonMaxSuppression. Resizing by nearest moves elements of any
 * type; linear and cubic are for floats. The others run as what their cards are made of. */
#include "kernels/cuda/nms.h"
#include "kernels/cuda/resize.h"
#include "kernels/cuda/roi.h"
#include "kernels/cuda/sample.h"

#include "ops/vision/vision.h"

#include <string.h>

typedef struct resize {
    void *how; /* of nc_resize_prepare */
    nck_cuda_resize kernel;
} resize;

static bool is_nearest(const nc_node *n) { return strcmp(nc_attr_str(n, "mode"), "nearest") == 0; }

static bool resize_fits(const nc_node *n, const char **why) {
    const nc_type *x = n->in[0]->type;
    *why = "linear and cubic are for floats, nearest for elements of 1, 2, 4 or 8 bytes";
    if (x == NULL || x->kind != NC_T_TENSOR) return false;
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
static nc_code run(const nc_call *c, const nc_tensor *small, const nc_tensor *large, nck_resize_axis *axes, int *n) {
    const resize *s = c->state;
    nc_call as_read = *c;
    as_read.state = s->how;
    NC_TRY(nc_resize_axes(&as_read, small, large, axes, n));
    return nck_cuda_resize_run(&s->kernel, nck_cuda_at_call(c), nc_resize_rule(s->how), axes, *n, c->in[0], c->out[0],
                               c->workspace);
}

static nc_code resize_run(const nc_call *c) {
    const resize *s = c->state;
    nck_resize_axis axes[NC_MAX_RANK];
    char value[16];
    int n;
    NC_TRY(run(c, c->in[0], c->out[0], axes, &n));
    if (nc_resize_rule(s->how)->coords != NCK_COORDS_TF_CROP) return NC_OK;
    NC_TRY(nc_resize_outside(s->how, c->out[0]->dtype, value));
    return nck_cuda_resize_fill_outside(&s->kernel, nck_cuda_at_call(c), nc_resize_rule(s->how), axes, n, c->out[0],
                                        value);
}

static nc_code resize_grad_run(const nc_call *c) {
    nck_resize_axis axes[NC_MAX_RANK];
    int n;
    return run(c, c->out[0], c->in[0], axes, &n);
}

/* ---- RoiAlign ---- */

typedef struct regions {
    bool max, half_pixel;
    int64_t ratio;
    double scale;
    nck_cuda_roi_kernel kernel;
} regions;

static nc_code roi_prepare(nc_prep *p) {
    const nc_node *n = p->node;
    regions *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (regions){.max = strcmp(nc_attr_str(n, "mode"), "max") == 0,
                   .half_pixel = nc_roi_align_is_half_pixel(n),
                   .ratio = nc_attr_int(n, "sampling_ratio"),
                   .scale = nc_attr_float(n, "spatial_scale")};
    p->state = s;
    return nck_cuda_roi_prepare(p->device, n->in[0]->type->elem, &s->kernel, &p->w->diag);
}

/* y: the result, or its gradient. */
static nc_code roi_of(const nc_call *c, const nc_tensor *y, nck_cuda_roi *out) {
    const regions *s = c->state;
    const nc_tensor *x = c->in[0], *rois = c->in[1];
    if (rois->dims[1] != 4 || nc_tensor_numel(c->in[2]) != y->dims[0])
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "expected four numbers and one batch index per region");
    if (nc_tensor_numel(y) > 0 && nc_tensor_numel(x) == 0)
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "X is empty");
    *out = (nck_cuda_roi){.regions = y->dims[0],
                          .images = x->dims[0],
                          .C = x->dims[1],
                          .H = x->dims[2],
                          .W = x->dims[3],
                          .h = y->dims[2],
                          .w = y->dims[3],
                          .ratio = s->ratio,
                          .scale = s->scale,
                          .max = s->max,
                          .half_pixel = s->half_pixel};
    return NC_OK;
}

static nc_code roi_run(const nc_call *c) {
    const regions *s = c->state;
    nck_cuda_roi a;
    NC_TRY(roi_of(c, c->out[0], &a));
    return nck_cuda_roi_run(&s->kernel, c, &a, c->in[0]->data, c->in[c->n_in > 3 ? 3 : 0]->data, c->in[1]->data,
                            c->in[2]->data, c->out[0]->data);
}

static size_t roi_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return nck_cuda_roi_grad_workspace(nc_tensor_numel(&in[0]), in[0].dtype);
}

static nc_code roi_grad_run(const nc_call *c) {
    const regions *s = c->state;
    nck_cuda_roi a;
    NC_TRY(roi_of(c, c->in[3], &a));
    return nck_cuda_roi_grad_run(&s->kernel, c, &a, c->in[0]->data, c->in[1]->data, c->in[2]->data, c->in[3]->data,
                                 c->n_out > 0 ? c->out[0]->data : NULL, c->n_out > 1 ? c->out[1]->data : NULL);
}

/* ---- MaxRoiPlaces ---- */

typedef struct places {
    double scale;
    nc_function *f;
} places;

static nc_code places_prepare(nc_prep *p) {
    places *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    s->scale = nc_attr_float(p->node, "spatial_scale");
    p->state = s;
    return nck_cuda_roi_places_prepare(p->device, p->node->in[0]->type->elem, &s->f, &p->w->diag);
}

static nc_code places_run(const nc_call *c) {
    const places *s = c->state;
    const nc_tensor *x = c->in[0], *rois = c->in[1], *y = c->out[0];
    if (rois->dims[1] != 5)
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "expected five numbers per region, got %lld",
                           (long long)rois->dims[1]);
    nck_cuda_roi a = {.regions = y->dims[0],
                      .images = x->dims[0],
                      .C = x->dims[1],
                      .H = x->dims[2],
                      .W = x->dims[3],
                      .h = y->dims[2],
                      .w = y->dims[3],
                      .scale = s->scale};
    return nck_cuda_roi_places_run(s->f, c, &a, x->data, rois->data, y->data);
}

/* ---- GridSample ---- */

typedef struct sampling {
    nck_grid_sample how;
    nck_cuda_sample_kernel kernel;
} sampling;

static bool sample_fits(const nc_node *n, const char **why) {
    const nc_type *x = n->in[0]->type, *grid = n->in[1]->type;
    *why = "the rank of X, or the type of the grid, is not known";
    if (x == NULL || x->rank < 3 || x->rank > 2 + NCK_SAMPLE_MAX_DIMS) return false;
    return grid != NULL && (NC_BIT(grid->elem) & T_FLOAT_ALL) != 0;
}

static nc_code prepare_sample(nc_prep *p, bool gradient) {
    const nc_node *n = p->node;
    const nc_type *x = n->in[0]->type;
    sampling *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    p->state = s;
    NC_TRY(nc_grid_sample_read(p->w, n, &s->how));
    return nck_cuda_sample_prepare(p->device, x->elem, n->in[1]->type->elem, &s->how, x->rank - 2, gradient, &s->kernel,
                                   &p->w->diag);
}
static nc_code sample_prepare(nc_prep *p) { return prepare_sample(p, false); }
static nc_code sample_grad_prepare(nc_prep *p) { return prepare_sample(p, true); }

static nc_code sample_run(const nc_call *c) {
    const sampling *s = c->state;
    nck_grid_sample a = s->how;
    NC_TRY(nc_grid_sample_check(c));
    a.x = c->in[0], a.grid = c->in[1], a.y = c->out[0];
    return nc_tensor_numel(a.y) > 0 ? nck_cuda_sample_run(&s->kernel, nck_cuda_at_call(c), &a) : NC_OK;
}

static size_t sample_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)n_in, (void)n_out;
    const sampling *s = state;
    return n_out > 0 && out[0].rank > 0 ? nck_cuda_sample_workspace(&s->kernel, &in[0], &in[1]) : 0;
}

static nc_code sample_grad_run(const nc_call *c) {
    const sampling *s = c->state;
    nck_grid_sample a = s->how;
    a.x = c->in[0], a.grid = c->in[1], a.y = c->in[2];
    a.dx = c->n_out > 0 && c->out[0]->data != NULL ? c->out[0] : NULL;
    a.dgrid = c->n_out > 1 && c->out[1]->data != NULL ? c->out[1] : NULL;
    return nck_cuda_sample_grad_run(&s->kernel, nck_cuda_at_call(c), &a, c->workspace);
}

/* ---- NonMaxSuppression ---- */

typedef struct suppression {
    bool center;
    nck_cuda_nms_kernel kernel;
} suppression;

static nc_code nms_prepare(nc_prep *p) {
    suppression *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    s->center = nc_attr_int(p->node, "center_point_box") != 0;
    p->state = s;
    return nck_cuda_nms_prepare(p->device, &s->kernel, &p->w->diag);
}

static size_t nms_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return nck_cuda_nms_workspace(in[1].dims[0], in[1].dims[1], in[1].dims[2]);
}

static nc_code nms_run(const nc_call *c) {
    const suppression *s = c->state;
    const nc_tensor *boxes = c->in[0], *scores = c->in[1];
    const int64_t *most = nc_nms_scalar(c, 2);
    const float *iou = nc_nms_scalar(c, 3), *threshold = nc_nms_scalar(c, 4);
    NC_TRY(nc_nms_check(c));
    nck_cuda_nms a = {.images = scores->dims[0],
                      .classes = scores->dims[1],
                      .n = scores->dims[2],
                      .most = most != NULL && *most > 0 ? *most : 0,
                      .center = s->center,
                      .has_threshold = threshold != NULL,
                      .iou = iou != NULL ? *iou : 0,
                      .threshold = threshold != NULL ? *threshold : 0};
    if (a.most > a.n) a.most = a.n;
    return nck_cuda_nms_run(&s->kernel, nck_cuda_at_call(c), &a, boxes->data, scores->data, c->out[0]->data, c->sizes,
                            c->workspace);
}

#define ROI .types = T_FLOAT_ALL, .prepare = roi_prepare
#define SAMPLE .types = T_FLOAT_ALL, .fits = sample_fits
#define RESIZE .fits = resize_fits, .prepare = resize_prepare, .workspace = resize_workspace, .run = resize_run
const nc_binding nc_vision_cuda[] = {
    {.op = "Resize", RESIZE},
    {.op = "Upsample", RESIZE},
    {.op = "ResizeGrad",
     .domain = "nacre",
     .types = T_FLOAT_ALL,
     .fits = resize_fits,
     .prepare = resize_grad_prepare,
     .workspace = resize_workspace,
     .run = resize_grad_run},
    {.op = "RoiAlign", ROI, .run = roi_run},
    {.op = "RoiAlignAlong", .domain = "nacre", ROI, .run = roi_run},
    {.op = "RoiAlignGrad", .domain = "nacre", ROI, .workspace = roi_grad_workspace, .run = roi_grad_run},
    {.op = "MaxRoiPlaces",
     .domain = "nacre",
     .types = NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE),
     .prepare = places_prepare,
     .run = places_run},
    {.op = "GridSample", SAMPLE, .prepare = sample_prepare, .run = sample_run},
    {.op = "GridSampleAt", .domain = "nacre", SAMPLE, .prepare = sample_prepare, .run = sample_run},
    {.op = "GridSampleGrad",
     .domain = "nacre",
     SAMPLE,
     .prepare = sample_grad_prepare,
     .workspace = sample_grad_workspace,
     .run = sample_grad_run},
    {.op = "NonMaxSuppression",
     .kind = NC_K_BOUNDED,
     .prepare = nms_prepare,
     .workspace = nms_workspace,
     .run = nms_run},
    {0}};
