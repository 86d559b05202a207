/* ops/norm/norm_cpu.c: CPU bindings of the norm family. Kernels take operands of one type, f32 or f64; where all are
 * f32 or half types they go through f32 (ops/widen.h); other mixtures run as what the cards are made of. */
#include "kernels/cpu/norm/norm.h"

#include "base/intmath.h"
#include "kernels/cpu/move/move.h"
#include "ops/card.h"
#include "ops/norm/batch.h"
#include "ops/widen.h"

#include <string.h>

typedef struct norm {
    int64_t axis, groups;
    double epsilon, momentum;
    bool center, by_group, trains, spatial;
} norm;

/* Rows of prepare. */
typedef enum norm_kind { CENTERED, UNCENTERED, GRADIENT, BY_GROUP, BY_BATCH } norm_kind;

static bool types_in(const nc_node *n, nc_types types) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] != NULL && (n->in[i]->type == NULL || !(types >> n->in[i]->type->elem & 1))) return false;
    return true;
}

static bool fits_wide(const nc_node *n, const char **why) {
    *why = "operands have several types";
    return n->in[0]->type != NULL && types_in(n, NC_BIT(n->in[0]->type->elem));
}

static bool fits_half(const nc_node *n, const char **why) {
    *why = "operands have several types";
    return types_in(n, NC_WIDEN_HALF | NC_BIT(NC_FLOAT));
}

static nc_code norm_prepare(nc_prep *p) {
    const nc_node *n = p->node;
    norm *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const norm_kind kind = *(const norm_kind *)p->own;
    *s = (norm){.axis = nc_attr_int(n, "axis"),
                .groups = kind == BY_GROUP ? nc_attr_int(n, "num_groups") : 0,
                .epsilon = nc_attr_float(n, "epsilon"),
                .momentum = nc_attr_float(n, "momentum"),
                .center = kind == GRADIENT ? nc_attr_int(n, "center") != 0 : kind != UNCENTERED,
                .by_group = kind == BY_GROUP && n->version->since < 21,
                .trains = kind == BY_BATCH && nc_batch_trains(n),
                .spatial = kind == BY_BATCH && nc_batch_is_spatial(n)};
    p->state = s;
    return NC_OK;
}

static int64_t product(const nc_tensor *t, int from, int to) {
    int64_t n = 1;
    for (int i = from; i < to; i++) n *= t->dims[i];
    return n;
}

/* ---- rows from an axis on ---- */

static int axis_of(const norm *s, const nc_tensor *x) { return (int)(s->axis < 0 ? s->axis + x->rank : s->axis); }

static size_t padded(int64_t n) { return nc_align64((size_t)n * sizeof(double)); }

/* Room for scale and bias spread out, then for the statistics in the kernel's type. */
static size_t layer_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const nc_tensor *x = &in[0];
    int axis = axis_of(state, x);
    (void)n_in;
    (void)out;
    (void)n_out;
    return 2 * padded(product(x, axis, x->rank)) + 2 * padded(product(x, 0, axis));
}

static bool has_dims(const nc_tensor *t, const int64_t *dims, int rank) {
    for (int i = 0; t->rank == rank && i < rank; i++)
        if (t->dims[i] != dims[i]) return false;
    return t->rank == rank;
}

/* v over the normalized dims of x: where it lies, or spread out in `room`. *fits: it can be. */
static const void *spread(const nc_call *c, const nc_tensor *v, const nc_tensor *x, int axis, void *room, bool *fits) {
    int64_t strides[NC_MAX_RANK], dense[NC_MAX_RANK], dims[NC_MAX_RANK];
    int rank = x->rank - axis, r_out;
    nc_tensor t;
    if (v->data == NULL || has_dims(v, x->dims + axis, rank)) return v->data;
    nc_tensor_copy(&t, v);
    while (t.rank > rank && t.dims[0] == 1) { /* leading ones beyond the normalized dims */
        for (int i = 1; i < t.rank; i++) t.dims[i - 1] = t.dims[i], t.strides[i - 1] = t.strides[i];
        t.rank--;
    }
    *fits = *fits && nc_broadcast(t.dims, t.rank, x->dims + axis, rank, dims, &r_out) && r_out == rank;
    for (int i = 0; *fits && i < rank; i++) *fits = dims[i] == x->dims[axis + i];
    if (!*fits || nc_tensor_numel(&t) == product(x, axis, x->rank)) return t.data;
    nc_broadcast_strides(&t, rank, dims, strides);
    nc_dense_strides(dims, rank, dense);
    nck_copy(rank, dims, nc_dtype_bytes(t.dtype), t.data, strides, room, dense, c->pool);
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
    const norm *s = c->state;
    int axis = axis_of(s, x);
    int64_t cols = product(x, axis, x->rank);
    char *room = c->workspace;
    bool fits = true;
    *a = (nck_norm_args){.type = x->dtype,
                         .rows = product(x, 0, axis),
                         .cols = cols,
                         .center = s->center,
                         .epsilon = s->epsilon,
                         .x = x->data,
                         .scale = spread(c, scale, x, axis, room, &fits),
                         .pick = {.mod = 1, .div = 1, .col_step = 1}};
    if (bias != NULL && fits) a->bias = spread(c, bias, x, axis, room + padded(cols), &fits);
    if (!fits)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op,
                           "scale or bias does not spread over the normalized dims");
    return NC_OK;
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
    int axis = axis_of(state, x);
    return layer_workspace(state, x, n_in, out, n_out) +
           nck_norm_grad_workspace(product(x, 0, axis), product(x, axis, x->rank));
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

