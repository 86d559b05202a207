/* kernels/cpu/gemm/gemm.simd.c: packing, the register-blocked micro-kernels and the store of a tile, for each ISA.
 *
 * A tile of MR rows and NV vectors of columns stays in registers over one cut of K: 24 accumulators of 32 registers on
 * NEON, 12 of 16 on AVX2, 28 of 32 on AVX-512. A tile with fewer rows has its own kernel, so that short matrices do not
 * pay for full ones.
 * Each element of floats is one chain of fused multiply-adds in the order of k (gemm.h promises it). */
#if defined NCK_ISA_neon_bf16
#include "kernels/cpu/gemm/gemm_bf16_neon.inc"
#elif defined NCK_ISA_avx512_amx
#include "kernels/cpu/gemm/gemm_bf16_amx.inc"
#else
#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/per_type.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/unroll.h"

#if defined NCK_ISA_neon
enum { MR = 8, NV = 3 };
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#elif defined NCK_ISA_avx512
enum { MR = 14, NV = 2 };
#define READS_ROWS /* where they lie; AVX-512 alone: the others need the registers or read rows by lanes */
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define DIRECT_ROWS_f32(X) EACH_ROWS(X)
#define DIRECT_ROWS_f64(X) X(12) X(13) X(14) /* what 85 rows and more are spread into; all are 11 KB */
#elif defined NCK_ISA_avx2
enum { MR = 6, NV = 2 };
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
enum { MR = 4, NV = 2 };
#define EACH_ROWS(X) X(1) X(2) X(3) X(4)
#endif

#define ALWAYS __attribute__((always_inline)) static inline

/* How a micro-kernel gets at the MR elements of A for one k. NEON multiplies by a lane of a register; elsewhere a
 * splatted load costs nothing. The empty asm hides that a lane is a load away: gcc would load each one and spill. */
#ifdef NCK_ISA_neon
#define PANEL_ROWS(a)                             \
    W(v_) lanes[MR / W(V_LEN_)];                  \
    UNROLL                                        \
    for (int r = 0; r * W(V_LEN_) < rows; r++) {  \
        lanes[r] = W(v_load_)(a + r * W(V_LEN_)); \
        __asm__("" : "+w"(lanes[r]));             \
    }                                             \
    (void)0
#define PANEL_ROW(r) lanes[(r) / W(V_LEN_)][(r) % W(V_LEN_)]
#else
#define PANEL_ROWS(a) (void)0
#define PANEL_ROW(r) a[r]
#endif

/* Panels that one row goes through side by side, and bytes from what it reads of one alone to what is asked for: a
 * Neoverse-N1 is slower with any. */
#ifdef NCK_ISA_neon
#define LINE_AHEAD 0
#else
#define LINE_AHEAD 4096
#endif
enum { LINE_PANELS = NCK_GEMM_SIDE };
/* Terms from a packed row to one that is asked for: callers come back to the same columns so much later. */
enum { AHEAD = 8 };
_Static_assert(NV *V_LEN_f32 <= NCK_GEMM_WIDEST && (int)MR <= NCK_GEMM_WIDEST, "a panel fits");
_Static_assert((int)MR *NV *V_LEN_f32 <= NCK_GEMM_MAX_TILE, "a tile fits");

