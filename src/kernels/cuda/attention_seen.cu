/* cuda/attention_seen.cu: what cuDNN's graphs need to know of who sees whom, and what they cannot say; see
 * attention.cuh. A mask of bools becomes numbers that are added, lengths become 32 bits wide, and queries that see no
 * key, whose rows are NaN or anything behind a graph, get a row of zeros. */

/* Mirrors nck_cuda_attn_seen in attention_seen.h. */
struct seen_args {
    attn_args a;
    int32_t *n_queries, *n_keys; /* (batch) */
    S *bias;                     /* (dims, keys): 0 where a key is seen, else -inf */
    int32_t *first;              /* (dims): the first key that the mask lets see; NULL: no mask of bools */
    int64_t dims[3];             /* of batches, heads and queries, 1: one for all */
};

extern "C" __global__ void seen_lens(seen_args g) {
    for (int64_t b = first_item(); b < g.a.n_batch; b += item_step()) {
        g.n_queries[b] = (int32_t)g.a.n_queries;
        g.n_keys[b] = (int32_t)max(min(g.a.kv_lens[b], g.a.n_keys), (int64_t)0);
    }
}

/* A warp for a row. */
extern "C" __global__ void seen_bias(seen_args g) {
    const attn_args &a = g.a;
    int64_t rows = g.dims[0] * g.dims[1] * g.dims[2], warps = blockDim.x / 32;
    S none = to<S>::put(-(A)INF), zero = to<S>::put((A)0);
    for (int64_t r = blockIdx.x * warps + threadIdx.x / 32; r < rows; r += gridDim.x * warps) {
        int64_t i = r % g.dims[2], h = r / g.dims[2] % g.dims[1], b = r / g.dims[2] / g.dims[1];
        const M *mask = a.mask + b * a.mask_strides[0] + h * a.mask_strides[1] + i * a.mask_strides[2];
        int first = (int)a.n_keys;
        for (int64_t j = threadIdx.x % 32; j < a.n_keys; j += 32) {
            bool seen = j < a.mask_cols && get(mask[j * a.mask_strides[3]]) != 0;
            g.bias[r * a.n_keys + j] = seen ? zero : none;
            if (seen) first = min(first, (int)j);
        }
        for (int d = 16; d > 0; d >>= 1) first = min(first, __shfl_xor_sync(0xffffffffu, first, d));
        if (threadIdx.x % 32 == 0) g.first[r] = first;
    }
}

extern "C" __global__ void seen_mend(seen_args g) {
    const attn_args &a = g.a;
    int64_t n = a.n_batch * a.q_heads * a.n_queries;
    for (int64_t at = first_item(); at < n; at += item_step()) {
        int64_t bh = at / a.n_queries, i = at % a.n_queries, b = bh / a.q_heads, h = bh % a.q_heads;
        attn_head x = attn_head_of(a, bh);
        attn_seen s = attn_seen_by(a, x, i);
        int first = s.first;
        if (g.first)
            first = max(first, g.first[(b % g.dims[0] * g.dims[1] + h % g.dims[1]) * g.dims[2] + i % g.dims[2]]);
        if (first < s.end) continue;
        for (int64_t c = 0; c < a.cols_v; c++) x.y[i * a.y.row + c * a.y.column] = to<S>::put((A)0);
        if (a.stats) a.stats[at] = (A)INF;
    }
}
