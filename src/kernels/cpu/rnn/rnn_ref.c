/* kernels/cpu/rnn/rnn_ref.c: the recurrent layers as the formulas stand in ONNX, one element at a time in double. */
#include "kernels/cpu/rnn/rnn.h"

#include "base/real.h"

#include <math.h>
#include <string.h>

static double rnn_ref_load(const nck_rnn_args *a, const void *p, int64_t i) {
    return p != NULL ? nc_real_get(a->type, p, i) : 0;
}

static void rnn_ref_store(const nck_rnn_args *a, void *p, int64_t i, double v) {
    if (p != NULL) nc_real_put(a->type, p, i, v);
}

static double rnn_ref_activate(const nck_rnn_rule *rule, int i, double x) {
    const nck_rnn_act *f = &rule->act[i];
    if (rule->clip != 0 && i < 2) x = x > rule->clip ? rule->clip : x < -rule->clip ? -rule->clip : x;
    switch (f->fn) {
    case NCK_RNN_TANH: return tanh(x);
    case NCK_RNN_SIGMOID: return 1 / (1 + exp(-x));
    case NCK_RNN_RELU: return x < 0 ? 0 : x;
    case NCK_RNN_AFFINE: return f->alpha * x + f->beta;
    case NCK_RNN_LEAKY_RELU: return x < 0 ? f->alpha * x : x;
    case NCK_RNN_THRESHOLDED: return x > f->alpha ? x : 0;
    case NCK_RNN_SCALED_TANH: return f->alpha * tanh(f->beta * x);
    case NCK_RNN_HARD_SIGMOID: return fmin(1, fmax(0, f->alpha * x + f->beta));
    case NCK_RNN_ELU: return x < 0 ? f->alpha * expm1(x) : x;
    case NCK_RNN_SOFTSIGN: return x / (1 + fabs(x));
    case NCK_RNN_SOFTPLUS: return x > 30 ? x : log1p(exp(x));
    }
    return NAN;
}

static double rnn_ref_code(nc_dtype type, const void *p, int64_t i) {
    return type == NC_INT8 ? ((const int8_t *)p)[i] : ((const uint8_t *)p)[i];
}

/* Element k of a row of weights, K long: of W (i 0) or R (i 1). */
static double rnn_ref_weight(const nck_rnn_args *a, int i, int64_t row, int64_t k, int64_t K) {
    if (a->codes == NULL) return rnn_ref_load(a, i == 0 ? a->w : a->r, row * K + k);
    const nck_rnn_codes *c = &a->codes[i];
    int64_t at = k * nck_rnn_gates(a->cell->rule.kind) * a->H + row;
    return (rnn_ref_code(c->type, c->codes, at) - rnn_ref_code(c->type, c->zero, row % c->zeros)) *
           (double)c->scale[row % c->scales];
}

/* v as the code from 0 to 255 that stands for it where codes reach over [low, high]. */
static double rnn_ref_coded(float v, float low, float high) {
    float scale = low == high ? 1 : (high - low) / 255, zero = rintf(fminf(fmaxf(0 - low / scale, 0), 255));
    return (double)(fminf(fmaxf(rintf(v / scale) + zero, 0), 255) - zero) * (double)scale;
}

/* Element i of x; the range of all of them is found anew for each. */
static double rnn_ref_x(const nck_rnn_args *a, int64_t i) {
    const float *x = a->x;
    float low = 0, high = 0;
    if (a->codes == NULL) return rnn_ref_load(a, a->x, i);
    for (int64_t k = 0; k < a->T * a->B * a->I; k++) low = fminf(low, x[k]), high = fmaxf(high, x[k]);
    return rnn_ref_coded(x[i], low, high);
}

static void rnn_ref_code_state(const double *h, int64_t H, double *to) {
    float low = 0, high = 0;
    for (int64_t k = 0; k < H; k++) low = fminf(low, (float)h[k]), high = fmaxf(high, (float)h[k]);
    for (int64_t k = 0; k < H; k++) to[k] = rnn_ref_coded((float)h[k], low, high);
}

/* x_t W' + Wb of gate g, unit j */
static double from_input(const nck_rnn_args *a, int64_t x_row, int64_t row) {
    double sum = rnn_ref_load(a, a->b, row);
    for (int64_t k = 0; k < a->I; k++) sum += rnn_ref_x(a, x_row * a->I + k) * rnn_ref_weight(a, 0, row, k, a->I);
    return sum;
}

