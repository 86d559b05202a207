/* ops/norm/norm_cpu.c: CPU bindings of the norm family. Kernels take operands of one type, f32 or f64; where all are
 * f32 or half types they go through f32 (ops/widen.h); other mixtures run as what the cards are made of. */
#include "kernels/cpu/norm/norm.h"

#include "base/intmath.h"
#include "kernels/cpu/move/move.h"
#include "ops/card.h"
#include "ops/norm/norm.h"
#include "ops/norm/norm_cpu.h"
#include "ops/norm/rows.h"
#include "ops/widen.h"

#include <string.h>

static bool types_in(const nc_node *n, nc_types types) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] != NULL && (n->in[i]->type == NULL || !(types >> n->in[i]->type->elem & 1))) return false;
    return true;
}

/* Gradients, which have other inputs, have no stash_type. */
static bool fits_rows(const nc_node *n, const char **why) {
    return nc_attr_int(n, "stash_type") == 0 || nc_norm_fits_rows(n, why);
}

static bool fits_wide(const nc_node *n, const char **why) {
    if (!fits_rows(n, why)) return false;
    *why = "operands have several types";
    return n->in[0]->type != NULL && types_in(n, NC_BIT(n->in[0]->type->elem));
}

static bool fits_half(const nc_node *n, const char **why) {
    if (!fits_rows(n, why)) return false;
    *why = "operands have several types";
    return types_in(n, NC_WIDEN_HALF | NC_BIT(NC_FLOAT));
}

static nc_code norm_prepare(nc_prep *p) {
    nc_norm_how *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = nc_norm_read(p->node, *(const nc_norm_kind *)p->own);
    p->state = s;
    return NC_OK;
}

/* ---- rows from an axis on ---- */

static size_t padded(int64_t n) { return nc_align64((size_t)n * sizeof(double)); }

/* Room for scale and bias spread out, then for the statistics in the kernel's type. */
static size_t layer_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const nc_tensor *x = &in[0];
    int axis = nc_norm_axis(state, x);
    (void)n_in;
    (void)out;
    (void)n_out;
    return 2 * padded(nc_norm_product(x, axis, x->rank)) + 2 * padded(nc_norm_product(x, 0, axis));
}

static bool has_dims(const nc_tensor *t, const int64_t *dims, int rank) {
    for (int i = 0; t->rank == rank && i < rank; i++)
        if (t->dims[i] != dims[i]) return false;
    return t->rank == rank;
}

/* v over the normalized dims of x: where it lies, or spread out in `room`. *fits: it can be. */
static const void *spread(const nc_call *c, const nc_tensor *v, const nc_tensor *x, int axis, void *room, bool *fits) {
    int64_t strides[NC_MAX_RANK], dense[NC_MAX_RANK];
    const int64_t *dims = x->dims + axis;
    int rank = x->rank - axis;
    if (v->data == NULL || has_dims(v, dims, rank)) return v->data;
    *fits = *fits && nc_norm_spread(v, x, axis, strides);
    if (!*fits || nc_tensor_numel(v) == nc_norm_product(x, axis, x->rank)) return v->data;
    nc_dense_strides(dims, rank, dense);
    nck_copy(rank, dims, nc_dtype_bytes(v->dtype), v->data, strides, room, dense, c->pool);
    return room;
}

static nc_code stat_to(const nc_call *c, int i, const void *from, nc_dtype type) {
    if (i >= c->n_out || c->out[i]->data == NULL) return NC_OK;
    nc_tensor t;
    nc_tensor_copy(&t, c->out[i]);
    t.data = (void *)(uintptr_t)from;
    t.dtype = type;
    nc_dense_strides(t.dims, t.rank, t.strides);
    return nck_convert(&t, c->out[i], c->pool);
}

static nc_code layer_args(const nc_call *c, const nc_tensor *x, const nc_tensor *scale, const nc_tensor *bias,
                          nck_norm_args *a) {
    const nc_norm_how *s = c->state;
    int axis = nc_norm_axis(s, x);
    int64_t cols = nc_norm_product(x, axis, x->rank);
    char *room = c->workspace;
    bool fits = true;
    *a = (nck_norm_args){.type = x->dtype,
                         .rows = nc_norm_product(x, 0, axis),
                         .cols = cols,
                         .center = s->center,
                         .epsilon = s->epsilon,
                         .x = x->data,
                         .scale = spread(c, scale, x, axis, room, &fits),
                         .pick = {.mod = 1, .div = 1, .col_step = 1}};
    if (bias != NULL && fits) a->bias = spread(c, bias, x, axis, room + padded(cols), &fits);
    return fits ? NC_OK : nc_norm_not_spread(c);
}

