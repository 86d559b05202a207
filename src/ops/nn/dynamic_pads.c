/* ops/nn/dynamic_pads.c: card of com.microsoft's ConvTransposeWithDynamicPads: what the pads cut off is known only in
 * the run. It runs, and is differentiated, as ConvTranspose, cut by a Slice where the pads are not constant. */
#include "ops/contrib.h"

#include <string.h>

extern const nc_card nc_card_conv_transpose;

enum { X, W, PADS, BIAS };

/* Pads count only where nothing else says how large the result is. */
static bool uses_pads(const nc_node *n) {
    return nc_contrib_in(n, PADS) != NULL && strcmp(nc_attr_str(n, "auto_pad"), "NOTSET") == 0;
}

/* As ConvTranspose without pads; then what they cut off each side is taken off. */
static nc_code pads_infer(nc_infer *c) {
    nc_infer_val in[3] = {c->in[X], c->in[W], {0}};
    const nc_dim *dims[NC_MAX_RANK];
    int64_t pads[2 * NC_MAX_RANK];
    nc_infer whole = *c;
    int n = 0, rank;
    if (c->node->n_in > BIAS) in[2] = c->in[BIAS];
    whole.in = in;
    NC_TRY(nc_card_conv_transpose.infer(&whole));
    const nc_type *y = c->out[0].type;
    if (y == NULL || y->rank < 0 || !uses_pads(c->node)) return NC_OK;
    NC_TRY(nc_contrib_rank(c, PADS, 1));
    if (nc_in_rank(c, PADS, &rank)) NC_TRY(nc_in_expect(c, PADS, 0, nc_dim_const(c->dims, 2 * (y->rank - 2))));
    bool known = nc_in_ints(c, PADS, pads, 2 * NC_MAX_RANK, &n) && n == 2 * (y->rank - 2);
    for (int i = 0; i < y->rank; i++) {
        dims[i] = y->dims[i];
        if (i < 2) continue;
        int64_t off = known ? pads[i - 2] + pads[i - 2 + n / 2] : 0;
        if (known && (pads[i - 2] < 0 || pads[i - 2 + n / 2] < 0)) NC_FAIL(c->w, NC_E_SHAPE, "a pad is negative");
        dims[i] = known ? nc_dim_sub(c->dims, y->dims[i], nc_dim_const(c->dims, off)) : nc_fresh(c, "cut");
        NC_NEED(c->w, dims[i]);
    }
    return nc_out(c, 0, y->elem, y->rank, dims);
}

static nc_value *cut(nc_builder *b, nc_value *y, nc_value *pads) {
    int64_t n = y->type->rank - 2, axes[NC_MAX_RANK], zero = 0, all = 2 * n, two = 2, rank = n + 2;
    nc_value *from = nc_build_ints(b, &zero, 1), *mid = nc_build_ints(b, &n, 1), *end = nc_build_ints(b, &all, 1);
    for (int64_t i = 0; i < n; i++) axes[i] = 2 + i;
    nc_value *sizes =
        nc_build1(b, "Slice", 3, nc_build_shape(b, y), nc_build_ints(b, &two, 1), nc_build_ints(b, &rank, 1));
    nc_value *ends = nc_build1(b, "Sub", 2, sizes, nc_build1(b, "Slice", 3, pads, mid, end));
    return nc_build1(b, "Slice", 4, y, nc_build1(b, "Slice", 3, pads, from, mid), ends, nc_build_ints(b, axes, (int)n));
}

static nc_code pads_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr attrs[17];
    nc_value *in[3] = {n->in[X], n->in[W], nc_contrib_in(n, BIAS)};
    int n_attrs = nc_contrib_attrs(n, NULL, 0, attrs);
    if (n->in[X]->type == NULL || n->in[X]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    nc_value *y = nc_build_attr1(b, "", "ConvTranspose", in, in[2] != NULL ? 3 : 2, attrs, n_attrs);
    if (b->code != NC_OK) return b->code;
    out[0] = uses_pads(n) ? cut(b, y, n->in[PADS]) : y;
    return b->code;
}

static const nc_op_version pads_versions[] = {
    {.since = 1,
     IN({"X", T_FLOAT}, {"W", SAME(0)}, {"Pads", T_I64, OPTIONAL}, {"B", SAME(0), OPTIONAL}),
     OUT({"Y", SAME(0)}),
     ATTR(A_STR("auto_pad", "NOTSET"), A_INTS_OPT("dilations"), A_INT("group", 1), A_INTS_OPT("kernel_shape"),
          A_INTS_OPT("output_padding"), A_INTS_OPT("strides"))},
    {0}};

const nc_card nc_card_conv_transpose_with_dynamic_pads = {.name = "ConvTransposeWithDynamicPads",
                                                          .domain = NC_MICROSOFT,
                                                          .doc = "ConvTranspose whose pads are an operand.",
                                                          .versions = pads_versions,
                                                          .host_in = 1u << PADS,
                                                          .no_grad_in = 1u << PADS,
                                                          .infer = pads_infer,
                                                          .decompose = pads_decompose};
