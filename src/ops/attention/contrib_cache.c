/* ops/attention/contrib_cache.c: new rows in the caches of attentions of com.microsoft: behind those of the past, or,
 * where caches have room beyond their rows, at the place that past_sequence_length tells, with TensorScatter; and rows
 * that came from other beams. See contrib.h. */
#include "ops/attention/contrib.h"

static nc_value *one(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

static nc_value *counted(nc_builder *b, nc_value *n) {
    nc_value *scalar = nc_build1(b, "Squeeze", 2, n, one(b, 0));
    return nc_build1(b, "Range", 3, nc_build_int(b, 0), scalar, nc_build_int(b, 1));
}

/* Rows of x (B*beams,heads,T,D), row k of each beam taken from the beam that `from` (B,beams,most) names; those from
 * row `old` on, which are new, from their own. */
static nc_value *from_beams(nc_builder *b, nc_value *x, nc_value *from, nc_value *old) {
    nc_attr first = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_value *beams = nc_contrib_size(b, from, 1), *T = nc_contrib_size(b, x, 2);
    nc_value *group = counted(b, nc_contrib_size(b, from, 0));
    group = nc_build1(b, "Unsqueeze", 2, nc_build1(b, "Mul", 2, group, beams), nc_build_ints(b, (int64_t[]){1, 2}, 2));
    from = nc_build1(b, "Slice", 4, nc_build_cast(b, from, NC_INT64), one(b, 0), T, one(b, 2));
    nc_value *self = nc_build1(b, "Unsqueeze", 2, counted(b, beams), one(b, 1));
    nc_value *is_old = nc_build1(b, "Less", 2, counted(b, T), old);
    nc_value *at = nc_build1(b, "Add", 2, nc_build1(b, "Where", 3, is_old, from, self), group);
    nc_value *rows[2] = {nc_contrib_size(b, x, 0), T};
    at = nc_build1(b, "Reshape", 2, at, nc_attn_join(b, rows, 2, 0));
    at = nc_build1(b, "Unsqueeze", 2, at, nc_build_ints(b, (int64_t[]){1, 3}, 2));
    nc_value *in[2] = {x, nc_build1(b, "Expand", 2, at, nc_build_shape(b, x))};
    return nc_build_attr1(b, "", "GatherElements", in, 2, &first, 1);
}

nc_code nc_msattn_cached(nc_builder *b, nc_msattn *a, nc_value *length, nc_value *from, nc_value **keys,
                         nc_value **present) {
    nc_value *past[2] = {a->past_k, a->past_v}, *x[2] = {a->k, a->v};
    nc_value *B = nc_contrib_size(b, a->q, 0), *S = nc_contrib_size(b, a->q, 2);
    nc_value *at = length == NULL ? nc_contrib_size(b, past[0], 2)
                                  : nc_build_cast(b, nc_build1(b, "Reshape", 2, length, one(b, 1)), NC_INT64);
    *keys = nc_build1(b, "Add", 2, at, nc_contrib_size(b, x[0], 2));
    nc_value *places = nc_build1(b, "Expand", 2, at, B), *alone = nc_build1(b, "Equal", 2, S, nc_build_int(b, 1));
    nc_value *old = nc_build1(b, "Mul", 2, at, nc_build_cast(b, alone, NC_INT64));
    for (int i = 0; i < 2 && b->code == NC_OK; i++) {
        nc_value *in[3] = {past[i], x[i], places};
        present[i] = length == NULL ? nc_attn_join(b, in, 2, 2) : nc_build_newest1(b, "TensorScatter", in, 3, NULL, 0);
        x[i] = present[i];
        if (from == NULL) continue;
        if (length != NULL) x[i] = nc_build1(b, "Slice", 4, x[i], one(b, 0), *keys, one(b, 2));
        if (b->code == NC_OK) x[i] = from_beams(b, x[i], from, old);
    }
    a->k = x[0], a->v = x[1];
    a->past_k = a->past_v = NULL;
    a->lens = nc_build1(b, "Expand", 2, *keys, B);
    return b->code;
}
