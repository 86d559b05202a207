/* cuda/dropout.cu: dropout on Philox4x32-10, its gradient, and the step of the random state. Element i takes word i % 4
 * of block i / 4 of {seed, node, step}: the same mask as on the CPU. state (2) = {seed, step}, in device memory, so
 * that a captured graph draws new numbers at every replay. */

/* y (n) = keep ? x * scale : 0, mask (n) = keep, where keep is uniform >= ratio. mask may be NULL; y may be x. */
extern "C" __global__ void dropout(int64_t n, const int64_t *__restrict__ state, int64_t seed, int fixed_seed,
                                   uint32_t node, double ratio, double scale, const S *x, S *y, uint8_t *mask) {
    uint64_t key = fixed_seed ? (uint64_t)seed : (uint64_t)state[0];
    uint32_t step = (uint32_t)state[1];
    A factor = (A)scale;
    for (int64_t block = first_item(); block * 4 < n; block += item_step()) {
        uint32_t words[4];
        nck_philox4(key, node, step, (uint64_t)block, words);
        for (int k = 0; k < 4; k++) {
            int64_t i = block * 4 + k;
            if (i >= n) break;
            bool keep = (double)nck_philox_uniform(words[k]) >= ratio;
            y[i] = to<S>::put(keep ? (A)get(x[i]) * factor : (A)0);
            if (mask) mask[i] = keep;
        }
    }
}

/* dx (n) = mask ? dy * scale : 0; dx may be dy. */
extern "C" __global__ void dropout_grad(int64_t n, double scale, const S *dy, const uint8_t *__restrict__ mask, S *dx) {
    A factor = (A)scale;
    for (int64_t i = first_item(); i < n; i += item_step())
        dx[i] = to<S>::put(mask[i] ? (A)get(dy[i]) * factor : (A)0);
}

/* to (2) = {seed, step + 1} of from; to may be from. */
extern "C" __global__ void random_step(const int64_t *from, int64_t *to) {
    to[0] = from[0];
    to[1] = from[1] + 1;
}
