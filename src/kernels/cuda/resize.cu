/* cuda/resize.cu: one axis of a dense tensor (outer, lines, inner) resized: every output line is a weighted sum of a
 * few input lines. Which, and with what weights, follows from the same formulas as kernels/cpu/vision/resize_table.c
 * has, here for each element anew. Passes between two axes keep numbers in A. U, of the element's size, is defined in
 * front: nearest moves elements of any type. */
#ifndef U
#define U uint32_t
#endif
enum { NEAREST, LINEAR, CUBIC };
enum {
    HALF_PIXEL,
    HALF_PIXEL_SYMMETRIC,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC,
    TF_CROP,
    TF_HALF_PIXEL_NEAREST
};
enum { PREFER_FLOOR, PREFER_CEIL, DOWN, UP };

struct resize_axis { /* mirrors resize_axis of resize.c */
    int64_t outer, in, out, inner;
    double scale, width, cubic_a, roi[2]; /* width: of the resized axis, which need not be whole */
    int mode, coords, round, taps, antialias, exclude_outside;
};

DEVICE double ratio(const resize_axis &a, double y, double by) {
    return a.mode == NEAREST ? (double)(float)(y / (double)(float)by) : y / by;
}

/* Where output line i lies among the input lines. */
DEVICE double place_at(const resize_axis &a, int64_t i) {
    double width = a.width, y = (double)i, last = (double)(a.in - 1), span = a.roi[1] - a.roi[0], x;
    switch (a.coords) {
    case ALIGN_CORNERS: x = width == 1 ? 0 : ratio(a, y * last, width - 1); break;
    case ASYMMETRIC: x = ratio(a, y, a.scale); break;
    case TF_HALF_PIXEL_NEAREST: x = ratio(a, y + 0.5, a.scale); break;
    case TF_CROP:
        x = (width == 1 ? span * last / 2 : y * span * last / (width - 1)) + a.roi[0] * last;
        break;
    case PYTORCH_HALF_PIXEL: x = width == 1 ? -0.5 : ratio(a, y + 0.5, a.scale) - 0.5; break;
    case HALF_PIXEL_SYMMETRIC:
        x = (double)a.in / 2 + ratio(a, y + 0.5 - (double)a.out / 2, a.scale) - 0.5; /* from the middle */
        break;
    default: x = ratio(a, y + 0.5, a.scale) - 0.5; break;
    }
    return fmax(fmin(x, (double)a.in + 4), -4.0 - (double)a.in);
}

/* Of a crop: between no two lines. */
DEVICE bool is_outside(const resize_axis &a, double x) { return a.coords == TF_CROP && !(x >= 0 && x <= a.in - 1); }

