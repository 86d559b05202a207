/* ops/vision/vision_cpu.c: CPU bindings of the vision family. */
#include "ops/vision/vision.h"
#include "ops/widen.h"

#include "base/real.h"
#include "kernels/cpu/vision/sample.h"

#include <math.h>
#include <string.h>

#define T_WIDE (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE))

static nc_code vision_wrong(const nc_call *c, const char *text) {
    return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "%s", text);
}

static bool is(const nc_node *n, const char *attr, const char *value) {
    return strcmp(nc_attr_str(n, attr), value) == 0;
}

/* ---- GridSample, AffineGrid ---- */

static nc_code grid_prepare(nc_prep *p) {
    nck_grid_sample *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    p->state = s;
    return nc_grid_sample_read(p->w, p->node, s);
}

static bool grid_is_wide(const nc_node *n, const char **why) {
    *why = "grid is of a narrow type";
    const nc_type *grid = n->in[1]->type;
    return grid != NULL && (grid->elem == NC_FLOAT || grid->elem == NC_DOUBLE);
}

nc_code nc_grid_sample_check(const nc_call *c) {
    const nc_tensor *x = c->in[0], *grid = c->in[1];
    if (nc_tensor_numel(c->out[0]) == 0) return NC_OK;
    if (nc_tensor_numel(x) == 0) return vision_wrong(c, "X is empty");
    if (grid->dims[0] == x->dims[0] && grid->dims[grid->rank - 1] == x->rank - 2) return NC_OK;
    return vision_wrong(c, "grid has another batch, or another number of coordinates, than X");
}

static nc_code grid_sample_run(const nc_call *c) {
    nck_grid_sample s = *(const nck_grid_sample *)c->state;
    s.x = c->in[0], s.grid = c->in[1], s.y = c->out[0];
    NC_TRY(nc_grid_sample_check(c));
    if (nc_tensor_numel(s.y) > 0) nck_grid_sample_run(&s, c->pool);
    return NC_OK;
}

static nc_code grid_sample_grad_run(const nc_call *c) {
    nck_grid_sample s = *(const nck_grid_sample *)c->state;
    s.x = c->in[0], s.grid = c->in[1], s.y = c->in[2];
    s.dx = c->n_out > 0 && c->out[0]->data != NULL ? c->out[0] : NULL;
    s.dgrid = c->n_out > 1 && c->out[1]->data != NULL ? c->out[1] : NULL;
    nck_grid_sample_grad(&s, c->pool);
    return NC_OK;
}

static nc_code affine_prepare(nc_prep *p) {
    bool *align = nc_arena_alloc(p->arena, sizeof *align);
    NC_NEED(p->w, align);
    *align = nc_attr_int(p->node, "align_corners") != 0;
    p->state = align;
    return NC_OK;
}

static nc_code affine_grid_run(const nc_call *c) {
    const nc_tensor *t = c->in[0], *y = c->out[0];
    int dims = y->rank - 2;
    if (t->rank != 3 || t->dims[0] != y->dims[0] || t->dims[1] != dims || t->dims[2] != dims + 1)
        return vision_wrong(c, "theta does not fit size: expected (N, 2, 3) for 4 and (N, 3, 4) for 5 elements");
    nck_affine_grid(t, *(const bool *)c->state, y, c->pool);
    return NC_OK;
}

/* ---- RoiAlign ---- */

static nc_code roi_prepare(nc_prep *p) {
    const nc_node *n = p->node;
    nck_roi_align *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (nck_roi_align){.max = is(n, "mode", "max"),
                         .half_pixel = nc_roi_align_is_half_pixel(n),
                         .sampling_ratio = nc_attr_int(n, "sampling_ratio"),
                         .scale = nc_attr_float(n, "spatial_scale")};
    p->state = s;
    return NC_OK;
}

