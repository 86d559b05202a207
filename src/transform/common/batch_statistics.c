/* transform/common/batch_statistics.c: BatchNormalization by the mean and the variance of its own input, as exporters
 * write a layer that keeps no running statistics, becomes its training form, whose kernels find them. That gives no
 * running statistics either, so any vectors may stand for those that it would move: the scale and the bias. */
#include "transform/pattern.h"
#include "transform/transform.h"

/* A mean over all axes but the channels'. */
static bool over_all_but_channels(const nc_node *mean, int rank, bool kept) {
    int64_t given[NC_MAX_RANK];
    int n = 0;
    nc_axes mask = 0;
    const int64_t *axes = nc_attr_ints(mean, "axes", &n);
    if ((nc_attr_int(mean, "keepdims") != 0) != kept) return false;
    if (axes == NULL) {
        if (mean->n_in < 2 || !nc_rewrite_ints(mean->in[1], given, NC_MAX_RANK, &n)) return false;
        axes = given;
    }
    for (int i = 0; i < n; i++) {
        int64_t a = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (a < 0 || a >= rank) return false;
        mask |= nc_axes_of(a);
    }
    return mask == nc_axes_below(rank) - nc_axes_of(1);
}

static nc_code own_statistics(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    const nc_value *x = nc_match_value(m, "x"), *scale = nc_match_value(m, "s"), *bias = nc_match_value(m, "b");
    const nc_node *n = m->root;
    (void)w;
    *fits = n->version->since >= 14 && nc_attr_int(n, "training_mode") == 0 && nc_rewrite_tensor(x) &&
            nc_rewrite_same_type(n->out[0], x) && nc_rewrite_tensor(scale) && nc_rewrite_tensor(bias);
    if (!*fits) return NC_OK;
    int rank = x->type->rank;
    *fits = over_all_but_channels(nc_match_value(m, "m")->def, rank, false) &&
            over_all_but_channels(nc_match_value(m, "v")->def, rank, false) &&
            over_all_but_channels(nc_match_value(m, "k")->def, rank, true);
    made->attrs[0] = (nc_attr){.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "epsilon")};
    made->attrs[1] = (nc_attr){.name = "training_mode", .kind = NC_A_INT, .i = 1};
    made->n_attrs = 2;
    return NC_OK;
}

static const nc_pattern rows[] = {
    {.text = "BatchNormalization(x, s, b, m=ReduceMean(x, ..), "
             "v=ReduceMean(Mul(d=Sub(x, k=ReduceMean(x, ..)), d), ..))",
     .op = "BatchNormalization",
     .inputs = "x s b s b",
     .where = own_statistics},
};

nc_code nc_pass_batch_statistics(nc_work *w, nc_graph *g, int *n_changes) {
    return nc_pattern_apply(w, g, rows, sizeof rows / sizeof rows[0], n_changes);
}
