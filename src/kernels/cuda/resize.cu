/* cuda/resize.cu: axes of a dense tensor resized: every output line is a weighted sum of a few input lines. Which, and
 * with what weights, follows from the same formulas as kernels/cpu/vision/resize_table.c has: forward they are worked
 * out once into tables, and two axes that lie side by side are one pass; backward each element works out its own, axis
 * by axis. Passes between keep numbers in A. U, of the element's size, is defined in front: nearest moves elements of
 * any type. */
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

/* (outer, in, inner) to (outer, out, inner) */
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

/* first (out), weight (out, taps): the lines that each output line sees, those outside of the input standing for its
 * edges. */
extern "C" __global__ void resize_table(resize_axis a, int64_t *first, A *weight) {
    for (int64_t i = first_item(); i < a.out; i += item_step()) {
        seen s = lines_at(a, i);
        first[i] = s.first;
        for (int k = 0; k < a.taps; k++) weight[i * a.taps + k] = (A)weight_of(a, s, s.first + k);
    }
}

/* (outer, in, in, inner) to (outer, out, out, inner), with the tables of both axes; taps[0] is 0 where there is only
 * the second. Mirrors resize_axes of resize.c. */
struct resize_axes {
    int64_t outer, in[2], out[2], inner;
    const int64_t *first[2];
    const A *weight[2];
    int taps[2];
};

/* N: the taps of every axis there is, where known. */
template <int N, class X> DEVICE A sum_along(const resize_axes &a, const X *x, int64_t j) {
    int taps = N ? N : a.taps[1];
    int64_t first = a.first[1][j];
    A sum = 0;
#pragma unroll
    for (int k = 0; k < taps; k++)
        sum += a.weight[1][j * taps + k] * to<A>::put(get(x[clamped(first + k, a.in[1]) * a.inner]));
    return sum;
}
template <int N, class X> DEVICE A sum_of(const resize_axes &a, const X *x, int64_t i, int64_t j) {
    if (a.taps[0] == 0) return sum_along<N>(a, x, j);
    int taps = N ? N : a.taps[0];
    int64_t first = a.first[0][i];
    A sum = 0;
#pragma unroll
    for (int k = 0; k < taps; k++)
        sum += a.weight[0][i * taps + k] * sum_along<N>(a, x + clamped(first + k, a.in[0]) * a.in[1] * a.inner, j);
    return sum;
}

/* TOGETHER: elements that a thread has under way at once. */
struct by_sum_of_2 {
    enum { TOGETHER = 2 };
    template <class X> static DEVICE A of(const resize_axes &a, const X *x, int64_t i, int64_t j) {
        return sum_of<2>(a, x, i, j);
    }
};
struct by_sum_of_4 {
    enum { TOGETHER = 1 };
    template <class X> static DEVICE A of(const resize_axes &a, const X *x, int64_t i, int64_t j) {
        return sum_of<4>(a, x, i, j);
    }
};
struct by_sum {
    enum { TOGETHER = 1 };
    template <class X> static DEVICE A of(const resize_axes &a, const X *x, int64_t i, int64_t j) {
        return sum_of<0>(a, x, i, j);
    }
};
struct by_move {
    enum { TOGETHER = TURNS };
    template <class X> static DEVICE X of(const resize_axes &a, const X *x, int64_t i, int64_t j) {
        int64_t line = a.taps[0] ? a.first[0][i] : 0;
        return x[(line * a.in[1] + a.first[1][j]) * a.inner];
    }
};

/* Rows of the table are (outer, out), columns (out, inner). */
template <class F, class X, class Y>
DEVICE void walk_tiles(const resize_axes &a, int64_t across, int64_t tiles, const X *x, Y *y) {
    int64_t rows = a.outer * a.out[0], columns = a.out[1] * a.inner;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        tile_place p = tile_at(tile, across);
        if (p.row >= rows) continue;
        int64_t o = quotient(p.row, a.out[0]), i = p.row - o * a.out[0];
        const X *from = x + o * a.in[0] * a.in[1] * a.inner;
#pragma unroll F::TOGETHER
        for (int k = 0; k < TURNS; k++) {
            int64_t c = p.column + k * blockDim.x, j = a.inner == 1 ? c : quotient(c, a.inner);
            if (c < columns) y[p.row * columns + c] = to<Y>::put(F::of(a, from + c - j * a.inner, i, j));
        }
    }
}
template <class X, class Y>
DEVICE void forward(const resize_axes &a, int64_t across, int64_t tiles, const X *x, Y *y) {
    bool alike = a.taps[0] == 0 || a.taps[0] == a.taps[1];
    if (alike && a.taps[1] == 2)
        walk_tiles<by_sum_of_2>(a, across, tiles, x, y);
    else if (alike && a.taps[1] == 4)
        walk_tiles<by_sum_of_4>(a, across, tiles, x, y);
    else
        walk_tiles<by_sum>(a, across, tiles, x, y);
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

extern "C" __global__ void resize_only(resize_axes a, int64_t across, int64_t tiles, const S *__restrict__ x, S *y) {
    forward(a, across, tiles, x, y);
}
extern "C" __global__ void resize_first(resize_axes a, int64_t across, int64_t tiles, const S *__restrict__ x, A *y) {
    forward(a, across, tiles, x, y);
}
extern "C" __global__ void resize_between(resize_axes a, int64_t across, int64_t tiles, const A *__restrict__ x, A *y) {
    forward(a, across, tiles, x, y);
}
extern "C" __global__ void resize_last(resize_axes a, int64_t across, int64_t tiles, const A *__restrict__ x, S *y) {
    forward(a, across, tiles, x, y);
}
extern "C" __global__ void resize_back_only(resize_axis a, const S *__restrict__ x, S *y) { backward(a, x, y); }
extern "C" __global__ void resize_back_first(resize_axis a, const S *__restrict__ x, A *y) { backward(a, x, y); }
extern "C" __global__ void resize_back_between(resize_axis a, const A *__restrict__ x, A *y) { backward(a, x, y); }
extern "C" __global__ void resize_back_last(resize_axis a, const A *__restrict__ x, S *y) { backward(a, x, y); }

/* y (outer, out, inner) = value where the axis is outside of the crop. */
extern "C" __global__ void resize_outside(resize_axis a, uint64_t value, U *y) {
    for (int64_t i = first_item(); i < a.outer * a.out * a.inner; i += item_step())
        if (is_outside(a, place_at(a, i / a.inner % a.out))) y[i] = (U)value;
}

extern "C" __global__ void resize_pick(resize_axes a, int64_t across, int64_t tiles, const U *__restrict__ x, U *y) {
    walk_tiles<by_move>(a, across, tiles, x, y);
}
