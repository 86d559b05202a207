/* transform/common/pads.c: a Pad with zeros around the spatial dims in front of a Conv becomes the Conv's own pads, so
 * that no padded copy is made and layouts do not end there. Pad has pads of all axes, or of those it names, as
 * constants; none may be below 0. */
#include "transform/rewrite.h"
#include "transform/shapes.h"
#include "transform/transform.h"

#include <string.h>

typedef struct padding {
    int rank;
    int64_t begin[NC_MAX_RANK], end[NC_MAX_RANK];
} padding;

/* Zero of either sign, or nothing given. */
static bool pads_with_zero(const nc_node *p) {
    if (nc_attr_has(p, "value")) return nc_attr_float(p, "value") == 0;
    const nc_value *v = p->n_in > 2 ? p->in[2] : NULL;
    double number;
    return v == NULL || (nc_rewrite_fixed(v) && v->lit->n == 1 && nc_rewrite_number(v->lit, 0, &number) && number == 0);
}

static bool read_amounts(const nc_node *p, int64_t *pads, int *n) {
    if (!nc_attr_has(p, "pads")) return p->n_in > 1 && p->in[1] && nc_rewrite_ints(p->in[1], pads, 2 * NC_MAX_RANK, n);
    const int64_t *v = nc_attr_ints(p, "pads", n);
    if (v == NULL || *n > 2 * NC_MAX_RANK) return false;
    memcpy(pads, v, (size_t)*n * sizeof *pads);
    return true;
}

static bool read_padding(const nc_node *p, padding *a) {
    int64_t pads[2 * NC_MAX_RANK], axes[NC_MAX_RANK];
    int n, n_axes = a->rank;
    if (strcmp(nc_attr_str(p, "mode"), "constant") != 0 || !pads_with_zero(p) || !read_amounts(p, pads, &n))
        return false;
    for (int k = 0; k < a->rank; k++) axes[k] = k;
    if (p->n_in > 3 && p->in[3] != NULL && !nc_rewrite_ints(p->in[3], axes, NC_MAX_RANK, &n_axes)) return false;
    if (n != 2 * n_axes) return false;
    for (int k = 0; k < n_axes; k++) {
        int64_t axis = axes[k] < 0 ? axes[k] + a->rank : axes[k];
        if (axis < 0 || axis >= a->rank || pads[k] < 0 || pads[n_axes + k] < 0) return false;
        a->begin[axis] += pads[k], a->end[axis] += pads[n_axes + k];
    }
    return a->begin[0] == 0 && a->end[0] == 0 && a->begin[1] == 0 && a->end[1] == 0;
}

/* Conv's own pads must be numbers: those of SAME_UPPER depend on what it reads. */
static bool has_own_pads(const nc_node *conv) {
    const char *how = nc_attr_str(conv, "auto_pad");
    return strcmp(how, "NOTSET") == 0 || strcmp(how, "VALID") == 0;
}

static nc_code into_conv(nc_work *w, nc_node *conv, const nc_shapes_bound *bound, bool *done) {
    const nc_node *p = nc_rewrite_def(conv->in[0], "Pad");
    if (p == NULL || p->recompute || !nc_rewrite_tensor(p->in[0]) || p->in[0]->type->rank < 3 || !has_own_pads(conv))
        return NC_OK;
    padding a = {.rank = p->in[0]->type->rank};
    int n = 0, spatial = a.rank - 2;
    bool valid = strcmp(nc_attr_str(conv, "auto_pad"), "VALID") == 0;
    const int64_t *own = valid ? NULL : nc_attr_ints(conv, "pads", &n);
    if (!read_padding(p, &a) || (own != NULL && n != 2 * spatial)) return NC_OK;
    if (conv->out[0]->type == NULL || !nc_shapes_are_bound(bound, p->in[0], conv->out[0]->type)) return NC_OK;
    int64_t pads[2 * NC_MAX_RANK];
    for (int k = 0; k < spatial; k++) {
        pads[k] = a.begin[2 + k] + (own ? own[k] : 0);
        pads[spatial + k] = a.end[2 + k] + (own ? own[spatial + k] : 0);
    }
    nc_value *between = conv->in[0];
    nc_attr attr = {.name = "pads", .kind = NC_A_INTS, .ints = pads, .n = 2 * spatial};
    nc_attr none = {.name = "auto_pad", .kind = NC_A_STRING, .s = {"NOTSET", 6}};
    if (nc_edit_set_attr(conv, &attr) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    if (valid && nc_edit_set_attr(conv, &none) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    nc_edit_set_in(conv, 0, p->in[0]);
    nc_rewrite_drop(between);
    *done = true;
    return NC_OK;
}

nc_code nc_pass_pads(nc_work *w, nc_graph *g, int *n_changes) {
    nc_shapes_bound bound;
    NC_TRY(nc_shapes_find_bound(w, g, &bound));
    for (nc_node *n = g->first; n != NULL; n = n->next) {
        bool done = false;
        if (nc_rewrite_is(n, "Conv") && n->in[0] != NULL) NC_TRY(into_conv(w, n, &bound, &done));
        *n_changes += done;
    }
    return NC_OK;
}