static nc_code layer_run(const nc_call *c) {
    nck_norm_args a;
    NC_TRY(layer_args(c, c->in[0], c->in[1], c->n_in > 2 ? c->in[2] : NULL, &a));
    char *stats = (char *)c->workspace + 2 * padded(a.cols);
    a.y = c->out[0]->data;
    if (c->n_out > 1) {
        a.mean = stats;
        a.inv_std = stats + padded(a.rows);
    }
    nck_norm_rows(&a, c->pool);
    if (!a.center) return stat_to(c, 1, a.inv_std, a.type);
    NC_TRY(stat_to(c, 1, a.mean, a.type));
    return stat_to(c, 2, a.inv_std, a.type);
}

static size_t grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const nc_tensor *x = &in[1];
    int axis = nc_norm_axis(state, x);
    return layer_workspace(state, x, n_in, out, n_out) +
           nck_norm_grad_workspace(nc_norm_product(x, 0, axis), nc_norm_product(x, axis, x->rank));
}

static nc_code grad_run(const nc_call *c) {
    nck_norm_args a;
    NC_TRY(layer_args(c, c->in[1], c->in[2], NULL, &a));
    char *parts = (char *)c->workspace + 2 * padded(a.cols);
    nck_norm_grad(&a, c->in[0]->data, c->out[0]->data, c->n_out > 1 ? c->out[1]->data : NULL,
                  c->n_out > 2 ? c->out[2]->data : NULL, parts, c->pool);
    return NC_OK;
}

/* ---- channels of one image ---- */

static nc_code groups_run(const nc_call *c) {
    const nc_norm_how *s = c->state;
    const nc_tensor *x = c->in[0];
    int64_t C = x->dims[1], S = nc_norm_product(x, 2, x->rank), G;
    NC_TRY(nc_norm_groups(s, c, &G));
    if (nc_tensor_numel(x) == 0) return NC_OK;
    bool one = s->by_group || G == C;
    nck_norm_args a = {.type = x->dtype,
                       .rows = x->dims[0] * G,
                       .cols = C / G * S,
                       .center = true,
                       .epsilon = s->epsilon,
                       .x = x->data,
                       .scale = c->in[1]->data,
                       .bias = c->in[2]->data,
                       .pick = {.mod = G, .row_step = one ? 1 : C / G, .div = one ? 1 : S, .col_step = !one},
                       .y = c->out[0]->data};
    nck_norm_rows(&a, c->pool);
    return NC_OK;
}

/* ---- channels of a batch ---- */

static int64_t channels_of(const nc_norm_how *s, const nc_tensor *x) {
    return s->spatial ? x->dims[1] : nc_norm_product(x, 1, x->rank);
}

static size_t batch_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)n_in;
    (void)out;
    (void)n_out;
    return 2 * padded(channels_of(state, &in[0]));
}

#define DEFINE_MOVE(S, T)                                                                                \
    static void move_##S(int64_t n, double m, const void *old, const void *now, void *to) {              \
        for (int64_t i = 0; i < n; i++)                                                                  \
            ((T *)to)[i] = (T)((double)((const T *)old)[i] * m + (double)((const T *)now)[i] * (1 - m)); \
    }
DEFINE_MOVE(f32, float)
DEFINE_MOVE(f64, double)

nc_code nc_batch_put_stats(const nc_call *c, int64_t n, const void *mean, const void *var) {
    const nc_norm_how *s = c->state;
    nc_dtype type = c->in[0]->dtype;
    for (int i = 1; i < c->n_out; i++) {
        const void *now = i % 2 == 1 ? mean : var;
        if (c->out[i]->data == NULL) continue;
        if (i >= 3)
            NC_TRY(stat_to(c, i, now, type));
        else
            (type == NC_FLOAT ? move_f32 : move_f64)(n, s->momentum, c->in[i + 2]->data, now, c->out[i]->data);
    }
    return NC_OK;
}

static nc_code batch_run(const nc_call *c) {
    const nc_norm_how *s = c->state;
    const nc_tensor *x = c->in[0];
    int64_t C = channels_of(s, x);
    nck_norm_channels a = {.type = x->dtype,
                           .N = x->dims[0],
                           .C = C,
                           .size = s->spatial ? nc_norm_product(x, 2, x->rank) : 1,
                           .epsilon = s->epsilon,
                           .x = x->data,
                           .scale = c->in[1]->data,
                           .bias = c->in[2]->data,
                           .mean = c->in[3]->data,
                           .var = c->in[4]->data,
                           .y = c->out[0]->data};
    NC_TRY(nc_norm_counts(c, 1, 5, C));
    if (s->trains) {
        char *mean = c->workspace, *var = mean + padded(C);
        nck_channel_stats(a.type, a.N, C, a.size, a.x, mean, var, c->pool);
        NC_TRY(nc_batch_put_stats(c, C, mean, var));
        a.mean = mean;
        a.var = var;
    }
    nck_norm_by_channel(&a, c->pool);
    return NC_OK;
}

