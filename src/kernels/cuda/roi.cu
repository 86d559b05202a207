/* cuda/roi.cu: RoiAlign, how it changes when x moves, and its gradients, by the formulas of kernels/cpu/vision/roi.c: a
 * bin is the mean of samples that are read between four pixels each; with max it is the largest weighted pixel, the
 * first of equal ones. Sums are in double, those of dx in A. A batch index out of range is reported, its region 0. */
struct roi_args { /* mirrors nck_cuda_roi in roi.h */
    int64_t regions, images, C, H, W, h, w, ratio;
    double scale;
    int max, half_pixel;
};
struct region { double at[4], bin[2], ends[2]; int64_t n[2]; };
struct roi_bin { int64_t i, j; const S *plane; };
struct pixels { int64_t at[4]; double weight[4], slope[2][4], along[2]; };

DEVICE region region_of(const roi_args &a, const S *rois, int64_t r) {
    region g = {{0}, {0}, {1, 1}, {0}};
    const double places[2] = {(double)a.h, (double)a.w};
    for (int k = 0; k < 4; k++) g.at[k] = (double)get(rois[r * 4 + k]) * a.scale - (a.half_pixel ? 0.5 : 0);
    for (int k = 0; k < 2; k++) {
        double size = g.at[3 - k] - g.at[1 - k];
        if (!a.half_pixel && size <= 1) size = 1, g.ends[k] = 0;
        g.bin[k] = size / places[k];
        g.n[k] = a.ratio > 0 ? a.ratio : (int64_t)ceil(g.bin[k]);
    }
    return g;
}
DEVICE int64_t samples(const region &g) { return g.n[0] > 0 && g.n[1] > 0 ? g.n[0] * g.n[1] : 0; }

/* The two lines around a place of an axis with `size` lines, how far it is from the first, whether that moves. */
struct lines { int64_t first, second; double far, moves; };
DEVICE bool lines_at(double x, int64_t size, lines &l) {
    if (!(x >= -1 && x <= (double)size)) return false;
    l.moves = x > 0;
    x = fmax(x, 0.0);
    l.first = (int64_t)x;
    if (l.first >= size - 1) x = (double)(l.first = size - 1), l.moves = 0;
    l.second = l.first + (l.first < size - 1);
    l.far = x - (double)l.first;
    return true;
}
DEVICE double place_in(const region &g, int axis, int64_t bin, int64_t s) {
    return (double)bin + ((double)s + 0.5) / (double)g.n[axis];
}

/* Sample s of a bin; false: too far outside, worth 0. along: how far through the region it lies. */
DEVICE bool sample_of(const roi_args &a, const region &g, int64_t i, int64_t j, int64_t s, pixels &p) {
    double in_y = place_in(g, 0, i, s / g.n[1]), in_x = place_in(g, 1, j, s % g.n[1]);
    lines y, x;
    if (!lines_at(g.at[1] + in_y * g.bin[0], a.H, y) || !lines_at(g.at[0] + in_x * g.bin[1], a.W, x)) return false;
    p.along[0] = in_y / (double)a.h, p.along[1] = in_x / (double)a.w;
    for (int k = 0; k < 4; k++) {
        double v = k / 2 ? y.far : 1 - y.far, u = k % 2 ? x.far : 1 - x.far;
        p.at[k] = (k / 2 ? y.second : y.first) * a.W + (k % 2 ? x.second : x.first);
        p.weight[k] = v * u;
        p.slope[0][k] = (k / 2 ? 1 : -1) * u * y.moves;
        p.slope[1][k] = (k % 2 ? 1 : -1) * v * x.moves;
    }
    return true;
}

/* The largest weighted pixel: its sample and tap; sample -1: one that is outside, worth 0. */
DEVICE double largest(const roi_args &a, const region &g, const roi_bin &b, int64_t &sample, int &tap) {
    double most = 0;
    sample = -1, tap = 0;
    for (int64_t s = 0; s < samples(g); s++) {
        pixels p;
        double best = 0;
        int best_tap = 0;
        bool inside = sample_of(a, g, b.i, b.j, s, p);
        for (int k = 0; inside && k < 4; k++) {
            double v = p.weight[k] * (double)get(b.plane[p.at[k]]);
            if (k == 0 || v > best) best = v, best_tap = k;
        }
        if (s > 0 && !(best > most)) continue;
        most = best, sample = inside ? s : -1, tap = best_tap;
    }
    return most;
}