static nc_code norm_counts(const nc_call *c, int from, int to, int64_t want) {
    for (int i = from; i < to; i++)
        if (nc_tensor_numel(c->in[i]) != want)
            return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "input %d has %lld elements, %lld are expected", i,
                               (long long)nc_tensor_numel(c->in[i]), (long long)want);
    return NC_OK;
}

static nc_code groups_run(const nc_call *c) {
    const norm *s = c->state;
    const nc_tensor *x = c->in[0];
    int64_t C = x->dims[1], S = product(x, 2, x->rank), G = s->groups > 0 ? s->groups : C;
    if (G != 0 && C % G != 0)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%lld channels do not divide into %lld groups",
                           (long long)C, (long long)G);
    NC_TRY(norm_counts(c, 1, 3, s->by_group ? G : C));
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

static int64_t channels_of(const norm *s, const nc_tensor *x) {
    return s->spatial ? x->dims[1] : product(x, 1, x->rank);
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

/* Outputs 1 and 2 move towards the batch's statistics, 3 and 4 are those. */
static nc_code put_stats(const nc_call *c, int64_t n, const void *mean, const void *var) {
    const norm *s = c->state;
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
    const norm *s = c->state;
    const nc_tensor *x = c->in[0];
    int64_t C = channels_of(s, x);
    nck_norm_channels a = {.type = x->dtype,
                           .N = x->dims[0],
                           .C = C,
                           .size = s->spatial ? product(x, 2, x->rank) : 1,
                           .epsilon = s->epsilon,
                           .x = x->data,
                           .scale = c->in[1]->data,
                           .bias = c->in[2]->data,
                           .mean = c->in[3]->data,
                           .var = c->in[4]->data,
                           .y = c->out[0]->data};
    NC_TRY(norm_counts(c, 1, 5, C));
    if (s->trains) {
        char *mean = c->workspace, *var = mean + padded(C);
        nck_channel_stats(a.type, a.N, C, a.size, a.x, mean, var, c->pool);
        NC_TRY(put_stats(c, C, mean, var));
        a.mean = mean;
        a.var = var;
    }
    nck_norm_by_channel(&a, c->pool);
    return NC_OK;
}

NC_WIDENED_HALF(layer, layer_workspace)
NC_WIDENED_HALF(grad, grad_workspace)
NC_WIDENED_HALF(groups, NULL)
NC_WIDENED_HALF(batch, batch_workspace)

#define ROWS(op_name, domain_name, kind, name, space)                                                       \
    {.op = op_name,                                                                                         \
     .domain = domain_name,                                                                                 \
     .types = NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE),                                                         \
     .fits = fits_wide,                                                                                     \
     .prepare = norm_prepare,                                                                               \
     .own = &(const norm_kind){kind},                                                                       \
     .workspace = space,                                                                                    \
     .run = name##_run},                                                                                    \
    {                                                                                                       \
        .op = op_name, .domain = domain_name, .types = NC_WIDEN_HALF | NC_BIT(NC_FLOAT), .fits = fits_half, \
        .prepare = norm_prepare, .own = &(const norm_kind){kind}, .workspace = name##_half_workspace,       \
        .run = name##_half_run                                                                              \
    }
const nc_binding nc_norm_cpu[] = {ROWS("LayerNormalization", NULL, CENTERED, layer, layer_workspace),
                                  ROWS("RMSNormalization", NULL, UNCENTERED, layer, layer_workspace),
                                  ROWS("SimplifiedLayerNormalization", NULL, UNCENTERED, layer, layer_workspace),
                                  ROWS("NormGrad", "nacre", GRADIENT, grad, grad_workspace),
                                  ROWS("InstanceNormalization", NULL, CENTERED, groups, NULL),
                                  ROWS("GroupNormalization", NULL, BY_GROUP, groups, NULL),
                                  ROWS("BatchNormalization", NULL, BY_BATCH, batch, batch_workspace),
                                  {0}};