/* `y` is the output, or its gradient. */
static nc_code roi_read(const nc_call *c, const nc_tensor *y, nck_roi_align *out) {
    nck_roi_align s = *(const nck_roi_align *)c->state;
    s.x = c->in[0], s.rois = c->in[1], s.batch = c->in[2]->data, s.y = y;
    int64_t n = s.y->dims[0];
    if (s.rois->dims[1] != 4 || nc_tensor_numel(c->in[2]) != n)
        return vision_wrong(c, "expected four numbers and one batch index per region");
    if (nc_tensor_numel(s.y) > 0 && nc_tensor_numel(s.x) == 0) return vision_wrong(c, "X is empty");
    for (int64_t i = 0; i < n; i++)
        if (s.batch[i] < 0 || s.batch[i] >= s.x->dims[0])
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "batch index %lld is out of range for %lld images",
                               (long long)s.batch[i], (long long)s.x->dims[0]);
    *out = s;
    return NC_OK;
}

static nc_code roi_align_run(const nc_call *c) {
    nck_roi_align s;
    if (nc_tensor_numel(c->out[0]) == 0) return NC_OK;
    NC_TRY(roi_read(c, c->out[0], &s));
    s.along = c->n_in > 3 ? c->in[3] : NULL;
    nck_roi_align_run(&s, c->pool);
    return NC_OK;
}

static nc_code roi_align_grad_run(const nc_call *c) {
    nck_roi_align s;
    NC_TRY(roi_read(c, c->in[3], &s));
    s.dx = c->n_out > 0 && c->out[0]->data != NULL ? c->out[0] : NULL;
    s.drois = c->n_out > 1 && c->out[1]->data != NULL ? c->out[1] : NULL;
    nck_roi_align_grad(&s, c->pool);
    return NC_OK;
}

/* ---- MaxRoiPool ---- */

static nc_code places_prepare(nc_prep *p) {
    nck_roi_pool *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (nck_roi_pool){.scale = nc_attr_float(p->node, "spatial_scale")};
    p->state = s;
    return NC_OK;
}

static nc_code places_run(const nc_call *c) {
    nck_roi_pool s = *(const nck_roi_pool *)c->state;
    s.x = c->in[0], s.rois = c->in[1], s.y = c->out[0];
    if (s.rois->dims[1] != 5) return vision_wrong(c, "expected five numbers per region");
    for (int64_t i = 0; i < s.rois->dims[0]; i++) {
        double image = nc_tensor_get(s.rois, i * 5);
        if (!(image >= 0 && image < (double)s.x->dims[0]))
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "region %lld is of image %g, there are %lld",
                               (long long)i, image, (long long)s.x->dims[0]);
        for (int k = 1; k < 5; k++)
            if (!(fabs(nc_tensor_get(s.rois, i * 5 + k) * s.scale) < 1e9))
                return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "region %lld has a place that is no pixel",
                                   (long long)i);
    }
    if (nc_tensor_numel(s.y) > 0) nck_roi_pool_run(&s, c->pool);
    return NC_OK;
}

/* ---- NonMaxSuppression ---- */

static nc_code nms_prepare(nc_prep *p) {
    bool *center = nc_arena_alloc(p->arena, sizeof *center);
    NC_NEED(p->w, center);
    *center = nc_attr_int(p->node, "center_point_box") != 0;
    p->state = center;
    return NC_OK;
}

/* The kept ones, and the kernel's own. */
static size_t nms_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return (size_t)in[1].dims[2] * sizeof(int64_t) + nck_nms_workspace(in[1].dims[2]);
}

const void *nc_nms_scalar(const nc_call *c, int i) {
    return i < c->n_in && c->in[i]->data != NULL && nc_tensor_numel(c->in[i]) == 1 ? c->in[i]->data : NULL;
}

nc_code nc_nms_check(const nc_call *c) {
    const nc_tensor *boxes = c->in[0], *scores = c->in[1];
    if (boxes->rank == 3 && boxes->dims[0] == scores->dims[0] && boxes->dims[1] == scores->dims[2] &&
        boxes->dims[2] == 4)
        return NC_OK;
    return vision_wrong(c, "boxes and scores do not fit: expected (batch, boxes, 4) and (batch, classes, boxes)");
}

