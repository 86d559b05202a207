/* ops/signal/signal_cpu.c: CPU bindings of DFT over kernels/cpu/signal/dft.h, and of nacre.MelWeights. */
#include "kernels/cpu/signal/dft.h"

#include "ops/binding.h"
#include "ops/signal/signal.h"
#include "ops/widen.h"

#include <math.h>

typedef struct dft_state {
    int64_t axis; /* unless input 2 gives it */
    bool inverse, onesided;
} dft_state;

static nc_code dft_prepare(nc_prep *p) {
    dft_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s =
        (dft_state){.inverse = nc_attr_int(p->node, "inverse") != 0, .onesided = nc_attr_int(p->node, "onesided") != 0};
    if (!nc_dft_axis(p->node, &s->axis)) s->axis = 0;
    p->state = s;
    return NC_OK;
}

static int64_t int_of(const nc_tensor *t) {
    return t->dtype == NC_INT32 ? *(const int32_t *)t->data : *(const int64_t *)t->data;
}

/* For any axis: the length is below twice the longest dim. */
static size_t dft_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    int64_t most = 1;
    (void)state;
    (void)n_in;
    (void)n_out;
    for (int i = 0; i + 1 < in[0].rank; i++) {
        if (in[0].dims[i] > most) most = in[0].dims[i];
        if (out[0].dims[i] > most) most = out[0].dims[i];
    }
    return nck_dft_workspace(2 * most);
}

nc_code nc_dft_read(const nc_call *c, int64_t axis, bool inverse, bool onesided, int64_t *along, int64_t *length) {
    const nc_tensor *x = c->in[0], *y = c->out[0];
    int64_t parts = x->dims[x->rank - 1], n;
    if (c->n_in > 2 && c->in[2]->data != NULL) axis = int_of(c->in[2]);
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank - 1 || (parts != 1 && parts != 2))
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op,
                           "axis %lld of %d dims, the last %lld: expected one before the last, and 1 or 2",
                           (long long)axis, x->rank, (long long)parts);
    bool half = onesided && !inverse;
    n = !half ? y->dims[axis] : c->n_in > 1 && c->in[1]->data != NULL ? int_of(c->in[1]) : x->dims[axis];
    if (n < 1 || (half ? n / 2 + 1 : n) != y->dims[axis])
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "length %lld does not give the planned shape",
                           (long long)n);
    *along = axis, *length = n;
    return NC_OK;
}

static nc_code dft_run(const nc_call *c) {
    const dft_state *s = c->state;
    int64_t axis, length;
    NC_TRY(nc_dft_read(c, s->axis, s->inverse, s->onesided, &axis, &length));
    nck_dft(c->in[0], (int)axis, length, s->inverse, s->onesided, c->out[0], c->workspace, c->pool);
    return NC_OK;
}

NC_WIDENED_HALF(dft, dft_workspace)

/* ---- nacre.MelWeights ---- */

static double hertz_to_mel(double f) { return 2595 * log1p(f / 700) / log(10); }
static double mel_to_hertz(double m) { return 700 * expm1(m / 2595 * log(10)); }

int64_t nc_mel_edge(const nc_mel_scale *m, int64_t i) {
    return (int64_t)floor((double)(m->length + 1) * mel_to_hertz((double)i * m->step + m->low) / (double)m->rate);
}

nc_code nc_mel_scale_of(const nc_call *c, nc_mel_scale *m) {
    double high = hertz_to_mel(*(const double *)c->in[4]->data);
    int64_t bins = c->out[0]->dims[0];
    *m = (nc_mel_scale){.mels = *(const int64_t *)c->in[0]->data,
                        .length = *(const int64_t *)c->in[1]->data,
                        .rate = *(const int64_t *)c->in[2]->data,
                        .low = hertz_to_mel(*(const double *)c->in[3]->data)};
    m->step = (high - m->low) / (double)(m->mels + 2);
    if (m->rate < 1 || m->length < 1 || m->mels != c->out[0]->dims[1] || !(m->low >= 0) || !(high >= m->low) ||
        !isfinite(high) || (m->mels > 0 && nc_mel_edge(m, m->mels + 1) > bins))
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op,
                           "the edges do not lie in order within the spectrum of %lld bins", (long long)bins);
    if (m->mels > 0 && nc_mel_edge(m, m->mels) >= bins)
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "the upper edge lies above the spectrum");
    return NC_OK;
}

/* y (bins, mels) */
static void triangle(const nc_mel_scale *m, int64_t i, double *y) {
    int64_t left = nc_mel_edge(m, i), top = nc_mel_edge(m, i + 1), right = nc_mel_edge(m, i + 2);
    if (left == top) y[top * m->mels + i] = 1;
    for (int64_t j = left; left != top && j <= top; j++) y[j * m->mels + i] = (double)(j - left) / (double)(top - left);
    for (int64_t j = top; j < right; j++) y[j * m->mels + i] = (double)(right - j) / (double)(right - top);
}

static nc_code mel_run(const nc_call *c) {
    nc_mel_scale m;
    double *y = c->out[0]->data;
    int64_t n = nc_tensor_numel(c->out[0]);
    NC_TRY(nc_mel_scale_of(c, &m));
    for (int64_t i = 0; i < n; i++) y[i] = 0;
    for (int64_t i = 0; i < m.mels; i++) triangle(&m, i, y);
    return NC_OK;
}

#define T_WIDE (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE))
const nc_binding nc_signal_cpu[] = {
    {.op = "DFT", .types = T_WIDE, .prepare = dft_prepare, .workspace = dft_workspace, .run = dft_run},
    {.op = "DFT", .types = NC_WIDEN_HALF, .prepare = dft_prepare, .workspace = dft_half_workspace, .run = dft_half_run},
    {.op = "MelWeights", .domain = "nacre", .run = mel_run},
    {0}};
