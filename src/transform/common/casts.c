/* transform/common/casts.c: a Cast of a Cast is one Cast where the value between says all that the first one said, or
 * where integers are only cut shorter twice. CastLike becomes Cast, so that nothing hangs on its second input. A cast
 * to the type a value has is an identity (identity.c); casts of constants are folded (fold_constants.c).
 *
 * Left alone: what a narrower type rounds (float -> float16 -> float), strings, narrow floats (their casts saturate),
 * and floats on their way to integers, where numbers out of range depend on the way. */
#include "transform/rewrite.h"
#include "transform/transform.h"

/* How many bits of an integer a type holds exactly. */
static unsigned whole_bits(nc_dtype t) {
    switch (t) {
    case NC_FLOAT16: return 11;
    case NC_BFLOAT16: return 8;
    case NC_FLOAT: return 24;
    case NC_DOUBLE: return 53;
    case NC_BOOL: return 1;
    default: return nc_dtype_bits(t);
    }
}

static bool is_int(nc_dtype t) {
    char c = nc_dtype_class(t);
    return (c == 'I' || c == 'U') && !nc_dtype_is_packed(t);
}

/* Is every value of a also one of b? */
static bool holds(nc_dtype a, nc_dtype b) {
    if (a == b) return true;
    if (a == NC_BOOL) return is_int(b) || nc_dtype_is_float(b);
    if (nc_dtype_is_float(a)) return b == NC_DOUBLE || (b == NC_FLOAT && (a == NC_FLOAT16 || a == NC_BFLOAT16));
    if (!is_int(a)) return false;
    if (nc_dtype_is_float(b)) return whole_bits(a) <= whole_bits(b);
    if (!is_int(b) || (nc_dtype_class(a) == 'I' && nc_dtype_class(b) == 'U')) return false;
    return nc_dtype_class(a) == nc_dtype_class(b) ? nc_dtype_bits(a) <= nc_dtype_bits(b)
                                                  : nc_dtype_bits(a) < nc_dtype_bits(b);
}

/* Does a -> b -> c give what a -> c gives? */
static bool through(nc_dtype a, nc_dtype b, nc_dtype c) {
    if (is_int(a) && is_int(b) && is_int(c) && nc_dtype_bits(c) <= nc_dtype_bits(b)) return true;
    if (!holds(a, b)) return false;
    /* A long integer may be rounded twice on its way to half precision. */
    if ((c == NC_FLOAT16 || c == NC_BFLOAT16) && is_int(a) && whole_bits(a) > whole_bits(NC_FLOAT)) return false;
    if (nc_dtype_is_float(c) || c == NC_BOOL) return true;
    return is_int(c) && (is_int(b) || holds(a, c));
}

static nc_code cast_like(nc_work *w, nc_node *n, int *n_changes) {
    const nc_attr *saturate = nc_node_attr(n, "saturate"), *round = nc_node_attr(n, "round_mode");
    if (n->in[1] == NULL || n->in[1]->type == NULL || n->in[1]->type->kind != NC_T_TENSOR || n->in[0]->type == NULL)
        return NC_OK;
    nc_attr attrs[3] = {{.name = "to", .kind = NC_A_INT, .i = n->in[1]->type->elem}};
    int n_attrs = 1;
    if (n->in[1]->type->elem == NC_UNDEFINED) return NC_OK;
    if (saturate != NULL) attrs[n_attrs++] = *saturate;
    if (round != NULL) attrs[n_attrs++] = *round;
    nc_node *made;
    NC_TRY(nc_rewrite(w, n, "Cast", n->in, 1, attrs, n_attrs, &made));
    *n_changes += made != NULL;
    return NC_OK;
}

static void merge(nc_node *n, int *n_changes) {
    nc_value *between = n->in[0];
    const nc_node *p = nc_rewrite_def(between, "Cast");
    if (p == NULL || p->recompute || p->in[0] == NULL || p->in[0]->type == NULL) return;
    if (between->type == NULL || n->out[0]->type == NULL || between->var != NULL) return;
    nc_value *x = p->in[0];
    if (!through(x->type->elem, between->type->elem, n->out[0]->type->elem)) return;
    if (!(n->version->in[0].types & NC_BIT(x->type->elem))) return;
    nc_edit_set_in(n, 0, x);
    nc_rewrite_drop(between);
    ++*n_changes;
}

nc_code nc_pass_casts(nc_work *w, nc_graph *g, int *n_changes) {
    for (nc_node *n = g->first, *next; n != NULL; n = next) {
        next = n->next;
        if (n->recompute) continue;
        if (nc_rewrite_is(n, "Cast") && nc_rewrite_free(n))
            merge(n, n_changes);
        else if (nc_rewrite_is(n, "CastLike") && nc_rewrite_free(n))
            NC_TRY(cast_like(w, n, n_changes));
    }
    return NC_OK;
}