/* h R' + Rb */
static double from_state(const nck_rnn_args *a, const double *h, const double *scale, int64_t row) {
    double sum = rnn_ref_load(a, a->b, nck_rnn_gates(a->cell->rule.kind) * a->H + row);
    for (int64_t k = 0; k < a->H; k++) sum += h[k] * (scale ? scale[k] : 1) * rnn_ref_weight(a, 1, row, k, a->H);
    return sum;
}

static void lstm_row(const nck_rnn_args *a, int64_t x, const double *h, double *c, double *next) {
    const nck_rnn_rule *rule = &a->cell->rule;
    int64_t H = a->H;
    for (int64_t j = 0; j < H; j++) {
        double g[4], C = c[j];
        for (int64_t k = 0; k < 4; k++) g[k] = from_input(a, x, k * H + j) + from_state(a, h, NULL, k * H + j);
        double i = rnn_ref_activate(rule, 0, g[0] + rnn_ref_load(a, a->p, j) * C);
        double f = rule->input_forget ? 1 - i : rnn_ref_activate(rule, 0, g[2] + rnn_ref_load(a, a->p, 2 * H + j) * C);
        c[j] = f * C + i * rnn_ref_activate(rule, 1, g[3]);
        next[j] =
            rnn_ref_activate(rule, 0, g[1] + rnn_ref_load(a, a->p, H + j) * c[j]) * rnn_ref_activate(rule, 2, c[j]);
    }
}

/* r is scratch of H */
static void gru_row(const nck_rnn_args *a, int64_t x, double *h, double *r, double *next) {
    const nck_rnn_rule *rule = &a->cell->rule;
    int64_t H = a->H;
    for (int64_t j = 0; j < H; j++)
        r[j] = rnn_ref_activate(rule, 0, from_input(a, x, H + j) + from_state(a, h, NULL, H + j));
    for (int64_t j = 0; j < H; j++) {
        double z = rnn_ref_activate(rule, 0, from_input(a, x, j) + from_state(a, h, NULL, j));
        double rec =
            rule->linear_before_reset ? r[j] * from_state(a, h, NULL, 2 * H + j) : from_state(a, h, r, 2 * H + j);
        next[j] = (1 - z) * rnn_ref_activate(rule, 1, from_input(a, x, 2 * H + j) + rec) + z * h[j];
    }
}

static void rnn_ref_run_row(const nck_rnn_args *a, int64_t b, double *h, double *c, double *next) {
    int64_t n = a->lens ? a->lens[b] : a->T, H = a->H;
    for (int64_t j = 0; j < H; j++) {
        h[j] = rnn_ref_load(a, a->h0, b * a->state_rs + j);
        c[j] = rnn_ref_load(a, a->c0, b * a->state_rs + j);
    }
    for (int64_t s = 0; s < a->T; s++) {
        int64_t t = s < n && a->reverse ? n - 1 - s : s, x = a->batch_first ? b * a->T + t : t * a->B + b;
        if (s < n) {
            double *seen = a->codes != NULL ? next + H : h;
            if (a->codes != NULL) rnn_ref_code_state(h, H, seen);
            if (a->cell->rule.kind == NCK_LSTM)
                lstm_row(a, x, seen, c, next);
            else if (a->cell->rule.kind == NCK_GRU)
                gru_row(a, x, h, c, next);
            else
                for (int64_t j = 0; j < H; j++)
                    next[j] = rnn_ref_activate(&a->cell->rule, 0, from_input(a, x, j) + from_state(a, h, NULL, j));
            memcpy(h, next, (size_t)H * sizeof *h);
        }
        for (int64_t j = 0; j < H; j++) rnn_ref_store(a, a->y, t * a->y_t + b * a->y_b + j, s < n ? h[j] : 0);
    }
    for (int64_t j = 0; j < H; j++) {
        rnn_ref_store(a, a->y_h, b * a->state_rs + j, h[j]);
        rnn_ref_store(a, a->y_c, b * a->state_rs + j, c[j]);
    }
}

void nck_rnn_ref(const nck_rnn_args *a, double *state) {
    for (int64_t b = 0; b < a->B; b++) rnn_ref_run_row(a, b, state, state + a->H, state + 2 * a->H);
}
