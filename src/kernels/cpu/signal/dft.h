/* kernels/cpu/signal/dft.h: the discrete Fourier transform of lines of a dense tensor, in double whatever the type.
 *
 * Lengths that are powers of two by the fast transform of radix 2, others by a convolution with a chirp of three such
 * (Bluestein): n log n for every n. A line is one thread's work. */
#ifndef NCK_SIGNAL_DFT_H
#define NCK_SIGNAL_DFT_H

#include "base/shape.h"
#include "base/threads.h"

/* For every length up to this. */
size_t nck_dft_workspace(int64_t length);

/* x (..., n, ..., 1 or 2), y (..., bins, ..., 1 or 2), both f32 or both f64, dense, the line along `axis`, the last
 * dim real or complex. x is cut or followed by zeros to `length`. Forward onesided: bins = length/2 + 1. Inverse
 * onesided: x is such a half, y real. Inverse divides by length. workspace is aligned for 8 bytes. */
void nck_dft(const nc_tensor *x, int axis, int64_t length, bool inverse, bool onesided, const nc_tensor *y,
             void *workspace, nc_pool *pool);

#endif
