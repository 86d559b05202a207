/* ops/shape/slice.c: cards of Slice and of its gradient nacre.SliceGrad, which puts dY where the slice was taken from
 * and zeros elsewhere. Each is the other's gradient. Version 1 has its arguments as attributes. */
#include "ops/shape/shape.h"

#include "ops/blocked.h"

#include <string.h>

/* The arguments as dims: constants, or expressions over sizes. */
typedef struct arguments {
    const nc_dim *const *starts, *const *ends; /* NULL: not known */
    int64_t axes[NC_MAX_RANK], steps[NC_MAX_RANK];
    int n;
    bool axes_known, steps_known;
} arguments;

static nc_code attr_dims(nc_infer *c, const char *name, const nc_dim *const **out, int *n) {
    const int64_t *v = nc_attr_ints(c->node, name, n);
    const nc_dim **dims = nc_arena_array(c->arena, (size_t)*n, sizeof *dims);
    NC_NEED(c->w, dims);
    for (int k = 0; v != NULL && k < *n; k++) {
        dims[k] = nc_dim_const(c->dims, v[k]);
        NC_NEED(c->w, dims[k]);
    }
    *out = dims;
    return NC_OK;
}

static nc_code same_count(nc_infer *c, const char *what, int n, int expected) {
    if (n == expected) return NC_OK;
    NC_FAIL(c->w, NC_E_SHAPE, "%s has %d elements, starts has %d", what, n, expected);
}

/* Inputs first.. are starts, ends, axes, steps. a->n is -1 when not even the count is known. */
static nc_code read_arguments(nc_infer *c, int first, arguments *a) {
    int n_ends = 0, n_axes, n_steps;
    *a = (arguments){.steps_known = true};
    if (nc_attr_has(c->node, "starts")) {
        NC_TRY(attr_dims(c, "starts", &a->starts, &a->n));
        NC_TRY(attr_dims(c, "ends", &a->ends, &n_ends));
    } else {
        a->starts = nc_in_elems(c, first, &a->n);
        a->ends = nc_in_elems(c, first + 1, &n_ends);
        if (a->starts == NULL) a->n = nc_shape_count(c, first);
    }
    if (a->n > NC_MAX_RANK)
        NC_FAIL(c->w, NC_E_SHAPE, "slices along %d axes, at most %d are supported", a->n, NC_MAX_RANK);
    if (a->n < 0) return NC_OK;
    if (a->ends != NULL) NC_TRY(same_count(c, "ends", n_ends, a->n));
    nc_shape_state axes = nc_shape_ints(c, first + 2, "axes", a->axes, NC_MAX_RANK, &n_axes);
    nc_shape_state steps = nc_shape_ints(c, first + 3, NULL, a->steps, NC_MAX_RANK, &n_steps);
    a->axes_known = axes != NC_SHAPE_UNKNOWN;
    a->steps_known = steps != NC_SHAPE_UNKNOWN;
    if (axes == NC_SHAPE_KNOWN) NC_TRY(same_count(c, "axes", n_axes, a->n));
    if (steps == NC_SHAPE_KNOWN) NC_TRY(same_count(c, "steps", n_steps, a->n));
    for (int k = 0; k < a->n; k++) {
        if (axes == NC_SHAPE_ABSENT) a->axes[k] = k;
        if (steps == NC_SHAPE_ABSENT) a->steps[k] = 1;
        if (a->steps_known && a->steps[k] == 0) NC_FAIL(c->w, NC_E_SHAPE, "step %d is 0", k);
    }
    return NC_OK;
}

void nc_slice_range(int64_t d, int64_t start, int64_t end, int64_t step, int64_t *first, int64_t *count) {
    int64_t lo = step > 0 ? 0 : -1, hi = step > 0 ? d : d - 1;
    if (start < 0) start = start < -d ? -1 : start + d;
    if (end < 0) end = end < -d ? lo : end + d;
    start = start < 0 ? 0 : start > hi ? hi : start;
    end = end < lo ? lo : end > hi ? hi : end;
    int64_t span = step > 0 ? end - start : start - end;
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    *first = start < 0 ? 0 : start;
    *count = d > 0 && span > 0 ? (int64_t)(((uint64_t)span - 1) / stride) + 1 : 0;
}

