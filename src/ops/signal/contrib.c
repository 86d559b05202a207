/* ops/signal/contrib.c: cards of com.microsoft's Fourier transforms of real signals, Rfft and its inverse Irfft, over
 * the last signal_ndim dims. They run, and are differentiated, as one DFT after the other: the last dim by halves. */
#include "ops/contrib.h"

typedef struct fft_kind {
    bool inverse; /* then X has a last dim of parts, and the result has not */
} fft_kind;

static bool is_inverse(const nc_node *n) { return ((const fft_kind *)n->card->own)->inverse; }

static nc_code fft_check(nc_infer *c, int rank) {
    int64_t dims = nc_attr_int(c->node, "signal_ndim"), most = rank - is_inverse(c->node);
    if (nc_attr_int(c->node, "normalized") != 0) NC_FAIL(c->w, NC_E_UNSUPPORTED, "normalized is not 0, expected 0");
    if (nc_attr_int(c->node, "onesided") != 1) NC_FAIL(c->w, NC_E_UNSUPPORTED, "onesided is not 1, expected 1");
    if (dims < 1 || dims > 3) NC_FAIL(c->w, NC_E_BAD_GRAPH, "signal_ndim is %lld, expected 1, 2 or 3", (long long)dims);
    if (rank >= 0 && most < dims)
        NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, expected at least %lld", rank, (long long)dims + rank - most);
    return NC_OK;
}

static nc_code fft_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK + 1], *one = nc_dim_const(c->dims, 1), *two = nc_dim_const(c->dims, 2);
    bool inverse = is_inverse(c->node);
    NC_NEED(c->w, one);
    NC_NEED(c->w, two);
    NC_TRY(fft_check(c, x != NULL ? x->rank : -1));
    if (x == NULL) return NC_OK;
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    if (x->rank == NC_MAX_RANK && !inverse) NC_FAIL(c->w, NC_E_SHAPE, "the result has too many dims");
    for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
    int last = x->rank - 1 - inverse;
    if (inverse) {
        NC_TRY(nc_in_expect(c, 0, x->rank - 1, two));
        dims[last] = nc_dim_mul(c->dims, two, nc_dim_sub(c->dims, dims[last], one));
        return nc_out(c, 0, x->elem, x->rank - 1, dims);
    }
    dims[last] = nc_dim_add(c->dims, nc_dim_floordiv(c->dims, dims[last], two), one);
    dims[x->rank] = two;
    return nc_out(c, 0, x->elem, x->rank + 1, dims);
}

static nc_value *along(nc_builder *b, nc_value *x, int64_t axis, bool inverse, bool half) {
    nc_attr attrs[2] = {{.name = "inverse", .kind = NC_A_INT, .i = inverse},
                        {.name = "onesided", .kind = NC_A_INT, .i = half}};
    return nc_build_newest1(b, "DFT", (nc_value *[]){x, NULL, nc_build_int(b, axis)}, 3, attrs, 2);
}

static nc_code fft_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    static const int64_t behind = -1;
    bool inverse = is_inverse(n);
    if (n->in[0]->type == NULL || n->in[0]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    int64_t last = n->in[0]->type->rank - 1 - inverse, dims = nc_attr_int(n, "signal_ndim");
    nc_value *axes = nc_build_ints(b, &behind, 1), *y = n->in[0];
    if (!inverse) y = along(b, nc_build1(b, "Unsqueeze", 2, y, axes), last, false, true);
    for (int64_t k = 1; k < dims; k++) y = along(b, y, last - k, inverse, false);
    out[0] = inverse ? nc_build1(b, "Squeeze", 2, along(b, y, last, true, true), axes) : y;
    return b->code;
}

#define ONE IN({"X", T_FLOAT}), OUT({"Y", SAME(0)})
#define WAY A_INT("normalized", 0), A_INT("onesided", 1)
static const nc_op_version rfft_versions[] = {{.since = 1, ONE, ATTR(A_INT("signal_ndim", 1), WAY)}, {0}};
static const nc_op_version irfft_versions[] = {{.since = 1, ONE, ATTR(A_INT_REQ("signal_ndim"), WAY)}, {0}};

const nc_card nc_card_rfft = {.name = "Rfft",
                              .domain = NC_MICROSOFT,
                              .doc = "The Fourier transform of real signals, the half that says it all.",
                              .versions = rfft_versions,
                              .own = &(const fft_kind){.inverse = false},
                              .infer = fft_infer,
                              .decompose = fft_decompose};
const nc_card nc_card_irfft = {.name = "Irfft",
                               .domain = NC_MICROSOFT,
                               .doc = "Real signals, of even lengths, from half of their Fourier transforms.",
                               .versions = irfft_versions,
                               .own = &(const fft_kind){.inverse = true},
                               .infer = fft_infer,
                               .decompose = fft_decompose};
