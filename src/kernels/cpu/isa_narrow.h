/* cpu/isa_narrow.h: which tables a few elements go to. Vectors of 512 bits do not help where a row is shorter than one,
 * and make the processor slower for what follows (its clock, and stores of parts that later loads must wait for): short
 * rows and small products take the best tables with vectors of at most 256 bits. The bits are the same. */
#ifndef NCK_CPU_ISA_NARROW_H
#define NCK_CPU_ISA_NARROW_H

#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/reduce/reduce_kernel.h"

enum { NCK_NARROW_ROW = 64 }; /* elements of a row that counts as short */

const nck_reduce_table *nck_narrow_reduce(void);
const nck_gemm_table *nck_narrow_gemm(void);

#endif
