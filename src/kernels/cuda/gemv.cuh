/* cuda/gemv.cuh: what the kernels of products of one row share: y (N) = alpha * x (K) B (+ bias) (+ other), up to PARTS
 * of them over one x in a launch.
 *
 * Defined in front, where wanted: NORMED, x is first divided by the root of its mean square and scaled, which all comes
 * out of the same walk over x; PAIRED, there are two B of one N, and y is what `compute`, generated before this, makes
 * of the two sums in r[0] and r[1]: it leaves r[OUT_REG]. */
#define BEGINS_EARLY 1
#ifdef PAIRED
enum { MATS = 2 };
#else
enum { MATS = 1 };
#endif
#ifdef NORMED
enum { NORMS = 1 };
#else
enum { NORMS = 0 };
#endif
enum { PARTS = 3 };

struct gemv_part {
    int64_t N, step; /* step: elements between rows of B, or between its columns */
    int64_t first;   /* block of the grid; of a pair 0 */
    const S *b, *bias, *other; /* bias and other (N) or NULL; of a pair NULL */
    S *y;
};
/* Mirrors gemv_args in gemv.c. */
struct gemv_args {
    int64_t K, n_parts, n_splits, constant, opens; /* constant: all B are; opens: to the next kernel at once */
    A alpha, epsilon;
    const S *x, *scale; /* scale (K): of NORMED */
    A *partial;         /* (split, block, sums of a block), where there are several splits */
    uint32_t *counters; /* (block), all 0 */
    gemv_part part[PARTS];
};

/* What x is multiplied by beside its scale. */
DEVICE A norm_of(const gemv_args &g, A squares) { return (A)1 / sqrt(squares / (A)g.K + g.epsilon); }

/* What is added to column n. */
DEVICE A beside(const gemv_part &p, int64_t n) {
    A v = p.other ? (A)get(p.other[n]) : (A)0;
    return p.bias ? v + (A)get(p.bias[n]) : v;
}
#ifdef PAIRED
DEVICE void put_pair(const gemv_args &g, int64_t n, A first, A second) {
    L_T r[N_REG];
    r[0] = g.alpha * first, r[1] = g.alpha * second;
    compute(r);
    g.part[0].y[n] = to<S>::put(r[OUT_REG]);
}
#endif
