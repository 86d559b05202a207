/* kernels/cpu/conv/window.simd.c: lines of places under a window, for each ISA; see window_kernel.h. */
#include "kernels/cpu/conv/window_kernel.h"

#include "kernels/cpu/per_type.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/unroll.h"

#include <math.h>

enum { VECTORS = 4 };
static const float infinity_f32 = INFINITY;
static const double infinity_f64 = INFINITY;

#define TEXT "kernels/cpu/conv/window_lines.inc"
#include "kernels/cpu/per_float.inc"

extern const nck_window_table NCK_ISA_NAME(nck_window_);
const nck_window_table NCK_ISA_NAME(nck_window_) = {.f32 = {window_max_f32, window_max_lanes_f32, window_taps_f32},
                                                    .f64 = {window_max_f64, window_max_lanes_f64, window_taps_f64}};