DEVICE int64_t clamped(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

DEVICE int64_t nearest_line(const resize_axis &a, double x) {
    double down = floor(x), part = x - down;
    bool up = part > 0 && (a.round == UP || (a.round == PREFER_FLOOR && part > 0.5) ||
                           (a.round == PREFER_CEIL && part >= 0.5));
    return clamped((int64_t)down + up, a.in);
}

DEVICE double weight_at(const resize_axis &a, double far) {
    far = fabs(far * (a.antialias && a.scale < 1 ? a.scale : 1));
    if (a.mode == LINEAR) return fmax(1 - far, 0.0);
    if (far <= 1) return ((a.cubic_a + 2) * far - (a.cubic_a + 3)) * far * far + 1;
    return far < 2 ? ((a.cubic_a * far - 5 * a.cubic_a) * far + 8 * a.cubic_a) * far - 4 * a.cubic_a : 0;
}

/* The lines that a place sees: taps from `first` on, and what their weights are divided by. */
struct seen { double x, by; int64_t first; bool cut; };

DEVICE seen lines_at(const resize_axis &a, int64_t i) {
    seen s = {place_at(a, i), 1, 0, false};
    s.first = a.mode == NEAREST ? nearest_line(a, s.x) : (int64_t)floor(s.x) + 1 - a.taps / 2;
    if (a.mode == NEAREST) return s;
    double all = 0, inside = 0;
    for (int k = 0; k < a.taps; k++) {
        double w = weight_at(a, (double)(s.first + k) - s.x);
        bool out = s.first + k < 0 || s.first + k >= a.in;
        all += w;
        if (!out) inside += w;
        s.cut = s.cut || (out && a.exclude_outside);
    }
    s.by = s.cut ? inside : a.antialias ? all : 1;
    if (s.by == 0) s.by = 1;
    return s;
}

DEVICE double weight_of(const resize_axis &a, const seen &s, int64_t line) {
    if (is_outside(a, s.x)) return 0;
    if (a.mode == NEAREST) return 1;
    if (s.cut && (line < 0 || line >= a.in)) return 0;
    return weight_at(a, (double)line - s.x) / s.by;
}

template <class X, class Y> DEVICE void forward(const resize_axis &a, const X *x, Y *y) {
    for (int64_t i = first_item(); i < a.outer * a.out * a.inner; i += item_step()) {
        int64_t row = i / a.inner, e = i - row * a.inner, o = row / a.out;
        seen s = lines_at(a, row - o * a.out);
        const X *from = x + o * a.in * a.inner + e;
        A sum = 0;
        for (int k = 0; k < a.taps; k++)
            sum += (A)weight_of(a, s, s.first + k) * to<A>::put(get(from[clamped(s.first + k, a.in) * a.inner]));
        y[i] = to<Y>::put(sum);
    }
}

/* Does output line j see no line before i? Places grow with j, but in crops, which may be turned round. */
DEVICE bool is_behind(const resize_axis &a, int64_t j, int64_t i) {
    if (a.coords == TF_CROP) return true;
    double x = place_at(a, j);
    int64_t last = a.mode == NEAREST ? nearest_line(a, x) : clamped((int64_t)floor(x) + a.taps / 2, a.in);
    return last >= i;
}

/* dx (outer, in, inner): what the output lines that see a line say about it, in their order. */
template <class X, class Y> DEVICE void backward(const resize_axis &a, const X *dy, Y *dx) {
    for (int64_t i = first_item(); i < a.outer * a.in * a.inner; i += item_step()) {
        int64_t row = i / a.inner, e = i - row * a.inner, o = row / a.in, line = row - o * a.in, low = 0, high = a.out;
        const X *from = dy + o * a.out * a.inner + e;
        A sum = 0;
        while (low < high) {
            int64_t middle = (low + high) / 2;
            if (is_behind(a, middle, line))
                high = middle;
            else
                low = middle + 1;
        }
        for (int64_t j = low; j < a.out; j++) {
            seen s = lines_at(a, j);
            if (a.coords != TF_CROP && clamped(s.first, a.in) > line) break;
            for (int k = 0; k < a.taps; k++)
                if (clamped(s.first + k, a.in) == line)
                    sum += (A)weight_of(a, s, s.first + k) * to<A>::put(get(from[j * a.inner]));
        }
        dx[i] = to<Y>::put(sum);
    }
}

extern "C" __global__ void resize_only(resize_axis a, const S *__restrict__ x, S *y) { forward(a, x, y); }
extern "C" __global__ void resize_first(resize_axis a, const S *__restrict__ x, A *y) { forward(a, x, y); }
extern "C" __global__ void resize_between(resize_axis a, const A *__restrict__ x, A *y) { forward(a, x, y); }
extern "C" __global__ void resize_last(resize_axis a, const A *__restrict__ x, S *y) { forward(a, x, y); }
extern "C" __global__ void resize_back_only(resize_axis a, const S *__restrict__ x, S *y) { backward(a, x, y); }
extern "C" __global__ void resize_back_first(resize_axis a, const S *__restrict__ x, A *y) { backward(a, x, y); }
extern "C" __global__ void resize_back_between(resize_axis a, const A *__restrict__ x, A *y) { backward(a, x, y); }
extern "C" __global__ void resize_back_last(resize_axis a, const A *__restrict__ x, S *y) { backward(a, x, y); }

/* y (outer, out, inner) = value where the axis is outside of the crop. */
extern "C" __global__ void resize_outside(resize_axis a, uint64_t value, U *y) {
    for (int64_t i = first_item(); i < a.outer * a.out * a.inner; i += item_step())
        if (is_outside(a, place_at(a, i / a.inner % a.out))) y[i] = (U)value;
}

extern "C" __global__ void resize_pick(resize_axis a, const U *__restrict__ x, U *y) {
    for (int64_t i = first_item(); i < a.outer * a.out * a.inner; i += item_step()) {
        int64_t row = i / a.inner, o = row / a.out;
        int64_t line = nearest_line(a, place_at(a, row - o * a.out));
        y[i] = x[(o * a.in + line) * a.inner + i - row * a.inner];
    }
}
