/* ops/rnn/rnn_standard.c: gradients of recurrent layers for others to run: the layer as a Loop of simple ops once more,
 * differentiated there, so nothing has to be kept of the forward pass and the layer itself is ONNX's own again. */
#include "ops/rnn/rnn.h"
#include "ops/standard.h"

enum { MOST = 12 };

static const char *layer_of(nck_rnn_kind kind) { return kind == NCK_LSTM ? "LSTM" : kind == NCK_GRU ? "GRU" : "RNN"; }

nc_code nc_rnn_kept_standard(nc_builder *b, const nc_node *n, nc_value **out) {
    nck_rnn_kind kind = nc_rnn_kind_of(n);
    int n_out = nc_rnn_n_out(kind);
    bool wanted[MOST] = {false};
    const nc_value *kept = n->out[n_out];
    if (kept->uses.n > 0 || kept->n_outputs > 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "'%s' is read, which ONNX's %s does not give", kept->name, layer_of(kind));
    for (int i = 0; i < n_out; i++) wanted[i] = n->out[i] != NULL;
    nc_node *y = nc_build_wanted(b, "", layer_of(kind), n->in, n->n_in, wanted, n_out, n->attrs, n->n_attrs);
    for (int i = 0; y != NULL && i < n_out; i++) out[i] = y->out[i];
    out[n_out] = n->in[NC_RNN_X]; /* takes the place of nothing */
    return b->code;
}

nc_code nc_rnn_grad_standard(nc_builder *b, const nc_node *n, nc_value **out) {
    nck_rnn_kind kind = nc_rnn_kind_of(n);
    int n_in = nc_rnn_n_in(kind), n_dy = nc_rnn_n_out(kind), n_x = 0, n_y = 0;
    nc_value *in[MOST] = {NULL}, *xs[MOST], *dxs[MOST] = {NULL}, *ys[MOST] = {NULL}, *dys[MOST];
    for (int i = 0; i < n_in; i++) {
        in[i] = n->in[i];
        if (i >= n->n_out || n->out[i] == NULL) continue;
        xs[n_x++] = in[i] = nc_build1(b, "Identity", 1, in[i]); /* nothing in front of it is reached */
    }
    NC_TRY(b->code);
    NC_TRY(nc_rnn_parts(b, n, in, ys));
    for (int i = 0; i < n_dy; i++) {
        if (n->in[n_in + i] == NULL) continue;
        ys[n_y] = ys[i];
        dys[n_y++] = n->in[n_in + i];
    }
    NC_TRY(b->grad(b, ys, dys, n_y, xs, n_x, dxs));
    for (int i = 0, k = 0; i < n_in && i < n->n_out; i++) {
        if (n->out[i] == NULL) continue;
        out[i] = dxs[k] != NULL ? dxs[k] : nc_build_zeros_like(b, xs[k]);
        k++;
    }
    return b->code;
}