DEVICE bool image_of(const roi_args &a, const int64_t *batch, int64_t r, int64_t &image) {
    image = batch[r];
    return image >= 0 && image < a.images;
}

/* y (regions, C, h, w) of `of`, which is x, or with max read where x is the largest. */
extern "C" __global__ void roi_align(roi_args a, fault_site site, const S *__restrict__ x, const S *__restrict__ of,
                                     const S *__restrict__ rois, const int64_t *__restrict__ batch, S *y) {
    for (int64_t i = first_item(); i < a.regions * a.C * a.h * a.w; i += item_step()) {
        int64_t row = i / a.w, plane = row / a.h, r = plane / a.C, image, at;
        int tap;
        double sum = 0;
        pixels p;
        if (!image_of(a, batch, r, image)) {
            report(site, image, a.images);
            y[i] = to<S>::put((A)0);
            continue;
        }
        region g = region_of(a, rois, r);
        int64_t from = (image * a.C + plane % a.C) * a.H * a.W, n = samples(g);
        roi_bin b = {row % a.h, i % a.w, x + from};
        if (a.max) {
            sum = largest(a, g, b, at, tap);
            bool seen = at >= 0 && sample_of(a, g, b.i, b.j, at, p);
            if (of != x) sum = seen ? p.weight[tap] * (double)get(of[from + p.at[tap]]) : 0;
        }
        for (int64_t s = 0; !a.max && s < n; s++)
            for (int k = 0; k < 4 && sample_of(a, g, b.i, b.j, s, p); k++)
                sum += p.weight[k] * (double)get(of[from + p.at[k]]);
        y[i] = to<S>::put((A)(a.max ? sum : sum / (double)(n > 0 ? n : 1)));
    }
}

/* How much of a sample at `place` a line sees. */
DEVICE double share_of(double place, int64_t line, int64_t size) {
    lines l;
    if (!lines_at(place, size, l)) return 0;
    return l.first == line ? 1 - l.far : l.second == line ? l.far : 0;
}
/* How much of bin i of an axis a line sees, over all samples. */
DEVICE double share_of_bin(const region &g, int axis, int64_t i, int64_t line, int64_t size) {
    double sum = 0;
    for (int64_t s = 0; s < g.n[axis]; s++)
        sum += share_of(g.at[1 - axis] + place_in(g, axis, i, s) * g.bin[axis], line, size);
    return sum;
}
/* The bins of an axis that may see a line: [from, to). */
DEVICE void bins_at(const region &g, int axis, int64_t line, int64_t bins, int64_t &from, int64_t &to) {
    double near = ((double)line - 1 - g.at[1 - axis]) / g.bin[axis], far = near + 2 / g.bin[axis];
    from = 0, to = bins;
    if (!(g.bin[axis] > 0)) return;
    if (near > 0) from = near < (double)bins ? (int64_t)near : bins;
    if (far < (double)bins) to = far < 0 ? 0 : (int64_t)far + 1;
}

/* No line of an axis outside of [from, to] sees a bin: rounded outwards. */
DEVICE void lines_seen(const region &g, int axis, int64_t bins, int64_t size, int &from, int &to) {
    bool known = g.bin[axis] > 0;
    double first = g.at[1 - axis], last = first + (double)bins * g.bin[axis];
    from = known ? (int)fmax(first - 2, -1.0) : -1;
    to = known ? (int)fmin(last + 3, (double)size) : (int)size;
}

/* Means: a thread has a pixel of ROI_CHANNELS planes of dx, and looks through all regions in their order. A sample is
 * seen by lines and columns apart from each other, so a bin's share is their product. Blocks of 256. */
