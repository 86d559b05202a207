/* simd/unroll.h: UNROLL before a loop of few, constant steps over an array of vectors. Without it gcc -O2 keeps the
 * loop, and with it the array in memory instead of registers. */
#ifndef NCK_SIMD_UNROLL_H
#define NCK_SIMD_UNROLL_H

#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
