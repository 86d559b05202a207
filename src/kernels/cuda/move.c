/* cuda/move.c: launchers of copy.cu, see move.h. */
#include "kernels/cuda/move.h"

#include "base/intmath.h"

#include <string.h>

enum { THREADS = 256, WORD = 16, TILE = 32, TILE_ROWS = 8 };

const char *nck_cuda_move_define(size_t bytes) {
    static const char *const defines[9] = {[1] = "#define U uint8_t\n",
                                           [2] = "#define U uint16_t\n",
                                           [4] = "#define U uint32_t\n",
                                           [8] = "#define U uint64_t\n"};
    return bytes < 9 ? defines[bytes] : NULL;
}

nc_code nck_cuda_move_prepare(nc_device *d, size_t elem_bytes, nck_cuda_move *out, nc_diag *diag) {
    const char *define = nck_cuda_move_define(elem_bytes == 16 ? 8 : elem_bytes);
    if (define == NULL)
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "elements of %zu bytes are not moved on a GPU",
                           elem_bytes);
    *out = (nck_cuda_move){.bytes = elem_bytes};
    const struct {
        const char *entry;
        nc_function **f;
    } wanted[] = {{"copy", &out->copy},
                  {"copy_rows", &out->copy_rows},
                  {"copy_words", &out->copy_words},
                  {"turn", &out->turn},
                  {"fill", &out->fill}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_copy, NC_UNDEFINED, define, wanted[i].entry, wanted[i].f, diag));
    return NC_OK;
}

/* Elements of 16 bytes as a last dim of two halves; false when the rank leaves no room for it. */
static bool halve(nck_cuda_walk *w) {
    if (w->rank == NC_MAX_RANK) return false;
    for (int64_t d = 0; d < w->rank; d++) w->strides[0][d] *= 2, w->strides[1][d] *= 2;
    w->dims[w->rank] = 2;
    w->strides[0][w->rank] = w->strides[1][w->rank] = 1;
    w->rank++;
    return true;
}

/* Rows of at least two words that lie side by side on both sides, as the walk's last dim. */
static bool in_rows(const nck_cuda_walk *w, size_t bytes) {
    int64_t last = w->rank - 1;
    return w->strides[0][last] == 1 && w->strides[1][last] == 1 && w->dims[last] * (int64_t)bytes >= 2 * WORD;
}

/* w: as in_rows says. */
static nc_code copy_rows(const nck_cuda_move *k, nck_cuda_at at, nck_cuda_walk *w, const void *src, void *dst) {
    int64_t last = --w->rank, es = (int64_t)k->bytes, rows = 1, bytes = w->dims[last] * es;
    uint64_t to = (uintptr_t)dst, from = (uintptr_t)src | (uint64_t)bytes; /* whose low bits say how all lie */
    for (int64_t d = 0; d < last; d++) {
        to |= (uint64_t)(w->strides[0][d] *= es), from |= (uint64_t)(w->strides[1][d] *= es);
        rows *= w->dims[d];
    }
    int64_t words = bytes / WORD, n = rows * words, at_once = THREADS * NCK_CUDA_TURNS;
    if ((to | from) % WORD == 0 && words < at_once && n / at_once < INT32_MAX) {
        void *word_args[] = {w, &n, &words, &dst, &src};
        return nck_cuda_launch(at, k->copy_words, (uint32_t)nc_ceil_div(n, at_once), THREADS, word_args);
    }
    nck_cuda_tiles t = nck_cuda_tiles_of(rows, to % WORD == 0 ? nc_ceil_div(bytes, WORD) : bytes / WORD + 2);
    void *args[] = {w, &rows, &bytes, &t.count, &t.across, &dst, &src};
    return nck_cuda_launch_tiles(at, k->copy_rows, &t, args);
}

/* The dim whose elements lie side by side in src, where those of the last one do in dst; -1: none worth a tile. */
static int64_t turned_dim(const nck_cuda_walk *w) {
    int64_t last = w->rank - 1;
    if (w->strides[0][last] != 1 || w->strides[1][last] == 1 || w->dims[last] < TILE_ROWS) return -1;
    for (int64_t d = 0; d < last; d++)
        if (w->strides[1][d] == 1 && w->dims[d] >= TILE_ROWS) return d;
    return -1;
}