/* A bound counted from the start: v, from the end when negative, and cut off at the end. NULL: its sign is open. */
static const nc_dim *clamp_bound(nc_dims *t, const nc_dim *d, const nc_dim *v) {
    int64_t c;
    const nc_dim *zero = nc_dim_const(t, 0);
    if (v == d) return d;
    if (nc_dim_is_const(v, &c)) {
        if (c == 0) return zero;
        if (c >= NC_SHAPE_HUGE) return d;
        if (c <= -NC_SHAPE_HUGE) return zero;
        return c > 0 ? nc_dim_min(t, v, d) : nc_dim_max(t, nc_dim_add(t, d, v), zero);
    }
    if (!nc_shape_never_negative(v)) return NULL;
    const nc_dim *rest = nc_dim_sub(t, d, v); /* what was joined to an axis of that length: past of past+seq */
    return rest != NULL && nc_shape_never_negative(rest) ? v : nc_dim_min(t, v, d);
}

static const nc_dim *count_forward(nc_dims *t, const nc_dim *d, const nc_dim *start, const nc_dim *end, int64_t step) {
    int64_t s = -1, e;
    const nc_dim *zero = nc_dim_const(t, 0), *to = clamp_bound(t, d, end), *from, *n;
    bool start_known = nc_dim_is_const(start, &s);
    if (to == NULL) return NULL;
    if (start_known && s == 0) {
        n = to;
    } else if (start_known && s > 0 && s < NC_SHAPE_HUGE) {
        /* Where the axis is shorter than the start, both forms are below 0. */
        bool from_end = nc_dim_is_const(end, &e) && e < 0 && e > -NC_SHAPE_HUGE;
        n = nc_dim_max(t, nc_dim_sub(t, from_end ? nc_dim_add(t, d, end) : to, start), zero);
    } else if (start_known && s < 0 && s > -NC_SHAPE_HUGE && to == d) {
        n = nc_dim_min(t, nc_dim_const(t, -s), d);
    } else {
        from = clamp_bound(t, d, start);
        if (from == NULL) return NULL;
        n = nc_dim_max(t, nc_dim_sub(t, to, from), zero);
    }
    return step == 1 ? n : nc_dim_ceildiv(t, n, nc_dim_const(t, step));
}

/* A whole axis reversed is all that is said of negative steps over open sizes. */
static const nc_dim *count_backward(nc_dims *t, const nc_dim *d, const nc_dim *start, const nc_dim *end, int64_t step) {
    int64_t s, e;
    if (!nc_dim_is_const(start, &s) || !nc_dim_is_const(end, &e)) return NULL;
    if ((s != -1 && s < NC_SHAPE_HUGE) || e > -NC_SHAPE_HUGE || step < -NC_SHAPE_HUGE) return NULL;
    return nc_dim_ceildiv(t, d, nc_dim_const(t, -step));
}

/* How many elements a slice takes of an axis of length d. */
static nc_code slice_count(nc_infer *c, const arguments *a, int k, const nc_dim *d, const nc_dim **out) {
    int64_t size, s, e, first, count;
    const nc_dim *start = a->starts != NULL ? a->starts[k] : NULL, *end = a->ends != NULL ? a->ends[k] : NULL;
    *out = NULL;
    if (start != NULL && end != NULL && a->steps_known) {
        if (nc_dim_is_const(d, &size) && nc_dim_is_const(start, &s) && nc_dim_is_const(end, &e)) {
            nc_slice_range(size, s, e, a->steps[k], &first, &count);
            *out = nc_dim_const(c->dims, count);
        } else {
            *out = (a->steps[k] > 0 ? count_forward : count_backward)(c->dims, d, start, end, a->steps[k]);
        }
    }
    if (*out == NULL) {
        *out = nc_fresh(c, "n");
        NC_NEED(c->w, *out);
        nc_dim_set_bound(c->dims, *out, d);
    }
    return NC_OK;
}

