/* ops/sequence/sequence.c: cards of the sequence ops. Sequences are counted objects on the host. Their gradients are in
 * sequence_grad.c. */
#include "ops/sequence/sequence.h"

nc_code nc_sequence_join(nc_infer *c, const nc_type *a, const nc_type *b, const nc_type **out) {
    const nc_dim *dims[NC_MAX_RANK];
    *out = a != NULL ? a : b;
    if (a == NULL || b == NULL || a == b) return NC_OK;
    if (a->elem != b->elem)
        NC_FAIL(c->w, NC_E_TYPE, "a sequence of %s cannot hold %s", nc_dtype_name(a->elem), nc_dtype_name(b->elem));
    int rank = a->rank == b->rank ? a->rank : -1;
    for (int k = 0; k < rank; k++) {
        bool open = !nc_dim_is_const(a->dims[k], NULL);
        dims[k] = open || a->dims[k] == b->dims[k] ? a->dims[k] : nc_fresh(c, "d");
        NC_NEED(c->w, dims[k]);
    }
    *out = nc_type_tensor(c->arena, a->elem, rank, dims);
    NC_NEED(c->w, *out);
    return NC_OK;
}

nc_code nc_sequence_item(nc_infer *c, const nc_type *of, const nc_type **out) {
    const nc_dim *dims[NC_MAX_RANK];
    *out = of;
    if (of == NULL || of->kind != NC_T_TENSOR || of->rank <= 0) return NC_OK;
    for (int k = 0; k < of->rank; k++) {
        dims[k] = nc_dim_is_const(of->dims[k], NULL) ? of->dims[k] : nc_fresh(c, "d");
        NC_NEED(c->w, dims[k]);
    }
    *out = nc_type_tensor(c->arena, of->elem, of->rank, dims);
    NC_NEED(c->w, *out);
    return NC_OK;
}

nc_code nc_sequence_out(nc_infer *c, int i, const nc_type *of) {
    c->out[i].type = nc_type_holding(c->arena, NC_T_SEQUENCE, of);
    NC_NEED(c->w, c->out[i].type);
    return NC_OK;
}

static const nc_type *held(nc_infer *c, int i) {
    const nc_type *t = nc_in(c, i);
    return t != NULL && t->kind == NC_T_SEQUENCE ? t->of : NULL;
}

static nc_code empty_infer(nc_infer *c) {
    int64_t t = nc_attr_has(c->node, "dtype") ? nc_attr_int(c->node, "dtype") : NC_FLOAT;
    if (t <= NC_UNDEFINED || t >= NC_N_DTYPES) NC_FAIL(c->w, NC_E_TYPE, "dtype %lld is not known", (long long)t);
    const nc_type *of = nc_type_tensor(c->arena, (nc_dtype)t, -1, NULL);
    NC_NEED(c->w, of);
    return nc_sequence_out(c, 0, of);
}

static nc_code construct_infer(nc_infer *c) {
    const nc_type *of = nc_in(c, 0);
    for (int i = 1; i < c->node->n_in; i++) NC_TRY(nc_sequence_join(c, of, nc_in(c, i), &of));
    return nc_sequence_out(c, 0, of);
}

static nc_code insert_infer(nc_infer *c) {
    const nc_type *of;
    NC_TRY(nc_sequence_join(c, held(c, 0), nc_in(c, 1), &of));
    return nc_sequence_out(c, 0, of);
}

static nc_code at_infer(nc_infer *c) { return nc_sequence_item(c, held(c, 0), &c->out[0].type); }
static nc_code erase_infer(nc_infer *c) { return nc_out_like(c, 0, 0); }
static nc_code length_infer(nc_infer *c) { return nc_out(c, 0, NC_INT64, 0, NULL); }

static nc_code concat_infer(nc_infer *c) {
    const nc_type *of = held(c, 0), *item;
    const nc_dim *dims[NC_MAX_RANK + 1];
    bool is_new = nc_attr_int(c->node, "new_axis") != 0;
    int axis, at = 0;
    if (of == NULL || of->kind != NC_T_TENSOR) return NC_OK;
    if (of->rank < 0) return nc_out_unknown(c, 0, of->elem, -1);
    int rank = of->rank + is_new;
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), rank, &axis));
    NC_TRY(nc_sequence_item(c, of, &item));
    for (int k = 0; k < rank; k++) {
        dims[k] = k == axis ? nc_fresh(c, "n") : item->dims[at];
        NC_NEED(c->w, dims[k]);
        if (k != axis || !is_new) at++;
    }
    return nc_out(c, 0, of->elem, rank, dims);
}

/* What every part has of a dim, where that is known to be the same. */
static nc_code part_dim(nc_infer *c, const nc_dim *whole, const nc_dim **out) {
    int64_t size[NC_MAX_ELEMS], dim;
    int n = 0;
    bool equal = nc_in_ints(c, 1, size, NC_MAX_ELEMS, &n) && n > 0;
    if (equal && n == 1 && size[0] <= 0) NC_FAIL(c->w, NC_E_SHAPE, "parts of %lld elements", (long long)size[0]);
    if (n == 1) equal = equal && nc_dim_is_const(whole, &dim) && dim > 0 && dim % size[0] == 0;
    for (int k = 1; equal && k < n; k++) equal = size[k] == size[0];
    *out = equal && size[0] >= 0 ? nc_dim_const(c->dims, size[0]) : nc_fresh(c, "n");
    NC_NEED(c->w, *out);
    return NC_OK;
}

