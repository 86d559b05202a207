/* tests/cuda/elements.h: elements of the stand-ins for NVIDIA's libraries, by CUDA's numbers of types, as doubles. */
#ifndef NC_TESTS_CUDA_ELEMENTS_H
#define NC_TESTS_CUDA_ELEMENTS_H

#include "device/cuda_api.h"

#include <math.h>
#include <string.h>

static inline size_t bytes_of(int type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

static inline double half_value(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
    uint32_t bits = sign | (e == 31 ? 255 : e + 112) << 23 | m << 13;
    float y;
    if (e == 0) return (double)m * (sign ? -0x1p-24 : 0x1p-24);
    memcpy(&y, &bits, sizeof y);
    return (double)y;
}

static inline uint16_t half_bits(double x) {
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double a = fabs(x);
    if (isnan(x)) return 0x7fff;
    if (a >= 65520) return sign | 0x7c00;
    if (a < 0x1p-14) return (uint16_t)(sign | (int)rint(a * 0x1p24));
    int e = ilogb(a);
    return (uint16_t)(sign | (((e + 15) << 10) + (int)rint(ldexp(a, 10 - e)) - 1024));
}

static inline double load(const char *p, int type, int64_t i) {
    switch (type) {
    case CUDA_R_64F: return ((const double *)(const void *)p)[i];
    case CUDA_R_32F: return (double)((const float *)(const void *)p)[i];
    case CUDA_R_16F: return half_value(((const uint16_t *)(const void *)p)[i]);
    default: {
        uint32_t u = (uint32_t)((const uint16_t *)(const void *)p)[i] << 16;
        float f;
        memcpy(&f, &u, sizeof f);
        return (double)f;
    }
    }
}

static inline uint16_t bfloat_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return (uint16_t)(isnan(f) ? 0x7fffu : (u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

static inline void store(char *p, int type, int64_t i, double v) {
    switch (type) {
    case CUDA_R_64F: ((double *)(void *)p)[i] = v; break;
    case CUDA_R_32F: ((float *)(void *)p)[i] = (float)v; break;
    case CUDA_R_16F: ((uint16_t *)(void *)p)[i] = half_bits(v); break;
    default: ((uint16_t *)(void *)p)[i] = bfloat_bits((float)v); break;
    }
}

#endif
