/* kernels/cpu/optim/optim.simd.c: Adam's step for each ISA; see optim_kernel.h. */
#include "kernels/cpu/optim/optim_kernel.h"

#include "kernels/cpu/simd/simd.h"

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

static void adam(const nck_adam_numbers *numbers, const nck_adam_run *r) {
    const nck_adam_numbers k = *numbers; /* nothing that is stored may be one of them */
    int64_t i = 0;
    for (; i + V_LEN_f32 <= r->n; i += V_LEN_f32) {
        adam_new to =
            adam_of(&k, v_load_f32(r->w + i), v_load_f32(r->m + i), v_load_f32(r->v + i), v_load_f32(r->g + i));
        v_store_f32(r->new_w + i, to.w);
        v_store_f32(r->new_m + i, to.m);
        v_store_f32(r->new_v + i, to.v);
    }
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
