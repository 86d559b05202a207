/* cuda/attention.cuh: what the kernels of attention share: their arguments, and which keys a query sees.
 *
 * Y = softmax(softcap(scale * Q K') + bias) V per batch and head. The bias is -inf where a key may not be seen, else
 * the mask's element; a query that sees no key gives a row of zeros. Defined in front: M, the mask's type, where there
 * is one, MASK_BOOL where it says who is seen, SOFTCAP where there is one, DROPOUT where shares are dropped: the sum of
 * a query's powers holds all of them, V meets those that stay. Heads of queries share those of keys in
 * order. Scores are held for a tile of keys at a time: the largest one so far, the sum and the result are brought to a
 * new scale by each tile. */
#ifdef M
#define MASKED 1
#else
#define M float
#endif
#define LOG2_E 1.4426950408889634

/* A matrix per batch and head: strides in elements. */
struct attn_operand {
    char *data;
    int64_t batch, head, row, column;
};

/* Mirrors nck_cuda_attn_drop in attention.h. */
struct attn_drop {
    const int64_t *state;
    const void *keep;
    const int64_t *pair;
    double ratio, by;
    uint32_t node, limit;
};

/* Mirrors nck_cuda_attn_args in attention.h. */
struct attn_args {
    int64_t n_batch, q_heads, kv_heads, n_queries, n_keys, cols, cols_v; /* cols: of q and k */
    attn_operand q, k, v, y;
    const M *mask;                      /* NULL: none */
    int64_t mask_strides[4], mask_cols; /* of (batch, head, query, key); keys from mask_cols on are not seen */
    const int64_t *kv_lens;             /* (batch): keys from there on are not seen; NULL: all are */
    int64_t left, right;                /* window around the query's own place; -1: no bound */
    int64_t offset;                     /* place of the first query among the keys */
    double scale, softcap;              /* softcap 0: none */
    int causal, offset_by_lens;         /* the offset is kv_lens[b] - n_queries instead */
    int vectors, pairs, mask_pairs, q_pairs; /* 16 bytes of k and v, two elements of y, of the mask, of q at once */
    A *stats; /* (batch, head, query): what the gradient needs of a query; NULL: not wanted */
    attn_drop drop;
};

/* One batch and head as a block works on it. */
struct attn_head {
    const S *q, *k, *v;
    S *y;
    const M *mask;
    int64_t place; /* of query 0 among the keys */
    int n_keys;    /* seen by any query */
    A factor;      /* of products, to powers of 2 unless SOFTCAP */
};

/* Batch b, head h of the queries, kv of the keys. */
DEVICE attn_head attn_head_at(const attn_args &a, int64_t b, int64_t h, int64_t kv) {
    attn_head x;
    x.q = (const S *)a.q.data + b * a.q.batch + h * a.q.head;
    x.k = (const S *)a.k.data + b * a.k.batch + kv * a.k.head;
    x.v = (const S *)a.v.data + b * a.v.batch + kv * a.v.head;
    x.y = (S *)a.y.data + b * a.y.batch + h * a.y.head;
#ifdef SOFTCAP
    x.factor = (A)(a.scale / a.softcap);
#else
    x.factor = (A)(a.scale * LOG2_E);
#endif
    x.mask = a.mask ? a.mask + b * a.mask_strides[0] + h * a.mask_strides[1] : (const M *)0;
    int64_t len = a.kv_lens ? a.kv_lens[b] : a.n_keys;
    x.place = a.offset_by_lens ? len - a.n_queries : a.offset;
    int64_t n = min(a.n_keys, len);
    if (a.mask) n = min(n, a.mask_cols);
    x.n_keys = (int)max(n, (int64_t)0);
    return x;
}
DEVICE attn_head attn_head_of(const attn_args &a, int64_t bh) {
    int64_t b = bh / a.q_heads, h = bh % a.q_heads;
    return attn_head_at(a, b, h, h / (a.q_heads / a.kv_heads));
}

/* The keys first..end-1 that query i sees, but for the mask. */
struct attn_seen {
    int first, end;
};
DEVICE attn_seen attn_seen_by(const attn_args &a, const attn_head &x, int64_t i) {
    int64_t p = i + x.place, first = 0, end = x.n_keys;
    if (a.causal) end = min(end, p + 1);
    if (a.right >= 0) end = min(end, p + a.right + 1);
    if (a.left >= 0) first = max(first, p - a.left);
    attn_seen s;
    s.end = (int)max(end, (int64_t)0);
    s.first = (int)min(first, (int64_t)s.end);
    return s;
}

/* What an element of the mask adds to a score: of a mask that says who is seen not 0 for who is not. */
DEVICE A attn_bias(M m) {
#ifdef MASK_BOOL
    return (A)(get(m) == 0);
#else
    return (A)get(m) * (A)LOG2_E;
#endif
}
/* Of query i and key j; 0 where there is no mask or the key is not seen. */
DEVICE A attn_bias_at(const attn_args &a, const attn_head &x, const attn_seen &seen, int64_t i, int j) {
#ifdef MASKED
    if (x.mask && j < seen.end) return attn_bias(x.mask[i * a.mask_strides[2] + j * a.mask_strides[3]]);
#endif
    return 0;
}

/* The score of key j, whose product with the query is s: scaled, capped, biased, in powers of 2. */
DEVICE A attn_score(const attn_args &a, const attn_head &x, const attn_seen &seen, int j, A s, A bias) {
    if (j < seen.first || j >= seen.end) return -(A)INF;
    s *= x.factor;
#ifdef SOFTCAP
    s = (A)(a.softcap * LOG2_E) * tanh(s);
#endif
#ifdef MASK_BOOL
    return bias != 0 ? -(A)INF : s;
#else
    return s + bias;
#endif
}

#ifdef DROPOUT
/* Which shares stay: numbers of the session's random state, the same as on the CPU. */
struct attn_draw {
    uint64_t seed;
    uint32_t step, node, limit, words[4];
    int64_t block; /* whose words these are */
};
DEVICE attn_draw attn_draw_of(const attn_args &a) {
    attn_draw d;
    d.seed = (uint64_t)a.drop.state[0], d.step = (uint32_t)a.drop.state[1];
    d.node = a.drop.node, d.limit = a.drop.limit, d.block = -1;
    return d;
}
/* Share e of all; neighbours are drawn four at a time. */
DEVICE bool attn_stays(attn_draw &d, int64_t e) {
    if (e / 4 != d.block) nck_philox4(d.seed, d.node, d.step, (uint64_t)(e / 4), d.words);
    d.block = e / 4;
    uint32_t w = e & 2 ? (e & 1 ? d.words[3] : d.words[2]) : (e & 1 ? d.words[1] : d.words[0]);
    return w >> 8 >= d.limit;
}
#endif

/* The larger one; NaN is left out: its power is NaN, whatever the scale. */
DEVICE A attn_larger(A a, A b) { return b > a ? b : a; }
/* What scores are lessened by: the largest one, or 0 where none is seen. */
DEVICE A attn_base(A top) { return top == -(A)INF ? (A)0 : top; }
/* Shares are 2^(score - stat): the logarithm of the sum of all powers; infinite where no key is seen. */
DEVICE A attn_stat(A top, A sum) { return sum == 0 ? (A)INF : attn_base(top) + log2(sum); }
