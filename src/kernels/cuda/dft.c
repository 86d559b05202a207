/* cuda/dft.c: launchers of dft.cu, see dft.h. */
#include "kernels/cuda/dft.h"

#include "base/intmath.h"

/* TILE_BITS: of the elements of a block in float, one less in double. A pass over more than that leaves at least four
 * columns side by side. */
enum { THREADS = 256, TILE_BITS = 12, PASS_BITS = TILE_BITS - 2, MAX_PASSES = 8 };

/* Mirrors that of dft.cu. */
typedef struct dft_args {
    int64_t outer, inner, x_dim, y_dim, n, m;
    int x_parts, y_parts, inverse, onesided, chirp, pairs;
} dft_args;

/* Mirrors that of dft.cu. */
typedef struct dft_pass {
    int64_t rows, m, done;
    int radix, forward, first, last, by_chirp, side_by_side, apart_bits, unused;
} dft_pass;

nc_code nck_cuda_dft_prepare(nc_device *d, nc_dtype t, nck_cuda_dft *out, nc_diag *diag) {
    static const char *const defines[] = {"#define T float\n", "#define T double\n"};
    *out = (nck_cuda_dft){.type = t};
    for (int i = t == NC_DOUBLE; i < 2; i++)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_dft, t, defines[i], "dft_pass_run", &out->pass[i], diag));
    return NC_OK;
}

static bool is_power(int64_t n) { return (n & (n - 1)) == 0; }

/* The power of two that is transformed for a length; 2 at least: a pass has a radix. */
static int64_t whole_of(int64_t n) {
    int64_t m = 2;
    while (m < (is_power(n) ? n : 2 * n - 1)) m *= 2;
    return m;
}

/* Up to here floats tell the parts of a turn apart. */
static const int64_t most_in_float = 1 << 23;
static bool is_wide(nc_dtype t, int64_t n) { return t == NC_DOUBLE || !is_power(n) || n > most_in_float; }

/* The radices of the passes over lines of m, their number. */
static int passes_of(int64_t m, bool wide, int *radices) {
    int bits = 0, n = 1;
    while ((int64_t)1 << bits < m) bits++;
    if (bits > TILE_BITS - wide) n = (int)nc_ceil_div(bits, PASS_BITS - wide);
    for (int i = 0, left = bits; i < n; i++) {
        int of_this = (int)nc_ceil_div(left, n - i);
        radices[i] = 1 << of_this;
        left -= of_this;
    }
    return n;
}

size_t nck_cuda_dft_workspace(nc_dtype t, int64_t rows, int64_t length) {
    int radices[MAX_PASSES];
    if (length < 1) return 0;
    bool wide = is_wide(t, length), chirp = !is_power(length);
    int n = passes_of(whole_of(length), wide, radices) * (1 + chirp);
    return (size_t)nc_min64(n - 1, 2) * (size_t)(rows + chirp) * (size_t)whole_of(length) * 2 *
           (wide ? sizeof(double) : sizeof(float));
}

/* Where passes go: from x through buffers in turn to y. */
typedef struct dft_way {
    const void *x;
    void *from, *to, *y;
} dft_way;

/* All passes over rows of m. first, last: the whole way begins, ends with them. */
static nc_code transform(const nck_cuda_dft *k, nck_cuda_at at, const dft_args *a, dft_pass p, bool first, bool last,
                         dft_way *way) {
    int radices[MAX_PASSES], wide = is_wide(k->type, a->n), n = passes_of(a->m, wide, radices);
    bool by_chirp = p.by_chirp != 0;
    for (int i = 0; i < n; i++) {
        p.radix = radices[i], p.first = first && i == 0, p.last = last && i == n - 1, p.by_chirp = by_chirp && i == 0;
        p.side_by_side = n > 1 || a->inner > 1;
        for (p.apart_bits = 0; (p.m / p.radix) >> p.apart_bits > 1;) p.apart_bits++;
        void *args[] = {(void *)(uintptr_t)a, &p, &way->x, &way->from, &way->to, &way->y}, *was = way->from;
        int64_t columns = (1 << (TILE_BITS - wide)) / p.radix;
        uint32_t blocks = nck_cuda_blocks(at.device, p.rows * (p.m / p.radix), columns);
        NC_TRY(nck_cuda_launch(at, k->pass[wide], blocks, THREADS, args));
        way->from = way->to, way->to = was;
        p.done *= p.radix;
    }
    return NC_OK;
}

nc_code nck_cuda_dft_run(const nck_cuda_dft *k, nck_cuda_at at, const nc_tensor *x, int axis, int64_t length,
                         bool inverse, bool onesided, const nc_tensor *y, void *workspace) {
    int last = x->rank - 1;
    bool chirp = !is_power(length);
    dft_args a = {.outer = 1,
                  .inner = 1,
                  .x_dim = x->dims[axis],
                  .y_dim = y->dims[axis],
                  .n = length,
                  .m = whole_of(length),
                  .x_parts = (int)x->dims[last],
                  .y_parts = (int)y->dims[last],
                  .inverse = inverse,
                  .onesided = onesided,
                  .chirp = chirp};
    for (int d = 0; d < last; d++)
        if (d != axis) *(d < axis ? &a.outer : &a.inner) *= x->dims[d];
    size_t pair = 2 * nc_dtype_bytes(k->type);
    a.pairs = ((uintptr_t)x->data | (uintptr_t)y->data) % pair == 0;
    int64_t rows = a.outer * a.inner, bytes = (rows + chirp) * a.m * 2 * (is_wide(k->type, length) ? 8 : 4);
    dft_way way = {.x = x->data, .from = (char *)workspace + bytes, .to = workspace, .y = y->data};
    dft_pass p = {.rows = rows + chirp, .m = a.m, .done = 1, .forward = chirp || !inverse};
    if (nc_tensor_numel(y) == 0) return NC_OK;
    NC_TRY(transform(k, at, &a, p, true, !chirp, &way));
    p.rows = rows, p.forward = false, p.by_chirp = true;
    return chirp ? transform(k, at, &a, p, false, true, &way) : NC_OK;
}
