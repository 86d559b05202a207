/* ops/vision/sample_parts.c: reading between pixels in simple ops, see sample_parts.h. What chooses pixels (rounding,
 * clipping of lines) has no gradient; weights and the folding of coordinates back into the image have. */
#include "ops/vision/sample_parts.h"

enum { MAX_LINES = 4 };

typedef struct sampling {
    nc_builder *b;
    const nc_sample_rule *rule;
    nc_dtype type;
} sampling;

/* One axis: lines (N,P) of int64 and their weights. */
typedef struct axis_taps {
    int n;
    nc_value *line[MAX_LINES], *weight[MAX_LINES];
} axis_taps;

static nc_value *number(const sampling *s, double v) { return nc_build_scalar(s->b, s->type, v); }

static nc_value *op2(const sampling *s, const char *op, nc_value *x, nc_value *y) {
    return nc_build1(s->b, op, 2, x, y);
}

static nc_value *plus(const sampling *s, nc_value *x, double v) { return op2(s, "Add", x, number(s, v)); }

static nc_value *times(const sampling *s, nc_value *x, double v) { return op2(s, "Mul", x, number(s, v)); }

nc_value *nc_sample_size(nc_builder *b, nc_value *x, int axis) {
    return nc_build1(b, "Gather", 2, nc_build_shape(b, x), nc_build_int(b, axis));
}

nc_value *nc_sample_reshaped(nc_builder *b, nc_value *x, const int64_t *dims, int n) {
    return nc_build1(b, "Reshape", 2, x, nc_build_ints(b, dims, n));
}

/* Folded back between the edges: there and back again is 2 * span long. d: the axis' length, of the sampling's type. */
static nc_value *folded(const sampling *s, nc_value *x, nc_value *d) {
    double edge = s->rule->align_corners ? 0 : -0.5;
    nc_value *span = op2(s, "Max", plus(s, d, -1 - 2 * edge), number(s, s->rule->align_corners ? 1 : 0));
    nc_value *whole = times(s, span, 2), *u = plus(s, x, -edge);
    nc_value *turns = nc_build1(s->b, "Floor", 1, op2(s, "Div", u, whole));
    u = op2(s, "Sub", u, op2(s, "Mul", turns, whole));
    return plus(s, op2(s, "Min", u, op2(s, "Sub", whole, u)), edge);
}

static nc_value *clipped(const sampling *s, nc_value *x, nc_value *d, double beyond) {
    nc_value *last = plus(s, d, beyond - 1);
    return op2(s, "Max", op2(s, "Min", x, last), number(s, -beyond));
}

/* The weight of the line at x - down + far behind: 1 - |t|, or a cubic. */
static nc_value *weight_of(const sampling *s, int k, nc_value *t) {
    const double a = -0.75;
    if (s->rule->mode == NCK_SAMPLE_LINEAR) return k == 0 ? op2(s, "Sub", number(s, 1), t) : t;
    nc_value *far = k == 0 ? plus(s, t, 1) : k == 1 ? t : op2(s, "Sub", number(s, k == 2 ? 1 : 2), t);
    nc_value *y;
    if (k == 1 || k == 2) {
        y = plus(s, times(s, far, a + 2), -(a + 3));
        return plus(s, op2(s, "Mul", op2(s, "Mul", y, far), far), 1);
    }
    y = plus(s, times(s, far, a), -5 * a);
    y = plus(s, op2(s, "Mul", y, far), 8 * a);
    return plus(s, op2(s, "Mul", y, far), -4 * a);
}

/* The pixel of a line, and its weight, 0 outside where that counts as 0. */
static void place_line(const sampling *s, axis_taps *a, int k, nc_value *line, nc_value *weight, nc_value *d) {
    nc_builder *b = s->b;
    if (s->rule->padding == NCK_SAMPLE_ZEROS) {
        nc_value *in = op2(s, "And", op2(s, "GreaterOrEqual", line, number(s, 0)), op2(s, "Less", line, d));
        weight = nc_build1(b, "Where", 3, in, weight, number(s, 0));
    }
    if (s->rule->padding == NCK_SAMPLE_REFLECTION) line = folded(s, line, d);
    a->line[k] = nc_build_cast(b, clipped(s, line, d, 0), NC_INT64);
    a->weight[k] = weight;
}

static axis_taps taps_of(const sampling *s, nc_value *x, nc_value *d) {
    nc_builder *b = s->b;
    axis_taps a = {.n = s->rule->mode == NCK_SAMPLE_NEAREST ? 1 : s->rule->mode == NCK_SAMPLE_LINEAR ? 2 : 4};
    if (a.n == 1) x = nc_build1(b, "Round", 1, x);
    if (s->rule->padding == NCK_SAMPLE_BORDER) x = clipped(s, x, d, a.n == 4 ? 3 : 0);
    if (s->rule->padding == NCK_SAMPLE_REFLECTION) x = folded(s, x, d);
    nc_value *down = nc_build1(b, a.n == 1 ? "Round" : "Floor", 1, x), *t = op2(s, "Sub", x, down);
    for (int k = 0; k < a.n; k++) {
        nc_value *weight = a.n == 1 ? plus(s, times(s, x, 0), 1) : weight_of(s, k, t);
        place_line(s, &a, k, plus(s, down, k - (a.n == 4)), weight, d);
    }
    return a;
}

/* The sum over all lines of axes [k, dims) of weight * pixel; at: the pixel so far, of int64; w: its weight. */
static nc_value *sum_of(const sampling *s, const axis_taps *axes, nc_value *const *size, int k, nc_value *at,
                        nc_value *w, nc_value *x) {
    nc_builder *b = s->b;
    const int64_t last = -1;
    nc_value *sum = NULL;
    if (k == s->rule->dims) {
        nc_value *in[2] = {x, nc_build1(b, "Unsqueeze", 2, at, nc_build_ints(b, &last, 1))};
        nc_attr batch = {.name = "batch_dims", .kind = NC_A_INT, .i = 1};
        nc_value *pixels = nc_build_attr1(b, "", "GatherND", in, 2, &batch, 1);
        return op2(s, "Mul", pixels, nc_build1(b, "Unsqueeze", 2, w, nc_build_ints(b, &last, 1)));
    }
    for (int i = 0; i < axes[k].n; i++) {
        nc_value *line = axes[k].line[i], *weight = axes[k].weight[i];
        if (at != NULL) line = op2(s, "Add", op2(s, "Mul", at, size[k]), line);
        if (w != NULL) weight = op2(s, "Mul", w, weight);
        nc_value *part = sum_of(s, axes, size, k + 1, line, weight, x);
        sum = sum != NULL ? op2(s, "Add", sum, part) : part;
    }
    return sum;
}

nc_value *nc_sample_parts(nc_builder *b, const nc_sample_rule *rule, nc_value *x, nc_value *const *size,
                          nc_value *const *at) {
    sampling s = {.b = b, .rule = rule, .type = x != NULL && x->type != NULL ? x->type->elem : NC_FLOAT};
    axis_taps axes[NCK_SAMPLE_MAX_DIMS];
    for (int k = 0; k < rule->dims; k++) axes[k] = taps_of(&s, at[k], nc_build_cast(b, size[k], s.type));
    return sum_of(&s, axes, size, 0, NULL, NULL, x);
}
