/* ops/signal/mel.c: cards of MelWeightMatrix and of nacre.MelWeights, the same in int64 and double, which has the
 * kernel. */
#include "ops/build.h"
#include "ops/card.h"

/* In elements of type t. */
static nc_code matrix_infer(nc_infer *c, nc_dtype t) {
    int n[2];
    const nc_dim *const *bins = nc_in_elems(c, 0, &n[0]), *const *length = nc_in_elems(c, 1, &n[1]);
    const nc_dim *two = nc_dim_const(c->dims, 2), *one = nc_dim_const(c->dims, 1), *dims[2] = {NULL, NULL};
    if (length != NULL && n[1] == 1 && two != NULL && one != NULL)
        dims[0] = nc_dim_add(c->dims, nc_dim_floordiv(c->dims, length[0], two), one);
    if (bins != NULL && n[0] == 1) dims[1] = bins[0];
    if (dims[0] == NULL) dims[0] = nc_fresh(c, "bins");
    if (dims[1] == NULL) dims[1] = nc_fresh(c, "mels");
    return nc_out(c, 0, t, 2, dims);
}

static nc_code weights_infer(nc_infer *c) { return matrix_infer(c, NC_DOUBLE); }

static nc_code mel_infer(nc_infer *c) {
    int64_t to = nc_attr_int(c->node, "output_datatype");
    nc_dtype t = to > 0 && to < NC_N_DTYPES ? (nc_dtype)to : NC_UNDEFINED;
    if (t == NC_UNDEFINED || !(c->node->version->out[0].types & NC_BIT(t)))
        NC_FAIL(c->w, NC_E_TYPE, "output_datatype %lld is not a number's type", (long long)to);
    return matrix_infer(c, t);
}

static nc_code mel_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *in[5];
    for (int i = 0; i < 5; i++) in[i] = nc_build_cast(b, n->in[i], i < 3 ? NC_INT64 : NC_DOUBLE);
    nc_value *y = nc_build_attr1(b, "nacre", "MelWeights", in, 5, NULL, 0);
    out[0] = nc_build_cast(b, y, (nc_dtype)nc_attr_int(n, "output_datatype"));
    return b->code;
}

#define EDGES(i, f)                                                                                     \
    IN({"num_mel_bins", i}, {"dft_length", SAME(0)}, {"sample_rate", SAME(0)}, {"lower_edge_hertz", f}, \
       {"upper_edge_hertz", SAME(3)})
static const nc_op_version mel_versions[] = {
    {.since = 17, EDGES(T_INDEX, T_FLOAT_ALL), OUT({"output", T_NUMBER_ALL}), ATTR(A_INT("output_datatype", 1))}, {0}};
static const nc_op_version weights_versions[] = {
    {.since = 1, EDGES(T_I64, NC_BIT(NC_DOUBLE)), OUT({"output", NC_BIT(NC_DOUBLE)}), NO_ATTR}, {0}};

const nc_card nc_card_mel_weight_matrix = {.name = "MelWeightMatrix",
                                           .doc = "Triangles that sum a spectrum into bins of the mel scale.",
                                           .versions = mel_versions,
                                           .infer = mel_infer,
                                           .host_in = 31,
                                           .zero_grad = true,
                                           .decompose = mel_decompose};
const nc_card nc_card_mel_weights = {.name = "MelWeights",
                                     .domain = "nacre",
                                     .doc = "MelWeightMatrix of int64 and double inputs, in double.",
                                     .versions = weights_versions,
                                     .infer = weights_infer,
                                     .host_in = 31,
                                     .zero_grad = true};
