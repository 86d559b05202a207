/* cuda/chain.cu: the loop around a generated chain of element formulas; chain.c writes what stands in front of it:
 * L_T the compute type, N_REG, N_ARGS (inputs, then outputs), RANK, UNROLL, and the functions load, compute and store.
 * Every element is loaded, computed and stored by one thread, so an output may be the memory of an input. */
/* Offsets of element i in all operands. */
DEVICE void chain_at(const chain_args &c, int64_t i, int64_t (&at)[N_ARGS]) {
    if (c.rank == 1) {
        for (int k = 0; k < N_ARGS; k++) at[k] = i * c.strides[k][0];
        return;
    }
    for (int k = 0; k < N_ARGS; k++) at[k] = 0;
    for (int d = (int)c.rank - 1; d >= 0; d--) {
        int64_t q = i >> 32 == 0 && c.dims[d] >> 32 == 0 ? (uint32_t)i / (uint32_t)c.dims[d] : i / c.dims[d];
        int64_t r = i - q * c.dims[d];
        for (int k = 0; k < N_ARGS; k++) at[k] += r * c.strides[k][d];
        i = q;
    }
}

extern "C" __global__ void chain(chain_args c) {
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
