/* ops/nn/conv_parts.c: ConvGrad as what ONNX has, for models that others run. dX is the transposed convolution of dY
 * with W. dW is a convolution too, of X with dY as its windows: batch and channels change places, strides and dilations
 * as well. Letters: N batch, G groups, C channels of X, M of Y. */
#include "ops/build.h"
#include "ops/nn/conv.h"

typedef struct parts {
    nc_builder *b;
    nc_conv_attrs a;
    nc_value *dy, *x, *w;
    int n, rank;
    int64_t C, M, k[NC_WINDOW_MAX_SPATIAL], begin[NC_WINDOW_MAX_SPATIAL], end[NC_WINDOW_MAX_SPATIAL];
} parts;

static nc_code read_parts(parts *p, const nc_node *n) {
    const nc_type *w = p->w->type;
    if (!w || w->rank < 3 || !p->x->type || p->x->type->rank != w->rank)
        NC_FAIL(p->b->w, NC_E_UNSUPPORTED, "its pieces need known ranks");
    p->rank = w->rank, p->n = w->rank - 2;
    NC_TRY(nc_conv_read_attrs(p->b->w, n, p->n, &p->a));
    bool known = nc_dim_is_const(w->dims[0], &p->M) && nc_dim_is_const(w->dims[1], &p->C);
    for (int i = 0; i < p->n; i++) known = known && nc_dim_is_const(w->dims[i + 2], &p->k[i]);
    if (!known || !nc_window_known_pads(&p->a, p->x, p->k, p->begin, p->end))
        NC_FAIL(p->b->w, NC_E_UNSUPPORTED, "its pieces need known sizes of W, and of X where auto_pad is SAME");
    p->C *= p->a.group;
    return NC_OK;
}

/* v (N,G*c,...) as (G*c,N,...); in groups, with the channel of a group first: (c,G*N,...). */
static nc_value *turned(parts *p, nc_value *v, int64_t c, bool in_groups) {
    int64_t perm[NC_MAX_RANK], split[2] = {p->a.group, c}, zero = 0, one = 1, two = 2, many = p->rank;
    if (!in_groups) {
        for (int i = 0; i < p->rank; i++) perm[i] = i < 2 ? 1 - i : i;
        return nc_build_transpose(p->b, v, perm, p->rank);
    }
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_value *shape = nc_build_shape(p->b, v);
    nc_value *batch = nc_build1(p->b, "Slice", 3, shape, nc_build_ints(p->b, &zero, 1), nc_build_ints(p->b, &one, 1));
    nc_value *space = nc_build1(p->b, "Slice", 3, shape, nc_build_ints(p->b, &two, 1), nc_build_ints(p->b, &many, 1));
    nc_value *in[3] = {batch, nc_build_ints(p->b, split, 2), space};
    nc_value *cut = nc_build1(p->b, "Reshape", 2, v, nc_build_attr1(p->b, "", "Concat", in, 3, &axis, 1));
    perm[0] = 2, perm[1] = 1, perm[2] = 0;
    for (int i = 3; i <= p->rank; i++) perm[i] = i;
    cut = nc_build_transpose(p->b, cut, perm, p->rank + 1);
    nc_value *to[3] = {nc_build_ints(p->b, &c, 1), nc_build_ints(p->b, (const int64_t[]){-1}, 1), space};
    return nc_build1(p->b, "Reshape", 2, cut, nc_build_attr1(p->b, "", "Concat", to, 3, &axis, 1));
}

/* The convolution may have places that no window of W had: they are cut off. */
static nc_value *weight_grad(parts *p) {
    int64_t pads[2 * NC_WINDOW_MAX_SPATIAL], from[NC_MAX_RANK] = {0}, axes[NC_MAX_RANK], perm[NC_MAX_RANK];
    for (int i = 0; i < p->n; i++) pads[i] = p->begin[i], pads[p->n + i] = p->end[i], axes[i] = i + 2;
    nc_attr attrs[4] = {{.name = "strides", .kind = NC_A_INTS, .n = p->n, .ints = p->a.dilations},
                        {.name = "dilations", .kind = NC_A_INTS, .n = p->n, .ints = p->a.strides},
                        {.name = "pads", .kind = NC_A_INTS, .n = 2 * p->n, .ints = pads},
                        {.name = "group", .kind = NC_A_INT, .i = p->a.group}};
    bool groups = p->a.group > 1;
    nc_value *in[2] = {turned(p, p->x, p->C / p->a.group, groups), turned(p, p->dy, p->M, false)};
    nc_value *all = nc_build_attr1(p->b, "", "Conv", in, 2, attrs, 4); /* (C/G,M,...) */
    for (int i = 0; i < p->rank; i++) perm[i] = i < 2 ? 1 - i : i;
    all = nc_build_transpose(p->b, all, perm, p->rank);
    return nc_build1(p->b, "Slice", 4, all, nc_build_ints(p->b, from, p->n), nc_build_ints(p->b, p->k, p->n),
                     nc_build_ints(p->b, axes, p->n));
}

nc_code nc_conv_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    parts p = {.b = b, .dy = n->in[0], .x = n->in[1], .w = n->in[2]};
    int64_t axes[NC_MAX_RANK] = {0};
    NC_TRY(read_parts(&p, n));
    for (int i = 0; i < p.n; i++) axes[i + 1] = i + 2;
    if (n->out[0]) out[0] = nc_window_spread(b, &p.a, p.dy, p.w, p.x, p.begin);
    if (n->n_out > 1 && n->out[1]) out[1] = weight_grad(&p);
    if (n->n_out > 2 && n->out[2]) out[2] = nc_build_reduce_sum(b, p.dy, axes, p.n + 1, false);
    return b->code;
}
