/* kernels/cpu/optim/optim.simd.c: Adam's step for each ISA; see optim_kernel.h. */
#include "kernels/cpu/optim/optim_kernel.h"

#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/unroll.h"

enum { LINE = V_LEN_f32 > 16 ? V_LEN_f32 : 16, AHEAD = 512 };

typedef struct adam_new {
    v_f32 w, m, v;
} adam_new;

static inline adam_new adam_of(const nck_adam_numbers *k, v_f32 w, v_f32 m, v_f32 v, v_f32 g) {
    const v_f32 keep = v_set_f32(k->keep);
    adam_new to;
    g = v_mul_f32(g, v_set_f32(k->scale));
    to.m = v_add_f32(v_mul_f32(m, v_set_f32(k->alpha)), v_mul_f32(g, v_set_f32(k->rest_alpha)));
    to.v = v_add_f32(v_mul_f32(v, v_set_f32(k->beta)), v_mul_f32(v_mul_f32(g, g), v_set_f32(k->rest_beta)));
    v_f32 down = v_add_f32(v_mul_f32(v_sqrt_f32(to.v), v_set_f32(k->root)), v_set_f32(k->epsilon));
    v_f32 up = v_div_f32(v_mul_f32(to.m, v_set_f32(k->rate)), down);
    to.w = k->decay_last ? v_mul_f32(v_sub_f32(w, up), keep) : v_sub_f32(v_mul_f32(w, keep), up);
    return to;
}

static inline void adam_at(const nck_adam_numbers *k, const nck_adam_run *r, int64_t i) {
    adam_new to = adam_of(k, v_load_f32(r->w + i), v_load_f32(r->m + i), v_load_f32(r->v + i), v_load_f32(r->g + i));
    v_store_f32(r->new_w + i, to.w);
    v_store_f32(r->new_m + i, to.m);
    v_store_f32(r->new_v + i, to.v);
}

/* A line of each operand at a time, while others are asked for that lie far ahead. */
static void adam(const nck_adam_numbers *numbers, const nck_adam_run *run) {
    const nck_adam_numbers k = *numbers; /* nothing that is stored may be one of them */
    const nck_adam_run copy = *run, *r = &copy;
    int64_t i = 0;
    for (; i + LINE <= r->n; i += LINE) {
        __builtin_prefetch(r->w + i + AHEAD);
        __builtin_prefetch(r->m + i + AHEAD);
        __builtin_prefetch(r->v + i + AHEAD);
        __builtin_prefetch(r->g + i + AHEAD);
        UNROLL
        for (int64_t j = 0; j < LINE; j += V_LEN_f32) adam_at(&k, r, i + j);
    }
    for (; i + V_LEN_f32 <= r->n; i += V_LEN_f32) adam_at(&k, r, i);
    int64_t left = r->n - i;
    if (left == 0) return;
    adam_new to = adam_of(&k, v_load_part_f32(r->w + i, left), v_load_part_f32(r->m + i, left),
                          v_load_part_f32(r->v + i, left), v_load_part_f32(r->g + i, left));
    v_store_part_f32(r->new_w + i, to.w, left);
    v_store_part_f32(r->new_m + i, to.m, left);
    v_store_part_f32(r->new_v + i, to.v, left);
}

extern const nck_optim_table NCK_ISA_NAME(nck_optim_);
const nck_optim_table NCK_ISA_NAME(nck_optim_) = {.adam = adam};
