/* kernels/cpu/conv/wino.simd.c: the transforms of Winograd's convolution for each ISA; see wino_kernel.h. A vector of
 * channels at a time: what lies between columns and rows is 36 or 24 vectors of the first cache. */
#include "kernels/cpu/conv/wino_kernel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/unroll.h"

enum { IN = NCK_WINO_IN, OUT = NCK_WINO_OUT };
static const float A = 0.70710678118654752f, B = 1.41421356237309505f;

/* r[0], r[step], ...: six results. */
static inline void input_line(const v_f32 d[IN], v_f32 *r, int step) {
    const v_f32 a = v_set_f32(A), b = v_set_f32(B), more = v_set_f32(-2.5f);
    r[0] = v_add_f32(v_fma_f32(more, d[2], d[0]), d[4]);
    v_f32 even = v_fma_f32(v_set_f32(-2), d[2], d[4]), odd = v_sub_f32(v_mul_f32(a, d[3]), v_mul_f32(b, d[1]));
    r[step] = v_add_f32(even, odd);
    r[2 * step] = v_sub_f32(even, odd);
    even = v_fma_f32(v_set_f32(-0.5f), d[2], d[4]), odd = v_sub_f32(v_mul_f32(b, d[3]), v_mul_f32(a, d[1]));
    r[3 * step] = v_add_f32(even, odd);
    r[4 * step] = v_sub_f32(even, odd);
    r[5 * step] = v_add_f32(v_fma_f32(more, d[3], d[1]), d[5]);
}

static inline void output_line(const v_f32 m[IN], v_f32 *r, int step) {
    const v_f32 a = v_set_f32(A), b = v_set_f32(B);
    v_f32 even = v_add_f32(m[1], m[2]), odd = v_sub_f32(m[1], m[2]);
    v_f32 even2 = v_add_f32(m[3], m[4]), odd2 = v_sub_f32(m[3], m[4]);
    r[0] = v_add_f32(v_add_f32(m[0], even), even2);
    r[step] = v_fma_f32(a, odd, v_mul_f32(b, odd2));
    r[2 * step] = v_fma_f32(v_set_f32(0.5f), even, v_mul_f32(v_set_f32(2), even2));
    r[3 * step] = v_add_f32(v_fma_f32(v_set_f32(A / 2), odd, v_mul_f32(v_set_f32(2 * B), odd2)), m[5]);
}

static void input(int64_t block, const float *x, int64_t x_pixel, int64_t x_row, float *v, int64_t v_point) {
    for (int64_t lane = 0; lane < block; lane += V_LEN_f32) {
        v_f32 half[IN][IN], d[IN]; /* half: rows of points, columns of pixels */
        for (int c = 0; c < IN; c++) {
            UNROLL
            for (int r = 0; r < IN; r++) d[r] = v_load_f32(x + r * x_row + c * x_pixel + lane);
            input_line(d, &half[0][c], IN);
        }
        for (int r = 0; r < IN; r++) {
            v_f32 to[IN];
            input_line(half[r], to, 1);
            UNROLL
            for (int c = 0; c < IN; c++) v_store_f32(v + (r * IN + c) * v_point + lane, to[c]);
        }
    }
}

static void output_row(const nck_wino_out *o, int64_t lane, int64_t r, const v_f32 *half) {
    v_f32 to[OUT], low = v_set_f32(o->low), high = v_set_f32(o->high), bias = v_load_f32(o->bias + lane);
    output_line(half, to, 1);
    for (int64_t c = 0; c < o->cols; c++) {
        int64_t at = r * o->y_row + c * o->y_pixel + lane;
        v_f32 y = v_add_f32(to[c], bias);
        if (o->add) y = v_add_f32(y, v_load_f32(o->add + at));
        v_store_f32(o->y + at, o->clamps ? v_clamp_f32(y, low, high) : y);
    }
}

static void output(int64_t block, const nck_wino_out *o) {
    for (int64_t lane = 0; lane < block; lane += V_LEN_f32) {
        v_f32 half[OUT][IN], m[IN]; /* half: rows of pixels, columns of points */
        for (int c = 0; c < IN; c++) {
            UNROLL
            for (int r = 0; r < IN; r++) m[r] = v_load_f32(o->m + (r * IN + c) * o->m_point + lane);
            output_line(m, &half[0][c], IN);
        }
        for (int64_t r = 0; r < o->rows; r++) output_row(o, lane, r, half[r]);
    }
}

/* Weights side by side: loops over them are vectors. */
typedef double group[NCK_WINO_FILTERS];

static inline void weight_line(const group g[3], group *r, int step) {
    const double a = 0.70710678118654752440, b = 1.41421356237309504880;
    for (int k = 0; k < NCK_WINO_FILTERS; k++) {
        double even = g[0][k] + g[2][k] * 0.5, odd = a * g[1][k], even2 = g[0][k] + 2 * g[2][k], odd2 = b * g[1][k];
        r[0][k] = g[0][k];
        r[step][k] = (even + odd) * (-2.0 / 3);
        r[2 * step][k] = (even - odd) * (-2.0 / 3);
        r[3 * step][k] = (even2 + odd2) * (1.0 / 6);
        r[4 * step][k] = (even2 - odd2) * (1.0 / 6);
        r[5 * step][k] = g[2][k];
    }
}

/* Bytes to what is asked for: the next channels' weights of the same filter, one of so many that lie far apart. */
enum { AHEAD = 256 };

static void weights(const char *w, int64_t apart, int n, float *dst, int64_t step) {
    group g[9], half[IN][3], point[IN];
    if (n < NCK_WINO_FILTERS) memset(g, 0, sizeof g);
    for (int k = 0; k < n; k++) {
        float f[9];
        memcpy(f, w + k * apart, sizeof f);
        __builtin_prefetch(w + k * apart + AHEAD);
        for (int i = 0; i < 9; i++) g[i][k] = (double)f[i];
    }
    for (int c = 0; c < 3; c++) {
        group column[3];
        for (int r = 0; r < 3; r++) memcpy(column[r], g[r * 3 + c], sizeof column[r]);
        weight_line(column, &half[0][c], 3);
    }
    for (int r = 0; r < IN; r++) {
        weight_line(half[r], point, 1);
        for (int c = 0; c < IN; c++) {
            float line[NCK_WINO_FILTERS];
            for (int k = 0; k < NCK_WINO_FILTERS; k++) line[k] = (float)point[c][k];
            if (n == NCK_WINO_FILTERS)
                memcpy(dst + (r * IN + c) * step, line, sizeof line);
            else
                memcpy(dst + (r * IN + c) * step, line, (size_t)n * sizeof *line);
        }
    }
}

extern const nck_wino_table NCK_ISA_NAME(nck_wino_);
const nck_wino_table NCK_ISA_NAME(nck_wino_) = {.input = input, .output = output, .weights = weights};
