/* kernels/cpu/per_type.h: how a kernel that is the same for several element types is written once.
 *
 * The functions stand in a `.inc` file as ordinary C, so that a debugger steps through them line by line. The file says
 * ELEM for the element type and SUFFIX for the type's short name (f32, f64, i8, ...), and W(sum_) for a name that ends
 * in it. The `.c` file that owns the text defines both, and whatever else the text asks for, and includes it once for
 * each type; the text undefines all of it at its end, so the next type can be defined at once. For float and double
 * this is said in two lines:
 *     #define TEXT "kernels/cpu/norm/norm_rows.inc"
 *     #include "kernels/cpu/per_float.inc"
 * after which row_f32 and row_f64 exist. */
#ifndef NCK_PER_TYPE_H
#define NCK_PER_TYPE_H

#include <math.h>
#include <stdbool.h>

#define W2(word, suffix) word##suffix
#define W1(word, suffix) W2(word, suffix)
#define W(word) W1(word, SUFFIX)

/* For texts that serve floats and integers: what IS_NAN(a) is for each. No integer is a NaN, and compilers refuse the
 * comparison of one with itself. */
#define IS_NAN_FLOAT(a) ((a) != (a))
#define IS_NAN_INT(a) false

/* W(fma_)(a, b, c) is a * b + c in one rounding. */
static inline float fma_f32(float a, float b, float c) { return fmaf(a, b, c); }
static inline double fma_f64(double a, double b, double c) { return fma(a, b, c); }

#endif
