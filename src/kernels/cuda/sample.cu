/* cuda/sample.cu: x read at the places of a grid, between its pixels, and its gradients, by the formulas of
 * kernels/cpu/vision/grid_taps.c: places in double, sums in A. In front are defined TAPS, how many lines an axis has
 * (1, 2 or 4), AXES (1 to 3) and G, the grid's type. All channels of a place share its pixels and weights. The gradient
 * by x sorts what arrives by the pixels it goes to (sort.cu): a thread adds what is a pixel's, place after place. */
enum { ZEROS, BORDER, REFLECTION };
enum { ALL_TAPS = AXES == 1 ? TAPS : AXES == 2 ? TAPS * TAPS : TAPS * TAPS * TAPS };
enum { CHANNELS = 8, SAMPLE_THREADS = 256 };

/* x (N, C, D...), grid (N, P, AXES), y (N, C, P); mirrors nck_cuda_sample in sample.h. */
struct sample_args {
    int64_t N, C, P, pixels, d[3];
    int padding, align_corners, in_pixels, bits; /* bits: of a tap's number in a word */
};
/* One axis of a place: where its lines begin, -1: nowhere; their weights, and how these change with the coordinate. */
struct axis_lines { int64_t at[TAPS]; double weight[TAPS], slope[TAPS]; };
struct place_lines { axis_lines axis[AXES]; };

DEVICE double reflected(double x, double lo, double hi, bool &turns_back) {
    double span = hi - lo;
    turns_back = false;
    if (span <= 0) return lo;
    if (x >= lo && x <= hi) return x;
    double far = x < lo ? lo - x : x - hi, turns = floor(far / span), rest = far - turns * span;
    turns_back = turns - 2 * floor(turns / 2) == 0;
    return (x < lo) == turns_back ? lo + rest : hi - rest;
}

DEVICE double pixel_of(const sample_args &a, double g, int64_t d, double &step) {
    double x = a.in_pixels ? g : a.align_corners ? (g + 1) / 2 * (double)(d - 1) : ((g + 1) * (double)d - 1) / 2;
    double edge = a.align_corners ? 0 : -0.5, lo = edge, hi = (double)(d - 1) - edge;
    step = a.in_pixels ? 1 : (double)(a.align_corners ? d - 1 : d) / 2;
    if (TAPS == 1) x = rint(x);
    if (!(x >= lo && x <= hi)) {
        double beyond = TAPS == 4 ? 3 : 0, was = x;
        bool back = false;
        if (a.padding == BORDER) x = fmin(fmax(x, -beyond), (double)(d - 1) + beyond);
        if (a.padding == BORDER && x != was) step = 0;
        if (a.padding == REFLECTION) x = reflected(x, lo, hi, back);
        if (back) step = -step;
    }
    if (fabs(x) < 4503599627370496.0) return x;
    step = 0;
    return -4;
}

DEVICE int64_t line_of(const sample_args &a, int64_t i, int64_t d) {
    bool back;
    if (i >= 0 && i < d) return i;
    if (a.padding == ZEROS) return -1;
    if (a.padding == BORDER) return i < 0 ? 0 : d - 1;
    double edge = a.align_corners ? 0 : -0.5;
    int64_t r = (int64_t)reflected((double)i, edge, (double)(d - 1) - edge, back);
    return r < 0 ? 0 : r >= d ? d - 1 : r;
}

DEVICE double cubic(double x) {
    const double a = -0.75;
    return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}
DEVICE double cubic_slope(double x) {
    const double a = -0.75;
    return x <= 1 ? (3 * (a + 2) * x - 2 * (a + 3)) * x : (3 * a * x - 10 * a) * x + 8 * a;
}

