/* kernels/cpu/signal/dft.c: see dft.h. Tables (roots, chirp, its transform) are made once per call and shared; lines
 * are dealt to a fixed number of lanes, each with its own buffer, so that results do not depend on threads.
 *
 * Real lines of even length n = 2h are transformed as h complex numbers, elements 2k and 2k + 1 the parts of number k.
 * With Z for their transform, that of the even elements is E_k = (Z_k + conj Z_(h-k))/2, that of the odd ones O_k =
 * (Z_k - conj Z_(h-k))/2i, and X_k = E_k + exp(-2 pi i k/n) O_k.
 *
 * Bluestein: jk = (j^2 + k^2 - (k-j)^2)/2, so X_k = w(k) sum_j (x_j w(j)) conj(w(k-j)), w(j) = exp(-i pi j^2/n). The
 * sum is a convolution, done by transforms of m >= 2n - 1, a power of two. */
#include "kernels/cpu/signal/dft.h"

#include "base/intmath.h"
#include "base/real.h"

#include <math.h>
#include <string.h>

enum {
    LANES = 8,
    STEPS = 32 /* about what an element of a line costs, in elements as nc_pool_for counts them */
};

typedef struct cell {
    double re, im;
} cell;

typedef struct dft_job {
    const nc_tensor *x, *y;
    int64_t n, m; /* length, halved where two real elements are one number; of the fast transform */
    int64_t n_in, n_out, inner, n_lines, x_parts, y_parts;
    bool inverse, onesided, halved;
    const cell *turns;  /* exp(-2 pi i k/2n), k <= n; where halved */
    const cell *roots;  /* exp(-2 pi i k/m), k < m/2 */
    const cell *chirp;  /* w(j), j < n; NULL: n is a power of two */
    const cell *kernel; /* the transform of conj(w) */
    cell *buffers;      /* m per lane */
} dft_job;

static int64_t padded(int64_t n) {
    int64_t m = 1;
    bool power = n > 0 && (n & (n - 1)) == 0;
    while (m < (power ? n : 2 * n - 1)) m *= 2;
    return m;
}

/* roots m/2, chirp n <= m, kernel m, a buffer of m per lane. */
size_t nck_dft_workspace(int64_t length) {
    int64_t m = 1;
    while (m < 2 * length) m *= 2;
    return (size_t)(m * (3 + LANES)) * sizeof(cell);
}