static nc_code split_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *of;
    const nc_dim *dims[NC_MAX_RANK], *part = NULL;
    int axis, rank = 0;
    if (x == NULL) return NC_OK;
    bool given = c->node->n_in > 1 && c->in[1].present;
    bool drops = !given && nc_attr_int(c->node, "keepdims") == 0;
    if (x->rank >= 0) NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), x->rank, &axis));
    for (int k = 0; k < x->rank; k++) {
        if (k == axis && drops) continue;
        if (k == axis && given) NC_TRY(part_dim(c, x->dims[k], &part));
        dims[rank] = k == axis && !given ? nc_dim_const(c->dims, 1) : k == axis ? part : x->dims[k];
        NC_NEED(c->w, dims[rank]);
        rank++;
    }
    of = nc_type_tensor(c->arena, x->elem, x->rank < 0 ? -1 : rank, dims);
    NC_NEED(c->w, of);
    return nc_sequence_out(c, 0, of);
}

#define CARD(symbol, op, hook, host, gradient, text)                 \
    const nc_card nc_card_##symbol = {.name = op,                    \
                                      .doc = text,                   \
                                      .versions = symbol##_versions, \
                                      .traits = NC_HOST_OBJECTS,     \
                                      .infer = hook,                 \
                                      gradient,                      \
                                      .host_in = host};
#define ZERO .zero_grad = true

static const nc_op_version sequence_empty_versions[] = {
    {.since = 11, NO_IN, OUT({"output", T_SEQ}), ATTR(A_INT_OPT("dtype"))}, {0}};
CARD(sequence_empty, "SequenceEmpty", empty_infer, 0, ZERO, "A sequence without elements.")

static const nc_op_version sequence_construct_versions[] = {
    {.since = 11, IN({"inputs", T_TENSOR, VARIADIC}), OUT({"output_sequence", T_SEQ}), NO_ATTR}, {0}};
CARD(sequence_construct, "SequenceConstruct", construct_infer, 0, .grad = nc_sequence_construct_grad,
     "The sequence of its inputs.")

static const nc_op_version sequence_insert_versions[] = {
    {.since = 11,
     IN({"input_sequence", T_SEQ}, {"tensor", T_TENSOR}, {"position", T_INDEX, SINGLE_OPTIONAL}),
     OUT({"output_sequence", T_SEQ}),
     NO_ATTR},
    {0}};
CARD(sequence_insert, "SequenceInsert", insert_infer, 1u << 2, .grad = nc_sequence_insert_grad,
     "The sequence with a tensor put in, at the end unless a position is given.")

static const nc_op_version sequence_at_versions[] = {
    {.since = 11, IN({"input_sequence", T_SEQ}, {"position", T_INDEX, SINGLE}), OUT({"tensor", T_TENSOR}), NO_ATTR},
    {0}};
CARD(sequence_at, "SequenceAt", at_infer, 1u << 1, .grad = nc_sequence_at_grad, "One element of a sequence.")

static const nc_op_version sequence_erase_versions[] = {
    {.since = 11,
     IN({"input_sequence", T_SEQ}, {"position", T_INDEX, SINGLE_OPTIONAL}),
     OUT({"output_sequence", T_SEQ}),
     NO_ATTR},
    {0}};
CARD(sequence_erase, "SequenceErase", erase_infer, 1u << 1, .grad = nc_sequence_erase_grad,
     "The sequence without one element, the last unless a position is given.")

static const nc_op_version sequence_length_versions[] = {
    {.since = 11, IN({"input_sequence", T_SEQ}), OUT({"length", T_I64}), NO_ATTR}, {0}};
CARD(sequence_length, "SequenceLength", length_infer, 0, ZERO, "How many elements a sequence has.")

static const nc_op_version concat_from_sequence_versions[] = {{.since = 11,
                                                               IN({"input_sequence", T_SEQ}),
                                                               OUT({"concat_result", T_TENSOR}),
                                                               ATTR(A_INT_REQ("axis"), A_INT("new_axis", 0))},
                                                              {0}};
CARD(concat_from_sequence, "ConcatFromSequence", concat_infer, 0, .grad = nc_sequence_concat_grad,
     "The elements one behind the other along an axis, or a new one.")

#define SPLIT(types)                                                                     \
    IN({"input", types}, {"split", T_INDEX, OPTIONAL}), OUT({"output_sequence", T_SEQ}), \
        ATTR(A_INT("axis", 0), A_INT("keepdims", 1))
static const nc_op_version split_to_sequence_versions[] = {
    {.since = 24, SPLIT(T_TENSOR_ALL)}, {.since = 11, SPLIT(T_TENSOR)}, {0}};
CARD(split_to_sequence, "SplitToSequence", split_infer, 1u << 1, .grad = nc_sequence_split_grad,
     "The sequence of parts of a tensor along an axis.")