enum { ROI_CHANNELS = 16, ROI_HELD = 64 };
extern "C" __global__ __launch_bounds__(256) void roi_align_dx(roi_args a, const S *__restrict__ rois,
                                                               const int64_t *__restrict__ batch,
                                                               const S *__restrict__ dy, S *dx) {
    __shared__ region held[ROI_HELD];
    __shared__ int64_t images[ROI_HELD];
    __shared__ int top_of[ROI_HELD], bottom_of[ROI_HELD], left_of[ROI_HELD], right_of[ROI_HELD];
    int64_t parts = (a.C + ROI_CHANNELS - 1) / ROI_CHANNELS, pixels = a.H * a.W, n = a.images * parts * pixels;
    for (int64_t start = blockIdx.x * (int64_t)blockDim.x; start < n; start += item_step()) {
        int64_t item = start + threadIdx.x, row = item / pixels, image = row / parts, c = row % parts * ROI_CHANNELS;
        int64_t line = item % pixels / a.W, column = item % a.W;
        A sum[ROI_CHANNELS] = {0};
        for (int64_t first = 0; first < a.regions; first += ROI_HELD) {
            __syncthreads();
            if (threadIdx.x < ROI_HELD && first + threadIdx.x < a.regions) {
                held[threadIdx.x] = region_of(a, rois, first + threadIdx.x);
                images[threadIdx.x] = samples(held[threadIdx.x]) > 0 ? batch[first + threadIdx.x] : -1;
                lines_seen(held[threadIdx.x], 0, a.h, a.H, top_of[threadIdx.x], bottom_of[threadIdx.x]);
                lines_seen(held[threadIdx.x], 1, a.w, a.W, left_of[threadIdx.x], right_of[threadIdx.x]);
            }
            __syncthreads();
            for (int k = 0; k < ROI_HELD && first + k < a.regions && item < n; k++) {
                const region &g = held[k];
                int64_t top, bottom, left, right;
                if (images[k] != image || line < top_of[k] || line > bottom_of[k] || column < left_of[k] ||
                    column > right_of[k])
                    continue;
                bins_at(g, 0, line, a.h, top, bottom);
                bins_at(g, 1, column, a.w, left, right);
                for (int64_t i = top; left < right && i < bottom; i++) {
                    double down = share_of_bin(g, 0, i, line, a.H) / (double)samples(g);
                    for (int64_t j = left; down != 0 && j < right; j++) {
                        A share = (A)(down * share_of_bin(g, 1, j, column, a.W));
                        const S *d = dy + (((first + k) * a.C + c) * a.h + i) * a.w + j;
#pragma unroll
                        for (int e = 0; e < ROI_CHANNELS; e++)
                            if (share != 0 && c + e < a.C) sum[e] += share * (A)get(d[e * a.h * a.w]);
                    }
                }
            }
        }
#pragma unroll
        for (int e = 0; e < ROI_CHANNELS; e++)
            if (item < n && c + e < a.C) dx[(image * a.C + c + e) * pixels + line * a.W + column] = to<S>::put(sum[e]);
    }
}

/* With max, where pixels depend on x: a thread has one line of one plane of dx, and looks through all regions in their
 * order. sums: as dx. */
extern "C" __global__ void roi_align_dx_max(roi_args a, const S *__restrict__ x, const S *__restrict__ rois,
                                        const int64_t *__restrict__ batch, const S *__restrict__ dy, A *sums, S *dx) {
    for (int64_t i = first_item(); i < a.images * a.C * a.H; i += item_step()) {
        int64_t plane = i / a.H, line = i % a.H, image, at;
        A *mine = sums + i * a.W;
        int tap;
        pixels p;
        for (int64_t k = 0; k < a.W; k++) mine[k] = 0;
        for (int64_t r = 0; r < a.regions; r++) {
            if (!image_of(a, batch, r, image) || image != plane / a.C) continue;
            region g = region_of(a, rois, r);
            const S *d = dy + (r * a.C + plane % a.C) * a.h * a.w;
            for (int64_t k = 0; k < a.h * a.w; k++) {
                roi_bin b = {k / a.w, k % a.w, x + plane * a.H * a.W};
                largest(a, g, b, at, tap);
                if (at >= 0 && sample_of(a, g, b.i, b.j, at, p) && p.at[tap] / a.W == line)
                    mine[p.at[tap] % a.W] += (A)(p.weight[tap] * (double)get(d[k]));
            }
        }
        for (int64_t k = 0; k < a.W; k++) dx[i * a.W + k] = to<S>::put(mine[k]);
    }
}

