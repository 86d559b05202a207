/* kernels/cpu/optim/optim_ref.c: the formulas of an optimizer's step as they stand in the papers, one element after the
 * other, in double. Tests compare the tile program with it. */
#include "kernels/cpu/optim/optim.h"

#include <math.h>

static double get(const nc_tensor *t, int64_t i) {
    switch (t->dtype) {
    case NC_DOUBLE: return ((const double *)t->data)[i];
    case NC_FLOAT16: return (double)nc_f16_to_f32(((const uint16_t *)t->data)[i]);
    case NC_BFLOAT16: return (double)nc_bf16_to_f32(((const uint16_t *)t->data)[i]);
    default: return (double)((const float *)t->data)[i];
    }
}

static void put(nc_tensor *t, int64_t i, double x) {
    switch (t->dtype) {
    case NC_DOUBLE: ((double *)t->data)[i] = x; break;
    case NC_FLOAT16: ((uint16_t *)t->data)[i] = nc_f32_to_f16((float)x); break;
    case NC_BFLOAT16: ((uint16_t *)t->data)[i] = nc_f32_to_bf16((float)x); break;
    default: ((float *)t->data)[i] = (float)x; break;
    }
}

static void adam(const nck_optim_args *a, const nck_optim_tensors *t, int64_t i) {
    const nck_optim_rule *r = a->rule;
    double w = get(t->w, i), g = get(t->g, i) * a->scale;
    double m = r->alpha * get(t->m, i) + (1 - r->alpha) * g, v = r->beta * get(t->v, i) + (1 - r->beta) * g * g;
    double first = r->correct_bias ? 1 - pow(r->alpha, (double)a->step) : 1;
    double second = r->correct_bias ? 1 - pow(r->beta, (double)a->step) : 1;
    if (r->decay_last) {
        w -= a->rate * sqrt(second) / first * m / (sqrt(v) + r->epsilon);
        w -= a->rate * r->decay * w;
    } else {
        w -= a->rate * r->decay * w;
        w -= a->rate * (m / first) / (sqrt(v / second) + r->epsilon);
    }
    put(t->new_w, i, w), put(t->new_m, i, m), put(t->new_v, i, v);
}

static void momentum(const nck_optim_args *a, const nck_optim_tensors *t, int64_t i) {
    const nck_optim_rule *r = a->rule;
    double w = get(t->w, i), g = get(t->g, i) * a->scale + r->decay * w;
    double m = a->step <= 1 ? g : r->alpha * get(t->m, i) + (1 - r->dampening) * g;
    put(t->new_w, i, w - a->rate * (r->nesterov ? g + r->alpha * m : m)), put(t->new_m, i, m);
}

void nck_optim_ref(const nck_optim_args *a, const nck_optim_tensors *t) {
    int64_t n = nc_tensor_numel(t->w);
    for (int64_t i = 0; i < n; i++) {
        if (a->rule->adam)
            adam(a, t, i);
        else if (a->rule->momentum)
            momentum(a, t, i);
        else
            put(t->new_w, i, get(t->w, i) - a->rate * a->scale * get(t->g, i));
    }
}