static nc_code nms_run(const nc_call *c) {
    const nc_tensor *boxes = c->in[0], *scores = c->in[1];
    const int64_t *max = nc_nms_scalar(c, 2);
    const float *iou = nc_nms_scalar(c, 3), *threshold = nc_nms_scalar(c, 4);
    int64_t n = scores->dims[2], *out = c->out[0]->data, total = 0;
    NC_TRY(nc_nms_check(c));
    nck_nms s = {.center = *(const bool *)c->state,
                 .n = n,
                 .max = max != NULL && *max > 0 ? *max : 0,
                 .iou = iou != NULL ? *iou : 0,
                 .has_threshold = threshold != NULL,
                 .threshold = threshold != NULL ? *threshold : 0};
    for (int64_t b = 0; b < scores->dims[0]; b++)
        for (int64_t k = 0; k < scores->dims[1]; k++) {
            int64_t *kept = c->workspace;
            s.boxes = (const float *)boxes->data + b * n * 4;
            s.scores = (const float *)scores->data + (b * scores->dims[1] + k) * n;
            int64_t found = nck_nms_run(&s, kept, kept + n);
            for (int64_t i = 0; i < found; i++, total++) {
                out[total * 3] = b;
                out[total * 3 + 1] = k;
                out[total * 3 + 2] = kept[i];
            }
        }
    c->sizes[0] = total;
    c->sizes[1] = 3;
    return NC_OK;
}

NC_WIDENED_HALF(grid_sample, NULL)
NC_WIDENED_HALF(grid_sample_grad, NULL)
NC_WIDENED_HALF(affine_grid, NULL)
NC_WIDENED_HALF(roi_align, NULL)
NC_WIDENED_HALF(roi_align_grad, NULL)

#define BOTH(name, fn, prep)                                                                                  \
    {name, .types = T_WIDE, .prepare = prep, .run = fn##_run}, {                                              \
        name, .types = NC_WIDEN_HALF, .prepare = prep, .workspace = fn##_half_workspace, .run = fn##_half_run \
    }
#define GRID(name)                                                                                               \
    {name, .types = T_WIDE, .fits = grid_is_wide, .prepare = grid_prepare, .run = grid_sample_run}, {            \
        name, .types = T_WIDE | NC_WIDEN_HALF, .prepare = grid_prepare, .workspace = grid_sample_half_workspace, \
              .run = grid_sample_half_run                                                                        \
    }
#define OF_NACRE(name) .domain = "nacre", .op = name
#define RESIZE .prepare = nc_resize_prepare, .workspace = nc_resize_workspace, .run = nc_resize_run

const nc_binding nc_vision_cpu[] = {
    {.op = "Resize", .types = T_WHOLE & ~T_COMPLEX, RESIZE},
    {.op = "Upsample", .types = T_WHOLE & ~T_COMPLEX, RESIZE},
    {.op = "ResizeGrad",
     .domain = "nacre",
     .types = T_FLOAT_ALL,
     .prepare = nc_resize_prepare,
     .workspace = nc_resize_grad_workspace,
     .run = nc_resize_grad_run},
    GRID(.op = "GridSample"),
    GRID(OF_NACRE("GridSampleAt")),
    {.op = "GridSampleGrad",
     .domain = "nacre",
     .types = T_WIDE,
     .fits = grid_is_wide,
     .prepare = grid_prepare,
     .run = grid_sample_grad_run},
    {.op = "GridSampleGrad",
     .domain = "nacre",
     .types = T_WIDE | NC_WIDEN_HALF,
     .prepare = grid_prepare,
     .workspace = grid_sample_grad_half_workspace,
     .run = grid_sample_grad_half_run},
    BOTH(.op = "AffineGrid", affine_grid, affine_prepare),
    BOTH(.op = "RoiAlign", roi_align, roi_prepare),
    BOTH(OF_NACRE("RoiAlignAlong"), roi_align, roi_prepare),
    BOTH(OF_NACRE("RoiAlignGrad"), roi_align_grad, roi_prepare),
    {OF_NACRE("MaxRoiPlaces"), .types = T_WIDE, .prepare = places_prepare, .run = places_run},
    {.op = "ImageDecoder", .kind = NC_K_DYNAMIC, .prepare = nc_image_prepare, .dynamic = nc_image_decode},
    {.op = "NonMaxSuppression",
     .kind = NC_K_BOUNDED,
     .prepare = nms_prepare,
     .workspace = nms_workspace,
     .run = nms_run},
    {0}};
