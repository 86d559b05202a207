/* cuda/scatter.cu: updates combined with the elements they go to, in their order, so the bits are those of a loop
 * over the updates: by the sorted keys of index.cu, where one thread takes all updates of an element, or, within
 * short lines, by one warp for a line. `how` is nck_combine's: put the last, sum, product, maximum, minimum. S is the
 * element; accumulation in A, rounded once. */
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

/* Update c of a line: where it goes and what it is. */
struct line_update {
    int64_t to;
    S u;
};
DEVICE void combine_in_line(int how, const fault_site &site, int64_t size, bool there, const line_update &x, A *line) {
    int64_t at = x.to < 0 ? x.to + size : x.to;
    bool good = there && at >= 0 && at < size;
    if (there && !good) report(site, x.to, size);
    int lane = threadIdx.x, before = 0;
    unsigned same = __match_any_sync(0xffffffffu, good ? (int)at : -1 - lane);
    before = __popc(same & ((1u << lane) - 1));
    for (int turn = 0; __any_sync(0xffffffffu, good && before >= turn); turn++) { /* those of one place take turns */
        if (good && before == turn) {
            A u = to<A>::put(get(x.u));
            line[at] = how == PUT ? u : combined(how, line[at], u);
        }
        __syncwarp();
    }
}

/* Lines of `size` elements of y (operand 0 of the walk), each with `columns` updates; indices (operand 1), of 64 bits
 * if wide, lie side by side, updates are dense. A block of one warp for a line, which is in shared memory meanwhile.
 * */
extern "C" __global__ __launch_bounds__(32) void scatter_lines(const __grid_constant__ walk w,
                                                               const __grid_constant__ fault_site site, int how,
                                                               int64_t size, int64_t columns, int wide,
                                                               const void *__restrict__ index,
                                                               const S *__restrict__ updates, S *y) {
    enum { AT_ONCE = 8 };
    extern __shared__ int64_t memory[];
    A *line = (A *)memory;
    int64_t at[2];
    walk_at<2>(w, blockIdx.x, at);
    y += at[0], updates += blockIdx.x * columns;
    for (int64_t i = threadIdx.x; i < size; i += 32) line[i] = to<A>::put(get(y[i]));
    __syncwarp();
    for (int64_t first = 0; first < columns; first += 32 * AT_ONCE) {
        line_update x[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            int64_t c = first + u * 32 + threadIdx.x;
            if (c >= columns) continue;
            x[u].to = wide ? ((const int64_t *)index)[at[1] + c] : ((const int32_t *)index)[at[1] + c];
            x[u].u = updates[c];
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            combine_in_line(how, site, size, first + u * 32 + threadIdx.x < columns, x[u], line);
    }
    for (int64_t i = threadIdx.x; i < size; i += 32) y[i] = to<S>::put(line[i]);
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
