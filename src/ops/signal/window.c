/* ops/signal/window.c: cards of the window functions, made of elementwise ops in double over k = 0 .. size-1, with the
 * angle 2 pi k / N; N is size, or size - 1 where both ends are to be alike. */
#include "ops/build.h"
#include "ops/card.h"

static nc_dtype target(const nc_node *n) {
    int64_t t = nc_attr_int(n, "output_datatype");
    return t > 0 && t < NC_N_DTYPES ? (nc_dtype)t : NC_UNDEFINED;
}

static nc_code window_infer(nc_infer *c) {
    int n;
    nc_dtype t = target(c->node);
    if (t == NC_UNDEFINED || !(c->node->version->out[0].types & NC_BIT(t)))
        NC_FAIL(c->w, NC_E_TYPE, "output_datatype %lld is not a number's type",
                (long long)nc_attr_int(c->node, "output_datatype"));
    const nc_dim *const *size = nc_in_elems(c, 0, &n);
    const nc_dim *dim = size != NULL && n == 1 ? size[0] : nc_fresh(c, "size");
    NC_NEED(c->w, dim);
    return nc_out(c, 0, t, 1, &dim);
}

/* 2 pi k / N */
static nc_value *angle(nc_builder *b, const nc_node *n) {
    nc_value *size = nc_build_cast(b, n->in[0], NC_INT64), *span = size;
    nc_value *k = nc_build1(b, "Range", 3, nc_build_int(b, 0), size, nc_build_int(b, 1));
    if (nc_attr_int(n, "periodic") == 0) span = nc_build1(b, "Sub", 2, size, nc_build_int(b, 1));
    nc_value *turn = nc_build_scalar(b, NC_DOUBLE, 6.283185307179586);
    nc_value *up = nc_build1(b, "Mul", 2, turn, nc_build_cast(b, k, NC_DOUBLE));
    return nc_build1(b, "Div", 2, up, nc_build_cast(b, span, NC_DOUBLE));
}

static nc_value *weighted(nc_builder *b, double w, nc_value *v) {
    return nc_build1(b, "Mul", 2, nc_build_scalar(b, NC_DOUBLE, w), v);
}

/* a0 - a1 cos(angle) + a2 cos(2 angle) */
static nc_code cosines(nc_builder *b, const nc_node *n, double a0, double a1, double a2, nc_value **out) {
    nc_value *x = angle(b, n);
    nc_value *y = nc_build1(b, "Sub", 2, nc_build_scalar(b, NC_DOUBLE, a0), weighted(b, a1, nc_build1(b, "Cos", 1, x)));
    if (a2 != 0) y = nc_build1(b, "Add", 2, y, weighted(b, a2, nc_build1(b, "Cos", 1, weighted(b, 2, x))));
    out[0] = nc_build_cast(b, y, target(n));
    return b->code;
}

static nc_code hann(nc_builder *b, const nc_node *n, nc_value **out) { return cosines(b, n, 0.5, 0.5, 0, out); }
static nc_code hamming(nc_builder *b, const nc_node *n, nc_value **out) {
    return cosines(b, n, 25.0 / 46, 21.0 / 46, 0, out);
}
static nc_code blackman(nc_builder *b, const nc_node *n, nc_value **out) { return cosines(b, n, 0.42, 0.5, 0.08, out); }

static const nc_op_version versions[] = {{.since = 17,
                                          IN({"size", T_INDEX}),
                                          OUT({"output", T_NUMBER_ALL}),
                                          ATTR(A_INT("periodic", 1), A_INT("output_datatype", 1))},
                                         {0}};

#define WINDOW(symbol, op, pieces, text)                     \
    const nc_card nc_card_##symbol = {.name = op,            \
                                      .doc = text,           \
                                      .versions = versions,  \
                                      .infer = window_infer, \
                                      .host_in = 1,          \
                                      .zero_grad = true,     \
                                      .decompose = pieces};

WINDOW(hann_window, "HannWindow", hann, "Half a raised cosine wave.")
WINDOW(hamming_window, "HammingWindow", hamming, "A raised cosine wave that does not fall to 0.")
WINDOW(blackman_window, "BlackmanWindow", blackman, "A sum of two cosine waves.")
