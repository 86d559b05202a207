/* cuda/scatter.cu: updates combined with the elements they go to, by the sorted keys of index.cu: one thread takes all
 * updates of an element, in their order, so the bits are those of a loop over the updates. `how` is nck_combine's: put
 * the last, sum, product, maximum, minimum. S is the element; accumulation in A, rounded once. */
enum { PUT, ADD, MUL, MAX, MIN };

DEVICE A combined(int how, A a, A b) {
    return how == ADD ? a + b : how == MUL ? a * b : how == MAX ? join_max::of(a, b) : join_min::of(a, b);
}

/* y (outer, axis, inner) with updates (outer, n, inner). */
extern "C" __global__ void scatter(int how, int64_t outer, int64_t axis, int64_t inner, int64_t n,
                                   const int64_t *__restrict__ keys, const S *__restrict__ updates, S *y) {
    for (int64_t i = first_item(); i < outer * n * inner; i += item_step()) {
        int64_t row = quotient(i, inner), j = i - row * inner, o = quotient(row, n), k = row - o * n;
        if (keys[k] == 0x7fffffffffffffffll) continue;
        int64_t place = quotient(keys[k], n);
        if (k > 0 && quotient(keys[k - 1], n) == place) continue;
        S *to_y = &y[(o * axis + place) * inner + j];
        A v = to<A>::put(get(*to_y));
        for (; k < n && quotient(keys[k], n) == place; k++) {
            A u = to<A>::put(get(updates[(o * n + keys[k] - place * n) * inner + j]));
            v = how == PUT ? u : combined(how, v, u);
        }
        *to_y = to<S>::put(v);
    }
}
