/* cuda/optim.c: launcher of optim.cu, see optim.h. */
#include "kernels/cuda/optim.h"

#include "base/intmath.h"

enum { THREADS = 256, TENSORS = 98 };

/* Mirror optim_tensor, optim_tensors and optim_rule of optim.cu. Together they fill what a launch may carry. */
typedef struct optim_tensor {
    void *w, *m, *v;
    const void *g;
    uint64_t n_types;
} optim_tensor;
typedef struct optim_tensors {
    optim_tensor of[TENSORS];
} optim_tensors;
typedef struct optim_rule {
    double alpha, beta, epsilon, decay, dampening;
    const void *rate, *scale, *step, *signal;
    int kind, decay_last, correct_bias, wide;
    int64_t nesterov, n;
} optim_rule;
_Static_assert(sizeof(optim_rule) + sizeof(optim_tensors) <= 4096, "what a launch carries");

nc_code nck_cuda_optim_prepare(nc_device *d, nc_function **out, nc_diag *diag) {
    return nck_cuda_find(d, NCK_CUDA_TEXT_optim, NC_UNDEFINED, NULL, "optim_step", out, diag);
}

static unsigned code_of(const nc_tensor *t) {
    if (t == NULL) return 0;
    return t->dtype == NC_DOUBLE ? 1 : t->dtype == NC_FLOAT16 ? 2 : t->dtype == NC_BFLOAT16 ? 3 : 0;
}

static optim_tensor tensor_of(const nck_optim_tensors *t) {
    unsigned types = code_of(t->w) | code_of(t->m) << 2 | code_of(t->v) << 4 | code_of(t->g) << 6;
    optim_tensor o = {.w = t->new_w->data, .g = t->g->data, .n_types = (uint64_t)nc_tensor_numel(t->w) << 8 | types};
    if (t->new_m != NULL) o.m = t->new_m->data;
    if (t->new_v != NULL) o.v = t->new_v->data;
    return o;
}

nc_code nck_cuda_optim_run(nc_function *step, const nc_call *c, const nck_optim_rule *rule,
                           const nck_cuda_optim_numbers *numbers, int n, nck_cuda_optim_at at) {
    optim_rule r = {.alpha = rule->alpha,
                    .beta = rule->beta,
                    .epsilon = rule->epsilon,
                    .decay = rule->decay,
                    .rate = numbers->rate->data,
                    .scale = numbers->scale->data,
                    .step = numbers->step->data,
                    .signal = numbers->signal->data,
                    .dampening = rule->dampening,
                    .nesterov = rule->nesterov,
                    .kind = rule->adam ? 2 : rule->momentum,
                    .decay_last = rule->decay_last,
                    .correct_bias = rule->correct_bias,
                    .wide = (numbers->rate->dtype == NC_DOUBLE) | (numbers->scale->dtype == NC_DOUBLE) << 1};
    for (int first = 0; first < n; first += TENSORS) {
        optim_tensors all = {.of = {{.w = NULL}}};
        int64_t most = 0;
        r.n = nc_min64(TENSORS, n - first);
        for (int i = 0; i < (int)r.n; i++) {
            nck_optim_tensors t = at(c, first + i);
            all.of[i] = tensor_of(&t);
            most += nc_tensor_numel(t.w);
        }
        void *args[] = {&r, &all};
        NC_TRY(nck_cuda_launch(nck_cuda_at_call(c), step, nck_cuda_blocks(c->device, most, THREADS), THREADS, args));
    }
    return NC_OK;
}
