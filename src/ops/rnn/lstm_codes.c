/* ops/rnn/lstm_codes.c: the card of com.microsoft.DynamicQuantizeLSTM: X W R B lens h c P as LSTM has them, but W and R
 * turned and of 8-bit codes, then scale and zero point of W and of R. Its kernel quantizes X and the state as ONNX
 * Runtime does; in parts it computes with the numbers that the codes stand for. */
#include "ops/contrib.h"
#include "ops/quant/quant.h"
#include "ops/rnn/rnn.h"

#include <string.h>

static nc_code lstm_infer(nc_infer *c) {
    const char *direction = nc_attr_str(c->node, "direction");
    const nc_dim *D = nc_dim_const(c->dims, strcmp(direction, "bidirectional") == 0 ? 2 : 1);
    NC_TRY(nc_contrib_rank(c, 0, 3));
    NC_TRY(nc_contrib_rank(c, 1, 3));
    NC_TRY(nc_contrib_rank(c, 2, 3));
    for (int i = 1; i < 3; i++) NC_TRY(nc_in_expect(c, i, 0, D));
    NC_TRY(nc_in_expect(c, 1, 1, nc_in_dim(c, 0, 2)));
    const nc_dim *S = nc_in_dim(c, 0, 0), *B = nc_in_dim(c, 0, 1), *H = nc_in_dim(c, 2, 1);
    if (nc_attr_has(c->node, "hidden_size")) {
        H = nc_dim_const(c->dims, nc_attr_int(c->node, "hidden_size"));
        NC_TRY(nc_in_expect(c, 2, 1, H));
    }
    if (S == NULL || H == NULL) {
        for (int i = 0; i < 3; i++) NC_TRY(nc_out_unknown(c, i, NC_FLOAT, i == 0 ? 4 : 3));
        return NC_OK;
    }
    for (int i = 1; i < 3; i++) NC_TRY(nc_in_expect(c, i, 2, nc_dim_mul(c->dims, nc_dim_const(c->dims, 4), H)));
    NC_TRY(nc_out(c, 0, NC_FLOAT, 4, (const nc_dim *[]){S, D, B, H}));
    NC_TRY(nc_out(c, 1, NC_FLOAT, 3, (const nc_dim *[]){D, B, H}));
    return nc_out(c, 2, NC_FLOAT, 3, (const nc_dim *[]){D, B, H});
}

/* v (D) or (D,4H) against weights (D,rows,4H). */
static nc_value *beside_rows(nc_builder *b, nc_value *v) {
    int64_t axes[2] = {1, 2};
    if (b->code != NC_OK) return NULL;
    return nc_build1(b, "Unsqueeze", 2, v, nc_build_ints(b, axes, v->type->rank == 1 ? 2 : 1));
}

/* Weights (D,rows,4H) of codes as LSTM's (D,4H,rows). */
static nc_value *weights(nc_builder *b, nc_value *w, nc_value *scale, nc_value *zero) {
    nc_value *x = nc_build_cast(b, w, NC_FLOAT), *z = nc_build_cast(b, zero, NC_FLOAT);
    x = nc_build1(b, "Mul", 2, nc_build1(b, "Sub", 2, x, beside_rows(b, z)), beside_rows(b, scale));
    return nc_build_transpose(b, x, (int64_t[]){0, 2, 1}, 3);
}

static nc_code lstm_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *in[8] = {n->in[0], weights(b, n->in[1], n->in[8], n->in[9]), weights(b, n->in[2], n->in[10], n->in[11])};
    bool wanted[3];
    for (int i = 3; i < 8; i++) in[i] = n->in[i];
    for (int i = 0; i < 3; i++) wanted[i] = nc_contrib_wants(n, i);
    nc_attr attrs[16];
    int n_attrs = nc_contrib_attrs(n, NULL, 0, attrs);
    if (!nc_attr_has(n, "hidden_size") && b->code == NC_OK) {
        int64_t H;
        if (!nc_dim_is_const(n->in[2]->type->dims[1], &H))
            NC_FAIL(b->w, NC_E_UNSUPPORTED, "hidden_size is neither said nor known from R");
        attrs[n_attrs++] = (nc_attr){.name = "hidden_size", .kind = NC_A_INT, .i = H};
    }
    nc_node *lstm = nc_build_wanted(b, "", "LSTM", in, 8, wanted, 3, attrs, n_attrs);
    for (int i = 0; lstm != NULL && i < n->n_out; i++)
        if (wanted[i]) out[i] = lstm->out[i];
    return b->code;
}

#define F32(name) \
    { name, T_F32 }
static const nc_op_version lstm_versions[] = {
    {.since = 1,
     IN({"X", T_F32}, {"W", T_BYTE}, {"R", SAME(1)}, {"B", T_F32, OPTIONAL}, {"sequence_lens", T_I32, OPTIONAL},
        {"initial_h", T_F32, OPTIONAL}, {"initial_c", T_F32, OPTIONAL}, {"P", T_F32, OPTIONAL}, F32("W_scale"),
        {"W_zero_point", SAME(1)}, F32("R_scale"), {"R_zero_point", SAME(1)}),
     OUT({"Y", T_F32, OPTIONAL}, {"Y_h", T_F32, OPTIONAL}, {"Y_c", T_F32, OPTIONAL}),
     ATTR(A_STR("direction", "forward"), A_INT_OPT("hidden_size"), A_FLOATS_OPT("activation_alpha"),
          A_FLOATS_OPT("activation_beta"), A_FLOAT_OPT("clip"), A_STRINGS_OPT("activations"),
          A_INT("input_forget", 0))},
    {0}};

const nc_card nc_card_dynamic_quantize_lstm = {.name = "DynamicQuantizeLSTM",
                                               .domain = NC_MICROSOFT,
                                               .doc =
                                                   "LSTM of 8-bit weights, inputs and states quantized by their range.",
                                               .versions = lstm_versions,
                                               .own = &(const nc_rnn_own){NCK_LSTM, NULL},
                                               .zero_grad = true,
                                               .infer = lstm_infer,
                                               .decompose = lstm_decompose};
