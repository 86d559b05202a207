/* ops/ml/one_hot_cpu.c: the host kernel of OneHotEncoder where an element without a category is an error of the data
 * (zeros = 0). Else the op is what its card is made of. */
#include "ops/ml/ml.h"

#include <string.h>

bool nc_one_hot_fits(const nc_node *n, const char **why) {
    *why = "zeros is not 0: made of other ops";
    return nc_attr_int(n, "zeros") == 0;
}

nc_code nc_one_hot_prepare(nc_prep *p) {
    const nc_attr *ints = nc_node_attr(p->node, "cats_int64s"), *strings = nc_node_attr(p->node, "cats_strings");
    nc_label_column *cats = nc_arena_alloc(p->arena, sizeof *cats);
    NC_NEED(p->w, cats);
    *cats = ints != NULL ? (nc_label_column){NC_INT64, ints->n, ints->ints}
                         : (nc_label_column){NC_STRING, strings->n, strings->strings};
    p->state = cats;
    return NC_OK;
}

/* Floats are cut off to whole numbers; what is none, or too large for one, has no category. */
static bool whole_at(const nc_tensor *x, int64_t i, int64_t *out) {
    if (x->dtype == NC_INT64)
        *out = ((const int64_t *)x->data)[i];
    else if (x->dtype == NC_INT32)
        *out = ((const int32_t *)x->data)[i];
    else {
        double v = x->dtype == NC_FLOAT ? (double)((const float *)x->data)[i] : ((const double *)x->data)[i];
        if (!(v > -0x1p63 && v < 0x1p63)) return false;
        *out = (int64_t)v;
    }
    return true;
}

static bool same_text(const nc_str *a, const nc_str *b) {
    return a->n == b->n && (a->n == 0 || memcmp(a->p, b->p, a->n) == 0);
}

/* The category of element i, or -1. */
static int64_t category(const nc_label_column *cats, const nc_tensor *x, int64_t i) {
    int64_t v = 0;
    if (cats->type == NC_INT64 && !whole_at(x, i, &v)) return -1;
    for (int64_t k = 0; k < cats->n; k++) {
        bool hit = cats->type == NC_STRING ? same_text((const nc_str *)cats->data + k, (const nc_str *)x->data + i)
                                           : ((const int64_t *)cats->data)[k] == v;
        if (hit) return k;
    }
    return -1;
}

nc_code nc_one_hot(nc_dyn *d) {
    const nc_label_column *cats = d->call->state;
    const nc_tensor *x = d->in[0] != NULL ? &d->in[0]->t : d->call->in[0];
    int64_t dims[NC_MAX_RANK], n = nc_tensor_numel(x);
    nc_tensor y;
    for (int k = 0; k < x->rank; k++) dims[k] = x->dims[k];
    dims[x->rank] = cats->n;
    NC_TRY(d->alloc(d, 0, NC_FLOAT, x->rank + 1, dims, &y));
    float *to = y.data;
    if (n * cats->n > 0) memset(to, 0, (size_t)(n * cats->n) * sizeof *to);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = category(cats, x, i);
        if (k < 0)
            return nc_diag_set(d->call->diag, NC_E_DATA, d->call->node, d->call->op,
                               "element %lld has none of the %lld categories, and zeros is 0", (long long)i,
                               (long long)cats->n);
        to[i * cats->n + k] = 1;
    }
    return NC_OK;
}
