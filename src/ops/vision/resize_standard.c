/* ops/vision/resize_standard.c: ResizeGrad for others to run. Resize is linear and works on each axis by itself, so
 * along an axis of n elements it is a matrix, and that matrix is Resize of the n x n identity. The gradient is dY times
 * these matrices, axis by axis. Cost: a product over n for each element and axis, where the kernel reads a few. */
#include "ops/standard.h"
#include "ops/vision/vision.h"

#include <string.h>

typedef struct axes_of {
    const nc_node *n;
    nc_builder *b;
    int rank, n_axes;
    int axes[NC_MAX_RANK];
} axes_of;

static nc_value *given(const nc_node *n, int i) {
    nc_value *v = i < n->n_in ? n->in[i] : NULL;
    return v != NULL && v->lit != NULL && v->lit->n == 0 ? NULL : v;
}

/* Element i of a vector, as a vector of one. */
static nc_value *element(nc_builder *b, nc_value *v, int i) {
    const int64_t from = i, to = i + 1, axis = 0;
    return nc_build1(b, "Slice", 4, v, nc_build_ints(b, &from, 1), nc_build_ints(b, &to, 1),
                     nc_build_ints(b, &axis, 1));
}

static nc_value *joined(nc_builder *b, nc_value *const *parts, int n) {
    const nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    return nc_build_attr1(b, "", "Concat", parts, n, &axis, 1);
}

static nc_value *one(nc_builder *b, nc_dtype t, double x) {
    return nc_build1(b, "Reshape", 2, nc_build_scalar(b, t, x), nc_build_ints(b, &(int64_t){1}, 1));
}

/* x, x */
static nc_value *two(nc_builder *b, nc_dtype t, double x) {
    nc_value *pair[2] = {one(b, t, x), one(b, t, x)};
    return joined(b, pair, 2);
}

/* The n x n identity as a picture; n is a vector of one. */
static nc_value *identity(nc_builder *b, nc_value *n, nc_dtype t) {
    const nc_attr type = {.name = "dtype", .kind = NC_A_INT, .i = (int64_t)t};
    nc_value *square[2] = {n, n}, *dims[3] = {two(b, NC_INT64, 1), n, n};
    nc_value *zeros = nc_build1(b, "ConstantOfShape", 1, joined(b, square, 2));
    nc_value *eye = nc_build_attr1(b, "", "EyeLike", &zeros, 1, &type, 1);
    return nc_build1(b, "Reshape", 2, eye, joined(b, dims, 3));
}

static bool copied(const char *name) {
    return strcmp(name, "axes") != 0 && strcmp(name, "keep_aspect_ratio_policy") != 0 &&
           strcmp(name, "extrapolation_value") != 0;
}

/* What Resize does along axis k, of n elements: (elements of dY, n). */
static nc_value *matrix(const axes_of *a, int k, nc_value *n) {
    enum { MANY = 16 };
    nc_builder *b = a->b;
    nc_value *roi = given(a->n, 2), *scales = given(a->n, 3), *sizes = given(a->n, 4);
    nc_value *in[4] = {identity(b, n, a->n->in[0]->type->elem), NULL, NULL, NULL}, *part[6];
    nc_attr attrs[MANY];
    int n_attrs = 0;
    for (int i = 0; i < a->n->n_attrs && n_attrs < MANY; i++)
        if (copied(a->n->attrs[i].name)) attrs[n_attrs++] = a->n->attrs[i];
    if (b->code != NC_OK) return NULL;
    if (roi != NULL) {
        nc_dtype t = roi->type->elem;
        part[0] = two(b, t, 0), part[1] = element(b, roi, k), part[2] = one(b, t, 0);
        part[3] = two(b, t, 1), part[4] = element(b, roi, a->n_axes + k), part[5] = one(b, t, 1);
        in[1] = joined(b, part, 6);
    }
    part[0] = two(b, scales != NULL ? NC_FLOAT : NC_INT64, 1);
    part[1] = element(b, scales != NULL ? scales : sizes, k);
    part[2] = scales != NULL ? one(b, NC_FLOAT, 1) : n;
    in[scales != NULL ? 2 : 3] = joined(b, part, 3);
    nc_value *m = nc_build_attr1(b, "", "Resize", in, scales != NULL ? 3 : 4, attrs, n_attrs);
    const int64_t front[2] = {0, 1};
    return nc_build1(b, "Squeeze", 2, m, nc_build_ints(b, front, 2));
}

/* x (.., m, ..) times m (m, n) along an axis. */
static nc_value *along(const axes_of *a, int axis, nc_value *x, nc_value *m) {
    int64_t perm[NC_MAX_RANK];
    for (int i = 0; i < a->rank; i++) perm[i] = i;
    perm[axis] = a->rank - 1, perm[a->rank - 1] = axis;
    if (axis != a->rank - 1) x = nc_build_transpose(a->b, x, perm, a->rank);
    x = nc_build1(a->b, "MatMul", 2, x, m);
    return axis != a->rank - 1 ? nc_build_transpose(a->b, x, perm, a->rank) : x;
}

/* Axes that a constant scale of 1 leaves as they are. */
static bool stays(const axes_of *a, int k) {
    const nc_value *scales = given(a->n, 3);
    float v[NC_MAX_RANK];
    if (given(a->n, 2) != NULL || scales == NULL || scales->lit == NULL || scales->lit->data == NULL) return false;
    if (scales->lit->n != a->n_axes || scales->lit->dtype != NC_FLOAT) return false;
    memcpy(v, scales->lit->data, (size_t)a->n_axes * sizeof *v);
    return v[k] == 1;
}

static nc_code read(axes_of *a) {
    int n, keep;
    const int64_t *axes = nc_attr_ints(a->n, "axes", &n);
    a->rank = a->n->in[0]->type->rank;
    if (a->rank < 0) NC_FAIL(a->b->w, NC_E_UNSUPPORTED, "ONNX's ops need the rank of dY, which is not known");
    NC_TRY(nc_resize_keep(a->b->w, a->n, &keep));
    if (keep != 0 && given(a->n, 4) != NULL)
        NC_FAIL(a->b->w, NC_E_UNSUPPORTED, "ONNX's ops cannot say it with keep_aspect_ratio_policy '%s'",
                nc_attr_str(a->n, "keep_aspect_ratio_policy"));
    a->n_axes = axes != NULL ? n : a->rank;
    for (int k = 0; k < a->n_axes; k++) {
        int64_t axis = axes != NULL ? axes[k] : k;
        a->axes[k] = (int)(axis < 0 ? axis + a->rank : axis);
    }
    return NC_OK;
}

nc_code nc_resize_grad_standard(nc_builder *b, const nc_node *n, nc_value **out) {
    axes_of a = {.n = n, .b = b};
    nc_value *x = n->in[0];
    NC_TRY(read(&a));
    for (int k = 0; k < a.n_axes && b->code == NC_OK; k++) {
        if (stays(&a, k)) continue;
        x = along(&a, a.axes[k], x, matrix(&a, k, element(b, n->in[1], a.axes[k])));
    }
    out[0] = x;
    return b->code;
}
