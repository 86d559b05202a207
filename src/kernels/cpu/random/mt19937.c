/* kernels/cpu/random/mt19937.c: the Mersenne Twister of Matsumoto and Nishimura (ACM TOMACS 8, 1998), seeded by one
 * word as their init_genrand does, and doubles of 53 bits from two words, as numpy's RandomState makes them. */
#include "kernels/cpu/random/mt19937.h"

enum { N = 624, M = 397 };

typedef struct twister {
    uint32_t s[N];
    int at;
} twister;

static void start(twister *t, uint32_t seed) {
    t->s[0] = seed;
    for (uint32_t i = 1; i < N; i++) t->s[i] = 1812433253u * (t->s[i - 1] ^ t->s[i - 1] >> 30) + i;
    t->at = N;
}

static uint32_t twist(uint32_t high, uint32_t low) {
    uint32_t y = (high & 0x80000000u) | (low & 0x7fffffffu);
    return y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
}

static void refill(twister *t) {
    for (int i = 0; i < N; i++) t->s[i] = t->s[(i + M) % N] ^ twist(t->s[i], t->s[(i + 1) % N]);
    t->at = 0;
}

static uint32_t next(twister *t) {
    if (t->at == N) refill(t);
    uint32_t y = t->s[t->at++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

static double uniform(twister *t) {
    uint32_t a = next(t) >> 5, b = next(t) >> 6;
    return ((double)a * 67108864.0 + (double)b) / 9007199254740992.0;
}

void nck_numpy_keep(uint32_t seed, int64_t n, double ratio, uint8_t *mask) {
    twister t;
    start(&t, seed);
    for (int64_t i = 0; i < n; i++) mask[i] = uniform(&t) >= ratio;
}