#define TEXT "kernels/cpu/gemm/gemm_pack.inc"
#include "kernels/cpu/per_float.inc"
#ifdef NCK_ISA_neon
#include "kernels/cpu/gemm/gemm_neon.inc"
#define SUFFIX f64
#define ELEM double
#include "kernels/cpu/gemm/gemm_micro.inc"
#define SUFFIX f64
#define ELEM double
#include "kernels/cpu/gemm/gemm_line.inc"
#else
#ifdef NCK_ISA_avx512
#include "kernels/cpu/gemm/gemm_avx512.inc"
#endif
#define TEXT "kernels/cpu/gemm/gemm_micro.inc"
#include "kernels/cpu/per_float.inc"
#define TEXT "kernels/cpu/gemm/gemm_line.inc"
#include "kernels/cpu/per_float.inc"
#endif
#if defined NCK_ISA_avx512 /* three rows have chains enough */
enum { SIDE = 4 };
#define EACH_LINES(X) X(2)
#elif defined NCK_ISA_avx2
enum { SIDE = 2 };
#define EACH_LINES(X) X(2) X(3)
#endif
#ifdef EACH_LINES
#include "kernels/cpu/gemm/gemm_lines.inc"
#define LINES_OF(rows) [(rows)-2] = gemm_lines_f32_##rows,
#define LINES_F32 EACH_LINES(LINES_OF)
#else
#define LINES_F32 NULL
#endif
#define TEXT "kernels/cpu/gemm/gemm_rows.inc"
#include "kernels/cpu/per_float.inc"

#ifdef NCK_ISA_avx512 /* what is so small goes to tables with shorter vectors: kernels/cpu/isa_narrow.h */
#define SMALL(type) NULL
#else
#define TEXT "kernels/cpu/gemm/gemm_small.inc"
#include "kernels/cpu/per_float.inc"
#define SMALL(type) gemm_small_##type
#endif

/* On a Neoverse-N1 what every tile asks for costs 4% of a product of 1024 x 256 x 1024; others were not measured. */
#ifdef NCK_ISA_neon
#define ASKS_ONCE true
#else
#define ASKS_ONCE false
#endif

#ifdef NCK_ISA_neon
#define NARROW_F32 gemm_narrow_f32_1, gemm_narrow_f32_2
#else
#define NARROW_F32 NULL
#endif
#define MICRO_F32(rows) [rows] = gemm_micro_f32_##rows,
#define MICRO_F64(rows) [rows] = gemm_micro_f64_##rows,
#ifdef READS_ROWS
#define DIRECT_F32(rows) [rows] = gemm_direct_f32_##rows,
#define DIRECT_F64(rows) [rows] = gemm_direct_f64_##rows,
#else
#define DIRECT_ROWS_f32(X)
#define DIRECT_ROWS_f64(X)
#endif
extern const nck_gemm_unit NCK_ISA_NAME(nck_gemm_f32_), NCK_ISA_NAME(nck_gemm_f64_);
extern const nck_gemm_table NCK_ISA_NAME(nck_gemm_);
const nck_gemm_unit NCK_ISA_NAME(nck_gemm_f32_) = {.mr = MR,
                                                   .nr = NV * V_LEN_f32,
                                                   .lanes = V_LEN_f32,
                                                   .group = 1,
                                                   .asks_once = ASKS_ONCE,
                                                   .micro = {EACH_ROWS(MICRO_F32)},
                                                   .narrow = {NARROW_F32},
                                                   .direct = {DIRECT_ROWS_f32(DIRECT_F32)},
                                                   .band = gemm_band_f32,
                                                   .line = gemm_line_f32,
                                                   .lines = {LINES_F32},
                                                   .store = gemm_store_f32,
                                                   .pack = gemm_pack_f32,
                                                   .small = SMALL(f32)};
const nck_gemm_unit NCK_ISA_NAME(nck_gemm_f64_) = {.mr = MR,
                                                   .nr = NV * V_LEN_f64,
                                                   .lanes = V_LEN_f64,
                                                   .group = 1,
                                                   .asks_once = ASKS_ONCE,
                                                   .micro = {EACH_ROWS(MICRO_F64)},
                                                   .direct = {DIRECT_ROWS_f64(DIRECT_F64)},
                                                   .band = gemm_band_f64,
                                                   .line = gemm_line_f64,
                                                   .store = gemm_store_f64,
                                                   .pack = gemm_pack_f64,
                                                   .small = SMALL(f64)};
const nck_gemm_table NCK_ISA_NAME(nck_gemm_) = {
    .width = V_LEN_f32, .f32 = &NCK_ISA_NAME(nck_gemm_f32_), .f64 = &NCK_ISA_NAME(nck_gemm_f64_)};
#endif
