/* transform/infer/normalizations.c: LayerNormalization and RMSNormalization from the means, squares and roots that
 * exporters write for them. The axes must be the last ones, scale and bias have exactly their dims. Sums are then kept
 * in float whatever the type, as stash_type says, so doubles stay as they are. */
#include "transform/pattern.h"
#include "transform/transform.h"

/* The first of the axes that a mean is taken over, all behind it too; -1: others. */
static int first_axis(const nc_node *mean, int rank) {
    int64_t given[NC_MAX_RANK];
    int n = 0;
    nc_axes mask = 0;
    const int64_t *axes = nc_attr_ints(mean, "axes", &n);
    if (nc_attr_int(mean, "keepdims") == 0) return -1;
    if (axes == NULL) {
        if (mean->n_in < 2 || !nc_rewrite_ints(mean->in[1], given, NC_MAX_RANK, &n)) return -1;
        axes = given;
    }
    for (int i = 0; i < n; i++) {
        int64_t a = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (a < 0 || a >= rank) return -1;
        mask |= nc_axes_of(a);
    }
    for (int k = 0; k < rank; k++)
        if (mask == nc_axes_below(rank) - nc_axes_below(k)) return k;
    return -1;
}

static bool has_dims_from(const nc_value *v, const nc_value *x, int axis) {
    if (v == NULL || !nc_rewrite_tensor(v) || v->type->elem != x->type->elem) return false;
    if (v->type->rank != x->type->rank - axis) return false;
    for (int k = axis; k < x->type->rank; k++)
        if (v->type->dims[k - axis] != x->type->dims[k]) return false;
    return true;
}

static nc_code normalizes(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    static const char *const means[] = {"m", "v"};
    const nc_value *x = nc_match_value(m, "x"), *eps = nc_match_value(m, "eps"), *bias = nc_match_value(m, "bias");
    double epsilon;
    int axis = -1;
    (void)w;
    *fits = nc_rewrite_tensor(x) && nc_rewrite_same_type(m->root->out[0], x) && x->type->elem != NC_DOUBLE &&
            eps->lit->n == 1 && nc_rewrite_number(eps->lit, 0, &epsilon);
    for (int i = 0; *fits && i < 2; i++) {
        const nc_value *mean = nc_match_value(m, means[i]);
        if (mean == NULL) continue;
        int a = first_axis(mean->def, x->type->rank);
        *fits = a >= 0 && (axis < 0 || a == axis);
        axis = a;
    }
    if (!*fits) return NC_OK;
    *fits = has_dims_from(nc_match_value(m, "scale"), x, axis) && (bias == NULL || has_dims_from(bias, x, axis));
    made->attrs[0] = (nc_attr){.name = "axis", .kind = NC_A_INT, .i = axis - x->type->rank};
    made->attrs[1] = (nc_attr){.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)epsilon};
    made->n_attrs = 2;
    return NC_OK;
}

#define CENTRED "d=Sub(x, m=ReduceMean(x, ..))"
#define ROOT(square) "Sqrt(Add(v=ReduceMean(" square ", ..), #eps))"
#define LAYER(normal)                                                                                          \
    {.text = "Add(Mul(" normal ", scale), bias)",                                                              \
     .op = "LayerNormalization",                                                                               \
     .inputs = "x scale bias",                                                                                 \
     .where = normalizes},                                                                                     \
    {                                                                                                          \
        .text = "Mul(" normal ", scale)", .op = "LayerNormalization", .inputs = "x scale", .where = normalizes \
    }
#define RMS(normal) \
    { .text = "Mul(" normal ", scale)", .op = "RMSNormalization", .inputs = "x scale", .where = normalizes }

static const nc_pattern rows[] = {
    LAYER("Div(" CENTRED ", " ROOT("Pow(d, 2)") ")"),
    LAYER("Div(" CENTRED ", " ROOT("Mul(d, d)") ")"),
    LAYER("Mul(" CENTRED ", Reciprocal(" ROOT("Pow(d, 2)") "))"),
    LAYER("Mul(" CENTRED ", Reciprocal(" ROOT("Mul(d, d)") "))"),
    RMS("Div(x, " ROOT("Pow(x, 2)") ")"),
    RMS("Div(x, " ROOT("Mul(x, x)") ")"),
    RMS("Mul(x, Reciprocal(" ROOT("Pow(x, 2)") "))"),
    RMS("Mul(x, Reciprocal(" ROOT("Mul(x, x)") "))"),
};

nc_code nc_pass_normalizations(nc_work *w, nc_graph *g, int *n_changes) {
    return nc_pattern_apply(w, g, rows, sizeof rows / sizeof rows[0], n_changes);
}

nc_code nc_pass_normalizations_newer(nc_work *w, nc_graph *g, int *n_changes) {
    return nc_pattern_apply_newer(w, g, rows, sizeof rows / sizeof rows[0], n_changes);
}
