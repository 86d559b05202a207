/* ops/training/words.c: the words of training.h. It names no op of ONNX Runtime. */
#include "ops/training/training.h"

nc_code nc_training_as(nc_builder *b, const nc_node *n, const char *op, nc_value *const *in, int n_in,
                       const nc_attr *attrs, int n_attrs, nc_value **out) {
    enum { MOST = 8 };
    bool wanted[MOST];
    if (n->n_out > MOST) NC_FAIL(b->w, NC_E_LIMIT, "%d outputs, at most %d are expected", n->n_out, MOST);
    for (int i = 0; i < n->n_out; i++) wanted[i] = n->out[i] != NULL;
    nc_node *made = nc_build_wanted(b, "nacre", op, in, n_in, wanted, n->n_out, attrs, n_attrs);
    for (int i = 0; made != NULL && i < n->n_out; i++) out[i] = made->out[i];
    return b->code;
}

nc_code nc_training_renamed(nc_builder *b, const nc_node *n, nc_value **out) {
    return nc_training_as(b, n, n->card->own, n->in, n->n_in, n->attrs, n->n_attrs, out);
}

nc_code nc_training_like_first(nc_infer *c) { return nc_out_like(c, 0, 0); }
nc_code nc_training_like_second(nc_infer *c) { return nc_out_like(c, 0, 1); }

nc_code nc_training_like_pair(nc_infer *c) {
    NC_TRY(nc_in_same(c, 1, 0));
    return nc_out_like(c, 0, 0);
}

nc_value *nc_training_op2(nc_builder *b, const char *op, nc_value *x, nc_value *y) { return nc_build1(b, op, 2, x, y); }

nc_value *nc_training_scaled(nc_builder *b, double k, nc_value *x) {
    if (b->code != NC_OK) return NULL;
    return nc_build1(b, "Mul", 2, x, nc_build_scalar(b, nc_training_elem(x), k));
}

nc_value *nc_training_true(nc_builder *b, int rank) {
    nc_value *yes = nc_build_scalar(b, NC_BOOL, 1);
    return rank == 0 ? yes : nc_build1(b, "Reshape", 2, yes, nc_build_ints(b, (const int64_t[]){1}, 1));
}

nc_value *nc_training_rank0(nc_builder *b, nc_value *x) {
    if (b->code != NC_OK || x == NULL || (x->type != NULL && x->type->rank == 0)) return x;
    return nc_build1(b, "Reshape", 2, x, nc_build_ints(b, (const int64_t[]){0}, 0));
}

nc_dtype nc_training_elem(const nc_value *v) { return v != NULL && v->type != NULL ? v->type->elem : NC_FLOAT; }
