/* kernels/cpu/random/mt19937.h: the keep flags of a dropout as numpy draws them: numpy.random.seed(seed), then one
 * numpy.random.uniform per element in order. For graphs that name a seed, where results must be those of the ONNX
 * suite; everything else draws from Philox (philox.h), which can be cut and run in parallel. */
#ifndef NCK_MT19937_H
#define NCK_MT19937_H

#include <stdint.h>

/* mask (n) = uniform in [0, 1) >= ratio. The Mersenne Twister is serial: one thread, 5 KB of stack. */
void nck_numpy_keep(uint32_t seed, int64_t n, double ratio, uint8_t *mask);

#endif
