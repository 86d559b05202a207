/* kernels/cpu/conv/window.simd.c: lines of places under a window, for each ISA; see window_kernel.h. */
#include "kernels/cpu/conv/window_kernel.h"

#include "kernels/cpu/per_type.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/unroll.h"

#include <math.h>
#include <string.h>

enum { VECTORS = 4, MAX_VECTORS = V_LEN_f32 > 4 ? 2 : 4 }; /* that go side by side; of maxima */
static const float infinity_f32 = INFINITY;
static const double infinity_f64 = INFINITY;

#define TEXT "kernels/cpu/conv/window_lines.inc"
#include "kernels/cpu/per_float.inc"

/* ---- means ---- */

typedef float eight_floats __attribute__((vector_size(32)));
typedef double eight_doubles __attribute__((vector_size(64)));

/* Up to eight lanes of n places. */
__attribute__((always_inline)) static inline void average_some(float *y, const float *x, const nck_window_grid *g,
                                                               double inverse, int64_t n, size_t bytes) {
    for (int64_t p = 0; p < n; p++, x += g->step, y += g->lanes) {
        eight_doubles sum = {0};
        for (int64_t t = 0; t < g->cols; t++) {
            eight_doubles down = {0};
            for (int64_t d = 0; d < g->depths; d++)
                for (int64_t a = 0; a < g->rows; a++) {
                    eight_floats v = {0};
                    memcpy(&v, x + d * g->depth + a * g->row + t * g->col, bytes);
                    down += __builtin_convertvector(v, eight_doubles);
                }
            sum += down;
        }
        eight_floats mean = __builtin_convertvector(sum * inverse, eight_floats);
        memcpy(y, &mean, bytes);
    }
}

static void window_average_lanes(float *y, const float *x, const nck_window_grid *g, double inverse, int64_t n) {
    enum { EIGHT = 8 };
    int64_t i = 0;
    for (; i + EIGHT <= g->lanes; i += EIGHT) average_some(y + i, x + i, g, inverse, n, sizeof(eight_floats));
    if (i < g->lanes) average_some(y + i, x + i, g, inverse, n, (size_t)(g->lanes - i) * sizeof *x);
}

extern const nck_window_table NCK_ISA_NAME(nck_window_);
const nck_window_table NCK_ISA_NAME(nck_window_) = {
    .f32 = {window_max_f32, window_max_lanes_f32, window_taps_f32, window_max_taps_f32},
    .f64 = {window_max_f64, window_max_lanes_f64, window_taps_f64, window_max_taps_f64},
    .average_lanes = window_average_lanes};
