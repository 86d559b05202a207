/* cuda/chain.cu: the loops around a generated chain of element formulas; chain.c writes what stands in front of them:
 * L_T the compute type, N_REG, N_ARGS (inputs, then outputs), RANK, UNROLL, V (elements of one vector), AHEAD (vectors
 * that a thread loads before it computes one, so that enough bytes are under way), and the
 * functions load, compute and store for one element, load_vectors, pick, keep and store_vectors for V of them.
 * Every element is loaded, computed and stored by one thread, so an output may be the memory of an input. */
#define BEGINS_EARLY 1
/* Offsets of item i in all operands; items are elements, or vectors whose last dim and strides count in them. */
DEVICE void chain_at(const chain_args &c, int64_t i, int64_t (&at)[N_ARGS]) {
    for (int k = 0; k < N_ARGS; k++) at[k] = 0;
#pragma unroll 1
    for (int d = (int)c.rank - 1; d > 0; d--) {
        int64_t q = i >> 32 == 0 && c.dims[d] >> 32 == 0 ? (uint32_t)i / (uint32_t)c.dims[d] : i / c.dims[d];
        int64_t r = i - q * c.dims[d];
        for (int k = 0; k < N_ARGS; k++) at[k] += r * c.strides[k][d];
        i = q;
    }
    for (int k = 0; k < N_ARGS; k++) at[k] += i * c.strides[k][0];
}

/* Operands of any strides. */
extern "C" __global__ void chain(chain_args c) {
    wait_for_earlier();
    int64_t step = item_step();
    for (int64_t i = first_item(); i < c.n; i += step * UNROLL) {
        L_T r[UNROLL][N_REG];
        int64_t at[UNROLL][N_ARGS];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (i + u * step < c.n) {
                chain_at(c, i + u * step, at[u]);
                load(c, at[u], r[u]);
            }
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (i + u * step < c.n) {
                compute(r[u]);
                store(c, at[u], r[u]);
            }
    }
}

/* The elements behind the last whole vector, of operands with one dim. */
DEVICE void chain_tail(const chain_args &c) {
    int64_t at[N_ARGS], i = first_item();
    L_T r[N_REG];
    if (i >= c.tail) return;
    for (int k = 0; k < N_ARGS; k++) at[k] = c.spread >> k & 1 ? 0 : c.n * V + i;
    load(c, at, r);
    compute(r);
    store(c, at, r);
}

/* n vectors of V elements that lie side by side in every operand, or (bit k of spread) are one element of it. */
extern "C" __global__ void chain_vectors(chain_args c) {
    wait_for_earlier();
    int64_t step = item_step();
    for (int64_t i = first_item(); i < c.n; i += step * AHEAD) {
        int64_t at[AHEAD][N_ARGS];
        chain_in x[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (i + u * step < c.n) {
                chain_at(c, i + u * step, at[u]);
                load_vectors(c, at[u], x[u]);
            }
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (i + u * step < c.n) {
                chain_out y;
#pragma unroll
                for (int e = 0; e < V; e++) {
                    L_T r[N_REG];
                    pick(x[u], e, r);
                    compute(r);
                    keep(r, e, y);
                }
                store_vectors(c, at[u], y);
            }
    }
    chain_tail(c);
}
