/* ops/blocked.c: words for hooks of the channel-blocked layout, see blocked.h. */
#include "ops/blocked.h"

#include <string.h>

bool nc_blocks_input(const nc_node *n, int i, nc_blocking *k) {
    const nc_type *x = n->in[i] != NULL ? n->in[i]->type : NULL, *y = n->out[0]->type;
    int64_t C;
    k->why = "the input is not of a type that is kept in blocks, with known rank and channels";
    if (x == NULL || y == NULL || !(k->types & NC_BIT(x->elem)) || y->elem != x->elem) return false;
    if (y->rank + __builtin_popcountll(k->dropped) != x->rank) return false;
    if (x->rank < 3 || x->rank + 1 > NC_MAX_RANK || !nc_dim_is_const(x->dims[1], &C) || C == 0) return false;
    if (!nc_dim_is_const(y->dims[1], &C) || C == 0) return false;
    k->in |= 1u << i;
    return true;
}

int nc_blocks_axis(const nc_node *n, int64_t axis) {
    int rank = n->in[0]->type->rank;
    if (axis < 0) axis += rank;
    return axis >= 0 && axis < rank ? (int)axis : -1;
}

static nc_attr lengthened(nc_builder *b, const nc_attr *a, const nc_blocked_attr *l) {
    int each = a->n / l->parts, n = 0;
    int64_t *v = nc_arena_array(&b->w->scratch, (size_t)(a->n + l->parts), sizeof *v);
    nc_attr out = *a;
    if (v == NULL) {
        b->code = nc_fail(b->w, NC_E_MEMORY, "out of memory");
        return out;
    }
    for (int p = 0; p < l->parts; p++) {
        for (int i = 0; i < each; i++) v[n++] = a->ints[p * each + i];
        v[n++] = l->more;
    }
    out.ints = v;
    out.n = n;
    return out;
}

nc_value *nc_blocked_same(nc_builder *b, const nc_node *n, nc_value *const *in, const nc_blocked_attr *longer) {
    nc_attr *attrs = nc_arena_array(&b->w->scratch, (size_t)n->n_attrs + 1, sizeof *attrs);
    if (attrs == NULL) {
        b->code = nc_fail(b->w, NC_E_MEMORY, "out of memory");
        return NULL;
    }
    for (int i = 0; i < n->n_attrs; i++) {
        attrs[i] = n->attrs[i];
        for (const nc_blocked_attr *l = longer; l != NULL && l->name != NULL; l++)
            if (strcmp(l->name, attrs[i].name) == 0) attrs[i] = lengthened(b, &n->attrs[i], l);
    }
    return b->code == NC_OK ? nc_build_card1(b, n->card, in, n->n_in, attrs, n->n_attrs) : NULL;
}