static nc_code slice_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    arguments a;
    const nc_dim *dims[NC_MAX_RANK];
    bool cut[NC_MAX_RANK];
    if (x == NULL) return NC_OK;
    NC_TRY(read_arguments(c, 1, &a));
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    for (int k = 0; k < x->rank; k++) dims[k] = x->dims[k];
    if (a.n < 0 || !a.axes_known) {
        for (int k = 0; k < x->rank; k++) {
            dims[k] = nc_fresh(c, "n");
            NC_NEED(c->w, dims[k]);
            nc_dim_set_bound(c->dims, dims[k], x->dims[k]);
        }
        return nc_out(c, 0, x->elem, x->rank, dims);
    }
    NC_TRY(nc_shape_mark_axes(c, a.axes, a.n, x->rank, cut));
    for (int k = 0; k < a.n; k++) {
        int axis = (int)(a.axes[k] < 0 ? a.axes[k] + x->rank : a.axes[k]);
        NC_TRY(slice_count(c, &a, k, x->dims[axis], &dims[axis]));
    }
    return nc_out(c, 0, x->elem, x->rank, dims);
}

static nc_code slice_fold(nc_infer *c) {
    arguments a;
    int rank;
    int64_t s, e, from, first = 0, counts[NC_MAX_RANK], steps[NC_MAX_RANK], size = 1;
    if (!nc_shape_known(c, counts, &rank)) return NC_OK;
    NC_TRY(read_arguments(c, 1, &a));
    if (a.n < 0 || !a.axes_known || !a.steps_known || a.starts == NULL || a.ends == NULL) return NC_OK;
    for (int k = rank - 1; k >= 0; k--) steps[k] = size, size *= counts[k];
    for (int k = 0; k < a.n; k++) {
        int axis = (int)(a.axes[k] < 0 ? a.axes[k] + rank : a.axes[k]);
        if (!nc_dim_is_const(a.starts[k], &s) || !nc_dim_is_const(a.ends[k], &e)) return NC_OK;
        nc_slice_range(counts[axis], s, e, a.steps[k], &from, &counts[axis]);
        first += from * steps[axis];
        steps[axis] = counts[axis] > 1 ? steps[axis] * a.steps[k] : 0;
    }
    return nc_shape_fold_steps(c, rank, counts, first, steps);
}

/* The arguments as inputs, for a node of a new version. */
static int argument_values(nc_grad *g, nc_value **in) {
    const nc_node *n = g->node;
    int count = 0, k;
    if (!nc_attr_has(n, "starts")) {
        for (int i = 1; i < n->n_in; i++) in[count++] = n->in[i] != NULL ? nc_grad_x(g, i) : NULL;
        return count;
    }
    static const char *const names[] = {"starts", "ends", "axes"};
    for (int i = 0; i < 3; i++) {
        const int64_t *v = nc_attr_ints(n, names[i], &k);
        if (v != NULL || i < 2) in[count++] = nc_build_ints(g->b, v, k);
    }
    return count;
}

static nc_code slice_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0), *in[6];
    if (dy == NULL || !g->wants[0]) return NC_OK;
    in[0] = dy;
    in[1] = nc_build_shape(g->b, nc_grad_like(g, 0));
    int n = argument_values(g, &in[2]);
    nc_grad_set(g, 0, nc_build_attr1(g->b, "nacre", "SliceGrad", in, 2 + n, NULL, 0));
    return nc_grad_end(g);
}

