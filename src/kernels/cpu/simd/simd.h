/* simd/simd.h: the vector vocabulary of the ISA this file is compiled for, v_<word>_f32 and v_<word>_f64.
 *
 * A *.simd.c file is compiled once per row of isa.list with NCK_ISA=<name> and NCK_ISA_<name>=1. The ISA file gives
 *   types   v_f32 v_f64 vectors, m_f32 m_f64 masks, v_i32 integers as wide as v_f32; V_LEN_f32 V_LEN_f64 elements
 *   memory  v_load v_store (any alignment), v_set (splat); v_load_f16 v_load_bf16 to v_f32, v_store_f16 v_store_bf16
 *   values  v_add v_sub v_mul v_div v_neg v_abs v_sqrt v_floor, v_fma(a,b,c) = a*b + c in one rounding,
 *           v_min v_max (a NaN in either gives NaN), v_copysign(size, sign), v_clamp(x, low, high) of f32 (a NaN of x
 *           stays), v_scale(a, n) of f32 = a * 2^n for whole n in one rounding, where V_HAS_SCALE is defined
 *   masks   v_lt v_le v_eq (false with NaN), v_and v_or v_not, v_sel(mask, a, b), v_all of f32 (not portable)
 *   bits    v_set_i32 v_add_i32 v_sub_i32 v_and_i32 v_shl_i32 v_shr_i32 (keeps the sign), v_to_bits v_from_bits,
 *           v_round_i32 (nearest even; any number comes out for NaN and out of range), v_from_i32
 *   squares v_turn transposes as many vectors as one has elements, in place
 * and this file adds what can be said once: loads and stores of a part, sums over a vector. */
#ifndef NCK_SIMD_SIMD_H
#define NCK_SIMD_SIMD_H

#include "kernels/cpu/per_type.h"

#include <stdint.h>
#include <string.h>

typedef float v_elem_f32;
typedef double v_elem_f64;

#if defined NCK_ISA_neon
#include "kernels/cpu/simd/neon.h"
#elif defined NCK_ISA_avx512
#include "kernels/cpu/simd/avx512.h"
#elif defined NCK_ISA_avx2
#include "kernels/cpu/simd/avx2.h"
#else
#include "kernels/cpu/simd/portable.h"
#endif

/* Vectors that a long formula, one chain of dependent operations, is done to side by side. Only NEON needs it: the
 * others have longer vectors, and their processors look further ahead. */
#ifndef V_SIDE
#define V_SIDE 1
#endif

#ifndef V_HAS_CLAMP
static inline v_f32 v_clamp_f32(v_f32 x, v_f32 low, v_f32 high) { return v_min_f32(v_max_f32(x, low), high); }
#endif

#define NCK_ISA_NAME2(prefix, isa) prefix##isa
#define NCK_ISA_NAME1(prefix, isa) NCK_ISA_NAME2(prefix, isa)
/* NCK_ISA_NAME(nck_tile_) is this copy's name of an exported table. */
#ifdef NCK_ISA
#define NCK_ISA_NAME(prefix) NCK_ISA_NAME1(prefix, NCK_ISA)
#else
#define NCK_ISA_NAME(prefix) NCK_ISA_NAME1(prefix, portable)
#endif

/* v_load_part: n < length elements, the rest 0, or with _or that of another vector; v_keep_part: the same of a vector.
 * v_sum: element after element in order, so every run has the same bits. */
#define TEXT "kernels/cpu/simd/parts.inc"
#include "kernels/cpu/per_float.inc"

#endif
