/* cuda/scatter.cu: updates combined with the elements they go to, by the keys of index.cu, sorted: one thread takes all
 * updates of an element, in their order, so the bits are those of a loop over the updates. `how` is nck_combine's: put
 * the last, sum, product, maximum, minimum. S is the element; accumulation in A, rounded once. */
enum { PUT, ADD, MUL, MAX, MIN };

DEVICE A combined(int how, A a, A b) {
    return how == ADD ? a + b : how == MUL ? a * b : how == MAX ? join_max::of(a, b) : join_min::of(a, b);
}

/* y (outer, axis, inner) with updates (outer, n, inner). */
extern "C" __global__ void scatter(int how, int64_t outer, int64_t axis, int64_t inner, int64_t n, int bits,
                                   const uint64_t *__restrict__ keys, const S *__restrict__ updates, S *y) {
    for (int64_t i = first_item(); i < outer * n * inner; i += item_step()) {
        int64_t row = quotient(i, inner), j = i - row * inner, o = quotient(row, n), k = row - o * n;
        int64_t place = (int64_t)(keys[k] >> bits);
        if (place == axis || (k > 0 && (int64_t)(keys[k - 1] >> bits) == place)) continue;
        S *to_y = &y[(o * axis + place) * inner + j];
        A v = to<A>::put(get(*to_y));
        for (; k < n && (int64_t)(keys[k] >> bits) == place; k++) {
            int64_t update = (int64_t)(keys[k] & ((1ull << bits) - 1));
            A u = to<A>::put(get(updates[(o * n + update) * inner + j]));
            v = how == PUT ? u : combined(how, v, u);
        }
        *to_y = to<S>::put(v);
    }
}

/* The same for PUT, keys as they were made; claims: of index.cu. */
extern "C" __global__ void scatter_put(int64_t outer, int64_t axis, int64_t inner, int64_t n, int bits,
                                       const uint64_t *__restrict__ keys, const uint32_t *__restrict__ claims,
                                       const S *__restrict__ updates, S *y) {
    for (int64_t i = first_item(); i < outer * n * inner; i += item_step()) {
        int64_t row = quotient(i, inner), j = i - row * inner, o = quotient(row, n), k = row - o * n;
        int64_t place = (int64_t)(keys[k] >> bits);
        if (place < axis && claims[place] == (uint32_t)k + 1) y[(o * axis + place) * inner + j] = updates[i];
    }
}