static cell times(cell a, cell b) { return (cell){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

/* In place, m a power of two; the conjugate transform when `back`. Elements are put in the order of their bits read
 * backwards; then transforms of two neighbours are joined to those of 2, 4, ... elements by the roots of unity.
 * An example: m = 4. The order is a0 a2 a1 a3; the pairs give a0 + a2, a0 - a2, a1 + a3, a1 - a3; joining them with the
 * roots 1 and -i gives X0 = (a0 + a2) + (a1 + a3), X1 = (a0 - a2) - i (a1 - a3), X2 = (a0 + a2) - (a1 + a3) and
 * X3 = (a0 - a2) + i (a1 - a3). */
static void transform(cell *a, int64_t m, const cell *roots, bool back) {
    for (int64_t i = 1, j = 0; i < m; i++) {
        int64_t bit = m >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j |= bit;
        if (i < j) {
            cell t = a[i];
            a[i] = a[j], a[j] = t;
        }
    }
    for (int64_t len = 2; len <= m; len *= 2)
        for (int64_t i = 0; i < m; i += len)
            for (int64_t k = 0; k < len / 2; k++) {
                cell w = roots[k * (m / len)];
                if (back) w.im = -w.im;
                cell u = a[i + k], v = times(a[i + k + len / 2], w);
                a[i + k] = (cell){u.re + v.re, u.im + v.im};
                a[i + k + len / 2] = (cell){u.re - v.re, u.im - v.im};
            }
}

static cell root(double turns) {
    const double angle = -6.283185307179586 * turns;
    return (cell){cos(angle), sin(angle)};
}

/* The forward transform of n elements of a (room for m). */
static void forward(const dft_job *j, cell *a) {
    if (j->chirp == NULL) {
        transform(a, j->m, j->roots, false);
        return;
    }
    for (int64_t k = 0; k < j->n; k++) a[k] = times(a[k], j->chirp[k]);
    memset(a + j->n, 0, (size_t)(j->m - j->n) * sizeof *a);
    transform(a, j->m, j->roots, false);
    for (int64_t k = 0; k < j->m; k++) a[k] = times(a[k], j->kernel[k]);
    transform(a, j->m, j->roots, true);
    for (int64_t k = 0; k < j->n; k++) {
        cell v = times(a[k], j->chirp[k]);
        a[k] = (cell){v.re / (double)j->m, v.im / (double)j->m};
    }
}

static double element(const nc_tensor *x, int64_t at) {
    return x->dtype == NC_FLOAT ? (double)((const float *)x->data)[at] : nc_tensor_get(x, at);
}

static void put_element(const nc_tensor *y, int64_t at, double v) {
    if (y->dtype == NC_FLOAT)
        ((float *)y->data)[at] = (float)v;
    else
        nc_tensor_put(y, at, v);
}

static void read_pairs(const dft_job *j, int64_t from, cell *a) {
    for (int64_t k = 0; k < j->n; k++) {
        int64_t at = from + 2 * k * j->inner;
        a[k].re = 2 * k < j->n_in ? element(j->x, at) : 0;
        a[k].im = 2 * k + 1 < j->n_in ? element(j->x, at + j->inner) : 0;
    }
}

/* X_k of the halved line, k < 2n; the second half mirrors the first. */
static cell unfolded(const dft_job *j, const cell *a, int64_t k) {
    bool mirrored = k > j->n;
    if (mirrored) k = 2 * j->n - k;
    cell p = a[k % j->n], q = a[(j->n - k) % j->n];
    cell even = {(p.re + q.re) / 2, (p.im - q.im) / 2}, odd = {(p.im + q.im) / 2, (q.re - p.re) / 2};
    odd = times(odd, j->turns[k]);
    return (cell){even.re + odd.re, mirrored ? -(even.im + odd.im) : even.im + odd.im};
}

static void read_line(const dft_job *j, int64_t line, cell *a) {
    int64_t from = (line / j->inner * j->n_in * j->inner + line % j->inner) * j->x_parts;
    if (j->halved) {
        read_pairs(j, from, a);
        return;
    }
    for (int64_t k = 0; k < j->n; k++) {
        int64_t at = from + k * j->inner * j->x_parts;
        a[k] = (cell){0, 0};
        if (k < j->n_in) a[k] = (cell){element(j->x, at), j->x_parts == 2 ? element(j->x, at + 1) : 0};
    }
    if (!j->inverse || !j->onesided) return;
    a[0].im = 0;
    if (j->n % 2 == 0) a[j->n / 2].im = 0;
    for (int64_t k = 1; k < (j->n + 1) / 2; k++) a[j->n - k] = (cell){a[k].re, -a[k].im};
}

/* The inverse is the forward transform of the conjugate, conjugated and divided by n. */
static void dft_run_lane(void *ctx, int64_t lane) {
    const dft_job *j = ctx;
    cell *a = j->buffers + lane * j->m;
    double sign = j->inverse ? -1 : 1, scale = j->inverse ? (double)j->n : 1;
    for (int64_t line = lane; line < j->n_lines; line += LANES) {
        read_line(j, line, a);
        for (int64_t k = 0; j->inverse && k < j->n; k++) a[k].im = -a[k].im;
        forward(j, a);
        int64_t to = (line / j->inner * j->n_out * j->inner + line % j->inner) * j->y_parts;
        for (int64_t k = 0; k < j->n_out; k++) {
            int64_t at = to + k * j->inner * j->y_parts;
            cell v = j->halved ? unfolded(j, a, k) : a[k];
            put_element(j->y, at, v.re / scale);
            if (j->y_parts == 2) put_element(j->y, at + 1, sign * v.im / scale);
        }
    }
}

static void make_tables(dft_job *j, cell *at) {
    cell *roots = at, *chirp = at + j->m, *kernel = chirp + j->m;
    for (int64_t k = 0; k < j->m / 2; k++) roots[k] = root((double)k / (double)j->m);
    j->roots = roots;
    j->buffers = kernel + j->m;
    if (j->halved) {
        cell *turns = j->buffers + LANES * j->m;
        for (int64_t k = 0; k <= j->n; k++) turns[k] = root((double)k / (double)(2 * j->n));
        j->turns = turns;
    }
    if (j->m == j->n) return;
    for (int64_t k = 0; k < j->n; k++)
        chirp[k] = root((double)((uint64_t)k * (uint64_t)k % (2 * (uint64_t)j->n)) / (double)(2 * j->n));
    memset(kernel, 0, (size_t)j->m * sizeof *kernel);
    for (int64_t k = 0; k < j->n; k++) {
        cell c = {chirp[k].re, -chirp[k].im};
        kernel[k] = c;
        if (k > 0) kernel[j->m - k] = c;
    }
    transform(kernel, j->m, roots, false);
    j->chirp = chirp;
    j->kernel = kernel;
}

void nck_dft(const nc_tensor *x, int axis, int64_t length, bool inverse, bool onesided, const nc_tensor *y,
             void *workspace, nc_pool *pool) {
    dft_job j = {.x = x, .y = y, .inverse = inverse, .onesided = onesided};
    j.halved = !inverse && x->dims[x->rank - 1] == 1 && length > 0 && length % 2 == 0;
    j.n = j.halved ? length / 2 : length;
    j.m = padded(j.n);
    int64_t outer = 1;
    j.inner = 1;
    for (int d = 0; d < x->rank - 1; d++) *(d < axis ? &outer : &j.inner) *= d == axis ? 1 : x->dims[d];
    j.n_lines = outer * j.inner;
    j.n_in = x->dims[axis], j.n_out = y->dims[axis];
    j.x_parts = x->dims[x->rank - 1], j.y_parts = y->dims[y->rank - 1];
    if (j.n_lines == 0) return;
    make_tables(&j, workspace);
    nc_parallel(nc_pool_for(pool, j.n_lines * j.m * STEPS), nc_min64(j.n_lines, LANES), dft_run_lane, &j);
}
