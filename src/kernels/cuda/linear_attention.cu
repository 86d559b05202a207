/* cuda/linear_attention.cu: LinearAttention, token after token. A thread has one column of a key head's matrix (dk, dv)
 * from the first token to the last; the matrix is kept in float. Sums are in the order of the key's columns, as on the
 * CPU. P is the type of the states that come and go. */
#ifndef P
#define P S
#endif

/* Mirrors nck_cuda_linear_attention in linear_attention.h. decay_columns, beta_columns 0: none. */
struct linear_attention {
    int64_t B, T, q_heads, kv_heads, dk, dv, decay_columns, beta_columns;
    float scale;
};

DEVICE float decay_of(const linear_attention &a, const S *row, int64_t h, int64_t d) {
    return exp((float)get(row[a.decay_columns == a.kv_heads ? h : h * a.dk + d]));
}

/* query (B, T, q_heads, dk), key (B, T, kv_heads, dk), value (B, T, kv_heads, dv), decay (B, T, decay_columns), beta
 * (B, T, beta_columns), past and present (B, kv_heads, dk, dv), y (B, T, q_heads, dv); past and present may be NULL. */
extern "C" __global__ void attend_linear(linear_attention a, const S *__restrict__ query, const S *__restrict__ key,
                                         const S *__restrict__ value, const P *__restrict__ past,
                                         const S *__restrict__ decay, const S *__restrict__ beta, float *state,
                                         P *present, S *y) {
    int64_t group = a.q_heads / a.kv_heads;
    for (int64_t i = first_item(); i < a.B * a.kv_heads * a.dv; i += item_step()) {
        int64_t head = i / a.dv, m = i - head * a.dv, b = head / a.kv_heads, h = head - b * a.kv_heads;
        int64_t from = head * a.dk * a.dv + m;
        float *s = state + from;
        for (int64_t d = 0; d < a.dk; d++) s[d * a.dv] = past ? (float)get(past[from + d * a.dv]) : 0;
        for (int64_t t = b * a.T; t < (b + 1) * a.T; t++) {
            const S *k = key + (t * a.kv_heads + h) * a.dk, *q = query + (t * a.q_heads + h * group) * a.dk;
            float v = get(value[(t * a.kv_heads + h) * a.dv + m]), told = 0;
            for (int64_t d = 0; a.decay_columns && d < a.dk; d++)
                s[d * a.dv] *= decay_of(a, decay + t * a.decay_columns, h, d);
            for (int64_t d = 0; a.beta_columns && d < a.dk; d++) told += (float)get(k[d]) * s[d * a.dv];
            if (a.beta_columns) v = (float)get(beta[t * a.beta_columns + (a.beta_columns == 1 ? 0 : h)]) * (v - told);
            for (int64_t d = 0; d < a.dk; d++) s[d * a.dv] += (float)get(k[d]) * v;
            for (int64_t g = 0; g < group; g++) {
                float sum = 0;
                for (int64_t d = 0; d < a.dk; d++) sum += (float)get(q[g * a.dk + d]) * s[d * a.dv];
                y[(t * a.q_heads + h * group + g) * a.dv + m] = to<S>::put(sum * a.scale);
            }
        }
        for (int64_t d = 0; present && d < a.dk; d++) present[from + d * a.dv] = to<P>::put(s[d * a.dv]);
    }
}
