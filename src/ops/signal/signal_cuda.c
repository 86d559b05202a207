/* ops/signal/signal_cuda.c: the CUDA bindings of DFT, and of nacre.MelWeights, whose edges the host finds. DFTs of a
 * short and known length run as what their card is made of: a product. */
#include "kernels/cuda/dft.h"
#include "kernels/cuda/place.h"
#include "base/intmath.h"
#include "ops/signal/signal.h"

static nc_code mel_prepare(nc_prep *p) {
    nck_cuda_place *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    p->state = s;
    return nck_cuda_place_prepare(p->device, "triangles", NC_DOUBLE, sizeof(double), s, &p->w->diag);
}

static nc_code mel_run(const nc_call *c) {
    nc_mel_scale m;
    NC_TRY(nc_mel_scale_of(c, &m));
    for (int64_t first = 0; first < m.mels; first += NCK_CUDA_TRIANGLES) {
        nck_cuda_triangles t = {.first = first};
        for (; t.n < NCK_CUDA_TRIANGLES && first + t.n < m.mels; t.n++) t.edge[t.n] = nc_mel_edge(&m, first + t.n);
        for (int i = 0; i < 2; i++) t.edge[t.n + i] = nc_mel_edge(&m, first + t.n + i);
        NC_TRY(nck_cuda_triangles_run(c->state, nck_cuda_at_call(c), c->out[0]->dims[0], m.mels, &t, c->out[0]->data));
    }
    return NC_OK;
}

/* ---- DFT ---- */

enum { SHORT = 1024, SHORT_POWER = 64 }; /* lengths up to which products are as good */

typedef struct dft {
    int64_t axis;
    bool inverse, onesided;
    nck_cuda_dft kernel;
} dft;

static bool dft_fits(const nc_node *n, const char **why) {
    const nc_type *x = n->in[0]->type, *y = n->out[0]->type;
    int64_t axis, parts, length;
    *why = "a short transform is a product";
    if (x == NULL || y == NULL || x->rank < 2 || y->rank != x->rank) return false;
    if (!nc_dim_is_const(x->dims[x->rank - 1], &parts) || parts < 1 || parts > 2) return false;
    if (!nc_dft_axis(n, &axis)) return true;
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank || !nc_dim_is_const(y->dims[axis], &length)) return true;
    if (nc_attr_int(n, "onesided") && !nc_attr_int(n, "inverse")) length = 2 * (length - 1);
    return length > SHORT || (length > SHORT_POWER && (length & (length - 1)) == 0);
}

static nc_code dft_prepare(nc_prep *p) {
    dft *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (dft){.inverse = nc_attr_int(p->node, "inverse") != 0, .onesided = nc_attr_int(p->node, "onesided") != 0};
    if (!nc_dft_axis(p->node, &s->axis)) s->axis = 0;
    p->state = s;
    return nck_cuda_dft_prepare(p->device, p->node->in[0]->type->elem, &s->kernel, &p->w->diag);
}

/* For any axis: of a half, either length that has as many bins. */
static size_t dft_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const dft *s = state;
    size_t most = 0;
    (void)in, (void)n_in, (void)n_out;
    for (int d = 0; d + 1 < out[0].rank; d++) {
        int64_t rows = 1, n = out[0].dims[d];
        for (int e = 0; e + 1 < out[0].rank; e++) rows *= e == d ? 1 : out[0].dims[e];
        bool half = s->onesided && !s->inverse;
        for (int64_t length = half ? 2 * n - 2 : n; length < (half ? 2 * n : n + 1); length++)
            most = nc_max_size(most, nck_cuda_dft_workspace(out[0].dtype, rows, length));
    }
    return most;
}

static nc_code dft_run(const nc_call *c) {
    const dft *s = c->state;
    int64_t axis, length;
    NC_TRY(nc_dft_read(c, s->axis, s->inverse, s->onesided, &axis, &length));
    return nck_cuda_dft_run(&s->kernel, nck_cuda_at_call(c), c->in[0], (int)axis, length, s->inverse, s->onesided,
                            c->out[0], c->workspace);
}

const nc_binding nc_signal_cuda[] = {{.op = "DFT",
                                      .types = T_FLOAT_ALL,
                                      .fits = dft_fits,
                                      .prepare = dft_prepare,
                                      .workspace = dft_workspace,
                                      .run = dft_run},
                                     {.op = "MelWeights", .domain = "nacre", .prepare = mel_prepare, .run = mel_run},
                                     {0}};