static bool slice_is_identity(const nc_node *n) {
    int64_t steps[NC_MAX_RANK], count = 0;
    const nc_value *s = n->n_in > 4 ? n->in[4] : NULL;
    if (!nc_shape_same_type(n)) return false;
    if (s != NULL && (s->lit == NULL || !nc_literal_ints(s->lit, steps, NC_MAX_RANK, &count))) return false;
    for (int64_t k = 0; k < count; k++)
        if (steps[k] != 1) return false;
    return true;
}

/* ---- channels in blocks ---- */

/* The arguments, where all are constants; axes counted from the front. Returns how many, -1: they are not. */
static int known_arguments(const nc_node *n, int64_t args[4][NC_MAX_RANK]) {
    int64_t count[4] = {0};
    if (n->version->since < 10) return -1;
    for (int i = 0; i < 4; i++) {
        const nc_value *v = i + 1 < n->n_in ? n->in[i + 1] : NULL;
        if (v == NULL && i < 2) return -1;
        if (v != NULL && (v->lit == NULL || !nc_literal_ints(v->lit, args[i], NC_MAX_RANK, &count[i]))) return -1;
        if (v != NULL && count[i] != count[0]) return -1;
        for (int k = 0; v == NULL && k < count[0]; k++) args[i][k] = i == 2 ? k : 1;
    }
    for (int k = 0; k < count[0]; k++)
        if ((args[2][k] = nc_blocks_axis(n, args[2][k])) < 0) return -1;
    return (int)count[0];
}

/* Channels are cut between blocks. What is not one run of memory then is copied for most that read it. */
static bool slice_blocks(const nc_node *n, nc_blocking *k) {
    int64_t args[4][NC_MAX_RANK], C, first, count, N;
    if (!nc_blocks_input(n, 0, k)) return false;
    k->why = "its arguments are not constants, or cut a block of channels";
    int n_args = known_arguments(n, args);
    const nc_type *x = n->in[0]->type, *y = n->out[0]->type;
    if (n_args < 0 || !nc_dim_is_const(x->dims[1], &C)) return false;
    for (int i = 0; i < n_args; i++) {
        if (args[2][i] != 1) continue;
        nc_slice_range(C, args[0][i], args[1][i], args[3][i], &first, &count);
        bool whole = first % k->block == 0 && (count % k->block == 0 || first + count == C);
        if (args[3][i] != 1 || (k->block != NC_BLOCK_ALL && !whole)) return false;
    }
    if (k->block != NC_BLOCK_ALL && nc_dim_is_const(x->dims[0], &N) && N == 1) return true;
    k->gain = -1;
    for (int i = 1; i < y->rank; i++) k->gain *= nc_dim_is_const(y->dims[i], &count) ? (double)count : 1;
    return true;
}

static nc_value *slice_blocked(nc_builder *b, const nc_node *n, const nc_blocking *k, nc_value *const *in) {
    int64_t args[4][NC_MAX_RANK], C = 0, first, count;
    int n_args = known_arguments(n, args), rank = n->in[0]->type->rank;
    nc_value *values[5] = {in[0]};
    (void)nc_dim_is_const(n->in[0]->type->dims[1], &C);
    for (int i = 0; i < n_args; i++) {
        if (args[2][i] != 1) continue;
        if (k->block == NC_BLOCK_ALL) {
            args[2][i] = rank;
            continue;
        }
        nc_slice_range(C, args[0][i], args[1][i], 1, &first, &count);
        args[0][i] = first / k->block;
        args[1][i] = (first + count + k->block - 1) / k->block;
    }
    for (int i = 0; i < 4; i++) values[i + 1] = nc_build_ints(b, args[i], n_args);
    return nc_build_card1(b, n->card, values, 5, NULL, 0);
}

#define SLICE(types)                                                                         \
    IN({"data", types}, {"starts", T_INDEX}, {"ends", SAME(1)}, {"axes", SAME(1), OPTIONAL}, \
       {"steps", SAME(1), OPTIONAL}),                                                        \
        OUT({"output", SAME(0)}), NO_ATTR
