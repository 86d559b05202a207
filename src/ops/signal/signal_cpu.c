/* ops/signal/signal_cpu.c: CPU bindings of DFT over kernels/cpu/signal/dft.h, and of nacre.MelWeights. */
#include "kernels/cpu/signal/dft.h"

#include "ops/binding.h"
#include "ops/signal/signal.h"
#include "ops/widen.h"

#include <math.h>

typedef struct dft_state {
    int64_t axis;
    bool inverse, onesided;
} dft_state;

static nc_code dft_prepare(nc_prep *p) {
    dft_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const nc_type *t = p->node->in[0]->type;
    *s = (dft_state){.inverse = nc_attr_int(p->node, "inverse") != 0, .onesided = nc_attr_int(p->node, "onesided") != 0};
    if (t == NULL || t->rank < 0 || !nc_dft_axis(p->node, NULL, t->rank, &s->axis))
        NC_FAIL(p->w, NC_E_UNSUPPORTED, "the axis must be a constant");
    p->state = s;
    return NC_OK;
}

/* The length is that of the output; half a spectrum comes of a length that an input gives, or of the input's own. */
static int64_t length_of(const dft_state *s, const nc_tensor *in, int n_in, const nc_tensor *out) {
    if (!s->onesided || s->inverse) return out->dims[s->axis];
    if (n_in > 1 && in[1].data != NULL)
        return in[1].dtype == NC_INT32 ? *(const int32_t *)in[1].data : *(const int64_t *)in[1].data;
    return in[0].dims[s->axis];
}

static size_t dft_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const dft_state *s = state;
    int64_t most = 2 * out[0].dims[s->axis], own = in[0].dims[s->axis];
    (void)n_in;
    (void)n_out;
    return nck_dft_workspace(most > own ? most : own);
}

static nc_code dft_run(const nc_call *c) {
    const dft_state *s = c->state;
    int64_t length = length_of(s, c->in, c->n_in, &c->out[0]), parts = c->in[0].dims[c->in[0].rank - 1];
    if (parts != 1 && parts != 2)
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "the last dim is %lld, expected 1 or 2", (long long)parts);
    int64_t bins = s->onesided && !s->inverse ? length / 2 + 1 : length;
    if (length < 1 || bins != c->out[0].dims[s->axis])
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "length %lld does not give the planned shape",
                           (long long)length);
    nck_dft(&c->in[0], (int)s->axis, length, s->inverse, s->onesided, &c->out[0], c->workspace, c->pool);
    return NC_OK;
}

NC_WIDENED_HALF(dft, dft_workspace)

/* ---- nacre.MelWeights ---- */

static double hertz_to_mel(double f) { return 2595 * log1p(f / 700) / log(10); }
static double mel_to_hertz(double m) { return 700 * expm1(m / 2595 * log(10)); }

typedef struct mel_scale {
    int64_t mels, length, rate;
    double low, step;
} mel_scale;

/* The spectrum's bin where triangle edge i lies. */
static int64_t edge(const mel_scale *m, int64_t i) {
    return (int64_t)floor((double)(m->length + 1) * mel_to_hertz((double)i * m->step + m->low) / (double)m->rate);
}

/* Rises from edge i to i + 1 and falls to i + 2; y (bins, mels). */
static void triangle(const mel_scale *m, int64_t i, double *y) {
    int64_t left = edge(m, i), top = edge(m, i + 1), right = edge(m, i + 2);
    if (left == top) y[top * m->mels + i] = 1;
    for (int64_t j = left; left != top && j <= top; j++)
        y[j * m->mels + i] = (double)(j - left) / (double)(top - left);
    for (int64_t j = top; j < right; j++) y[j * m->mels + i] = (double)(right - j) / (double)(right - top);
}

static nc_code mel_run(const nc_call *c) {
    mel_scale m = {.mels = *(const int64_t *)c->in[0].data,
                   .length = *(const int64_t *)c->in[1].data,
                   .rate = *(const int64_t *)c->in[2].data};
    double *y = c->out[0].data, high = hertz_to_mel(*(const double *)c->in[4].data);
    int64_t bins = c->out[0].dims[0], n = nc_tensor_numel(&c->out[0]);
    m.low = hertz_to_mel(*(const double *)c->in[3].data);
    m.step = (high - m.low) / (double)(m.mels + 2);
    if (m.rate < 1 || m.length < 1 || m.mels != c->out[0].dims[1] || !(m.low >= 0) || !(high >= m.low) ||
        !isfinite(high) || (m.mels > 0 && edge(&m, m.mels + 1) > bins))
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op,
                           "the edges do not lie in order within the spectrum of %lld bins", (long long)bins);
    for (int64_t i = 0; i < n; i++) y[i] = 0;
    if (m.mels > 0 && edge(&m, m.mels) >= bins)
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "the upper edge lies above the spectrum");
    for (int64_t i = 0; i < m.mels; i++) triangle(&m, i, y);
    return NC_OK;
}

#define T_WIDE (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE))
const nc_binding nc_signal_cpu[] = {
    {.op = "DFT", .types = T_WIDE, .prepare = dft_prepare, .workspace = dft_workspace, .run = dft_run},
    {.op = "DFT",
     .types = NC_WIDEN_HALF,
     .prepare = dft_prepare,
     .workspace = dft_half_workspace,
     .run = dft_half_run},
    {.op = "MelWeights", .domain = "nacre", .run = mel_run},
    {0}};