nc_code nc_norm_batch_back(const nc_call *c, int64_t C, int64_t size, nck_norm_channels_back *out) {
    const nc_norm_how *s = c->state;
    const nc_tensor *x = c->in[1];
    bool given = c->n_in > 4 && c->in[3]->data != NULL;
    *out = (nck_norm_channels_back){.type = x->dtype,
                                    .N = x->dims[0],
                                    .C = C,
                                    .size = size,
                                    .epsilon = s->epsilon,
                                    .dy = c->in[0]->data,
                                    .x = x->data,
                                    .scale = c->in[2]->data,
                                    .mean = given ? c->in[3]->data : NULL,
                                    .inv_std = given ? c->in[4]->data : NULL,
                                    .constant = !s->trains,
                                    .dx = c->out[0]->data,
                                    .dscale = c->n_out > 1 ? c->out[1]->data : NULL,
                                    .dbias = c->n_out > 2 ? c->out[2]->data : NULL};
    return nc_norm_counts(c, 2, given ? 5 : 3, C);
}

static nc_code batch_grad_run(const nc_call *c) {
    const nc_norm_how *s = c->state;
    const nc_tensor *x = c->in[1];
    int64_t C = channels_of(s, x);
    nck_norm_channels_back a;
    NC_TRY(nc_norm_batch_back(c, C, s->spatial ? nc_norm_product(x, 2, x->rank) : 1, &a));
    nck_norm_channels_grad(&a, c->pool);
    return NC_OK;
}

NC_WIDENED_HALF(layer, layer_workspace)
NC_WIDENED_HALF(grad, grad_workspace)
NC_WIDENED_HALF(groups, NULL)
NC_WIDENED_HALF(batch, batch_workspace)
NC_WIDENED_HALF(batch_grad, NULL)

#define ROWS(op_name, domain_name, kind, name, space)                                                       \
    {.op = op_name,                                                                                         \
     .domain = domain_name,                                                                                 \
     .types = NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE),                                                         \
     .fits = fits_wide,                                                                                     \
     .prepare = norm_prepare,                                                                               \
     .own = &(const nc_norm_kind){kind},                                                                    \
     .workspace = space,                                                                                    \
     .run = name##_run},                                                                                    \
    {                                                                                                       \
        .op = op_name, .domain = domain_name, .types = NC_WIDEN_HALF | NC_BIT(NC_FLOAT), .fits = fits_half, \
        .prepare = norm_prepare, .own = &(const nc_norm_kind){kind}, .workspace = name##_half_workspace,    \
        .run = name##_half_run                                                                              \
    }
const nc_binding nc_norm_cpu[] = {
    ROWS("LayerNormalization", NULL, NC_NORM_CENTERED, layer, layer_workspace),
    ROWS("RMSNormalization", NULL, NC_NORM_UNCENTERED, layer, layer_workspace),
    ROWS("SimplifiedLayerNormalization", NULL, NC_NORM_UNCENTERED, layer, layer_workspace),
    ROWS("NormGrad", "nacre", NC_NORM_GRADIENT, grad, grad_workspace),
    ROWS("InstanceNormalization", NULL, NC_NORM_CENTERED, groups, NULL),
    ROWS("GroupNormalization", NULL, NC_NORM_BY_GROUP, groups, NULL),
    ROWS("BatchNormalization", NULL, NC_NORM_BY_BATCH, batch, batch_workspace),
    ROWS("BatchNormGrad", "nacre", NC_NORM_BATCH_GRADIENT, batch_grad, NULL),
    {.op = "BatchNormBlocked",
     .domain = "nacre",
     .prepare = nc_batch_blocked_prepare,
     .own = &(const nc_batch_blocked_row){false},
     .workspace = nc_batch_blocked_workspace,
     .run = nc_batch_blocked_run},
    {.op = "BatchNormGradBlocked",
     .domain = "nacre",
     .prepare = nc_batch_blocked_prepare,
     .own = &(const nc_batch_blocked_row){true},
     .workspace = nc_batch_grad_blocked_workspace,
     .run = nc_batch_grad_blocked_run},
    {0}};