/* place counts through the whole grid, whose coordinates begin with the innermost axis. */
DEVICE void lines_at(const sample_args &a, const G *grid, int64_t place, place_lines &p) {
    int64_t stride = 1;
#pragma unroll
    for (int e = AXES - 1; e >= 0; stride *= a.d[e], e--) {
        double step, x = pixel_of(a, (double)get(grid[place * AXES + AXES - 1 - e]), a.d[e], step);
        int64_t first = (int64_t)(TAPS == 1 ? rint(x) : floor(x)) - (TAPS == 4);
#pragma unroll
        for (int k = 0; k < TAPS; k++) {
            double far = fabs((double)(first + k) - x), sign = k < TAPS / 2 ? 1 : -1;
            int64_t line = line_of(a, first + k, a.d[e]);
            p.axis[e].at[k] = line < 0 ? -1 : line * stride;
            p.axis[e].weight[k] = TAPS == 1 ? 1 : TAPS == 2 ? 1 - far : cubic(far);
            p.axis[e].slope[k] = TAPS == 1 ? 0 : TAPS == 2 ? -sign * step : cubic_slope(far) * sign * step;
        }
    }
}

/* Tap t of a place, the innermost axis first: false: it is nowhere. along: the axis whose slope is wanted, -1: none. */
DEVICE bool tap_of(const place_lines &p, int t, int along, int64_t &at, double &weight) {
    bool there = true;
    at = 0, weight = 1;
#pragma unroll
    for (int e = 0; e < AXES; e++) {
        int k = e == AXES - 1 ? t % TAPS : e == AXES - 2 ? t / TAPS % TAPS : t / (TAPS * TAPS);
        there = there && p.axis[e].at[k] >= 0;
        at += p.axis[e].at[k];
        weight *= e == along ? p.axis[e].slope[k] : p.axis[e].weight[k];
    }
    return there;
}

/* A thread has a place, and CHANNELS of its channels. */
extern "C" __global__ __launch_bounds__(256) void sample(sample_args a, const S *__restrict__ x,
                                                         const G *__restrict__ grid, S *y) {
    int64_t parts = (a.C + CHANNELS - 1) / CHANNELS;
    for (int64_t i = first_item(); i < a.N * parts * a.P; i += item_step()) {
        int64_t row = quotient(i, a.P), place = i - row * a.P, n = quotient(row, parts);
        int64_t c = (row - n * parts) * CHANNELS;
        place_lines lines;
        A sum[CHANNELS] = {0};
        const S *from = x + (n * a.C + c) * a.pixels;
        lines_at(a, grid, n * a.P + place, lines);
#pragma unroll
        for (int t = 0; t < ALL_TAPS; t++) {
            int64_t at;
            double weight;
            if (!tap_of(lines, t, -1, at, weight)) continue;
#pragma unroll
            for (int e = 0; e < CHANNELS; e++)
                if (c + e < a.C) sum[e] += (A)weight * get(from[e * a.pixels + at]);
        }
#pragma unroll
        for (int e = 0; e < CHANNELS; e++)
            if (c + e < a.C) y[(n * a.C + c + e) * a.P + place] = to<S>::put(sum[e]);
    }
}

/* A word for every tap of every place: the pixel it reads, N * pixels where there is none, and its number. */
extern "C" __global__ __launch_bounds__(256) void sample_words(sample_args a, const G *__restrict__ grid,
                                                               uint64_t *words, A *weights) {
    for (int64_t i = first_item(); i < a.N * a.P; i += item_step()) {
        place_lines lines;
        int64_t image = quotient(i, a.P) * a.pixels;
        lines_at(a, grid, i, lines);
#pragma unroll
        for (int t = 0; t < ALL_TAPS; t++) {
            int64_t at, number = i * ALL_TAPS + t;
            double weight;
            bool there = tap_of(lines, t, -1, at, weight);
            words[number] = (uint64_t)(there ? image + at : a.N * a.pixels) << a.bits | (uint64_t)number;
            weights[number] = (A)weight;
        }
    }
}

/* begins (N * pixels + 1): the first of the sorted words of each pixel, or of those behind it. */
extern "C" __global__ void sample_begins(sample_args a, const uint64_t *__restrict__ words, uint32_t *begins) {
    int64_t n = a.N * a.P * ALL_TAPS, last = a.N * a.pixels;
    for (int64_t i = first_item(); i <= n; i += item_step()) {
        int64_t to = i < n ? (int64_t)(words[i] >> a.bits) : last;
        for (int64_t p = i > 0 ? (int64_t)(words[i - 1] >> a.bits) + 1 : 0; p <= to; p++) begins[p] = (uint32_t)i;
    }
}

