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

/* A thread has one line of one plane of dx, and looks through all regions in their order. sums: as dx. */
extern "C" __global__ void roi_align_dx(roi_args a, const S *__restrict__ x, const S *__restrict__ rois,
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
            for (int64_t k = 0; a.max && k < a.h * a.w; k++) {
                roi_bin b = {k / a.w, k % a.w, x + plane * a.H * a.W};
                largest(a, g, b, at, tap);
                if (at >= 0 && sample_of(a, g, b.i, b.j, at, p) && p.at[tap] / a.W == line)
                    mine[p.at[tap] % a.W] += (A)(p.weight[tap] * (double)get(d[k]));
            }
            for (int64_t k = 0; !a.max && samples(g) > 0 && k < a.h * g.n[0]; k++) {
                lines l;
                int64_t bin = k / g.n[0], s = k % g.n[0];
                if (!lines_at(g.at[1] + place_in(g, 0, bin, s) * g.bin[0], a.H, l)) continue;
                if (l.first != line && l.second != line) continue;
                for (int64_t e = 0; e < a.w * g.n[1]; e++) {
                    double v = (double)get(d[bin * a.w + e / g.n[1]]) / (double)samples(g);
                    if (!sample_of(a, g, bin, e / g.n[1], s * g.n[1] + e % g.n[1], p)) continue;
                    for (int t = 0; t < 4; t++)
                        if (p.at[t] / a.W == line) mine[p.at[t] % a.W] += (A)(p.weight[t] * v);
                }
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
