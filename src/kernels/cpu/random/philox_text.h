/* kernels/cpu/random/philox_text.h: the Philox4x32-10 generator as text that C and CUDA compile alike.
 * Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (2011). Stateless: four words from a
 * counter and a key. Counter = {block low, block high, node, step}, key = seed; element i of a tensor takes word i % 4
 * of block i / 4, so any cut of the work, any device and any recomputation draws the same numbers. */
#ifndef NCK_PHILOX_TEXT_H
#define NCK_PHILOX_TEXT_H

#ifndef __CUDACC_RTC__
#include <stdint.h>
#endif

#ifdef __CUDACC__
#define NCK_PHILOX_FN static __device__ inline
#else
#define NCK_PHILOX_FN static inline
#endif

NCK_PHILOX_FN void nck_philox_rounds(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

NCK_PHILOX_FN void nck_philox4(uint64_t seed, uint32_t node_id, uint32_t step, uint64_t block, uint32_t out[4]) {
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), node_id, step};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    nck_philox_rounds(counter, key, out);
}

#ifndef __CUDACC__ /* kernels of a GPU compare the upper 24 bits themselves */
/* [0, 1), a multiple of 2^-24: every value is exact in f32. */
NCK_PHILOX_FN float nck_philox_uniform(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }
#endif

#endif