/* A thread has a pixel, and CHANNELS of its channels. */
extern "C" __global__ __launch_bounds__(256) void sample_dx(sample_args a, const uint64_t *__restrict__ words,
                                                            const A *__restrict__ weights,
                                                            const uint32_t *__restrict__ begins,
                                                            const S *__restrict__ dy, S *dx) {
    int64_t parts = (a.C + CHANNELS - 1) / CHANNELS;
    for (int64_t i = first_item(); i < a.N * parts * a.pixels; i += item_step()) {
        int64_t row = quotient(i, a.pixels), pixel = i - row * a.pixels, n = quotient(row, parts);
        int64_t c = (row - n * parts) * CHANNELS, at = n * a.pixels + pixel;
        A sum[CHANNELS] = {0};
        for (uint32_t k = begins[at]; k < begins[at + 1]; k++) {
            int64_t number = (int64_t)(words[k] & ((1ull << a.bits) - 1)), place = number / ALL_TAPS - n * a.P;
            A weight = weights[number];
            const S *from = dy + (n * a.C + c) * a.P + place;
#pragma unroll
            for (int e = 0; e < CHANNELS; e++)
                if (c + e < a.C) sum[e] += weight * get(from[e * a.P]);
        }
#pragma unroll
        for (int e = 0; e < CHANNELS; e++)
            if (c + e < a.C) dx[(n * a.C + c + e) * a.pixels + pixel] = to<S>::put(sum[e]);
    }
}

/* Blocks of 32 places by 8 parts of the channels. */
extern "C" __global__ __launch_bounds__(256) void sample_dgrid(sample_args a, const S *__restrict__ x,
                                                               const G *__restrict__ grid, const S *__restrict__ dy,
                                                               G *dgrid) {
    __shared__ double parts[8][32][AXES];
    int lane = threadIdx.x % 32, part = threadIdx.x / 32;
    for (int64_t tile = blockIdx.x * (int64_t)32; tile < a.N * a.P; tile += gridDim.x * (int64_t)32) {
        int64_t i = tile + lane, n = quotient(i, a.P), place = i - n * a.P;
        double sum[AXES] = {0};
        if (i < a.N * a.P) {
            place_lines lines;
            int64_t at[ALL_TAPS];
            A slope[ALL_TAPS][AXES];
            lines_at(a, grid, i, lines);
#pragma unroll
            for (int t = 0; t < ALL_TAPS; t++)
#pragma unroll
                for (int e = 0; e < AXES; e++) {
                    double by;
                    if (!tap_of(lines, t, e, at[t], by)) at[t] = -1;
                    slope[t][e] = (A)by;
                }
            for (int64_t c = part; c < a.C; c += 8) {
                const S *from = x + (n * a.C + c) * a.pixels;
                A d = (A)get(dy[(n * a.C + c) * a.P + place]), moved[AXES] = {0};
#pragma unroll
                for (int t = 0; t < ALL_TAPS; t++) {
                    if (at[t] < 0) continue;
                    A v = (A)get(from[at[t]]);
#pragma unroll
                    for (int e = 0; e < AXES; e++) moved[e] += slope[t][e] * v;
                }
#pragma unroll
                for (int e = 0; e < AXES; e++) sum[e] += (double)d * (double)moved[e];
            }
        }
#pragma unroll
        for (int e = 0; e < AXES; e++) parts[part][lane][e] = sum[e];
        __syncthreads();
        for (int k = threadIdx.x; k < 32 * AXES; k += SAMPLE_THREADS) {
            int e = k % AXES, of = k / AXES;
            double all = 0;
            for (int w = 0; w < 8; w++) all += parts[w][of][e];
            if (tile + of < a.N * a.P) dgrid[(tile + of) * AXES + AXES - 1 - e] = to<G>::put(all);
        }
        __syncthreads();
    }
}