/* What d at a pixel of a sample gives the ends of the region: a place is the near end + along * size. */
DEVICE void add_ends(const region &g, const pixels &p, int k, double d, double *ends) {
    for (int e = 0; e < 2; e++) {
        double moved = d * p.slope[e][k], far = p.along[e] * g.ends[e];
        ends[1 - e] += moved * (1 - far);
        ends[3 - e] += moved * far;
    }
}

/* One block of 256 per region. */
extern "C" __global__ __launch_bounds__(256) void roi_align_drois(roi_args a, fault_site site, const S *__restrict__ x,
                                                                  const S *__restrict__ rois,
                                                                  const int64_t *__restrict__ batch,
                                                                  const S *__restrict__ dy, S *drois) {
    for (int64_t r = blockIdx.x; r < a.regions; r += gridDim.x) {
        double ends[4] = {0, 0, 0, 0};
        region g = region_of(a, rois, r);
        int64_t image, at, bins = a.h * a.w;
        bool known = image_of(a, batch, r, image);
        if (!known) report(site, image, a.images);
        for (int64_t i = threadIdx.x; known && i < a.C * bins; i += blockDim.x) {
            roi_bin b = {i % bins / a.w, i % a.w, x + (image * a.C + i / bins) * a.H * a.W};
            double d = (double)get(dy[r * a.C * bins + i]);
            int tap;
            pixels p;
            if (a.max) largest(a, g, b, at, tap);
            if (a.max && at >= 0 && sample_of(a, g, b.i, b.j, at, p))
                add_ends(g, p, tap, d * (double)get(b.plane[p.at[tap]]), ends);
            for (int64_t s = 0; !a.max && s < samples(g); s++)
                for (int k = 0; k < 4 && sample_of(a, g, b.i, b.j, s, p); k++)
                    add_ends(g, p, k, d / (double)samples(g) * (double)get(b.plane[p.at[k]]), ends);
        }
        for (int k = 0; k < 4; k++) {
            double sum = join_row<join_sum>(ends[k]);
            if (threadIdx.x == 0) drois[r * 4 + k] = to<S>::put((A)(sum * a.scale));
        }
    }
}

/* ---- MaxRoiPlaces, by the formulas of kernels/cpu/vision/roi_pool.c ---- */

DEVICE void bin_ends(double start, double size, int64_t i, int64_t n, int64_t length, int64_t &from, int64_t &to) {
    float bin = (float)size / (float)n;
    from = (int64_t)fmin(fmax(floor((double)((float)i * bin)) + start, 0.0), (double)length);
    to = (int64_t)fmin(fmax(ceil((double)((float)(i + 1) * bin)) + start, 0.0), (double)length);
}

/* y (regions, C, h, w): the place in x of the largest pixel of a bin, the first of equal ones, -1: it has none. rois
 * (regions, 5): one of an image that is not there, or with a place that is no pixel, is reported and has none. */
extern "C" __global__ void roi_places(roi_args a, const __grid_constant__ fault_site site, const S *__restrict__ x,
                                      const S *__restrict__ rois, int64_t *y) {
    for (int64_t i = first_item(); i < a.regions * a.C * a.h * a.w; i += item_step()) {
        int64_t row = i / a.w, plane = row / a.h, r = plane / a.C, best = -1, top, bottom, left, right;
        double ends[4], image = (double)get(rois[r * 5]), most = 0;
        bool good = image >= 0 && image < (double)a.images;
        for (int k = 0; k < 4; k++) {
            double at = (double)get(rois[r * 5 + 1 + k]) * a.scale;
            good = good && fabs(at) < 1e9;
            ends[k] = round(at);
        }
        y[i] = -1;
        if (!good) {
            report(site, i64_of(image), a.images);
            continue;
        }
        bin_ends(ends[1], fmax(ends[3] - ends[1] + 1, 1.0), row % a.h, a.h, a.H, top, bottom);
        bin_ends(ends[0], fmax(ends[2] - ends[0] + 1, 1.0), i % a.w, a.w, a.W, left, right);
        for (int64_t p = top; p < bottom; p++)
            for (int64_t q = left; q < right; q++) {
                int64_t at = (((int64_t)image * a.C + plane % a.C) * a.H + p) * a.W + q;
                double v = (double)get(x[at]);
                if (best < 0 || v > most) best = at, most = v;
            }
        y[i] = best;
    }
}
