/* ops/training/layer.c: see layer.h. */
#include "ops/training/layer.h"

#include "ops/training/training.h"

#include <string.h>

nc_code nc_layer_check(nc_work *w, const nc_node *n, const char *const *expected) {
    const char *direction = nc_attr_str(n, "direction");
    const nc_attr *names = nc_node_attr(n, "activations");
    int count = 0, known = 0;
    if (strcmp(direction, "forward") != 0)
        NC_FAIL(w, NC_E_UNSUPPORTED, "direction is '%.40s', expected forward", direction);
    if (nc_contrib_float(n, "clip", 0) != 0) NC_FAIL(w, NC_E_UNSUPPORTED, "clip is expected to be absent");
    while (expected[known] != NULL) known++;
    const nc_str *given = names != NULL ? nc_attr_strings(names, &count) : NULL;
    for (int i = 0; i < count; i++)
        if (i >= known || strcmp(given[i].p, expected[i]) != 0)
            NC_FAIL(w, NC_E_UNSUPPORTED, "activation %d is '%.40s', expected %s", i, given[i].p,
                    i < known ? expected[i] : "none");
    return NC_OK;
}

nc_code nc_layer_rows_out(nc_infer *c, int i, const nc_dim *first, int gates) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *H = nc_in_dim(c, 2, 2), *one = nc_dim_const(c->dims, 1), *dims[4];
    int n = 0;
    if (x == NULL || x->rank != 3 || H == NULL) return x != NULL ? nc_out_unknown(c, i, x->elem, first ? 4 : 3) : NC_OK;
    if (first != NULL) dims[n++] = first;
    dims[n++] = one, dims[n++] = x->dims[1];
    dims[n++] = nc_dim_mul(c->dims, H, nc_dim_const(c->dims, gates));
    return nc_out(c, i, x->elem, n, dims);
}

nc_code nc_layer_size(nc_builder *b, const nc_node *n, int64_t *H) {
    const nc_type *r = n->in[2]->type;
    *H = nc_contrib_int(n, "hidden_size", 0);
    if (*H <= 0 && (r == NULL || r->rank != 3 || !nc_dim_is_const(r->dims[2], H)))
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known hidden size");
    return NC_OK;
}

nc_value *nc_layer_part(nc_builder *b, nc_value *x, int64_t H, int from, int to) {
    int64_t start = from * H, end = to * H, axis = 3;
    return nc_build1(b, "Slice", 4, x, nc_build_ints(b, &start, 1), nc_build_ints(b, &end, 1),
                     nc_build_ints(b, &axis, 1));
}

nc_value *nc_layer_joined(nc_builder *b, nc_value *const *in, int n) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 3};
    return nc_build_attr1(b, "", "Concat", in, n, &axis, 1);
}

nc_value *nc_layer_turned(nc_builder *b, nc_value *x) {
    return nc_build_transpose(b, x, (const int64_t[]){1, 0, 2, 3}, 4);
}

int nc_layer_attrs(const nc_node *n, nc_attr *to) {
    static const char *const dropped[] = {"activation_alpha", "activation_beta", "activations"};
    return nc_contrib_attrs(n, dropped, 3, to);
}

nc_value *nc_layer_logit(nc_builder *b, nc_value *x) {
    nc_value *rest = nc_training_op2(b, "Sub", nc_build_scalar(b, nc_training_elem(x), 1), x);
    return nc_training_op2(b, "Sub", nc_build1(b, "Log", 1, x), nc_build1(b, "Log", 1, rest));
}
