/* ops/sequence/sequence_grad.c: gradients of the sequence and optional ops, and the ops of domain nacre that only they
 * need. The gradient of a sequence is the sequence of its elements' gradients, that of an optional an optional. */
#include "ops/build.h"
#include "ops/sequence/sequence.h"

static nc_value *of_nacre(nc_builder *b, const char *op, nc_value *a, nc_value *c, const nc_attr *attr) {
    nc_value *in[2] = {a, c};
    return nc_build_attr1(b, "nacre", op, in, c != NULL ? 2 : 1, attr, attr != NULL ? 1 : 0);
}

/* Position input i counted from the front of the forward sequence; NULL: it is absent. */
static nc_value *from_front(nc_grad *g, int i) {
    nc_builder *b = g->b;
    nc_value *at = nc_grad_x(g, i);
    if (at == NULL) return NULL;
    at = nc_build_cast(b, at, NC_INT64);
    nc_value *n = nc_build1(b, "SequenceLength", 1, nc_grad_x(g, 0));
    nc_value *back = nc_build1(b, "Less", 2, at, nc_build_int(b, 0));
    return nc_build1(b, "Where", 3, back, nc_build1(b, "Add", 2, at, n), at);
}

nc_code nc_sequence_construct_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    for (int i = 0; dy != NULL && i < g->node->n_in; i++)
        if (g->wants[i]) nc_grad_set(g, i, nc_build1(g->b, "SequenceAt", 2, dy, nc_build_int(g->b, i)));
    return nc_grad_end(g);
}

nc_code nc_sequence_insert_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL) return NC_OK;
    nc_value *at = from_front(g, 2);
    if (at == NULL) at = nc_build_int(g->b, -1);
    if (g->wants[0]) nc_grad_set(g, 0, nc_build1(g->b, "SequenceErase", 2, dy, at));
    if (g->wants[1]) nc_grad_set(g, 1, nc_build1(g->b, "SequenceAt", 2, dy, at));
    return nc_grad_end(g);
}

nc_code nc_sequence_at_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_value *at = from_front(g, 1), *zeros = of_nacre(g->b, "SequenceZeros", nc_grad_x(g, 0), NULL, NULL);
    nc_value *others = nc_build1(g->b, "SequenceErase", 2, zeros, at);
    nc_grad_set(g, 0, nc_build1(g->b, "SequenceInsert", 3, others, dy, at));
    return nc_grad_end(g);
}

nc_code nc_sequence_erase_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_value *at = from_front(g, 1);
    nc_value *gone = nc_build1(g->b, "SequenceAt", 2, nc_grad_x(g, 0), at != NULL ? at : nc_build_int(g->b, -1));
    nc_value *in[3] = {dy, nc_build_zeros_like(g->b, gone), at};
    nc_grad_set(g, 0, nc_build_attr1(g->b, "", "SequenceInsert", in, at != NULL ? 3 : 2, NULL, 0));
    return nc_grad_end(g);
}

nc_code nc_sequence_concat_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    bool is_new = nc_attr_int(g->node, "new_axis") != 0;
    nc_attr attrs[2] = {{.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(g->node, "axis")},
                        {.name = "keepdims", .kind = NC_A_INT, .i = !is_new}};
    nc_value *in[2] = {dy, is_new ? NULL : of_nacre(g->b, "SequenceSizes", nc_grad_x(g, 0), NULL, attrs)};
    nc_grad_set(g, 0, nc_build_attr1(g->b, "", "SplitToSequence", in, is_new ? 1 : 2, attrs, 2));
    return nc_grad_end(g);
}

/* A part without elements goes in behind the others, so that there is something to concatenate where x was empty. */
nc_code nc_sequence_split_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    nc_builder *b = g->b;
    if (dy == NULL || !g->wants[0]) return NC_OK;
    bool given = g->node->n_in > 1 && g->node->in[1] != NULL;
    bool drops = !given && nc_attr_int(g->node, "keepdims") == 0;
    int64_t axis = nc_attr_int(g->node, "axis"), zero = 0, last = -1;
    nc_attr attrs[2] = {{.name = "axis", .kind = NC_A_INT, .i = axis},
                        {.name = "new_axis", .kind = NC_A_INT, .i = drops}};
    nc_value *at = nc_build_ints(b, &axis, 1), *from = nc_build_ints(b, &zero, 1);
    nc_value *part = nc_build1(b, "Slice", 4, nc_grad_x(g, 0), from, from, at);
    if (drops) part = nc_build_reduce_sum(b, part, &axis, 1, false);
    nc_value *all = nc_build1(b, "SequenceInsert", 2, dy, part);
    nc_value *dx = nc_build_attr1(b, "", "ConcatFromSequence", &all, 1, attrs, 2);
    if (drops) dx = nc_build1(b, "Slice", 4, dx, from, nc_build_ints(b, &last, 1), at);
    nc_grad_set(g, 0, dx);
    return nc_grad_end(g);
}

nc_code nc_optional_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy != NULL && g->node->n_in > 0 && g->wants[0]) nc_grad_set(g, 0, nc_build1(g->b, "OptionalGetElement", 1, dy));
    return nc_grad_end(g);
}

nc_code nc_optional_get_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    const nc_type *t = g->node->in[0]->type;
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_grad_set(g, 0, t != NULL && t->kind == NC_T_OPTIONAL ? nc_build1(g->b, "Optional", 1, dy) : dy);
    return nc_grad_end(g);
}

/* ---- the ops of domain nacre ---- */

static nc_code same_infer(nc_infer *c) { return nc_out_like(c, 0, 0); }

static nc_code sizes_infer(nc_infer *c) {
    const nc_dim *n = nc_fresh(c, "n");
    NC_NEED(c->w, n);
    return nc_out(c, 0, NC_INT64, 1, &n);
}

static nc_code add_grad(nc_grad *g) {
    for (int i = 0; i < 2; i++)
        if (g->wants[i]) nc_grad_set(g, i, nc_grad_dy(g, 0));
    return nc_grad_end(g);
}

static const nc_op_version zeros_versions[] = {{.since = 1, IN({"S", T_SEQ}), OUT({"Z", T_SEQ}), NO_ATTR}, {0}};
static const nc_op_version add_versions[] = {{.since = 1, IN({"A", T_SEQ}, {"B", T_SEQ}), OUT({"C", T_SEQ}), NO_ATTR},
                                             {0}};
static const nc_op_version sizes_versions[] = {
    {.since = 1, IN({"S", T_SEQ}), OUT({"sizes", T_I64}), ATTR(A_INT("axis", 0))}, {0}};

const nc_card nc_card_sequence_zeros = {.name = "SequenceZeros",
                                        .domain = "nacre",
                                        .doc = "A sequence of zeros of the sizes of another.",
                                        .versions = zeros_versions,
                                        .traits = NC_HOST_OBJECTS,
                                        .zero_grad = true,
                                        .infer = same_infer};
const nc_card nc_card_sequence_add = {.name = "SequenceAdd",
                                      .domain = "nacre",
                                      .doc = "The sums of two sequences' elements.",
                                      .versions = add_versions,
                                      .traits = NC_HOST_OBJECTS,
                                      .infer = same_infer,
                                      .grad = add_grad};
const nc_card nc_card_sequence_sizes = {.name = "SequenceSizes",
                                        .domain = "nacre",
                                        .doc = "The size of each element along an axis.",
                                        .versions = sizes_versions,
                                        .traits = NC_HOST_OBJECTS,
                                        .zero_grad = true,
                                        .infer = sizes_infer};