static const nc_op_version slice_versions[] = {{.since = 13, SLICE(T_TENSOR_ALL)},
                                               {.since = 11, SLICE(T_TENSOR)},
                                               {.since = 10, SLICE(T_TENSOR)},
                                               {.since = 1,
                                                IN({"data", T_TENSOR}),
                                                OUT({"output", SAME(0)}),
                                                ATTR(A_INTS_REQ("starts"), A_INTS_REQ("ends"), A_INTS_OPT("axes"))},
                                               {0}};

const nc_card nc_card_slice = {.name = "Slice",
                               .doc = "Every step-th element from starts to ends, along axes.",
                               .versions = slice_versions,
                               .traits = NC_VIEW_STRIDED,
                               .host_in = 0x1e,
                               .no_grad_in = 0x1e,
                               .infer = slice_infer,
                               .fold = slice_fold,
                               .grad = slice_grad,
                               .blocks = slice_blocks,
                               .blocked = slice_blocked,
                               .is_identity = slice_is_identity};

/* ---- nacre.SliceGrad ---- */

static nc_code slice_grad_infer(nc_infer *c) {
    const nc_type *dy = nc_in(c, 0);
    return dy != NULL ? nc_out_of_shape(c, dy->elem, 1, dy->rank) : NC_OK;
}

static nc_code slice_grad_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0), *in[5] = {dy};
    if (dy == NULL || !g->wants[0]) return NC_OK;
    for (int i = 2; i < g->node->n_in; i++) in[i - 1] = g->node->in[i] != NULL ? nc_grad_x(g, i) : NULL;
    nc_grad_set(g, 0, nc_build_attr1(g->b, "", "Slice", in, g->node->n_in - 1, NULL, 0));
    return nc_grad_end(g);
}

/* The slice of a tensor that holds its elements' own numbers says where dY goes. */
static nc_code slice_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t all = -1;
    nc_value *dy = n->in[0], *shape = n->in[1], *in[5];
    if (!dy->type) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known type");
    nc_value *flat = nc_build_ints(b, &all, 1), *zero = nc_build_int(b, 0);
    nc_attr keep = {.name = "keepdims", .kind = NC_A_INT, .i = 0};
    nc_value *count = nc_build_attr1(b, "", "ReduceProd", &shape, 1, &keep, 1);
    in[0] = nc_build1(b, "Reshape", 2, nc_build1(b, "Range", 3, zero, count, nc_build_int(b, 1)), shape);
    for (int i = 2; i < n->n_in; i++) in[i - 1] = n->in[i];
    nc_value *at = nc_build_attr1(b, "", "Slice", in, n->n_in - 1, NULL, 0);
    nc_value *zeros = nc_build1(b, "Expand", 2, nc_build_scalar(b, dy->type->elem, 0),
                                nc_build1(b, "Reshape", 2, count, nc_build_ints(b, (const int64_t[]){1}, 1)));
    nc_value *put = nc_build1(b, "ScatterElements", 3, zeros, nc_build1(b, "Reshape", 2, at, flat),
                              nc_build1(b, "Reshape", 2, dy, flat));
    out[0] = nc_build1(b, "Reshape", 2, put, shape);
    return b->code;
}

static const nc_op_version slice_grad_versions[] = {
    {.since = 1,
     IN({"dY", T_WHOLE}, {"shape", T_I64}, {"starts", T_INDEX}, {"ends", SAME(2)}, {"axes", SAME(2), OPTIONAL},
        {"steps", SAME(2), OPTIONAL}),
     OUT({"dX", SAME(0)}),
     NO_ATTR},
    {0}};

const nc_card nc_card_slice_grad = {.name = "SliceGrad",
                                    .domain = "nacre",
                                    .doc = "dY where a slice was taken from, else 0.",
                                    .versions = slice_grad_versions,
                                    .host_in = 0x3e,
                                    .no_grad_in = 0x3e,
                                    .infer = slice_grad_infer,
                                    .grad = slice_grad_grad,
                                    .decompose = slice_grad_decompose};
