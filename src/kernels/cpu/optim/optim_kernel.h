/* kernels/cpu/optim/optim_kernel.h: what optim.simd.c gives optim.c, one table per ISA: Adam's step of f32 in one pass
 * over memory. Each sum and product is rounded as optim.c's tile program rounds it, so both give the same bits. */
#ifndef NCK_OPTIM_KERNEL_H
#define NCK_OPTIM_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

/* What is the same for all elements; see numbers_of in optim.c. */
typedef struct nck_adam_numbers {
    float alpha, rest_alpha, beta, rest_beta, epsilon, root, rate, keep, scale;
    bool decay_last;
} nck_adam_numbers;

/* n elements of each; a new one may be the memory of the old. */
typedef struct nck_adam_run {
    const float *w, *m, *v, *g;
    float *new_w, *new_m, *new_v;
    int64_t n;
} nck_adam_run;

typedef struct nck_optim_table {
    void (*adam)(const nck_adam_numbers *k, const nck_adam_run *r);
} nck_optim_table;

#endif
