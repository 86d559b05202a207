/* kernels/cpu/conv/outer.simd.c: sums of outer products for each ISA; see outer_kernel.h. */
#include "kernels/cpu/conv/outer_kernel.h"

#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/unroll.h"

/* Sums of two blocks by EACH elements fill half of the registers of AVX-512 and NEON; AVX2 has 16. Plain C has arrays
 * for vectors. */
#if defined NCK_ISA_avx512
enum { BLOCK = 16, EACH = 8 };
#elif defined NCK_ISA_portable
enum { BLOCK = 8, EACH = 1 };
#else
enum { BLOCK = 8, EACH = 4 };
#endif
enum { KV = BLOCK / V_LEN_f32 };
_Static_assert(BLOCK % V_LEN_f32 == 0 && BLOCK % EACH == 0, "a block is whole vectors and whole groups");

/* blocks is a constant where inlined; vector v is number v % KV of block v / KV. */
__attribute__((always_inline)) static inline void outer(int blocks, const nck_outer_run *r) {
    v_f32 acc[EACH][2 * KV];
    UNROLL
    for (int i = 0; i < EACH; i++) UNROLL
    for (int v = 0; v < blocks * KV; v++) acc[i][v] = v_set_f32(0);
    int64_t image = 0, row = 0;
    for (int64_t left = r->images * r->rows; left > 0; left--) {
        const float *many = r->many + image * r->many_image + row * r->many_row;
        const float *one = r->one + image * r->one_image + row * r->one_row;
        if (++row == r->rows) row = 0, image++;
        for (int64_t c = 0; c < r->cols; c++, many += r->many_pixel, one += r->one_pixel) {
            v_f32 m[2 * KV];
            UNROLL
            for (int v = 0; v < blocks * KV; v++) m[v] = v_load_f32(many + v / KV * r->many_block + v % KV * V_LEN_f32);
            UNROLL
            for (int i = 0; i < EACH; i++) {
                v_f32 o = v_set_f32(one[i]);
                UNROLL
                for (int v = 0; v < blocks * KV; v++) acc[i][v] = v_fma_f32(o, m[v], acc[i][v]);
            }
        }
    }
    UNROLL
    for (int i = 0; i < EACH; i++) UNROLL
    for (int v = 0; v < blocks * KV; v++) {
        float *to = r->sum + i * 2 * BLOCK + v * V_LEN_f32;
        v_store_f32(to, v_add_f32(v_load_f32(to), acc[i][v]));
    }
}

static void outer_1(const nck_outer_run *r) { outer(1, r); }
static void outer_2(const nck_outer_run *r) { outer(2, r); }

extern const nck_outer_table NCK_ISA_NAME(nck_outer_);
const nck_outer_table NCK_ISA_NAME(nck_outer_) = {.block = BLOCK, .each = EACH, .blocks = {outer_1, outer_2}};
