/* kernels/cpu/norm/lanes.simd.c: rows of lanes for each ISA; see lanes_kernel.h. */
#include "kernels/cpu/norm/lanes_kernel.h"

#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/unroll.h"

enum { CHAINS = 4 };

static inline v_f32 joined(const v_f32 a[CHAINS]) { return v_add_f32(v_add_f32(a[0], a[1]), v_add_f32(a[2], a[3])); }

static void sum(int64_t block, const float *x, int64_t rows, float *to) {
    for (int64_t lane = 0; lane < block; lane += V_LEN_f32) {
        v_f32 a[CHAINS];
        int64_t r = 0;
        UNROLL
        for (int k = 0; k < CHAINS; k++) a[k] = v_set_f32(0);
        for (; r + CHAINS <= rows; r += CHAINS) UNROLL
        for (int k = 0; k < CHAINS; k++) a[k] = v_add_f32(a[k], v_load_f32(x + (r + k) * block + lane));
        for (; r < rows; r++) a[0] = v_add_f32(a[0], v_load_f32(x + r * block + lane));
        v_store_f32(to + lane, joined(a));
    }
}

static void squares(int64_t block, const float *x, const float *shift, int64_t rows, float *to) {
    for (int64_t lane = 0; lane < block; lane += V_LEN_f32) {
        v_f32 a[CHAINS], s = v_load_f32(shift + lane), d;
        int64_t r = 0;
        UNROLL
        for (int k = 0; k < CHAINS; k++) a[k] = v_set_f32(0);
        for (; r + CHAINS <= rows; r += CHAINS) UNROLL
        for (int k = 0; k < CHAINS; k++) {
            d = v_sub_f32(v_load_f32(x + (r + k) * block + lane), s);
            a[k] = v_fma_f32(d, d, a[k]);
        }
        for (; r < rows; r++) {
            d = v_sub_f32(v_load_f32(x + r * block + lane), s);
            a[0] = v_fma_f32(d, d, a[0]);
        }
        v_store_f32(to + lane, joined(a));
    }
}

static void sums(int64_t block, const float *x, const float *dy, const float *shift, int64_t rows, float *plain,
                 float *along) {
    for (int64_t lane = 0; lane < block; lane += V_LEN_f32) {
        v_f32 p[CHAINS], a[CHAINS], s = v_load_f32(shift + lane), g;
        int64_t r = 0;
        UNROLL
        for (int k = 0; k < CHAINS; k++) p[k] = a[k] = v_set_f32(0);
        for (; r + CHAINS <= rows; r += CHAINS) UNROLL
        for (int k = 0; k < CHAINS; k++) {
            int64_t at = (r + k) * block + lane;
            g = v_load_f32(dy + at);
            p[k] = v_add_f32(p[k], g);
            a[k] = v_fma_f32(v_sub_f32(v_load_f32(x + at), s), g, a[k]);
        }
        for (; r < rows; r++) {
            int64_t at = r * block + lane;
            g = v_load_f32(dy + at);
            p[0] = v_add_f32(p[0], g);
            a[0] = v_fma_f32(v_sub_f32(v_load_f32(x + at), s), g, a[0]);
        }
        v_store_f32(plain + lane, joined(p));
        v_store_f32(along + lane, joined(a));
    }
}

static void affine(int64_t block, const float *x, const float *shift, const float *by, const float *add, int64_t rows,
                   float *y) {
    for (int64_t lane = 0; lane < block; lane += V_LEN_f32) {
        v_f32 s = v_load_f32(shift + lane), b = v_load_f32(by + lane), c = v_load_f32(add + lane);
        for (int64_t at = lane; at < rows * block; at += block)
            v_store_f32(y + at, v_fma_f32(v_sub_f32(v_load_f32(x + at), s), b, c));
    }
}

static void blend(int64_t block, const float *x, const float *dy, const float *shift, const float *by,
                  const float *more, const float *add, int64_t rows, float *dx) {
    for (int64_t lane = 0; lane < block; lane += V_LEN_f32) {
        v_f32 b = v_load_f32(by + lane);
        if (!more) {
            for (int64_t at = lane; at < rows * block; at += block)
                v_store_f32(dx + at, v_mul_f32(v_load_f32(dy + at), b));
            continue;
        }
        v_f32 s = v_load_f32(shift + lane), m = v_load_f32(more + lane), c = v_load_f32(add + lane);
        for (int64_t at = lane; at < rows * block; at += block) {
            v_f32 rest = v_fma_f32(v_sub_f32(v_load_f32(x + at), s), m, c);
            v_store_f32(dx + at, v_fma_f32(v_load_f32(dy + at), b, rest));
        }
    }
}

extern const nck_lanes_table NCK_ISA_NAME(nck_lanes_);
const nck_lanes_table NCK_ISA_NAME(nck_lanes_) = {
    .sum = sum, .squares = squares, .sums = sums, .affine = affine, .blend = blend};
