/* cuda/draw.cu: tensors of random numbers on Philox4x32-10, with the bits of kernels/cpu/random: element i takes word
 * i % 4 of block i / 4 of {seed, node, step}; state (2) = {seed, step}, in device memory, so that a captured graph
 * draws new numbers at every replay. S is what is drawn, X, defined in front, the type of chances or logits. */
#ifndef X
#define X float
#endif
enum { PIECE = 64, DRAW_THREADS = 256 }; /* PIECE: NCK_DRAW_PIECE of philox.h */

struct draw_args { /* mirrors that of random.c */
    int64_t n;
    const int64_t *state;
    int64_t seed;
    int fixed_seed;
    uint32_t node;
    double a, b; /* low and width, or mean and scale */
};
DEVICE void words_of(const draw_args &d, int64_t block, uint32_t (&w)[4]) {
    nck_philox4((uint64_t)(d.fixed_seed ? d.seed : d.state[0]), d.node, (uint32_t)d.state[1], (uint64_t)block, w);
}
DEVICE float uniform_of(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }

extern "C" __global__ void draw_uniform(draw_args d, S *y) {
    A low = (A)d.a, width = (A)d.b;
    for (int64_t block = first_item(); block * 4 < d.n; block += item_step()) {
        uint32_t w[4];
        words_of(d, block, w);
        for (int k = 0; k < 4 && block * 4 + k < d.n; k++)
            y[block * 4 + k] = to<S>::put(low + (A)uniform_of(w[k]) * width);
    }
}

extern "C" __global__ void draw_normal(draw_args d, S *y) {
    for (int64_t block = first_item(); block * 4 < d.n; block += item_step()) {
        uint32_t w[4];
        double z[4];
        words_of(d, block, w);
        nck_draw_normals(w, z);
        for (int k = 0; k < 4 && block * 4 + k < d.n; k++) y[block * 4 + k] = to<S>::put((A)(d.a + d.b * z[k]));
    }
}

/* y = 1 with the chance x, else 0 */
extern "C" __global__ void draw_flags(draw_args d, const X *__restrict__ x, S *y) {
    for (int64_t block = first_item(); block * 4 < d.n; block += item_step()) {
        uint32_t w[4];
        words_of(d, block, w);
        for (int k = 0; k < 4 && block * 4 + k < d.n; k++)
            y[block * 4 + k] = to<S>::put((A)((double)uniform_of(w[k]) < (double)get(x[block * 4 + k])));
    }
}

/* y (rows, samples): classes drawn with probabilities exp(logits (rows, classes)); a block of 256 for a row. sums
 * (rows, classes), before (rows, pieces + 1): what the classes up to each have, and the pieces before each. */
extern "C" __global__ __launch_bounds__(256) void draw_classes(draw_args d, int64_t rows, int64_t classes,
                                                               int64_t samples, const X *__restrict__ logits,
                                                               double *sums, double *before, S *y) {
    int64_t pieces = (classes + PIECE - 1) / PIECE;
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        const X *x = logits + r * classes;
        double *sum = sums + r * classes, *start = before + r * (pieces + 1), most = -(double)INF;
        for (int64_t k = threadIdx.x; k < classes; k += DRAW_THREADS) most = fmax(most, (double)get(x[k]));
        most = join_row<join_max>(most);
        for (int64_t p = threadIdx.x; p < pieces; p += DRAW_THREADS) {
            double piece = 0;
            for (int64_t k = p * PIECE; k < (p + 1) * PIECE && k < classes; k++)
                sum[k] = piece += nck_draw_exp((double)get(x[k]) - most);
            start[p + 1] = piece;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            start[0] = 0;
            for (int64_t p = 0; p < pieces; p++) start[p + 1] = start[p] + start[p + 1];
        }
        __syncthreads();
        for (int64_t i = threadIdx.x; i < samples; i += DRAW_THREADS) {
            int64_t at = r * samples + i, lo = 0, hi = classes - 1;
            uint32_t w[4];
            words_of(d, at / 4, w);
            double u = (double)uniform_of(w[at % 4]) * start[pieces];
            while (lo < hi) { /* the first class whose sum is larger */
                int64_t mid = lo + (hi - lo) / 2;
                if (start[mid / PIECE] + sum[mid] > u) hi = mid;
                else lo = mid + 1;
            }
            y[at] = to<S>::put((int64_t)lo);
        }
        __syncthreads();
    }
}