static nc_code turn_tiles(const nck_cuda_move *k, nck_cuda_at at, const nck_cuda_walk *w, int64_t d, const void *src,
                          void *dst) {
    nck_cuda_walk outer = {.rank = 0};
    int64_t last = w->rank - 1, n_outer = 1, R = w->dims[d], C = w->dims[last];
    int64_t dst_step = w->strides[0][d], src_step = w->strides[1][last];
    for (int64_t i = 0; i < last; i++) {
        if (i == d) continue;
        outer.dims[outer.rank] = w->dims[i];
        for (int s = 0; s < 2; s++) outer.strides[s][outer.rank] = w->strides[s][i];
        n_outer *= w->dims[i];
        outer.rank++;
    }
    if (outer.rank == 0) outer.dims[outer.rank++] = 1;
    int64_t tiles = n_outer * nc_ceil_div(R, TILE) * nc_ceil_div(C, TILE);
    void *args[] = {&outer, &n_outer, &R, &C, &dst_step, &src_step, &dst, &src};
    return at.device->table->launch_function(at.device, at.stream, k->turn,
                                             (nc_dim3){nck_cuda_blocks(at.device, tiles, 1), 1, 1},
                                             (nc_dim3){TILE, TILE_ROWS, 1}, 0, args, at.diag);
}

nc_code nck_cuda_copy(const nck_cuda_move *k, nck_cuda_at at, int rank, const int64_t *dims, const void *src,
                      const int64_t *src_strides, void *dst, const int64_t *dst_strides) {
    nck_cuda_walk w = nck_cuda_walk_of(rank, dims, dst_strides, src_strides);
    int64_t n = 1;
    for (int64_t d = 0; d < w.rank; d++) n *= w.dims[d];
    if (n == 0) return NC_OK;
    if (w.rank == 1 && (n == 1 || (w.strides[0][0] == 1 && w.strides[1][0] == 1)))
        return at.device->table->copy(at.device, at.stream, dst, false, src, false, (size_t)n * k->bytes, at.diag);
    int64_t turned = k->bytes < 16 ? turned_dim(&w) : -1;
    if (turned >= 0) return turn_tiles(k, at, &w, turned, src, dst);
    if (w.rank > 1 && in_rows(&w, k->bytes)) return copy_rows(k, at, &w, src, dst);
    if (k->bytes == 16) {
        if (!halve(&w)) return nc_diag_set(at.diag, NC_E_LIMIT, NULL, NULL, "a copy of too many dims");
        n *= 2;
    }
    void *args[] = {&w, &n, &dst, &src};
    return nck_cuda_launch(at, k->copy, nck_cuda_blocks(at.device, n, THREADS), THREADS, args);
}

nc_code nck_cuda_turn(const nck_cuda_move *k, nck_cuda_at at, int64_t n, int64_t rows, int64_t cols, const void *x,
                      void *y) {
    const int64_t dims[] = {n, cols, rows}, from[] = {rows * cols, 1, cols}, to[] = {rows * cols, rows, 1};
    return nck_cuda_copy(k, at, 3, dims, x, from, y, to);
}

nc_code nck_cuda_fill(const nck_cuda_move *k, nck_cuda_at at, const nc_tensor *dst, const void *value) {
    uint64_t word = 0;
    if (k->bytes > sizeof word)
        return nc_diag_set(at.diag, NC_E_UNSUPPORTED, NULL, NULL, "elements of %zu bytes are not filled on a GPU",
                           k->bytes);
    memcpy(&word, value, k->bytes);
    nck_cuda_walk w = nck_cuda_walk_of(dst->rank, dst->dims, dst->strides, NULL);
    int64_t n = nc_tensor_numel(dst);
    void *data = dst->data, *args[] = {&w, &n, &data, &word};
    return nck_cuda_launch(at, k->fill, nck_cuda_blocks(at.device, n, THREADS), THREADS, args);
}

nc_code nck_cuda_at_zero_prepare(nc_device *d, size_t elem_bytes, nc_function **out, nc_diag *diag) {
    return nck_cuda_find(d, NCK_CUDA_TEXT_copy, NC_UNDEFINED, nck_cuda_move_define(elem_bytes), "copy_at_zero", out,
                         diag);
}

nc_code nck_cuda_at_zero_run(nc_function *f, const nc_call *c, const nc_tensor *x, const nc_tensor *z, void *y) {
    nck_cuda_at at = nck_cuda_at_call(c);
    nck_cuda_site site = nck_cuda_site_of(c);
    int64_t n = nc_tensor_numel(x), type = z->dtype;
    int minus = z->dtype == NC_FLOAT8E4M3FN || z->dtype == NC_FLOAT8E5M2 ? 0x80 : 0; /* the others have one 0 */
    const void *from = x->data, *zeros = z->data;
    void *args[] = {&n, &from, &zeros, &y, &minus, &type, &site};
    return nck_cuda_launch(at, f, nck_cuda_blocks(at.device, n, THREADS), THREADS, args);
}
