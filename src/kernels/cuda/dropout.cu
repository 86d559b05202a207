/* cuda/dropout.cu: dropout on Philox4x32-10, its gradient, and the step of the random state. Element i takes word i % 4
 * of block i / 4 of {seed, node, step}: the same mask as on the CPU. state (2) = {seed, step}, in device memory, so
 * that a captured graph draws new numbers at every replay. */

/* Four elements at p lie on their own size. */
template <class T> DEVICE bool in_fours(const T *p) { return (uint64_t)p % (4 * sizeof(T)) == 0; }

/* y (n) = keep ? x * scale : 0, mask (n) = keep, where keep says that the upper 24 bits of the element's word are not
 * below the limit. mask may be NULL; y may be x. */
extern "C" __global__ void dropout(int64_t n, const int64_t *__restrict__ state, int64_t seed, int fixed_seed,
                                   uint32_t node, uint32_t limit, double scale, const S *x, S *y, uint8_t *mask) {
    uint64_t key = fixed_seed ? (uint64_t)seed : (uint64_t)state[0];
    uint32_t step = (uint32_t)state[1];
    A factor = (A)scale;
    bool fours = in_fours(x) && in_fours(y) && in_fours(mask);
    for (int64_t block = first_item(); block * 4 < n; block += item_step()) {
        uint32_t words[4];
        bool whole = fours && block * 4 + 4 <= n;
        vec<S, 4> v;
        vec<uint8_t, 4> keep;
        if (whole) v = vec_at<4>(x + block * 4);
        nck_philox4(key, node, step, (uint64_t)block, words);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int64_t i = block * 4 + k;
            keep.e[k] = words[k] >> 8 >= limit;
            if (!whole && i < n) v.e[k] = x[i];
            v.e[k] = to<S>::put(keep.e[k] ? (A)get(v.e[k]) * factor : (A)0);
            if (!whole && i < n) y[i] = v.e[k];
            if (!whole && i < n && mask) mask[i] = keep.e[k];
        }
        if (whole) *(vec<S, 4> *)(y + block * 4) = v;
        if (whole && mask) *(vec<uint8_t, 4> *)(mask + block * 4) = keep;
    }
}

/* keep (n) = by where a share of attention stays, else 0: the upper 24 bits of its word are not below the limit.
 * Threads take two blocks each, eight elements: n is a multiple of that. */
extern "C" __global__ void dropout_keep(int64_t n, const int64_t *__restrict__ state, uint32_t node, uint32_t limit,
                                        double by, S *keep) {
    uint64_t key = (uint64_t)state[0];
    uint32_t step = (uint32_t)state[1];
    S none = to<S>::put((A)0), one = to<S>::put((A)by);
    for (int64_t i = first_item(); i * 8 < n; i += item_step()) {
        uint32_t words[8];
        vec<S, 8> y;
        nck_philox4(key, node, step, (uint64_t)(2 * i), words);
        nck_philox4(key, node, step, (uint64_t)(2 * i + 1), words + 4);
#pragma unroll
        for (int k = 0; k < 8; k++) y.e[k] = words[k] >> 8 >= limit ? one : none;
        *(vec<S, 8> *)(keep + i * 8) = y;
    }
}

/* What cuDNN draws from in this step, for this node: a seed, and two numbers behind it an offset. */
extern "C" __global__ void dropout_pair(const int64_t *state, uint32_t node, int64_t *pair) {
    uint32_t words[4];
    nck_philox4((uint64_t)state[0], node, (uint32_t)state[1], (uint64_t)1 << 62, words);
    pair[0] = (int64_t)((uint64_t)words[1] << 32 | words[0]);
    pair[2] = words[2];
}

/* dx (n) = mask ? dy * scale : 0; dx may be dy. */
extern "C" __global__ void dropout_grad(int64_t n, double scale, const S *dy, const uint8_t *__restrict__ mask, S *dx) {
    A factor = (A)scale;
    int64_t n4 = in_fours(dy) && in_fours(dx) && in_fours(mask) ? n / 4 : 0;
    for (int64_t i = first_item(); i < n4; i += item_step()) {
        vec<S, 4> v = vec_at<4>(dy + i * 4);
        vec<uint8_t, 4> keep = vec_at<4>(mask + i * 4);
#pragma unroll
        for (int k = 0; k < 4; k++) v.e[k] = to<S>::put(keep.e[k] ? (A)get(v.e[k]) * factor : (A)0);
        *(vec<S, 4> *)(dx + i * 4) = v;
    }
    for (int64_t i = n4 * 4 + first_item(); i < n; i += item_step())
        dx[i] = to<S>::put(mask[i] ? (A)get(dy[i]) * factor : (A)0);
}

/* to (2) = {seed, step + 1} of from; to may be from. */
extern "C" __global__ void random_step(const int64_t *from, int64_t *to) {
    to[0] = from[0];
    to[1] = from[1] + 1;
}
